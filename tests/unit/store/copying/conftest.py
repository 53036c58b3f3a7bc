"""The source is a folder, unless a test says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from bindery.store.paths import DataDir


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    return DataDir.open(tmp_path / "data", create=True)
