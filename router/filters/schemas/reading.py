"""What `x-payload-schema` states, and what reads bodies by it.

A schema is one of the format's own, or an object of those of a registry by their ids:

    {"registry": {"57": schema, "58": schema}}

whose bodies begin as Confluent's wire format says: a zero byte, the id in four bytes, most significant first; of
protobuf then the place of the message type in the schema.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bindery.router.errors import InvalidInput
from bindery.router.filters.limits import PayloadLimits, PayloadSchema
from bindery.router.filters.schemas.avro import PRIMITIVES, AvroSchema
from bindery.router.filters.schemas.protobuf import ProtobufSchema
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


def _avro(stated: Any, type: str | None) -> Decoder:
    if isinstance(stated, str) and stated not in PRIMITIVES:
        try:
            stated = json.loads(stated)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(
                f"the Avro schema is no JSON: {error}", where="", hint="the schema's JSON text, or the object itself"
            ) from None
    return AvroSchema(stated)


def _protobuf(stated: Any, type: str | None) -> Decoder:
    schema = ProtobufSchema(stated)
    return schema if type is None else schema.of_type(type)


@dataclass(frozen=True, slots=True)
class SchemaFormat:
    """A format of bodies that have schemas: `make` gives the decoder of one as it is stated, or raises InvalidInput.

    typed  whether a schema has several types, of which one is named beside it
    """

    make: Callable[[Any, str | None], Decoder]
    typed: bool = False


#: The formats that have schemas.
SCHEMA_FORMATS: Final[Mapping[str, SchemaFormat]] = {
    "avro": SchemaFormat(_avro),
    "protobuf": SchemaFormat(_protobuf, typed=True),
}


def read_schema(format: str, stated: Any, type: str | None = None) -> PayloadSchema:
    """The schema that JSON data states; raises InvalidInput, whose `where` is the place inside it.

    `type` names the type of which bodies are; bodies with the id of a schema of a registry say it themselves. What is
    wrong with the type alone has no place.
    """
    of_registry = isinstance(stated, dict) and [*stated] == [_REGISTRY]
    if SCHEMA_FORMATS[format].typed and not of_registry and type is None:
        raise InvalidInput("nobody says of which type bodies are", where=None, hint="name a message type in full")
    if type is not None and (of_registry or not SCHEMA_FORMATS[format].typed):
        said = "bodies of a registry say their type themselves" if of_registry else f"a schema of {format} is its type"
        raise InvalidInput(said, where=None, hint="leave the type out")
    text = json.dumps([format, stated, type], ensure_ascii=False, separators=(",", ":"))
    if len(text) > MAX_SCHEMA:
        raise InvalidInput(f"a schema of more than {MAX_SCHEMA:,} characters", where="")
    schema = PayloadSchema(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32], text)
    decoder(schema)
    return schema


def _compile(schema: PayloadSchema) -> Decoder:
    format, stated, type = json.loads(schema.text)
    make = SCHEMA_FORMATS[format].make
    if not isinstance(stated, dict):
        return make(stated, type)
    if "file" in stated and len(stated) == 1:
        raise InvalidInput(
            "the schema is stated as a file",
            where="",
            hint="files are read by bindery apply and import, never by the service: state the schema itself",
        )
    return _Registry(format, stated[_REGISTRY]) if [*stated] == [_REGISTRY] else make(stated, type)


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
                self._schemas[int(name)] = SCHEMA_FORMATS[format].make(one, None)
            except InvalidInput as error:
                error.where = f"{where}.{name}{error.where or ''}"
                raise

    def parse(self, data: bytes, limits: PayloadLimits) -> Any:
        """The body behind its header, by the schema that this names."""
        if not data:
            return None  # no body: there would be a header
        if len(data) < _HEADER or not data.startswith(_MAGIC):
            raise Unparsable("the body does not begin with a zero byte and the id of a schema")
        number = int.from_bytes(data[1:_HEADER], "big")
        schema = self._schemas.get(number)
        if schema is None:
            raise Unparsable(
                f"the body is of schema {number}, which is not declared; take it over by `bindery schemas pull`",
                "unknown-schema",
            )
        return schema.parse(data[_HEADER:], limits)
