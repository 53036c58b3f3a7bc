"""A data directory, and a folder of its own for what was seen of headers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.store.conftest import data, root, store

__all__ = ["data", "root", "store"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("BINDERY_CACHE", str(folder))
    return folder
