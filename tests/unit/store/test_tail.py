"""The tail of a journal that a flush reads: in memory or in temporary files, whole or in parts."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.errors import StorageFailed
from bindery.router.message import JOURNAL_SCHEMA, QUEUE_SCHEMA, Message
from bindery.router.model import Queue
from bindery.router.values import Table
from bindery.store import file_rows
from bindery.store.deferred.tail import Bounds, Tail, stretches
from bindery.store.journal_files import Journal, as_queue_rows
from bindery.store.maintenance import maintain
from bindery.store.maintenance.journals import Kept, keep_journal
from bindery.store.maintenance.policy import Policy
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.examples import FACTOR
from tests.unit.store.routed import route

NAMES = ("a", "b", "c", "d")


def declared(data: DataDir) -> TopologyStore:
    store = TopologyStore(data)
    store.create()
    arguments = Table({"x-freshness": 60})
    store.edit(
        lambda editor: [editor.declare_queue(Queue("/", name, arguments=arguments)) for name in NAMES], author="t"
    )
    return store


def journal_of(data: DataDir) -> Journal:
    return Journal.open(data.journal("flights"))


def number(row: dict[str, Any]) -> tuple[int, int]:
    return row["routing"]["batch_id"], row["routing"]["seq"]


def of_tail(tail: Tail, queue_id: int, *, after: int = -1, undeclared: int = -1) -> list[list[dict[str, Any]]]:
    """The rows of each file."""
    found = []
    for rows, _ in tail.rows(queue_id, after=after, undeclared=undeclared):
        columns = [rows[name] if name in rows.column_names else pa.nulls(len(rows)) for name in QUEUE_SCHEMA.names]
        found.append(pa.table(columns, names=QUEUE_SCHEMA.names).cast(QUEUE_SCHEMA).to_pylist())
    return found


def slow(journal: Journal, queue_id: int, after: int) -> list[dict[str, Any]]:
    """Row by row: those that name the queue."""
    found = []
    for file in journal.waiting():
        rows = file_rows.read(journal.log.path, file.path, JOURNAL_SCHEMA)
        for row, kept in zip(rows.to_pylist(), as_queue_rows(rows).to_pylist(), strict=True):
            if queue_id in (row["routing"]["deferred"] or ()) and row["routing"]["batch_id"] > after:
                found.append(kept)
    return sorted(found, key=number)


SIZES = st.sampled_from([1, 200, 1_000, 1 << 30])


@settings(max_examples=max(1, round(25 * FACTOR)), deadline=None)
@given(
    batches=st.lists(
        st.tuples(st.lists(st.sets(st.sampled_from(NAMES)), max_size=6), st.booleans()), min_size=1, max_size=5
    ),
    fan_in=st.sampled_from([0, 2, 3]),
    only=st.none() | st.sets(st.sampled_from(NAMES)),
    bounds=st.just(Bounds()) | st.builds(Bounds, stretch=SIZES, memory=SIZES, part=SIZES, file=SIZES),
    after=st.integers(-1, 2),
    random=st.randoms(use_true_random=False),
)
def test_a_queue_gets_the_rows_that_name_it_in_their_order(
    batches: list[tuple[list[set[str]], bool]],
    fan_in: int,
    only: set[str] | None,
    bounds: Bounds,
    after: int,
    random: Random,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = DataDir.open(folder, create=True)
        store = declared(data)
        keep_journal(data, "flights", "/", Kept())  # as a job does: batches without messages write no file
        ids = {name: store.load().queue("/", name).id for name in NAMES}
        for batch_id, (keys, repeats) in enumerate(batches):
            # strings that repeat become dictionaries
            messages = [
                Message(
                    "", "nowhere", cc=tuple(sorted(some)), body=b"x" * n, application_properties=Table({"key": "v" * n})
                )
                for n, some in enumerate(keys * (9 if repeats else 1))
            ]
            route(data, store, messages, batch_id=batch_id, journal=True)
        if fan_in:
            maintain(data, Policy(fan_in=fan_in, retention=timedelta(0), shortest=timedelta(0)))
        journal = journal_of(data)
        wanted = None if only is None else {ids[name] for name in only}
        found: dict[int, list[dict[str, Any]]] = {queue_id: [] for queue_id in ids.values()}
        last = -1
        for files in stretches(journal.waiting(), bounds.stretch):
            random.shuffle(files)  # as those of several tasks are
            with Tail(journal, files, wanted, bounds) as tail:
                assert last < tail.through == max(file.last for file in files)
                last = tail.through
                assert wanted is None or wanted >= set(tail.ids)
                for queue_id in tail.ids:
                    for rows in of_tail(tail, queue_id, after=after):
                        assert (len(rows) == 1) if bounds.file == 1 else rows
                        assert rows == sorted(rows, key=number)
                        found[queue_id] += rows
        for queue_id, rows in found.items():
            expected = slow(journal, queue_id, after) if wanted is None or queue_id in wanted else []
            assert sorted(rows, key=number) == expected
        assert not list(Path(tempfile.gettempdir()).glob("bindery-flush-*"))


def test_what_does_not_fit_where_temporary_files_go_is_an_error_that_says_so(
    data: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = declared(data)
    route(data, store, [Message("", "a")] * 3)
    journal = journal_of(data)
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    with pytest.raises(StorageFailed, match="cannot lay down what waits") as failed:
        Tail(journal, journal.waiting(), None, Bounds(memory=1))
    assert failed.value.where == "/proc/nowhere"
