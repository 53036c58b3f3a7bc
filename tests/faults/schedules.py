"""Random schedules of operations, each under a fault or none."""

from __future__ import annotations

from contextlib import ExitStack

from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.faults import grounds
from tests.faults.grounds import Ground
from tests.faults.injection import Injection, injections
from tests.faults.operations import RIVALS
from tests.faults.world import QUEUES
from tests.faults.worlds import copied, first

NAMES = st.sampled_from(QUEUES)


def machine(ground: Ground) -> type[RuleBasedStateMachine]:
    """Schedules in worlds of that ground."""

    class Schedule(RuleBasedStateMachine):
        """One schedule on one data directory; the numbers are effects that the operation usually has.

        What is drawn does not depend on what is found: threads may meet the faults in another order.
        """

        def __init__(self) -> None:
            super().__init__()
            self.end = ExitStack()
            self.world = self.end.enter_context(copied(first(ground), ground))

        def teardown(self) -> None:
            with self.end:
                self.world.finish()

        @rule(fault=injections(ground, 16, *RIVALS["route"]))
        def route(self, fault: Injection | None) -> None:
            self.world.route(fault)

        @rule(fault=injections(ground, 8, *RIVALS["flush"]))
        def flush(self, fault: Injection | None) -> None:
            self.world.flush(fault)

        @initialize(names=st.frozensets(NAMES), another=st.booleans())
        def begin(self, names: frozenset[str], another: bool) -> None:
            self.world.defer(names)
            if another:
                self.world.declare("b", None)

        @rule(names=st.frozensets(NAMES))
        def defer(self, names: frozenset[str]) -> None:
            self.world.defer(names)

        @rule(fault=injections(ground, 14, *RIVALS["publish"]))
        def publish(self, fault: Injection | None) -> None:
            self.world.publish(fault)

        @rule(fault=injections(ground, 20, *RIVALS["redrive"]))
        def redrive(self, fault: Injection | None) -> None:
            self.world.redrive(fault)

        @rule(fault=injections(ground, 12, *RIVALS["backfill"]), name=NAMES)
        def backfill(self, fault: Injection | None, name: str) -> None:
            self.world.backfill(name, fault)

        @rule(fault=injections(ground, 4, *RIVALS["append"]))
        def append(self, fault: Injection | None) -> None:
            self.world.append(fault)

        @rule(fault=injections(ground, 6, *RIVALS["change queues"]), name=NAMES)
        def declare(self, fault: Injection | None, name: str) -> None:
            self.world.declare(name, fault)

        @rule(fault=injections(ground, 12, *RIVALS["change queues"]))
        def import_all(self, fault: Injection | None) -> None:
            self.world.import_all(fault)

        @rule(fault=injections(ground, 4, *RIVALS["change queues"]), name=NAMES)
        def delete(self, fault: Injection | None, name: str) -> None:
            self.world.delete(name, fault)

        @rule(
            fault=injections(ground, 3, *RIVALS["change rows"]),
            name=NAMES,
            limit=st.integers(1, 4),
            requeue=st.booleans(),
        )
        def take(self, fault: Injection | None, name: str, limit: int, requeue: bool) -> None:
            self.world.take(name, limit, requeue, fault)

        @rule(fault=injections(ground, 3, *RIVALS["change rows"]), name=NAMES, purge=st.booleans())
        def remove(self, fault: Injection | None, name: str, purge: bool) -> None:
            self.world.remove(name, purge, fault)

        @rule(
            fault=injections(ground, 24, *RIVALS["move"]),
            name=NAMES,
            limit=st.integers(1, 4),
            through_exchange=st.booleans(),
        )
        def move(self, fault: Injection | None, name: str, limit: int, through_exchange: bool) -> None:
            self.world.move(name, limit, through_exchange, fault)

        @rule(
            fault=injections(ground, 24, *RIVALS["move"]),
            name=NAMES,
            most=st.integers(0, 4),
            dead_letters=st.booleans(),
        )
        def limit(self, fault: Injection | None, name: str, most: int, dead_letters: bool) -> None:
            self.world.limit(name, most, dead_letters, fault)

        @rule(fault=injections(ground, 4), name=NAMES)
        def change_user(self, fault: Injection | None, name: str) -> None:
            self.world.change_user(name, fault)

        @rule(fault=injections(ground, 3), name=NAMES)
        def save_job(self, fault: Injection | None, name: str) -> None:
            self.world.save_job(name, fault)

        @rule(fault=injections(ground, 3), name=NAMES)
        def forget_job(self, fault: Injection | None, name: str) -> None:
            self.world.forget_job(name, fault)

        @rule(fault=injections(ground, 30, *RIVALS["maintain"]))
        def maintain(self, fault: Injection | None) -> None:
            self.world.maintain(fault)

        @rule(fault=injections(ground, 1), number=st.integers(0, 6))
        def checkpoint(self, fault: Injection | None, number: int) -> None:
            self.world.checkpoint(number, fault)

        @rule()
        def restart(self) -> None:
            self.world.restart()
            grounds.forget_stores()

        @invariant()
        def nothing_is_lost_or_doubled(self) -> None:
            self.world.check()

    return Schedule


def run(ground: Ground, schedules: int, number: int) -> None:
    """So many schedules, which `number` determines; raises what hypothesis does of the smallest that fails."""
    run_state_machine_as_test(
        seed(number)(machine(ground)),
        settings=settings(
            max_examples=schedules, stateful_step_count=6, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
