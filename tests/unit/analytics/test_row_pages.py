"""Pages of rows go on behind a row: together they are the queue in its order, whichever way one leafs."""

from __future__ import annotations

import random
from typing import Any

import pytest

from bindery import read_queue
from bindery.analytics.row_pages import Cursor, RowPage, holds, page_of, queue_at, row_of
from bindery.router.errors import InvalidInput, NotFound, Stopped
from bindery.store import faults, read
from bindery.store.commit import BatchCommitter
from bindery.store.consumer_filters import consumer_filter
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.read import RowId, row_ids
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import Crash, at, crash, declare_queues, deliver


def price(seq: int) -> list[tuple[str, dict[str, int]]]:
    return [("price", {"int": seq * 10})]


@pytest.fixture
def filled(data: DataDir, store: TopologyStore) -> DataDir:
    """A queue of three streams whose batches interleave, several rows of one time among them."""
    version = store.edit(declare_queues("q"), author="t").version
    committers = {name: BatchCommitter(data, stream=name, app_id=f"{name}:1") for name in ("a", "b", "c")}
    for batch in range(4):
        for committer in committers.values():
            deliver(data, committer, batch, version, "q", at=batch, application_properties=price)
    return data


def leafed(data: DataDir, step: str, **asked: Any) -> list[RowId]:
    """Every row, page by page: forwards, or from the end of that backwards."""
    table, _ = queue_at(data, "/", "q", version=asked.pop("version", None), at=asked.pop("at", None))
    forwards: list[RowPage] = []
    after = None
    while not forwards or after is not None:
        forwards.append(page_of(table, after=after, preview=1, **asked))
        after = forwards[-1].next
        assert len(forwards) < 100, "pages that do not go on"
    if step == "forwards":
        return [row for page in forwards for row in row_ids(page.rows)]
    pages = [row_ids(forwards[-1].rows)]
    before = forwards[-1].previous
    while before is not None:
        found = page_of(table, before=before, preview=1, **asked)
        pages.append(row_ids(found.rows))
        before = found.previous
        assert len(pages) < 100, "pages that do not go back"
    return [row for page in reversed(pages) for row in page]


@pytest.mark.parametrize("step", ["forwards", "backwards"])
@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("limit", [1, 5, 36, 100])
def test_pages_together_are_the_queue(filled: DataDir, step: str, newest: bool, limit: int) -> None:
    expected = row_ids(read_queue(filled, "q"))
    assert len(expected) == 36
    assert leafed(filled, step, newest=newest, limit=limit) == (expected[::-1] if newest else expected)


@pytest.mark.parametrize("newest", [False, True])
def test_pages_of_a_filter_and_of_the_past(filled: DataDir, newest: bool) -> None:
    turn = slice(None, None, -1 if newest else 1)
    accepted = row_ids(read_queue(filled, "q", filter="price >= 10"))
    condition = consumer_filter("price >= 10")
    assert leafed(filled, "forwards", newest=newest, limit=5, condition=condition) == accepted[turn]
    read.take(filled, "q", limit=20)
    for version in (3, 7, 12):
        expected = row_ids(read_queue(filled, "q", version=version))
        assert leafed(filled, "backwards", newest=newest, limit=4, version=version) == expected[turn]
    at_batch = leafed(filled, "forwards", newest=newest, limit=4, at="b:1")
    assert {(row.stream, row.batch_id) for row in at_batch} == {
        *((name, 0) for name in "abc"),
        ("a", 1),
        ("b", 1),
    }


