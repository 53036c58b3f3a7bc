"""Waiting until a broker has done with what it got: what it still purges would slow down what comes next."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

#: Seconds between two looks, the share of a core that counts as nothing, and seconds after which it is not waited for.
_BETWEEN: Final = 1.0
_NOTHING: Final = 0.1
_LONGEST: Final = 120.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def processor_seconds(process: int) -> float:
    """Processor time of a process and those that it has started, their ended children included."""
    times: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            number = int(entry.name)
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(number)
            times[number] = sum(map(int, fields[11:15])) / _TICKS
    waiting, total = [process], 0.0
    while waiting:
        number = waiting.pop()
        total += times.get(number, 0.0)
        waiting += children.get(number, [])
    return total


def settle(*processes: int) -> None:
    """Return once these processes do next to nothing; says so where they do not come to rest."""
    started = time.monotonic()
    before = [processor_seconds(process) for process in processes]
    while time.monotonic() - started < _LONGEST:
        time.sleep(_BETWEEN)
        now = [processor_seconds(process) for process in processes]
        if all(then + _NOTHING * _BETWEEN >= each for then, each in zip(before, now, strict=True)):
            return
        before = now
    print(f"a peer has not come to rest within {_LONGEST:.0f} s", flush=True)
