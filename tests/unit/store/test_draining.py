"""What drains append: once per offset, by the newest claim alone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.errors import Fenced
from bindery.router.message import MESSAGE_SCHEMA, UNROUTABLE_SCHEMA, Message, to_batch
from bindery.store import tables
from bindery.store.draining import DrainLog, Rows
from bindery.store.paths import DataDir
from bindery.store.places import at as file_at
from tests.examples import examples


def rows(*keys: int | str, numbered: bool = True) -> Rows:
    batch = to_batch([Message(routing_key=str(key)) for key in keys])
    table = pa.Table.from_batches([batch]).select(MESSAGE_SCHEMA.names)
    return Rows(table, [int(key) for key in keys] if numbered else None)


def keys(data: DataDir, vhost: str = "/") -> list[str]:
    found: list[str] = DeltaTable(data.inbox(vhost)).to_pyarrow_table()["routing_key"].to_pylist()
    return sorted(found)


def test_a_stream_is_appended_once_per_offset(data: DataDir) -> None:
    log = DrainLog(data, "/", "drain:a:s")
    assert log.position is None
    log.append(rows(1, 2, 4), upto=5)
    log.append(rows(1, 2, 4), upto=5)
    log.append(rows(4, 6), upto=6)
    assert (log.position, keys(data)) == (6, ["1", "2", "4", "6"])
    assert DrainLog(data, "/", "drain:a:s").position == 6
    assert DrainLog(data, "/", "drain:b:s").position is None


def test_an_offset_without_a_row_is_recorded(data: DataDir) -> None:
    log = DrainLog(data, "/", "drain:a:s")
    log.append(Rows(MESSAGE_SCHEMA.empty_table(), ()), upto=-1)
    assert (log.position, keys(data)) == (-1, [])


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 5), st.booleans()), max_size=8))
@examples(30)
def test_whatever_is_delivered_again_each_offset_is_there_once(
    tmp_path_factory: pytest.TempPathFactory, portions: list[tuple[int, int, bool]]
) -> None:
    data = DataDir.open(tmp_path_factory.mktemp("data"), create=True)
    log, reached = DrainLog(data, "/", "drain:a:s"), -1
    for back, count, restart in portions:
        log = DrainLog(data, "/", "drain:a:s") if restart else log
        first = max(0, reached + 1 - back)
        log.append(rows(*range(first, first + count)), upto=first + count - 1)
        reached = max(reached, first + count - 1)
    assert keys(data) == sorted(map(str, range(reached + 1)))


def test_the_newest_claim_owns(data: DataDir) -> None:
    old = DrainLog(data, "/", "drain:a:s")
    new = DrainLog(data, "/", "drain:a:s")
    other = DrainLog(data, "/", "drain:b:s")
    with pytest.raises(Fenced, match="another drain of this name"):
        old.append(rows(1), upto=1)
    with pytest.raises(Fenced):
        old.append_refused(Rows(UNROUTABLE_SCHEMA.empty_table(), ()), upto=1)
    new.append(rows(1), upto=1)
    other.append(rows(1), upto=1)
    assert keys(data) == ["1", "1"]
    assert new.claim == old.claim + 1


def test_what_an_older_drain_committed_meanwhile_is_left_out(data: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its look at the claim was before the new one; its commit is between the new one's look and commit."""
    old = DrainLog(data, "/", "drain:a:s")
    monkeypatch.setattr(old._claim, "holds", lambda: True)
    new = DrainLog(data, "/", "drain:a:s")
    recorded, looks = new._recorded, []

    def look(log: object) -> int | None:
        looks.append(log)
        if len(looks) == 2:
            old.append(rows(1, 2), upto=2)
        return recorded(log)  # type: ignore[arg-type]

    monkeypatch.setattr(new, "_recorded", look)
    new.append(rows(1, 2, 3), upto=3)
    assert (keys(data), new.position) == (["1", "2", "3"], 3)
    files = DeltaTable(data.inbox("/")).file_uris()
    assert len(files) == 2


def test_the_rows_of_a_queues_last_commit_are_found_again(data: DataDir) -> None:
    log = DrainLog(data, "/", "drain:a:q")
    assert log.last_rows() is None
    log.append(rows("a", "b", numbered=False))
    log.append(rows("c", numbered=False))
    DrainLog(data, "/", "drain:other:q").append(rows("d", numbered=False))
    found = DrainLog(data, "/", "drain:a:q").last_rows()
    assert found is not None
    assert found["routing_key"].to_pylist() == ["c"]
    assert keys(data) == ["a", "b", "c", "d"]


def test_rows_that_are_gone_are_nothing_to_compare_with(data: DataDir) -> None:
    log = DrainLog(data, "/", "drain:a:q")
    log.append(rows("a", numbered=False))
    (file,) = tables.files_of(tables.open_log(data.inbox("/"), tables.INBOX, files=True))
    file_at(data.inbox("/"), file).remove()
    assert DrainLog(data, "/", "drain:a:q").last_rows() is None


def test_refused_messages_go_to_the_unroutable_table_once(data: DataDir) -> None:
    log = DrainLog(data, "/", "drain:a:s")
    refused = pa.Table.from_pylist(
        [{"reason": "invalid_record", "detail": str(n)} for n in (1, 3)], schema=UNROUTABLE_SCHEMA
    )
    log.append_refused(Rows(refused, [1, 3]), upto=3)
    log.append_refused(Rows(refused, [1, 3]), upto=3)
    log.append_refused(Rows(refused, [3, 4]), upto=4)
    found = DeltaTable(data.unroutable("/")).to_pyarrow_table()
    assert found["detail"].to_pylist() in (["1", "3", "3"], ["3", "1", "3"])
    assert log.position is None  # of the inbox
