"""Data directories to begin with, made once a process, and copies of them to put faults into."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults import grounds
from tests.faults.grounds import Ground
from tests.faults.injection import Met
from tests.faults.world import World

#: What this process has met.
MET = Met()


def _kept(ground: Ground) -> str:
    root = grounds.new(ground)
    if ground == "local":
        atexit.register(grounds.remove, root)
    return root


@functools.cache
def first(ground: Ground) -> World:
    """A queue with messages, and an unroutable one."""
    return World(_kept(ground), MET)


@functools.cache
def full(ground: Ground) -> World:
    """Something for every operation to work on."""
    world = first(ground).copy(_kept(ground))
    world.declare("b", None)
    for _ in range(3):
        world.route(None)
        world.publish(None)
    world.append(None)
    world.change_user("b", None)
    world.save_job("b", None)
    world.leave_behind()
    world.restart()
    return world


@contextmanager
def copied(world: World, ground: Ground) -> Iterator[World]:
    """A copy for one schedule."""
    root = grounds.new(ground)
    MET.schedules += 1
    copy = world.copy(root)
    try:
        yield copy
    finally:
        copy.restart()
        grounds.remove(root)
