"""Queues in catalogs: what they are called, what the statements say, and DuckDB, which runs them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from hypothesis import example, given
from hypothesis import strategies as st

from bindery.analytics.catalog.dialects import OWN, Athena, DuckDb, SparkSql
from bindery.analytics.catalog.identifiers import identifier, identifiers, printable_names, sql_names
from bindery.analytics.catalog.statements import CATALOGS, Registration
from bindery.analytics.point import ReadPoint
from bindery.analytics.session import SqlSession
from bindery.router.declarations import TopologyEditor
from bindery.router.error_text import visible
from bindery.router.errors import InvalidInput, NotFound
from bindery.router.message import Message
from bindery.router.model import Binding, Vhost
from bindery.router.values import Table
from bindery.store.maintenance.journals import Kept, keep_journal
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.analytics.hostile import HOSTILE, KEY, delivered
from tests.unit.store.conftest import declare_queues
from tests.unit.store.routed import route
from tests.unit.store.test_deferred import declare

NAMES = st.one_of(
    st.text(min_size=1, max_size=255).filter(lambda name: len(name.encode("utf-8", "replace")) <= 255),
    st.text("aAbB01._-~ `'\"$é\n", min_size=1, max_size=12),
).filter(lambda name: not re.search("[\ud800-\udfff]", name))


@given(st.sets(NAMES, max_size=30))
@example({"a.b", "a_b", "a-b", "a__b", "A.b", "a..b", "a_.b", "a._b", "a___b", "_a_b", "a_b_"})
def test_no_two_queues_are_called_the_same_and_each_is_called_as_if_it_were_alone(names: set[str]) -> None:
    found = identifiers(names)
    assert len(set(found.values())) == len(names)
    for name, called in found.items():
        assert re.fullmatch(r"[a-z][a-z0-9_]{0,117}", called)
        assert called == identifier(name)
        assert identifier(called) == called or "__" in called


@given(st.sets(NAMES, max_size=30))
def test_names_of_tables_and_of_what_is_no_queue_are_no_names_of_queues(names: set[str]) -> None:
    found = set(identifiers(names).values())
    beside = {f"{called}____stored" for called in found} | {DuckDb().own_name(own) for own in ("manifest", "topology")}
    assert not found & beside
    assert not found & set(identifiers(beside).values())


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("late", "late"),
        ("late.majors", "late__majors"),
        ("late_majors", "late_majors"),
        ("orders-eu", "orders___eu"),
        ("late__majors", "late_majors____14bee607a6d2d882"),
        ("Late", "late____0f950da185fc88f4"),
        ("9", "q_9____19581e27de7ced00"),
        ("é", "q____4a99557e4033c353"),
        ("x" * 255, f"{'x' * 40}____d22609da3ae3956c"),
    ],
)
def test_names_stay_readable_and_the_same_for_ever(name: str, called: str) -> None:
    assert identifier(name) == called


def test_names_made_to_share_digits_get_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bindery.analytics.catalog.identifiers._DIGITS", 1)
    names = [f"A{'!' * number}" for number in range(1, 30)]
    monkeypatch.setattr(identifier, "__kwdefaults__", {"digits": 1})
    found = identifiers(names)
    assert len(set(found.values())) == len(names)
    assert {len(called) for called in found.values()} <= {len("a____0"), len("a____") + 64}


@given(st.sets(NAMES, max_size=30))
def test_duckdb_calls_queues_as_bindery_sql_does(names: set[str]) -> None:
    found = printable_names(sorted(names), ["bindery____manifest"])
    assert len({called.casefold() for called in found.values()}) == len(names)
    assert all(visible(called) == called for called in found.values())
    if all(visible(name) == name for name in names):
        assert found == sql_names(sorted(names), ["bindery____manifest"])


@given(st.lists(st.text().filter(lambda text: not re.search("[\ud800-\udfff]", text)), min_size=1, max_size=5))
def test_strings_and_names_come_back_from_duckdb_as_they_were(texts: list[str]) -> None:
    dialect = DuckDb()
    literals = ", ".join(dialect.literal(text) for text in texts)
    names = [text.replace("\0", "") for text in texts]
    assert visible(literals) == literals
    with duckdb.connect() as connection:
        assert connection.sql(f"SELECT {literals}").fetchall() == [tuple(texts)]
        for name in filter(None, names):
            assert connection.sql(f"SELECT 1 AS {dialect.quoted(name)}").columns == [name]


def test_a_comment_is_one_line_and_has_an_end() -> None:
    for dialect in (SparkSql(), Athena(), DuckDb()):
        assert len(dialect.comment("x" * 2_000)) == 1_002
        assert visible(dialect.comment("a\n\x1b[31mb")) == dialect.comment("a\n\x1b[31mb")


# -- statements -----------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    """A folder: statements do not read a store, and DuckDB's stand-in for a scan reads files."""
    return DataDir.open(tmp_path / "data", create=True)


