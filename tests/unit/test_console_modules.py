"""The console's modules, in what the linter does not see: what is imported is there, what is exported is used."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

MODULES: Final = Path(__file__).parents[2] / "api" / "console" / "static" / "js"
_IMPORT: Final = re.compile(r'^import (?:\{([^}]*)\} from )?"([^"]+)";', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?:async )?(?:function\*?|const|let|class) (\w+)", re.MULTILINE)


def _imports(file: Path) -> dict[Path, set[str]]:
    found: dict[Path, set[str]] = {}
    for names, module in _IMPORT.findall(file.read_text()):
        wanted = {name.split(" as ")[0].strip() for name in names.split(",") if name.strip()}
        found.setdefault((file.parent / module).resolve(), set()).update(wanted)
    return found


def test_every_module_that_is_imported_is_there_and_every_export_is_used() -> None:
    files = sorted(MODULES.rglob("*.js"))
    used: dict[Path, set[str]] = {}
    for file in files:
        for module, names in _imports(file).items():
            assert module.is_file(), f"{file.name} imports {module}"
            used.setdefault(module, set()).update(names)
    unused = {
        f"{file.relative_to(MODULES)}: {name}"
        for file in files
        for name in set(_EXPORT.findall(file.read_text())) - used.get(file, set())
    }
    assert unused == set()
    assert {file for file in files if file not in used} == {MODULES / "main.js"}, "a module that nobody imports"
