"""What a peer can express of the workload: a topology and messages, the same for the peer and for Bindery."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import workload
from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.message import MESSAGE_SCHEMA, VALUE_MAP
from bindery.router.model import DEFAULT_VHOST, Binding, Exchange, Queue, Topology
from bindery.router.values import Table

SELECTOR = "x-filter-jms-selector"
FILTERS = 1_000
#: Different values of `type` and of `price` in messages for filters alone.
TYPES = PRICES = 1_000
#: Rows of a batch that is routed in memory.
BATCH = 50_000


@dataclass(frozen=True)
class Case:
    """A topology in the vhost "/" and how to make messages for it."""

    name: str
    topology: Topology
    make: Callable[[int, int], pa.Table] = workload.messages

    def messages(self, rows: int) -> pa.Table:
        """The same messages at every call."""
        return self.make(rows, 1)

    def bindings(self) -> list[Binding]:
        return [one for one in self.topology.in_vhost(DEFAULT_VHOST)[2] if one.source]

    def queues(self) -> list[str]:
        return [one.name for one in self.topology.in_vhost(DEFAULT_VHOST)[1]]

    def exchanges(self) -> list[Exchange]:
        used = {one.source for one in self.bindings()}
        return [one for one in self.topology.in_vhost(DEFAULT_VHOST)[0] if one.name in used]

    def counts(self, messages: pa.Table) -> dict[str, int]:
        """Queue -> copies that Bindery makes for it; queues without one, too."""
        router = Router.compile(self.topology, DEFAULT_VHOST)
        found = dict.fromkeys(self.queues(), 0)
        for batch in messages.combine_chunks().to_batches(max_chunksize=BATCH):
            routed = router.route(batch, clock_ms=0)
            for queue, copies in zip(routed.queue, np.diff(routed.offsets), strict=True):
                found[router.queues[queue]] += int(copies)
        return found

    def write(self, folder: Path, messages: pa.Table) -> tuple[Path, Path]:
        """The topology and the messages as benchmarks/peers/java/bench/Workload.java reads them."""
        objects, lines = folder / f"{self.name}.topology", folder / f"{self.name}.messages"
        objects.write_text("".join(f"{line}\n" for line in self._objects()))
        lines.write_text("".join(f"{line}\n" for line in _lines(messages)))
        return objects, lines

    def _objects(self) -> Iterator[str]:
        for exchange in self.exchanges():
            yield f"exchange\t{exchange.name}\t{exchange.type}"
        for queue in self.queues():
            yield f"queue\t{queue}"
        for one in self.bindings():
            criteria = _values({name: value for name, value in one.arguments.items() if name != SELECTOR})
            selector = str(one.arguments.get(SELECTOR, ""))
            yield f"binding\t{one.source}\t{one.destination}\t{one.routing_key}\t{selector}\t{criteria}"


def _lines(messages: pa.Table) -> Iterator[str]:
    names = ("exchange", "routing_key", "application_properties", "body")
    for exchange, key, properties, body in zip(*(messages[name].to_pylist() for name in names), strict=True):
        values = {name: next(one for one in value.values() if one is not None) for name, value in properties}
        yield f"{exchange}\t{key or ''}\t{_values(values)}\t{base64.b64encode(body or b'').decode()}"


def _values(values: Mapping[str, object]) -> str:
    def written(value: object) -> str:
        match value:
            case bool():
                return f"b:{str(value).lower()}"
            case float():
                return f"d:{value}"
            case str() | int():
                return f"{type(value).__name__[0]}:{value}"
        raise TypeError(f"{value!r} has no form here")

    return "|".join(f"{name}={written(value)}" for name, value in values.items())


def whole() -> Case:
    """The workload as it is: four exchange types, a third of the bindings with selectors."""
    return Case("whole", workload.topology())


def without_selectors() -> Case:
    """For RabbitMQ, which has none: bindings that differ by them alone are one."""

    def plain(one: Binding) -> Binding:
        return replace(one, arguments=Table({name: value for name, value in one.arguments.items() if name != SELECTOR}))

    return Case("without-selectors", _rebound(plain))


def keys_apart() -> Case:
    """For Broker-J, whose bindings are told apart by queue and key alone, whatever their arguments.

    A headers exchange does not read keys, so its bindings get one each; of the others those that it would take for one
    that is there already are left out.
    """
    taken: set[tuple[str, str, str]] = set()

    def apart(one: Binding) -> Binding | None:
        if workload.TYPES[one.source] == "headers":
            one = replace(one, routing_key=f"binding{one.id}")
        known = (one.source, one.destination, one.routing_key) in taken
        taken.add((one.source, one.destination, one.routing_key))
        return None if known else one

    return Case("keys-apart", _rebound(apart))


def queue_each() -> Case:
    """For Artemis, where a queue stands at one address: every binding leads to a queue of its own."""
    return Case("queue-each", _rebound(lambda one: replace(one, destination=f"queue{one.id:05}")))


def filters() -> Case:
    """1,000 queues with a filter each on one fanout exchange."""
    editor = TopologyEditor(Topology.empty())
    editor.declare_exchange(Exchange(DEFAULT_VHOST, "all", "fanout"))
    rng = np.random.default_rng(11)
    for number in range(FILTERS):
        queue = f"queue{number:04}"
        editor.declare_queue(Queue(DEFAULT_VHOST, queue))
        selector = f"type = 'T{rng.integers(TYPES)}' AND price > {rng.integers(PRICES)}"
        editor.bind(Binding(0, DEFAULT_VHOST, "all", queue, arguments=Table({SELECTOR: selector})))
    return Case("filters", editor.topology, _typed)


def _rebound(change: Callable[[Binding], Binding | None]) -> Topology:
    """The workload's topology with other bindings, and the queues that they lead to."""
    before = Case("", workload.topology())
    editor = TopologyEditor(Topology.empty())
    for exchange in before.exchanges():
        editor.declare_exchange(exchange)
    bindings = [one for binding in before.bindings() if (one := change(binding))]
    for queue in sorted({one.destination for one in bindings}):
        editor.declare_queue(Queue(DEFAULT_VHOST, queue))
    for one in bindings:
        editor.bind(replace(one, id=0))
    return editor.topology


