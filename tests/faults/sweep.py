"""Every fault at every effect of one operation, or at one effect of each kind.

Both raise AssertionError when something is lost, doubled or half done, or when a fault was not met.
"""

from __future__ import annotations

import random
import sys

from tests.faults.grounds import Ground
from tests.faults.injection import KINDS, Injection
from tests.faults.operations import OPERATIONS
from tests.faults.worlds import MET, copied, full

#: How often an effect that no fault has met is looked for again.
_TRIES = 3


def every(ground: Ground, name: str, part: int = 0, parts: int = 1) -> None:
    """Put each kind of fault, and one rival, at every effect of an operation, or at each n-th of them."""
    _, rivals = OPERATIONS[name]
    for number in range(part, len(_effects(ground, name)), parts):
        _meet(ground, name, number, *(rivals[number % len(rivals) :][:1] if rivals else ()))


def one_of_each(ground: Ground, name: str, seed: int) -> None:
    """Put each kind of fault at one effect of each kind and place; every rival comes at least once."""
    effects = _effects(ground, name)
    numbers = list(range(len(effects)))
    random.Random(seed).shuffle(numbers)
    chosen = sorted({effects[number]: number for number in numbers}.values())
    _, rivals = OPERATIONS[name]
    for index, number in enumerate(chosen):
        _meet(ground, name, number, *(rivals[index :: len(chosen)] or rivals[index % max(1, len(rivals)) :][:1]))
    missing = {*effects} - _met()
    for _ in range(_TRIES):  # threads come to effects in another order each time, and to some not each time
        for effect in sorted(missing):
            _meet(ground, name, 0, only=effect)
        missing -= _met()
    assert not missing, f"{name}: no fault at {missing}"


def _met() -> set[tuple[str, str]]:
    return {(effect, place) for _, effect, place, kind in MET.faults if kind == "died before"}


def _effects(ground: Ground, name: str) -> list[tuple[str, str]]:
    """What an operation comes to when nothing happens, in order."""
    operation, _ = OPERATIONS[name]
    with copied(full(ground), ground) as world:
        look = Injection("died before", sys.maxsize)
        operation(world, look)
        world.finish()
    return look.effects


def _meet(ground: Ground, name: str, number: int, *rivals: str, only: tuple[str, str] | None = None) -> None:
    """Put each kind of fault, and each of the rivals, at one effect, or at the `number`-th of a kind and place."""
    operation, _ = OPERATIONS[name]
    faults = [Injection(kind, number, only=only) for kind in KINDS[ground] if kind != "rival"]
    for fault in (*faults, *(Injection("rival", number, rival) for rival in rivals)):
        with copied(full(ground), ground) as world:
            operation(world, fault)
            world.check()
            world.finish()
        # some effects need no room, most have no halves; threads may come to one effect less
        assert fault.hit or fault.kind in ("full", "half") or fault.reached < number + 2, f"{name}: no effect {number}"
