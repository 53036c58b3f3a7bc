"""The example notebook: its cells run in order as Jupyter runs them, and a page of the documentation with the outputs.

    python -m tests.pages.notebook

writes both anew. A kernel would bring 33 packages into every developer's environment to print what `repr` prints.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.documents import ROOT, working_folder
from tests.pages.before import late_and_all

NOTEBOOK: Final = ROOT / "docs" / "examples" / "analyst.ipynb"
PAGE: Final = NOTEBOOK.with_suffix(".md")


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook after a run of all cells in the working directory."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            cells.append(cell)
            continue
        count += 1
        outputs = _run("".join(cell["source"]), namespace, count)
        cells.append({**cell, "execution_count": count, "outputs": outputs})
    return {**notebook, "cells": cells}


def _run(source: str, namespace: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """The outputs of a cell: what it prints, and the value of the expression that it ends with."""
    tree, name, printed = ast.parse(source), f"cell {count}", io.StringIO()
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), namespace)  # noqa: S102  # our own text
        value = None if last is None else eval(compile(ast.Expression(last.value), name, "eval"), namespace)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        shown = {"data": {"text/plain": _lines(repr(value))}, "metadata": {}}
        outputs.append({**shown, "execution_count": count, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def rendered(notebook: dict[str, Any]) -> str:
    """The notebook as a page of Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(f"```python\n{source}\n```" if cell["cell_type"] == "code" else source)
        for output in cell.get("outputs", ()):
            text = "".join(output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"])
            parts.append("```text\n" + "\n".join(line.rstrip() for line in text.splitlines()) + "\n```")
    return "\n\n".join(parts) + "\n"


def fresh() -> tuple[str, str]:
    """The notebook and its page after a run in a new folder with the flights of `before.py`."""
    with tempfile.TemporaryDirectory() as folder, working_folder(Path(folder)):
        late_and_all()
        notebook = executed(json.loads(NOTEBOOK.read_text("utf-8")))
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", rendered(notebook)


if __name__ == "__main__":
    text, page = fresh()
    NOTEBOOK.write_text(text, "utf-8")
    PAGE.write_text(page, "utf-8")
