"""Selectors `type = X AND price > n` over one batch: led by their keys, against each over the whole batch.

    python -m benchmarks.bench_filters [--rows 100000] [--sizes 1000,10000] [--repeat 5]

Yardsticks evaluate every filter over all rows with the columns already extracted; extraction is shown apart, and
in the last line added to both sides. "each, own kernels" uses the same vectorised evaluator, "each, Arrow kernels"
plain pyarrow comparisons of typed columns. A yardstick that would take minutes is measured on a sample of the
filters and scaled; the table says so.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.results import Answer, record
from bindery.router.columns import BatchView, Ref
from bindery.router.filters import Filter, FilterGroups, parse
from bindery.router.filters.pairs import Batch, Pairs
from bindery.router.message import MESSAGE_SCHEMA, VALUE

TYPES = 1_000
PRICES = 1_000
#: Filters that a yardstick evaluates; more are scaled up from as many.
SAMPLE = 500


def make_batch(rows: int, seed: int = 7) -> tuple[pa.RecordBatch, pa.Array, pa.Array]:
    """Messages with a type and a price, and these two as plain Arrow columns."""
    random = np.random.default_rng(seed)
    types = pa.array([f"T{n}" for n in random.integers(0, TYPES, rows)])
    prices = pa.array(random.integers(0, PRICES, rows))
    holders = {member.name: pa.nulls(2 * rows, member.type) for member in VALUE}
    interleaved = np.arange(2 * rows) // 2
    is_price = pa.array(np.arange(2 * rows) % 2 == 1)
    holders["string"] = pc.if_else(is_price, None, types.take(pa.array(interleaved)))
    holders["int"] = pc.if_else(is_price, prices.take(pa.array(interleaved)), None)
    keys = pa.DictionaryArray.from_arrays(is_price.cast(pa.int32()), ["type", "price"]).dictionary_decode()
    values = pa.StructArray.from_arrays(list(holders.values()), fields=list(VALUE))
    properties = pa.MapArray.from_arrays(pa.array(np.arange(0, 2 * rows + 1, 2), pa.int32()), keys, values)
    columns = [
        properties if member.name == "application_properties" else pa.nulls(rows, member.type)
        for member in MESSAGE_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA), types, prices


def make_texts(count: int, seed: int = 11) -> list[tuple[str, int]]:
    random = np.random.default_rng(seed)
    return [(f"T{random.integers(0, TYPES)}", int(random.integers(0, PRICES))) for _ in range(count)]


def timed(call: Callable[[], object], repeat: int) -> float:
    """Median seconds."""
    return statistics.median(times(call, repeat))


def times(call: Callable[[], object], repeat: int) -> list[float]:
    """Seconds of every call."""
    found = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return found


def each_with_own_kernels(view: BatchView, filters: list[Filter]) -> int:
    batch, rows = Batch(view), np.arange(view.rows)
    pick = np.zeros(view.rows, np.int64)
    return sum(int((Pairs(batch, rows, (), pick).truth(item.expression) == 3).sum()) for item in filters)


def each_with_arrow(types: pa.Array, prices: pa.Array, constants: list[tuple[str, int]]) -> int:
    return sum(
        pc.sum(pc.and_(pc.equal(types, kind), pc.greater(prices, price))).as_py() or 0 for kind, price in constants
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--sizes", default="1000,10000")
    options.add_argument("--repeat", type=int, default=5)
    chosen = options.parse_args()
    batch, types, prices = make_batch(chosen.rows)
    refs = [Ref("application_properties", name) for name in ("type", "price")]

    def extract() -> BatchView:
        view = BatchView(batch)
        for ref in refs:
            view.column(ref)
        return view

    print(f"{chosen.rows:,} messages, filters `type = X AND price > n`, X of {TYPES:,}; medians of {chosen.repeat}")
    extraction = timed(extract, chosen.repeat)
    print(f"extracting both columns from the batch, once for all filters: {extraction * 1e3:.0f} ms\n")
    print(f"{'filters':>8} {'what':<38} {'ms':>10} {'ratio':>8}")
    for size in map(int, chosen.sizes.split(",")):
        constants = make_texts(size)
        start = time.perf_counter()
        filters = [parse(f"type = '{kind}' AND price > {price}", "jms") for kind, price in constants]
        parsing = time.perf_counter() - start
        start = time.perf_counter()
        groups = FilterGroups([filters])
        compiling = time.perf_counter() - start
        rows, numbers = np.arange(chosen.rows), np.zeros(chosen.rows, np.int32)
        views = [extract() for _ in range(chosen.repeat)]
        pending = iter(views)
        selections = times(lambda: groups.select(next(pending), rows, numbers), chosen.repeat)  # noqa: B023  # called here
        ours = statistics.median(selections)
        view = extract()
        sample = min(size, SAMPLE)
        scale = size / sample
        own = timed(lambda: each_with_own_kernels(view, filters[:sample]), 1) * scale  # noqa: B023  # called here
        arrow = timed(lambda: each_with_arrow(types, prices, constants[:sample]), 1) * scale  # noqa: B023  # called here
        found = groups.select(view, rows, numbers)
        if int((found.member < 3).sum()) != each_with_arrow(types, prices, constants[:3]):
            raise SystemExit("the two ways disagree")
        matches = len(found.pair)
        note = "" if scale == 1 else f" (sample of {sample}, scaled)"
        print(f"{size:>8,} {'parse':<38} {parsing * 1e3:>10.0f}")
        print(f"{size:>8,} {'compile':<38} {compiling * 1e3:>10.0f}")
        print(f"{size:>8,} {f'select: {matches:,} matches':<38} {ours * 1e3:>10.1f} {'1':>8}")
        with_extraction = (own + extraction) / (ours + extraction)
        print(f"{size:>8,} {'each, own kernels' + note:<38} {own * 1e3:>10.0f} {own / ours:>8.0f}")
        print(f"{size:>8,} {'each, Arrow kernels' + note:<38} {arrow * 1e3:>10.0f} {arrow / ours:>8.0f}")
        print(f"{size:>8,} {'each, own kernels, both with extraction':<49} {with_extraction:>8.0f}\n")
        for name, theirs in (("each with its own kernels", own), ("each with Arrow's kernels", arrow)):
            answer = Answer(
                "Filters",
                f"{size:,} filters beside {name}",
                "ms",
                {"Bindery": ours * 1e3, name: theirs * 1e3},
                theirs / ours,
                (theirs / max(selections), theirs / min(selections)),
                {
                    "workload": f"{chosen.rows:,} messages, `type = X AND price > n`; columns extracted before" + note,
                    "ratio": "how many times as fast Bindery is",
                    "rounds": str(chosen.repeat),
                },
                f"python -m benchmarks.bench_filters --sizes {size}",
            )
            record(f"filters-{size}-{name.split()[2].lower().removesuffix(chr(39) + 's')}", answer)


if __name__ == "__main__":
    main()
