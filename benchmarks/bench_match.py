"""What matching costs, and what it must not depend on: `make bench-match`.

Each line is the processor time of the best of several runs, after a warm-up, beside its yardstick: the cost
per message with 100,000 bindings against that with 100, for the same matches per message and the same
distinct keys, and a few workloads that make careless matchers explode.
"""

from __future__ import annotations

import pickle
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.results import Answer, record
from benchmarks.workload import messages as workload_messages
from benchmarks.workload import topology as workload_topology
from bindery.router.arguments import decode_arguments
from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.matching.trie import TopicMatcher
from bindery.router.message import Message, to_batch
from bindery.router.model import DEFAULT_VHOST, Binding, Divert, Exchange, Queue, Topology
from bindery.router.values import Table, Value

ROWS = 100_000
#: Distinct keys, header values or property values that the messages of a comparison use.
USED = 100
MANY = 100_000
REPEATS = 5


@dataclass(frozen=True)
class Line:
    """One line of the table; `limit` is what the ratio to the yardstick should stay below.

    `ratios` are those of the runs, one to one; `cost` and `base` the microseconds a message that they compare.
    """

    name: str
    measured: str
    yardstick: str
    ratio: float | None = None
    limit: float | None = None
    cost: float = 0.0
    base: float = 0.0
    ratios: tuple[float, ...] = ()

    def text(self) -> str:
        ratio = "" if self.ratio is None else f"{self.ratio:5.2f}x"
        limit = "" if self.limit is None else f"<= {self.limit:g}x"
        verdict = "" if self.ratio is None or self.limit is None else ("ok" if self.ratio <= self.limit else "OVER")
        return f"{self.name:46} {self.measured:>14} {self.yardstick:>14} {ratio:>8} {limit:>8} {verdict}"

    def record(self) -> None:
        """Put the ratio into the results."""
        if self.ratio is None:
            return
        title, _, beside = self.name.partition(" / ")
        answer = Answer(
            "Matching",
            title,
            "µs/message",
            {title.rpartition(": ")[2]: self.cost, beside: self.base},
            self.ratio,
            (min(self.ratios), max(self.ratios)),
            {
                "workload": f"{ROWS:,} messages, processor time of the cheapest run",
                "ratio": "how many times as much a message costs with the many",
                "rounds": str(len(self.ratios)),
            },
            "python -m benchmarks.bench_match",
            at_most=self.limit,
        )
        record(f"match-{re.sub(r'[^a-z0-9*#]+', '-', title.lower())}", answer)


def best(run: Callable[[], object], repeats: int = REPEATS) -> float:
    """Processor seconds of the cheapest of several runs, after a warm-up."""
    run()
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return min(taken)


