"""Files of messages that tasks read themselves give what Spark's reader gives: the same rows, places and numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from bindery.jobs import route
from bindery.router.message import Message, to_batch
from tests.spark.installation import Installation
from tests.unit import strategies

SIZE = "spark.sql.files.maxPartitionBytes"
TEXT = "stream: s\nsource: {format: parquet, path: INBOX}\ntrigger: available-now\njournal: on\nmax_batch_records: 3\n"
#: Names that a URI writes otherwise.
NAMES = ("a b.parquet", "50%25+x.parquet", "größe#1.parquet", "semi;colon=1.parquet")


@pytest.fixture(autouse=True)
def small_parts(spark: SparkSession) -> Iterator[None]:
    """Parts of files of some kilobytes: a file of many row groups is cut."""
    before = spark.conf.get(SIZE)
    spark.conf.set(SIZE, "5000")
    yield
    spark.conf.set(SIZE, str(before))


def table(messages: list[Message]) -> pa.Table:
    return pa.Table.from_batches([to_batch(messages)])


def write(place: Installation, rows: pa.Table, file: str, *, group: int = 5) -> None:
    draft = place.inbox / f".{file}"
    pq.write_table(rows, draft, row_group_size=group)
    place._place(draft, file)


def found(place: Installation) -> list[Any]:
    """The rows of the journal and of the queue, in the order of their numbers."""
    rows: list[Any] = []
    for path in (place.data.journal("s"), place.data.queue("/", "all")):
        kept = DeltaTable(path).to_pyarrow_table().drop_columns(["routed_at"]).to_struct_array().combine_chunks()
        read = [comparable(row, str(place.root)) for row in kept]
        rows += sorted(read, key=lambda row: row["routing"]["seq"])
    return rows


def comparable(value: pa.Scalar, root: str) -> Any:
    """A value of Arrow; times as numbers, since Python's do not go as far, and NaN as text, which equals itself."""
    if not value.is_valid:
        return None
    kind = value.type
    if pa.types.is_struct(kind):
        return {name: comparable(each, root) for name, each in value.items()}
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return [comparable(each, root) for each in value.values]
    if pa.types.is_timestamp(kind):
        return value.value
    found = value.as_py()
    if isinstance(found, float) and math.isnan(found):
        return "NaN"
    return found.replace(root, "") if isinstance(found, str) else found


def routed(
    spark: SparkSession, root: Path, fill: Callable[[Installation], object], *, by_spark: bool
) -> tuple[Any, bool]:
    """What a job makes of the files, and whether its tasks read them themselves to the end."""
    root.mkdir()
    place = Installation(spark, root)
    place.queue("all", source="amq.fanout")
    place.queue("some", source="amq.topic", key="#")
    fill(place)
    with pytest.MonkeyPatch.context() as patch:
        if by_spark:
            patch.setattr(route, "plain", lambda *_: None)
        job = place.job(TEXT)
        job.run()
    kept = {file for name in ("all", "some") for file in DeltaTable(place.data.queue("/", name)).file_uris()}
    there = {str(file) for name in ("all", "some") for file in Path(place.data.queue("/", name)).glob("*.parquet")}
    assert there == kept, "files of an attempt that was given up stay behind"
    return found(place), job._plain is not None and not job._plain._ended


@given(st.lists(strategies.messages, min_size=40, max_size=40))
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
def test_rows_places_and_numbers_are_those_of_sparks_reader(spark: SparkSession, drawn: list[Message]) -> None:
    rows = table(drawn).set_column(0, "exchange", pa.array(["amq.fanout"] * len(drawn)))

    def fill(place: Installation) -> None:
        for number, name in enumerate(NAMES):
            write(place, rows.slice(10 * number, 10 + 9 * (number == 3)), name, group=1 + 2 * number)
        write(place, rows.slice(0, 0), "empty.parquet")

    with TemporaryDirectory() as folder:
        by_tasks, plainly = routed(spark, Path(folder) / "tasks", fill, by_spark=False)
        by_spark, _ = routed(spark, Path(folder) / "spark", fill, by_spark=True)
    assert plainly
    assert len({row["routing"]["seq"] >> 40 for row in by_tasks}) > len(NAMES)
    assert by_tasks == by_spark


