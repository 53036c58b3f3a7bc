"""SQL over a data directory at a point: DuckDB in this process, which sees the tables and nothing else.

Every vhost is a schema and every queue of it a view, by their real names; the schema `journal` has a view for each
stream that keeps one, the schema `bindery` holds what else there is. A view is made when a statement first mentions its
name, so that opening costs what is asked for. DuckDB has no access to files, and its settings are locked.
"""

from __future__ import annotations

import difflib
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from bindery.analytics.catalog.identifiers import sql_names
from bindery.analytics.point import ReadPoint, journals_of
from bindery.analytics.rows import Rows
from bindery.analytics.tables import (
    OBJECTS,
    Notice,
    batch_rows,
    journal_rows,
    object_rows,
    objects_named,
    queue_rows,
    silent,
    unroutable_rows,
    version_rows,
)
from bindery.router.errors import BinderyError, InvalidInput

#: The schema of what is no queue.
OWN: Final = "bindery"
#: The schema of journals, which are called as their streams.
JOURNAL: Final = "journal"
#: Names of schemas that DuckDB or Bindery has.
_TAKEN: Final = (OWN, JOURNAL, "main", "temp", "system", "memory", "information_schema", "pg_catalog")
#: What lists views, or puts their names together: all of them have to be there then.
_LISTS: Final = re.compile(
    r"\b(show|information_schema|pg_catalog|sqlite_master|duckdb_\w+|query|query_table)\b", re.IGNORECASE
)
_MISSING: Final = re.compile(r"Table with name (.+?) does not exist")
#: Types of statements whose rows are an answer.
_QUERIES: Final = frozenset(("SELECT", "EXPLAIN", "PRAGMA", "CALL", "EXECUTE"))
#: Rows of a result that are handed on together.
_BATCH_ROWS: Final = 65_536


