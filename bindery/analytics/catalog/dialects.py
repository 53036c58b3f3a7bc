"""The SQL of each catalog's engine: how it quotes, how it takes a value out of a row, how it makes tables and views.

Names, keys and comments come from whoever may declare a queue or send a message. Each reaches a statement through
`quoted`, `literal` or `comment` alone.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from bindery.analytics.catalog.identifiers import MARK, column_names, identifiers, printable_names
from bindery.analytics.flat import UNIONS, FlatColumn
from bindery.router.columns import BINARY, BOOL, DOUBLE, INT, NESTED, STRING, TIMESTAMP, UNION_TAGS
from bindery.router.error_text import visible

#: Hive's columns of a metastore hold so many characters of a comment.
_COLUMN_COMMENT: Final = 250
_COMMENT: Final = 1_000
_MEMBER: Final = {tag: name for name, tag in UNION_TAGS}
#: In which order the members of a value are asked for its text.
_TEXTS: Final = (STRING, NESTED, BOOL, INT, DOUBLE, TIMESTAMP, BINARY)
_HEADERS: Final = "application_properties"
#: What is no queue: of a vhost its unroutable messages, and what all have.
OWN: Final = ("unroutable", "manifest", "topology")


@dataclass(frozen=True, slots=True)
class Relation:
    """A table with the view that shows it.

    name     what the view is called; the table behind it, where the catalog has one, is `name` with a mark
    address  where the table is, as the engine finds it
    stored   its columns with their comments
    flat     the columns of its headers and properties; None for a table without any, which needs no view
    about    what the view is said to hold
    """

    name: str
    address: str
    stored: Sequence[tuple[pa.Field, str]]
    flat: Sequence[FlatColumn] | None
    about: str


class Dialect(ABC):
    """The statements of an engine; none ends with a semicolon."""

    #: How a member of a value becomes text, by its tag.
    texts: ClassVar[dict[int, str]]

    # -- names and texts --------------------------------------------------------------------------------

    @abstractmethod
    def quoted(self, name: str) -> str:
        """A name in statements."""

    @abstractmethod
    def literal(self, text: str) -> str:
        """Any text as a string."""

    def comment(self, text: str, limit: int = _COMMENT) -> str:
        """A comment as a string: one line, not longer than catalogs keep."""
        shown = visible(text)
        return self.literal(shown if len(shown) <= limit else f"{shown[: limit - 1]}…")

    def path(self, schema: str, name: str) -> str:
        """A name in a schema, whose own name may have parts."""
        return ".".join(self.quoted(part) for part in (*schema.split("."), name))

    def queue_names(self, queues: Sequence[str]) -> dict[str, str]:
        """What the views of queues are called."""
        return identifiers(queues)

    def own_name(self, name: str) -> str:
        """What the view, or table, of one of OWN is called."""
        return f"bindery{MARK}{name}"

    def journal_names(self, streams: Sequence[str], queues: Iterable[str]) -> dict[str, str]:
        """What the views of journals are called, beside views of queues that are called so."""
        return {stream: self.own_name(f"journal{MARK}{called}") for stream, called in identifiers(streams).items()}

    def column_names(self, columns: Sequence[FlatColumn]) -> list[str]:
        """What flat columns are called."""
        return column_names([column.name for column in columns])

    # -- expressions ------------------------------------------------------------------------------------

    @abstractmethod
    def entry(self, column: str, key: str) -> str:
        """The value of a map, null where there is none."""

    def member(self, value: str, name: str) -> str:
        """A member of a struct."""
        return f"{value}.{self.quoted(name)}"

    def shown(self, expression: str, _: pa.DataType) -> str | None:
        """A stored column or member as a view shows it; None where views of the engine cannot."""
        return expression

    def flat(self, column: FlatColumn) -> str:
        """The expression of a flat column: what `bindery.analytics.flat` makes of the same rows."""
        section, name = column.ref.section, column.ref.name
        if section == _HEADERS:
            value = self.entry(self.quoted(section), name)
        else:
            value = self.member(self.quoted(section), name)
            if column.ref not in UNIONS:
                return self.shown(value, column.type) or value
        held = [tag for tag in _TEXTS if column.kinds & 1 << tag]
        if pa.types.is_floating(column.type) and INT in held:
            return f"coalesce({self._of(value, DOUBLE)}, CAST({self._of(value, INT)} AS DOUBLE))"
        if not pa.types.is_string(column.type):
            (tag,) = held
            return self.shown(self._of(value, tag), column.type) or value
        texts = [self.texts[tag].format(self._of(value, tag)) for tag in held or _TEXTS]
        return texts[0] if len(texts) == 1 else f"coalesce({', '.join(texts)})"

    def _of(self, value: str, tag: int) -> str:
        return self.member(value, _MEMBER[tag])

    # -- statements -------------------------------------------------------------------------------------

    def make_schema(self, schema: str) -> str:
        """The schema, if it is not there."""
        return f"CREATE SCHEMA IF NOT EXISTS {'.'.join(self.quoted(part) for part in schema.split('.'))}"

    @abstractmethod
    def make(self, schema: str, relation: Relation) -> list[str]:
        """What registers a table, or changes what is said of it."""

    @abstractmethod
    def drop(self, schema: str, name: str) -> list[str]:
        """What takes away a queue's view and table; the data stay."""

    def _columns(self, relation: Relation) -> Iterable[tuple[str, str, str]]:
        """Name, expression and comment of each column of a view."""
        for field, about in relation.stored:
            shown = self.shown(self.quoted(field.name), field.type)
            if shown is not None:
                yield field.name, shown, about
        flat = relation.flat or ()
        for name, column in zip(self.column_names(flat), flat, strict=True):
            yield name, self.flat(column), _about(column)

    def _selected(self, columns: Iterable[tuple[str, str, str]]) -> str:
        return _lines(
            expression if expression == self.quoted(name) else f"{expression} AS {self.quoted(name)}"
            for name, expression, _ in columns
        )


