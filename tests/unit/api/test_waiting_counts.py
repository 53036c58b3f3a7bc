"""Counts of deferred queues: what waits is counted with the table, however long ago that was looked at."""

from __future__ import annotations

import time

from bindery.api.counts import Counts
from bindery.router.message import Message
from bindery.store import deferred
from bindery.store.deferred.flushing import record_materialised
from bindery.store.journal_files import Journal
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.store.routed import route
from tests.unit.store.test_deferred import declare


def test_no_count_falls_when_copies_come_into_tables(data: DataDir) -> None:
    """Neither while what was looked at is trusted nor when the journal says that nothing waits any more."""
    store = TopologyStore(data)
    names = [f"q{number}" for number in range(20)]
    declare(store, **dict.fromkeys(names, 60))
    counts = Counts(data, store.load, clock=lambda: 0.0)
    keys = [("/", name) for name in names]

    def held() -> set[tuple[int, int]]:
        found = counts.of_many(keys)
        assert counts.of("/", "q3") == found[3]
        assert counts.messages_in(store.load()).total() == sum(one.messages for one in found)
        return {(one.messages, one.waiting) for one in found}

    route(data, store, [Message("", names[0], cc=tuple(names[1:]))] * 2)
    time.sleep(0.15)  # from then on what was looked at is trusted
    assert held() == {(2, 2)}
    journal = Journal.open(data.journal("flights"))
    through = deferred.materialise(data, store, journal).through
    assert {one.messages for one in counts.of_many(keys)} == {2}
    record_materialised(journal, through)
    assert held() == {(2, 0)}
    route(data, store, [Message("", names[0], cc=tuple(names[1:]))], batch_id=1)
    assert held() == {(3, 1)}
