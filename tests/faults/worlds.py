"""Data directories to begin with, made once a process, and copies of them to put faults into."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.injection import Met
from tests.faults.world import World

#: What this process has met.
MET = Met()


def scratch() -> Path:
    """A new folder, in memory where there is some."""
    return Path(tempfile.mkdtemp(prefix="bindery-faults-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))


def _kept() -> Path:
    root = scratch()
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


@functools.cache
def first() -> World:
    """A queue with messages, and an unroutable one."""
    return World(_kept(), MET)


@functools.cache
def full() -> World:
    """Something for every operation to work on."""
    world = first().copy(_kept())
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
def copied(world: World) -> Iterator[World]:
    """A copy for one schedule."""
    root = scratch()
    MET.schedules += 1
    copy = world.copy(root)
    try:
        yield copy
    finally:
        copy.restart()
        shutil.rmtree(root, ignore_errors=True)
