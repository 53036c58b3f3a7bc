"""`bindery register`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import duckdb
import pytest

from bindery.store.paths import DataDir
from tests.unit.analytics.hostile import delivered
from tests.unit.analytics.test_catalog import scannable
from tests.unit.cli.conftest import Run


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataDir:
    monkeypatch.setenv("BINDERY_CACHE", str(tmp_path / "cache"))
    return delivered(DataDir.open(tmp_path / "data", create=True))


def test_statements_are_printed_and_nothing_is_written(data: DataDir, run: Run) -> None:
    before = sorted(Path(data.root).rglob("*"))
    code, out, err = run("register", "--catalog", "hive", "--data", data.root)
    assert (code, err) == (0, "")
    assert out.startswith("CREATE SCHEMA IF NOT EXISTS `bindery`;\n\nCREATE TABLE IF NOT EXISTS `bindery`.`")
    assert "CREATE OR REPLACE VIEW `bindery`.`late__majors` (\n  `exchange` COMMENT 'The exchange" in out
    assert out.endswith(";\n\n")
    assert sorted(Path(data.root).rglob("*")) == before


def test_a_database_of_duckdb_gets_all_of_it_and_again(data: DataDir, run: Run, tmp_path: Path) -> None:
    database = tmp_path / "catalog.duckdb"
    with duckdb.connect(str(database)) as connection:
        scannable(connection, data)
    command = ("register", "--catalog", "duckdb", "--execute", "--database", database, "--data", data.root)
    code, out, err = run(*command, "--schema", "mq")
    assert (code, err) == (0, "")
    assert re.fullmatch(rf"\d+ statements executed in {re.escape(str(database))}\n", out)
    assert run(*command, "--schema", "mq") == (0, out, "")
    with duckdb.connect(str(database)) as connection:
        assert connection.sql('SELECT carrier, type FROM mq."late.majors"').fetchall() == [("UA", "x")] * 3


def test_of_statements_one_of_which_fails_none_takes_effect(data: DataDir, run: Run, tmp_path: Path) -> None:
    database = tmp_path / "catalog.duckdb"
    with duckdb.connect(str(database)) as connection:
        scannable(connection, data)
        connection.execute("CREATE OR REPLACE MACRO main.delta_scan(place) AS TABLE SELECT place AS exchange")
    code, out, err = run("register", "--catalog", "duckdb", "--execute", "--database", database, "--data", data.root)
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"error: {re.escape(str(database))}: Binder Error: .*\nhint: .*INSTALL delta.*\n", err)
    with duckdb.connect(str(database)) as connection:
        assert connection.sql("SELECT * FROM duckdb_schemas() WHERE schema_name = 'bindery'").fetchall() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--catalog", "duck"], "error: --catalog: there is no catalog 'duck'\nhint: did you mean 'duckdb'?\n"),
        (["--catalog", "hive", "--execute"], "error: --execute: --execute is for duckdb; there is no client of hive"),
        (["--catalog", "duckdb", "--execute"], "error: --execute: --execute and --database belong together"),
        (["--catalog", "duckdb", "--database", "x.duckdb"], "error: --execute: --execute and --database belong"),
        (["--catalog", "glue"], "error: --location: glue does not read '"),
        (["--catalog", "hive", "--vhost", "none"], "error: "),
    ],
)
def test_what_is_wrong_is_said(data: DataDir, run: Run, arguments: list[str], message: str) -> None:
    code, out, err = run("register", *arguments, "--data", data.root)
    assert (code, out) == (2, "")
    assert err.startswith(message)


def test_a_database_is_not_written_into_the_data_directory(data: DataDir, run: Run) -> None:
    place = f"{data.root}/x.duckdb"
    code, _, err = run("register", "--catalog", "duckdb", "--execute", "--database", place, "--data", data.root)
    assert (code, err.splitlines()[0]) == (3, f"error: {place}: a database is not written into the data directory")


def test_what_is_no_database_and_no_duckdb_are_said(
    data: DataDir, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "x.duckdb"
    place.write_text("no database, but long enough to be looked at as one " * 100)
    command = ("register", "--catalog", "duckdb", "--execute", "--database", place, "--data", data.root)
    code, out, err = run(*command)
    assert (code, out) == (2, "")
    assert (err.startswith("error: IO Error: "), err.count(str(place))) == (True, 1)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert run(*command)[2].startswith("error: duckdb: this needs DuckDB and it is not installed\n")
