"""The nodes of filter sets in the scalar reference, to the letter of their specifications."""

from __future__ import annotations

from collections.abc import Sequence

from bindery.router.equality import family_equal
from bindery.router.filters.ast import TROUBLE
from bindery.router.filters.scalar import Context, Result, rule
from bindery.router.filters.sets.matching import matches
from bindery.router.filters.sets.nodes import (
    Accepts,
    Equals,
    NestedMatches,
    Present,
    StartsWith,
    TextForm,
    TopicMatches,
    in_forms,
)
from bindery.router.values import Value


def _value(result: Result) -> Value:
    return None if result is TROUBLE else result


@rule(Equals)
def _equals(node: Equals, context: Context) -> Result:
    value = _value(context.value(node.field))
    return value is not None and family_equal(_value(context.value(node.reference)), value)


@rule(Present)
def _present(node: Present, context: Context) -> Result:
    return node.field.ref.name in getattr(context.message, node.field.ref.section)


@rule(TextForm)
def _text_form(node: TextForm, context: Context) -> Result:
    value = context.value(node.field)
    return in_forms(value, node.forms) if isinstance(value, str) else None


@rule(StartsWith)
def _starts_with(node: StartsWith, context: Context) -> Result:
    value, wanted = context.value(node.field), context.value(node.reference)
    return isinstance(value, str) and value.startswith(str(wanted))


@rule(NestedMatches)
def _nested_matches(node: NestedMatches, context: Context) -> Result:
    return matches(_value(context.value(node.reference)), _value(context.value(node.field)))


@rule(TopicMatches)
def _topic_matches(node: TopicMatches, context: Context) -> Result:
    value, pattern = context.value(node.field), str(context.value(node.pattern))
    if not isinstance(value, str):
        return pattern == "#"
    return topic_matches(words(pattern), words(value))


@rule(Accepts)
def _accepts(node: Accepts, context: Context) -> Result:
    return context.value(node.part) is True


def words(text: str) -> Sequence[str]:
    """The words of a topic; the empty text has none, every other empty word counts."""
    return text.split(".") if text else ()


def topic_matches(pattern: Sequence[str], key: Sequence[str]) -> bool:
    """Whether the words of a key match a pattern of words, `*` (one) and `#` (any number); O(pattern × key)."""
    reached = [True] + [False] * len(key)  # reached[n]: the pattern so far can end before word n
    for part in pattern:
        if part == "#":
            first = reached.index(True) if True in reached else len(reached)
            reached = [n >= first for n in range(len(reached))]
        else:
            steps = [before and part in ("*", word) for before, word in zip(reached, key, strict=False)]
            reached = [False, *steps]
    return reached[-1]
