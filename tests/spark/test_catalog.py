"""The statements for Spark, run in a session with its own catalog: what the views show is what `bindery sql` shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bindery.analytics.catalog.dialects import SparkSql
from bindery.analytics.catalog.identifiers import identifiers, sql_names
from bindery.analytics.catalog.statements import Registration
from bindery.analytics.point import ReadPoint
from bindery.analytics.session import SqlSession, quoted
from bindery.router.declarations import TopologyEditor
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.analytics.hostile import HOSTILE, KEY, delivered


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataDir:
    monkeypatch.setenv("BINDERY_CACHE", str(tmp_path / "cache"))
    return delivered(DataDir.open(tmp_path / "data", create=True))


@pytest.fixture
def schema(spark: SparkSession) -> Iterator[str]:
    yield "bindery_catalog"
    spark.sql("DROP SCHEMA IF EXISTS bindery_catalog CASCADE")


def test_spark_shows_what_bindery_sql_shows(spark: SparkSession, data: DataDir, schema: str) -> None:
    registration = Registration("hive", "/", schema=schema, prune=True)
    for statement in (*registration.statements(data), *registration.statements(data)):  # again: nothing changes
        spark.sql(statement)
    names = identifiers(HOSTILE)
    shown = {row.tableName for row in spark.sql(f"SHOW TABLES IN {schema}").collect()}
    assert shown == {
        *names.values(),
        *(f"{name}____stored" for name in names.values()),
        "bindery____unroutable",
        "bindery____unroutable____stored",
        "bindery____manifest",
        "bindery____topology",
    }
    with SqlSession(ReadPoint.of(data), "/") as session:
        for queue in ("late.majors", "Late", KEY_QUEUE):
            view = f"{schema}.`{names[queue]}`"
            found = spark.sql(f"SELECT * FROM {view} ORDER BY routing.seq").toArrow()  # noqa: S608
            rows = session.run(f"SELECT * FROM {quoted(sql_names(HOSTILE)[queue])} ORDER BY routing.seq")  # noqa: S608
            assert rows is not None
            expected = rows.read_all()
            assert found.num_columns == expected.num_columns
            for number, column in enumerate(expected.columns):
                assert plain(found.column(number)) == plain(column), found.column_names[number]
    assert spark.sql(f"SELECT count(*) AS n FROM {schema}.bindery____topology").first()["n"] > len(HOSTILE)  # type: ignore[index]  # noqa: S608
    commented = {row.col_name: row.comment for row in spark.sql(f"DESCRIBE {schema}.late__majors").collect()}
    assert commented["carrier"] == "The header 'carrier', string."
    described = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE EXTENDED {schema}.late__majors").collect()}
    assert described["Comment"].startswith("Messages routed to the queue 'late.majors' of the vhost '/'")


KEY_QUEUE = "${env:HOME} ${x}"


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Values as they compare: maps have no order, and engines name their parts as they like."""
    return [sorted(value) if isinstance(value, list) and value[:1] != [] else value for value in column.to_pylist()]


def test_nothing_that_is_registered_is_an_entry_in_a_log(spark: SparkSession, data: DataDir, schema: str) -> None:
    paths = (*data.queue_tables(), data.unroutable("/"), data.manifest, data.topology)
    before = {path: DeltaTable(path).version() for path in paths}
    for statement in Registration("hive", "/", schema=schema).statements(data):
        spark.sql(statement)

    def delete(editor: TopologyEditor) -> None:
        editor.delete_queue("/", "late.majors")

    TopologyStore(data).edit(delete, author="t")
    before |= {path: DeltaTable(path).version() for path in (data.topology, data.queue("/", "late.majors"))}
    for statement in Registration("hive", "/", schema=schema, prune=True).statements(data):
        spark.sql(statement)
    assert {path: DeltaTable(path).version() for path in paths} == before
    shown = {row.tableName for row in spark.sql(f"SHOW TABLES IN {schema}").collect()}
    assert not {"late__majors", "late__majors____stored"} & shown
    assert "late" in shown


def test_strings_come_back_from_spark_as_they_were(spark: SparkSession) -> None:
    texts = [KEY, *HOSTILE, "${spark.app.name}", "\0", "\\u0041", "\\", "'", "\N{TAG SPACE}", "", "%_\\%"]
    dialect = SparkSql()
    found = spark.sql(f"SELECT {', '.join(dialect.literal(text) for text in texts)}").first()
    assert found is not None
    assert list(found) == texts


def test_a_table_says_to_spark_what_it_is_about(spark: SparkSession, data: DataDir) -> None:
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{data.queue('/', 'late')}`").first()
    assert detail is not None
    assert (detail.name, detail.description[:40]) == ("late", "Messages routed to the queue 'late' of t")
    columns = {row.col_name: row.comment for row in spark.sql(f"DESCRIBE delta.`{data.manifest}`").collect()}
    assert columns["copies"] == "Rows written to queues."
