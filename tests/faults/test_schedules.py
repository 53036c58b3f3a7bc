"""Every fault at every effect of every operation; and random schedules of operations and faults."""

from __future__ import annotations

import os
import random

from tests.faults.injection import KINDS
from tests.faults.operations import OPERATIONS
from tests.faults.parallel import every_effect, random_schedules, run

#: Random schedules of the default run; `make faults` asks for more.
SCHEDULES = int(os.environ.get("BINDERY_FAULT_SCHEDULES", "2000"))


def test_no_fault_at_any_effect_loses_or_doubles_anything() -> None:
    met, failures = run(every_effect())
    assert not failures, failures[0]
    assert met.operations.keys() >= OPERATIONS.keys()
    for name in OPERATIONS:
        assert {kind for operation, _, _, kind in met.faults if operation == name} >= {*KINDS[:3]}, name


def test_no_schedule_loses_or_doubles_anything() -> None:
    met, failures = run(random_schedules(SCHEDULES, random.randrange(1 << 31)))
    assert not failures, failures[0]
    assert met.schedules >= SCHEDULES
