"""Forwarders: the document that says which queue goes to which topic, and what it may ask for (docs/forward.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from bindery.jobs.control.config import AVAILABLE_NOW
from bindery.jobs.control.references import is_reference, options_of, without_secrets
from bindery.router.errors import InvalidInput
from bindery.router.message import MAP_SECTIONS, SECTION_FIELDS
from bindery.router.model import DEFAULT_VHOST, MAX_NAME_BYTES

Begin = Literal["earliest", "latest"]
#: What records have no key from.
NO_KEY: Final = "none"
#: The headers of a record that have names of their own, and may give it its key.
HEADERS: Final = (
    *("routing.stream", "routing.batch_id", "routing.seq"),
    *("exchange", "routing_key", "connection", "cc", "mandatory", "amqp_value", "amqp_sequence"),
    *(f"{section}.{field}" for section, fields in SECTION_FIELDS.items() for field in fields),
)
#: Settings of the client that a forwarder makes itself.
_OWN: Final = frozenset(
    [
        "bootstrap.servers",
        "metadata.broker.list",
        "acks",
        "request.required.acks",
        "enable.idempotence",
        "transactional.id",
        "delivery.report.only.error",
        "dr_cb",
        "dr_msg_cb",
        "on_delivery",
        "error_cb",
        "stats_cb",
        "throttle_cb",
        "log_cb",
        "logger",
        "oauth_cb",
    ]
)
#: Settings of the client that take a reference to a secret and no text.
CREDENTIALS: Final = frozenset(
    ["sasl.password", "ssl.key.password", "ssl.keystore.password", "ssl.key.pem", "sasl.oauthbearer.client.secret"]
)
#: Settings that name no file, no program and no address: those that a document from the network may make.
_NAMES: Final = """
    security.protocol sasl.mechanisms sasl.mechanism sasl.username client.id client.rack
    batch.size batch.num.messages linger.ms compression.type compression.codec compression.level partitioner
    queue.buffering.max.ms queue.buffering.max.messages queue.buffering.max.kbytes
    message.max.bytes message.timeout.ms delivery.timeout.ms request.timeout.ms max.in.flight.requests.per.connection
    retry.backoff.ms retry.backoff.max.ms reconnect.backoff.ms reconnect.backoff.max.ms
    socket.timeout.ms socket.keepalive.enable socket.connection.setup.timeout.ms connections.max.idle.ms
    metadata.max.age.ms topic.metadata.propagation.max.ms broker.address.family
    ssl.ca.pem ssl.certificate.pem ssl.cipher.suites ssl.endpoint.identification.algorithm
"""
_HARMLESS: Final = frozenset(_NAMES.split())
_SECONDS: Final = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0}
_INTERVAL: Final = re.compile(r"([1-9]\d*) (millisecond|second|minute|hour)s?")


def _text(value: object) -> object:
    """YAML numbers and booleans are settings too."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Target(_Part):
    """What goes where: the part `forward` of a document."""

    queue: str = Field(min_length=1)
    to: Literal["kafka"]
    bootstrap_servers: str = Field(min_length=1)
    topic: str = Field(min_length=1)
    key: str = "routing_key"
    begin: Begin = Field(default="earliest", alias="from")
    skip_refused: bool = False
    options: dict[str, Annotated[str, BeforeValidator(_text)]] = {}

    @field_validator("key")
    @classmethod
    def _known_key(cls, key: str) -> str:
        section, dot, name = key.partition(".")
        if key in (NO_KEY, *HEADERS) or (dot and name and section in MAP_SECTIONS):
            return key
        raise ValueError(
            f"{key!r} is no header of a record, such as routing_key, properties.group_id or "
            f"application_properties.NAME, nor {NO_KEY}"
        )