@dataclass(frozen=True, slots=True)
class View:
    """A view: the names of its schema and of itself, and what it shows."""

    schema: str
    name: str
    rows: Callable[[], Rows | pa.Table]

    @property
    def quoted(self) -> str:
        """How SQL calls it."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"


class SqlSession:
    """Statements over a point; use as a context. Not safe between threads.

    `notice` is told what is worth knowing beside results: columns whose values are of several types. Raises
    InvalidInput without DuckDB, NotFound for no such vhost.
    """

    def __init__(self, point: ReadPoint, vhost: str, *, notice: Notice = silent) -> None:
        self._duckdb = _duckdb()
        point.topology.vhost(vhost)
        schemas = sql_names(sorted(point.topology.vhosts), _TAKEN)
        self.views = [*_queues(point, schemas, notice), *_journals(point, notice), *_own(point, vhost, notice)]
        self._open: dict[str, Rows | pa.Table] = {}
        self._spill = tempfile.TemporaryDirectory(prefix="bindery-sql-")
        self._connection = self._duckdb.connect(":memory:")
        for schema in (*schemas.values(), OWN, JOURNAL):
            self._connection.execute(f"CREATE SCHEMA {quoted(schema)}")
        for name, value in (
            ("search_path", f"{quoted(schemas[vhost])},{OWN}"),
            ("temp_directory", self._spill.name),
            ("TimeZone", "UTC"),
            ("python_enable_replacements", "false"),
            ("enable_external_access", "false"),
            ("lock_configuration", "true"),
        ):
            self._connection.execute(f"SET {name}=" + _literal(value))

    def __enter__(self) -> SqlSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget everything."""
        self._connection.close()
        self._spill.cleanup()

    def statements(self, text: str) -> list[tuple[str, bool]]:
        """The statements of a text, each with whether it is a query. Raises InvalidInput."""
        with self._judged():
            return [(one.query, one.type.name in _QUERIES) for one in self._connection.extract_statements(text)]

    def run(self, statement: str) -> pa.RecordBatchReader | None:
        """The rows of one statement, read as they are taken; None for a statement that gives none.

        Raises InvalidInput for a statement that is wrong; what keeps a table from being read is raised as it is, also
        while rows are taken.
        """
        relation = self.relation(statement)
        if relation is None:
            return None
        with self._judged():
            # called otherwise before DuckDB 1.5
            reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            rows = reader(_BATCH_ROWS)
        return pa.RecordBatchReader.from_batches(rows.schema, self._taken(rows))

    def relation(self, statement: str) -> Any:
        """A statement as a relation of DuckDB, which lives as long as the session; None if it gives no rows."""
        with self._judged():
            self._prepare(statement)
            return self._connection.sql(statement)

    def _taken(self, rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        with self._judged():
            yield from rows

    def _prepare(self, statement: str) -> None:
        """Make the views that a statement may mention."""
        everything = _LISTS.search(statement) is not None
        text = statement.replace('""', '"').casefold()
        for view in self.views:
            if view.quoted not in self._open and (everything or view.name.casefold() in text):
                rows = self._open[view.quoted] = view.rows()
                name = f"__{OWN}_{len(self._open)}"
                self._connection.register(name, rows)
                self._connection.execute(f"CREATE VIEW {view.quoted} AS SELECT * FROM {quoted(name)}")  # noqa: S608

    @contextmanager
    def _judged(self) -> Iterator[None]:
        """What DuckDB and Arrow say of a statement, as an error of Bindery's; a table's own error as it is."""
        try:
            yield
        except (self._duckdb.Error, pa.ArrowException, OSError) as error:
            for rows in self._open.values():
                if isinstance(rows, Rows) and isinstance(rows.error, BinderyError):
                    found, rows.error = rows.error, None
                    raise found from None
            hint = self._meant(error)
            # DuckDB's own guess is among its catalog's tables, and stands on a line of its own
            said = str(error).strip() if hint is None else str(error).partition("\n")[0]
            raise InvalidInput(said, where="sql", hint=hint) from None

    def _meant(self, error: Exception) -> str | None:
        """Names that are like one that there is not."""
        missing = _MISSING.search(str(error)) if isinstance(error, self._duckdb.CatalogException) else None
        if missing is None:
            return None
        names = {view.name.casefold(): view.quoted for view in self.views}
        asked = missing[1].casefold()
        alike = [f"{asked}~{number}" for number in (1, 2) if f"{asked}~{number}" in names]
        alike += difflib.get_close_matches(asked, names, 5)
        return "there is " + ", ".join(dict.fromkeys(names[one] for one in alike)) if alike else "`.tables` lists all"


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _queues(point: ReadPoint, schemas: dict[str, str], notice: Notice) -> Iterator[View]:
    for vhost, schema in schemas.items():
        queues = sorted(name for owner, name in point.topology.queues if owner == vhost)
        for queue, view in sql_names(queues).items():
            yield View(schema, view, partial(queue_rows, point, vhost, queue, notice=notice))


def _journals(point: ReadPoint, notice: Notice) -> Iterator[View]:
    paths = journals_of(point.data)
    for stream, view in sql_names(sorted(paths)).items():
        yield View(JOURNAL, view, partial(journal_rows, point, stream, paths[stream], notice=notice))


def _own(point: ReadPoint, vhost: str, notice: Notice) -> Iterator[View]:
    yield View(OWN, "unroutable", partial(unroutable_rows, point, vhost, notice=notice))
    yield View(OWN, "manifest", partial(batch_rows, point))
    yield View(OWN, "topology", partial(object_rows, point))
    yield View(OWN, "versions", partial(version_rows, point))
    for name in OBJECTS:
        yield View(OWN, name, partial(objects_named, point, name))


def _duckdb() -> Any:
    try:
        import duckdb  # noqa: PLC0415  # an extra, and not needed for anything else
    except ImportError:
        raise InvalidInput(
            "SQL needs DuckDB and it is not installed", where="duckdb", hint="pip install 'bindery[sql]'"
        ) from None
    return duckdb
