"""Kernels of the hash exchanges: Erlang's term hash of many texts, and jump consistent hashing of many hashes.

`bindery.router.erlang_hash` and `bindery.router.jump_hash` state both for one value and check these. Loaded by
`bindery.router.native.kernels`.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# (numba infers the types of kernels from the arrays that it is given)

from __future__ import annotations

import numpy as np

from bindery.router.native import kernel

_GOLDEN = 0x9E3779B9
#: What tells a binary, and the end of a list, from other terms: multiples of the golden ratio, modulo 2**32.
_BINARY = _GOLDEN * 13 & 0xFFFFFFFF
_LIST = _GOLDEN * 2 & 0xFFFFFFFF
_NIL_TYPE = 2
_SEED_BITS = 2**21 - 1


@kernel
def mixed(a, b, c):
    """Bob Jenkins' mix of three 32-bit words."""
    a = np.uint32(np.uint32(a - b - c) ^ (c >> np.uint32(13)))
    b = np.uint32(np.uint32(b - c - a) ^ np.uint32(a << np.uint32(8)))
    c = np.uint32(np.uint32(c - a - b) ^ (b >> np.uint32(13)))
    a = np.uint32(np.uint32(a - b - c) ^ (c >> np.uint32(12)))
    b = np.uint32(np.uint32(b - c - a) ^ np.uint32(a << np.uint32(16)))
    c = np.uint32(np.uint32(c - a - b) ^ (b >> np.uint32(5)))
    a = np.uint32(np.uint32(a - b - c) ^ (c >> np.uint32(3)))
    b = np.uint32(np.uint32(b - c - a) ^ np.uint32(a << np.uint32(10)))
    c = np.uint32(np.uint32(c - a - b) ^ (b >> np.uint32(15)))
    return a, b, c


@kernel
def word_at(data, place, end):
    """The little-endian word of the four bytes at a place, those from `end` on being 0."""
    word = np.uint32(0)
    for step in range(4):
        if place + step < end:
            word |= np.uint32(data[place + step]) << np.uint32(8 * step)
    return word


@kernel
def binary_hash(data, start, end, before):
    """The 32-bit hash of data[start:end] as a binary, after what gave the hash `before`."""
    a = np.uint32(_GOLDEN)
    b = np.uint32(_GOLDEN)
    c = np.uint32(np.uint32(_BINARY) + before)
    if start == end:
        return c
    place = start
    while end - place >= 12:
        a, b, c = mixed(
            np.uint32(a + word_at(data, place, end)),
            np.uint32(b + word_at(data, place + 4, end)),
            np.uint32(c + word_at(data, place + 8, end)),
        )
        place += 12
    # the lowest byte of the third word counts the bytes
    last = np.uint32(word_at(data, place + 8, end) << np.uint32(8)) + np.uint32(end - start)
    a, b, c = mixed(
        np.uint32(a + word_at(data, place, end)),
        np.uint32(b + word_at(data, place + 4, end)),
        np.uint32(c + np.uint32(last)),
    )
    return c


@kernel
def hash_texts(data, offsets, which, before):
    """The 32-bit hash of each text numbered in `which`, after what gave the hash `before`."""
    found = np.empty(len(which), np.uint32)
    for place in range(len(which)):
        found[place] = binary_hash(data, offsets[which[place]], offsets[which[place] + 1], np.uint32(before))
    return found


@kernel
def end_lists(hashes):
    """The 32-bit hash of each list whose only member has that hash; no binary's hash is taken for an empty list's."""
    found = np.empty(len(hashes), np.uint32)
    for place in range(len(hashes)):
        if hashes[place] == 0:
            found[place] = np.uint32(3_468_870_702)
            continue
        _, _, found[place] = mixed(np.uint32(_LIST + _NIL_TYPE), np.uint32(_LIST), hashes[place])
    return found


@kernel
def jump(hashes, buckets):
    """The bucket, below `buckets`, of each 32-bit hash."""
    found = np.empty(len(hashes), np.int64)
    words = np.empty(16, np.uint64)
    for entry in range(len(hashes)):
        seed = np.uint64((hashes[entry] & np.uint32(_SEED_BITS)) + np.uint32(1))
        mask = np.uint64(_SEED_BITS)
        state = (
            ((seed * np.uint64(2097131)) & mask) << np.uint64(43)
            | ((seed * np.uint64(2097133)) & mask) << np.uint64(22)
            | ((seed * np.uint64(2097143)) & mask) << np.uint64(1)
            | np.uint64(1)
        )
        for place in range(16):
            state ^= state >> np.uint64(12)
            state ^= state << np.uint64(25)
            state ^= state >> np.uint64(27)
            words[15 - place] = state * np.uint64(2685821657736338717)
        place = 0
        bucket = np.int64(0)
        following = 0.0
        while following < buckets:
            bucket = np.int64(following)
            here = words[place]
            place = (place + 1) & 15
            there = words[place] ^ (words[place] << np.uint64(31))
            words[place] = here ^ (here >> np.uint64(30)) ^ there ^ (there >> np.uint64(11))
            number = np.float64(words[place] * np.uint64(1181783497276652981)) / 2.0**64
            # whole numbers far below 2**53, or the end
            following = np.floor((bucket + 1) / number)
        found[entry] = bucket
    return found
