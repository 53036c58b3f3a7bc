"""What RabbitMQ's firehose says of one publication: the message, and the queues that the broker chose for it.

The firehose (https://www.rabbitmq.com/docs/firehose) publishes a copy of every published message to the exchange
`amq.rabbitmq.trace`, under the key `publish.EXCHANGE`, with the body of the message and these headers:

| header           | content                                                                     |
|------------------|-----------------------------------------------------------------------------|
| exchange_name    | the exchange that the message was published to                              |
| routing_keys     | its routing key, then those of its headers CC and BCC, in this order        |
| properties       | its properties by name, short strings as long ones, times as integers       |
| routed_queues    | the names of the queues that the broker's exchanges chose                   |
| node             | the node of the cluster that the publisher is connected to                  |

The header BCC is no longer among the message's own headers: its keys are in `routing_keys` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from bindery.jobs.draining.mapping import message_of
from bindery.jobs.draining.wire import PROPERTIES, read_properties
from bindery.router.errors import InvalidRecord
from bindery.router.message import Message
from bindery.router.values import Table, Timestamp, Value

#: The exchange of the firehose, and the keys of publications.
FIREHOSE: Final = "amq.rabbitmq.trace"
PUBLICATIONS: Final = "publish.#"
PUBLISHED_TO: Final = "publish."


@dataclass(frozen=True, slots=True)
class Publication:
    """A message without its body, the queues that the broker chose, the node, and the bytes that its copy had."""

    message: Message
    queues: frozenset[str]
    node: str
    size: int


def read_publication(encoded: bytes, size: int) -> Publication:
    """What a publication's copy says; `encoded` are its property flags and property list, `size` is in bytes.

    Raises InvalidRecord for a message that no record can hold.
    """
    told = read_properties(encoded).get("headers")
    told = told if isinstance(told, Table) else Table()
    sent = told.get("properties")
    keys = _texts(told, "routing_keys")
    if not keys:
        raise InvalidRecord("has no key", where="routing_keys")
    message = message_of(
        _as_sent(sent if isinstance(sent, Table) else Table()),
        exchange=_text(told.get("exchange_name"), "exchange_name"),
        routing_key=keys[0],
    )
    message = replace(message, bcc=keys[1 + len(message.cc) :])
    node = told.get("node")
    return Publication(message, frozenset(_texts(told, "routed_queues")), node if isinstance(node, str) else "", size)


def _as_sent(told: Mapping[str, Value]) -> dict[str, Value]:
    """The properties as a message has them on the wire: the firehose writes them into a table, by kinds of tables."""
    sent: dict[str, Value] = {}
    for name, value in told.items():
        kind = PROPERTIES.get(name)
        if kind == "shortstr" and isinstance(value, str):
            sent[name] = value.encode()
        elif kind == "timestamp" and type(value) is int:
            # 32 bits there: a time after 2038 comes as a negative number
            sent[name] = Timestamp((value if value >= 0 else value + 2**32) * 1000)
        elif kind is not None:
            sent[name] = value
    return sent


def _texts(told: Mapping[str, Value], name: str) -> tuple[str, ...]:
    found = told.get(name)
    return tuple(_text(one, name) for one in found) if isinstance(found, tuple) else ()


def _text(value: Value, where: str) -> str:
    if not isinstance(value, str):
        raise InvalidRecord("is not UTF-8", where=where)
    return value
