"""The pages of filter languages: every example does what it says, and nothing of a language is left out."""

from __future__ import annotations

import re

import pytest

from bindery.router.filters import DIALECTS as LANGUAGES
from tests.site.filter_rows import DIALECTS, judged, rows


def test_there_is_a_page_for_each_language() -> None:
    assert set(DIALECTS) == set(LANGUAGES)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_filter_does_what_its_row_says(dialect: str) -> None:
    wrong = {(row.line, row.filter): (row.result, said) for row in rows(dialect) if (said := judged(row)) != row.result}
    assert not wrong
    assert {row.result for row in rows(dialect)} == {"true", "false", "unknown", "refused"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_page_names_every_field_and_has_an_example_of_every_keyword(dialect: str) -> None:
    """A language with the grammar and names of another one shows what it adds."""
    language, text = LANGUAGES[dialect], DIALECTS[dialect].read_text("utf-8")
    of_jms = LANGUAGES["jms"] if dialect != "jms" else None
    names = language.names.keys() - (of_jms.names.keys() if of_jms else set())
    listed = set(re.findall(r"[\w.]+", text.partition("## Names")[2].partition("\n## ")[0]))
    assert names <= listed
    assert not [name for name in language.sections if f"`{name}" not in text]
    shown = " ".join(row.filter for row in rows(dialect) if row.result != "refused").upper()
    shared = of_jms.keywords if of_jms and of_jms.grammar == language.grammar else frozenset()
    assert not {word for word in language.keywords - shared if not re.search(rf"\b{word}\b", shown)}
    assert not [one.text for one in language.prefixes if one.text.upper() not in shown]
