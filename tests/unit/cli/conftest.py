"""The command as the shell runs it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bindery.cli import main as cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line: exit code, standard output, standard error."""
    monkeypatch.delenv("BINDERY_DATA", raising=False)

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["bindery", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return int(left.value.code or 0), out, err

    return call
