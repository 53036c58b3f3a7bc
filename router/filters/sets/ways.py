"""Access predicates of filter sets: which values lead a message to a set that it may satisfy.

All conditions of filter sets are two-valued: what is not true is false, an absent field included.
"""

from __future__ import annotations

from typing import Final

from bindery.router.columns import STRING, Ref
from bindery.router.filters.access import Access, Key, Word, access, access_of, equality
from bindery.router.filters.ast import Field, Literal, Node
from bindery.router.filters.sets.modifiers import EXACT, read_reference
from bindery.router.filters.sets.nodes import (
    Accepts,
    Equals,
    NestedMatches,
    Present,
    StartsWith,
    TextForm,
    TopicMatches,
)
from bindery.router.filters.sets.reference import words
from bindery.router.filters.sets.vectors import form_of, head_of, member_of, successor, word_of
from bindery.router.filters.spread import is_spread
from bindery.router.filters.value_sets import (
    EVERYTHING,
    PRESENCE,
    FieldValues,
    ValueSet,
    family_of,
    minus,
    point,
    values,
    values_of,
)
from bindery.router.values import Opaque, Table, Value

#: One column of heads is made for each length of prefix, up to this many.
_LONGEST_HEAD: Final = 32
_WILDCARDS: Final = ("*", "#")


@access(Equals)
def _equals(node: Equals) -> Access | None:
    ref = _compared(node.field)
    if ref is None or not isinstance(node.reference, Literal):
        return None
    return equality(ref, node.reference.value, strict=True)


def _compared(field: Node) -> Ref | None:
    """Where the values stand that a reference is compared with."""
    if isinstance(field, TextForm):
        return None if is_spread(field.field.ref) else form_of(field.field.ref, field.forms)
    return field.ref if isinstance(field, Field) else None


@values(Equals)
def _equal_values(node: Equals, truth: bool) -> FieldValues | None:
    ref = _compared(node.field)
    if ref is None or not isinstance(node.reference, Literal):
        return None
    value = node.reference.value
    if value is None or isinstance(value, tuple | Table | Opaque):
        return None
    return _two_valued(ref, point(value, strict=True), truth)


@values(Present)
def _present_values(node: Present, truth: bool) -> FieldValues:
    return _two_valued(node.field.ref, PRESENCE, truth)


@values(Accepts)
def _accepted_values(node: Accepts, truth: bool) -> FieldValues | None:
    found = values_of(node.part)
    return None if found is None else _two_valued(found.ref, found.values, truth, strict=found.strict)


def _two_valued(ref: Ref, true: ValueSet, truth: bool, *, strict: bool = True) -> FieldValues:
    return FieldValues(ref, true if truth else minus(EVERYTHING, true), strict)


@access(StartsWith)
def _starts_with(node: StartsWith) -> Access | None:
    """The first characters of the text equal the prefix: a prefix is an equality of heads."""
    if not isinstance(node.reference, Literal):
        return None
    prefix = str(node.reference.value)
    head = prefix[:_LONGEST_HEAD]
    ref = _compared(node.field)
    if ref is None or is_spread(ref):
        return None  # the texts with a prefix stand together in the order of all: see below
    return Access((Key(head_of(ref, len(head)), Literal(head), strict=True),), exact=head == prefix)


@values(StartsWith)
def _texts_with_prefix(node: StartsWith, truth: bool) -> FieldValues | None:
    """The texts from the prefix up to the first that does not begin with it."""
    if not (isinstance(node.field, Field) and is_spread(node.field.ref) and isinstance(node.reference, Literal)):
        return None
    prefix, family = str(node.reference.value), family_of(STRING, strict=True)
    behind = successor(prefix)
    end = (family + 1,) if behind is None else (family, behind, False)
    return _two_valued(node.field.ref, (((family, prefix, False), end),), truth)


@access(NestedMatches)
def _nested_matches(node: NestedMatches) -> Access | None:
    """The first simple value that the reference asks for must stand in its place."""
    if not (isinstance(node.field, Field) and isinstance(node.reference, Literal)):
        return None
    pending: list[tuple[tuple[str | int, ...], Value]] = [((), node.reference.value)]
    while pending:
        path, wanted = pending.pop()
        if isinstance(wanted, tuple):
            pending += [((*path, place), item) for place, item in reversed(list(enumerate(wanted)))]
        elif isinstance(wanted, Table):
            pending += [((*path, key), item) for key, item in reversed(list(wanted.items()))]
        elif wanted is not None:
            if isinstance(wanted, str):
                text = read_reference(wanted)
                if text.modifier is not EXACT:
                    continue
                wanted = text.text
            return Access(equality(member_of(node.field.ref, path), wanted, strict=True).keys, exact=False)
    return None


@access(TopicMatches)
def _topic_matches(node: TopicMatches) -> Access | None:
    """A pattern without wildcards is an equality; others need a word, best at a place that no `#` moves."""
    if not (isinstance(node.field, Field) and isinstance(node.pattern, Literal)):
        return None
    pattern, ref = str(node.pattern.value), node.field.ref
    parts = list(words(pattern))
    if not any(part in _WILDCARDS for part in parts):
        return equality(ref, pattern, strict=True)
    fixed = parts[: parts.index("#")] if "#" in parts else parts
    # the last fixed word: topics go from the general to the particular
    for place in reversed(range(len(fixed))):
        if fixed[place] not in _WILDCARDS:
            return Access((Key(word_of(ref, place), Literal(fixed[place]), strict=True),), exact=False)
    for back, part in enumerate(reversed(parts), 1):
        if part == "#":
            break
        if part not in _WILDCARDS:
            return Access((Key(word_of(ref, -back), Literal(part), strict=True),), exact=False)
    anywhere = [part for part in parts if part not in _WILDCARDS]
    return Access((Word(ref, Literal(anywhere[-1])),), exact=False) if anywhere else None


@access(Accepts)
def _accepts(node: Accepts) -> Access | None:
    return access_of(node.part)
