"""Users and permissions of a definitions document, applied to those that there are."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from bindery.router.definitions import Definitions
from bindery.router.errors import InvalidInput
from bindery.store.access import (
    DEFAULT_ALGORITHM,
    SALT_BYTES,
    AccessEditor,
    Permission,
    TopicPermission,
    User,
    with_password,
)

#: Old documents do not name the algorithm: the length of the hash tells it.
_BY_SIZE: Final = {
    16: "rabbit_password_hashing_md5",
    32: "rabbit_password_hashing_sha256",
    64: "rabbit_password_hashing_sha512",
}


def apply_access(definitions: Definitions, editor: AccessEditor) -> None:
    """Put every user and permission of the document; what exists is replaced, nothing is deleted.

    Raises InvalidInput naming the object that is wrong.
    """
    for number, raw in enumerate(definitions.users):
        editor.put_user(_user(raw, f"users[{number}]"))
    for number, raw in enumerate(definitions.permissions):
        where = f"permissions[{number}]"
        fields = (_text(raw, name, where) for name in ("user", "vhost", "configure", "write", "read"))
        editor.put_permission(Permission(*fields))
    for number, raw in enumerate(definitions.topic_permissions):
        where = f"topic_permissions[{number}]"
        fields = (_text(raw, name, where) for name in ("user", "vhost", "exchange", "write", "read"))
        editor.put_topic_permission(TopicPermission(*fields))


def _user(raw: Mapping[str, Any], where: str) -> User:
    name = _text(raw, "name", where)
    tags = raw.get("tags", ())
    listed = tags.split(",") if isinstance(tags, str) else tags
    if not isinstance(listed, list | tuple) or not all(isinstance(tag, str) for tag in listed):
        raise InvalidInput("tags are an array of strings", where=f"{where}.tags")
    limits = raw.get("limits") or {}
    if not isinstance(limits, Mapping) or not all(type(limit) is int for limit in limits.values()):
        raise InvalidInput("limits are integers", where=f"{where}.limits")
    user = User(name, tags=tuple(tag.strip() for tag in listed if tag.strip()), limits=dict(limits))
    if isinstance(raw.get("password"), str):
        return with_password(user, raw["password"])
    password_hash = _text(raw, "password_hash", where) if raw.get("password_hash") else ""
    algorithm = raw.get("hashing_algorithm") or algorithm_of(password_hash)
    if not isinstance(algorithm, str):
        raise InvalidInput("expected a string", where=f"{where}.hashing_algorithm")
    return User(user.name, password_hash, algorithm, user.tags, user.limits)


def algorithm_of(password_hash: str) -> str:
    """The algorithm that makes hashes of that length; the default one where none does."""
    try:
        size = len(base64.b64decode(password_hash, validate=True)) - SALT_BYTES
    except (binascii.Error, ValueError):
        return DEFAULT_ALGORITHM
    return _BY_SIZE.get(size, DEFAULT_ALGORITHM)


def _text(raw: Mapping[str, Any], name: str, where: str) -> str:
    value = raw.get(name)
    if not isinstance(value, str):
        raise InvalidInput("expected a string", where=f"{where}.{name}")
    return value