def _about(column: FlatColumn) -> str:
    if column.ref.section == _HEADERS:
        return f"The header {column.ref.name!r}, {column.holds}."
    return f"{column.ref.section}.{column.ref.name}, as the message states it."


class SparkSql(Dialect):
    """Spark over a Hive metastore, Glue or its own catalog; and Databricks over Unity Catalog.

    Nothing that it does commits to a table: a comment on a table, or CREATE OR REPLACE of one, would be an entry in its
    log, which only Bindery may make. So tables have the comments that their logs have, and views say what changes.
    """

    texts: ClassVar = {
        BOOL: "CAST({} AS STRING)",
        INT: "CAST({} AS STRING)",
        DOUBLE: "CAST({} AS STRING)",
        TIMESTAMP: (
            "date_format(to_utc_timestamp({}, current_timezone()), "
            r"'yyyy-MM-dd\'T\'HH:mm:ss.SSS\'Z\'')"
        ),
        STRING: "{}",
        BINARY: "lower(hex({}))",
        NESTED: "{}",
    }

    def quoted(self, name: str) -> str:
        """A name in backticks."""
        return "`" + name.replace("`", "``") + "`"

    def literal(self, text: str) -> str:
        """A string; what the parser, variables (`${…}`, `{{…}}`) or a terminal would take for more is escaped."""
        return "'" + "".join(_spark_character(char) for char in text) + "'"

    def entry(self, column: str, key: str) -> str:
        """Null for a key that is not there, ANSI mode or not."""
        return f"try_element_at({column}, {self.literal(key)})"

    def make(self, schema: str, relation: Relation) -> list[str]:
        """The external table, and the view."""
        behind = relation.name if relation.flat is None else f"{relation.name}{MARK}stored"
        table = self.path(schema, behind)
        statements = [f"CREATE TABLE IF NOT EXISTS {table} USING DELTA LOCATION {self.literal(relation.address)}"]
        if relation.flat is not None:
            columns = list(self._columns(relation))
            named = (
                f"{self.quoted(name)} COMMENT {self.comment(about, _COLUMN_COMMENT)}" for name, _, about in columns
            )
            statements.append(
                f"CREATE OR REPLACE VIEW {self.path(schema, relation.name)} (\n  {_lines(named)}\n)\n"
                f"COMMENT {self.comment(relation.about)}\n"
                f"AS SELECT\n  {self._selected(columns)}\nFROM {table}"
            )
        return statements

    def drop(self, schema: str, name: str) -> list[str]:
        """The view and the table of a queue; a table with a LOCATION leaves its data."""
        return [
            f"DROP VIEW IF EXISTS {self.path(schema, name)}",
            f"DROP TABLE IF EXISTS {self.path(schema, f'{name}{MARK}stored')}",
        ]