class Forward(_Part):
    """A validated document of a forwarder; `stream` is its name."""

    stream: str = Field(min_length=1)
    vhost: str = Field(default=DEFAULT_VHOST, min_length=1)
    forward: Target
    trigger: str = "1 second"

    @field_validator("stream")
    @classmethod
    def _stream_fits(cls, name: str) -> str:
        if len(name.encode()) > MAX_NAME_BYTES:
            raise ValueError(f"longer than {MAX_NAME_BYTES} bytes")
        return name

    @field_validator("trigger")
    @classmethod
    def _known_trigger(cls, trigger: str) -> str:
        if trigger != AVAILABLE_NOW and not _INTERVAL.fullmatch(trigger):
            raise ValueError(f"{trigger!r} is neither {AVAILABLE_NOW!r} nor an interval such as '1 second'")
        return trigger

    @property
    def poll(self) -> float | None:
        """Seconds between two looks for new rows; None for one look alone."""
        found = _INTERVAL.fullmatch(self.trigger)
        return None if found is None else int(found[1]) * _SECONDS[found[2]]


def forward_of(document: Mapping[str, Any]) -> Forward:
    """The forwarder of a document; secrets are there or references. Raises InvalidInput naming the key."""
    try:
        return Forward.model_validate(without_secrets(document))
    except ValidationError as error:
        raise _errors(error)[0] from None


def forward_errors(document: Mapping[str, Any]) -> list[InvalidInput]:
    """Everything that is wrong with the keys of a forwarder's document, what `forward_of` raises first."""
    try:
        Forward.model_validate(without_secrets(document))
    except ValidationError as error:
        return _errors(error)
    return []


def _errors(error: ValidationError) -> list[InvalidInput]:
    found = []
    for one in error.errors(include_url=False, include_input=False):
        name = ".".join(str(part) for part in one["loc"])
        said = "unknown key" if one["type"] == "extra_forbidden" else one["msg"].removeprefix("Value error, ")
        found.append(InvalidInput(f"{name}: {said}", where=name))
    return found


def check_options(options: Mapping[str, Any]) -> None:
    """Raise InvalidInput for a setting of the client that is not for users, or for a credential in clear."""
    for option, value in options.items():
        place = f"forward.options.{option}"
        if option in _OWN:
            raise InvalidInput(f"{place}: is set by the forwarder", where="forward.options")
        if option in CREDENTIALS and not is_reference(value):
            raise InvalidInput(
                f"{place}: a credential in clear", where="forward.options", hint='refer to it: {"secret": "NAME"}'
            )
        if not isinstance(value, str | int | float) and not is_reference(value):
            raise InvalidInput(f"{place}: a text, a number, true or false", where="forward.options")


def is_forward(document: Mapping[str, Any]) -> bool:
    """Whether a document is one of a forwarder, and not of a streaming job."""
    return "forward" in document


def submitted(document: Mapping[str, Any], roots: Sequence[str]) -> Forward:
    """The forwarder of a document from the network; its secrets stay references.

    `roots` name the brokers that it may know, as kafka://HOST:PORT. Raises InvalidInput naming the key.
    """
    options = options_of(document)
    check_options(options)
    for option, value in options.items():
        place = f"forward.options.{option}"
        if option not in CREDENTIALS and is_reference(value):
            raise InvalidInput(
                f"{place}: takes no secret",
                where="forward.options",
                hint="secrets are for " + ", ".join(sorted(CREDENTIALS)),
            )
        if option not in CREDENTIALS | _HARMLESS:
            raise InvalidInput(
                f"{place}: not a setting that a submitted job may make",
                where="forward.options",
                hint="run it with `bindery forward`",
            )
    wanted = forward_of(document)
    for server in wanted.forward.bootstrap_servers.split(","):
        if f"kafka://{server.strip()}" not in roots:
            raise InvalidInput(
                f"forward.bootstrap_servers: {server.strip()} is not among the brokers that submitted jobs may know",
                where="forward.bootstrap_servers",
                hint="the operator allows brokers as kafka://HOST:PORT by the setting jobs.roots",
            )
    return wanted
