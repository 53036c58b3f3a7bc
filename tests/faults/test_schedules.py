"""Random schedules of operations, each under a fault or none."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.faults.injection import Injection, Met, injections
from tests.faults.world import QUEUES, World

#: Schedules of the default run; `make faults` asks for more.
SCHEDULES = int(os.environ.get("BINDERY_FAULT_SCHEDULES", "2000"))
MET = Met()
NAMES = st.sampled_from(QUEUES)


def _scratch() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@functools.cache
def _first() -> World:
    root = Path(tempfile.mkdtemp(prefix="bindery-faults-", dir=_scratch()))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return World(root, MET)


class Schedule(RuleBasedStateMachine):
    """One schedule on one data directory; the numbers are effects that the operation usually has.

    What is drawn does not depend on what is found: threads may meet the faults in another order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="bindery-faults-", dir=_scratch()))
        self.world = _first().copy(self.root)
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

    @rule(fault=injections(4), name=NAMES)
    def delete(self, fault: Injection | None, name: str) -> None:
        self.world.delete(name, fault)

    @rule(fault=injections(3), name=NAMES, limit=st.integers(1, 4), requeue=st.booleans())
    def take(self, fault: Injection | None, name: str, limit: int, requeue: bool) -> None:
        self.world.take(name, limit, requeue, fault)

    @rule(fault=injections(3), name=NAMES, purge=st.booleans())
    def remove(self, fault: Injection | None, name: str, purge: bool) -> None:
        self.world.remove(name, purge, fault)

    @rule(fault=injections(4), name=NAMES)
    def change_user(self, fault: Injection | None, name: str) -> None:
        self.world.change_user(name, fault)

    @rule(fault=injections(3), name=NAMES)
    def save_job(self, fault: Injection | None, name: str) -> None:
        self.world.save_job(name, fault)

    @rule(fault=injections(30))
    def maintain(self, fault: Injection | None) -> None:
        self.world.maintain(fault)

    @rule(fault=injections(1), number=st.integers(0, 6))
    def checkpoint(self, fault: Injection | None, number: int) -> None:
        self.world.checkpoint(number, fault)

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        self.world.check()


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