class Athena(Dialect):
    """Athena over Glue: a Delta table is its location and nothing else, and there are no comments but those of SQL.

    Its views have no columns of times with a zone, nor of structs and maps that hold some: times are shown without
    the zone, in UTC, and those columns are in the table alone.
    """

    texts: ClassVar = {
        BOOL: "CAST({} AS VARCHAR)",
        INT: "CAST({} AS VARCHAR)",
        DOUBLE: "CAST({} AS VARCHAR)",
        TIMESTAMP: "format_datetime({} AT TIME ZONE 'UTC', 'yyyy-MM-dd''T''HH:mm:ss.SSS''Z''')",
        STRING: "{}",
        BINARY: "lower(to_hex({}))",
        NESTED: "{}",
    }

    def quoted(self, name: str) -> str:
        """A name in queries; statements that define tables want backticks."""
        return _in_double_quotes(name)

    def literal(self, text: str) -> str:
        """A string."""
        return _joined(text)

    def entry(self, column: str, key: str) -> str:
        """Null for a key that is not there."""
        return f"element_at({column}, {self.literal(key)})"

    def shown(self, expression: str, kind: pa.DataType) -> str | None:
        """Times in UTC without a zone; nothing for what holds times."""
        if pa.types.is_timestamp(kind):
            return f"CAST({expression} AT TIME ZONE 'UTC' AS TIMESTAMP)"
        return None if "timestamp" in str(kind) else expression

    def make_schema(self, schema: str) -> str:
        """The database, if it is not there."""
        return f"CREATE DATABASE IF NOT EXISTS {_in_backticks(schema)}"

    def make(self, schema: str, relation: Relation) -> list[str]:
        """The external table, and the view below what is said of it."""
        behind = relation.name if relation.flat is None else f"{relation.name}{MARK}stored"
        statements = [
            f"CREATE EXTERNAL TABLE IF NOT EXISTS {_in_backticks(schema)}.{_in_backticks(behind)}\n"
            f"LOCATION {self.literal(relation.address + '/')}\nTBLPROPERTIES ('table_type' = 'DELTA')"
        ]
        if relation.flat is not None:
            selected = self._selected(self._columns(relation))
            statements.append(
                f"-- {visible(relation.about)[:_COMMENT]}\n"
                f"CREATE OR REPLACE VIEW {self.path(schema, relation.name)} AS SELECT\n  {selected}\n"
                f"FROM {self.path(schema, behind)}"
            )
        return statements

    def drop(self, schema: str, name: str) -> list[str]:
        """The view and the table of a queue."""
        return [
            f"DROP VIEW IF EXISTS {self.path(schema, name)}",
            f"DROP TABLE IF EXISTS {_in_backticks(schema)}.{_in_backticks(f'{name}{MARK}stored')}",
        ]


class DuckDb(Dialect):
    """DuckDB and its extension for Delta: views by the names that `bindery sql` has, without a table behind them."""

    texts: ClassVar = {
        BOOL: "CAST({} AS VARCHAR)",
        INT: "CAST({} AS VARCHAR)",
        DOUBLE: "CAST({} AS VARCHAR)",
        TIMESTAMP: "strftime({} AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%S.%gZ')",
        STRING: "{}",
        BINARY: "lower(hex({}))",
        NESTED: "{}",
    }

    def quoted(self, name: str) -> str:
        """A name in double quotes."""
        return _in_double_quotes(name)

    def literal(self, text: str) -> str:
        """A string."""
        return _joined(text)

    def queue_names(self, queues: Sequence[str]) -> dict[str, str]:
        """Their own names, as in `bindery sql`."""
        return printable_names(queues, [self.own_name(name) for name in OWN])

    def journal_names(self, streams: Sequence[str], queues: Iterable[str]) -> dict[str, str]:
        """With the names of their streams; a queue may have such a name of its own, and keeps it."""
        own = {stream: self.own_name(f"journal{MARK}{stream}") for stream in streams}
        called = printable_names(list(own.values()), {name.casefold() for name in queues})
        return {stream: called[name] for stream, name in own.items()}

    def column_names(self, columns: Sequence[FlatColumn]) -> list[str]:
        """Their own names."""
        called = printable_names([column.name for column in columns])
        return [called[column.name] for column in columns]

    def entry(self, column: str, key: str) -> str:
        """Null for a key that is not there."""
        return f"{column}[{self.literal(key)}]"

    def make(self, schema: str, relation: Relation) -> list[str]:
        """The view, and what is said of it."""
        view = self.path(schema, relation.name)
        columns = list(self._columns(relation))
        return [
            f"CREATE OR REPLACE VIEW {view} AS SELECT\n  {self._selected(columns)}\n"
            f"FROM delta_scan({self.literal(relation.address)})",
            f"COMMENT ON VIEW {view} IS {self.comment(relation.about)}",
            *(
                f"COMMENT ON COLUMN {view}.{self.quoted(name)} IS {self.comment(about, _COLUMN_COMMENT)}"
                for name, _, about in columns
            ),
        ]

    def drop(self, schema: str, name: str) -> list[str]:
        """The view of a queue."""
        return [f"DROP VIEW IF EXISTS {self.path(schema, name)}"]


def _lines(parts: Iterable[str]) -> str:
    return ",\n  ".join(parts)


def _in_backticks(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _in_double_quotes(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _spark_character(char: str) -> str:
    if char in "'\\":
        return f"\\{char}"
    if char not in "${" and visible(char) == char:
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _joined(text: str) -> str:
    """A string of standard SQL; characters that nobody sees are named by their numbers."""
    parts = []
    for seen, chars in itertools.groupby(text, lambda char: visible(char) == char):
        if seen:
            parts.append("'" + "".join(chars).replace("'", "''") + "'")
        else:
            parts += [f"chr({ord(char)})" for char in chars]
    return " || ".join(parts) if parts else "''"