def _typed(rows: int, seed: int) -> pa.Table:
    """Messages to the exchange `all` with a type, a price and a body, made without a loop over rows."""
    rng = np.random.default_rng(seed)
    place = np.arange(2 * rows) % 2
    types = pa.array([f"T{number}" for number in range(TYPES)])
    fields = {
        "string": types.take(pa.array(rng.integers(0, TYPES, 2 * rows), mask=place == 1)),
        "int": pa.array(rng.integers(0, PRICES, 2 * rows), mask=place == 0),
    }
    kinds = list(VALUE_MAP.item_type)
    arrays = [fields.get(member.name, pa.nulls(2 * rows, member.type)) for member in kinds]
    properties = pa.MapArray.from_arrays(
        pa.array(np.arange(0, 2 * rows + 1, 2, dtype=np.int32)),
        pa.array(["type", "price"]).take(pa.array(place)),
        pa.StructArray.from_arrays(arrays, fields=kinds),
    )
    columns = {
        "exchange": pa.array(["all"]).take(pa.array(np.zeros(rows, np.int64))),
        "mandatory": pa.array(np.zeros(rows, np.bool_)),
        "application_properties": properties,
        "body": pa.array([b"x" * workload.BODY_BYTES]).take(pa.array(np.zeros(rows, np.int64))),
    }
    arrays = [columns.get(member.name, pa.nulls(rows, member.type)) for member in MESSAGE_SCHEMA]
    return pa.table(arrays, schema=MESSAGE_SCHEMA)
