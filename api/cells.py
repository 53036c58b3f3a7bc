"""Values and bodies of messages as they are shown: each with its type, as text that is cut where it is long."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bindery.router.message import Message
from bindery.router.values import TYPE_NAMES, Opaque, Timestamp, Value, to_nested_text

_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TYPES: Final[Mapping[type, str]] = {**TYPE_NAMES, Opaque: "other"}


def cell(value: Value, characters: int) -> dict[str, Any]:
    """A value's `type` and `text`; `length` is that of the whole text where it is cut to so many characters."""
    text = text_of(value)
    shown = {"type": _TYPES.get(type(value), "other"), "text": text[:characters]}
    return shown | ({"length": len(text)} if len(text) > characters else {})


def cells(values: Mapping[str, Value], characters: int) -> dict[str, Any]:
    """The cells of a section, by name."""
    return {name: cell(value, characters) for name, value in values.items()}


def text_of(value: Value) -> str:
    """A value in words: bytes in hexadecimal, times in ISO 8601 (UTC), lists and maps as JSON, null as "null"."""
    match value:
        case None:
            return "null"
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case Timestamp():
            try:
                moment = _1970 + timedelta(milliseconds=value.ms)
            except OverflowError:
                return f"{value.ms} ms since 1970"
            return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"
        case int() | float():
            return repr(value)
    return to_nested_text(value)


def shown_body(message: Message, size: int | None, *, as_base64: bool) -> dict[str, Any]:
    """The body of a message of which the first bytes are there, of `size` (None: it has none).

    `form` is "text", "binary" (hexadecimal), "base64" where that is asked for, "value" or "list" for the other sections
    of AMQP 1.0, "none"; `bytes` counts the whole, `shown` how many of them `text` stands for.
    """
    content = message.body
    if size is None or content is None:
        other = message.amqp_value if message.amqp_value is not None else message.amqp_sequence
        if other is None:
            return {"form": "none", "text": "", "bytes": 0, "shown": 0}
        text = text_of(other)
        form = "value" if message.amqp_value is not None else "list"
        return {"form": form, "text": text, "bytes": len(text.encode()), "shown": len(text.encode())}
    if as_base64:
        return {"form": "base64", "text": base64.b64encode(content).decode(), "bytes": size, "shown": len(content)}
    whole = _whole_characters(content) if size > len(content) else content
    try:
        return {"form": "text", "text": whole.decode(), "bytes": size, "shown": len(whole)}
    except UnicodeDecodeError:
        return {"form": "binary", "text": content.hex(), "bytes": size, "shown": len(content)}


def _whole_characters(content: bytes) -> bytes:
    """The beginning of a text without the last character where that is cut in two."""
    for back in range(1, min(4, len(content)) + 1):
        first = content[-back]
        if first & 0b1100_0000 != 0b1000_0000:
            length = 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2 if first >= 0xC0 else 1
            return content if length <= back else content[:-back]
    return content
