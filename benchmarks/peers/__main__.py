"""Bindery beside its peers, each with the same messages and the same topology in the same run (`make bench-peers`).

    python -m benchmarks.peers [--only rabbitmq,artemis,broker-j,spark,polars,duckdb] [--quick]

Brokers get their messages from the memory of the process that publishes, with nothing to parse any more; Bindery reads
Parquet files where it writes tables, and Arrow batches where it stays in memory. Rounds alternate after one that warms
up; the ratio is the median of the rounds'. The copies in every queue are compared with Bindery's, and the comparison is
printed. What cannot be had here is left out, with the reason.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from rich.console import Console
from rich.table import Table

from benchmarks.peers import brokers, engines, practice
from benchmarks.peers.asked import Options, Question
from benchmarks.peers.java import Missing
from benchmarks.peers.ours import Session
from benchmarks.results import record
from benchmarks.scratch import scratch

PEERS = ("rabbitmq", "broker-j", "artemis", "spark", "polars", "duckdb")


def asked(
    options: Options, only: Sequence[str], spark: Session, rabbitmq: brokers.Node
) -> Iterator[tuple[str, Callable[[], Iterator[Question]]]]:
    """The peers that are asked about, each with its questions."""
    for broker in brokers.BROKERS:
        if broker.peer in only:
            yield broker.name, partial(brokers.questions, broker, options, spark, rabbitmq)
    if "spark" in only:
        yield "Spark", partial(practice.questions, options, spark)
    for engine in engines.ENGINES:
        if engine in only:
            yield engine, partial(engines.questions, engine, options)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PEERS), help="peers, between commas")
    parser.add_argument("--messages", type=int, default=Options.messages, help="messages for brokers")
    parser.add_argument("--records", type=int, default=Options.records, help="messages for Spark and SQL engines")
    parser.add_argument("--rounds", type=int, default=Options.rounds)
    parser.add_argument("--minutes", type=float, default=Options.minutes, help="of a peer, after which no round begins")
    parser.add_argument("--quick", action="store_true", help="5,000 messages, 20,000 records, one round")
    chosen = parser.parse_args(arguments)
    only = chosen.only.split(",")
    if unknown := sorted({*only} - {*PEERS}):
        parser.error(f"no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    options = Options(chosen.messages, chosen.records, chosen.rounds, chosen.minutes)
    if chosen.quick:
        options = Options(5_000, 20_000, 1, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that brokers end with this program
    found: list[Question] = []
    left_out: dict[str, str] = {}
    with scratch() as folder, ExitStack() as stack:
        spark = Session(folder)
        for name, ask in asked(options, only, spark, brokers.Node(stack)):
            try:
                for question in ask():
                    record(question.name, question.answer, versions=question.versions)
                    found.append(question)
            except Missing as reason:
                left_out[name] = str(reason)
        spark.stop()
    _show(found, left_out)


def _show(found: Sequence[Question], left_out: dict[str, str]) -> None:
    console = Console(width=140)
    table = Table("peer", "messages/s", "Bindery's form", "messages/s", "ratio", "of rounds", "asked", "copies")
    for one in found:
        (own, ours), (_, theirs) = one.answer.figures.items()
        least, most = one.answer.spread
        wanted = (
            "" if one.answer.at_least is None else f">= {one.answer.at_least:g}{'' if one.answer.met else ' MISSED'}"
        )
        copies = "DIFFER" if one.notes else "equal"
        row = (one.answer.title, f"{theirs:,.0f}", own, f"{ours:,.0f}", f"{one.answer.ratio:.1f}")
        table.add_row(*row, f"{least:.1f}-{most:.1f}", wanted, copies)
    console.print(table)
    for one in found:
        for note in one.notes:
            console.print(f"{one.answer.title}: {note}", highlight=False)
    for name, reason in left_out.items():
        console.print(f"{name}: left out: {reason}", highlight=False)


if __name__ == "__main__":
    main()
