"""Rows are found again by what they are: identity, time of routing and content, as often as they were meant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from bindery.router.errors import InvalidInput
from bindery.router.message import QUEUE_SCHEMA
from bindery.store import data_files, row_bag, tables
from bindery.store.actions import RemoveFile
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.row_bag import RowBag, RowSearch


def rows(*bodies: str, seq: int = 0, minute: int = 0, nan: bool = False) -> pa.Table:
    """Rows that differ in their bodies only."""
    price: Any = [("price", {"double": float("nan")})] if nan else None
    routing = {"topology_version": 1, "stream": "api", "batch_id": 0, "seq": seq, "bindings": [1]}
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
    return pa.Table.from_pylist(
        [
            {"body": body.encode(), "routing": routing, "routed_at": at, "application_properties": price}
            for body in bodies
        ],
        schema=QUEUE_SCHEMA,
    )


@pytest.fixture
def log(data: DataDir) -> TableLog:
    tables.ensure_queue_table(data, "/", "q")
    return TableLog(data.queue("/", "q"), files=True)


def add(log: TableLog, *parts: pa.Table) -> str:
    added = data_files.write_file(log.path, pa.concat_tables(parts))
    log.commit([added])
    return added.path


def found(search: RowSearch) -> dict[str, list[int]]:
    return {name: places.tolist() for name, places in search.places.items()}


def test_another_row_under_the_same_identity_is_not_found(log: TableLog) -> None:
    name = add(log, rows("other"), rows("meant", minute=1), rows("meant", seq=1), rows("meant"), rows("other"))
    search = RowSearch(log, RowBag(rows("meant")), QUEUE_SCHEMA)
    assert (found(search), search.missing) == ({name: [3]}, 0)
    add(log, rows("meant"))
    assert search.update()
    assert found(search) == {name: [3]}, "one was meant, and one is found"
    gone = RowSearch(log, RowBag(rows("gone")), QUEUE_SCHEMA)
    assert (found(gone), gone.missing) == ({}, 1)


def test_equal_rows_are_found_as_often_as_they_were_meant(log: TableLog) -> None:
    first = add(log, rows("a", "b", "b"))
    second = add(log, rows("b", "a", "b"))
    search = RowSearch(log, RowBag(rows("b", "b", "b", "a")), QUEUE_SCHEMA)
    assert (found(search), search.missing) == ({first: [0, 1, 2], second: [0]}, 0)
    assert RowSearch(log, RowBag(rows("b", "b", "b", "b", "b")), QUEUE_SCHEMA).missing == 1


def test_what_is_no_number_is_equal_to_itself(log: TableLog) -> None:
    name = add(log, rows("a", nan=True))
    assert found(RowSearch(log, RowBag(rows("a", nan=True)), QUEUE_SCHEMA)) == {name: [0]}


def test_rows_that_moved_are_found_where_they_are_now(log: TableLog) -> None:
    first, second = add(log, rows("a")), add(log, rows("b", seq=1))
    search = RowSearch(log, RowBag(pa.concat_tables([rows("a"), rows("b", seq=1)])), QUEUE_SCHEMA)
    assert found(search) == {first: [0], second: [0]}
    merged = data_files.write_file(log.path, pa.concat_tables([rows("x", seq=2), rows("b", seq=1), rows("x", seq=3)]))
    log.commit([merged, RemoveFile(second, 1)])
    assert search.update(), "in the file that stays the same rows are meant"
    assert (found(search), search.missing) == ({first: [0], merged.path: [1]}, 0)


def test_files_of_other_times_are_not_looked_into(log: TableLog, monkeypatch: pytest.MonkeyPatch) -> None:
    add(log, rows("a", minute=5))
    name = add(log, rows("a", minute=6))
    looked: list[str] = []
    look = RowBag.look

    def counted(bag: RowBag, path: str, name: str, schema: pa.Schema) -> Any:
        looked.append(name)
        return look(bag, path, name, schema)

    monkeypatch.setattr(RowBag, "look", counted)
    assert found(RowSearch(log, RowBag(rows("a", minute=6)), QUEUE_SCHEMA)) == {name: [0]}
    assert looked == [name]


def test_rows_of_distinct_identity_are_compared_without_their_texts(
    log: TableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = pa.concat_tables([rows("a", seq=seq) for seq in range(100)])
    name = add(log, many)
    monkeypatch.setattr(row_bag, "_text_of", lambda *_: pytest.fail("a text costs as much as a whole row"))
    assert found(RowSearch(log, RowBag(many), QUEUE_SCHEMA)) == {name: list(range(100))}


def test_rows_without_their_identity_are_refused() -> None:
    with pytest.raises(InvalidInput, match="routed_at"):
        RowBag(rows("a").drop_columns(["routed_at"]))