@pytest.fixture
def directory(data: DataDir) -> DataDir:
    return delivered(data)


def statements(data: DataDir, catalog: str, **options: object) -> list[str]:
    options.setdefault("location", None if catalog in ("hive", "duckdb") else "s3://bucket/place")
    return list(Registration(catalog, "/", **options).statements(data))  # type: ignore[arg-type]


@pytest.mark.parametrize("catalog", CATALOGS)
def test_each_queue_and_what_is_no_queue_is_there_once_and_nothing_has_a_line_too_many(
    directory: DataDir, catalog: str
) -> None:
    made = statements(directory, catalog)
    views = [one for one in made if "CREATE OR REPLACE VIEW" in one]
    external = [one for one in made if re.match("CREATE (EXTERNAL )?TABLE", one)]
    assert made == statements(directory, catalog)
    assert len(views) == len(HOSTILE) + (1 if catalog != "duckdb" else 3)
    assert len(external) == (len(HOSTILE) + 3 if catalog != "duckdb" else 0)
    assert all(visible(line) == line for one in made for line in one.split("\n"))
    assert not any("$" in one or "{" in one for one in made if catalog in ("hive", "unity"))


def test_nothing_commits_to_a_table(directory: DataDir) -> None:
    for catalog in CATALOGS:
        for one in statements(directory, catalog, prune=True):
            assert not re.search(r"COMMENT ON TABLE|ALTER |REPLACE TABLE|INSERT|OPTIMIZE ", one), one


@pytest.mark.parametrize(
    ("catalog", "schema", "table", "address"),
    [
        ("hive", None, "`bindery`.`late__majors____stored`", "file://ROOT"),
        ("hive", "a", "`a`.`late__majors____stored`", "file://ROOT"),
        ("unity", None, "`main`.`bindery`.`late__majors____stored`", "s3://bucket/place"),
        ("unity", "a.b-c", "`a`.`b-c`.`late__majors____stored`", "s3://bucket/place"),
        ("glue", None, "`bindery`.`late__majors____stored`", "s3://bucket/place"),
    ],
)
def test_a_table_is_where_the_engine_finds_it(
    directory: DataDir, catalog: str, schema: str | None, table: str, address: str
) -> None:
    made = statements(directory, catalog, schema=schema)
    (found,) = [one for one in made if table in one and "TABLE IF NOT EXISTS" in one]
    place = address.replace("ROOT", directory.root) + "/queues/~2F/late~2Emajors"
    assert f"'{place}'" in found or f"'{place}/'" in found


def test_athena_shows_times_without_a_zone_and_leaves_out_what_holds_times(directory: DataDir) -> None:
    made = statements(directory, "glue")
    (view,) = [one for one in made if "VIEW" in one and 'VIEW "bindery"."late__majors"' in one]
    assert view.startswith("-- Messages routed to the queue 'late.majors'")
    assert 'CAST("routed_at" AT TIME ZONE \'UTC\' AS TIMESTAMP) AS "routed_at"' in view
    assert '\n  "application_properties"' not in view
    assert 'element_at("application_properties", \'carrier\')."string" AS "carrier"' in view


