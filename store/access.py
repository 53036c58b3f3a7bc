"""Users and permissions, in the data directory's `access` folder and nowhere else.

The folder has mode 0700: who may read the tables may not read password hashes, and a change of password
is no version of the topology. `access.json` is replaced atomically if it still is what the change was made on, on a
file system under a lock, so that several processes can share it; `audit.jsonl` gets one line per change, without
secrets. An object store keeps each line as an object of its own, `audit/<time>-<change>.json`; there who may
read the folder is a matter of the store's policies.

`access.json` also names its newest change. So a change and its audit are one effect: a line that could
not be written then is written before the next change, which is refused as long as that cannot be done.

Passwords are kept in RabbitMQ's format, base64(salt + hash(salt + password)) with a salt of 4 bytes, so
that users travel in definitions files in both directions.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any, Final, Literal, TypeVar

from bindery.router.errors import InvalidDeclaration, InvalidInput, NotFound, StorageFailed, UnsupportedTable
from bindery.router.regex import regex
from bindery.store import effects
from bindery.store.places import LocalPlace, Place, at
from bindery.store.tables import attempts

_LOGGER: Final = logging.getLogger(__name__)
FORMAT_VERSION: Final = 1
SALT_BYTES: Final = 4
#: Hashing algorithms by the name that RabbitMQ gives them.
ALGORITHMS: Final[Mapping[str, Callable[..., Any]]] = {
    "rabbit_password_hashing_sha256": hashlib.sha256,
    "rabbit_password_hashing_sha512": hashlib.sha512,
    # never used for a new hash: users of old definitions files can still log in
    "rabbit_password_hashing_md5": partial(hashlib.md5, usedforsecurity=False),
}
DEFAULT_ALGORITHM: Final = "rabbit_password_hashing_sha256"
MAX_NAME_BYTES: Final = 255
#: Seconds for which users and permissions on an object store are taken to be what they were.
_LOOK_SECONDS: Final = 1.0
#: Bytes that are read for each line of the audit; lines have names in them, and are far shorter in general.
_AUDIT_BYTES: Final = 1_024

#: How an object is touched; each has its own expression in a permission.
Operation = Literal["configure", "write", "read"]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class User:
    """A user; an empty `password_hash` can never log in."""

    name: str
    password_hash: str = ""
    hashing_algorithm: str = DEFAULT_ALGORITHM
    tags: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)

    def accepts(self, password: str) -> bool:
        """Whether that is the user's password; takes the same time whatever the answer."""
        try:
            stored = base64.b64decode(self.password_hash, validate=True)
        except binascii.Error:
            stored = b""
        salted = stored[:SALT_BYTES] + password.encode("utf-8", "surrogatepass")
        hashed = ALGORITHMS[self.hashing_algorithm](salted).digest()
        return hmac.compare_digest(stored[SALT_BYTES:], hashed) and bool(stored)


@dataclass(frozen=True, slots=True)
class Permission:
    """What a user may do in a vhost: a regular expression on names per kind of operation."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str

    def allows(self, operation: Operation, name: str) -> bool:
        """Whether the operation is allowed on an object of that name ("amq.default": the default exchange).

        An empty expression allows nothing but the empty name, as in RabbitMQ.
        """
        return regex(getattr(self, operation) or "^$").found_in(name)


@dataclass(frozen=True, slots=True)
class TopicPermission:
    """Which routing keys a user may use with a topic exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str

    def allows(self, operation: Literal["write", "read"], routing_key: str) -> bool:
        """Whether the routing key is allowed."""
        return regex(getattr(self, operation) or "^$").found_in(routing_key)


@dataclass(frozen=True, slots=True)
class Access:
    """All users and permissions at one moment."""

    users: Mapping[str, User] = field(default_factory=dict)
    permissions: Mapping[tuple[str, str], Permission] = field(default_factory=dict)
    topic_permissions: Mapping[tuple[str, str, str], TopicPermission] = field(default_factory=dict)

    def user(self, name: str) -> User:
        """The user of that name; raises NotFound."""
        try:
            return self.users[name]
        except KeyError:
            raise NotFound(f"no user {name!r}", where="user") from None

    def permission(self, vhost: str, user: str) -> Permission | None:
        """The permission of a user in a vhost."""
        return self.permissions.get((vhost, user))

    @property
    def vhosts(self) -> frozenset[str]:
        """The vhosts in which anybody has a permission."""
        return frozenset(key[0] for key in (*self.permissions, *self.topic_permissions))

    def vhosts_of(self, user: str) -> frozenset[str]:
        """The vhosts in which a user has a permission."""
        return frozenset(vhost for vhost, name in self.permissions if name == user)


