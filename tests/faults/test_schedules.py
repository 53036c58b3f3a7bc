"""Faults at the effects of every operation; and random schedules of both.

The default run chooses by one seed, so that what it finds is in what was changed; the night tries every effect, and
other schedules each time.
"""

from __future__ import annotations

import random

import pytest

from tests.faults.grounds import Ground
from tests.faults.injection import KINDS
from tests.faults.operations import OPERATIONS
from tests.faults.parallel import every_effect, every_kind_of_effect, random_schedules, run

SEED = 1
#: Random schedules of the default run, and of the night; `make faults` plays as many as one likes.
SCHEDULES = {"local": 100, "s3": 20}
NIGHTLY = {"local": 2_000, "s3": 500}


def at_night(ground: Ground, number: int | None) -> object:
    return pytest.param(ground, number, marks=pytest.mark.nightly)


@pytest.mark.parametrize(("ground", "seed"), [("local", SEED), at_night("local", None), at_night("s3", None)])
def test_no_fault_at_any_effect_loses_or_doubles_anything(ground: Ground, seed: int | None) -> None:
    calls = every_effect(ground) if seed is None else every_kind_of_effect(seed, ground)
    met, failures = run(calls, ground)
    assert not failures, failures[0]
    assert met.operations.keys() >= OPERATIONS.keys()
    for name in OPERATIONS:
        assert {kind for operation, _, _, kind in met.faults if operation == name} >= {*KINDS["local"][:3]}, name
    assert {kind for *_, kind in met.faults} == {*KINDS[ground]}


@pytest.mark.parametrize(("ground", "number"), [*SCHEDULES.items(), *(at_night(*one) for one in NIGHTLY.items())])
def test_no_schedule_loses_or_doubles_anything(ground: Ground, number: int) -> None:
    seed = SEED if number == SCHEDULES[ground] else random.randrange(1 << 31)
    met, failures = run(random_schedules(number, seed, ground), ground)
    assert not failures, failures[0]
    assert met.schedules >= number
    assert met.flushed
    assert met.batches.keys() == {"no queue", "some queues", "every queue"}
