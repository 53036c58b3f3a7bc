"""A job in a Spark session of its own on this machine: what `bindery route` and the demo run."""

from __future__ import annotations

import getpass
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console

from bindery.cli.progress import StreamProgress
from bindery.jobs.control.config import JobFile
from bindery.jobs.control.connect import refuse_connect
from bindery.jobs.control.connectors import Connector, connectors_of
from bindery.jobs.control.exchanges import missing_exchanges
from bindery.jobs.java import JavaEnded, java_needed
from bindery.jobs.plan import check_fit
from bindery.jobs.preview import preview
from bindery.jobs.report import Totals
from bindery.jobs.route import RouteJob, StreamFailed, stop_on_signals
from bindery.jobs.session import build_session
from bindery.store.paths import DataDir, encode_name
from bindery.store.topology import TopologyStore


def default_log(stream: str) -> Path:
    """Where Spark's log of a stream goes unless told otherwise."""
    return Path(tempfile.gettempdir()) / f"bindery-{getpass.getuser()}" / f"{encode_name(stream)}.log"


@contextmanager
def local_session(
    name: str, terminal: Console, *, where: str, master: str, needs: Sequence[Connector], log: Path
) -> Iterator[SparkSession]:
    """A session for one command, with what it needs, stopped at the end; one that is there already is left alone.

    Spark shows it as `name`; `where` is what an error of its process names.

    Raises InvalidInput for a master that is Spark Connect's, and what build_session does.
    """
    refuse_connect(master=master)
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    with terminal.status("starting Spark (the first start downloads the jars that it needs) …"):
        spark = build_session(f"bindery {name}", master=master, needs=needs, log_file=log)
    with java_needed(where):
        try:
            yield spark
        finally:
            spark.stop()


def job_session(
    file: JobFile, data: DataDir, progress: StreamProgress, *, master: str, log: Path
) -> AbstractContextManager[SparkSession]:
    """A local_session for a job, with what it needs, announced where its progress is shown."""
    stream, needs = file.job.stream, connectors_of(file, data)
    return local_session(stream, progress.console, where=f"stream {stream!r}", master=master, needs=needs, log=log)


def run_stream(
    spark: SparkSession,
    data: DataDir,
    file: JobFile,
    progress: StreamProgress,
    *,
    log: Path,
    available_now: bool = False,
    new_epoch: bool = False,
    repin: bool = False,
) -> None:
    """Run a job with its progress shown; an unexpected failure names the log."""
    try:
        with progress:
            job = RouteJob(spark, data, file, report=progress.report)
            stop_on_signals(job)
            job.run(available_now=available_now, new_epoch=new_epoch, repin=repin)
    except (StreamFailed, JavaEnded) as error:
        error.hint = f"Spark's log: {log}"
        raise


def preview_local(
    file: JobFile, data: DataDir, count: int, *, master: str = "local[*]", log: Path | None = None
) -> list[dict[str, Any]]:
    """The first records of a job's source, and where they would go; nothing is written but Spark's log."""
    stream = file.job.stream
    progress = StreamProgress(stream)
    for warning in missing_exchanges(file, TopologyStore(data).load()):
        progress.note(warning)
    with job_session(file, data, progress, master=master, log=log or default_log(stream)) as spark:
        return preview(spark, data, file, count)


def run_local(
    file: JobFile,
    data: DataDir,
    *,
    available_now: bool = False,
    new_epoch: bool = False,
    repin: bool = False,
    master: str = "local[*]",
    log: Path | None = None,
) -> Totals:
    """Start Spark, run the job, stop Spark; what needs no Spark is checked first. Its summary is told at the end."""
    stream = file.job.stream
    topology = TopologyStore(data).load()
    check_fit(file, topology)
    log = log or default_log(stream)
    progress = StreamProgress(stream)
    for warning in missing_exchanges(file, topology):
        progress.note(warning)
    try:
        with job_session(file, data, progress, master=master, log=log) as spark:
            run_stream(
                spark, data, file, progress, log=log, available_now=available_now, new_epoch=new_epoch, repin=repin
            )
    except BaseException:
        if progress.totals.batches:
            progress.note(progress.totals.summary)
        raise
    progress.note(progress.totals.summary)
    return progress.totals
