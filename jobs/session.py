"""The Spark session of every job: Delta configured, loopback, UTC, quiet.

`spark.jars.packages` only works in a session that starts its own JVM; under `spark-submit` the Delta
package is named on the command line (docs/jobs.md).
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from bindery.jobs.control.connect import connect_refused, refuse_connect
from bindery.jobs.control.connectors import DELTA, DELTA_PACKAGE, Connector, jar_settings, place_settings
from bindery.jobs.control.packages import DELTA_SETTINGS, NO_PAGES
from bindery.jobs.java import java_needed, quieten
from bindery.router.errors import InvalidInput

__all__ = ["DELTA_PACKAGE", "build_session", "configure"]

_DELTA: Final = DELTA_SETTINGS | {
    # 50 tasks per read of a table's state is Delta's default; queue tables have short logs
    "spark.databricks.delta.snapshotPartitions": "2",
}
#: Where the package pyspark-connect is installed, the default is another.
_CLASSIC: Final = {"spark.api.mode": "classic"}
#: A common part of two guarded expressions must not be computed outside of both guards (jobs/mapping.py).
_GUARDED: Final = {"spark.sql.subexpressionElimination.enabled": "false"}
_ROUTING: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    # no limit in bytes: Spark would measure every column for every row, which costs more than routing;
    # jobs/route.py bounds the rows of a batch by their mean size instead
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    **_GUARDED,
    # Spark's default for local folders starts about 20 processes a batch (readlink, chmod), half of the time of a
    # small batch; both check for the name and then rename
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # a batch of many files: not a task for each of them, only to look at it
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
    # options that are secrets are not shown in plans
    "spark.sql.redaction.options.regex": r"(?i)url|secret|password|token|jaas|access\.key|keystore\.key",
    # a file that is gone or damaged is never skipped without a word
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
}
_LOCAL: Final = NO_PAGES | {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def build_session(
    app_name: str,
    *,
    master: str | None = None,
    needs: Sequence[Connector] = (),
    settings: Mapping[str, str] | None = None,
    log_file: Path | None = None,
) -> SparkSession:
    """The session to run jobs in: the one that spark-submit prepares, or a new local one.

    Raises InvalidInput without a Java and for Spark Connect, JavaEnded for a Java that does not start. `needs` is
    what the job needs beside Delta; a session that spark-submit prepares has the classes by its command line.
    `settings` override everything set here. With `log_file`, what Spark and its JVM print goes to that file instead
    of the terminal (in a session that starts its own JVM).
    """
    refuse_connect(master=master or "", conf=settings, environment=os.environ)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted:
        # what spark-submit was told is known to its JVM alone
        SparkContext._ensure_initialized()
        refuse_connect(conf=dict(SparkConf().getAll()))
    else:
        _require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    values = _CLASSIC | _ROUTING | place_settings(needs)
    values |= {name: value for name, value in _DELTA.items() if not submitted or name.startswith("spark.databricks")}
    if not submitted:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        values |= _LOCAL | {
            "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
            **jar_settings((DELTA, *(one for one in needs if one is not DELTA))),
        }
        builder = builder.master(master or "local[*]")
    for name, value in (values | dict(settings or {})).items():
        builder = builder.config(name, value)
    with _redirected(None if submitted else log_file), java_needed(app_name):
        return builder.getOrCreate()


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=f"{home}/bin" if home else None) is None:
        raise InvalidInput("Spark needs Java and there is none", where="java", hint="install Java 17, or set JAVA_HOME")


def configure(session: SparkSession) -> None:
    """Set what a routing job relies on, in a session made here or by somebody else; see require_classic."""
    require_classic(session)
    quieten(session)
    for name, value in _ROUTING.items():
        session.conf.set(name, value)


def guard(session: SparkSession) -> None:
    """Set, in somebody's own session, what keeps a record that fails in a mapping from failing its query."""
    for name, value in _GUARDED.items():
        session.conf.set(name, value)


def require_classic(session: SparkSession) -> None:
    """Raise InvalidInput for a session of Spark Connect."""
    if type(session).__module__.startswith("pyspark.sql.connect."):
        raise connect_refused("session")


def has_executor(session: SparkSession) -> bool:
    """Whether there is a process that would run tasks now; a local session is one itself."""
    context = session.sparkContext
    # each has a block manager, and so has the driver
    local = str(context.master).partition("[")[0] == "local"
    return local or context._jsc.sc().getExecutorMemoryStatus().size() > 1


@contextmanager
def _redirected(log_file: Path | None) -> Iterator[None]:
    """What a JVM started meanwhile inherits as standard error is the log file."""
    if log_file is None:
        yield
        return
    log_file.parent.mkdir(parents=True, exist_ok=True)
    kept = os.dup(2)
    with log_file.open("ab") as log:
        sys.stderr.flush()
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
