"""What must not grow: the cost of a message, a match or a byte where there is more of everything else.

    python -m benchmarks.bench_growth [--only NAME] [--rows 100000] [--many 100000] [--rounds 7] [--list]

Each line is measured beside its yardstick, in turns in the same run, in processor time: the medians of the rounds, the
ratio of these, and the least and greatest ratio of one round. `--only` runs the lines whose names begin so. `--many` is
how many bindings "many" are.

    bindings …     one message through many bindings against 100, the same matches: every exchange type and dialect
    ranges …       10,000 filters over the batch against each over the batch; and against 100 with as many matches
    no key …       filters that ask for no value: what a copy costs with many of them against with few
    keys …         a message with 1,000,000 distinct routing keys about against 1,000
    queues …       a batch into 10,000 queues: what a table costs against 1,000; deferred, a message against 10
    properties …   what an entry costs with 500 properties a message against 5 (routed and written, without Spark)
    body …         what a byte costs in bodies of 1 MB against 128 bytes, and MB/s
    memory …       what a task takes against its bound (`bindery.store.writer`), in a process of its own
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.batches import OneTask, resident
from benchmarks.bench_filters import each_with_own_kernels
from benchmarks.bench_match import (
    COMPARISONS,
    OF_CUSTOMER,
    Comparison,
    DefaultExchange,
    Diverts,
    QueueFilters,
    one_exchange,
    published,
)
from benchmarks.confined import confined
from benchmarks.results import Answer, record
from benchmarks.scratch import scratch
from benchmarks.workload import sent_to
from bindery.jobs.task import Held, RouteTask
from bindery.router.columns import BatchView, Ref
from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.filters import Filter, FilterGroups, parse
from bindery.router.filters.sets import parse_filter_set
from bindery.router.freshness import deferred_queues
from bindery.router.message import MESSAGE_SCHEMA, VALUE_MAP, Message, to_batch
from bindery.router.model import DEFAULT_VHOST, Binding, Exchange, Queue
from bindery.router.values import Table, Value
from bindery.store import effects
from bindery.store.batches import BatchDriver, RouterOf
from bindery.store.commit import BatchCommitter
from bindery.store.maintenance.journals import Kept, keep_journal
from bindery.store.paths import DataDir
from bindery.store.places import at
from bindery.store.topology import TopologyStore
from bindery.store.writer import HELD, BatchStamp, QueueWriter

#: Filters that a yardstick evaluates one by one; the whole number is scaled up from them.
SAMPLE: Final = 100
MIB: Final = 1 << 20
_STAMP: Final = BatchStamp("growth", 0, 0, 0)


@dataclass(frozen=True)
class Options:
    """How large the batches are, how many bindings are many, and how often each side is measured."""

    rows: int
    many: int
    rounds: int

    def command(self, part: str) -> str:
        """What asks the lines of a part again, with these options."""
        given = f"--rows {self.rows} --many {self.many} --rounds {self.rounds}"
        return f"python -m benchmarks.bench_growth --only {shlex.quote(part)} {given}"


@dataclass(frozen=True)
class Figure:
    """A line of the table: what was measured beside what, and between which limits the ratio should be."""

    measured: float
    yardstick: float
    unit: str
    ratios: tuple[float, ...]
    limit: tuple[float, float] = (0, float("inf"))
    note: str = ""

    @property
    def ratio(self) -> float:
        """The median."""
        return statistics.median(self.ratios)

    def text(self, name: str) -> str:
        """The line."""
        low, high = self.limit
        wanted = "" if (low, high) == (0, float("inf")) else f">= {low:g}" if low else f"<= {high:g}"
        verdict = "" if not wanted else "ok" if low <= self.ratio <= high else "OVER"
        spread = f"[{min(self.ratios):.2f}–{max(self.ratios):.2f}]"
        sides = " ".join(f"{f'{side:,.0f} {self.unit}':>20}" for side in (self.measured, self.yardstick))
        return f"{name:42} {sides} {self.ratio:8.2f} {spread:>17} {wanted:>8} {verdict:4} {self.note}"

    def record(self, name: str, options: Options) -> None:
        """Put the ratio into the results."""
        low, high = self.limit
        part, _, title = name.partition(": ")
        ours, beside = YARDSTICKS[part] if not title.endswith(", each") else ("together", "each over the batch")
        answer = Answer(
            f"What must not grow: {part}",
            title,
            self.unit,
            {ours: self.measured, beside: self.yardstick},
            self.ratio,
            (min(self.ratios), max(self.ratios)),
            {"what": self.note or "the same matches on either side", "rounds": str(len(self.ratios))},
            options.command(part),
            at_least=low or None,
            at_most=high if high < float("inf") else None,
        )
        record(f"growth-{re.sub(r'[^a-z0-9<>=*#]+', '-', name.lower()).strip('-')}", answer)


#: Part of the lines -> what is measured, and what beside it.
YARDSTICKS: Final = {
    "bindings": ("many", "100"),
    "ranges": ("10,000", "100"),
    "no key": ("many", "a hundredth of them"),
    "keys": ("distinct", "1,000 keys"),
    "queues": ("many", "few"),
    "properties": ("500", "5"),
    "body": ("large", "128 bytes"),
    "memory": ("at its peak", "its bound"),
}


def in_turns(measured: Callable[[], object], yardstick: Callable[[], object], rounds: int) -> list[tuple[float, float]]:
    """Processor seconds of both, round by round, after a warm-up."""
    measured(), yardstick()
    found = []
    for _ in range(rounds):
        times = [time.process_time()]
        for run in (measured, yardstick):
            run()
            times.append(time.process_time())
        found.append((times[1] - times[0], times[2] - times[1]))
    return found


def figure(
    found: list[tuple[float, float]],
    per: tuple[float, float],
    unit: str,
    *,
    limit: tuple[float, float] = (0, float("inf")),
    note: str = "",
) -> Figure:
    """The figure of times per so many units on either side."""
    many, few = (
        [seconds / count for seconds in side] for side, count in zip(zip(*found, strict=True), per, strict=True)
    )
    ratios = tuple(one / other for one, other in zip(many, few, strict=True))
    return Figure(statistics.median(many) * 1e9, statistics.median(few) * 1e9, f"ns/{unit}", ratios, limit, note)


# -- bindings ----------------------------------------------------------------------------------------------


def bindings(name: str, options: Options) -> Figure:
    """One message through many bindings against 100."""
    return compared(COMPARISONS[name], options, limit=1.5)


def queue_filters(options: Options) -> Figure:
    """One message to which 1,000 queues are bound, each with a filter, against 100: its lineage lists the bindings."""
    fewer = replace(options, rows=max(options.rows // 100, 100), many=min(options.many, 1_000))
    return compared(QueueFilters(OF_CUSTOMER), fewer, limit=float("inf"), note="the lineage lists each")


def compared(
    case: Comparison | QueueFilters | Diverts | DefaultExchange, options: Options, *, limit: float, note: str = ""
) -> Figure:
    """One message through a case's topology of many, and of 100, with the same matches."""
    batch = published(case.message, rows=options.rows)
    many, few = (Router.compile(case.topology(count), DEFAULT_VHOST) for count in (options.many, 100))
    copies = [len(router.route(batch, clock_ms=0).rows) for router in (many, few)]
    if copies[0] != copies[1]:
        raise AssertionError(f"{copies} copies: not the same matches")
    found = in_turns(lambda: many.route(batch, clock_ms=0), lambda: few.route(batch, clock_ms=0), options.rounds)
    return figure(found, (options.rows, options.rows), "message", limit=(0, limit), note=note)


