"""Literals that Spark replaces by the time at which it parses them, found in the text."""

from __future__ import annotations

import pytest

from bindery.jobs.determinism import special_literal


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("DATE 'today'", "DATE 'today'"),
        ("date_add(Date /* c */ ' Tomorrow', 1)", "DATE ' Tomorrow'"),
        ('a < timestamp_ntz -- soon\n"now UTC"', 'TIMESTAMP_NTZ "now UTC"'),
        ("TIMESTAMP '\\u006eow'", "TIMESTAMP '\\u006eow'"),
        ("TIMESTAMP''", "TIMESTAMP ''"),
        ("DATE '2020-01-01'", None),
        ("TIMESTAMP ' +2020-01-01 00:00:00'", None),
        ("concat('date ', x, ' now')", None),
        ("concat('it\\'s a date ', 'today')", None),
        ("concat(date, 'today')", None),
        ("`date` || 'now'", None),
        ("-- date\n'now'", None),
    ],
)
def test_a_special_literal_is_found_wherever_it_stands(text: str, found: str | None) -> None:
    assert special_literal(text) == found
