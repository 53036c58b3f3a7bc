"""Each rule of lint has one section on its page, and the pages have no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bindery.router.analysis import RULES as OF_TOPOLOGIES
from bindery.router.filters.lint import RULES as OF_FILTERS
from bindery.router.lint import RULES, Rule, register

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r'<a id="(\w+)"></a>\n### (.+)\n')


@pytest.mark.parametrize("page", ["docs/lint.md", "docs/topology-lint.md"])
def test_a_page_has_its_rules_and_no_others(page: str) -> None:
    content = (ROOT / page).read_text("utf-8")
    rules = [rule for rule in RULES.values() if rule.document == page]
    assert rules
    titles = {rule.anchor.removeprefix(f"{page}#"): f"{rule.code} {rule.title}" for rule in rules}
    assert dict(SECTION.findall(content)) == titles
    assert len(re.findall(r"^### ", content, re.MULTILINE)) == len(rules)
    sections = SECTION.split(content)[1:]
    for _, heading, text in zip(*[iter(sections)] * 3, strict=True):
        rule = RULES[heading.split(" ")[0]]
        assert re.sub(r"\s+", " ", rule.explanation) in re.sub(r"\s+", " ", text)
        assert re.search(rf"^\*{rule.severity}[.;]", text.strip())
        if page == "docs/topology-lint.md":
            assert text.strip().removeprefix(f"*{rule.severity}.* ").split("\n\n") == rule.page()


def test_every_rule_is_of_one_of_the_two() -> None:
    assert {**OF_FILTERS, **OF_TOPOLOGIES} == RULES
    assert len(OF_FILTERS) + len(OF_TOPOLOGIES) == len(RULES)


def test_a_code_is_given_once() -> None:
    taken = next(iter(RULES.values()))
    with pytest.raises(ValueError, match=f"two rules have the code {taken.code}"):
        register(Rule(taken.code, "another", "info", "Another.", "docs/lint.md"))
