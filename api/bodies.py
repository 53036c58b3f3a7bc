"""Request bodies: JSON whatever the content type, lenient where the broker's clients rely on it.

Keys that nobody reads are named in a header of the answer, booleans and counts may be strings, an empty body and
`null` are `{}`. What cannot be read is refused in the broker's words; a model's errors become one reason here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, NoReturn, TypeVar

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from bindery.api.errors import Reason, Refusal, bad_request, payload_too_large
from bindery.router.moments import read_iso
from bindery.router.spelling import did_you_mean, nearest

Model = TypeVar("Model", bound="Body")

#: Bytes of a body from which on it is parsed by a thread: others are answered meanwhile.
_LARGE: Final = 64 * 1024
#: Where the document keeps the schemas that others refer to.
SCHEMA_REFERENCE: Final = "#/components/schemas/{model}"
#: Columns of a line in the broker's printed terms.
_LINE: Final = 80
#: Values of keys that say nothing, whatever the key.
_NOTHING: Final[tuple[Any, ...]] = (None, "", [], {})
_DOUBLE_ENCODED: Final = "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"


class Body(BaseModel):
    """A request body that the broker's clients send: keys that are not read are no error."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)
    #: Keys in which clients repeat what the path says, or tell what they have shown to people.
    beside: ClassVar[frozenset[str]] = frozenset({"name", "vhost"})


class OwnBody(Body):
    """A request body of an operation that no broker has: a key that is not read is refused."""

    model_config = ConfigDict(extra="forbid")


async def read_bytes(request: Request, limit: int) -> bytes:
    """The raw body; raises Refusal as soon as it exceeds the limit."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and len(announced) < 20 and int(announced) > limit:
        raise payload_too_large(limit)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise payload_too_large(limit)
        chunks.append(chunk)
    return b"".join(chunks)


async def read_object(request: Request, limit: int) -> dict[str, Any]:
    """The JSON object in the body; raises Refusal for a body beyond the limit, and for anything else."""
    raw = await read_bytes(request, limit)
    return await run_in_threadpool(parse_object, raw) if len(raw) > _LARGE else parse_object(raw)


def parse_object(raw: bytes, *, error: str = "not_json") -> dict[str, Any]:
    """The JSON object in a body; raises Refusal with that reason for anything else."""
    if not raw.strip():
        return {}
    try:
        content = json.loads(raw.decode("utf-8-sig"), parse_constant=_refuse_constant, parse_float=finite_float)
        if b"\\u" in raw:
            _refuse_surrogates(content)
    except (ValueError, RecursionError):
        raise bad_request(error) from None
    if content is None:
        return {}
    if isinstance(content, str):
        raise bad_request(_DOUBLE_ENCODED)
    if not isinstance(content, dict):
        raise bad_request(error)
    return content


def validate(model: type[Model], content: Mapping[str, Any]) -> Model:
    """The body as its model; raises Refusal with the broker's reason."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise refusal_of(error, model) from None


def unread(model: type[Body], content: Mapping[str, Any]) -> list[str]:
    """The keys of a body that its model does not read, without those that clients put beside."""
    silent = _silent(model)
    return [key for key, value in content.items() if key not in silent and value not in _NOTHING]


@cache
def _silent(model: type[Body]) -> frozenset[str | None]:
    """The keys of a body that a model reads, or that clients put beside."""
    return model.beside | {name for key, field in model.model_fields.items() for name in (key, field.alias)}


def refusal_of(error: ValidationError, model: type[BaseModel]) -> Refusal:
    """What is wrong with a body, as one reason: missing keys first, as the broker reports them."""
    details = error.errors(include_url=False, include_input=False)
    missing = [str(item["loc"][0]) for item in details if item["type"] == "missing"]
    if missing:
        return bad_request(_missing_keys(missing))
    first = details[0]
    if first["type"] == "extra_forbidden":
        name, known = str(first["loc"][0]), [field.alias or key for key, field in model.model_fields.items()]
        meant = nearest(name, known)
        hint = did_you_mean(meant, f"known keys: {', '.join(known)}")
        return bad_request(f"unknown key {name!r}: {hint}")
    if first["type"] == "reason":
        return bad_request(first["ctx"]["reason"])
    return bad_request(".".join(str(part) for part in first["loc"]) + ": " + first["msg"])


def _missing_keys(names: list[str]) -> str:
    """The list as the broker prints it: a term a line when it does not fit into one."""
    terms = [f"{{key_missing,{name}}}" for name in names]
    line = f"[{','.join(terms)}]"
    return line if len(line) <= _LINE else "[" + ",\n ".join(terms) + "]"


