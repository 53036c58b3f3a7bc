from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.real.full_disk import fill_disks
from tests.faults.real.kills import kill_loop
from tests.faults.real.report import passed, render

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "kinds",
    [("both", "stopped"), pytest.param(("job", "service", "both", "starting", "stopped"), marks=pytest.mark.nightly)],
    ids=len,
)
def test_kills_lose_and_double_nothing(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    installation, times, verdict = kill_loop(tmp_path, seed="tests", kinds=kinds, say=print)
    assert passed(installation, verdict), render(f"kill -9: {len(kinds)} kills", times, installation, verdict)
    assert verdict.commits.flushes
    for companion in installation.companions:
        assert companion.times["killed"], companion.name


def test_full_disks_lose_and_double_nothing(tmp_path: Path) -> None:
    try:
        code = fill_disks(tmp_path, seed="tests", fillings=1)
    except PermissionError as error:
        pytest.skip(f"mounting is not permitted here: {error}")
    assert code == 0
