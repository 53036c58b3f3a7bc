from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.real.full_disk import fill_disks
from tests.faults.real.kills import kill_loop
from tests.faults.real.report import passed, render

pytestmark = pytest.mark.spark


def test_five_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    kinds = ["job", "service", "both", "starting", "stopped"]
    installation, times, verdict = kill_loop(tmp_path, seed="tests", kinds=kinds, say=print)
    assert passed(installation, verdict), render("kill -9: 5 kills", times, installation, verdict)


def test_full_disks_lose_and_double_nothing(tmp_path: Path) -> None:
    try:
        code = fill_disks(tmp_path, seed="tests", fillings=1)
    except PermissionError as error:
        pytest.skip(f"mounting is not permitted here: {error}")
    assert code == 0
