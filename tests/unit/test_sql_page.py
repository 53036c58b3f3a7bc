"""The session of docs/sql.md, run as a reader would."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents import session, working_folder

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text("utf-8")


def test_the_page_shows_what_the_commands_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINDERY_CACHE", str(tmp_path / "cache"))
    with working_folder(tmp_path):
        outputs = list(session(PAGE))
    for command, shown, printed in outputs:
        assert printed == shown, command
    assert len(outputs) == 4
