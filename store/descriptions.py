"""What tables and their columns are about, in the words that their logs, catalogs and docs/tables.md use.

A table that is created gets them as the description and the column comments of its log (Delta transaction protocol,
"Change Metadata" and "Struct Field"). Nothing here changes while a table lives: what feeds a queue is said where it
can be said anew, by the statements of `bindery register`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: What each field of a typed value holds (`bindery.router.message.VALUE`).
VALUE_FIELDS: Final[Mapping[str, str]] = {
    "bool": "A boolean.",
    "int": "An integer of any width, signed.",
    "double": "A float or double.",
    "string": "Text; symbols and characters too.",
    "binary": "Bytes; a UUID is 16 of them.",
    "timestamp": "A time in UTC; messages state milliseconds.",
    "nested": "A list or map, as JSON.",
}
_TYPED: Final = "A typed value: one field is set, none for a null that is there"
_MESSAGE: Final[Mapping[str, str]] = {
    "exchange": "The exchange that the message was published to; empty for the default exchange.",
    "routing_key": "The routing key as published.",
    "cc": "Further routing keys (the header CC).",
    "bcc": "Further routing keys that receivers do not see (the header BCC).",
    "mandatory": "Whether the sender wanted to hear of a message that reaches no queue.",
    "connection": "The connection that published it, as no-local filters compare it.",
    "header": "AMQP 1.0 header: durable, priority, ttl (ms), first_acquirer, delivery_count; null where not stated.",
    "delivery_annotations": f"AMQP 1.0 delivery annotations by name. {_TYPED}.",
    "message_annotations": f"AMQP 1.0 message annotations by name. {_TYPED}.",
    "properties": "AMQP 1.0 properties: message_id, user_id, to, subject, correlation_id, content_type and others.",
    "application_properties": f"The message's own headers by name. {_TYPED}.",
    "body": "The body as bytes; null for a body of another form.",
    "amqp_value": f"A body that is one typed value. {_TYPED}.",
    "amqp_sequence": f"A body that is a list, in nested. {_TYPED}.",
    "footer": f"AMQP 1.0 footer by name. {_TYPED}.",
}
_ROUTED: Final[Mapping[str, str]] = {
    "routing": (
        "How the row came about: topology_version, stream, batch_id and seq (one message, the same in every queue), "
        "and the ids of the bindings that matched."
    ),
    "routed_at": "The clock of the batch that routed it, UTC: one time for all rows of a batch.",
    "source": "Where the record stood: file and row_index, or topic, partition and offset; null for other sources.",
}
_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "queue": "Messages routed to the queue {name} of the vhost {vhost}: one row per copy, as it was published.",
    "unroutable": "Messages of the vhost {vhost} that reached no queue, or may have missed one, each with its reason.",
    "journal": "Messages of the stream {name} as they were published: one row each, with the queues that it reached.",
    "dedup": "What the stream {name} has routed within its window: one row for each key, by which repeats are known.",
    "inbox": "Messages handed in for the vhost {vhost} that a job routes.",
    "manifest": "Batches that have ended: one row each, later one per stream and month.",
    "streams": "Which checkpoint each stream runs on: one row per stream and epoch.",
    "topology": "Exchanges, queues, bindings, diverts, policies and settings: one row per object that was declared.",
}
_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "queue": {**_MESSAGE, **_ROUTED},
    "unroutable": {
        **_MESSAGE,
        "reason": "Why it reached no queue: no_binding, filtered and others.",
        "disposition": "What became of it: discarded, returned, rejected, or delivered where a queue may miss it.",
        "detail": "The reason in words.",
        "raw": "The record as it was read, where it was no message.",
        **_ROUTED,
        "redriven": "Under which topology version and in which batch it was routed again; null if it was not.",
    },
    "journal": {
        **_MESSAGE,
        "reason": "Why it reached no queue, or may have missed one: no_binding, filtered and others.",
        "disposition": "What became of it then: discarded, returned, rejected, or delivered where a queue may miss it.",
        "detail": "The reason in words.",
        **_ROUTED,
        "routing": (
            "How it was routed: topology_version, stream, batch_id and seq (as in the rows of queues), the ids of the "
            "bindings that matched, and the ids of the queues that it reached, as the topology names them; of these "
            "deferred has the ones whose copies wait here until they are materialised."
        ),
    },
    "dedup": {
        "key_high": "The first half of the hash of the key (BLAKE2b, 128 bits).",
        "key_low": "The second half of it.",
        "routing": "The message that had the key first: topology_version, stream, batch_id and seq, as in its queues.",
        "routed_at": "The clock of the batch that routed it, UTC, or that of an earlier batch which was ahead of it.",
    },
    "inbox": _MESSAGE,
    "manifest": {
        "app_id": "The stream and its checkpoint: what the tables know the batch by.",
        "stream": "The stream; api for messages published by REST, redrive:VHOST for redrives.",
        "batch_id": "The batch; numbers of one stream grow, and each epoch has a range of its own.",
        "topology_version": "The version of the topology that it was routed with.",
        "clock": "The clock that it was routed with, UTC: routed_at of its rows.",
        "committed_at": "When it ended, UTC.",
        "tables": "The tables that it has written to: kind, vhost, name, version, rows, retries, rows dropped.",
        "records": "Records read, unreadable ones included.",
        "copies": "Rows written to queues.",
        "exchanges": "Messages published to each exchange.",
        "bindings": "Messages that each binding or divert matched, by its id.",
        "unroutable": "Unroutable messages by reason.",
        "filter_unknowns": "Evaluations that met trouble at run time, by filter.",
        "filter_errors": "Evaluations that failed because of a defect, by filter.",
        "timings_ms": "Milliseconds by stage.",
        "source_digest": "A digest of Spark's plan of the batch.",
        "batches": "How many batches a row of a month stands for; null for one batch.",
        "timed": "Batches by stage that timings_ms sums up, in a row of a month.",
        "requests": "Requests to the object store, by kind.",
        "invalid": "Records that were no messages, by kind.",
        "unparsable": "Messages whose bodies the filters of an exchange or queue could not read, by reason.",
        "canary": "What a canary counted: messages, differing, gained and lost by queue, before and after by reason.",
    },
    "streams": {
        "stream": "The stream.",
        "epoch": "The number of the epoch: 1, and one more for each --new-epoch.",
        "checkpoint_id": "Spark's id of the checkpoint.",
        "app_id": "The stream and its checkpoint: what the tables know its batches by.",
        "registered_at": "When the epoch began, UTC.",
        "first_batch": "The number of its first batch.",
    },
    "topology": {
        "kind": "The kind of object: exchange, queue, binding, divert, vhost, policy and others.",
        "vhost": "The vhost that it belongs to.",
        "name": "Its name.",
        "id": "The id of a binding or divert, as routing.bindings of rows names it; of a queue one of its own.",
        "source": "The exchange that a binding or divert leaves.",
        "destination": "The queue or exchange that it leads to.",
        "destination_type": "Which of the two: queue or exchange.",
        "routing_key": "The key of a binding.",
        "arguments": f"Arguments by name. {_TYPED}.",
        "type": "The type of an exchange.",
        "durable": "As declared.",
        "auto_delete": "As declared.",
        "internal": "Whether clients may not publish to the exchange.",
        "exclusive": "Whether a divert takes the message away from the bindings.",
        "filter": "The filter of a divert.",
        "description": "The description of a vhost.",
        "tags": "The tags of a vhost.",
        "default_queue_type": "Of a vhost, as declared.",
        "tracing": "Of a vhost, as declared.",
        "compat": "The compatibility mode of a vhost.",
        "value": "The value of a setting, as JSON.",
        "author": "Who declared it.",
    },
}


def description_of(kind: str, *, vhost: str | None, name: str | None) -> str | None:
    """What a table of a kind is about; None for a kind that has no description."""
    text = _DESCRIPTIONS.get(kind)
    return None if text is None else text.format(vhost=repr(vhost), name=repr(name))


def columns_of(kind: str) -> Mapping[str, str]:
    """What the columns of a kind of table are about, by name."""
    return _COLUMNS.get(kind, {})
