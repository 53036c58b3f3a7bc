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


def test_paragraphs_of_help_are_folded_where_the_terminal_ends(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.strip() for line in run("route", "--help")[1].splitlines()]
    first = lines.index("Runs until it is interrupted (it ends after the batch that is running), or")
    assert all(len(line) > 40 for line in lines[first : lines.index("", first) - 1])


def test_a_data_directory_without_a_name_is_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an empty variable of a script names it: the working directory is not meant."""
    monkeypatch.chdir(tmp_path)
    code, _, err = run("import", DEFINITIONS, "--data", "")
    assert (code, err) == (
        2, "error: data directory: its name is empty\nhint: name a folder; the working directory is '.'\n",
    )  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_a_file_is_no_data_directory(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "topology.yaml"
    file.write_text("queues: [{name: q}]")
    for command in (["apply", file], ["import", file], ["queues"]):
        code, _, err = run(*command, "--data", file)
        assert (code, err) == (2, f"error: data directory: '{file}' is not a directory\n")


def test_a_queue_that_is_misspelt_is_told(run: Run, data: Path) -> None:
    said = "no queue 'orders.lage' in vhost '/'\nhint: did you mean 'orders.large'?\n"
    for command in ("count", "browse", "get"):
        assert run("messages", command, "orders.lage", "--data", data) == (2, "", f"error: queue: {said}")
    for command in ("move", "copy"):
        gone = run("messages", command, "orders.lage", "--to", "orders.large", "--data", data)
        assert gone == (2, "", f"error: queue: {said}")
    message = data.parent / "message.json"
    message.write_text('{"exchange": "orders", "routing_key": "eu"}')
    explained = run("explain", "--message", message, "--queue", "orders.lage", "--data", data)
    assert explained == (2, "", f"error: queue: {said}")


def test_what_the_system_refuses_is_one_line(run: Run, data: Path, tmp_path: Path) -> None:
    code, out, err = run("topology", "export", "--data", data, "--output", tmp_path / "no" / "folder.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "folder.json" in err
