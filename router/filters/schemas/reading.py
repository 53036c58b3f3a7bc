"""What `x-payload-schema` states, and what reads bodies by it.

A schema is one of the format's own, or an object of those of a registry by their ids:

    {"registry": {"57": schema, "58": schema}}

whose bodies begin as Confluent's wire format says: a zero byte, the id in four bytes, most significant first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from bindery.router.errors import InvalidInput
from bindery.router.filters.limits import PayloadLimits, PayloadSchema
from bindery.router.filters.schemas.avro import PRIMITIVES, AvroSchema
from bindery.router.filters.unparsable import Unparsable
from bindery.router.weighed import Weighed

#: Characters of a stated schema, as JSON text: all schemas of a registry together.
MAX_SCHEMA: Final = 1_000_000
#: Characters of the schemas that a process keeps compiled.
_COMPILED: Final = 16 * MAX_SCHEMA
_REGISTRY: Final = "registry"
_MAGIC: Final = b"\x00"
_HEADER: Final = 5


class Decoder(Protocol):
    """Reads bodies of one schema."""

    def parse(self, data: bytes, limits: PayloadLimits) -> Any:
        """The parsed body, in Python's types; raises Unparsable."""


def _avro(stated: Any) -> Decoder:
    if isinstance(stated, str) and stated not in PRIMITIVES:
        try:
            stated = json.loads(stated)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(
                f"the Avro schema is no JSON: {error}", where="", hint="the schema's JSON text, or the object itself"
            ) from None
    return AvroSchema(stated)


#: What makes the decoder of one schema as it is stated, by the formats that have schemas; raises InvalidInput.
SCHEMA_FORMATS: Final[Mapping[str, Callable[[Any], Decoder]]] = {"avro": _avro}


def read_schema(format: str, stated: Any) -> PayloadSchema:
    """The schema that JSON data states; raises InvalidInput, whose `where` is the place inside it."""
    text = json.dumps([format, stated], ensure_ascii=False, separators=(",", ":"))
    if len(text) > MAX_SCHEMA:
        raise InvalidInput(f"a schema of more than {MAX_SCHEMA:,} characters", where="")
    schema = PayloadSchema(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32], text)
    decoder(schema)
    return schema


def _compile(schema: PayloadSchema) -> Decoder:
    format, stated = json.loads(schema.text)
    make = SCHEMA_FORMATS[format]
    if not isinstance(stated, dict):
        return make(stated)
    if "file" in stated and len(stated) == 1:
        raise InvalidInput(
            "the schema is stated as a file",
            where="",
            hint="files are read by bindery apply and import, never by the service: state the schema itself",
        )
    return _Registry(format, stated[_REGISTRY]) if [*stated] == [_REGISTRY] else make(stated)


_compiled: Final = Weighed(
    lambda schema: (_compile(schema), len(schema.text)), lambda found: found[1], weight=_COMPILED, entries=1_000
)


def decoder(schema: PayloadSchema) -> Decoder:
    """What reads bodies of a schema: made once, and kept while it is used."""
    return _compiled(schema)[0]


class _Registry:
    """Schemas by their ids, and bodies that begin with one."""

    def __init__(self, format: str, stated: Any) -> None:
        where = f".{_REGISTRY}"
        if not isinstance(stated, dict) or not stated:
            raise InvalidInput("schemas of a registry are an object by their ids", where=where)
        self._schemas: dict[int, Decoder] = {}
        for name, one in stated.items():
            if not name.isascii() or not name.isdigit() or int(name) >= 2**32 or str(int(name)) != name:
                raise InvalidInput(f"{name!r} is no id of a schema", where=where, hint="a number of 32 bits")
            try:
                self._schemas[int(name)] = SCHEMA_FORMATS[format](one)
            except InvalidInput as error:
                error.where = f"{where}.{name}{error.where or ''}"
                raise

    def parse(self, data: bytes, limits: PayloadLimits) -> Any:
        """The body behind its header, by the schema that this names."""
        if len(data) < _HEADER or not data.startswith(_MAGIC):
            raise Unparsable("the body does not begin with a zero byte and the id of a schema")
        number = int.from_bytes(data[1:_HEADER], "big")
        schema = self._schemas.get(number)
        if schema is None:
            raise Unparsable(
                f"the body is of schema {number}, which is not declared; take it over by `bindery schemas pull`"
            )
        return schema.parse(data[_HEADER:], limits)
