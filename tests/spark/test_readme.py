"""The examples of the README, run as a reader would."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.documents import python_blocks, session, working_folder

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
#: From the first file of the worked example up to the control plane, which runs until it is stopped.
EXAMPLE = README[README.index("## A worked example") : README.index("## The control plane")]


def test_the_worked_example_prints_what_the_readme_shows(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BINDERY_CACHE", str(tmp_path / "cache"))
    with working_folder(tmp_path):
        outputs = list(session(EXAMPLE))
        for block in python_blocks(EXAMPLE):
            # the shared JVM was started in another folder
            exec(block.replace('load("data/', f'load("{tmp_path}/data/'), {"spark": spark})  # noqa: S102  # our own text
    for command, shown, printed in outputs:
        # a bar that moves comes before what is left of it
        assert printed.endswith(shown) if command.startswith("bindery route") else printed == shown, command
    assert len(outputs) == 8
    assert capsys.readouterr().out.count("|     WN|") == 1, "the flight is in the queue once"
