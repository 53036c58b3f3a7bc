"""What a batch costs does not grow with the batches before it: counted in effects, bytes and files."""

from __future__ import annotations

import os
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from bindery.store import faults
from bindery.store.maintenance import Policy, maintain
from bindery.store.paths import DataDir
from tests.unit.store.maintenance.conftest import Stream

#: Batches of one reading: the first merges of three orders of size lie within.
WINDOW = 64
#: Batches between two passes of maintenance.
PASS = 8
POLICY = Policy(retention=timedelta(0), shortest=timedelta(0), versions=32, manifest_retention=timedelta(0), fan_in=4)
IO = Path("/proc/self/io")


def transferred() -> Counter[str]:
    """Bytes that this process has read and written so far."""
    fields = dict(line.split(": ") for line in IO.read_text().splitlines())
    return Counter({"bytes read": int(fields["rchar"]), "bytes written": int(fields["wchar"])})


def on_disk(data: DataDir) -> Counter[str]:
    found: Counter[str] = Counter()
    for folder, _, names in os.walk(data.root):
        is_log = folder.endswith("_delta_log")
        found["log files" if is_log else "files"] += len(names)
        if is_log:
            found["log bytes"] += sum(Path(folder, name).stat().st_size for name in names)
    return found


@pytest.mark.long
@pytest.mark.skipif(not IO.exists(), reason="the kernel counts no transfers by process here")
def test_a_batch_costs_no_more_after_hundreds_of_others(data: DataDir, stream: Stream) -> None:
    effects: Counter[str] = Counter()

    def count(point: str, _path: str) -> None:
        effects["effects"] += faults.is_effect(point)

    def window() -> Counter[str]:
        before = transferred() + effects
        seen: Counter[str] = Counter()
        for _ in range(WINDOW // PASS):
            stream.run(PASS, rows=20)
            assert not maintain(data, POLICY).failed
            seen += on_disk(data)  # the sum, since what lies there goes up and down
        return transferred() + effects - before + seen

    with faults.installed(count):
        _, first, _, _, last = (window() for _ in range(5))
    grown = {name: round(last[name] / number, 2) for name, number in first.items()}
    assert max(grown.values()) <= 1.2, grown
