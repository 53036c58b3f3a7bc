"""SQL over queues: names, columns, what is pushed into the scan, and what DuckDB may not do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.analytics import seen as seen_module
from bindery.analytics.point import ReadPoint
from bindery.analytics.rows import Rows
from bindery.analytics.session import SqlSession, quoted
from bindery.analytics.tables import queue_rows
from bindery.router.errors import InvalidInput, NotFound, UnsupportedTable
from bindery.router.message import Message, from_batch
from bindery.router.model import Vhost
from bindery.router.values import Table, Timestamp, Value
from bindery.store import file_rows
from bindery.store.commit import BatchCommitter
from bindery.store.paths import DataDir
from bindery.store.read import delete_matching, read_queue
from bindery.store.topology import TopologyStore
from tests.examples import examples
from tests.unit.store.conftest import declare_queues, deliver, remove_data_files
from tests.unit.store.routed import route

pytestmark = pytest.mark.filterwarnings("ignore:Arrow output")

NAMES = ("late.majors", "two words", 'q"uote', "ü", "order", "Case", "case", "unroutable", "a;drop table b")


def headers(**values: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(name, {} if value is None else {_KINDS[type(value)]: value}) for name, value in values.items()]


_KINDS = {bool: "bool", int: "int", float: "double", str: "string", bytes: "binary"}


def rows_of(session: SqlSession, statement: str) -> list[tuple[Any, ...]]:
    rows = session.run(statement)
    assert rows is not None
    return [tuple(row.values()) for row in rows.read_all().to_pylist()]


def routed(data: DataDir, *names: str, batches: int = 1, rows: int = 4, **columns: Any) -> None:
    version = TopologyStore(data).edit(declare_queues(*names), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        for batch in range(batches):
            deliver(data, committer, batch, version, *names, rows=rows, **columns)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def session(data: DataDir, store: TopologyStore, said: list[str]) -> Iterator[SqlSession]:
    store.edit(lambda editor: editor.declare_vhost(Vhost("eu/1")), author="t")
    routed(
        data,
        *NAMES,
        application_properties=lambda seq: headers(
            carrier="UA" if seq % 2 else "AA", delay=seq, n=seq or 0.5, **{"x.y": b"1"}
        ),
    )
    with SqlSession(ReadPoint.of(data), "/", notice=said.append) as session:
        yield session


def test_queues_are_views_by_their_real_names(session: SqlSession) -> None:
    for name in ("late.majors", "two words", 'q"uote', "ü", "order", "a;drop table b"):
        assert rows_of(session, f"SELECT count(*) FROM {quoted(name)}") == [(4,)]  # noqa: S608
        assert rows_of(session, f'SELECT count(*) FROM "/".{quoted(name)}') == [(4,)]  # noqa: S608
    found = rows_of(session, 'SELECT carrier, avg(delay), "x.y" FROM "late.majors" GROUP BY ALL ORDER BY 1')
    assert found == [("AA", 1.0, b"1"), ("UA", 2.0, b"1")]


def test_names_that_differ_by_case_alone_are_told_apart(session: SqlSession) -> None:
    assert [view.name for view in session.views if view.name.lower().startswith("case")] == ["Case~1", "case~2"]
    with pytest.raises(InvalidInput, match="does not exist") as refused:
        session.run("SELECT * FROM case_")
    with pytest.raises(InvalidInput, match="does not exist") as refused:
        session.run('SELECT * FROM "case"')
    assert str(refused.value).endswith("Table with name case does not exist!"), "one line, and one guess: the hint"
    assert refused.value.hint is not None
    assert refused.value.hint.startswith('there is "/"."Case~1", "/"."case~2"')
    assert rows_of(session, 'SELECT count(*) FROM "case~2"') == [(4,)]


def test_a_queue_comes_before_what_is_of_the_same_name(session: SqlSession) -> None:
    assert rows_of(session, "SELECT count(*) FROM unroutable") == [(4,)]
    assert rows_of(session, "SELECT count(*) FROM bindery.unroutable") == [(0,)]
    assert rows_of(session, "SELECT stream, batch_id, copies FROM manifest") == [("s", 0, 36)]
    assert rows_of(session, "SELECT name FROM queues WHERE name LIKE 'late%'") == [("late.majors",)]
    assert rows_of(session, "SELECT count(*) FROM exchanges WHERE vhost = '/' AND name = ''") == [(1,)]
    assert rows_of(session, "SELECT kind FROM topology WHERE name = 'eu/1' ORDER BY 1") == [("vhost",)]
    assert rows_of(session, "SELECT version, author FROM versions WHERE version = 2") == [(2, "t")]
    assert rows_of(session, "SELECT * FROM bindings") == []


def test_each_vhost_is_a_schema(data: DataDir, store: TopologyStore) -> None:
    def declare(editor: Any) -> None:
        for name in ("eu/1", "Bindery", "main", 'v"'):
            editor.declare_vhost(Vhost(name))

    store.edit(declare, author="t")
    with SqlSession(ReadPoint.of(data), "eu/1") as session:
        schemas = {name for (name,) in rows_of(session, "SELECT schema_name FROM duckdb_schemas()")}
        assert {"eu/1", "/", 'v"', "Bindery~1", "main~1", "bindery"} <= schemas
    with pytest.raises(NotFound, match="vhost"):
        SqlSession(ReadPoint.of(data), "none")


def test_widened_columns_are_said(session: SqlSession, said: list[str]) -> None:
    assert said == []
    rows_of(session, 'SELECT n FROM "late.majors"')
    assert said == ["late.majors: application_properties.n holds integer and double: the column 'n' is double"]


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO '{folder}/x.csv'",
        "EXPORT DATABASE '{folder}'",
        "ATTACH '{folder}/x.db'",
        "SELECT * FROM read_csv('{folder}/secret.csv')",
        "SELECT * FROM '{folder}/secret.csv'",
        "SELECT * FROM read_parquet('{data}/queues/*/*/*.parquet')",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM read_text('{folder}/secret.csv')",
        "SET enable_external_access=true",
        "SET temp_directory='{folder}'",
        "INSTALL httpfs",
        "LOAD '{folder}/x.duckdb_extension'",
        'INSERT INTO "late.majors" (exchange) VALUES (1)',
        'DELETE FROM "late.majors"',
        "SELECT * FROM session",
    ],
)
def test_duckdb_reads_and_writes_no_files(session: SqlSession, data: DataDir, tmp_path: Path, statement: str) -> None:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.csv").write_text("a\n1\n")
    with pytest.raises(InvalidInput):
        session.run(statement.format(folder=folder, data=data.root))
    assert [file.name for file in folder.iterdir()] == ["secret.csv"]


def test_what_does_not_fit_into_memory_is_put_aside(session: SqlSession) -> None:
    """The folder for that is the session's own, and gone with it."""
    (folder,) = rows_of(session, "SELECT current_setting('temp_directory')")[0]
    assert Path(folder).is_dir()
    session.close()
    assert not Path(folder).exists()


