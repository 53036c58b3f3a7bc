"""Kernels that pack values as Parquet has them. Loaded by `bindery.router.native.kernels`.

Packed values are bits, the lowest of each byte first, in words of 64 bits (little-endian); behind the last word that
holds any there is one more, so that whoever reads across two words needs not look. Positions of what is gathered are
unsigned (offsets uint64, rows uint32): for others numba asks at every access whether they count from the end. Where
all rows have as much (`each`, uint64, otherwise 0) the offsets are not looked at.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# (numba infers the types of kernels from the arrays that it is given)

from __future__ import annotations

import numpy as np
from numba import types
from numba.core.cgutils import raw_memcpy
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from bindery.router.native import kernel

#: Blocks of delta-encoded integers, and their parts with a width each.
_BLOCK = 128
_MINI = 32


@kernel
def pack(values, width):
    """Values of `width` bits each (up to 32) as words."""
    words = np.zeros(len(values) * width // 64 + 2, np.uint64)
    for n in range(len(values)):
        bit = n * width
        word = bit >> 6
        shift = bit & 63
        value = np.uint64(values[n])
        words[word] |= value << np.uint64(shift)
        if shift + width > 64:
            words[word + 1] |= value >> np.uint64(64 - shift)
    return words


@kernel
def gather_bits(words, offsets, each, rows, size):
    """The bits `offsets[row]` to `offsets[row + 1]` of each row, one after the other, as `size` words."""
    out = np.empty(size, np.uint64)
    one = np.uint64(1)
    last = np.uint64(63)
    full = np.uint64(64)
    held = np.uint64(0)
    fill = np.uint64(0)
    place = np.uint64(0)
    for row in rows:
        start = row * each if each else offsets[row]
        left = each if each else offsets[row + one] - start
        while left:
            count = min(left, full)
            word = start >> np.uint64(6)
            shift = start & last
            # shifted in two steps, since one of 64 has no meaning
            value = (words[word] >> shift) | ((words[word + one] << one) << (last - shift))
            value &= np.uint64(0xFFFFFFFFFFFFFFFF) >> (full - count)
            held |= value << fill
            fill += count
            if fill >= full:
                out[place] = held
                place += one
                fill -= full
                held = (value >> one) >> (count - fill - one) if fill else np.uint64(0)
            start += count
            left -= count
    if fill:
        out[place] = held
        place += one
    for rest in range(place, np.uint64(size)):
        out[rest] = 0
    return out


@kernel
def gather_bytes(content, offsets, each, rows, size):
    """The bytes `offsets[row]` to `offsets[row + 1]` of each row, one after the other: `size` bytes."""
    out = np.empty(size, np.uint8)
    place = np.uint64(0)
    for row in rows:
        start = row * each if each else offsets[row]
        count = each if each else offsets[row + np.uint64(1)] - start
        _copy(content, start, out, place, count)  # type: ignore[call-arg]  # the first argument is numba's
        place += count
    return out


@intrinsic
def _copy(typing, content, start, out, place, count):
    """Copy so many bytes of an array from a position to one of another array."""

    def generate(context, builder, signature, arguments):
        source, destination = (
            builder.gep(make_array(signature.args[n])(context, builder, arguments[n]).data, [arguments[n + 1]])
            for n in (0, 2)
        )
        raw_memcpy(builder, destination, source, arguments[4], 1)
        return context.get_dummy_value()

    return types.void(content, start, out, place, count), generate


@kernel
def gather_values(values, offsets, each, rows, size):
    """The values `offsets[row]` to `offsets[row + 1]` of each row, one after the other: `size` values."""
    out = np.empty(size, values.dtype)
    place = np.uint64(0)
    for row in rows:
        start = row * each if each else offsets[row]
        end = start + each if each else offsets[row + np.uint64(1)]
        for n in range(start, end):
            out[place] = values[n]
            place += np.uint64(1)
    return out


@kernel
def total(offsets, rows):
    """How much of something rows have together, where each has it from `offsets[row]` to `offsets[row + 1]`."""
    size = np.uint64(0)
    for row in rows:
        size += offsets[row + np.uint64(1)] - offsets[row]
    return size


@kernel
def bounds(values, offsets, rows):
    """The least and the greatest of the values `offsets[row]` to `offsets[row + 1]` of rows, and how many they are."""
    least = np.int64(0x7FFFFFFFFFFFFFFF)
    greatest = ~least
    count = 0
    for row in rows:
        for n in range(offsets[row], offsets[row + np.uint64(1)]):
            least = min(least, values[n])
            greatest = max(greatest, values[n])
            count += 1
    return least, greatest, count


@kernel
def with_lengths(content, offsets):
    """Texts (`offsets` int64) with their lengths before them, PLAIN byte arrays: the bytes, and where each begins."""
    count = len(offsets) - 1
    starts = np.empty(count + 1, np.uint64)
    out = np.empty(offsets[count] - offsets[0] + 4 * count, np.uint8)
    place = 0
    for n in range(count):
        starts[n] = place
        length = offsets[n + 1] - offsets[n]
        for byte in range(4):
            out[place + byte] = (length >> (8 * byte)) & 0xFF
        _copy(content, offsets[n], out, place + 4, length)  # type: ignore[call-arg]  # the first argument is numba's
        place += 4 + length
    starts[count] = place
    return out, starts


@kernel
def delta_packed(values):
    """Integers of 64 bits, or from 0 on of 32, as Parquet's DELTA_BINARY_PACKED has them."""
    count = len(values)
    out = np.empty(40 + (count // _BLOCK + 1) * (10 + _BLOCK // _MINI + 8 * _BLOCK), np.uint8)
    place = _varint(out, 0, np.uint64(_BLOCK))
    place = _varint(out, place, np.uint64(_BLOCK // _MINI))
    place = _varint(out, place, np.uint64(count))
    place = _varint(out, place, _zigzag(np.int64(values[0]) if count else np.int64(0)))
    deltas = np.empty(_BLOCK, np.int64)
    for first in range(1, count, _BLOCK):
        here = min(_BLOCK, count - first)
        least = np.int64(values[first]) - np.int64(values[first - 1])
        for n in range(here):
            deltas[n] = np.int64(values[first + n]) - np.int64(values[first + n - 1])
            least = min(least, deltas[n])
        place = _varint(out, place, _zigzag(least))
        widths = place
        place += _BLOCK // _MINI
        for mini in range(_BLOCK // _MINI):
            start = mini * _MINI
            stop = min(start + _MINI, here)
            every = np.uint64(0)
            for n in range(start, stop):
                every |= np.uint64(deltas[n] - least)
            width = 0
            while every:
                width += 1
                every >>= np.uint64(1)
            out[widths + mini] = width
            if start >= here:
                continue
            # the last part is filled up with zeros
            size = _MINI // 8 * width
            held = np.uint64(0)
            fill = 0
            end = place + size
            for n in range(start, stop):
                value = np.uint64(deltas[n] - least)
                held |= value << np.uint64(fill)
                fill += width
                if fill >= 64:
                    for byte in range(8):
                        out[place + byte] = (held >> np.uint64(8 * byte)) & np.uint64(0xFF)
                    place += 8
                    fill -= 64
                    held = value >> np.uint64(width - fill) if fill else np.uint64(0)
            while place < end:
                out[place] = held & np.uint64(0xFF)
                held >>= np.uint64(8)
                place += 1
    return out[:place]


@kernel
def _varint(out, place, number):
    while number >= np.uint64(0x80):
        out[place] = (number & np.uint64(0x7F)) | np.uint64(0x80)
        number >>= np.uint64(7)
        place += 1
    out[place] = number
    return place + 1


@kernel
def _zigzag(number):
    return np.uint64((number << 1) ^ (number >> 63))