class AccessEditor:
    """Changes to users and permissions; each operation checks before it changes anything."""

    def __init__(self, base: Access) -> None:
        self.users = dict(base.users)
        self.permissions = dict(base.permissions)
        self.topic_permissions = dict(base.topic_permissions)

    def put_user(self, user: User) -> bool:
        """Create or replace a user; True when new."""
        _check_name(user.name, "user")
        check_hash(user.password_hash, user.hashing_algorithm)
        created = user.name not in self.users
        self.users[user.name] = user
        return created

    def delete_user(self, name: str) -> None:
        """Delete a user and every permission of theirs; raises NotFound."""
        if self.users.pop(name, None) is None:
            raise NotFound(f"no user {name!r}", where="user")
        self._drop(lambda item: item.user == name)

    def put_permission(self, permission: Permission) -> bool:
        """Grant a permission; True when there was none."""
        self._check(permission, ("configure", "write", "read"))
        key = (permission.vhost, permission.user)
        created = key not in self.permissions
        self.permissions[key] = permission
        return created

    def delete_permission(self, vhost: str, user: str) -> None:
        """Revoke a permission; raises NotFound."""
        if self.permissions.pop((vhost, user), None) is None:
            raise NotFound(f"no permission of user {user!r} in vhost {vhost!r}", where="permission")

    def put_topic_permission(self, permission: TopicPermission) -> bool:
        """Grant a topic permission; True when there was none for that exchange."""
        self._check(permission, ("write", "read"))
        key = (permission.vhost, permission.user, permission.exchange)
        created = key not in self.topic_permissions
        self.topic_permissions[key] = permission
        return created

    def delete_topic_permissions(self, vhost: str, user: str) -> None:
        """Revoke every topic permission of a user in a vhost; raises NotFound when there is none."""
        held = [key for key in self.topic_permissions if key[:2] == (vhost, user)]
        if not held:
            raise NotFound(f"no topic permission of user {user!r} in vhost {vhost!r}", where="permission")
        for key in held:
            del self.topic_permissions[key]

    def forget_vhost(self, vhost: str) -> None:
        """Revoke everything in a vhost that was deleted."""
        self._drop(lambda item: item.vhost == vhost)

    def result(self) -> Access:
        """The state after the changes."""
        return Access(self.users, self.permissions, self.topic_permissions)

    def _drop(self, gone: Callable[[Permission | TopicPermission], bool]) -> None:
        self.permissions = {key: item for key, item in self.permissions.items() if not gone(item)}
        self.topic_permissions = {key: item for key, item in self.topic_permissions.items() if not gone(item)}

    def _check(self, permission: Permission | TopicPermission, operations: tuple[str, ...]) -> None:
        if permission.user not in self.users:
            raise NotFound(f"no user {permission.user!r}", where="user")
        for operation in operations:
            try:
                regex(getattr(permission, operation))
            except InvalidInput as error:
                raise InvalidDeclaration(error.message, where=operation, hint=error.hint) from None


class AccessStore:
    """The users and permissions of one data directory; usable from any thread and process."""

    def __init__(self, folder: str) -> None:
        """Make the folder, and make it private. Raises StorageFailed."""
        self._folder = at(folder)
        self._file = self._folder / "access.json"
        self._threads = threading.Lock()
        self._cached: tuple[tuple[object, ...], Access] | None = None
        #: When the file was last looked at, on the monotonic clock.
        self._looked = -math.inf
        effects.make_folder(self._folder, mode=0o700)
        effects.restrict(self._folder, 0o700)

    def load(self) -> Access:
        """The state now, on an object store as it was a second ago; one look at the file while nothing has changed.

        Raises UnsupportedTable when the file is damaged or of a newer version, StorageFailed when it cannot be read.
        """
        cached, now = self._cached, time.monotonic()
        if cached is not None and self._file.is_remote and now - self._looked < _LOOK_SECONDS:
            return cached[1]
        with effects.looking(self._file):
            stat = self._file.stat()
        if stat is None:
            return Access()
        self._looked = now
        if cached is not None and cached[0] == stat.identity:
            return cached[1]
        access, _, _ = _read(self._file)
        self._cached = (stat.identity, access)
        return access

    def edit(self, change: Callable[[AccessEditor], Result], *, author: str, action: str) -> Result:
        """Apply a change and make it durable; what the change gives or raises is passed on.

        `action` says for the audit what was done, in words without secrets. Raises StorageFailed when
        nothing was changed, CommitUnknown when nobody can tell.
        """
        with self._threads, effects.locked(self._folder / "lock"):
            for _ in attempts(str(self._file)):
                access, before, identity = _read(self._file)
                editor = AccessEditor(access)
                result = change(editor)
                if before is not None:
                    self._note(before)
                entry = {
                    "at_ms": time.time_ns() // 1_000_000,
                    "user": author,
                    "action": action,
                    "change": secrets.token_hex(8),
                }
                if effects.replace_same(self._file, _as_json(editor.result(), entry), identity, mode=0o600):
                    break
            self._looked = -math.inf
            try:
                self._note(entry)
            except StorageFailed as error:
                _LOGGER.warning("the audit line of %r follows with the next change: %s", action, error.message)
        return result

    def audit(self, *, limit: int) -> list[dict[str, Any]]:
        """The newest changes, so many at most, the newest first: `at_ms`, `user`, `action` and `change` of each.

        A line that was cut short is not among them: it was written again. Raises StorageFailed.
        """
        audit = self._folder / "audit.jsonl"
        if isinstance(audit, LocalPlace):
            lines = (effects.read(audit, last=limit * _AUDIT_BYTES) or b"").split(b"\n")
        else:
            folder = self._folder / "audit"
            with effects.looking(folder):
                lines = [(folder / name).read() or b"" for name in sorted(folder.files())[-limit:]]
        return [entry for line in reversed(lines) if (entry := _entry(line)) is not None][:limit]

    def _note(self, entry: Mapping[str, Any]) -> None:
        """Write a change's line into the audit, unless it is the last one there; on an object store as an object."""
        line = json.dumps(entry, sort_keys=True)
        audit = self._folder / "audit.jsonl"
        if not isinstance(audit, LocalPlace):
            effects.put_new(self._folder / "audit" / f"{entry['at_ms']}-{entry['change']}.json", line.encode())
            return
        last = effects.read(audit, last=len(line) + 1) or b""
        if last != f"{line}\n".encode():
            # a line that a full disk has cut short is ended first
            effects.append_line(audit, line if last[-1:] in (b"", b"\n") else f"\n{line}", mode=0o600)


