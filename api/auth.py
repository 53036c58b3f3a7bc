"""Who calls: HTTP basic credentials or a session of the console, tags, and what a user may do in a vhost.

Tags decide what a user may call at all (administrator > monitoring > policymaker > management);
permissions decide, per vhost and by name, what they may configure, write and read.
"""

from __future__ import annotations

import base64
import binascii
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from fastapi import Request

from bindery.api.errors import Refusal, Unauthenticated, access_refused, login_failed, object_not_found
from bindery.api.sessions import CONSOLE_HEADER, Sessions, is_live, token_of
from bindery.store.access import Access, Operation, User, hash_password

log = logging.getLogger("bindery.api")

Role = Literal["management", "policymaker", "monitoring", "administrator"]
#: Each role is held by every tag listed for it, as in RabbitMQ.
ROLES: Final[dict[Role, frozenset[str]]] = {
    "management": frozenset({"management", "policymaker", "monitoring", "administrator"}),
    "policymaker": frozenset({"policymaker", "administrator"}),
    "monitoring": frozenset({"monitoring", "administrator"}),
    "administrator": frozenset({"administrator"}),
}
#: The name under which permissions know the default exchange.
DEFAULT_EXCHANGE: Final = "amq.default"
MAX_CREDENTIALS: Final = 4_096
_REMEMBERED: Final = 10_000
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Identity:
    """A user who has logged in, with the permissions of that moment."""

    user: User
    access: Access

    @property
    def name(self) -> str:
        """The user's name, the author of what they change."""
        return self.user.name

    def has(self, role: Role) -> bool:
        """Whether one of the user's tags gives that role."""
        return not ROLES[role].isdisjoint(self.user.tags)

    def require(self, role: Role) -> None:
        """Raise 401 unless the user has the role."""
        if not self.has(role):
            raise access_refused(f"Not {role} user")

    def sees(self, vhost: str) -> bool:
        """Whether the vhost exists for this user: a permission in it, or a role that sees everything."""
        return (vhost, self.name) in self.access.permissions or self.has("monitoring")

    def require_sight(self, vhost: str) -> None:
        """Raise 404 for a vhost that this user may not see."""
        if not self.sees(vhost):
            raise object_not_found()

    def may(self, operation: Operation, vhost: str, name: str) -> bool:
        """Whether the user's permission in the vhost allows the operation on that name."""
        permission = self.access.permission(vhost, self.name)
        return permission is not None and permission.allows(operation, name or DEFAULT_EXCHANGE)

    def check(self, operation: Operation, vhost: str, name: str) -> None:
        """Raise 401 unless the user's permission in the vhost allows the operation on that name."""
        if not self.may(operation, vhost, name):
            raise access_refused()

    def check_topic(self, operation: Literal["write", "read"], vhost: str, exchange: str, routing_key: str) -> None:
        """Raise 401 when a topic permission for the exchange does not allow the routing key."""
        permission = self.access.topic_permissions.get((vhost, self.name, exchange))
        if permission is not None and not permission.allows(operation, routing_key):
            raise access_refused()


class FailedLogins:
    """Counts failures per user and address; too many in a row are paused, and the oldest are forgotten."""

    def __init__(self, *, limit: int, pause: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._pause = pause
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    @property
    def remembered(self) -> int:
        """How many users and addresses are remembered: 10,000 at most."""
        return len(self._failures)

    def check(self, user: str, address: str) -> None:
        """Raise 429 while the pause lasts."""
        count, since = self._failures.get((user, address), (0, 0.0))
        remaining = since + self._pause - self._clock()
        if count >= self._limit and remaining > 0:
            raise Refusal(
                429,
                "too_many_requests",
                "too many failed logins",
                headers={"retry-after": str(int(remaining) + 1)},
            )

    def failed(self, user: str, address: str) -> None:
        """Count a failure."""
        with self._lock:
            count, since = self._failures.pop((user, address), (0, 0.0))
            expired = self._clock() - since > self._pause
            self._failures[user, address] = (1 if expired else count + 1, self._clock())
            while len(self._failures) > _REMEMBERED:
                self._failures.popitem(last=False)

    def succeeded(self, user: str, address: str) -> None:
        """Forget the failures of a user who got in."""
        if (user, address) in self._failures:
            with self._lock:
                self._failures.pop((user, address), None)


#: Verified in place of a user that does not exist, so that both take the same time.
_NOBODY: Final = User("", hash_password("nobody"))


def identify(request: Request, access: Access, failures: FailedLogins, sessions: Sessions) -> Identity:
    """The user behind a request's basic credentials or, of a page of the console, behind its session.

    Raises Unauthenticated without either, Refusal for wrong credentials (401), after too many failures
    (429), and for a change that a page of another origin sent with what a browser has stored (403).
    """
    if "authorization" not in request.headers and CONSOLE_HEADER in request.headers:
        token = token_of(request)
        user = None if token is None else sessions.user(token, access, live=is_live(request))
        if user is None:
            raise Unauthenticated
    else:
        name, password = _credentials(request)
        user = log_in(name, password, request, access, failures)
    refuse_foreign_origin(request)
    return Identity(user, access)


def log_in(name: str, password: str, request: Request, access: Access, failures: FailedLogins) -> User:
    """The user of that name and password; raises Refusal for wrong ones (401) and after too many failures (429)."""
    address = request.client.host if request.client else ""
    failures.check(name, address)
    user = access.users.get(name)
    accepted = (user or _NOBODY).accepts(password)
    if user is None or not accepted:
        failures.failed(name, address)
        log.warning("failed login of %r from %s", name[:64], address)
        raise login_failed()
    failures.succeeded(name, address)
    return user


def _credentials(request: Request) -> tuple[str, str]:
    header = request.headers.get("authorization", "")
    scheme, _, encoded = header.partition(" ")
    if not header or scheme.lower() != "basic":
        raise Unauthenticated
    try:
        if len(encoded) > MAX_CREDENTIALS:
            raise ValueError
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
        if not colon:
            raise ValueError
    except (binascii.Error, ValueError):
        raise login_failed() from None
    return name, password


def refuse_foreign_origin(request: Request) -> None:
    """Raise 403 for a change that a page of another origin sent."""
    if request.method in _SAFE_METHODS:
        return
    origin = request.headers.get("origin")
    if origin is None:
        # not every browser sends an origin with every form, but those of today say where it comes from
        foreign = request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    else:
        foreign = _authority(origin) != request.headers.get("host", "").lower()
    if foreign:
        raise Refusal(403, "forbidden", "changes are refused from pages of another origin")


def _authority(origin: str) -> str | None:
    """Host and port of an origin; None for what is no address."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None
