"""Secrets that stand in parameters, such as the passwords of upstream addresses: shown to administrators only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bindery.api.auth import Identity
from bindery.router.regex import Regex

MASK: Final = "***"
#: user:password@ in an address; everything up to the last @ of its authority is the password.
_ADDRESS: Final = Regex(r"(://[^/?#\s:@]*:)[^/?#\s]*@")
#: Members whose value is a secret whatever it looks like.
_SECRET_NAME: Final = Regex(r"passw(or)?d|passphrase|secret|token|credential|private.?key|api.?key", ignore_case=True)


def masked_for(identity: Identity, content: Any) -> Any:
    """JSON content as this caller may see it: as it is for administrators, without secrets for others."""
    return content if identity.has("administrator") else masked(content)


def masked(content: Any) -> Any:
    """JSON content in which passwords of addresses, and members that are named like secrets, are masked."""
    if isinstance(content, str):
        return _ADDRESS.replaced(content, rf"\1{MASK}@")
    if isinstance(content, Mapping):
        return {
            key: MASK if _SECRET_NAME.found_in(key) and value not in (None, "") else masked(value)
            for key, value in content.items()
        }
    if isinstance(content, list | tuple):
        return [masked(item) for item in content]
    return content
