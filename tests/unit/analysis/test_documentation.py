"""Every code is documented where its findings point to."""

from __future__ import annotations

import re
from pathlib import Path

from bindery.router.analysis import RULES

ROOT = Path(__file__).parents[3]


def test_each_code_has_its_section() -> None:
    page = (ROOT / "docs" / "topology-lint.md").read_text("utf-8")
    sections = dict(re.findall(r'<a id="(bt\d+)"></a>\n### (.+)\n', page))
    assert sections == {rule.anchor.split("#")[1]: f"{code} {rule.name}" for code, rule in RULES.items()}
    for rule in RULES.values():
        assert rule.explanation in page
        assert (ROOT / rule.anchor.split("#")[0]).exists()
