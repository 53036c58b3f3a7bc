"""Writing the copies of routed messages, without Spark: what a task does behind its routing (`make bench-write`).

The workload of `benchmarks.workload`, routed once: 100,000 messages, nine copies each, to 100 queues. The yardstick is
the floor: pyarrow's `take` and `write_table` of the same copies into as many files, with the same columns,
dictionaries, encodings, statistics and compression, but without the lineage (`routing.bindings`). Both are timed in
alternation on one thread of one process, after a warm-up; what counts is the processor time, since a machine has other
work, too. The same with a tenth of the messages says what a file costs. Then 20 queues that all get everything against
one that does.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks import results, workload
from benchmarks.scratch import scratch
from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Deliveries, Router
from bindery.router.message import MESSAGE_SCHEMA
from bindery.router.model import DEFAULT_VHOST, Binding, Exchange, Queue, Topology
from bindery.router.values import Table as Arguments
from bindery.store.paths import DataDir
from bindery.store.writer import BATCH_SCHEMA, BatchStamp, QueueWriter

STAMP = BatchStamp("bench", batch_id=1, topology_version=1, clock_ms=1_800_000_000_000)
#: Rows that a task routes at once.
GROUP_ROWS = 65_536
FANOUT = 20
#: (processor seconds, seconds)
Spent = tuple[float, float]


class Routed:
    """Messages with where they go, and a data directory for their copies."""

    def __init__(self, folder: Path, topology: Topology, messages: pa.Table) -> None:
        self.router = Router.compile(topology, DEFAULT_VHOST)
        rows = messages.num_rows
        columns = {name: messages[name].combine_chunks() for name in messages.column_names}
        columns["seq"] = pa.array(np.arange(rows))
        arrays = [columns.get(field.name, pa.nulls(rows, field.type)) for field in BATCH_SCHEMA]
        whole = pa.RecordBatch.from_arrays(arrays, schema=BATCH_SCHEMA)
        self.batches = [whole.slice(first, GROUP_ROWS) for first in range(0, rows, GROUP_ROWS)]
        self.deliveries = [self.router.route(batch, clock_ms=STAMP.clock_ms) for batch in self.batches]
        self.data = DataDir.open(folder, create=True)
        self.queues = sorted({number for one in self.deliveries for number in one.queue.tolist()})
        for number in self.queues:
            Path(self.data.queue(DEFAULT_VHOST, self.router.queues[number])).mkdir(parents=True)
        self.copies = sum(len(one.rows) for one in self.deliveries)

    def write(self) -> list[Path]:
        """What a task does with what was routed; the files."""
        writer = QueueWriter(self.data, vhost=DEFAULT_VHOST, queues=self.router.queues, stamp=STAMP)
        for batch, deliveries in zip(self.batches, self.deliveries, strict=True):
            writer.add(batch, deliveries)
        return [Path(self.data.routed(file.kind, file.vhost, file.name)) / file.path for file in writer.close()]


class Floor:
    """The same copies by pyarrow alone, without the lineage."""

    def __init__(self, routed: Routed, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        whole = pa.Table.from_batches(routed.batches).combine_chunks()
        kept = [name for name in MESSAGE_SCHEMA.names if whole[name].null_count < whole.num_rows]
        rows = whole.num_rows
        routing = {
            "topology_version": pa.array(np.full(rows, STAMP.topology_version)),
            "stream": pa.repeat(STAMP.stream, rows),
            "batch_id": pa.array(np.full(rows, STAMP.batch_id)),
            "seq": whole["seq"].chunk(0),
        }
        at = pa.array(np.full(rows, STAMP.clock_ms * 1000)).view(pa.timestamp("us", tz="UTC"))
        self._table = whole.select(kept).append_column(
            "routing", pa.StructArray.from_arrays(list(routing.values()), names=list(routing))
        )
        self._table = self._table.append_column("routed_at", at)
        self._rows = [pa.array(rows_of(routed.deliveries, number)) for number in routed.queues]

    def write(self) -> list[Path]:
        """One file a queue; the files."""
        files = []
        for number, rows in enumerate(self._rows):
            file = self._folder / f"{number}.parquet"
            pq.write_table(
                self._table.take(rows),
                file,
                compression="snappy",
                use_dictionary=[
                    "exchange",
                    "routing_key",
                    "application_properties.key_value.key",
                    "application_properties.key_value.value.string",
                    "routing.topology_version",
                    "routing.stream",
                    "routing.batch_id",
                    "routed_at",
                ],
                column_encoding={"routing.seq": "DELTA_BINARY_PACKED"},
                write_statistics=[
                    "exchange",
                    "routing_key",
                    "routing.topology_version",
                    "routing.batch_id",
                    "routing.seq",
                    "routed_at",
                ],
                store_schema=False,
            )
            files.append(file)
        return files


def rows_of(deliveries: Sequence[Deliveries], queue: int) -> np.ndarray:
    """The rows of all batches together that a queue gets."""
    return np.concatenate([one.rows_of(queue) + first * GROUP_ROWS for first, one in enumerate(deliveries)])


def fanout(queues: int) -> Topology:
    """So many queues that get everything that is sent to any exchange of the workload."""
    editor = TopologyEditor(Topology.empty())
    for exchange in workload.TYPES:
        editor.declare_exchange(Exchange(DEFAULT_VHOST, exchange, "fanout"))
    for number in range(queues):
        name = f"queue{number:02}"
        editor.declare_queue(Queue(DEFAULT_VHOST, name))
        for exchange in workload.TYPES:
            editor.bind(Binding(0, DEFAULT_VHOST, exchange, name, "queue", "", Arguments({})))
    return editor.topology


def timed(write: Callable[[], list[Path]]) -> Spent:
    processor, wall = time.process_time(), time.perf_counter()
    files = write()
    spent = time.process_time() - processor, time.perf_counter() - wall
    for file in files:
        file.unlink()
    return spent


def alternated(rounds: int, *writes: Callable[[], list[Path]]) -> list[list[Spent]]:
    """What each took in each round."""
    for write in writes:
        timed(write)
    taken = [[timed(write) for write in writes] for _ in range(rounds)]
    return [list(one) for one in zip(*taken, strict=True)]


def cells(spent: Sequence[Spent], files: int, copies: int) -> Iterator[str]:
    processor = [one[0] for one in spent]
    median = statistics.median(processor)
    yield f"{median:.2f}"
    yield f"{min(processor):.2f}–{max(processor):.2f}"
    yield f"{statistics.median(one[1] for one in spent):.2f}"
    yield f"{1000 * median / files:.2f}"
    yield f"{copies / median:,.0f}"


def ratio(ours: Sequence[Spent], theirs: Sequence[Spent]) -> float:
    """By processor time: the median of what the rounds say, each for itself."""
    return statistics.median(one[0] / other[0] for one, other in zip(ours, theirs, strict=True))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Writing copies against pyarrow's take and write_table.")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with scratch() as folder:
        run(folder, options.messages, options.rounds)


def run(folder: Path, messages: int, rounds: int) -> None:
    table = Table("what", "processor s", "spread", "wall s", "ms a file", "copies/s", title=f"{rounds} rounds each")
    for column in table.columns[1:]:
        column.justify = "right"
    said = []
    for count in (messages, messages // 10):
        routed = Routed(folder / f"data-{count}", workload.topology(), workload.messages(count, seed=0))
        floor = Floor(routed, folder / f"floor-{count}")
        ours, theirs = alternated(rounds, routed.write, floor.write)
        files, copies = len(routed.queues), routed.copies
        table.add_row(f"write, {count:,} messages, {copies:,} copies", *cells(ours, files, copies))
        table.add_row("floor", *cells(theirs, files, copies))
        said.append(f"ratio write/floor, {count:,} messages to {files} queues: {ratio(ours, theirs):.2f}")
        note(
            f"{count:,} messages into {files} queues",
            {"a task's writer": ours, "pyarrow": theirs},
            f"{copies:,} copies; pyarrow's `take` and `write_table` of the same copies, without the lineage",
            _command(messages, rounds),
        )
    sent = workload.messages(messages, seed=0)
    one, many = (Routed(folder / f"fanout-{queues}", fanout(queues), sent) for queues in (1, FANOUT))
    alone, together = alternated(rounds, one.write, many.write)
    table.add_row("fanout to one queue", *cells(alone, 1, one.copies))
    table.add_row(f"fanout to {FANOUT} queues", *cells(together, FANOUT, many.copies))
    said.append(f"ratio {FANOUT} queues of a fanout/one: {ratio(together, alone):.2f}")
    note(
        f"{messages:,} messages into each of {FANOUT} queues",
        {f"{FANOUT} queues": together, "one queue": alone},
        "queues that all get everything",
        _command(messages, rounds),
    )
    Console(width=120).print(table)
    print("\n".join(said))


def _command(messages: int, rounds: int) -> str:
    return f"python -m benchmarks.bench_write --messages {messages} --rounds {rounds}"


def note(title: str, sides: Mapping[str, Sequence[Spent]], what: str, command: str) -> None:
    """Record what one side takes beside the other, in processor time."""
    processor = {name: [one[0] for one in spent] for name, spent in sides.items()}
    ours, theirs = processor.values()
    found, spread = results.rounds(theirs, ours)
    answer = results.Answer(
        "Writing copies",
        title,
        "s",
        {name: statistics.median(spent) for name, spent in processor.items()},
        found,
        spread,
        {
            "what": what,
            "time": "of the processor, one thread",
            "ratio": "how many times as long as what stands beside it",
            "rounds": str(len(ours)),
        },
        command,
    )
    results.record(f"write-{title.replace(',', '').replace(' ', '-')}", answer)


if __name__ == "__main__":
    main()
