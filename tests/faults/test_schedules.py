"""Random schedules of operations, each under a fault or none."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.faults.injection import Injection, Met, injections
from tests.faults.world import QUEUES, World

#: Schedules of the default run; `make faults` asks for more.
SCHEDULES = int(os.environ.get("BINDERY_FAULT_SCHEDULES", "2000"))
MET = Met()
NAMES = st.sampled_from(QUEUES)


def _scratch() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


class Schedule(RuleBasedStateMachine):
    """One schedule on one data directory; the numbers are effects that the operation usually has."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="bindery-faults-", dir=_scratch()))
        self.world = World(self.root, MET)
        MET.schedules += 1

    def teardown(self) -> None:
        try:
            self.world.finish()
        finally:
            self.world.restart()
            shutil.rmtree(self.root, ignore_errors=True)

    @rule(fault=injections(16))
    def route(self, fault: Injection | None) -> None:
        self.world.route(fault)

    @rule(fault=injections(14))
    def publish(self, fault: Injection | None) -> None:
        self.world.publish(fault)

    @rule(fault=injections(20))
    def redrive(self, fault: Injection | None) -> None:
        self.world.redrive(fault)

    @rule(fault=injections(4))
    def append(self, fault: Injection | None) -> None:
        self.world.append(fault)

    @rule(fault=injections(6), name=NAMES)
    def declare(self, fault: Injection | None, name: str) -> None:
        self.world.declare(name, fault)

    @rule(fault=injections(12))
    def import_all(self, fault: Injection | None) -> None:
        self.world.import_all(fault)

    @precondition(lambda self: self.world.incarnations)
    @rule(fault=injections(4), data=st.data())
    def delete(self, fault: Injection | None, data: st.DataObject) -> None:
        self.world.delete(self._known(data), fault)

    @precondition(lambda self: self.world.incarnations)
    @rule(fault=injections(3), data=st.data(), limit=st.integers(1, 4), requeue=st.booleans())
    def take(self, fault: Injection | None, data: st.DataObject, limit: int, requeue: bool) -> None:
        self.world.take(self._known(data), limit, requeue, fault)

    @precondition(lambda self: self.world.incarnations)
    @rule(fault=injections(3), data=st.data(), purge=st.booleans())
    def remove(self, fault: Injection | None, data: st.DataObject, purge: bool) -> None:
        self.world.remove(self._known(data), purge, fault)

    @rule(fault=injections(4), name=NAMES)
    def change_user(self, fault: Injection | None, name: str) -> None:
        self.world.change_user(name, fault)

    @rule(fault=injections(3), name=NAMES)
    def save_job(self, fault: Injection | None, name: str) -> None:
        self.world.save_job(name, fault)

    @rule(fault=injections(30))
    def maintain(self, fault: Injection | None) -> None:
        self.world.maintain(fault)

    @rule(fault=injections(2))
    def checkpoint(self, fault: Injection | None) -> None:
        self.world.checkpoint(fault)

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        self.world.check()

    def _known(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.world.incarnations)))


def test_no_schedule_loses_or_doubles_anything() -> None:
    run_state_machine_as_test(
        Schedule,
        settings=settings(
            max_examples=SCHEDULES,
            stateful_step_count=6,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
