"""LIKE against the definition: a table of prefixes of text and pattern."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from bindery.router.filters.like import compile_pattern, matches

_chars = st.text("ab%_!é😀\n", max_size=9)


def by_definition(text: str, pattern: str, escape: str | None) -> bool | None:
    """`reached[n]`: the pattern so far fits the first n characters."""
    reached = {0}
    items = iter(pattern)
    for char in items:
        if char == escape:
            wanted = next(items, None)
            if wanted is None:
                return None
            reached = {n + 1 for n in reached if text[n : n + 1] == wanted}
        elif char == "%":
            reached = {n for n in range(len(text) + 1) if any(m <= n for m in reached)}
        elif char == "_":
            reached = {n + 1 for n in reached if n < len(text)}
        else:
            reached = {n + 1 for n in reached if text[n : n + 1] == char}
    return len(text) in reached


@example(text="ab", pattern="%a_%b", escape=None)
@example(text="a", pattern="%_%a", escape=None)
@example(text="ba", pattern="%b%a_%", escape=None)
@given(text=_chars, pattern=_chars, escape=st.sampled_from([None, "!", "%", "_", "a", "😀"]))
def test_matches_as_defined(text: str, pattern: str, escape: str | None) -> None:
    compiled = compile_pattern(pattern, escape)
    found = None if compiled is None else matches(text, compiled)
    assert found == by_definition(text, pattern, escape)


@given(text=st.text("ab", max_size=60), pattern=st.text("ab%_", max_size=30))
def test_matches_long_repetitive_texts_as_defined(text: str, pattern: str) -> None:
    compiled = compile_pattern(pattern, None)
    assert compiled is not None
    assert matches(text, compiled) == by_definition(text, pattern, None)


def test_an_escape_is_one_character() -> None:
    assert compile_pattern("a", "") is None
    assert compile_pattern("a", "ab") is None
