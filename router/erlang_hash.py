"""The portable term hash of Erlang (`phash2`), for the terms that binding arguments, keys and headers are.

The broker names a binding with arguments by this hash of its argument table. Giving the same hash keeps
addresses that clients have stored, Terraform's state for one, valid after a move. Hash exchanges choose a queue by
it (`bindery.router.exchanges.hashing`). Bob Jenkins' 1997 hash ("lookup2") mixes 32-bit words; Erlang/OTP's
documentation fixes the values for all releases. `bindery.router.matching.hash_kernels` hashes many texts at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from bindery.router.values import Table, Timestamp, Value

_WORD: Final = 0xFFFFFFFF
_GOLDEN: Final = 0x9E3779B9
#: `phash2` without a range keeps so many of the low bits.
RANGE_BITS: Final = 27
#: The hash of an empty list that begins a term, and the number of its type inside one.
_NIL_ALONE: Final = 3_468_870_702
_NIL_TYPE: Final = 2
#: Integers of this many bits are hashed as machine words, wider ones digit by digit.
_SMALL: Final = 2**27


def _salt(number: int) -> int:
    """The constant that tells kinds of terms apart."""
    return _GOLDEN * number & _WORD


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    a = (a - b - c) & _WORD ^ c >> 13
    b = (b - c - a) & _WORD ^ a << 8 & _WORD
    c = (c - a - b) & _WORD ^ b >> 13
    a = (a - b - c) & _WORD ^ c >> 12
    b = (b - c - a) & _WORD ^ a << 16 & _WORD
    c = (c - a - b) & _WORD ^ b >> 5
    a = (a - b - c) & _WORD ^ c >> 3
    b = (b - c - a) & _WORD ^ a << 10 & _WORD
    c = (c - a - b) & _WORD ^ b >> 15
    return a, b, c


class _Hash:
    """A hash under way; every method takes one more part of the term."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def words(self, first: int, second: int, salt: int) -> None:
        _, _, self.value = _mix((salt + first) & _WORD, (salt + second) & _WORD, self.value)

    def atom(self, name: str) -> None:
        code = 0
        for byte in name.encode():  # Peter Weinberger's hash of the name
            code = (code << 4) + byte
            top = code & 0xF0000000
            code ^= top >> 24 ^ top
        if self.value:
            self.words(code, 0, _salt(3))
        else:
            self.value = code

    def binary(self, content: bytes) -> None:
        salt = (_salt(13) + self.value) & _WORD
        if not content:
            self.value = salt
            return
        a, b, c = _GOLDEN, _GOLDEN, salt
        whole = len(content) // 12 * 12
        for start in range(0, whole, 12):
            x, y, z = struct.unpack_from("<III", content, start)
            a, b, c = _mix((a + x) & _WORD, (b + y) & _WORD, (c + z) & _WORD)
        tail = content[whole:]
        x, y = struct.unpack("<II", tail[:8].ljust(8, b"\0"))
        # the lowest byte of the third word counts the bytes
        z = int.from_bytes(b"\0" + tail[8:], "little") + len(content)
        _, _, self.value = _mix((a + x) & _WORD, (b + y) & _WORD, (c + z) & _WORD)

    def integer(self, value: int) -> None:
        if -_SMALL <= value < _SMALL:
            if value < 0:
                self.words(-value, 0, _salt(1))
            self.words(value & _WORD, 0, _salt(1))
            return
        digits, salt = abs(value), _salt(10 if value < 0 else 11)
        while True:
            self.words(digits & _WORD, digits >> 32 & _WORD, salt)
            digits >>= 64
            if not digits:
                return

    def double(self, value: float) -> None:
        low, high = struct.unpack("<II", struct.pack("<d", value + 0.0))
        self.words(high, low, _salt(12))

    def nil(self) -> None:
        if self.value:
            self.words(_NIL_TYPE, 0, _salt(2))
        else:
            self.value = _NIL_ALONE

    def tuple(self, arity: int) -> None:
        self.words(arity, 0, _salt(9))

    def field(self, value: Value) -> None:
        """The type of a field and its value, two members of a tuple."""
        match value:
            case None:
                self.atom("void")
                self.atom("undefined")
            case bool():
                self.atom("bool")
                self.atom(str(value).lower())
            case int():
                self.atom("long")
                self.integer(value)
            case float():
                self.atom("double")
                self.double(value)
            case str():
                self.atom("longstr")
                self.binary(value.encode())
            case bytes():
                self.atom("binary")
                self.binary(value)
            case Timestamp():
                self.atom("timestamp")
                self.integer(value.ms // 1000)
            case tuple():
                self.atom("array")
                for item in value:
                    self.tuple(2)
                    self.field(item)
                self.nil()
            case Table():
                self.atom("table")
                self.table(value)

    def table(self, content: Mapping[str, Value]) -> None:
        """A list of (name, type, value), sorted by name."""
        for name in sorted(content, key=str.encode):
            self.tuple(3)
            self.binary(name.encode())
            self.field(content[name])
        self.nil()


def arguments_hash(arguments: Mapping[str, Value]) -> int:
    """The 32-bit hash that the broker gives an argument table."""
    state = _Hash()
    state.table(arguments)
    return state.value


def keys_hash(keys: Iterable[str]) -> int:
    """The 32-bit hash of a list of routing keys."""
    state = _Hash()
    for key in keys:
        state.binary(key.encode())
    state.nil()
    return state.value


def text_hash(text: str | bytes, start: int = 0) -> int:
    """The 32-bit hash of a binary, of its own or after what gave the hash `start`."""
    state = _Hash(start)
    state.binary(text.encode() if isinstance(text, str) else text)
    return state.value


def atom_hash(name: str) -> int:
    """The 32-bit hash of an atom of its own."""
    state = _Hash()
    state.atom(name)
    return state.value


def field_hash(value: Value) -> int:
    """The 32-bit hash of a header as the broker holds it: the tuple of its type and value."""
    state = _Hash()
    state.tuple(2)
    state.field(value)
    return state.value


def text_field_start() -> int:
    """The hash of what comes before the text of a header that is one: `text_hash` goes on from there."""
    state = _Hash()
    state.tuple(2)
    state.atom("longstr")
    return state.value