def test_a_view_says_what_feeds_it_and_which_headers_were_seen(directory: DataDir) -> None:
    def bind(editor: TopologyEditor) -> None:
        editor.bind(Binding(0, "/", "amq.topic", "late.majors", routing_key="it's.#"))

    version = TopologyStore(directory).edit(bind, author="t").version
    (about,) = [one for one in statements(directory, "duckdb") if 'ON VIEW "bindery"."late.majors"' in one]
    assert "exchange ''amq.topic'' with key \"it''s.#\" (binding 1); the default exchange" in about
    assert "dep_delay (integer and double)" in about
    assert f"As of topology version {version}." in about


def test_a_deferred_queue_is_said_to_be_late(data: DataDir, store: TopologyStore) -> None:
    """Its border to the journal stands in the log of its table, which no statement reads together with the rows."""
    declare(store, late=60, now=0)
    route(data, store, [Message("", "late", cc=("now",))])
    said: list[str] = []
    for catalog, location in (("hive", None), ("unity", "s3://b/p"), ("duckdb", None)):
        made = list(Registration(catalog, "/", location=location).statements(data, notice=said.append))
        told = [one for one in made if "up to 60 s late; bindery sql has them at once" in one]
        assert len(told) == 1
        assert re.search(r"the queue \W{1,2}late\W", told[0])
    assert said[0].startswith("1 queue of these is deferred: ")
    assert "up to 60 s late (late)" in said[0]
    # a queue without freshness is as late as the job says, of whichever stream with a journal
    route(data, store, [Message("", "now")], batch_id=1, freshness=5)
    keep_journal(data, "flights", "/", Kept(timedelta(days=1), freshness=5))
    list(Registration("duckdb", "/").statements(data, notice=said.append))
    assert "2 queues of these are deferred" in said[-2]


def test_what_is_not_declared_any_more_is_dropped_if_that_is_asked_for(directory: DataDir) -> None:
    def delete(editor: TopologyEditor) -> None:
        for name in ("late.majors", "Late"):
            editor.delete_queue("/", name)

    TopologyStore(directory).edit(delete, author="t")
    for catalog, gone in (
        ("hive", {"`late__majors`", "`late__majors____stored`", f"`{identifier('Late')}`"}),
        ("duckdb", {'"late.majors"', '"Late~1"', '"late~2"'}),
    ):
        assert not [one for one in statements(directory, catalog) if one.startswith("DROP")]
        dropped = {one.rpartition(".`" if catalog == "hive" else '."')[2] for one in drops(directory, catalog)}
        assert {name[1:] for name in gone} <= dropped
        assert 'late"' not in dropped


def drops(data: DataDir, catalog: str) -> list[str]:
    return [one for one in statements(data, catalog, prune=True) if one.startswith("DROP")]


def test_a_table_that_is_not_there_yet_is_left_out_and_said(data: DataDir, store: TopologyStore) -> None:
    store.create()
    said: list[str] = []
    made = list(Registration("duckdb", "/").statements(data, notice=said.append))
    assert said == [f"{kind} is left out: there is no such table yet" for kind in ("unroutable", "manifest")]
    assert len([one for one in made if "VIEW" in one and one.startswith("CREATE")]) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"catalog": "hiv"}, "there is no catalog 'hiv'"),
        ({"schema": "a.b"}, "'a.b' is no name of a schema in hive"),
        ({"schema": "a`b"}, "'a`b' is no name"),
        ({"catalog": "unity", "schema": "a"}, "'a' is no name of a schema in unity"),
        ({"location": "s3://b/it's"}, "is no address that every engine reads"),
        ({"location": "data"}, "is no address"),
        ({"catalog": "glue"}, "glue does not read '"),
        ({"catalog": "unity"}, "unity does not read '"),
    ],
)
def test_what_cannot_be_is_refused(data: DataDir, store: TopologyStore, options: dict[str, str], message: str) -> None:
    store.create()
    with pytest.raises(InvalidInput, match=re.escape(message)):
        list(Registration(**{"catalog": "hive", "vhost": "/", **options}).statements(data))  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        list(Registration("hive", "none").statements(data))


# -- DuckDB ---------------------------------------------------------------------------------------------


