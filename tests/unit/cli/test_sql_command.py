"""`bindery sql`."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bindery.cli import sql as command
from bindery.store.commit import BatchCommitter
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.cli.conftest import Run
from tests.unit.store.conftest import declare_queues, deliver

QUERY = 'SELECT carrier, avg(dep_delay) AS late, count(*) AS n FROM "late.majors" GROUP BY ALL ORDER BY 1'


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataDir:
    monkeypatch.setenv("BINDERY_CACHE", str(tmp_path / "cache"))
    data = DataDir.open(tmp_path / "data", create=True)
    version = TopologyStore(data).edit(declare_queues("late.majors"), author="t").version

    def headers(seq: int) -> list[tuple[str, dict[str, object]]]:
        return [
            ("carrier", {"string": "UA" if seq % 2 else 'A,"A"'}),
            ("dep_delay", {"int": 60 + seq} if seq else {"double": 0.5}),
        ]

    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        for batch in range(2):
            deliver(data, committer, batch, version, "late.majors", rows=4, application_properties=headers)
    return data


def test_a_result_is_csv_where_nobody_watches(data: DataDir, run: Run) -> None:
    code, out, err = run("sql", QUERY, "--data", data.root)
    assert (code, out) == (0, 'carrier,late,n\n"A,""A""",31.25,4\nUA,62.0,4\n')
    assert err == (
        "note: late.majors: application_properties.dep_delay holds integer and double: "
        "the column 'dep_delay' is double\n"
    )


def test_a_point_is_read(data: DataDir, run: Run) -> None:
    counted = 'SELECT count(*) FROM "late.majors"'
    assert run("sql", counted, "--data", data.root, "--at", "s:0")[1] == "count_star()\n4\n"
    assert run("sql", counted, "--data", data.root, "--at", "1")[1] == "count_star()\n8\n"
    code, out, err = run("sql", counted, "--data", data.root, "--at", "noon")
    assert (code, out) == (2, "")
    assert err.startswith("error: at: 'noon' is no point\n")


def test_json_is_one_document(data: DataDir, run: Run) -> None:
    code, out, _ = run("sql", QUERY, "--data", data.root, "--format", "json")
    assert code == 0
    assert json.loads(out)[1] == {"carrier": "UA", "late": 62.0, "n": 4}
    odd = (
        "SELECT 'a' || chr(10) a, NULL b, [1.5] c, 'x'::BLOB d, DATE '2026-01-02' e, "
        "'nan'::DOUBLE f, sum(1) g, {'k': true} h"
    )
    assert json.loads(run("sql", odd, "--data", data.root, "--format", "json")[1]) == [
        {"a": "a\n", "b": None, "c": [1.5], "d": "eA==", "e": "2026-01-02", "f": None, "g": 1, "h": {"k": True}}
    ]
    assert json.loads(run("sql", "SELECT 1 WHERE false", "--data", data.root, "--format", "json")[1]) == []


def test_a_table_is_drawn_uncut(data: DataDir, run: Run) -> None:
    wide = "SELECT repeat('x', 500) AS a, range AS n FROM range(1500)"
    code, out, _ = run("sql", wide, "--data", data.root, "--format", "table")
    assert code == 0
    assert "x" * 500 in out
    assert "1499" in out


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_a_file_is_written_whole_in_the_format_of_its_name(
    data: DataDir, run: Run, tmp_path: Path, suffix: str
) -> None:
    to = tmp_path / f"result.{suffix}"
    assert run("sql", QUERY, "--data", data.root, "-o", to)[:2] == (0, "")
    if suffix == "parquet":
        assert pq.read_table(to)["late"].to_pylist() == [31.25, 62.0]
    else:
        assert "62.0" in to.read_text()
    before = to.read_bytes()
    code, _, err = run("sql", "SELECT 1; SELECT 2", "--data", data.root, "--output", to)
    assert (code, err.splitlines()[0]) == (2, "error: sql: there is room for one result, and this is another")
    broken = 'SELECT error(exchange) FROM "late.majors"'
    assert run("sql", broken, "--data", data.root, "--output", to)[0] == 2
    assert to.read_bytes() != before  # the first of two results was whole
    assert [file.name for file in tmp_path.glob(".*")] == []


def test_nothing_is_written_into_the_data_directory(data: DataDir, run: Run) -> None:
    before = sorted(Path(data.root).rglob("*"))
    code, _, err = run("sql", QUERY, "--data", data.root, "--output", f"{data.root}/queues/x.csv")
    assert code == 3
    assert "not written into the data directory" in err
    assert run("sql", QUERY, "--data", data.root)[0] == 0
    assert sorted(Path(data.root).rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["SELEC 1"], "error: sql: Parser Error: syntax error"),
        (['SELECT * FROM "late.major"'], "error: sql: Catalog Error: Table with name late.major does not exist!"),
        (["SELECT 1", "--format", "xml"], "error: --format: there is no format 'xml'\nhint: table, csv, json, parquet"),
        (["SELECT 1", "--vhost", "none"], "error: "),
        (["SELECT 1", "--output", "/none/x.csv"], "error: /none/x.csv: cannot write it: No such file"),
    ],
)
def test_what_is_wrong_is_said(data: DataDir, run: Run, arguments: list[str], message: str) -> None:
    code, out, err = run("sql", *arguments, "--data", data.root)
    assert (code != 0, out) == (True, "")
    assert err.startswith(message)


def test_without_duckdb_it_says_what_to_install(data: DataDir, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert run("sql", "SELECT 1", "--data", data.root) == (
        2,
        "",
        "error: duckdb: SQL needs DuckDB and it is not installed\nhint: pip install 'bindery[sql]'\n",
    )


def test_statements_come_from_a_pipe(data: DataDir, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"CREATE TABLE t AS\n{QUERY};\n.tables\nSELECT sum(n)\nFROM t;\n-- it's;\nSELECT 'a;\n'; SELECT 2\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    code, out, _ = run("sql", "--data", data.root)
    assert code == 0
    assert '"/"."late.majors"\n"bindery"."unroutable"\n' in out
    assert out.endswith('sum(n)\n8\n\n"\'a;\n\'"\n"a;\n"\n\n2\n2\n')
    assert out.startswith('"/"."late.majors"\n')


def test_a_prompt_goes_on_after_an_error(data: DataDir, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    given_up = "Ctrl-C"
    typed = iter(
        ["SELEC 1;", ".schema late.majors", "SELECT", given_up, "SELECT", "  1 AS one;", ".help", ".quit", "SELECT 9;"]
    )
    prompts: list[str] = []

    def answered(prompt: str) -> str:
        prompts.append(prompt)
        line = next(typed)
        if line is given_up:
            raise KeyboardInterrupt
        return line

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", answered)
    code, out, err = run("sql", "--data", data.root)
    assert code == 0
    asked, more = command._PROMPT, command._MORE
    assert prompts == [asked, asked, asked, more, asked, more, asked, asked]
    assert "error: sql: Parser Error" in err
    assert "dep_delay,DOUBLE" in out
    assert "one\n1\n" in out
    assert "9" not in out.rpartition("one")[2].replace(command._HELP, "")
