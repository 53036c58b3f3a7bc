"""Names by which filter languages refer to message fields, and fields derived from others.

Sources of the tables: Apache AMQP filters, "Mapping JMS Headers to AMQP fields"; Artemis filter expressions for the
AMQ names; AMQP Filter Expressions, "Property References and Values", for the sections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.columns import INT, BatchView, Column, Ref, column_from, empty_column
from bindery.router.filters import events
from bindery.router.filters.text import fold
from bindery.router.message import HEADER_DEFAULTS, MAP_SECTIONS, SECTION_FIELDS, Message
from bindery.router.values import INT64_MAX, Timestamp, Value, timestamp

#: Section name of references to derived fields.
DERIVED: Final = "derived"


@dataclass(frozen=True, slots=True)
class DerivedField:
    """A value computed from other fields, once per distinct combination of their values.

    kind        the type that it has (None: several)
    nullable    whether it may be null
    from_batch  gives the whole column where that needs no distinct values
    origin      what a reason says of it, instead of its sources
    look_up     reads it in one message, where the sources do not say it
    from_view   gives the whole column where that needs what a view keeps
    """

    sources: tuple[Ref, ...]
    compute: Callable[..., Value]
    kind: type | None = None
    nullable: bool = True
    from_batch: Callable[[pa.RecordBatch], Column] | None = None
    origin: str = ""
    look_up: Callable[[Message], Value] | None = None
    from_view: Callable[[BatchView], Column] | None = None


def _properties(name: str) -> Ref:
    return Ref("properties", name)


def _delivery_mode(durable: Value) -> Value:
    return "PERSISTENT" if durable else "NON_PERSISTENT"


def _durability(durable: Value) -> Value:
    return "DURABLE" if durable else "NON_DURABLE"


def _redelivered(delivery_count: Value) -> Value:
    return isinstance(delivery_count, int) and delivery_count > 0


def _attempts(delivery_count: Value) -> Value:
    return delivery_count + 1 if isinstance(delivery_count, int) and delivery_count < INT64_MAX else None


def _first(*values: Value) -> Value:
    return next((value for value in values if value is not None), None)


def _address(to: Value, exchange: Value, routing_key: Value) -> Value:
    """On the default exchange a message is sent to the queue that its key names."""
    return to if to is not None else exchange or routing_key or ""


def _addresses(batch: pa.RecordBatch) -> Column:
    """The addresses without a look at each: there may be as many routing keys as messages."""
    exchange = pc.fill_null(batch.column("exchange"), "")
    on_default = pc.equal(pc.binary_length(exchange), 0)
    sent_to = pc.if_else(on_default, pc.fill_null(batch.column("routing_key"), ""), exchange)
    properties = batch.column("properties")
    to = properties.flatten()[properties.type.get_field_index("to")]
    return column_from(pc.coalesce(to, sent_to))


def _expiration(expiry: Value, ttl: Value, created: Value) -> Value:
    """0 = never; a time to live counts from the creation (JMS 2.0 §3.4.9), and without one its end is not known."""
    if expiry is not None:
        return expiry
    if not isinstance(ttl, int):
        return 0
    return timestamp(created.ms + ttl) if isinstance(created, Timestamp) else None


def _as_text(user_id: Value) -> Value:
    try:
        return user_id.decode("utf-8") if isinstance(user_id, bytes) else user_id
    except UnicodeDecodeError:
        return None


def _document(body: Value, amqp_value: Value) -> Value:
    if body is not None:
        return body
    return amqp_value if isinstance(amqp_value, str | bytes) else None


def _size(body: Value) -> Value:
    return len(body) if isinstance(body, bytes) else 0


def _sizes(batch: pa.RecordBatch) -> Column:
    """The bytes of each body, without reading any."""
    column = empty_column(batch.num_rows)
    column.tag[:] = INT
    column.num[:] = pc.binary_length(batch.column("body")).fill_null(0).to_numpy(zero_copy_only=False)
    return column


_DURABLE = Ref("header", "durable")
_DELIVERY_COUNT = Ref("header", "delivery_count")
_JMS_TYPE = (Ref("message_annotations", "x-opt-jms-type"), Ref("message_annotations", "jms-type"))

DERIVED_FIELDS: Final[Mapping[str, DerivedField]] = {
    "delivery_mode": DerivedField((_DURABLE,), _delivery_mode, str, nullable=False),
    "durability": DerivedField((_DURABLE,), _durability, str, nullable=False),
    "redelivered": DerivedField((_DELIVERY_COUNT,), _redelivered, bool, nullable=False),
    "attempts": DerivedField((_DELIVERY_COUNT,), _attempts, int),
    "jms_type": DerivedField(_JMS_TYPE, _first),
    "user_text": DerivedField((_properties("user_id"),), _as_text, str),
    "address": DerivedField(
        (_properties("to"), Ref("exchange"), Ref("routing_key")), _address, str, nullable=False, from_batch=_addresses
    ),
    "expiration": DerivedField(
        (_properties("absolute_expiry_time"), Ref("header", "ttl"), _properties("creation_time")),
        _expiration,
        Timestamp,
    ),
    "body_size": DerivedField((Ref("body"),), _size, int, nullable=False, from_batch=_sizes),
    "document": DerivedField((Ref("body"), Ref("amqp_value")), _document),
}


#: Derived fields with this head are attributes of a CloudEvent, which has them of any name.
_EVENT: Final = "event."


def derived(name: str) -> DerivedField:
    """The derived field of a name."""
    if name.startswith(_ANY_CASE):
        return _folded(name.removeprefix(_ANY_CASE))
    return _event(name.removeprefix(_EVENT)) if name.startswith(_EVENT) else DERIVED_FIELDS[name]


@lru_cache(maxsize=4096)
def _event(attribute: str) -> DerivedField:
    core = attribute in events.CORE
    return DerivedField(
        events.sources(attribute),
        events.text_of if core else events.value_of,
        str if core else None,
        origin=events.origin(attribute),
    )


#: Derived fields with this head are application properties whose names are compared in any case.
_ANY_CASE: Final = "any_case."


@lru_cache(maxsize=4096)
def _folded(name: str) -> DerivedField:
    def look_up(message: Message) -> Value:
        alike = (value for key, value in message.application_properties.items() if fold(key) == name)
        return next(reversed(list(alike)), None)

    return DerivedField(
        (Ref("application_properties", name),),
        _first,
        origin=f"application property {name}, in any case",
        look_up=look_up,
        from_view=lambda view: view.entries("application_properties").alike(name, fold),
    )


def in_any_case(name: str) -> Ref:
    """The application property of a name in whatever case; of several that differ in case the last."""
    return _derived(_ANY_CASE + fold(name))


def property_name(ref: Ref) -> str | None:
    """The name of an application property, folded where `in_any_case` gave it; None for another field."""
    if ref.section == "application_properties":
        return ref.name
    folded = ref.section == DERIVED and ref.name.startswith(_ANY_CASE)
    return ref.name.removeprefix(_ANY_CASE) if folded else None


def event_attribute(name: str) -> Ref:
    """The attribute of a CloudEvent of a name, which is in lower case."""
    return _derived(_EVENT + name)


def attribute_name(ref: Ref) -> str | None:
    """The attribute of a CloudEvent that a reference is; None when it is another field."""
    is_one = ref.section == DERIVED and ref.name.startswith(_EVENT)
    return ref.name.removeprefix(_EVENT) if is_one else None


def _derived(name: str) -> Ref:
    return Ref(DERIVED, name)


#: Names of the JMS headers and JMSX properties.
JMS_NAMES: Final[Mapping[str, Ref]] = {
    "JMSMessageID": _properties("message_id"),
    "JMSCorrelationID": _properties("correlation_id"),
    "JMSType": _derived("jms_type"),
    "JMSPriority": Ref("header", "priority"),
    "JMSDeliveryMode": _derived("delivery_mode"),
    "JMSTimestamp": _properties("creation_time"),
    "JMSDestination": _properties("to"),
    "JMSExpiration": _properties("absolute_expiry_time"),
    "JMSRedelivered": _derived("redelivered"),
    "JMSReplyTo": _properties("reply_to"),
    "JMSXGroupID": _properties("group_id"),
    "JMSXGroupSeq": _properties("group_sequence"),
    "JMSXDeliveryCount": _derived("attempts"),
    "JMSXUserID": _derived("user_text"),
}

#: `amqp.<field>` names of the Apache selector filter (hyphens replaced by underscores).
AMQP_NAMES: Final[Mapping[str, Ref]] = {
    **{f"amqp.{name}": Ref(section, name) for section, names in SECTION_FIELDS.items() for name in names},
    "amqp.jms_type": _derived("jms_type"),
    "amqp.delivery_mode": _derived("delivery_mode"),
    "amqp.redelivered": _derived("redelivered"),
}

#: Identifiers of Artemis core filters; every other name is a property.
ARTEMIS_NAMES: Final[Mapping[str, Ref]] = {
    "AMQUserID": _properties("message_id"),
    "AMQAddress": _derived("address"),
    "AMQGroupID": _properties("group_id"),
    "AMQPriority": Ref("header", "priority"),
    "AMQExpiration": _derived("expiration"),
    "AMQDurable": _derived("durability"),
    "AMQTimestamp": _properties("creation_time"),
    "AMQSize": _derived("body_size"),
}

#: The attributes that CloudEvents itself defines; every other name is an extension.
EVENT_NAMES: Final[Mapping[str, Ref]] = {name: event_attribute(name) for name in events.CORE}

#: System properties of Azure Service Bus, by its AMQP protocol guide ("Messages"); `Subject` is the newer name of
#: `Label`, and a filter is printed with the first of two.
SERVICE_BUS_NAMES: Final[Mapping[str, Ref]] = {
    "sys.MessageId": _properties("message_id"),
    "sys.CorrelationId": _properties("correlation_id"),
    "sys.To": _properties("to"),
    "sys.ReplyTo": _properties("reply_to"),
    "sys.Label": _properties("subject"),
    "sys.Subject": _properties("subject"),
    "sys.SessionId": _properties("group_id"),
    "sys.ReplyToSessionId": _properties("reply_to_group_id"),
    "sys.ContentType": _properties("content_type"),
    "sys.PartitionKey": Ref("message_annotations", "x-opt-partition-key"),
    "sys.ViaPartitionKey": Ref("message_annotations", "x-opt-via-partition-key"),
    "sys.ScheduledEnqueueTimeUtc": Ref("message_annotations", "x-opt-scheduled-enqueue-time"),
    "sys.EnqueuedTimeUtc": Ref("message_annotations", "x-opt-enqueued-time"),
    "sys.SequenceNumber": Ref("message_annotations", "x-opt-sequence-number"),
    "sys.DeadLetterSource": Ref("message_annotations", "x-opt-deadletter-source"),
}

#: Section qualifiers of the AMQP SQL filter, long and short, underscore and hyphen.
SQL_SECTIONS: Final[Mapping[str, str]] = {
    spelling: section
    for section, short in (
        ("header", "h"),
        ("properties", "p"),
        ("application_properties", "a"),
        ("message_annotations", "m"),
        ("delivery_annotations", "d"),
        ("footer", "f"),
        ("amqp_value", "v"),
        ("amqp_sequence", "s"),
    )
    for spelling in (section, section.replace("_", "-"), short)
}
#: Sections that are one value; their names alone stand for the section itself.
SQL_VALUES: Final = ("amqp_value", "amqp_sequence")


#: What XPATH reads: the body or, without one, a string or binary amqp_value.
DOCUMENT: Final = Ref(DERIVED, "document")


def read(message: Message, ref: Ref) -> Value:
    """The value behind a reference in one message; an absent field reads as None or its header default."""
    if ref.section == DERIVED:
        field = derived(ref.name)
        if field.look_up is not None:
            return field.look_up(message)
        return field.compute(*(read(message, source) for source in field.sources))
    content = getattr(message, ref.section)
    if not ref.name and not is_map(ref.section):  # an entry of a map may have the empty name
        return content  # type: ignore[no-any-return]  # sections and envelope fields are values
    found: Value = content.get(ref.name)
    if found is None and ref.section == "header":
        return HEADER_DEFAULTS.get(ref.name)
    return found


def field_type(ref: Ref) -> type | None:
    """The type that a field has by its definition; None when it may hold several."""
    if ref.section == DERIVED:
        return derived(ref.name).kind
    return SECTION_FIELDS.get(ref.section, {}).get(ref.name)


def never_null(ref: Ref) -> bool:
    """Whether a field reads as a value in every message."""
    if ref.section == "header":
        return ref.name in HEADER_DEFAULTS
    return ref.section == DERIVED and not derived(ref.name).nullable


def is_map(section: str) -> bool:
    """Whether any name may stand in a section."""
    return section in MAP_SECTIONS
