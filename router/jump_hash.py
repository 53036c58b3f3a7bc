"""Jump consistent hashing as RabbitMQ's consistent hash exchange does it (Lamping and Veach, 2014, with its generator).

The paper's linear congruential generator is replaced by Erlang's `rand` with the algorithm exs1024, seeded with the
hash three times; of a hash 21 bits take part. `bindery.router.matching.hash_kernels` does the same for many at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bindery.router.erlang_hash import RANGE_BITS

_WORD: Final = 2**64 - 1
_SEED_BITS: Final = 2**21 - 1
_WORDS: Final = 16


def jump(hashed: int, buckets: int) -> int:
    """The bucket, below `buckets` (at least 1), of a 32-bit hash."""
    numbers = _uniform(hashed & 2**RANGE_BITS - 1)
    bucket, following = 0, 0
    while following < buckets:
        bucket = following
        following = int((bucket + 1) / next(numbers))
    return bucket


def _uniform(seed: int) -> Iterator[float]:
    """Random numbers above 0, at most 1 (Vigna's xorshift1024*, seeded by xorshift64*)."""
    first, second, third = (((seed & _SEED_BITS) + 1) * factor & _SEED_BITS for factor in (2097131, 2097133, 2097143))
    state = first << 43 | second << 22 | third << 1 | 1
    words = [0] * _WORDS
    for place in reversed(range(_WORDS)):
        state ^= state >> 12
        state ^= state << 25 & _WORD
        state ^= state >> 27
        words[place] = state * 2685821657736338717 & _WORD
    place = 0
    while True:
        here = words[place]
        place = (place + 1) % _WORDS
        there = words[place] ^ words[place] << 31 & _WORD
        words[place] = here ^ here >> 30 ^ there ^ there >> 11
        yield float(words[place] * 1181783497276652981 & _WORD) / 2.0**64
