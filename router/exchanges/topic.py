"""Topic exchanges: the binding key is a pattern of words (Broker-J §4.6.2.2; AMQP 0-9-1 §3.1.3.3)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from bindery.router.compat import TOPIC_EMPTY_WORDS, switches_of
from bindery.router.exchanges.exchange_type import ExchangeType, Miss, Remark
from bindery.router.exchanges.patterns import Pattern, PatternIndex, words
from bindery.router.filters.limits import Payload
from bindery.router.matching.trie import ANY, ONE, SpellingTrie, TopicTrie
from bindery.router.message import Message
from bindery.router.model import MAX_NAME_BYTES, Binding, Exchange


class Topic(ExchangeType[Pattern]):
    """A binding asks for the keys of its pattern; `spelled` is how a key is read under a compatibility mode."""

    reads_key = True

    def __init__(self, spelled: Callable[[str], str] | None = None) -> None:
        self._spelled = spelled

    def at(
        self,
        exchange: Exchange,
        bindings: Callable[[], Iterable[Binding]],
        payload: Payload | None,
        compat: str | None = None,
    ) -> Topic:
        """See `ExchangeType`."""
        return _TRIMMING if TOPIC_EMPTY_WORDS in switches_of(compat) else self

    def _read(self, key: str) -> str:
        return key if self._spelled is None else self._spelled(key)

    def asked(self, binding: Binding) -> Pattern:
        """See `ExchangeType`."""
        return Pattern.of(self._read(binding.routing_key))

    def matcher(self, asked: Sequence[Pattern], base: int) -> TopicTrie:
        """See `ExchangeType`."""
        return TopicTrie(asked, base) if self._spelled is None else SpellingTrie(asked, base, self._spelled)

    def miss(self, binding: Binding, keys: Sequence[str], message: Message) -> Miss | None:
        """The word at which the nearest of the keys leaves the pattern."""
        pattern = self.asked(binding)
        nearest = None
        for key in keys:
            miss = _miss(binding.routing_key, pattern, key, words(self._read(key)))
            if miss is None:
                return None
            if nearest is None or miss.matched > nearest.matched:
                nearest = miss
        return nearest

    def always(self, asked: Pattern) -> bool:
        """See `ExchangeType`."""
        return asked == (ANY,)

    def covers(self, wide: Pattern, narrow: Pattern) -> bool:
        """See `ExchangeType`."""
        return wide.covers(narrow)

    def wider(self, asked: Collection[Pattern]) -> Callable[[Pattern], Iterable[Pattern]]:
        """Only a pattern with a wildcard covers another one than itself."""
        return PatternIndex(pattern for pattern in asked if not pattern.exact).candidates

    def remarks(self, binding: Binding) -> Iterator[Remark]:
        """See `ExchangeType`."""
        for word in words(binding.routing_key):
            if word not in (ONE, ANY) and (ONE in word or ANY in word):
                yield "BT104", f"the word {word!r} of key {binding.routing_key!r} is a literal"
        yield from super().remarks(binding)


#: The one word of the empty key where it has one. No pattern names it: it is longer than a key may be.
_EMPTY_WORD: Final = "\0" * (MAX_NAME_BYTES + 1)


def without_last_empty_words(key: str) -> str:
    """A key without the empty words at its end; the empty key stays one word (Broker-J, as Java splits a text).

    "a.." is "a", "." has no words, "" has one.
    """
    if key == "":
        return _EMPTY_WORD
    trimmed = key.rstrip(".")
    return trimmed + "\0" if trimmed == _EMPTY_WORD else trimmed


_TRIMMING: Final = Topic(without_last_empty_words)


def _miss(text: str, pattern: Pattern, key: str, said: Sequence[str]) -> Miss | None:
    places = pattern.start
    for number, word in enumerate(said, 1):
        following = pattern.step(places, word)
        if not following:
            where = f"word {number} of key {key!r} is {_shown(word)!r}, {text!r} wants {_wanted(pattern, places)}"
            break
        places = following
    else:
        if pattern.ends(places):
            return None
        where = f"key {key!r} ends after {len(said)} words, {text!r} wants {_wanted(pattern, places)} next"
    agreed = len([word for word in pattern[: places.bit_length() - 1] if word != ANY])
    return Miss(where, agreed, pattern.fewest)


def _shown(word: str) -> str:
    return "" if word == _EMPTY_WORD else word


def _wanted(pattern: Pattern, places: int) -> str:
    wanted = sorted({_shown(word) for place, word in enumerate(pattern) if places >> place & 1 and word != ANY})
    return " or ".join("one more word" if word == ONE else repr(word) for word in wanted) or "no further word"
