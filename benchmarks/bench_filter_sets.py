"""5,000 filter sets on one fanout exchange against 50 with the same number of matches.

    python -m benchmarks.bench_filter_sets [--messages 100000] [--sets 5000] [--few 50]

For each kind of filter every message matches exactly one set, whichever the number of sets; the ratio is what
the other 4,950 sets cost. Time is that of `Router.route`, the best of seven runs, after one to warm up.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from bindery.router.arguments import decode_arguments
from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.message import MESSAGE_SCHEMA, Message, to_batch
from bindery.router.model import Binding, Exchange, Queue, Topology, Vhost
from bindery.router.values import Table

Sets = Callable[[int], Mapping[str, Any]]
Messages = Callable[[int], Message]


def _property(n: int) -> Mapping[str, Any]:
    value = {"customer": f"c{n}", "region": "&p:EU"}
    return {"f": {"descriptor": "amqp:application-properties-filter", "value": value}}


def _ignoring_case(n: int) -> Mapping[str, Any]:
    return {"f": {"descriptor": "amqp:properties-filter", "value": {"subject": f"&i:NEWS.C{n}.CREATED"}}}


def _prefix(n: int) -> Mapping[str, Any]:
    return {"f": {"descriptor": "amqp:properties-filter", "value": {"subject": f"&P:news.c{n}."}}}


def _suffix(n: int) -> Mapping[str, Any]:
    return {"f": {"descriptor": "amqp:properties-filter", "value": {"subject": f"&s:.C{n}.CREATED"}}}


def _direct(n: int) -> Mapping[str, Any]:
    return {"f": {"descriptor": "apache.org:legacy-amqp-direct-binding:string", "value": f"news.c{n}.created"}}


def _topic(n: int) -> Mapping[str, Any]:
    return {"f": {"descriptor": "apache.org:legacy-amqp-topic-binding:string", "value": f"news.c{n}.#"}}


def _headers(n: int) -> Mapping[str, Any]:
    value = {"x-match": "all", "customer": f"c{n}", "tier": None}
    return {"f": {"descriptor": "apache.org:legacy-amqp-headers-binding:map", "value": value}}


def _groups(n: int) -> Mapping[str, Any]:
    member = {"descriptor": "amqp:application-properties-filter", "value": {"customer": f"c{n}"}}
    other = {"descriptor": "apache.org:selector-filter:string", "value": "tier = 99"}
    return {
        "either": {"descriptor": "amqp:any-filter", "value": [member, {**member, "value": {"customer": f"d{n}"}}]},
        "unless": {"descriptor": "apache.org:not-filter:list", "value": [other]},
    }


KINDS: Mapping[str, Sets] = {
    "property filter, equality + prefix": _property,
    "property filter, ignoring case": _ignoring_case,
    "property filter, prefix alone": _prefix,
    "property filter, suffix ignoring case": _suffix,
    "legacy direct binding": _direct,
    "legacy topic binding": _topic,
    "legacy headers binding": _headers,
    "groups of property filter, selector": _groups,
}


def _batch(messages: int, customers: int) -> pa.RecordBatch:
    """Messages of some customers in turn; the same work for 50 and for 5,000 of them but for the customers."""
    distinct = [
        Message(
            exchange="events",
            properties={"subject": f"news.c{n}.created"},
            application_properties=Table({"customer": f"c{n}", "region": "eu-west", "tier": n % 7}),
        )
        for n in range(customers)
    ]
    one = pa.Table.from_batches([to_batch(distinct)])
    indices = pa.array([n % customers for n in range(messages)])
    return one.take(indices).combine_chunks().to_batches()[0].cast(MESSAGE_SCHEMA)


def _router(sets: Sets, count: int) -> Router:
    editor = TopologyEditor(Topology.empty())
    editor.declare_vhost(Vhost("/"))
    editor.declare_exchange(Exchange("/", "events", "fanout"))
    for n in range(count):
        editor.declare_queue(Queue("/", f"q{n}"))
        arguments = decode_arguments({"x-filters": sets(n)})
        editor.bind(Binding(0, "/", "events", f"q{n}", arguments=arguments))
    return Router.compile(editor.topology, "/")


def _seconds(routers: list[Router], batch: pa.RecordBatch, turns: int = 7) -> tuple[list[float], list[int]]:
    """The best time of each router, taken in turns so that other load meets all alike; and the copies made."""
    best, copies = [float("inf")] * len(routers), [0] * len(routers)
    for turn in range(turns + 1):
        for place, router in enumerate(routers):
            started = time.perf_counter()
            found = router.route(batch, clock_ms=0)
            if turn:
                best[place] = min(best[place], time.perf_counter() - started)
            copies[place] = len(found.rows)
    return best, copies


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--sets", type=int, default=5_000)
    parser.add_argument("--few", type=int, default=50)
    options = parser.parse_args()
    batch = _batch(options.messages, options.few)
    print(f"{'kind':36} {options.few:>7} sets {options.sets:>7} sets   ratio  copies")
    for kind, sets in KINDS.items():
        routers = [_router(sets, options.few), _router(sets, options.sets)]
        (few, many), (few_copies, copies) = _seconds(routers, batch)
        note = "" if copies == few_copies else f" (not {few_copies}!)"
        print(f"{kind:36} {few:10.3f} s {many:10.3f} s {many / few:7.2f}  {copies}{note}")


if __name__ == "__main__":
    main()
