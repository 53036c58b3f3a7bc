"""The example notebook runs, and it and its page show what a run gives."""

from __future__ import annotations

import json

from tests.documents import PAGES_OF_NOTEBOOKS
from tests.pages.notebook import NOTEBOOK, PAGE, fresh


def test_the_notebook_and_its_page_are_those_of_a_fresh_run() -> None:
    notebook, page = fresh()
    assert PAGE.read_text("utf-8") == page, "run: python -m tests.pages.notebook"
    assert json.loads(NOTEBOOK.read_text("utf-8")) == json.loads(notebook), "run: python -m tests.pages.notebook"
    assert [PAGE] == PAGES_OF_NOTEBOOKS
