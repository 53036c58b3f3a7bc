"""Every fault at every effect of one operation."""

from __future__ import annotations

import sys

from tests.faults.grounds import Ground
from tests.faults.injection import KINDS, Injection
from tests.faults.operations import OPERATIONS
from tests.faults.worlds import copied, full


def sweep(ground: Ground, name: str, part: int = 0, parts: int = 1) -> None:
    """Put each kind of fault, and one rival, at every effect of an operation, or at each n-th of them.

    Raises AssertionError when something is lost, doubled or half done, or when a fault was not met.
    """
    operation, rivals = OPERATIONS[name]
    with copied(full(ground), ground) as world:
        look = Injection("died before", sys.maxsize)
        operation(world, look)
        world.finish()
    for number in range(part, look.reached, parts):
        faults = [Injection(kind, number) for kind in KINDS[ground] if kind != "rival"]
        if rivals:
            faults.append(Injection("rival", number, rivals[number % len(rivals)]))
        for fault in faults:
            with copied(full(ground), ground) as world:
                operation(world, fault)
                world.check()
                world.finish()
            # some effects need no room, most have no halves; threads may come to one effect less
            assert fault.hit or fault.kind in ("full", "half") or fault.reached < number + 2, (
                f"{name}: no effect {number}"
            )
