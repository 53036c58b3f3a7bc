"""Topic exchanges: the binding key is a pattern of words (Broker-J §4.6.2.2; AMQP 0-9-1 §3.1.3.3)."""

from __future__ import annotations

from collections.abc import Sequence

from bindery.router.matching.trie import TopicTrie, pattern_words
from bindery.router.model import Binding


def compile_topic(bindings: Sequence[Binding], base: int) -> tuple[TopicTrie, list[int]]:
    """See `bindery.router.exchanges.exchange_type.Compile`."""
    numbers: dict[tuple[str, ...], int] = {}
    rules = [base + numbers.setdefault(pattern_words(binding.routing_key), len(numbers)) for binding in bindings]
    return TopicTrie(list(numbers), base), rules
