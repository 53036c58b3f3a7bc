"""The examples of docs/tables.md, run as a reader would."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from bindery.store.paths import DataDir
from tests.documents import bindery, python_blocks, session, working_folder
from tests.unit.analytics.test_catalog import scannable

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text("utf-8")
_EXECUTED = "bindery register --catalog duckdb --data data --execute --database catalog.duckdb"


def test_the_examples_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINDERY_CACHE", str(tmp_path / "cache"))
    before, duckdb_part = PAGE.split("\n### DuckDB\n")
    queries = dict(re.findall(r"^```sql (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    found: dict[str, Any] = {"spark": spark}
    with working_folder(tmp_path):
        for command, shown, printed in session(before):
            # a bar that moves comes before what is left of it
            assert printed.endswith(shown) if command.startswith("bindery route") else printed == shown, command
        for statement in bindery("bindery register --catalog hive --data data").split(";\n\n"):
            if statement.strip(";\n "):
                spark.sql(statement.rstrip(";\n "))
        try:
            by_spark = [tuple(row) for row in spark.sql(queries["spark.sql"]).collect()]
        finally:
            spark.sql("DROP SCHEMA bindery CASCADE")
        with duckdb.connect("catalog.duckdb") as connection:
            scannable(connection, DataDir.open("data"))
        assert [(command, printed == shown) for command, shown, printed in session(duckdb_part)] == [(_EXECUTED, True)]
        with duckdb.connect("catalog.duckdb") as connection:
            by_duckdb = connection.sql(queries["duckdb.sql"]).fetchall()
        for block in python_blocks(PAGE):
            exec(block, found)  # noqa: S102  # our own text
    assert by_spark == by_duckdb == [("AA", 61), ("UA", 75)]
    assert found["by_frame"] == found["by_arrow"] == by_spark
    assert found["by_polars"].rows() == list(found["by_pandas"].items()) == by_spark