def documented(model: type[BaseModel], example: Mapping[str, Any], *, required: bool = False) -> dict[str, Any]:
    """The `openapi_extra` of a route whose body is read by hand."""
    schema = model.model_json_schema(by_alias=True, ref_template=SCHEMA_REFERENCE)
    return {
        "requestBody": {
            "required": required,
            "content": {"application/json": {"schema": schema, "example": dict(example)}},
        }
    }


def refuse(reason: Reason) -> NoReturn:
    """Within a validator: refuse the body with that reason."""
    raise PydanticCustomError("reason", "refused", {"reason": reason})


def finite_float(text: str) -> float:
    """A JSON number as a double; raises ValueError for one beyond the range, which would become infinite."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is beyond a double")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _refuse_surrogates(content: Any) -> None:
    # UnicodeEncodeError is a ValueError; text that UTF-8 cannot carry could not be stored
    json.dumps(content, ensure_ascii=False).encode()


def read_flag(value: Any) -> bool:
    """A JSON boolean, or one of the texts "true" and "false"."""
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    refuse(["not_boolean", value])


def read_integer(value: Any) -> int:
    """A JSON integer, or its decimal digits as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) < 20:
        try:
            return int(value)
        except ValueError:
            pass
    refuse(["not_integer", value])


def read_arguments(value: Any) -> dict[str, Any]:
    """A JSON object; an empty array, which some clients send, is an empty one."""
    if value == []:
        return {}
    if isinstance(value, dict):
        return value
    refuse("arguments is not an object")


def read_routing_key(value: Any) -> str:
    """Any JSON scalar as text; null is the empty key."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    refuse(["not_string", "routing_key"])


def read_description(value: Any) -> str:
    """Any JSON scalar as text; null is none."""
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, str):
        return value
    refuse(["not_string", "description"])


def read_exchange_type(value: Any) -> str:
    """The name of an exchange type; whether there is such a type is the model's to say."""
    if isinstance(value, str):
        return value
    refuse(f"invalid exchange type '{json.dumps(value)}'")


def read_tags(value: Any) -> tuple[str, ...]:
    """Tags as an array of texts, or as text with commas."""
    if isinstance(value, str):
        return tuple(tag.strip() for tag in value.split(",") if tag.strip())
    if isinstance(value, list) and all(isinstance(tag, str) for tag in value):
        return tuple(value)
    refuse("tags is neither an array of texts nor text with commas")


Flag = Annotated[
    bool,
    BeforeValidator(read_flag),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"enum": ["true", "false"]}]}),
]
Count = Annotated[
    int,
    BeforeValidator(read_integer),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^-?[0-9]{1,18}$"}]}),
]
RawArguments = Annotated[
    dict[str, Any], BeforeValidator(read_arguments), WithJsonSchema({"type": "object", "additionalProperties": True})
]
RoutingKey = Annotated[
    str, BeforeValidator(read_routing_key), WithJsonSchema({"type": ["string", "number", "boolean", "null"]})
]
Description = Annotated[
    str, BeforeValidator(read_description), WithJsonSchema({"type": ["string", "number", "boolean", "null"]})
]
AtLeastOne = Annotated[Count, Field(ge=1)]
#: A consumer's filter: text in a dialect, or a filter set.
ConsumerFilter = Annotated[str | dict[str, Any] | None, Field(description="filter text, or a filter set")]
#: What the bodies are that it looks into, where the queue or exchange does not declare it.
PayloadName = Annotated[str | None, Field(description="what bodies are, for a filter that looks into them")]
DEFAULT_DIALECT: Final = "jms"
Tags = Annotated[
    tuple[str, ...],
    BeforeValidator(read_tags),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]


class ExchangeBody(Body):
    """What an exchange is declared with."""

    type: Annotated[str, BeforeValidator(read_exchange_type)] = "direct"
    durable: Flag = False
    auto_delete: Flag = False
    internal: Flag = False
    arguments: RawArguments = Field(default_factory=dict)
    alternate_binding: Any = Field(
        None, alias="alternateBinding", description="Qpid's name of the argument `alternate-binding`"
    )
    unroutable_behaviour: Any = Field(
        None,
        alias="unroutableMessageBehaviour",
        description="Qpid's name of the argument `unroutable-message-behaviour`",
    )


class QueueBody(Body):
    """What a queue is declared with."""

    durable: Flag = False
    auto_delete: Flag = False
    arguments: RawArguments = Field(default_factory=dict)


class BindingBody(Body):
    """What a binding is declared with."""

    beside = Body.beside | {"source", "destination", "destination_type", "properties_key"}
    routing_key: RoutingKey = ""
    arguments: RawArguments = Field(default_factory=dict)


class DivertBody(Body):
    """What a divert is declared with."""

    beside = Body.beside | {"id"}
    source: str
    destination: str
    filter: str = ""
    exclusive: Flag = False
    routing_key: str | None = None
    transform: str = ""