def alternately(first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float, tuple[float, ...]]:
    """Processor seconds of the cheapest run of each, run in turn so that a busy machine slows both; their ratios."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(2 * REPEATS):
        taken[0].append(best(first, 1))
        taken[1].append(best(second, 1))
    return min(taken[0]), min(taken[1]), tuple(many / few for few, many in zip(*taken, strict=True))


# -- one exchange with few or many bindings ---------------------------------------------------------------


def one_exchange(kind: str, bindings: Iterator[tuple[str, dict[str, Value]]]) -> Topology:
    """A topology whose exchange `x` has one binding per item, spread over ten queues."""
    editor = TopologyEditor(Topology.empty())
    editor.declare_exchange(Exchange(DEFAULT_VHOST, "x", kind))
    for number in range(10):
        editor.declare_queue(Queue(DEFAULT_VHOST, f"q{number}"))
    for number, (key, arguments) in enumerate(bindings):
        editor.bind(Binding(0, DEFAULT_VHOST, "x", f"q{number % 10}", "queue", key, Table(arguments)))
    return editor.topology


def published(kind: Callable[[int], Message], used: int = USED, rows: int = ROWS) -> pa.RecordBatch:
    """`rows` messages, drawn from `used` different ones."""
    samples = to_batch([kind(number) for number in range(used)])
    return samples.take(pa.array(np.random.default_rng(1).integers(0, used, rows)))


@dataclass(frozen=True)
class Comparison:
    """A way to bind and a way to publish, such that each message meets the same bindings however many there are."""

    kind: str
    binding: Callable[[int], tuple[str, dict[str, Value]]]
    message: Callable[[int], Message]

    def topology(self, count: int) -> Topology:
        """The topology with so many bindings."""
        return one_exchange(self.kind, map(self.binding, range(count)))


@dataclass(frozen=True)
class QueueFilters:
    """Queues on one fanout exchange that each take messages of one customer (x-queue-filter, dialect artemis)."""

    message: Callable[[int], Message]

    def topology(self, count: int) -> Topology:
        """The topology with so many queues."""
        editor = TopologyEditor(Topology.empty())
        editor.declare_exchange(Exchange(DEFAULT_VHOST, "x", "fanout"))
        for number in range(count):
            arguments = Table({"x-queue-filter": f"customer = 'c{number}' AND price > 10"})
            editor.declare_queue(Queue(DEFAULT_VHOST, f"q{number}", arguments=arguments))
            editor.bind(Binding(0, DEFAULT_VHOST, "x", f"q{number}", "queue", "", Table()))
        return editor.topology


@dataclass(frozen=True)
class Diverts:
    """Diverts of one exchange, each for the messages of one customer (dialect artemis), to one other exchange."""

    message: Callable[[int], Message]

    def topology(self, count: int) -> Topology:
        """The topology with so many diverts."""
        editor = TopologyEditor(one_exchange("fanout", iter([("", {})])))
        editor.declare_exchange(Exchange(DEFAULT_VHOST, "y", "fanout"))
        editor.bind(Binding(0, DEFAULT_VHOST, "y", "q1", "queue", "", Table()))
        for number in range(count):
            text = f"customer = 'c{number}' AND price > 10"
            editor.declare_divert(Divert(0, DEFAULT_VHOST, f"d{number}", "x", "y", text))
        return editor.topology


@dataclass(frozen=True)
class DefaultExchange:
    """Queues that messages reach by their names."""

    message: Callable[[int], Message]

    def topology(self, count: int) -> Topology:
        """The topology with so many queues."""
        editor = TopologyEditor(Topology.empty())
        for number in range(count):
            editor.declare_queue(Queue(DEFAULT_VHOST, f"q{number}"))
        return editor.topology


def _headers(**properties: Value | Callable[[int], Value]) -> Callable[[int], Message]:
    return lambda n: Message(
        exchange="x", application_properties=Table({k: v(n) if callable(v) else v for k, v in properties.items()})
    )


def _selector(number: int) -> dict[str, Value]:
    return {"x-filter-jms-selector": f"customer = 'c{number}' AND price > 10"}


def _set(descriptor: str, value: object) -> dict[str, Value]:
    return dict(decode_arguments({"x-filters": {"f": {"descriptor": descriptor, "value": value}}}))


OF_CUSTOMER = _headers(customer=lambda n: f"c{n}", price=20)

COMPARISONS: dict[str, Comparison | Diverts | DefaultExchange] = {
    "default exchange": DefaultExchange(lambda n: Message(routing_key=f"q{n}")),
    "direct": Comparison(
        "direct", lambda n: (f"order.{n}", {}), lambda n: Message(exchange="x", routing_key=f"order.{n}")
    ),
    "topic, literal words": Comparison(
        "topic", lambda n: (f"order.{n}.created", {}), lambda n: Message(exchange="x", routing_key=f"order.{n}.created")
    ),
    "topic, *": Comparison(
        "topic", lambda n: (f"*.{n}.*", {}), lambda n: Message(exchange="x", routing_key=f"order.{n}.created")
    ),
    "topic, #": Comparison(
        "topic", lambda n: (f"#.w{n}.#", {}), lambda n: Message(exchange="x", routing_key=f"order.w{n}.created")
    ),
    "headers, all": Comparison(
        "headers", lambda n: ("", {"type": "order", "customer": n}), _headers(type="order", customer=lambda n: n)
    ),
    "headers, any": Comparison(
        "headers",
        lambda n: ("", {"x-match": "any", "customer": n, "other": n}),
        _headers(type="order", customer=lambda n: n),
    ),
    "headers, all over pairs of values": Comparison(
        "headers", lambda n: ("", {"a": n % 317, "b": n // 317}), _headers(a=lambda n: n % 317, b=lambda n: n // 317)
    ),
    "selectors on a fanout": Comparison("fanout", lambda n: ("", _selector(n)), OF_CUSTOMER),
    "selectors on a topic": Comparison("topic", lambda n: ("#", _selector(n)), OF_CUSTOMER),
    "selectors on a headers exchange": Comparison(
        "headers", lambda n: ("", {"price": 20, **_selector(n)}), OF_CUSTOMER
    ),
    "ranges on a fanout": Comparison(
        "fanout",
        lambda n: ("", {"x-filter-jms-selector": f"price BETWEEN {n} AND {n}.5"}),
        _headers(price=lambda n: n),
    ),
    "filter sets, apache-selector": Comparison(
        "fanout",
        lambda n: ("", _set("apache.org:selector-filter:string", f"customer = 'c{n}' AND amqp.priority > 3")),
        OF_CUSTOMER,
    ),
    "filter sets, amqp-sql": Comparison(
        "fanout", lambda n: ("", _set("amqp:sql-filter", f"a.customer = 'c{n}' AND price > 10")), OF_CUSTOMER
    ),
    "filter sets, property filters": Comparison(
        "fanout", lambda n: ("", _set("amqp:application-properties-filter", {"customer": f"c{n}"})), OF_CUSTOMER
    ),
    "diverts, artemis": Diverts(OF_CUSTOMER),
    "selectors on one direct key": Comparison(
        "direct",
        lambda n: ("k", {"x-filter-jms-selector": f"customer = 'c{n}' AND price > {n % 50}"}),
        lambda n: Message(
            exchange="x", routing_key="k", application_properties=Table({"customer": f"c{n}", "price": 99})
        ),
    ),
}


def compare_bindings() -> Iterator[Line]:
    """Cost per message with many bindings against few."""
    for name, case in COMPARISONS.items():
        batch = published(case.message)
        few, many = (Router.compile(case.topology(count), DEFAULT_VHOST) for count in (USED, MANY))
        copies = [len(router.route(batch, clock_ms=0).rows) for router in (few, many)]
        if copies[0] != copies[1]:
            raise AssertionError(f"{name}: {copies} copies: not the same matches")
        base, cost, ratios = alternately(lambda: few.route(batch, clock_ms=0), lambda: many.route(batch, clock_ms=0))  # noqa: B023  # run at once
        yield _compared(f"{name}: 100,000 bindings / 100", cost, base, ratios, 1.5)


def compare_keys() -> Iterator[Line]:
    """Cost per message with 100,000 distinct keys in a batch against 1,000."""
    editor = one_exchange("topic", ((f"{'*.' * (n % 3)}w{n}.#", {}) for n in range(2_000)))
    router = Router.compile(editor, DEFAULT_VHOST)
    few, many = (
        published(lambda n: Message(exchange="x", routing_key=f"w{n % 2000}.{n}.w{n % 7}"), used)
        for used in (1_000, ROWS)
    )
    base, cost, ratios = alternately(lambda: router.route(few, clock_ms=0), lambda: router.route(many, clock_ms=0))
    yield _compared("topic: 100,000 distinct keys / 1,000", cost, base, ratios)


# -- patterns that explode ----------------------------------------------------------------------------------


def explosive_patterns() -> Iterator[Line]:
    """Many `#` in one pattern, and thousands of patterns that each have two."""
    rng = random.Random(30)
    for pattern, end in (("#.a." * 30)[:-1], ["a"]), (("#.a.#.b." * 15)[:-1], ["a", "a"]):
        matcher = TopicMatcher([pattern])
        keys = [".".join(rng.choices("ab", [5, 1], k=60 - len(end)) + end) for _ in range(1_000)]
        matched = len(matcher.match(keys)[1])
        taken = best(partial(matcher.match, keys)) / len(keys)
        yield Line(f"30 # in a pattern, 60 words, {matched} of 1,000 match", _micro(taken), "a key")
    rng = random.Random(1)
    matcher = TopicMatcher([f"#.w{number}.#" for number in range(5_000)])
    keys = [".".join(f"w{rng.randrange(6_000)}" for _ in range(10)) for _ in range(10_000)]
    yield Line(
        "5,000 patterns #.wN.#, keys of 10 words", _micro(best(lambda: matcher.match(keys)) / len(keys)), "a key"
    )


def published_workload() -> Iterator[Line]:
    """1M topics x 2,000 patterns of 2-6 words over 100 words, 10 % *, 1 % # (RabbitMQ, 2011)."""
    rng = random.Random(2011)
    words = [f"w{number}" for number in range(100)]

    def word() -> str:
        drawn = rng.random()
        return "#" if drawn < 0.01 else "*" if drawn < 0.11 else rng.choice(words)

    patterns = [".".join(word() for _ in range(rng.randrange(2, 7))) for _ in range(2_000)]
    topics = [".".join(rng.choice(words) for _ in range(rng.randrange(2, 7))) for _ in range(1_000_000)]
    router = Router.compile(one_exchange("topic", ((pattern, {}) for pattern in patterns)), DEFAULT_VHOST)
    template = to_batch([Message(exchange="x")]).take(pa.array(np.zeros(ROWS, np.int64)))
    place = template.schema.get_field_index("routing_key")
    batches = [
        template.set_column(place, "routing_key", pa.array(topics[start : start + ROWS], pa.string()))
        for start in range(0, len(topics), ROWS)
    ]
    taken = best(lambda: [router.route(batch, clock_ms=0) for batch in batches], 3)
    yield Line("1M topics x 2,000 patterns, routed", f"{taken:.2f} s", _micro(taken / len(topics)))