def test_a_scan_reads_the_columns_and_files_that_are_needed(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed(data, "q", batches=3, application_properties=lambda seq: headers(carrier="UA", delay=seq))
    point = ReadPoint.of(data)
    queue_rows(point, "/", "q")  # what its headers are is known from here on
    asked: list[list[str]] = []
    batches = file_rows.batches

    def counted(path: str, name: str, schema: pa.Schema, **options: Any) -> Iterator[pa.RecordBatch]:
        asked.append(sorted(options["columns"]))
        for batch in batches(path, name, schema, **options):
            asked[-1].append(f"{batch.num_rows} rows")
            yield batch

    monkeypatch.setattr(file_rows, "batches", counted)
    with SqlSession(point, "/") as session:
        assert rows_of(session, "SELECT routing_key FROM q WHERE delay = 2 AND carrier = 'UA'") == [("k2",)] * 3
        assert asked == [["application_properties", "routing_key", "4 rows"]] * 3
        asked.clear()
        assert rows_of(session, "SELECT exchange FROM q WHERE routing_key = 'k1'") == [("x",)] * 3
        assert asked == [["exchange", "routing_key", "1 rows"]] * 3
        asked.clear()
        assert rows_of(session, "SELECT count(*) FROM q") == [(12,)]
        assert all("application_properties" not in one and "body" not in one for one in asked)


def test_files_are_looked_at_once(
    data: DataDir, store: TopologyStore, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    look = seen_module._look

    def counted(path: str, name: str, schema: pa.Schema) -> seen_module.Seen:
        looks.append(name)
        return look(path, name, schema)

    monkeypatch.setattr(seen_module, "_look", counted)
    version = store.edit(declare_queues("q"), author="t").version
    numbers = count()
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        for expected in (1, 1, 1):
            deliver(data, committer, next(numbers), version, "q", application_properties=lambda seq: headers(n=seq))
            looks.clear()
            assert [one.name for one in queue_rows(ReadPoint.of(data), "/", "q").flat.values()][-1] == "n"
            assert len(looks) == expected
    (kept,) = cache.iterdir()
    for damage in ("", "{}", "[", json.dumps({"format": 1, "held": [], "files": {"x": 3}}), '{"format": 9}'):
        kept.write_text(damage)
        looks.clear()
        assert "n" in queue_rows(ReadPoint.of(data), "/", "q").schema.names
        assert len(looks) == 3
    delete_matching(data, "q", None)
    assert "n" not in queue_rows(ReadPoint.of(data), "/", "q").schema.names
    assert "n" in queue_rows(ReadPoint.of(data, "s:2"), "/", "q").schema.names


def test_a_cache_that_cannot_be_written_is_done_without(
    data: DataDir, store: TopologyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BINDERY_CACHE", str(tmp_path / "file" / "cache"))
    routed(data, "q", application_properties=lambda seq: headers(n=seq))
    assert "n" in queue_rows(ReadPoint.of(data), "/", "q").schema.names


def test_a_file_that_is_missing_is_an_error_of_its_table(data: DataDir, store: TopologyStore) -> None:
    routed(data, "q", application_properties=lambda seq: headers(n=seq))
    with SqlSession(ReadPoint.of(data), "/") as session:
        assert rows_of(session, "SELECT sum(n)::BIGINT FROM q") == [(6,)]
        remove_data_files(data.queue("/", "q"))
        with pytest.raises(UnsupportedTable, match=r"the data file .* is missing"):
            rows_of(session, "SELECT exchange FROM q")
        assert rows_of(session, "SELECT 1") == [(1,)]


# -- the same as Python over the raw headers --------------------------------------------------------------

SCALARS = st.one_of(st.none(), st.integers(-9, 9), st.floats(-9, 9), st.sampled_from(["", "a", "7"]), st.booleans())
ROWS = st.lists(st.dictionaries(st.sampled_from("abc"), SCALARS, max_size=3), min_size=1, max_size=8)
_FOLDERS = count()


@given(
    ROWS,
    st.sampled_from("abc"),
    st.sampled_from(
        ["IS NULL", "IS NOT NULL", "= 1", "> 0", "<> 'a'", "IN (1, 2)", "BETWEEN -1 AND 3", "::VARCHAR >= '1'"]
    ),
)
@examples(40)
def test_sql_is_python_over_the_raw_headers(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Value]], name: str, test: str
) -> None:
    """The condition in the scan gives what DuckDB gives over the same values as a table in memory."""
    data = DataDir.open(tmp_path_factory.mktemp(f"data{next(_FOLDERS)}") / "data", create=True)
    TopologyStore(data).create()
    stored = [headers(**row) for row in rows]
    routed(data, "q", rows=len(rows), application_properties=lambda seq: stored[seq])
    with SqlSession(ReadPoint.of(data), "/") as session:
        flat = session.run("SELECT routing.seq AS seq, * FROM q ORDER BY seq")
        assert flat is not None
        table = flat.read_all()
        raw = {message_key(one): one.application_properties for one in from_batch(read_queue(data, "q"))}
        for header in {header for row in rows for header in row}:
            values = [raw[f"k{seq}"].get(header) for seq in range(len(rows))]
            assert table[header].to_pylist() == as_column(values, table.schema.field(header).type), header
        if name not in table.schema.names:
            return
        session._connection.register("plain", table)
        try:
            expected = rows_of(session, f"SELECT seq FROM plain WHERE {name} {test} ORDER BY 1")  # noqa: S608
        except InvalidInput:
            with pytest.raises(InvalidInput):
                rows_of(session, f"SELECT routing.seq FROM q WHERE {name} {test} ORDER BY 1")  # noqa: S608
            return
        assert rows_of(session, f"SELECT routing.seq FROM q WHERE {name} {test} ORDER BY 1") == expected  # noqa: S608


def message_key(message: Message) -> str:
    return message.routing_key


def as_column(values: list[Value], kind: pa.DataType) -> list[Value]:
    if pa.types.is_floating(kind):
        return [None if value is None else float(value) for value in values]  # type: ignore[arg-type]
    if pa.types.is_string(kind):
        return [
            None if value is None else str(value).lower() if isinstance(value, bool) else str(value) for value in values
        ]
    return values


def test_every_type_of_value_reads_as_itself(data: DataDir, store: TopologyStore) -> None:
    table = Table({"t": Timestamp(1_500), "l": (1, "x"), "b": b"\0", "f": True, "z": None})
    stored = Message(application_properties=table).as_row()["application_properties"]
    routed(data, "q", rows=1, application_properties=lambda _: stored)
    with SqlSession(ReadPoint.of(data), "/") as session:
        assert rows_of(session, "SELECT epoch_ms(t), l, b, f, z, typeof(t) FROM q") == [
            (1_500, '[1,"x"]', b"\0", True, None, "TIMESTAMP WITH TIME ZONE")
        ]
        assert isinstance(session._open['"/"."q"'], Rows)


# -- journals -------------------------------------------------------------------------------------------


def test_a_journal_is_a_table_with_the_name_of_its_stream(data: DataDir) -> None:
    store = TopologyStore(data)
    store.edit(lambda editor: (declare_queues("q", "r")(editor), editor.declare_vhost(Vhost("journal"))), author="t")
    sent = [Message("", name, application_properties=Table({"n": n})) for n, name in enumerate(["q", "r", "none"])]
    route(data, store, sent, stream="two words", journal=True)
    with SqlSession(ReadPoint.of(data), "/") as session:
        reached = """
            SELECT n, name, reason FROM journal."two words" j
            LEFT JOIN bindery.queues q ON list_contains(j.routing.queues, q.id) ORDER BY n
        """
        assert rows_of(session, reached) == [(0, "q", None), (1, "r", None), (2, None, "no_binding")]
    route(data, store, sent, stream="two words", journal=True, batch_id=1)
    with SqlSession(ReadPoint.of(data, "two words:0"), "/") as session:
        assert rows_of(session, 'SELECT count(*) FROM journal."two words"') == [(3,)]
