"""Brokers: the same messages published to the same bindings, in the fastest durable and the fastest volatile form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from benchmarks.broker import Service, is_here, node
from benchmarks.peers import cases
from benchmarks.peers.asked import Options, Question, differences, in_turns, measured
from benchmarks.peers.java import THREADS, Missing, driver
from benchmarks.peers.ours import Ours, Spark
from benchmarks.peers.settling import settle
from benchmarks.scratch import scratch


@dataclass(frozen=True)
class Broker:
    """A question about a broker: its form, and the part of the workload that it can express."""

    peer: str
    name: str
    form: str
    case: Callable[[], cases.Case]
    settings: str
    at_least: float | None = None
    #: How many times the messages of other brokers it gets: large batches are what a durable table is for.
    many: int = 1

    @property
    def ours(self) -> tuple[str, ...]:
        return ("tables", "deferred") if self.form == "durable" else ("memory",)


_RABBITMQ: Final = "Java client, two connections, bindings without their selectors"
_BROKER_J: Final = "in one process with the publisher, which calls its exchanges"
_ARTEMIS: Final = "in one process with the publisher, which calls its post office; a queue for each binding"
BROKERS: Final = (
    Broker(
        "rabbitmq",
        "RabbitMQ, durable",
        "durable",
        cases.without_selectors,
        f"durable queues, persistent messages, confirms for every 1,000; {_RABBITMQ}",
        50,
        many=4,
    ),
    Broker(
        "rabbitmq",
        "RabbitMQ, volatile",
        "volatile",
        cases.without_selectors,
        f"transient queues and messages, no confirms; {_RABBITMQ}",
    ),
    Broker(
        "broker-j",
        "Broker-J, durable",
        "durable",
        cases.keys_apart,
        f"BDB store, transactions of 1,000 messages; {_BROKER_J}",
    ),
    Broker("broker-j", "Broker-J, in memory", "volatile", cases.keys_apart, f"Memory store; {_BROKER_J}", 5),
    Broker(
        "artemis",
        "Artemis, durable",
        "durable",
        cases.queue_each,
        f"mapped journal, transactions of 1,000 messages; {_ARTEMIS}",
    ),
    Broker("artemis", "Artemis, in memory", "volatile", cases.queue_each, f"no persistence; {_ARTEMIS}"),
    Broker(
        "artemis",
        "Artemis with 1,000 filters, in memory",
        "volatile",
        cases.filters,
        "no persistence; 1,000 queues with a filter each at one address; in one process with the publisher",
        30,
    ),
)


@dataclass
class Node:
    """A RabbitMQ that starts when it is first asked for, and is there for all its forms."""

    _stack: ExitStack
    _service: Service | None = None

    def service(self) -> Service:
        """The node; raises Missing where it cannot be had."""
        if not is_here():
            raise Missing("rabbitmq-server is not installed")
        if self._service is None:
            self._service = self._stack.enter_context(node(self._stack.enter_context(scratch())))
        return self._service


def questions(broker: Broker, options: Options, spark: Spark, rabbitmq: Node) -> Iterator[Question]:
    """Ask about one broker; raises Missing where it cannot be had."""
    with scratch() as folder, ExitStack() as stack:
        case = broker.case()
        count = broker.many * options.messages
        ours = Ours(case, case.messages(count), folder)
        expected = sum(ours.counts.values())
        (folder / "place").mkdir()
        place, apart = str(folder / "place"), list[int]()
        if broker.peer == "rabbitmq":
            service = rabbitmq.service()
            place = f"amqp://{service.user}:{service.password}@127.0.0.1:{service.amqp}"
            apart += [service.process] if service.process is not None else []
        files = case.write(folder, ours.messages)
        peer = stack.enter_context(driver(broker.peer, broker.form, files, place, folder))
        notes: list[str] = []

        def measure(_warm_up: bool) -> Mapping[str, float]:
            theirs = peer.publish(expected, 60 * (broker.many + options.minutes))
            notes[:] = differences(ours.counts, theirs.counts)
            settle(peer.process, *apart)
            seconds = {broker.name: theirs.seconds}
            for form in broker.ours:
                seconds[form], copies = ours.in_memory() if form == "memory" else ours.durable(spark(), form)
                if copies != expected:
                    notes.append(f"Bindery's {form} have {copies:,} copies, its router made {expected:,}")
            return seconds

        seconds = in_turns(broker.name, options, measure)
        for form in broker.ours:
            yield measured(
                broker.name if form != "deferred" else f"{broker.name}, Bindery deferred",
                "Peers: brokers",
                (f"Bindery ({form})", seconds[form]),
                (f"{broker.name.partition(',')[0].partition(' with')[0]} {peer.version}", seconds[broker.name]),
                messages=count,
                copies=expected,
                notes=notes,
                at_least=broker.at_least if form != "deferred" else None,
                settings={
                    "peer": f"{broker.settings}; {THREADS} threads",
                    "Bindery": _FORMS[form],
                    "workload": f"{len(case.bindings()):,} bindings, {len(case.queues()):,} queues",
                },
                command=options.command(broker.peer),
                versions={broker.peer: peer.version},
            )


_FORMS: Final = {
    "tables": "micro-batch of a job from Parquet files into a Delta table per queue, from its pin to its last commit",
    "deferred": "the same into the journal, as queues with `x-freshness`",
    "memory": "Router.route over Arrow batches, one thread: the rows of every queue, not written",
}