def _entry(line: bytes) -> dict[str, Any] | None:
    """A line of the audit; None for one that is not whole."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and entry.keys() >= {"at_ms", "user", "action"} else None


def hash_password(password: str, *, algorithm: str = DEFAULT_ALGORITHM) -> str:
    """The salted hash of a password, in RabbitMQ's format; raises InvalidDeclaration for other algorithms."""
    check_hash("", algorithm)
    salt = secrets.token_bytes(SALT_BYTES)
    salted = salt + password.encode("utf-8", "surrogatepass")
    return base64.b64encode(salt + ALGORITHMS[algorithm](salted).digest()).decode()


def check_hash(password_hash: str, algorithm: str) -> None:
    """Refuse a hash that no password could ever match; raises InvalidDeclaration."""
    if algorithm not in ALGORITHMS:
        raise InvalidDeclaration(
            f"hashing algorithm {algorithm!r}", where="hashing_algorithm", hint="one of " + ", ".join(ALGORITHMS)
        )
    if not password_hash:
        return
    try:
        size = len(base64.b64decode(password_hash, validate=True))
    except (binascii.Error, ValueError):
        raise InvalidDeclaration("the password hash is not base64", where="password_hash") from None
    if size != SALT_BYTES + ALGORITHMS[algorithm]().digest_size:
        raise InvalidDeclaration(f"a hash of {size} bytes does not fit {algorithm}", where="password_hash")


def with_password(user: User, password: str) -> User:
    """The user with that password, freshly salted."""
    return replace(user, password_hash=hash_password(password, algorithm=user.hashing_algorithm))


def _check_name(name: str, what: str) -> None:
    if not name or len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        raise InvalidDeclaration(f"the {what} name is empty or too long", where=what, hint="1 to 255 bytes of UTF-8")


def _as_json(access: Access, newest_change: Mapping[str, Any]) -> bytes:
    content = {
        "format_version": FORMAT_VERSION,
        "users": [asdict(user) for user in access.users.values()],
        "permissions": [asdict(permission) for permission in access.permissions.values()],
        "topic_permissions": [asdict(permission) for permission in access.topic_permissions.values()],
        "newest_change": newest_change,
    }
    return json.dumps(content, indent=1, sort_keys=True).encode()


def _read(path: Place) -> tuple[Access, Mapping[str, Any] | None, tuple[object, ...] | None]:
    """What is stored, its newest change, and the file's identity; empty before the first change.

    Older versions did not name their changes.
    """
    with effects.looking(path):
        known = path.known()
    if known is None:
        return Access(), None, None
    content, identity = known
    try:
        raw = json.loads(content)
        version = raw["format_version"]
        if version > FORMAT_VERSION:
            raise UnsupportedTable(
                f"{path.name} has format version {version}", where=str(path), hint="use a newer Bindery"
            )
        users = [_from_json(User, item) for item in raw["users"]]
        permissions = [_from_json(Permission, item) for item in raw["permissions"]]
        topics = [_from_json(TopicPermission, item) for item in raw["topic_permissions"]]
        newest: Mapping[str, Any] | None = raw.get("newest_change")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnsupportedTable(f"{path.name} is damaged: {error}", where=str(path)) from None
    access = Access(
        {user.name: user for user in users},
        {(item.vhost, item.user): item for item in permissions},
        {(item.vhost, item.user, item.exchange): item for item in topics},
    )
    return access, newest, identity


Row = TypeVar("Row", User, Permission, TopicPermission)


def _from_json(kind: type[Row], raw: Mapping[str, Any]) -> Row:
    known = {member.name for member in fields(kind)}
    content: dict[str, Any] = {key: tuple(value) if key == "tags" else value for key, value in raw.items()}
    return kind(**{key: value for key, value in content.items() if key in known})