def test_at_a_point_a_batch_that_had_not_ended_is_not_seen(data: DataDir, store: TopologyStore) -> None:
    """Its rows stand in the table all the same, as consumers see it, and its row is found there alone."""
    version = store.edit(declare_queues("q"), author="t").version
    dying = BatchCommitter(data, stream="dies", app_id="dies:1", workers=1)
    with dying, faults.installed(at("batch.appended", crash)), pytest.raises(Crash):
        deliver(data, dying, 0, version, "q")
    with BatchCommitter(data, stream="ends", app_id="ends:1") as committer:
        deliver(data, committer, 0, version, "q")
    assert {row.stream for row in leafed(data, "forwards", limit=2)} == {"dies", "ends"}
    assert {row.stream for row in leafed(data, "backwards", limit=2, at="ends:0")} == {"ends"}
    begun = RowId("dies", 0, 0)
    assert row_ids(row_of(queue_at(data, "/", "q")[0], begun, 1).rows) == [begun]
    with pytest.raises(NotFound):
        row_of(queue_at(data, "/", "q", at="ends:0")[0], begun, 1)


def test_rows_that_go_meanwhile_make_no_page_repeat_or_pass_over_others(filled: DataDir) -> None:
    expected = row_ids(read_queue(filled, "q"))
    first = page_of(queue_at(filled, "/", "q")[0], limit=10, preview=1)
    read.take(filled, "q", limit=random.Random(3).randrange(1, 10))
    second = page_of(queue_at(filled, "/", "q")[0], limit=10, after=first.next, preview=1)
    assert row_ids(second.rows) == expected[10:20]
    assert second.held < 36


def test_only_the_beginnings_of_bodies_are_kept(data: DataDir, store: TopologyStore) -> None:
    version = store.edit(declare_queues("q"), author="t").version
    bodies = [b"x" * 10_000_000, None, b"short"]
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        deliver(data, committer, 0, version, "q", body=lambda seq: bodies[seq])
    found = page_of(queue_at(data, "/", "q")[0], limit=10, preview=100)
    assert found.body_bytes == (10_000_000, None, 5)
    assert found.rows["body"].to_pylist() == [b"x" * 100, None, b"short"]
    assert found.rows.nbytes < 100_000
    one = row_of(queue_at(data, "/", "q")[0], RowId("s", 0, 0), 20_000_000)
    assert one.rows["body"].to_pylist() == bodies[:1]


def test_a_row_is_found_by_its_identity(filled: DataDir) -> None:
    table, _ = queue_at(filled, "/", "q")
    wanted = RowId("b", 2, 1)
    assert row_ids(row_of(table, wanted, 10).rows) == [wanted]
    assert holds(table, wanted)
    for absent in (RowId("b", 2, 9), RowId("d", 2, 1)):
        assert not holds(table, absent)
        with pytest.raises(NotFound, match="it was taken"):
            row_of(table, absent, 10)


def test_what_cannot_be_read_is_refused(filled: DataDir) -> None:
    table, _ = queue_at(filled, "/", "q")
    with pytest.raises(NotFound, match="versions 0 to 12 are there"):
        queue_at(filled, "/", "q", version=13)
    with pytest.raises(InvalidInput, match="exclude each other"):
        queue_at(filled, "/", "q", version=3, at="b:1")
    with pytest.raises(InvalidInput, match="no place of a row"):
        Cursor.parse("s:1:0")
    cursor = Cursor(0, RowId("s", 0, 0))
    assert Cursor.parse(str(cursor)) == cursor
    with pytest.raises(InvalidInput, match="exclude each other"):
        page_of(table, limit=1, after=cursor, before=cursor, preview=1)
    with pytest.raises(Stopped):
        page_of(table, limit=1, preview=1, stop=lambda: True)


def test_a_version_whose_files_were_removed_is_said_to_be_gone(filled: DataDir) -> None:
    """Other engines vacuum files and keep the log: an old version that lacks one is no damage of the table."""
    read.delete_matching(filled, "q", None)
    table, _ = queue_at(filled, "/", "q", version=5)
    place(table.path, table.files[0].path).remove()
    with pytest.raises(NotFound, match="version 5 of the table cannot be read any more"):
        page_of(table, limit=100, preview=1)
