"""Logins of the console: who a browser's cookie stands for, until it ends.

A session is a random token of 256 bits in a cookie that scripts cannot read (`HttpOnly`) and that no other site can
send (`SameSite=Strict`). Only a hash of it is kept, in the memory of this process: whoever restarts the service ends
every session. A session also ends with its user, with their password, after a time without use and after a longer one
in any case, and when it is ended (docs/console.md, "Login").

A request takes part in a session only when it has the header `x-bindery-console`, which no form and no link can send.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from fastapi import Request, Response

from bindery.store.access import Access, User

#: Header of the console's requests; `LIVE` in it says that nobody asked for them: they do not keep a session alive.
CONSOLE_HEADER: Final = "x-bindery-console"
LIVE: Final = "live"
_REMEMBERED: Final = 10_000
_TOKEN_BYTES: Final = 32
_LONGEST_TOKEN: Final = 128


@dataclass(frozen=True, slots=True)
class _Session:
    """Whose session it is, with which password it was begun, and when it was begun and used (seconds of the clock)."""

    name: str
    password_hash: str
    begun: float
    used: float


class Sessions:
    """The sessions of this process, the 10,000 that were used last; safe between threads.

    idle     seconds without use after which a session ends
    longest  seconds after which it ends in any case
    """

    def __init__(self, *, idle: float, longest: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle = idle
        self._longest = longest
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()

    @property
    def remembered(self) -> int:
        """How many sessions are remembered."""
        return len(self._sessions)

    def begin(self, user: User) -> str:
        """A token for a user who has given the right password."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        now = self._clock()
        with self._lock:
            self._sessions[_hashed(token)] = _Session(user.name, user.password_hash, now, now)
            while len(self._sessions) > _REMEMBERED:
                self._sessions.popitem(last=False)
        return token

    def user(self, token: str, access: Access, *, live: bool = False) -> User | None:
        """The user whose session a token stands for; None when it has ended. `live` does not count as use."""
        if len(token) > _LONGEST_TOKEN:
            return None
        key, now = _hashed(token), self._clock()
        with self._lock:
            session = self._sessions.get(key)
            if session is None:
                return None
            user = access.users.get(session.name)
            if (
                user is None
                or user.password_hash != session.password_hash
                or now - session.used > self._idle
                or now - session.begun > self._longest
            ):
                del self._sessions[key]
                return None
            if not live:
                self._sessions[key] = replace(session, used=now)
                self._sessions.move_to_end(key)
        return user

    def end(self, token: str) -> None:
        """End a session; nothing happens when there is none."""
        with self._lock:
            self._sessions.pop(_hashed(token), None)


def token_of(request: Request) -> str | None:
    """The token of a request that takes part in a session; None for one that does not."""
    return request.cookies.get(_cookie(request)) if CONSOLE_HEADER in request.headers else None


def is_live(request: Request) -> bool:
    """Whether a page sent the request by itself, to show what is new."""
    return request.headers.get(CONSOLE_HEADER) == LIVE


def keep(request: Request, response: Response, token: str) -> None:
    """Give a browser its token, until it is closed."""
    response.set_cookie(
        _cookie(request), token, path="/", secure=request.url.scheme == "https", httponly=True, samesite="strict"
    )


def drop(request: Request, response: Response) -> None:
    """Take it away."""
    response.delete_cookie(
        _cookie(request), path="/", secure=request.url.scheme == "https", httponly=True, samesite="strict"
    )


def _cookie(request: Request) -> str:
    """The name of the cookie: browsers tell services on one host by their names alone, not by their ports.

    With TLS the prefix makes browsers refuse one that somebody else in the domain has set (RFC 6265bis, section 4.1.3).
    """
    url = request.url
    return f"__Host-bindery-{url.port or 443}" if url.scheme == "https" else f"bindery-{url.port or 80}"


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
