"""What looking at a table and committing a file to it costs as its log grows (`make bench-commit`).

One table, one file a commit, no compaction: the worst case. Processor time per commit, checkpoints
included, after so many commits; the yardstick is the first hundred. Beside it what deltalake takes for the same
append at the same length: it follows every file of the table.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from deltalake import DeltaTable
from deltalake.transaction import AddAction, CommitProperties
from deltalake.transaction import Transaction as DeltaTransaction
from rich.console import Console
from rich.table import Table

from benchmarks.scratch import scratch
from bindery.store import data_files, tables
from bindery.store.actions import AddFile, Transaction
from bindery.store.log import TableLog
from bindery.store.paths import DataDir

POINTS = (100, 300, 1_200, 2_400, 5_000)
#: Commits by deltalake at each point.
FOREIGN = 20


def added(number: int) -> AddFile:
    """A file of three rows, with the statistics that queue tables state."""
    routing = {"batch_id": number, "seq": 3, "topology_version": 1}
    bounds = {"routed_at": "2026-01-01T00:00:00.000Z", "routing": routing}
    stats = json.dumps({"numRecords": 3, "minValues": bounds, "maxValues": bounds})
    return data_files.add_file(f"part-{number}.parquet", 4_000, 3, stats)


def milliseconds(number: int, commit: Callable[[int], None], first: int) -> float:
    """Processor time per commit of the whole process."""
    started = time.process_time()
    for one in range(first, first + number):
        commit(one)
    return (time.process_time() - started) * 1000 / number


def foreign(path: str) -> Callable[[int], None]:
    """A commit as deltalake makes it, on a table that it follows."""
    table = DeltaTable(path)

    def commit(number: int) -> None:
        table.update_incremental()
        file = added(number)
        action = AddAction(file.path, file.size, {}, file.modified_ms, True, file.stats)
        properties = CommitProperties(app_transactions=[DeltaTransaction("other:1", number)])
        table.create_write_transaction([action], "append", table.schema(), commit_properties=properties)

    return commit


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=POINTS[-1], help="how long the log becomes")
    options = parser.parse_args(arguments)
    with scratch() as folder:
        run(folder, [*(point for point in POINTS if point < options.commits), options.commits])


def run(folder: Path, points: Sequence[int]) -> None:
    data = DataDir.open(folder, create=True)
    tables.ensure_queue_table(data, "/", "q")
    path = data.queue("/", "q")
    log = TableLog(path)

    def commit(number: int) -> None:
        log.refresh()
        log.commit([added(number)], transactions=[Transaction("s:1", number)], info={"isBlindAppend": True})

    shown = Table("commits", "ms a commit", "ratio", "deltalake, ms", title="Refresh and commit of one table")
    for column in shown.columns:
        column.justify = "right"
    done, yardstick = 0, 0.0
    for point in points:
        own = milliseconds(point - done, commit, done)
        done = point
        yardstick = yardstick or own
        other = milliseconds(FOREIGN, foreign(path), 1_000_000 + point)
        shown.add_row(f"{point:,}", f"{own:.2f}", f"{own / yardstick:.2f}", f"{other:.1f}")
    Console(width=100).print(shown)


if __name__ == "__main__":
    main()
