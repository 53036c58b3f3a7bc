"""The first records of a source as messages, and where they would go: nothing is written, and no stream is started."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions

from bindery.jobs.control.config import FileSource, JobFile
from bindery.jobs.fold import Refused
from bindery.jobs.intake import innermost_reason
from bindery.jobs.mapping import mapped
from bindery.jobs.plan import check_fit
from bindery.jobs.session import configure
from bindery.jobs.sources import SOURCES
from bindery.jobs.sources.files import first_files
from bindery.jobs.sources.records import Records
from bindery.router.errors import InvalidInput
from bindery.router.explain import Explainer
from bindery.router.message import from_batch
from bindery.store.paths import DataDir
from bindery.store.problems import remedy
from bindery.store.topology import TopologyStore

#: Characters of a refused record's text that are given.
_RAW: Final = 2000
#: Files that are looked at beside one for each record: some are empty.
_SPARE: Final = 20


def preview(spark: SparkSession, data: DataDir, file: JobFile, count: int) -> list[dict[str, Any]]:
    """Up to `count` records, as JSON-ready data, in the order in which they were read.

    Each has its `source`, and either the `message`, the `queues` that it would reach under the newest topology
    and why it would reach none (`unroutable`), or `refused`: why it is no message. Records that the filter of a
    bridge does not accept are left out. Raises InvalidInput for a bad job and for a source that cannot be read.
    """
    topology = TopologyStore(data).load()
    check_fit(file, topology)
    configure(spark)
    records = SOURCES[file.job.source.format](spark, data, file.job.source, file)
    projection, fold = mapped(records, file)
    now = datetime.now(UTC)
    clock_ms = int(now.timestamp() * 1000)
    try:
        table = projection(_table(spark, records, file, count), functions.lit(now)).limit(count).toArrow()
    except (PySparkException, Py4JError) as error:
        known = records.explained(str(error))
        raise known or file.error(("source",), f"cannot be read: {innermost_reason(error)}") from None
    found: dict[int, dict[str, Any]] = {}
    for batch in table.combine_chunks().to_batches():
        messages, refused = fold(batch, pa.array(range(batch.num_rows)), clock_ms=clock_ms)
        explained = Explainer(topology, file.job.vhost).explain(messages, clock_ms=clock_ms)
        rows = messages.select(["source", "seq"]).to_pylist()
        for row, message, one in zip(rows, from_batch(messages), explained, strict=True):
            told = one.as_data()
            found[row["seq"]] = _placed(row) | {
                "message": message.as_json(),
                "queues": told["queues"],
                "unroutable": told["unroutable"],
            }
        if refused is not None:
            found |= dict(_refused(refused))
    return [found[seq] for seq in sorted(found)]


def _table(spark: SparkSession, records: Records, file: JobFile, count: int) -> DataFrame:
    """Records of the source that are there now, `count` of them at least if there are as many."""
    if records.table is not None:
        return records.table()
    source = file.job.source
    assert records.files is not None and isinstance(source, FileSource)  # noqa: S101  # what is no table is files
    paths = first_files(spark, source)
    if not paths:
        raise InvalidInput("there is no file yet", where=file.place(("source", "path")))
    return records.files.frame(spark, paths[: max(count, 1) + _SPARE])


def _refused(refused: Refused) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = refused.batch.select(["source", "seq"]).to_pylist()
    whys = zip(refused.reason.to_pylist(), refused.detail.to_pylist(), refused.raw.to_pylist(), strict=True)
    for row, (reason, detail, raw) in zip(rows, whys, strict=True):
        text = None if raw is None else raw[: 4 * _RAW].decode("utf-8", "replace")[:_RAW]
        why = {"reason": reason, "detail": detail, "raw": text, "fix": remedy(reason, detail)}
        yield row["seq"], _placed(row) | {"refused": why}


def _placed(row: dict[str, Any]) -> dict[str, Any]:
    """The number of a record, from 1 on, and where it came from as far as that is known."""
    known = {name: value for name, value in (row["source"] or {}).items() if value is not None}
    return {"number": row["seq"] + 1, "source": known}
