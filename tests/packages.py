"""Folders that are parts of the package `bindery`, and packages of the same names that are not ours."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[1]
PARTS: Final = ("router", "store", "api", "jobs")


def own_packages(folder: Path) -> None:
    """Packages of somebody else, which nobody may import by mistake."""
    for part in PARTS:
        (folder / part).mkdir()
        (folder / part / "__init__.py").write_text(f"raise AssertionError('{part} of somebody else')\n")