class VhostBody(Body):
    """What a vhost is declared with."""

    description: Description = ""
    tags: Tags = ()
    default_queue_type: str | None = None
    tracing: Flag = False
    compat: str | None = None


class UserBody(Body):
    """What a user is declared with: a password or a hash of one, or neither for a user who cannot log in."""

    password: str | None = None
    password_hash: str | None = None
    hashing_algorithm: str | None = None
    tags: Tags | None = None


class PermissionBody(Body):
    """A permission: one regular expression per kind of operation."""

    configure: str
    write: str
    read: str


class TopicPermissionBody(Body):
    """A permission on the routing keys of one topic exchange."""

    exchange: str
    write: str
    read: str


class PolicyBody(Body):
    """What a policy is declared with."""

    pattern: str
    definition: dict[str, Any]
    priority: Count = 0
    apply_to: str = Field("all", alias="apply-to")


class ValueBody(Body):
    """A parameter or limit: any JSON value."""

    value: Any


class UsersBody(Body):
    """Names of users."""

    users: list[str]


class PublishBody(Body):
    """A message to publish; all keys but `reject_unroutable` are mandatory."""

    beside = Body.beside | {"headers", "props", "delivery_mode"}
    routing_key: RoutingKey
    properties: Any = Field(json_schema_extra={"type": "object"})
    payload: Any = Field(json_schema_extra={"type": "string"})
    payload_encoding: Any = Field(json_schema_extra={"enum": ["string", "base64"]})
    reject_unroutable: Flag = False


class GetBody(Body):
    """How many messages to get, and what becomes of them; count, ackmode and encoding are mandatory.

    The filter is Bindery's own. A key that looks like it is refused: without its filter a get takes other messages.
    """

    ackmode: str
    count: Count
    encoding: str
    truncate: Count | None = None
    filter: ConsumerFilter = None
    dialect: str = DEFAULT_DIALECT
    payload: PayloadName = None

    @model_validator(mode="before")
    @classmethod
    def _no_misspelt_filter(cls, content: Any) -> Any:
        for name in content.keys() - cls.model_fields.keys():
            near = nearest(name, ["filter", "dialect"])
            if near is not None:
                refuse(f"unknown key {name!r}: {did_you_mean(near)}")
        return content


class ChoiceBody(OwnBody):
    """Which messages of a queue are meant; without a filter all of them."""

    filter: ConsumerFilter = None
    dialect: str = DEFAULT_DIALECT
    payload: PayloadName = None


class LookBody(ChoiceBody):
    """Which messages of a queue are meant, and whether those are among them that wait for its table."""

    live: Flag = Field(True, description="also what waits for a deferred queue in journals; false: its table alone")


class BrowseBody(LookBody):
    """Which messages to show, and how."""

    limit: AtLeastOne = 20
    encoding: Literal["auto", "base64"] = "auto"
    truncate: Annotated[Count, Field(ge=0)] | None = Field(None, description="bytes of a payload that are shown")


class DeleteBody(ChoiceBody):
    """Which messages to delete: those of a filter, or `all`."""

    all: Flag = False


def moment(text: str | None, name: str) -> datetime | None:
    """A time of a body; without a zone it is UTC. Refuses what is none, naming its key."""
    if text is None:
        return None
    try:
        return read_iso(text)
    except ValueError:
        raise bad_request(f"{name} is no ISO 8601 time") from None


class BackfillBody(ChoiceBody):
    """Which messages of journals a queue is to get; what is not given does not narrow the choice."""

    stream: str | None = Field(None, description="only messages of this stream")
    since: str | None = Field(None, description="routed then or later, ISO 8601; UTC without a zone")
    until: str | None = Field(None, description="routed before then, ISO 8601; UTC without a zone")
    dry_run: Flag = False


class RebuildBody(OwnBody):
    """Whether a rebuild only says what it would do."""

    dry_run: Flag = False


class TransferBody(ChoiceBody):
    """Which messages go to another queue of the vhost, or to an exchange, the first in row order."""

    to: str | None = Field(None, description="the other queue")
    exchange: str | None = Field(None, description="the exchange that routes them anew")
    routing_key: Annotated[
        RoutingKey | None, Field(description="for the exchange, instead of the keys that the messages have")
    ] = None
    limit: AtLeastOne | None = None
    dry_run: Flag = False

    @model_validator(mode="after")
    def _one_place(self) -> TransferBody:
        if (self.to is None) == (self.exchange is None):
            refuse("either to or exchange says where the messages go")
        if self.routing_key is not None and self.exchange is None:
            refuse("routing_key is for an exchange")
        return self
