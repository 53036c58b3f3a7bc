"""The nodes of filter sets in the vectorised evaluator.

No node costs Python work per pair: texts are compared as numbers (places in the order of a column's distinct
texts), formed once per distinct text, and nested values and topics once per distinct combination.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from bindery.router.columns import ABSENT, BINARY, BOOL, DOUBLE, INT, NESTED, STRING, TIMESTAMP, Column, Ref, column_of
from bindery.router.filters.ast import FALSE, TRUE, Trouble
from bindery.router.filters.pairs import COMPUTED, Batch, Pairs, condition, operand
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
from bindery.router.filters.sets.reference import words
from bindery.router.filters.spread import is_spread
from bindery.router.filters.vector import (
    Codes,
    Ints,
    Texts,
    Truths,
    Vector,
    distinct_combinations,
    per_distinct,
    truth_per_distinct,
)
from bindery.router.values import Opaque, Table, Value, member_value, nested_value
from bindery.router.weighed import Weighed

if TYPE_CHECKING:
    from bindery.router.matching.trie import TopicMatcher

_LAST_CHARACTER: Final = chr(0x10FFFF)


def _truths(holds: np.ndarray) -> Truths:
    return np.where(holds, np.uint8(TRUE), np.uint8(FALSE))


@condition(Equals)
def _equals(node: Equals, pairs: Pairs) -> Truths:
    field, wanted = pairs.operand(node.field), pairs.operand(node.reference)
    same = field.tag == wanted.tag
    if wanted.may_hold(BOOL, INT, TIMESTAMP):
        # rows of other kinds hold 0 there
        same &= field.num == wanted.num
    if wanted.may_hold(DOUBLE):
        same &= field.dbl == wanted.dbl
    if wanted.may_hold(STRING, BINARY):
        of_field, of_wanted = pairs.batch.common_codes(field.texts, wanted.texts)
        same &= _numbered(of_field, field.code) == _numbered(of_wanted, wanted.code)
    return _truths(same & (wanted.tag > 1))


def _numbered(table: Codes | None, codes: Codes) -> Codes:
    """Codes by a table; -1 (no text) stays, so that two rows without text do not differ."""
    return codes if table is None else np.append(table, np.int32(-1))[codes]


@condition(Present)
def _present(node: Present, pairs: Pairs) -> Truths:
    return _truths(pairs.column(node.field.ref).tag != ABSENT)


@operand(TextForm)
def _text_form(node: TextForm, pairs: Pairs) -> Vector:
    if is_spread(node.field.ref):
        formed = partial(_text_in_forms, forms=node.forms)
        return per_distinct(formed, pairs.column(node.field.ref))
    return pairs.column(form_of(node.field.ref, node.forms))


def _text_in_forms(value: Value | Trouble, forms: tuple[str, ...]) -> Value:
    return in_forms(value, forms) if isinstance(value, str) else None


def form_of(ref: Ref, forms: tuple[str, ...]) -> Ref:
    """Where the texts of a field stand in other forms; a column of the batch that is made when asked for."""
    return Ref(_FORMS, f"{'+'.join(forms)}/{ref.section}/{ref.name}") if forms else ref


def head_of(ref: Ref, length: int) -> Ref:
    """Where the first characters of a field's texts stand (`ref` may be that of a form)."""
    return Ref(_HEADS, f"{length}/{ref.section}/{ref.name}")


def word_of(ref: Ref, place: int) -> Ref:
    """Where one word of a field's topic stands: the n-th, or from the end for negative places."""
    return Ref(_WORDS, f"{place}/{ref.section}/{ref.name}")


def member_of(ref: Ref, path: tuple[str | int, ...]) -> Ref:
    """Where one simple value inside a field's lists and maps stands, by keys and positions."""
    return Ref(_MEMBERS, json.dumps([ref.section, ref.name, *path]))


def _members(batch: Batch, name: str) -> Column:
    section, field, *path = json.loads(name)
    column = batch.source(Ref(section, field)).column
    picked: list[Value] = [None]  # for rows without a list or map
    place = np.zeros(len(column.distinct) + 1, np.int64)
    for code, (text, kind) in enumerate(zip(column.distinct, column.kind.tolist(), strict=True)):
        if kind == NESTED:
            place[code] = len(picked)
            picked.append(_pick(nested_value(str(text)), path))
    return column_of(picked).take(place[column.code])


def _pick(value: Value, path: list[str | int]) -> Value:
    for step in path:
        if isinstance(value, tuple) and isinstance(step, int) and step < len(value):
            value = value[step]
        elif isinstance(value, Table) and isinstance(step, str):
            value = value.get(step)
        else:
            return None
    found = member_value(value)
    return None if isinstance(found, tuple | Table | Opaque) else found  # what no key can ask for


def _in_forms(batch: Batch, name: str) -> Column:
    forms, section, field = name.split("/", 2)
    return _changed(batch.source(Ref(section, field)).column, partial(in_forms, forms=forms.split("+")))


