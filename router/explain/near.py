"""How near a key or a message's headers came to what a binding asks, and where they part."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from bindery.router.equality import family_equal
from bindery.router.exchanges.headers import criteria_of
from bindery.router.matching.trie import ANY, ONE, pattern_words
from bindery.router.values import TYPE_NAMES, Table, Value, encode


@dataclass(frozen=True, slots=True)
class Miss:
    """Where a binding was missed: in words, and how many of the words or headers asked for agreed."""

    message: str
    matched: int
    asked: int


def type_name(value: Value) -> str | None:
    """The type of a value, in the words of the message model; None for null."""
    return None if value is None else TYPE_NAMES[type(value)]


def shown(value: Value) -> str:
    """A value for a message: its JSON form, cut to a readable length."""
    text = json.dumps(encode(value), ensure_ascii=False)
    return text if len(text) <= 80 else text[:79] + "…"


def described(value: Value) -> str:
    """A value with its type: the string "60"."""
    return "null" if value is None else f"the {type_name(value)} {shown(value)}"


def direct_miss(binding_key: str, keys: Iterable[str]) -> Miss:
    """Where keys of a direct exchange differ: a key is one word there."""
    listed = ", ".join(repr(key) for key in keys)
    near = [key for key in keys if key.casefold() == binding_key.casefold() or key.strip() == binding_key.strip()]
    hint = "; keys compare byte for byte" if near else ""
    return Miss(f"the key is {listed}, the binding wants {binding_key!r}{hint}", 0, 1)


def topic_miss(pattern: str, keys: Iterable[str]) -> Miss:
    """The word at which the nearest of the keys leaves the pattern."""
    return max((_topic_miss(pattern, key) for key in keys), key=lambda miss: miss.matched)


def _topic_miss(pattern: str, key: str) -> Miss:
    tokens = pattern_words(pattern)
    words = key.split(".") if key else []
    asked = len([token for token in tokens if token != ANY])
    places = _closed({0}, tokens)
    for number, word in enumerate(words, 1):
        following = _closed(
            {place if tokens[place] == ANY else place + 1 for place in places if _takes(tokens, place, word)}, tokens
        )
        if not following:
            wanted = _wanted(places, tokens)
            message = f"word {number} of key {key!r} is {word!r}, {pattern!r} wants {wanted}"
            return Miss(message, _agreed(places, tokens), asked)
        places = following
    message = f"key {key!r} ends after {len(words)} words, {pattern!r} wants {_wanted(places, tokens)} next"
    return Miss(message, _agreed(places, tokens), asked)


def _takes(tokens: tuple[str, ...], place: int, word: str) -> bool:
    return place < len(tokens) and tokens[place] in (ANY, ONE, word)


def _closed(places: set[int], tokens: tuple[str, ...]) -> set[int]:
    found = set(places)
    for place in places:
        while place < len(tokens) and tokens[place] == ANY:  # walks over the wildcard
            place += 1  # noqa: PLW2901
            found.add(place)
    return found


def _wanted(places: set[int], tokens: tuple[str, ...]) -> str:
    words = sorted({tokens[place] for place in places if place < len(tokens) and tokens[place] != ANY})
    if not words:
        return "no further word"
    return " or ".join("one more word" if word == ONE else repr(word) for word in words)


def _agreed(places: set[int], tokens: tuple[str, ...]) -> int:
    return max(len([token for token in tokens[:place] if token != ANY]) for place in places)


def headers_miss(arguments: Table, properties: Table) -> Miss:
    """The headers that a binding asks for and a message does not have so."""
    criteria, wanted = criteria_of(arguments)
    if not wanted:
        return Miss("no header is named and x-match is any: the binding matches no message", 0, 1)
    missing = [
        _header_miss(name, value, properties)
        for name, value in wanted.items()
        if name not in properties or (value is not None and not family_equal(value, properties[name]))
    ]
    text = "; ".join(missing)
    if criteria.form == "any":
        return Miss(f"none of {len(wanted)} headers agrees: {text}", 0, 1)
    return Miss(text, len(wanted) - len(missing), len(wanted))


def _header_miss(name: str, wanted: Value, properties: Table) -> str:
    if name not in properties:
        return f"header {name!r} is missing, {'any value' if wanted is None else shown(wanted)} is wanted"
    actual = properties[name]
    if type(actual) is type(wanted) or actual is None:
        return f"header {name!r} is {shown(actual)}, {shown(wanted)} is wanted"
    return f"header {name!r} is {described(actual)}, {described(wanted)} is wanted: unlike types are never equal"
