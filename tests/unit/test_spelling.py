"""The question whether another name was meant: the same words wherever it is asked."""

from __future__ import annotations

import pytest

from bindery.router.spelling import did_you_mean


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (did_you_mean("a"), "did you mean 'a'?"),
        (did_you_mean("a", "one of a, b"), "did you mean 'a'?"),
        (did_you_mean(None, "one of a, b"), "one of a, b"),
        (did_you_mean(None), ""),
        (did_you_mean("a", before="; "), "; did you mean 'a'?"),
        (did_you_mean(None, before="; "), ""),
        (did_you_mean("a", then="keys: a, b"), "did you mean 'a'? keys: a, b"),
        (did_you_mean(None, then="keys: a, b"), "keys: a, b"),
        (did_you_mean("AND", quoted=False), "did you mean AND?"),
    ],
)
def test_the_question(said: str, expected: str) -> None:
    assert said == expected
