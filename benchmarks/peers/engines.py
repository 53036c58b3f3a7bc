"""SQL engines over one batch: 1,000 filters as expressions, each with the rows that it accepts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.peers import cases
from benchmarks.peers.asked import Options, Question, differences, in_turns, measured
from benchmarks.peers.java import Missing
from benchmarks.peers.ours import Ours
from benchmarks.results import version_of
from benchmarks.scratch import scratch

Find = Callable[[], dict[str, int]]


def columns(messages: pa.Table) -> pa.Table:
    """The properties that filters ask for, as columns of their own: what is not timed for an engine."""
    entries = messages["application_properties"].combine_chunks()
    values = entries.items
    place = np.arange(0, len(values), 2)
    return pa.table(
        {
            "row": pa.array(np.arange(messages.num_rows)),
            "type": values.field("string").take(pa.array(place)),
            "price": values.field("int").take(pa.array(place + 1)),
        }
    )


def _polars(batch: pa.Table, filters: Mapping[str, str]) -> Find:
    import polars as pl  # noqa: PLC0415  # may not be there

    frame = pl.DataFrame(pl.from_arrow(batch))

    def find() -> dict[str, int]:
        # one pass for all filters; as queries of their own, lazily and together, they took five times as long
        rows = frame.select(**{queue: pl.sql_expr(text).arg_true().implode() for queue, text in filters.items()})
        return {queue: len(rows[queue][0]) for queue in filters}

    return find


def _duckdb(batch: pa.Table, filters: Mapping[str, str]) -> Find:
    import duckdb  # noqa: PLC0415  # may not be there

    connection = duckdb.connect()
    connection.execute("CREATE TABLE batch AS SELECT * FROM batch")

    def find() -> dict[str, int]:
        # one query for all filters, by FILTER (WHERE …) or UNION ALL, took ten times as long
        return {
            queue: len(connection.execute(f"SELECT row FROM batch WHERE {text}").fetchnumpy()["row"])  # noqa: S608  # own
            for queue, text in filters.items()
        }

    return find


ENGINES: Final[Mapping[str, Callable[[pa.Table, Mapping[str, str]], Find]]] = {"polars": _polars, "duckdb": _duckdb}


def questions(engine: str, options: Options) -> Iterator[Question]:
    """Ask one engine; raises Missing where it is not installed."""
    version = version_of(engine)
    if version is None:
        raise Missing("not installed")
    case = cases.filters()
    filters = {one.destination: str(one.arguments[cases.SELECTOR]) for one in case.bindings()}
    with scratch() as folder:
        ours = Ours(case, case.messages(options.records), folder)
        find = ENGINES[engine](columns(ours.messages), filters)
        found: dict[str, int] = {}

        def measure(_warm_up: bool) -> Mapping[str, float]:
            started = time.perf_counter()
            found.update(find())
            took = time.perf_counter() - started
            return {engine: took, "memory": ours.in_memory()[0]}

        seconds = in_turns(f"1,000 filters by {engine}", options, measure)
        yield measured(
            f"1,000 filters by {engine}",
            "Peers: filters as SQL",
            ("Bindery (memory)", seconds["memory"]),
            (f"{engine} {version}", seconds[engine]),
            messages=options.records,
            copies=sum(ours.counts.values()),
            notes=differences(ours.counts, found),
            settings={
                "peer": "each filter an expression over the whole batch, of columns that were extracted before",
                "Bindery": "Router.route over Arrow batches, one thread; extracts the columns itself",
                "workload": "`type = X AND price > n`, X of 1,000",
            },
            command=options.command(engine),
            versions={engine: version},
        )
