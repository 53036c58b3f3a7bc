"""The README's first steps as a newcomer takes them: a wheel is built and installed, and its own programs run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.documents import ROOT, Reader, blocks, working_folder

SECTION = "First steps"


@pytest.mark.nightly
def test_the_first_steps_work_with_an_installed_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("BINDERY_")]:
        monkeypatch.delenv(name)
    checkout, shop = tmp_path / "checkout", tmp_path / "shop"
    checkout.mkdir()
    shop.mkdir()
    for name in ("bindery", "router", "store", "api", "jobs"):
        shutil.copytree(ROOT / name, checkout / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    section = [block for block in blocks("README.md") if block.section == SECTION]
    install, *rest = [block for block in section if block.kind != "mermaid"]  # a drawing
    script = "\n".join(command for command, _ in install.commands())
    home = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(["bash", "-euc", script], cwd=checkout, env=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with working_folder(shop):
        reader = Reader(programs=tmp_path / "bindery" / "bin")
        try:
            for block in rest:
                reader.run(block)
        finally:
            reader.close()
    assert len(rest) == 4
