"""How to read a queue elsewhere: text that is pasted and run, with the table's real address.

What is asked for, a consumer's filter or a past state, is part of the text where the language can say it; where it
cannot, `note` says so. Names are written as each language writes them, whatever characters they have.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from bindery.analytics.catalog.identifiers import sql_names
from bindery.analytics.point import TableAt
from bindery.router.model import DEFAULT_VHOST, Topology
from bindery.store.paths import DataDir
from bindery.store.places import hadoop_address

_DEFAULT_DIALECT: Final = "jms"
#: What the command line calls the language of filter sets.
_FILTER_SET: Final = "filter-set"


@dataclass(frozen=True, slots=True)
class Snippet:
    """How one language reads the queue; `note` is what its text leaves out, or what it needs."""

    language: str
    title: str
    code: str
    note: str | None = None

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {"language": self.language, "title": self.title, "code": self.code, "note": self.note}


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read: a queue of a data directory, what of it a filter accepts, and as of when.

    version  a version of the queue's table
    at       a point: STREAM:BATCH or a time, as it was given
    table    the table at that version or point
    url      where the control plane answers, without a slash behind; `user` who asks it
    """

    data: DataDir
    topology: Topology
    vhost: str
    name: str
    table: TableAt
    filter: str | Mapping[str, Any] | None = None
    dialect: str = _DEFAULT_DIALECT
    payload: str | None = None
    version: int | None = None
    at: str | None = None
    url: str = ""
    user: str = ""

    def snippets(self) -> list[Snippet]:
        """The texts, for every language."""
        return [
            self._spark_sql(),
            self._pyspark(),
            self._polars(),
            self._duckdb(),
            self._python(),
            self._command(),
            self._curl(),
        ]

    # -- languages ----------------------------------------------------------------------------------------

    def _spark_sql(self) -> Snippet:
        path = hadoop_address(self.table.path).replace("`", "``")
        lines = ["SELECT routing_key, application_properties, body, routed_at", f"FROM delta.`{path}`"]
        if self._is_past:
            lines[-1] += f" VERSION AS OF {self.table.version}"
        for number, one in enumerate(self.table.left_out):
            stream = _spark_text(one.stream)
            condition = (
                f"routing.stream = {stream} AND routing.batch_id > {one.after} AND routing.batch_id <= {one.last}"
            )
            lines.append(f"{'AND' if number else 'WHERE'} NOT ({condition})")
        note = None
        if self.filter is not None:
            note = "A consumer's filter is no SQL: this reads every row. PySpark and Python read with the filter."
        return Snippet("sql", "Spark SQL", "\n".join([*lines, "ORDER BY routed_at, routing"]), note)

    def _pyspark(self) -> Snippet:
        if self.version is None and (self.filter is not None or self.at is not None):
            made = f"{self._queue}.spark({self._arguments('spark')})"
            code = f"import bindery\n\nspark = bindery.spark()\nrows = {made}\nrows.show()"
            return Snippet("python", "PySpark", code)
        option = f'.option("versionAsOf", {self.version})' if self._is_past else ""
        path = hadoop_address(self.table.path)
        code = f'rows = spark.read.format("delta"){option}.load({path!r})\nrows.show()'
        note = "spark is a session with Delta, such as that of bindery.spark()."
        if self.filter is not None:
            note = "Spark reads every row of a version: Python reads one with a filter."
        return Snippet("python", "PySpark", code, note)

    def _polars(self) -> Snippet:
        if self._needs_bindery:
            made = f"pl.from_arrow({self._read_queue()})" if self.version is not None else self._frame("polars")
            imports = "import bindery\nimport polars as pl" if self.version is not None else "import bindery"
            return Snippet("python", "polars", f"{imports}\n\nrows = {made}\nprint(rows)")
        version = "" if self.version is None else f", version={self.version}"
        code = f"import polars as pl\n\nrows = pl.scan_delta({self.table.path!r}{version}).collect()\nprint(rows)"
        return Snippet("python", "polars", code)

    def _duckdb(self) -> Snippet:
        count = '"SELECT routing_key, count(*) AS messages FROM rows GROUP BY ALL ORDER BY ALL"'
        if self.version is None and self._needs_bindery:
            arguments = self._arguments("connection=connection")
            code = (
                "import bindery\nimport duckdb\n\nconnection = duckdb.connect()\n"
                f"rows = {self._queue}.duckdb({arguments})\nconnection.sql({count}).show()"
            )
            return Snippet("python", "DuckDB", code)
        if self._needs_bindery:
            code = f"import bindery\nimport duckdb\n\nrows = {self._read_queue()}\nduckdb.sql({count}).show()"
            return Snippet("python", "DuckDB", code)
        version = "" if self.version is None else f", version={self.version}"
        made = f"DeltaTable({self.table.path!r}{version}).to_pyarrow_dataset()"
        code = f"import duckdb\nfrom deltalake import DeltaTable\n\nrows = {made}\nduckdb.sql({count}).show()"
        return Snippet("python", "DuckDB", code)

    def _python(self) -> Snippet:
        made = self._read_queue() if self.version is not None else self._frame("arrow")
        return Snippet("python", "Python", f"import bindery\n\nrows = {made}\nprint(rows.num_rows)")

    def _command(self) -> Snippet:
        directory = _shell(self.data.root)
        if self.filter is not None and not self._is_past:
            words = ["bindery", "messages", "browse", "--data", directory]
            words += ["--vhost", _shell(self.vhost)] if self.vhost != DEFAULT_VHOST else []
            is_text = isinstance(self.filter, str)
            words += ["--filter", _shell(self.filter if isinstance(self.filter, str) else json.dumps(self.filter))]
            dialect = self.dialect if is_text else _FILTER_SET
            words += ["--dialect", _shell(dialect)] if dialect != _DEFAULT_DIALECT else []
            words += ["--payload", _shell(self.payload)] if self.payload is not None else []
            return Snippet("shell", "Command line", " ".join([*words, "--", _shell(self.name)]))
        names = sql_names(sorted(name for vhost, name in self.topology.queues if vhost == self.vhost))
        view = '"' + names.get(self.name, self.name).replace('"', '""') + '"'
        words = ["bindery", "sql", _shell(f"SELECT * FROM {view}"), "--data", directory]  # noqa: S608  # nobody runs it here
        words += ["--vhost", _shell(self.vhost)] if self.vhost != DEFAULT_VHOST else []
        words += ["--at", _shell(self.at)] if self.at is not None else []
        left_out = []
        if self.version is not None:
            left_out.append(
                "It reads as of a batch or a time, not as of a version of one table: this reads the present."
            )
        if self.filter is not None:
            left_out.append("A consumer's filter is no SQL: this reads every row.")
        return Snippet("shell", "bindery sql", " ".join(words), " ".join(left_out) or None)

    def _curl(self) -> Snippet:
        path = "/".join(quote(one, safe="") for one in (self.vhost, self.name))
        body = {name: value for name, value in self._body().items() if value is not None}
        address = f"{self.url}/api/queues/{path}/rows"
        words = ["curl", "-u", _shell(self.user), "-X", "POST", _shell(address), "-d", _shell(json.dumps(body))]
        return Snippet("shell", "curl", " ".join(words), "It asks for your password, and gives the first page.")

    # -- what they are made of ----------------------------------------------------------------------------

    @property
    def _is_past(self) -> bool:
        return self.version is not None or self.at is not None

    @property
    def _needs_bindery(self) -> bool:
        return self.filter is not None or self.at is not None

    @property
    def _queue(self) -> str:
        vhost = "" if self.vhost == DEFAULT_VHOST else f", vhost={self.vhost!r}"
        return f"bindery.open({self.data.root!r}).queue({self.name!r}{vhost})"

    def _frame(self, method: str) -> str:
        return f"{self._queue}.{method}({self._arguments()})"

    def _read_queue(self) -> str:
        vhost = [] if self.vhost == DEFAULT_VHOST else [f"vhost={self.vhost!r}"]
        arguments = ", ".join([repr(self.data.root), repr(self.name), *vhost, *self._filter_arguments])
        return f"bindery.read_queue({arguments}, version={self.version})"

    @property
    def _filter_arguments(self) -> list[str]:
        if self.filter is None:
            return []
        given = self.filter if isinstance(self.filter, str) else dict(self.filter)
        dialect = [] if self.dialect == _DEFAULT_DIALECT else [f"dialect={self.dialect!r}"]
        return [f"filter={given!r}", *dialect, *([] if self.payload is None else [f"payload={self.payload!r}"])]

    def _arguments(self, *first: str) -> str:
        at = [] if self.at is None else [f"at={self.at!r}"]
        return ", ".join([*first, *self._filter_arguments, "flat=True", *at])

    def _body(self) -> dict[str, Any]:
        dialect = None if self.filter is None or self.dialect == _DEFAULT_DIALECT else self.dialect
        asked = {"filter": self.filter, "dialect": dialect, "payload": self.payload}
        return asked | {"table_version": self.version, "at": self.at}


def _shell(text: str) -> str:
    """A text as one word of a shell (bash, zsh, ksh): what nobody sees is written out, byte by byte."""
    if text.isprintable():
        return shlex.quote(text)
    written = "".join(
        {"\\": "\\\\", "'": "\\'"}.get(one, one)
        if one.isprintable()
        else "".join(f"\\{byte:03o}" for byte in one.encode())
        for one in text
    )
    return f"$'{written}'"


def _spark_text(text: str) -> str:
    """A text as a literal of Spark SQL, whose backslashes begin escapes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"
