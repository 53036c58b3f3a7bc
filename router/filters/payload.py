"""Bodies that filters look into: `body.amount`, `body.items[0].sku`, `body` (docs/filters.md, "The body").

What a body is must be declared (`x-payload`): nothing is guessed from content types. The body is what XPATH reads: the
data of a message or, without any, an amqp-value that is a string or binary. A message without one has no members:
they are null. A body that is not what was declared, or is beyond a limit, is trouble: unknown, and counted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NoReturn

from bindery.router.columns import Ref
from bindery.router.errors import InvalidInput
from bindery.router.filters.ast import TROUBLE, Field, Node, Trouble, walk
from bindery.router.filters.body_paths import Path
from bindery.router.filters.fields import DOCUMENT, read
from bindery.router.filters.limits import Payload, PayloadLimits, PayloadSchema
from bindery.router.filters.schemas import decoder
from bindery.router.filters.unparsable import Unparsable, too_deep, too_long, too_many
from bindery.router.message import Message
from bindery.router.spelling import did_you_mean, nearest
from bindery.router.values import INT64_MAX, INT64_MIN, Value, refuse_surrogates

#: Section name of references into bodies.
PAYLOAD: Final = "payload"
#: Digits of an integer that may fit 64 bits.
_DIGITS: Final = 19


@dataclass(frozen=True, slots=True)
class Format:
    """A format of bodies: `parse` gives the parsed body of a document within its caps, or raises Unparsable.

    members  whether a body has members; else `body` alone stands for it
    empty    whether an empty body is parsed like others; else it is as no body
    schema   whether the format has schemas, and bodies cannot be read without one
    """

    parse: Callable[[str | bytes, Payload], Any]
    members: bool
    empty: bool = False
    schema: bool = False


def parsed(document: Value, payload: Payload) -> Any:
    """The parsed body: what it states, in Python's types; None without a body. Raises Unparsable."""
    format = FORMATS[payload.format]
    if not isinstance(document, str | bytes) or not (document or format.empty):
        return None
    if len(document) > payload.limits.bytes:
        raise too_long(payload.limits)
    return format.parse(document, payload)


def _text(document: str | bytes, limits: PayloadLimits) -> str:
    if isinstance(document, str):
        if len(document.encode("utf-8", "surrogatepass")) > limits.bytes:
            raise too_long(limits)
        return document
    try:
        return document.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"the body is not UTF-8 from byte {error.start} on (compressed bodies are not read)"
        raise Unparsable(reason, "not-utf-8") from None


# -- JSON (RFC 8259) --------------------------------------------------------------------------------------


def _json(document: str | bytes, payload: Payload) -> Any:
    """A JSON text. Of a name that stands twice in an object the last counts; NaN and infinities are no JSON."""
    text, limits = _text(document, payload.limits), payload.limits
    opened = text.count("[") + text.count("{")
    try:
        found = _DECODER.decode(text)
    except RecursionError:
        raise too_deep(limits) from None
    except ValueError as error:
        # whether the parser gives up or comes as far as the error depends on who called it: the text alone decides
        if opened > limits.levels and _levels(text) > limits.levels:
            raise too_deep(limits) from None
        raise Unparsable(f"the body is not JSON: {error}") from None
    # neither bound can be passed by a text with so few marks; most bodies need no walk
    if opened > limits.levels or opened + text.count(",") >= limits.nodes:
        _check_extent(found, limits)
    if "\\u" in text:
        try:
            refuse_surrogates(found, where="body")
        except InvalidInput:
            raise Unparsable("the body holds text with a lone surrogate") from None
    return found


def _levels(text: str) -> int:
    """How deep the brackets of a text that is no JSON are nested, those within strings aside."""
    deepest = level = 0
    for mark in _BRACKETS.finditer(text):
        if mark[0] in "[{":
            level += 1
            deepest = max(deepest, level)
        elif mark[0] in "]}":
            level -= 1
    return deepest


def _check_extent(found: Any, limits: PayloadLimits) -> None:
    """Levels and nodes, level by level: what is nested deeply must not be descended into by calls."""
    level, levels, nodes = [found], 0, 0
    while level:
        nodes += len(level)
        if nodes > limits.nodes:
            raise too_many(limits)
        holders = [item for item in level if isinstance(item, dict | list)]
        levels += bool(holders)
        if levels > limits.levels:
            raise too_deep(limits)
        level = [part for item in holders for part in (item.values() if isinstance(item, dict) else item)]


def integer_of(digits: str) -> int | float:
    """A number without fraction and exponent: an integer where 64 bits hold it, else a double."""
    if len(digits.lstrip("-")) <= _DIGITS:
        number = int(digits)
        if INT64_MIN <= number <= INT64_MAX:
            return number
    return double_of(digits)


def double_of(digits: str) -> float:
    """A number with a fraction or exponent, as a double; raises ValueError beyond its range."""
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number beyond the range of a double")
    return number


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


_BRACKETS: Final = re.compile(r'[\[{\]}]|"(?:[^"\\]|\\.)*"?', re.DOTALL)
_DECODER: Final = json.JSONDecoder(parse_int=integer_of, parse_float=double_of, parse_constant=_no_number)


