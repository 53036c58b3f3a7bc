"""Every fault at every effect of every operation; and random schedules of operations, each under a fault or none."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.faults.injection import KINDS, Injection, Kind, Met, injections
from tests.faults.world import QUEUES, World

#: Schedules of the default run; `make faults` asks for more.
SCHEDULES = int(os.environ.get("BINDERY_FAULT_SCHEDULES", "2000"))
MET = Met()
NAMES = st.sampled_from(QUEUES)
#: What other processes may do in the middle of an operation.
RIVALS = {
    "route": ("takeover", "publish", "redrive", "maintain", "edit"),
    "publish": ("route", "redrive", "maintain", "edit"),
    "redrive": ("redrive", "publish", "maintain", "edit"),
    "append": ("append", "maintain"),
    "change queues": ("edit", "maintain"),
    "change rows": ("edit", "maintain"),
    "maintain": ("route", "publish", "redrive", "append", "edit", "maintain"),
}


def _scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="bindery-faults-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))


@functools.cache
def _first() -> World:
    """A queue with messages, and an unroutable one."""
    root = _scratch()
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return World(root, MET)


@functools.cache
def _full() -> World:
    """Something for every operation to work on."""
    root = _scratch()
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    world = _first().copy(root)
    world.declare("b", None)
    for _ in range(3):
        world.route(None)
        world.publish(None)
    world.append(None)
    world.change_user("b", None)
    world.save_job("b", None)
    world.restart()
    return world


@contextmanager
def _copy(world: World) -> Iterator[World]:
    root = _scratch()
    MET.schedules += 1
    copy = world.copy(root)
    try:
        yield copy
    finally:
        copy.restart()
        shutil.rmtree(root, ignore_errors=True)


OPERATIONS: dict[str, tuple[Callable[[World, Injection | None], None], tuple[str, ...]]] = {
    "stream": (lambda world, fault: world.route(fault), RIVALS["route"]),
    "publish": (lambda world, fault: world.publish(fault), RIVALS["publish"]),
    "redrive": (lambda world, fault: world.redrive(fault), RIVALS["redrive"]),
    "inbox": (lambda world, fault: world.append(fault), RIVALS["append"]),
    "declare": (lambda world, fault: world.declare("c", fault), RIVALS["change queues"]),
    "import": (lambda world, fault: world.import_all(fault), RIVALS["change queues"]),
    "delete": (lambda world, fault: world.delete("a", fault), RIVALS["change queues"]),
    "get": (lambda world, fault: world.take("a", 4, requeue=False, injection=fault), RIVALS["change rows"]),
    "requeue": (lambda world, fault: world.take("a", 4, requeue=True, injection=fault), RIVALS["change rows"]),
    "purge": (lambda world, fault: world.remove("a", purge=True, injection=fault), RIVALS["change rows"]),
    "delete rows": (lambda world, fault: world.remove("a", purge=False, injection=fault), RIVALS["change rows"]),
    "access": (lambda world, fault: world.change_user("b", fault), ()),
    "jobs": (lambda world, fault: world.save_job("b", fault), ()),
    "maintain": (lambda world, fault: world.maintain(fault), RIVALS["maintain"]),
    "checkpoint": (lambda world, fault: world.checkpoint(0, fault), ()),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_fault_at_any_effect_loses_or_doubles_anything(name: str) -> None:
    operation, rivals = OPERATIONS[name]
    with _copy(_full()) as world:
        look = Injection("died before", sys.maxsize)
        operation(world, look)
        world.finish()
    faults: list[tuple[Kind, str]] = [(kind, "") for kind in KINDS if kind != "rival"]
    faults += [("rival", rival) for rival in rivals]
    hit = 0
    for number, (kind, rival) in itertools.product(range(look.reached), faults):
        fault = Injection(kind, number, rival)
        with _copy(_full()) as world:
            operation(world, fault)
            world.check()
            world.finish()
        hit += fault.hit is not None
    # some effects need no room, and threads may do one less
    assert hit >= look.reached * (len(faults) - 1) * 0.9


class Schedule(RuleBasedStateMachine):
    """One schedule on one data directory; the numbers are effects that the operation usually has.

    What is drawn does not depend on what is found: threads may meet the faults in another order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.root = _scratch()
        self.world = _first().copy(self.root)
        MET.schedules += 1

    def teardown(self) -> None:
        try:
            self.world.finish()
        finally:
            self.world.restart()
            shutil.rmtree(self.root, ignore_errors=True)

    @rule(fault=injections(16, *RIVALS["route"]))
    def route(self, fault: Injection | None) -> None:
        self.world.route(fault)

    @rule(fault=injections(14, *RIVALS["publish"]))
    def publish(self, fault: Injection | None) -> None:
        self.world.publish(fault)

    @rule(fault=injections(20, *RIVALS["redrive"]))
    def redrive(self, fault: Injection | None) -> None:
        self.world.redrive(fault)

    @rule(fault=injections(4, *RIVALS["append"]))
    def append(self, fault: Injection | None) -> None:
        self.world.append(fault)

    @rule(fault=injections(6, *RIVALS["change queues"]), name=NAMES)
    def declare(self, fault: Injection | None, name: str) -> None:
        self.world.declare(name, fault)

    @rule(fault=injections(12, *RIVALS["change queues"]))
    def import_all(self, fault: Injection | None) -> None:
        self.world.import_all(fault)

    @rule(fault=injections(4, *RIVALS["change queues"]), name=NAMES)
    def delete(self, fault: Injection | None, name: str) -> None:
        self.world.delete(name, fault)

    @rule(fault=injections(3, *RIVALS["change rows"]), name=NAMES, limit=st.integers(1, 4), requeue=st.booleans())
    def take(self, fault: Injection | None, name: str, limit: int, requeue: bool) -> None:
        self.world.take(name, limit, requeue, fault)

    @rule(fault=injections(3, *RIVALS["change rows"]), name=NAMES, purge=st.booleans())
    def remove(self, fault: Injection | None, name: str, purge: bool) -> None:
        self.world.remove(name, purge, fault)

    @rule(fault=injections(4), name=NAMES)
    def change_user(self, fault: Injection | None, name: str) -> None:
        self.world.change_user(name, fault)

    @rule(fault=injections(3), name=NAMES)
    def save_job(self, fault: Injection | None, name: str) -> None:
        self.world.save_job(name, fault)

    @rule(fault=injections(30, *RIVALS["maintain"]))
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
