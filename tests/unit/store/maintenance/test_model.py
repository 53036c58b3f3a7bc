"""Random sequences of everything that touches a queue's table, against a model of its rows."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

from deltalake import DeltaTable
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from bindery.store import data_files, faults, tables
from bindery.store.actions import Transaction
from bindery.store.checkpoints import write_checkpoint
from bindery.store.maintenance import Policy, maintain
from bindery.store.maintenance.compaction import compact
from bindery.store.maintenance.table_places import place_of
from bindery.store.paths import DataDir
from bindery.store.read import delete_matching, read_queue, row_ids, take
from tests.unit.store.conftest import Crash, queue_rows

POLICY = Policy(retention=timedelta(days=7), fan_in=3)
Rows = frozenset[tuple[int, int]]
_DAY_NS = 86_400 * 10**9


class Time:
    """The time of the test: that of the machine, put forward; files get it as their own."""

    def __init__(self) -> None:
        self.days = 0.0
        self._true = time.time_ns

    def __call__(self) -> int:
        return self._true() + int(self.days * _DAY_NS)

    def stamp(self, point: str, path: str) -> None:
        """For store.faults: whatever is made is as old as the test says."""
        if point.endswith(".after") and Path(path).is_file():
            os.utime(path, ns=(self(), self()))


class QueueModel(RuleBasedStateMachine):
    """One queue."""

    def __init__(self) -> None:
        super().__init__()
        scratch = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.root = Path(tempfile.mkdtemp(prefix="bindery-model-", dir=scratch))
        self.data = DataDir.open(self.root / "data", create=True)
        self.path = self.data.queue("/", "a")
        self.place = place_of(self.data, tables.QUEUE, self.path)
        self.time = Time()
        self.effects = ExitStack()
        self.effects.enter_context(patch("time.time_ns", self.time))
        self.effects.enter_context(faults.installed(self.time.stamp))
        self.batch = 0
        self.rows: Rows = frozenset()
        #: version -> its rows, and when another one became the newest.
        self.history: dict[int, Rows] = {}
        self.ended: dict[int, float] = {}

    @initialize()
    def create(self) -> None:
        tables.ensure_queue_table(self.data, "/", "a")
        self.seen()

    def teardown(self) -> None:
        try:
            self.every_version_within_the_retention_is_readable()
        finally:
            self.effects.close()
            shutil.rmtree(self.root, ignore_errors=True)

    def seen(self) -> None:
        """Note the versions that have come about; they hold the rows of now."""
        newest = self.place.open().version
        for version in range(max(self.history, default=-1) + 1, newest + 1):
            self.ended[version - 1] = self.time.days
            self.history[version] = self.rows

    # -- what happens to a queue ------------------------------------------------------------------

    @rule(rows=st.integers(1, 4))
    def append(self, rows: int) -> None:
        log = self.place.open()
        added = data_files.write_file(self.path, queue_rows(self.batch, range(rows), version=1))
        log.commit([added], transactions=[Transaction("s:1", self.batch)])
        self.rows |= {(self.batch, seq) for seq in range(rows)}
        self.batch += 1
        self.seen()

    @rule(number=st.integers(1, 5), requeue=st.booleans())
    def get(self, number: int, requeue: bool) -> None:
        taken = take(self.data, "a", limit=number, requeue=requeue)
        if not requeue:
            self.rows -= {(row.batch_id, row.seq) for row in row_ids(taken.rows)}
        self.seen()

    @rule()
    def purge(self) -> None:
        delete_matching(self.data, "a", None)
        self.rows = frozenset()
        self.seen()

    @rule(days=st.sampled_from([0.01, 0.5, 1.5, 4.0, 8.0]))
    def wait(self, days: float) -> None:
        self.time.days += days

    # -- maintenance -------------------------------------------------------------------------------

    @rule()
    def merge(self) -> None:
        compact(self.place, self.place.open(), POLICY)
        self.seen()

    @rule()
    def checkpoint(self) -> None:
        assert write_checkpoint(self.path)

    @rule(left=st.one_of(st.none(), st.integers(0, 12)), orphan=st.booleans())
    def pass_over_everything(self, left: int | None, orphan: bool) -> None:
        if orphan:
            data_files.write_file(self.path, queue_rows(10**6, range(3), version=1))
        effects = itertools.count()

        def hook(point: str, path: str) -> None:
            if point.endswith(".before") and next(effects) == left:
                raise Crash(point)
            self.time.stamp(point, path)

        with faults.installed(hook), suppress(Crash):
            found = maintain(self.data, POLICY, clock=lambda: self.time() // 10**6)
            assert found.failed == []
        self.seen()
        self.every_version_within_the_retention_is_readable()

    # -- what must hold ----------------------------------------------------------------------------

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        if not self.history:
            return
        found = [(row.batch_id, row.seq) for row in row_ids(read_queue(self.data, "a"))]
        assert len(found) == len(set(found))
        assert set(found) == self.rows
        assert tables.count_rows(self.data, "/", "a") == len(self.rows)
        assert self.place.open().transaction_version("s:1") == (self.batch - 1 if self.batch else None)
        assert len(DeltaTable(self.path).to_pyarrow_table(columns=["exchange"])) == len(self.rows)

    def every_version_within_the_retention_is_readable(self) -> None:
        for version, rows in self.history.items():
            if self.ended.get(version, self.time.days) > self.time.days - 7:
                routing = DeltaTable(self.path, version=version).to_pyarrow_table(columns=["routing"])
                assert {(row.batch_id, row.seq) for row in row_ids(routing)} == rows


def test_model() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        QueueModel,
        settings=settings(
            max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
