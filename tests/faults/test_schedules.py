"""Every fault at every effect of every operation; and random schedules of operations and faults."""

from __future__ import annotations

import random

import pytest

from tests.faults.grounds import Ground
from tests.faults.injection import KINDS
from tests.faults.operations import OPERATIONS
from tests.faults.parallel import every_effect, random_schedules, run

#: Random schedules of the default run, and of the night; `make faults` plays as many as one likes.
SCHEDULES = {"local": 500, "s3": 25}
NIGHTLY = {"local": 2_000, "s3": 500}


@pytest.mark.parametrize("ground", ["local", pytest.param("s3", marks=pytest.mark.nightly)])
def test_no_fault_at_any_effect_loses_or_doubles_anything(ground: Ground) -> None:
    met, failures = run(every_effect(ground), ground)
    assert not failures, failures[0]
    assert met.operations.keys() >= OPERATIONS.keys()
    for name in OPERATIONS:
        assert {kind for operation, _, _, kind in met.faults if operation == name} >= {*KINDS["local"][:3]}, name
    assert {kind for *_, kind in met.faults} == {*KINDS[ground]}


@pytest.mark.parametrize(
    ("ground", "number"),
    [*SCHEDULES.items(), *(pytest.param(*one, marks=pytest.mark.nightly) for one in NIGHTLY.items())],
)
def test_no_schedule_loses_or_doubles_anything(ground: Ground, number: int) -> None:
    met, failures = run(random_schedules(number, random.randrange(1 << 31), ground), ground)
    assert not failures, failures[0]
    assert met.schedules >= number
