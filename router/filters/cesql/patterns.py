"""Patterns of LIKE in CloudEvents SQL: a backslash escapes `%` and `_`, and is itself before anything else (§3.4.3)."""

from __future__ import annotations

import re
from typing import Final

from bindery.router.filters import like

ESCAPE: Final = "\\"
#: What the text of a boolean or integer may begin with.
_TEXTS: Final = ("true", "false")
_PLAIN: Final = re.compile(r"\\(?![%_])")


def escaped_pattern(written: str) -> str:
    """The pattern with an escape before every literal backslash, too."""
    return _PLAIN.sub(r"\\\\", written)


def written_pattern(escaped: str) -> str:
    """The pattern as it is written; the reverse of `escaped_pattern`."""
    return escaped.replace(r"\\", "\\")


def asks_for_text(escaped: str) -> bool:
    """Whether no boolean's and no integer's text fits, so that a value need not be cast to be matched."""
    pattern = like.compile_pattern(escaped, ESCAPE)
    head = like.literal_prefix(pattern) if pattern else ""
    return head != "" and head[0] not in "-0123456789" and not any(text.startswith(head) for text in _TEXTS)


def is_only_text(value: str) -> bool:
    """Whether a string is no boolean's and no integer's text, so that a value need not be cast to be compared."""
    return re.fullmatch("-?[0-9]+|true|false", value) is None
