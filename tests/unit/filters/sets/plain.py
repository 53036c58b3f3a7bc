"""Filter sets the slow way: the JSON form interpreted rule by rule, without trees, to check the real thing."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from bindery.router.equality import family_equal
from bindery.router.filters import parse
from bindery.router.message import HEADER_DEFAULTS, Message
from bindery.router.values import Table, Timestamp, Value, decode
from tests.unit.filters import plain

_TEXTS = {"amqp:sql-filter": "amqp-sql", "apache.org:selector-filter:string": "apache-selector"}
_MAPS = {
    f"amqp:{name.replace('_', '-')}-filter": name
    for name in ("application_properties", "message_annotations", "delivery_annotations", "footer")
}


def accepts(raw: dict[str, Any], message: Message, owner: str | None = None) -> bool:
    return all(_accepts(one["descriptor"], one["value"], message, owner) for one in raw.values())


def _accepts(descriptor: str, value: Any, message: Message, owner: str | None) -> bool:
    kind = descriptor.removeprefix("amqp:").removeprefix("apache.org:").split(":")[0]
    if descriptor in _TEXTS:
        return plain.evaluate(parse(value, _TEXTS[descriptor]).expression, message) is True
    if descriptor in _MAPS:
        section = getattr(message, _MAPS[descriptor])
        return all(key in section and matches(decode(ref), section[key]) for key, ref in value.items())
    if kind in ("header-filter", "properties-filter"):
        content = {**HEADER_DEFAULTS, **message.header} if kind == "header-filter" else message.properties
        return all(ref is None or matches(_stated(key, decode(ref)), content.get(key)) for key, ref in value.items())
    if kind == "amqp-value-filter":
        return decode(value) in (None, (), Table()) or matches(decode(value), message.amqp_value)
    if kind == "amqp-sequence-filter":
        return value == [] or matches(decode(value), message.amqp_sequence)
    if kind in ("all-filter", "and-filter", "any-filter", "or-filter", "not-filter"):
        truths = [_accepts(one["descriptor"], one["value"], message, owner) for one in value]
        return (
            not any(truths)
            if kind == "not-filter"
            else any(truths)
            if kind[:2] in ("an", "or") and (kind != "and-filter")
            else all(truths)
        )
    if kind == "no-local-filter":
        return owner is None or message.connection is None or message.connection != owner
    subject = message.properties.get("subject")
    if kind == "legacy-amqp-direct-binding":
        return subject == value
    if kind == "legacy-amqp-topic-binding":
        return value == "#" if subject is None else topic(value, str(subject))
    return _headers(value, message.application_properties)


def _stated(field: str, ref: Value) -> Value:
    """A time may be stated as bare ms."""
    return Timestamp(ref) if field.endswith("_time") and isinstance(ref, int) else ref


def _headers(value: dict[str, Any], properties: Table) -> bool:
    truths = [
        key in properties and (ref is None or family_equal(decode(ref), properties[key]))
        for key, ref in value.items()
        if not key.startswith("x-")
    ]
    return all(truths) if value["x-match"] == "all" else any(truths)


def topic(pattern: str, key: str) -> bool:
    """By a regular expression over words that each end with a dot."""
    words = pattern.split(".") if pattern else []
    expression = "".join(
        r"(?:[^.]*\.)*" if word == "#" else r"[^.]*\." if word == "*" else re.escape(word) + r"\." for word in words
    )
    return re.fullmatch(expression, key + "." if key else "") is not None


def matches(ref: Value, actual: Value) -> bool:
    if ref is None:
        return True
    if isinstance(ref, str):
        return isinstance(actual, str) and text_matches(ref, actual)
    if isinstance(ref, tuple):
        return isinstance(actual, tuple) and all(
            n < len(actual) and matches(item, actual[n]) for n, item in enumerate(ref)
        )
    if isinstance(ref, Table):
        return isinstance(actual, Table) and all(key in actual and matches(v, actual[key]) for key, v in ref.items())
    return family_equal(ref, actual)


def text_matches(ref: str, text: str) -> bool:
    if ref[:3] == "&S:":
        return text.endswith(ref[3:])
    if ref[:3] == "&P:":
        return text.startswith(ref[3:])
    if ref[:3] == "&s:":
        return folded(text).endswith(folded(ref[3:]))
    if ref[:3] == "&p:":
        return folded(text).startswith(folded(ref[3:]))
    if ref[:3] == "&i:":
        return folded(text) == folded(ref[3:])
    return text == (ref[1:] if ref[:2] == "&&" else ref)


def folded(text: str) -> str:
    """Simple folding of the letters that the tests use; see test_folding for all of Unicode."""
    return "".join("ß" if c == "ẞ" else c if len(c.casefold()) > 1 else c.casefold() for c in text)


assert unicodedata.unidata_version >= "14"