# -- filters that ask for no value -------------------------------------------------------------------------

#: What the filters are, by their number and what they divide 10,000 prices into.
RANGES: Final[Mapping[str, Callable[[int, float], str]]] = {
    "price > n": lambda n, width: f"price > {9990 + n * width / 1000:.6f}",
    "price BETWEEN a AND b": lambda n, width: f"price BETWEEN {n * width:.3f} AND {(n + 1) * width:.3f}",
    "a <= price AND price < b": lambda n, width: f"{n * width:.3f} <= price AND price < {(n + 1) * width:.3f}",
    "n > price": lambda n, width: f"{10 - n * width / 1000:.6f} > price",
    "a range AND region LIKE '%x'": lambda n, width: (
        f"price BETWEEN {n * width:.3f} AND {(n + 1) * width:.3f} AND region LIKE '%th'"
    ),
}

#: Those that lie side by side, so that a message meets one or two of them however many there are.
TILES: Final = ("price BETWEEN a AND b", "a <= price AND price < b")


def properties_batch(rows: int, **columns: pa.Array) -> pa.RecordBatch:
    """Messages with one entry per column; columns hold int64 or strings."""
    kinds = {pa.int64(): "int", pa.string(): "string"}
    size = rows * len(columns)
    place = np.arange(size) % len(columns)
    row = pa.array(np.arange(size) // len(columns))
    fields = dict.fromkeys((field.name for field in VALUE_MAP.item_type), None)
    for number, column in enumerate(columns.values()):
        name = kinds[column.type]
        spread = column.take(row)
        before = fields[name] if fields[name] is not None else pa.nulls(size, column.type)
        fields[name] = pa.compute.if_else(pa.array(place == number), spread, before)
    values = pa.StructArray.from_arrays(
        [pa.nulls(size, f.type) if fields[f.name] is None else fields[f.name] for f in VALUE_MAP.item_type],
        fields=list(VALUE_MAP.item_type),
    )
    keys = pa.array(list(columns)).take(pa.array(place))
    entries = pa.MapArray.from_arrays(pa.array(np.arange(rows + 1) * len(columns), pa.int32()), keys, values)
    return pa.RecordBatch.from_arrays(
        [entries if f.name == "application_properties" else pa.nulls(rows, f.type) for f in MESSAGE_SCHEMA],
        schema=MESSAGE_SCHEMA,
    )


def priced(rows: int) -> pa.RecordBatch:
    """Messages with a price below 10,000 and a region."""
    rng = np.random.default_rng(3)
    regions = pa.array(["north", "south", "east", "west"]).take(pa.array(rng.integers(0, 4, rows)))
    return properties_batch(rows, price=pa.array(rng.integers(0, 10_000, rows)), region=regions)


def view_of(batch: pa.RecordBatch, *names: str) -> BatchView:
    """The batch with the columns of some properties extracted, which is not what is compared."""
    view = BatchView(batch)
    for name in names:
        view.column(Ref("application_properties", name))
    return view


def ranges_against_each(name: str, options: Options) -> Figure:
    """10,000 ranges together against each over the batch."""
    count, rows = 10_000, np.arange(options.rows)
    filters = [parse(RANGES[name](n, 1.0), "jms") for n in range(count)]
    groups = FilterGroups([filters])
    view = view_of(priced(options.rows), "price", "region")
    group = np.zeros(options.rows, np.int32)
    matches = len(groups.select(view, rows, group).pair)
    sample = filters[:: count // SAMPLE]
    found = in_turns(
        lambda: groups.select(view, rows, group), lambda: each_with_own_kernels(view, sample), options.rounds
    )
    scaled = [(ours, each * count / len(sample)) for ours, each in found]
    return Figure(
        statistics.median(ours for ours, _ in scaled) * 1e9 / options.rows,
        statistics.median(each for _, each in scaled) * 1e9 / options.rows,
        "ns/message",
        tuple(each / ours for ours, each in scaled),
        (20, float("inf")),
        f"{matches:,} matches; each: {len(sample)} of {count:,}, scaled",
    )


def ranges_more(name: str, options: Options) -> Figure:
    """What a match costs with 10,000 ranges against 100 that each message meets as many of."""
    view = view_of(priced(options.rows), "price", "region")
    rows, group = np.arange(options.rows), np.zeros(options.rows, np.int32)
    many, few = (
        FilterGroups([[parse(RANGES[name](n, 10_000 / count), "jms") for n in range(count)]]) for count in (10_000, 100)
    )
    matches = [len(groups.select(view, rows, group).pair) for groups in (many, few)]
    found = in_turns(lambda: many.select(view, rows, group), lambda: few.select(view, rows, group), options.rounds)
    return figure(found, (options.rows, options.rows), "message", note=f"{matches[0]:,} and {matches[1]:,} matches")


def _other_than(n: int) -> Filter:
    return parse(f"type <> 'T{n}'", "jms")


def _not_equal(n: int) -> Filter:
    return parse(f"NOT type = 'T{n}'", "jms")


def _is_null(n: int) -> Filter:
    return parse(f"x{n} IS NULL", "jms")


def _not_null(n: int) -> Filter:
    return parse(f"x{n} IS NOT NULL", "jms")


def _any_word(n: int) -> Filter:
    return parse_filter_set({"f": {"descriptor": "apache.org:legacy-amqp-topic-binding:string", "value": f"#.w{n}.#"}})


#: What accepts nearly every message is compared by the copy, what accepts few by the message.
WITHOUT_KEY: Final[Mapping[str, tuple[Callable[[int], Filter], str]]] = {
    "type <> 'a'": (_other_than, "copy"),
    "NOT type = 'a'": (_not_equal, "copy"),
    "x IS NULL": (_is_null, "copy"),
    "x IS NOT NULL": (_not_null, "message"),
    "#.word.#": (_any_word, "message"),
}


def without_key(name: str, options: Options) -> Figure:
    """Many filters that ask for no certain value against a hundredth of them."""
    make, unit = WITHOUT_KEY[name]
    count = 2_000 if unit == "copy" else 10_000
    rows = max(options.rows // 100, 100) if unit == "copy" else options.rows
    distinct = [
        Message(
            properties={"subject": f"a.w{n}.b"},
            application_properties=Table({"type": f"T{n}", f"x{n}": 1}),
        )
        for n in range(count // 100)
    ]
    batch = to_batch(distinct).take(pa.array(np.arange(rows) % len(distinct)))
    view, which, group = BatchView(batch), np.arange(rows), np.zeros(rows, np.int32)
    many, few = (FilterGroups([[make(n) for n in range(number)]]) for number in (count, count // 100))
    copies = [len(groups.select(view, which, group).pair) for groups in (many, few)]
    found = in_turns(lambda: many.select(view, which, group), lambda: few.select(view, which, group), options.rounds)
    per = (float(copies[0]), float(copies[1])) if unit == "copy" else (float(rows), float(rows))
    note = f"{count:,} and {count // 100} filters, {copies[0]:,} and {copies[1]:,} copies"
    return figure(found, per, unit, limit=(0, 1.5), note=note)


# -- distinct keys -----------------------------------------------------------------------------------------


def keys(kind: str, options: Options) -> Figure:
    """1,000,000 messages with as many distinct routing keys against 1,000 (scaled with `--rows`)."""
    total = 10 * options.rows
    bound: Iterator[tuple[str, dict[str, Value]]] = (
        (f"w{n}.*.#" if kind == "topic" else f"w{n}.0.x", {}) for n in range(2_000)
    )
    router = Router.compile(one_exchange(kind, bound), DEFAULT_VHOST)
    template = to_batch([Message(exchange="x")]).take(pa.array(np.zeros(options.rows, np.int64)))
    place = template.schema.get_field_index("routing_key")

    def batches(distinct: int) -> list[pa.RecordBatch]:
        numbers = np.random.default_rng(1).permutation(np.arange(total) % distinct)
        made = [
            pa.array([f"w{n % 2_000}.{n // 2_000}.x" for n in numbers[start : start + options.rows].tolist()])
            for start in range(0, total, options.rows)
        ]
        return [template.set_column(place, "routing_key", column) for column in made]

    many, few = batches(total), batches(1_000)
    found = in_turns(
        lambda: [router.route(batch, clock_ms=0) for batch in many],
        lambda: [router.route(batch, clock_ms=0) for batch in few],
        min(options.rounds, 3),
    )
    return figure(found, (total, total), "message", note=f"{total:,} and 1,000 distinct keys, {total:,} messages")


# -- queues ------------------------------------------------------------------------------------------------


def queues(form: str, options: Options) -> Figure:
    """A batch of a job into many queues, two copies a message: routed, written and committed.

    Deferred queues are compared with ten of them; others, each of which gets a file, by the table with a tenth of them.
    """
    many = min(options.many, 10_000)
    few = 10 if form == "deferred" else many // 10
    rows = max(options.rows // 10, many)
    with scratch() as folder:
        sides = [ManyQueues(folder / str(count), count, rows, deferred=form == "deferred") for count in (many, few)]
        found = in_turns(sides[0].batch, sides[1].batch, min(options.rounds, 3))
        files = [side.files for side in sides]
    if form == "deferred":
        note = f"{many:,} and {few:,} queues, {files[0]:,} and {files[1]:,} files"
        return figure(found, (rows, rows), "message", limit=(0, 1.5), note=note)
    each = statistics.median(seconds for seconds, _ in found) / many
    note = f"linear in the tables: {each * 1e3:.2f} ms each, {files[0]:,} and {files[1]:,} files"
    return figure(found, (many, few), "table", limit=(0, 1.5), note=note)


class ManyQueues:
    """A stream whose messages go to every one of so many queues in turn, on a direct exchange, twice each."""

    def __init__(self, folder: Path, count: int, rows: int, *, deferred: bool) -> None:
        data = DataDir.open(folder, create=True)
        topologies = TopologyStore(data)
        topologies.edit(lambda editor: self._declare(editor, count), author="bench")
        keep_journal(data, "growth", "/", Kept(freshness=3600))
        self._topology = topologies.load()
        committer = BatchCommitter(data, stream="growth", app_id="growth:1")
        driver: BatchDriver[Router] = BatchDriver(committer, topologies, "/", router=RouterOf("/"))
        flags = deferred_queues(self._topology, "/", 3600) if deferred else None
        self._task = OneTask(data, driver, self._fold, flags, journal=deferred)
        keys = pa.array([f"k{number % count}" for number in range(rows)])
        batch = to_batch([Message(exchange="x")]).take(pa.array(np.zeros(rows, np.int64)))
        self._batch = batch.set_column(batch.schema.get_field_index("routing_key"), "routing_key", keys)
        self._number = 0
        self.files = 0

    @staticmethod
    def _declare(editor: TopologyEditor, count: int) -> None:
        editor.declare_exchange(Exchange(DEFAULT_VHOST, "x", "direct"))
        for number in range(count):
            editor.declare_queue(Queue(DEFAULT_VHOST, f"q{number}"))
        for number in range(count):
            for other in (number, (number + 1) % count):
                editor.bind(Binding(0, DEFAULT_VHOST, "x", f"q{other}", "queue", f"k{number}"))

    @staticmethod
    def _fold(batch: pa.RecordBatch, seq: pa.Array, *, clock_ms: int = 0) -> tuple[pa.RecordBatch, None]:
        return sent_to("x", batch, seq), None

    def batch(self) -> None:
        """The next batch."""
        done = self._task.batch(self._number, self._topology, 1_800_000_000_000 + self._number, self._batch)
        self._number += 1
        self.files = done.files


# -- wide and long messages --------------------------------------------------------------------------------


class Tasks:
    """Tasks of a job without Spark: messages of one exchange go to two queues and nothing is committed."""

    def __init__(self, folder: Path) -> None:
        self._data = DataDir.open(folder, create=True)
        self._router = Router.compile(one_exchange("fanout", iter([("", {}), ("", {})])), DEFAULT_VHOST)
        for queue in self._router.queues:
            effects.make_folder(at(self._data.routed("queue", DEFAULT_VHOST, queue)))

    def run(self, batches: list[pa.RecordBatch]) -> None:
        """One task: its batches folded, routed and written."""
        task = RouteTask(self._data, DEFAULT_VHOST, _STAMP, self._fold, Held(self._router), 64 * MIB)
        for file in task.route(iter(batches))["files"]:
            (Path(str(self._data.routed("queue", DEFAULT_VHOST, file["name"]))) / file["path"]).unlink()

    @staticmethod
    def _fold(batch: pa.RecordBatch, seq: pa.Array, *, clock_ms: int = 0) -> tuple[pa.RecordBatch, None]:
        return sent_to("x", batch, seq), None


def wide(options: Options) -> Figure:
    """What an entry of a message costs with 500 of them against 5."""
    rng = np.random.default_rng(2)
    entries = 20 * options.rows

    def batch(width: int) -> pa.RecordBatch:
        rows = entries // width
        return properties_batch(rows, **{f"p{n}": pa.array(rng.integers(0, 1_000, rows)) for n in range(width)})

    many, few = batch(500), batch(5)
    with scratch() as folder:
        tasks = Tasks(folder / "data")
        found = in_turns(lambda: tasks.run([many]), lambda: tasks.run([few]), options.rounds)
    return figure(found, (entries, entries), "entry", limit=(0, 1.5), note=f"{entries:,} entries on either side")


def body(bytes_: int, options: Options) -> Figure:
    """What a byte costs in bodies of some size against 128 bytes."""
    total = max(128 * options.rows * 4, 16 * bytes_)

    def batch(size: int) -> pa.RecordBatch:
        rows = total // size
        data = pa.py_buffer(np.random.default_rng(4).bytes(rows * size))
        bodies = pa.Array.from_buffers(
            pa.binary(), rows, [None, pa.py_buffer(np.arange(0, rows * size + 1, size, dtype=np.int32)), data]
        )
        arrays = [bodies if f.name == "body" else pa.nulls(rows, f.type) for f in MESSAGE_SCHEMA]
        return pa.RecordBatch.from_arrays(arrays, schema=MESSAGE_SCHEMA)

    long, short = batch(bytes_), batch(128)
    with scratch() as folder:
        tasks = Tasks(folder / "data")
        found = in_turns(lambda: tasks.run([long]), lambda: tasks.run([short]), options.rounds)
    speed = total / statistics.median(seconds for seconds, _ in found) / 1e6
    ours = long.num_rows * bytes_
    return figure(
        found, (ours, short.num_rows * 128), "byte", limit=(0, 1.5), note=f"{speed:,.0f} MB/s of bodies into two queues"
    )


# -- memory ------------------------------------------------------------------------------------------------


def memory(bytes_: int, options: Options) -> Figure:
    """What a task takes at its peak against its bound, in a process that may not take more."""
    ratios, shown = [], {}
    for _ in range(min(options.rounds, 3)):
        answer = subprocess.run(  # ourselves
            [sys.executable, "-m", "benchmarks.bench_growth", "--task", str(bytes_)],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_TRIM_THRESHOLD_": "65536"},
        )
        shown = json.loads(answer.stdout)
        ratios.append(shown["peak"] / shown["bound"])
    buffer, given = (f"{shown[name] / MIB:,.0f} MiB" for name in ("buffer", "given"))
    note = f"buffer of {buffer}, {given} of messages, {shown['files']} files; bound kept by: {shown['held_by']}"
    return Figure(shown["peak"] / MIB, shown["bound"] / MIB, "MiB", tuple(ratios), (0, 1), note)


def task(bytes_: int) -> None:
    """What `memory` runs: a writer is given four times its buffer; prints what it took of the system."""
    buffer, queues = 32 * MIB, 4
    rows = max(4 * MIB // (bytes_ + 200), 1)
    router = Router.compile(one_exchange("fanout", iter([("", {})] * queues)), DEFAULT_VHOST)
    rng = np.random.default_rng(4)

    def made(number: int) -> pa.RecordBatch:
        column = pa.array([rng.bytes(bytes_) for _ in range(rows)], pa.binary())
        batch = properties_batch(rows, price=pa.array(rng.integers(0, 10_000, rows)))
        batch = batch.set_column(batch.schema.get_field_index("body"), batch.schema.field("body"), column)
        return sent_to("x", batch, pa.array(np.arange(number * rows, (number + 1) * rows)))

    with scratch(in_memory=False) as folder:
        data = DataDir.open(folder / "data", create=True)
        for queue in router.queues:
            effects.make_folder(at(data.routed("queue", DEFAULT_VHOST, queue)))
        warm = QueueWriter(data, vhost=DEFAULT_VHOST, queues=router.queues, stamp=_STAMP, buffer_bytes=buffer)
        batch = made(0)
        warm.add(batch, router.route(batch, clock_ms=0))
        warm.close()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = resident()
        bound = HELD * buffer + batch.nbytes
        given = 0
        with confined(bound) as held_by:
            writer = QueueWriter(
                data, vhost=DEFAULT_VHOST, queues=router.queues, stamp=_STAMP, attempt="1", buffer_bytes=buffer
            )
            number = 0
            while given < 4 * buffer:
                number += 1
                batch = made(number)
                given += batch.nbytes
                writer.add(batch, router.route(batch, clock_ms=0))
            files = writer.close()
            peak = _peak() - before
    found = {"peak": peak, "bound": bound, "buffer": buffer, "given": given, "files": len(files), "held_by": held_by}
    print(json.dumps(found))


def _peak() -> int:
    """What the process has held at most; `ru_maxrss` would begin with what the one held that started it."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


# -- the table ---------------------------------------------------------------------------------------------

LINES: Final[Mapping[str, Callable[[Options], Figure]]] = {
    **{f"bindings: {name}": partial(bindings, name) for name in COMPARISONS},
    "bindings: queue filters, artemis": queue_filters,
    **{f"ranges: {name}, each": partial(ranges_against_each, name) for name in RANGES},
    **{
        f"ranges: {name}, 100": partial(ranges_more, name)
        for name in RANGES
        if name.count("price") != 1 or "BET" in name
    },
    **{f"no key: {name}": partial(without_key, name) for name in WITHOUT_KEY},
    **{f"keys: {kind}": partial(keys, kind) for kind in ("direct", "topic")},
    **{f"queues: {form}": partial(queues, form) for form in ("immediate", "deferred")},
    "properties: 500 a message": wide,
    **{f"body: {size:,} bytes": partial(body, size) for size in (1 << 10, 1 << 16, 1 << 20)},
    **{f"memory: bodies of {size:,} bytes": partial(memory, size) for size in (128, 1 << 20)},
}


def chosen(names: list[str] | None) -> Iterator[str]:
    """The lines whose names begin as asked; all without a question."""
    for name in LINES:
        if not names or any(name.startswith(start) for start in names):
            yield name


def main() -> int:
    """Print the table; 1 when a ratio is beyond its limit, 2 when no line is called so."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME", help="lines whose names begin so; may be repeated")
    parser.add_argument("--rows", type=int, default=100_000, help="messages a batch")
    parser.add_argument("--many", type=int, default=100_000, help="how many bindings are many")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--list", action="store_true", help="names of the lines")
    parser.add_argument("--task", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task is not None:
        task(given.task)
        return 0
    names = list(chosen(given.only))
    if given.list or not names:
        print("\n".join(LINES))
        return 0 if given.list else 2
    options = Options(given.rows, given.many, given.rounds)
    print(f"{'':42} {'measured':>20} {'yardstick':>20} {'ratio':>8} {'[of a round]':>17}")
    over = False
    for name in names:
        found = LINES[name](options)
        over |= not found.limit[0] <= found.ratio <= found.limit[1]
        print(found.text(name), flush=True)
        found.record(name, options)
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
