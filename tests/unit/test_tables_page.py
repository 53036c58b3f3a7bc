"""The tables of docs/tables.md: its columns are those of the tables, in the words of their logs."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pytest

import bindery.store
from bindery.router.message import VALUE
from bindery.store import tables
from bindery.store.descriptions import VALUE_FIELDS, columns_of
from bindery.store.manifest import MANIFEST
from bindery.store.pins import Pin
from bindery.store.streams import STREAMS
from bindery.store.topology import TOPOLOGY
from handbook.lives import LIVES

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text("utf-8")
_NAMES = {"int32": "int", "int64": "bigint", "bool": "boolean", "timestamp[us, tz=UTC]": "timestamp"}


def type_name(kind: pa.DataType) -> str:
    """A type as the page writes it."""
    if kind == VALUE:
        return "value"
    if pa.types.is_map(kind):
        return f"map of {type_name(kind.key_type)} to {type_name(kind.item_type)}"
    if pa.types.is_list(kind):
        return f"list of {type_name(kind.value_type)}"
    if pa.types.is_struct(kind):
        return "struct: " + ", ".join(f"{member.name} {type_name(member.type)}" for member in kind)
    return _NAMES.get(str(kind), str(kind))


def rows_of(kind: tables.Kind) -> list[str]:
    about = columns_of(kind.name)
    return [f"| `{field.name}` | {type_name(field.type)} | {about[field.name]} |" for field in kind.schema]


def value_rows() -> list[str]:
    return [f"| `{member.name}` | {type_name(member.type)} | {VALUE_FIELDS[member.name]} |" for member in VALUE]


def text_below(title: str) -> str:
    """What is below a heading."""
    return PAGE.split(f"\n### {title}\n")[1].split("\n#")[0]


def section(title: str) -> list[str]:
    """The rows of the table below a heading."""
    return [line for line in text_below(title).splitlines() if line.startswith("| `")]


def kinds() -> dict[str, tables.Kind]:
    """Every kind of table that there is, by its name."""
    names = [one.name for one in pkgutil.walk_packages(bindery.store.__path__, "bindery.store.")]
    values = (value for name in names for value in vars(importlib.import_module(name)).values())
    return {value.name: value for value in values if isinstance(value, tables.Kind)}


TITLES = {"queue": "Queues", "journal": "Journal", "dedup": "Deduplication"}


def test_every_kind_of_table_has_its_columns_and_the_life_of_a_row_on_the_page() -> None:
    found = kinds()
    assert found.keys() >= {"queue", "unroutable", "journal", "dedup", "inbox", "manifest", "topology", "streams"}
    for name, kind in found.items():
        text = text_below(TITLES.get(name, f"`{name}`"))
        assert f"](pictures/life-{name}.svg)" in text, name
        assert f"life-{name}" in LIVES
        stated = "The columns of a queue" in text
        assert stated or text.count("\n| `") == len(kind.schema), name


def test_every_member_of_a_pin_is_on_the_page() -> None:
    members = [field.name for field in fields(Pin) if field.name != "done"]
    assert [row.split("`")[1] for row in section("Files beside the tables")] == members


@pytest.mark.parametrize("kind", [tables.QUEUE, MANIFEST, TOPOLOGY, STREAMS], ids=lambda kind: str(kind.name))
def test_every_column_is_on_the_page(kind: tables.Kind) -> None:
    title = {"queue": "Queues", "manifest": "`manifest`", "topology": "`topology`", "streams": "`streams`"}[kind.name]
    assert section(title) == rows_of(kind)


def test_what_other_tables_have_beside_and_what_a_value_is() -> None:
    beside = [row for row in rows_of(tables.UNROUTABLE) if row not in rows_of(tables.QUEUE)]
    assert section("`unroutable`") == beside
    assert section("Journal") == [row for row in rows_of(tables.JOURNAL) if row not in rows_of(tables.QUEUE)]
    assert section("Deduplication") == rows_of(tables.DEDUP)
    assert set(rows_of(tables.INBOX)) < set(rows_of(tables.QUEUE))
    assert section("Typed values") == value_rows()
