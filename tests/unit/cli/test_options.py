"""What every command has: the data directory, help, the version, errors in a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bindery
from tests.unit.cli.conftest import Run

DEFINITIONS = Path(__file__).parents[3] / "configs" / "samples" / "definitions-orders.json"


@pytest.fixture
def data(run: Run, tmp_path: Path) -> Path:
    assert run("import", DEFINITIONS, "--data", tmp_path / "data")[0] == 0
    return tmp_path / "data"


def listed(run: Run, *arguments: object) -> int:
    code, out, _ = run("queues", *arguments, "--json")
    assert code == 0
    return len(json.loads(out))


def test_the_data_directory_is_named_by_option_or_environment_or_found(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    code, _, err = run("queues")
    assert (code, "--data or in BINDERY_DATA" in err, err.count("data directory")) == (2, True, 1)
    monkeypatch.chdir(tmp_path)  # where `data` is
    assert listed(run) == 4
    monkeypatch.chdir(data)
    assert listed(run) == 4
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("BINDERY_DATA", str(data))
    assert listed(run) == 4
    assert run("maintain", "--dry-run")[0] == 0
    code, _, err = run("queues", "--data", "other")
    assert (code, "other" in err) == (2, True)


def test_the_version_and_help_have_the_usual_names(run: Run) -> None:
    assert run("--version") == (0, f"bindery {bindery.__version__}\n", "")
    for command in ((), ("queues",), ("topology", "log")):
        assert run(*command, "-h") == run(*command, "--help")
    assert "--install-completion" in run("--help")[1]


def test_what_the_system_refuses_is_one_line(run: Run, data: Path, tmp_path: Path) -> None:
    code, out, err = run("topology", "export", "--data", data, "--output", tmp_path / "no" / "folder.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "folder.json" in err
