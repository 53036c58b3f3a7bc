"""The benchmark workload: 1,300 bindings of four exchange types to 100 queues, and messages for them.

1,000 routing keys of three words, five typed properties, bodies of 128 bytes; a third of the bindings have
a selector; about nine copies of each message are made. The same seed gives the same messages.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Final

import numpy as np
import pyarrow as pa

from bindery.router.declarations import TopologyEditor
from bindery.router.message import MESSAGE_SCHEMA, VALUE_MAP
from bindery.router.model import DEFAULT_VHOST, Binding, Exchange, Queue, Topology
from bindery.router.values import Table, Value
from bindery.store.writer import BATCH_SCHEMA

QUEUES: Final = 100
#: Bindings per exchange; together 1,300.
BINDINGS: Final = {"orders": 400, "events": 480, "alerts": 402, "audit": 18}
TYPES: Final = {"orders": "direct", "events": "topic", "alerts": "headers", "audit": "fanout"}
#: How messages spread over the exchanges.
SHARES: Final = {"orders": 0.4, "events": 0.3, "alerts": 0.2, "audit": 0.1}
AREAS: Final = tuple(f"area{n}" for n in range(10))
KINDS: Final = tuple(f"kind{n}" for n in range(10))
STAGES: Final = tuple(f"stage{n}" for n in range(10))
KEYS: Final = tuple(".".join(words) for words in product(AREAS, KINDS, STAGES))
CARRIERS: Final = tuple(f"C{n}" for n in range(12))
REGIONS: Final = ("north", "east", "south", "west")
BODY_BYTES: Final = 128


def topology() -> Topology:
    """The topology in the vhost "/"; the same at every call."""
    rng = np.random.default_rng(20)
    editor = TopologyEditor(Topology.empty())
    for name, kind in TYPES.items():
        editor.declare_exchange(Exchange(DEFAULT_VHOST, name, kind))
    for number in range(QUEUES):
        editor.declare_queue(Queue(DEFAULT_VHOST, f"queue{number:03}"))
    keys: dict[str, Callable[[int], str]] = {
        "orders": lambda n: KEYS[n // 8 * 20],  # eight queues a key
        "events": lambda n: _pattern(n, rng),
        "alerts": lambda n: "",
        "audit": lambda n: "",
    }
    for name, count in BINDINGS.items():
        number = 0
        while number < count:
            arguments: dict[str, Value] = _criteria(number, rng) if name == "alerts" else {}
            if number % 3 == 0:
                arguments["x-filter-jms-selector"] = _selector(number, rng)
            queue = f"queue{(number * 7 + len(name)) % QUEUES:03}"
            binding = Binding(0, DEFAULT_VHOST, name, queue, "queue", keys[name](number), Table(arguments))
            number += editor.bind(binding)[1]  # draw again what is there already
    return editor.topology


def _pattern(number: int, rng: np.random.Generator) -> str:
    words = [AREAS[rng.integers(10)], KINDS[rng.integers(10)], STAGES[rng.integers(10)]]
    if number % 8 == 0:
        return f"{words[0]}.#" if number % 16 else f"#.{words[2]}"
    words[rng.integers(3)] = "*"
    return ".".join(words)


def _criteria(number: int, rng: np.random.Generator) -> dict[str, Value]:
    carrier, region = CARRIERS[rng.integers(12)], REGIONS[rng.integers(4)]
    if number % 20 == 0:
        return {"x-match": "any", "carrier": carrier, "distance": int(rng.integers(100))}
    if number % 2:
        return {"x-match": "all", "carrier": carrier, "region": region}
    return {"carrier": carrier, "late": bool(rng.integers(2))}


def _selector(number: int, rng: np.random.Generator) -> str:
    limit = int(rng.integers(20, 80))
    return (
        f"distance > {limit}",
        f"price BETWEEN {limit / 4} AND {limit * 2}.5",
        f"carrier IN ('{CARRIERS[limit % 12]}', '{CARRIERS[limit % 7]}') OR late = TRUE",
        f"region = '{REGIONS[limit % 4]}' AND distance < {limit}",
        f"carrier LIKE 'C1%' OR price > {limit}",
    )[number % 5]


def messages(rows: int, seed: int) -> pa.Table:
    """Messages of MESSAGE_SCHEMA, made without a loop over rows."""
    rng = np.random.default_rng(seed)
    exchange = rng.choice(len(SHARES), rows, p=list(SHARES.values()))
    key = rng.integers(0, len(KEYS), rows)
    key = np.where(exchange == 0, key // 20 * 20, key)
    columns: dict[str, pa.Array] = {
        "exchange": pa.array(list(SHARES)).take(pa.array(exchange)),
        "routing_key": pa.array(KEYS).take(pa.array(key)),
        "mandatory": pa.array(np.zeros(rows, np.bool_)),
        "application_properties": _properties(rows, rng),
        "body": _bodies(rows, rng),
    }
    for member in MESSAGE_SCHEMA:
        if member.name not in columns:
            columns[member.name] = pa.nulls(rows, member.type)
    return pa.table({name: columns[name] for name in MESSAGE_SCHEMA.names}, schema=MESSAGE_SCHEMA)


def _properties(rows: int, rng: np.random.Generator) -> pa.MapArray:
    """Five entries a row: string, string, int, double and bool, one after the other."""
    size = 5 * rows
    place = np.arange(size) % 5
    text = np.where(place == 0, rng.integers(0, 12, size), 12 + rng.integers(0, 4, size))
    fields = {
        "bool": pa.array(rng.random(size) < 0.5, mask=place != 4),
        "int": pa.array(rng.integers(0, 100, size), mask=place != 2),
        "double": pa.array(np.round(rng.random(size) * 200, 2), mask=place != 3),
        "string": pa.array([*CARRIERS, *REGIONS]).take(pa.array(text, mask=place > 1)),
    }
    kinds = VALUE_MAP.item_type
    values = pa.StructArray.from_arrays(
        [fields.get(member.name, pa.nulls(size, member.type)) for member in kinds], fields=list(kinds)
    )
    names = pa.array(["carrier", "region", "distance", "price", "late"]).take(pa.array(place))
    return pa.MapArray.from_arrays(pa.array(np.arange(0, size + 1, 5, dtype=np.int32)), names, values)


def _bodies(rows: int, rng: np.random.Generator) -> pa.Array:
    data = pa.py_buffer(rng.bytes(rows * BODY_BYTES))
    offsets = pa.py_buffer(np.arange(0, rows * BODY_BYTES + 1, BODY_BYTES, dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), rows, [None, offsets, data])


def sent_to(exchange: str | None, messages: pa.RecordBatch, seq: pa.Array) -> pa.RecordBatch:
    """Messages as a task has them (BATCH_SCHEMA), with their numbers, of no source: to an exchange, or their own."""
    rows = messages.num_rows
    columns = {name: messages.column(name) for name in messages.schema.names} | {"seq": seq}
    if exchange is not None:
        columns["exchange"] = pa.array([exchange] * rows)
    arrays = [columns.get(field.name, pa.nulls(rows, field.type)) for field in BATCH_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=BATCH_SCHEMA)