def _topic_words(batch: Batch, name: str) -> Column:
    number, section, field = name.split("/", 2)
    place = int(number)

    def word(text: str) -> str | None:
        found = words(text)
        return found[place] if -len(found) <= place < len(found) else None

    return _changed(batch.source(Ref(section, field)).column, word)


def _heads(batch: Batch, name: str) -> Column:
    number, section, field = name.split("/", 2)
    length = int(number)
    return _changed(batch.source(Ref(section, field)).column, lambda text: text[:length])


_FORMS: Final = "text form"
_HEADS: Final = "text head"
_MEMBERS: Final = "nested member"
_WORDS: Final = "topic word"
COMPUTED[_FORMS] = _in_forms
COMPUTED[_HEADS] = _heads
COMPUTED[_MEMBERS] = _members
COMPUTED[_WORDS] = _topic_words


def _changed(column: Column, change: Callable[[str], str | None]) -> Column:
    """The column's texts, each distinct one changed once; what is no text becomes absent."""
    texts: dict[str, int] = {}
    codes = np.full(len(column.distinct) + 1, -1, np.int32)
    for place, (text, kind) in enumerate(zip(column.distinct, column.kind.tolist(), strict=True)):
        changed = change(text) if kind == STRING and isinstance(text, str) else None
        if changed is not None:
            codes[place] = texts.setdefault(changed, len(texts))
    code = codes[column.code]
    rows = len(column)
    return Column(
        np.where(code >= 0, np.uint8(STRING), np.uint8(ABSENT)),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.float64),
        code,
        list(texts),
        np.full(len(texts), STRING, np.uint8),
    )


@condition(StartsWith)
def _starts_with(node: StartsWith, pairs: Pairs) -> Truths:
    field, wanted = pairs.operand(node.field), pairs.operand(node.reference)
    # the texts that begin with a prefix stand together in the order of all texts
    ranks = field.texts.ranks
    first, behind = _prefix_places(field.texts, wanted.texts)
    rank = np.append(ranks, np.int64(-1))[field.code]
    holds = (rank >= first[wanted.code]) & (rank < behind[wanted.code])
    return _truths(holds & (field.tag == STRING))


def _prefix_places(field: Texts, wanted: Texts) -> tuple[Ints, Ints]:
    """For each prefix the place of its first text, and the place behind its last one."""
    behind = [successor(str(prefix)) for prefix in wanted.values]
    places = field.places(Texts(column_of(["" if text is None else text for text in behind])))
    end = 2 * len(field.values) + 2
    # column_of numbers equal texts alike, so places are looked up by text
    codes = {text: code for code, text in enumerate(dict.fromkeys(text or "" for text in behind))}
    return (
        field.places(wanted),
        np.array([end if text is None else places[codes[text]] for text in behind], np.int64),
    )


def successor(prefix: str) -> str | None:
    """The smallest text behind all that begin with a prefix; None when there is none."""
    kept = prefix.rstrip(_LAST_CHARACTER)
    return kept[:-1] + chr(ord(kept[-1]) + 1) if kept else None


@condition(NestedMatches)
def _nested_matches(node: NestedMatches, pairs: Pairs) -> Truths:
    return truth_per_distinct(matches, pairs.operand(node.reference), pairs.operand(node.field))


@condition(TopicMatches)
def _topic_matches(node: TopicMatches, pairs: Pairs) -> Truths:
    field, patterns = pairs.operand(node.field), pairs.operand(node.pattern)
    firsts, which = distinct_combinations((field, patterns))
    key, pattern = field.code[firsts], patterns.code[firsts]
    held = field.tag[firsts] == STRING
    everything = np.array([text == "#" for text in patterns.distinct], np.bool_)[pattern]
    if held.any():
        keys, key_of = np.unique(key[held], return_inverse=True)
        asked, pattern_of = np.unique(pattern[held], return_inverse=True)
        _, matcher = _matcher(tuple(str(patterns.distinct[code]) for code in asked.tolist()))
        offsets, found = matcher.match([field.distinct[code] for code in keys.tolist()])
        met = np.repeat(np.arange(len(keys), dtype=np.int64), np.diff(offsets)) * len(asked) + found
        everything[held] = np.isin(key_of * len(asked) + pattern_of, met)
    return _truths(everything[which])


def _topic_matcher(patterns: tuple[str, ...]) -> tuple[int, TopicMatcher]:
    from bindery.router.matching.trie import TopicMatcher  # noqa: PLC0415  # compiled kernels, loaded when needed

    return sum(len(pattern) + 64 for pattern in patterns), TopicMatcher(patterns)


_matcher: Final = Weighed(_topic_matcher, lambda made: made[0], weight=2**20, entries=256)


@condition(Accepts)
def _accepts(node: Accepts, pairs: Pairs) -> Truths:
    return _truths(pairs.truth(node.part) == TRUE)