@pytest.fixture
def database(directory: DataDir, tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database whose `delta_scan` finds the rows that deltalake reads: the extension is not everywhere."""
    with duckdb.connect(str(tmp_path / "catalog.duckdb")) as connection:
        scannable(connection, directory)
        yield connection


def scannable(connection: duckdb.DuckDBPyConnection, data: DataDir) -> None:
    for path in (*data.queue_tables(), data.unroutable("/"), data.manifest, data.topology):
        rows = DeltaTable(path).to_pyarrow_table()  # noqa: F841  # DuckDB finds it by its name
        name = f"t_{hashlib.md5(path.encode(), usedforsecurity=False).hexdigest()}"  # paths differ by case alone
        connection.execute(f"CREATE TABLE main.{name} AS SELECT * FROM rows")  # noqa: S608
    connection.execute("CREATE MACRO main.delta_scan(place) AS TABLE SELECT * FROM query_table('t_' || md5(place))")


def test_duckdb_shows_what_bindery_sql_shows(directory: DataDir, database: duckdb.DuckDBPyConnection) -> None:
    for _ in range(2):  # a second time changes nothing
        for one in statements(directory, "duckdb"):
            database.execute(one)
    called, queues = sql_names(HOSTILE), DuckDb().queue_names(HOSTILE)
    database.execute("SET TimeZone = 'UTC'")
    with SqlSession(ReadPoint.of(directory), "/") as session:
        for queue in HOSTILE:
            expected = session.relation(f"SELECT * FROM {DuckDb().quoted(called[queue])} ORDER BY routing.seq")  # noqa: S608
            found = database.sql(f"SELECT * FROM bindery.{DuckDb().quoted(queues[queue])} ORDER BY routing.seq")  # noqa: S608
            assert found.fetchall() == expected.fetchall()
            columns = zip(found.columns, expected.columns, strict=True)
            assert [one for one in columns if one[0] != one[1]] == [(identifier(KEY, digits=64), KEY)]
    ((about,),) = database.sql("SELECT comment FROM duckdb_views() WHERE view_name = 'late.majors'").fetchall()
    assert about.startswith("Messages routed to the queue 'late.majors' of the vhost '/'")
    column = "SELECT comment FROM duckdb_columns() WHERE table_name = 'late.majors' AND column_name = 'carrier'"
    assert database.sql(column).fetchall() == [("The header 'carrier', string.",)]


# -- journals -------------------------------------------------------------------------------------------


def test_journals_of_the_vhost_have_views_whose_names_no_queue_has(data: DataDir, store: TopologyStore) -> None:
    named_alike = "bindery____journal____two words"
    store.edit(lambda editor: (declare_queues("q", named_alike)(editor), editor.declare_vhost(Vhost("v"))), author="t")
    sent = Message("", "q", application_properties=Table({"n": 1}))
    for stream, vhost in (("two words", "/"), ("orders", "/"), ("elsewhere", "v")):
        route(data, store, [sent], stream=stream, vhost=vhost, journal=True)
    made = statements(data, "duckdb")
    views = [one for one in made if one.startswith("CREATE OR REPLACE VIEW")]
    (found,) = [one for one in views if data.journal("orders") in one]
    assert found.startswith('CREATE OR REPLACE VIEW "bindery"."bindery____journal____orders"')
    (renamed,) = [one for one in views if data.journal("two words") in one]
    assert renamed.startswith(f'CREATE OR REPLACE VIEW "bindery"."{named_alike}~1"')
    assert not [one for one in made if data.journal("elsewhere") in one]
    (said,) = [one for one in made if one.startswith("COMMENT") and '____orders"' in one and " VIEW " in one]
    assert "Headers seen: n (integer)." in said
    hive = [one for one in statements(data, "hive") if "VIEW" in one and "`bindery____journal____orders`" in one]
    assert hive


@given(st.sets(NAMES, max_size=20), st.sets(NAMES, max_size=20))
def test_no_journal_is_called_as_a_queue_is(queues: set[str], streams: set[str]) -> None:
    for dialect in (SparkSql(), Athena(), DuckDb()):
        called = dialect.queue_names(sorted(queues)).values()
        journals = dialect.journal_names(sorted(streams), called).values()
        stored = {f"{one}____stored" for one in [*called, *journals]}
        every = [*called, *journals, *stored, *(dialect.own_name(name) for name in OWN)]
        assert len({one.casefold() for one in every}) == len(every)
