"""Topic exchanges: the binding key is a pattern of words (Broker-J §4.6.2.2; AMQP 0-9-1 §3.1.3.3)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from bindery.router.exchanges.exchange_type import ExchangeType, Miss, Remark
from bindery.router.exchanges.patterns import Pattern, PatternIndex, words
from bindery.router.matching.trie import ANY, ONE, TopicTrie
from bindery.router.message import Message
from bindery.router.model import Binding


class Topic(ExchangeType[Pattern]):
    """A binding asks for the keys of its pattern."""

    reads_key = True

    def asked(self, binding: Binding) -> Pattern:
        """See `ExchangeType`."""
        return Pattern.of(binding.routing_key)

    def matcher(self, asked: Sequence[Pattern], base: int) -> TopicTrie:
        """See `ExchangeType`."""
        return TopicTrie(asked, base)

    def miss(self, binding: Binding, keys: Sequence[str], message: Message) -> Miss | None:
        """The word at which the nearest of the keys leaves the pattern."""
        pattern = self.asked(binding)
        nearest = None
        for key in keys:
            miss = _miss(binding.routing_key, pattern, key)
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


def _miss(text: str, pattern: Pattern, key: str) -> Miss | None:
    places, said = pattern.start, words(key)
    for number, word in enumerate(said, 1):
        following = pattern.step(places, word)
        if not following:
            where = f"word {number} of key {key!r} is {word!r}, {text!r} wants {_wanted(pattern, places)}"
            break
        places = following
    else:
        if pattern.ends(places):
            return None
        where = f"key {key!r} ends after {len(said)} words, {text!r} wants {_wanted(pattern, places)} next"
    agreed = len([word for word in pattern[: places.bit_length() - 1] if word != ANY])
    return Miss(where, agreed, pattern.fewest)


def _wanted(pattern: Pattern, places: int) -> str:
    wanted = sorted({word for place, word in enumerate(pattern) if places >> place & 1 and word != ANY})
    return " or ".join("one more word" if word == ONE else repr(word) for word in wanted) or "no further word"
