"""Schedules and sweeps in as many processes as there are cores."""

from __future__ import annotations

import logging
import multiprocessing
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.faults import schedules, sweep, worlds
from tests.faults.grounds import Ground, prepared
from tests.faults.injection import Met
from tests.faults.operations import OPERATIONS

#: Parts that the sweeps of operations with many effects are cut into.
PARTS = {"maintain": 8, "redrive": 8, "move": 4, "stream": 2, "publish": 2}
#: Schedules of one call of a process.
SHARES: Mapping[Ground, int] = {"local": 50, "s3": 10}

Call = tuple[Callable[..., None], tuple[object, ...]]


def every_effect(ground: Ground = "local") -> list[Call]:
    """The sweeps of all operations."""
    parts = [(ground, name, part, PARTS.get(name, 1)) for name in OPERATIONS for part in range(PARTS.get(name, 1))]
    return [(sweep.every, one) for one in sorted(parts, key=lambda one: -one[3])]


def every_kind_of_effect(seed: int, ground: Ground = "local") -> list[Call]:
    """The same with one effect of each kind."""
    names = sorted(OPERATIONS, key=lambda name: -PARTS.get(name, 1))
    return [(sweep.one_of_each, (ground, name, seed)) for name in names]


def random_schedules(number: int, seed: int, ground: Ground = "local") -> list[Call]:
    """So many random schedules, or a few more."""
    share = SHARES[ground]
    return [(schedules.run, (ground, share, seed + one)) for one in range(-(-number // share))]


def run(calls: Sequence[Call], ground: Ground = "local") -> tuple[Met, list[str]]:
    """What was met, and the tracebacks of what failed."""
    met = Met()
    failures = []
    context = multiprocessing.get_context("spawn")  # threads and libraries of this process stay here
    with prepared(ground), ProcessPoolExecutor(os.cpu_count(), context) as pool:
        for one, failure in pool.map(_guarded, calls):
            met.add(one)
            if failure:
                failures.append(failure)
    return met, failures


def _guarded(call: Call) -> tuple[Met, str]:
    logging.disable(logging.CRITICAL)  # every fault is a line of the program's log
    function, arguments = call
    worlds.MET.clear()
    try:
        function(*arguments)
    except Exception:
        return worlds.MET, f"{function.__module__}{arguments}\n{traceback.format_exc()}"
    return worlds.MET, ""