# -- text -------------------------------------------------------------------------------------------------


def _plain(document: str | bytes, payload: Payload) -> str:
    """The text itself."""
    return _text(document, payload.limits)


# -- formats with schemas ---------------------------------------------------------------------------------


def _by_schema(document: str | bytes, payload: Payload) -> Any:
    """A body that means nothing without its schema."""
    if isinstance(document, str):
        raise Unparsable(f"the body is text, and no {payload.format}")
    if payload.schema is None:
        raise Unparsable(f"nobody says what the schema of the {payload.format} is")
    return decoder(payload.schema).parse(document, payload.limits)


#: Formats of bodies by name.
FORMATS: Final[Mapping[str, Format]] = {
    "json": Format(_json, members=True),
    "avro": Format(_by_schema, members=True, schema=True),
    "protobuf": Format(_by_schema, members=True, empty=True, schema=True),
    "text": Format(_plain, members=False, empty=True),
}


def payload_named(name: str, limits: PayloadLimits, schema: PayloadSchema | None = None) -> Payload:
    """Bodies of the format of that name; raises InvalidInput naming those that there are, and where a schema lacks."""
    if name not in FORMATS:
        close = nearest(name.lower(), FORMATS)
        hint = did_you_mean(close, "one of " + ", ".join(FORMATS), quoted=False)
        raise InvalidInput(f"bodies that are {name!r} cannot be read", where="payload", hint=hint)
    if FORMATS[name].schema is not (schema is not None):
        said = "cannot be read without their schema" if schema is None else "have no schema"
        raise InvalidInput(f"bodies that are {name} {said}", where="payload")
    return Payload(name, limits, schema)


# -- references -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _BodyRef(Ref):
    """A reference into bodies: the name says all of it, with the schema's digest; beside it stands what it says."""

    payload: Payload = field(compare=False, repr=False, kw_only=True)
    path: Path = field(compare=False, repr=False, kw_only=True)


@lru_cache(maxsize=4096)
def reference(payload: Payload, path: Path) -> Ref:
    """The reference to a member of a body; what the body is declared to be is part of it."""
    caps, schema = payload.limits, payload.schema
    stated = [payload.format, caps.bytes, caps.levels, caps.nodes, schema and schema.digest, *path]
    return _BodyRef(PAYLOAD, json.dumps(stated, ensure_ascii=False), payload=payload, path=path)


def referred(ref: Ref) -> tuple[Payload, Path]:
    """What `reference` has made a reference of."""
    if not isinstance(ref, _BodyRef):
        raise TypeError(f"{ref} is no reference into bodies")
    return ref.payload, ref.path


def payload_of(expression: Node) -> Payload | None:
    """What the bodies are that a filter looks into; None when it looks into none."""
    refs = (node.ref for node in walk(expression) if isinstance(node, Field) and node.ref.section == PAYLOAD)
    return next((referred(ref)[0] for ref in refs), None)


def member(body: Any, path: Path) -> Value:
    """The value at a path in a parsed body: null where nothing is, and for whole lists and maps."""
    for step in path:
        if isinstance(body, dict) and isinstance(step, str):
            body = body.get(step)
        elif isinstance(body, list) and isinstance(step, int):
            body = body[step] if step < len(body) else None
        else:
            return None
    return None if isinstance(body, dict | list) else body


@dataclass(frozen=True, slots=True)
class Seen:
    """What a reference finds in one message: the value, and why it is null or trouble."""

    value: Value | Trouble
    why: str = ""


def look_up(message: Message, ref: Ref) -> Seen:
    """The value behind a reference into the body of one message, and why there is none."""
    payload, path = referred(ref)
    document = read(message, DOCUMENT)
    try:
        body = parsed(document, payload)
    except Unparsable as reason:
        return Seen(TROUBLE, str(reason))
    value = member(body, path)
    if value is not None:
        return Seen(value)
    if body is None and not document:
        return Seen(None, "the message has no body")
    return Seen(None, "the body has no value there")


# -- batches ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Steps:
    """References that share the beginning of their paths: those that end here, and the steps further in."""

    ends: list[Ref]
    further: dict[str | int, _Steps]


class Members:
    """References into bodies of one format, to be taken out of each body in one walk along what they name."""

    def __init__(self, refs: Iterable[Ref]) -> None:
        self._root = _Steps([], {})
        for ref in refs:
            steps = self._root
            for step in referred(ref)[1]:
                steps = steps.further.setdefault(step, _Steps([], {}))
            steps.ends.append(ref)

    def of(self, body: Any) -> list[tuple[Ref, Value]]:
        """The references that find a value in a parsed body, and the value."""
        found: list[tuple[Ref, Value]] = []
        pending = [(body, self._root)]
        while pending:
            item, steps = pending.pop()
            if isinstance(item, dict):
                fewer, others = (steps.further, item) if len(steps.further) <= len(item) else (item, steps.further)
                pending += [(item[name], steps.further[name]) for name in fewer if name in others]
            elif isinstance(item, list):
                places = (step for step in steps.further if isinstance(step, int) and step < len(item))
                pending += [(item[place], steps.further[place]) for place in places]
            elif item is not None:
                found += [(ref, item) for ref in steps.ends]
        return found
