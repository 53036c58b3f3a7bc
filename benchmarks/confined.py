"""A bound on the memory that this process takes from now on, kept by the kernel.

A control group counts pages as they are taken: what the process has already stays with the group that it came from.
Whoever takes more than the bound is killed. Where no group can be made (another system, no right to), the address space
is bounded instead, which needs room for what is mapped and never used.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
#: What is mapped beyond what is used: stacks of threads, arenas of the allocator.
_UNUSED: Final = 256 << 20


@contextmanager
def confined(bound: int) -> Iterator[str]:
    """Hold this process to so many bytes more than it has now; gives what does it, in a word or two.

    Files that are written to memory (tmpfs) count as the process's, those in the page cache are dropped first.
    """
    try:
        group, home = _group(bound)
    except OSError:
        before = resource.getrlimit(resource.RLIMIT_AS)
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + bound + _UNUSED, before[1]))
        try:
            yield "address space"
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
        return
    try:
        yield "control group"
    finally:
        with suppress(OSError):
            _enter(home)
        group.rmdir()


def _group(bound: int) -> tuple[Path, Path]:
    """A group with that bound, in which this process is now, and the one in which it was.

    Raises OSError where there can be none.
    """
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = {kind: path for _, kind, path in (line.split(":", 2) for line in lines)}
    # version 1 has a tree for memory, version 2 one for everything
    root, limit = ("memory", "memory.limit_in_bytes") if "memory" in own else ("", "memory.max")
    home = _ROOT / root / own[root].lstrip("/")
    for stale in home.glob("bindery-*"):  # of processes that were killed; one with a process in it stays
        with suppress(OSError):
            stale.rmdir()
    group = home / f"bindery-{os.getpid()}"
    group.mkdir()
    try:
        if not (group / limit).exists():
            raise FileNotFoundError(limit)  # no memory to be divided below this one
        (group / limit).write_text(str(bound))
        _enter(group)
    except OSError:
        group.rmdir()
        raise
    return group, home


def _enter(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))