# -- compiling and the whole workload -----------------------------------------------------------------------


def compiling() -> Iterator[Line]:
    """A changed binding in a topology of 100,000: the whole vhost is compiled again, and shipped."""

    def binding(number: int) -> tuple[str, dict[str, Value]]:
        text = f"customer = 'c{number}' AND price > {number % 50}"
        return f"order.{number}.*", {"x-filter-jms-selector": text} if number % 3 == 0 else {}

    topology = one_exchange("topic", map(binding, range(MANY)))
    taken = best(lambda: Router.compile(topology, DEFAULT_VHOST), 2)
    yield Line("compile 100,000 bindings, a third filtered", f"{taken:.2f} s", "a change")
    router = Router.compile(topology, DEFAULT_VHOST)
    shipped = pickle.dumps(router)
    yield Line("  its size when shipped", f"{len(shipped) / 1e6:.1f} MB", "")
    yield Line("  read by a worker", f"{best(lambda: pickle.loads(shipped), 2):.2f} s", "")  # noqa: S301  # our own bytes


def whole_workload() -> Iterator[Line]:
    """The 1,300 bindings of benchmarks/workload.py: routing alone, without reading or writing."""
    router = Router.compile(workload_topology(), DEFAULT_VHOST)
    batches = workload_messages(4 * ROWS, 1).combine_chunks().to_batches(max_chunksize=ROWS)
    copies = sum(len(router.route(batch, clock_ms=0).rows) for batch in batches)
    taken = best(lambda: [router.route(batch, clock_ms=0) for batch in batches], 3)
    yield Line(
        f"400,000 messages, {copies / 1e6:.2f}M copies, routed", f"{taken:.2f} s", f"{copies / taken / 1e6:.1f}M/s"
    )


def _compared(name: str, cost: float, base: float, ratios: tuple[float, ...], limit: float | None = None) -> Line:
    """The line of two costs of `ROWS` messages, in seconds."""
    each, other = cost / ROWS, base / ROWS
    return Line(name, _micro(each), _micro(other), cost / base, limit, each * 1e6, other * 1e6, ratios)


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.3f} us"


def main() -> int:
    """Print the table; 1 when a ratio is over its limit."""
    print(f"{'':46} {'measured':>14} {'yardstick':>14} {'ratio':>8} {'limit':>8}")
    over = False
    for part in (compare_bindings, compare_keys, explosive_patterns, published_workload, compiling, whole_workload):
        for line in part():
            print(line.text(), flush=True)
            line.record()
            over |= line.ratio is not None and line.limit is not None and line.ratio > line.limit
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