def messages(count: int = 12) -> list[Message]:
    then = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        Message(exchange="amq.fanout", routing_key=f"key {number}", properties={"to": "x", "creation_time": then})
        for number in range(count)
    ]


def as_polars_writes(rows: pa.Table) -> pa.Table:
    return rows.cast(pa.schema([rows.schema.field(0).with_type(pa.large_string()), *list(rows.schema)[1:]]))


def in_capitals(rows: pa.Table) -> pa.Table:
    return rows.rename_columns(["Routing_Key" if name == "routing_key" else name for name in rows.column_names])


def without_keys(rows: pa.Table) -> pa.Table:
    return rows.drop_columns(["routing_key"])


def of_spark_2(rows: pa.Table) -> pa.Table:
    return rows.replace_schema_metadata({"org.apache.spark.version": "2.4.8"})


@pytest.mark.parametrize("other", [as_polars_writes, in_capitals, without_keys, of_spark_2])
def test_what_only_spark_reads_is_left_to_spark(
    spark: SparkSession, tmp_path: Path, other: Callable[[pa.Table], pa.Table]
) -> None:
    """One such file among others: nothing stays of what tasks wrote before it was met."""

    def fill(place: Installation) -> None:
        for number in range(4):
            rows = table(messages())
            write(place, other(rows) if number == 2 else rows, f"{number}.parquet")

    by_tasks, plainly = routed(spark, tmp_path / "tasks", fill, by_spark=False)
    by_spark, _ = routed(spark, tmp_path / "spark", fill, by_spark=True)
    assert not plainly
    assert len(by_tasks) == 2 * 48
    assert by_tasks == by_spark


def test_columns_in_the_names_of_folders_are_left_to_spark(installation: Installation) -> None:
    installation.queue("all", source="amq.fanout")
    for number in range(3):
        folder = installation.inbox / f"routing_key=key {number}"
        folder.mkdir()
        pq.write_table(table(messages()).drop_columns(["routing_key"]), folder / "rows.parquet")
    job = installation.job(TEXT)
    job.run()
    assert job._plain is not None
    assert not job._plain._ended, "nothing was tried: the folders are seen before"
    assert Counter(row["routing_key"] for row in installation.rows("all")) == {f"key {n}": 12 for n in range(3)}


def test_a_damaged_file_is_named_as_ever(spark: SparkSession, tmp_path: Path) -> None:
    place = Installation(spark, tmp_path)
    place.queue("all", source="amq.fanout")
    for number in range(3):
        write(place, table(messages()), f"{number}.parquet")
    damaged = place.inbox / "1.parquet"
    content = damaged.read_bytes()
    damaged.write_bytes(content[:4] + b"\xff" * 200 + content[204:])
    place.route(TEXT)
    assert place.counts()["all"] == 24
    (row,) = place.unroutable()
    assert row["source"]["file"].endswith("1.parquet")
    assert row["reason"] == "invalid_record"


@pytest.mark.parametrize(
    "change",
    [
        "message: {exchange: \"'amq.fanout'\"}",
        "dedup: {key: routing_key, window: 3600}",
    ],
)
def test_jobs_that_map_or_look_for_repeats_have_spark_read(installation: Installation, change: str) -> None:
    write(installation, table(messages()), "0.parquet")
    assert installation.job(TEXT)._plain is not None
    assert installation.job(TEXT + change)._plain is None


@pytest.mark.parametrize("option", ["mergeSchema: true", "datetimeRebaseMode: LEGACY", "int96RebaseMode: LEGACY"])
def test_options_of_how_files_are_read_are_sparks(installation: Installation, option: str) -> None:
    write(installation, table(messages()), "0.parquet")
    text = TEXT.replace("path: INBOX", f"path: INBOX, options: {{{option}}}")
    assert installation.job(text)._plain is None
    assert installation.job(TEXT.replace("path: INBOX", "path: INBOX, options: {maxFilesPerTrigger: 1}"))._plain
