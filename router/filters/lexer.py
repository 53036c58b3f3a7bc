"""Text to tokens, by a language's table; every cap that needs no syntax is checked here.

Tokens are lark tokens with a Python value where they are constants: the grammar sees types, the tree builder
values. Linear in the text: one compiled expression per language, no backtracking beyond a token.
"""

from __future__ import annotations

import math
import re
import struct
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NoReturn

from lark import Token

from bindery.router.errors import FilterError
from bindery.router.filters.body_paths import MEMBERS, STEP, Path, steps
from bindery.router.filters.dialect import BLANK, Dialect
from bindery.router.filters.limits import Limits

#: After these a minus is binary and a bracket opens an index.
_ENDS_NAME: Final = frozenset({"NAME", "QUOTED", "RSQB", "BODY"})
_ENDS_OPERAND: Final = _ENDS_NAME | {
    "INTEGER",
    "FLOAT",
    "BINARY",
    "STRING",
    "BRACKETED",
    "RPAR",
    "TRUE",
    "FALSE",
    "NULL",
    "NAN",
    "INF",
}
_OPENS: Final = frozenset({"LPAR", "LSQB"})
_CLOSES: Final = frozenset({"RPAR", "RSQB"})
#: Java identifiers: letters, letter numbers, currency, connectors; further digits and marks (JLS §3.8).
_NAME_START: Final = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_NAME_PART: Final = _NAME_START | {"Nd", "Mn", "Mc"}
_FLOAT32_MAX: Final = 3.4028235677973366e38
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
#: Groups of characters that are shown as one when they are no token.
_ODD: Final = re.compile(r"&&|\|\||.", re.DOTALL)


class Constant(Token):
    """A token whose `constant` is the Python value that it stands for."""

    __slots__ = ("constant",)
    constant: Any


@lru_cache(maxsize=64)
def _scanner(tokens: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in tokens))


def tokenize(text: str, dialect: Dialect, *, limits: Limits, start: int = 0) -> list[Token]:
    """All tokens from `start` on; raises FilterError for what is no token and for caps exceeded."""
    scanner = _scanner(tuple(dialect.tokens.items()))
    keywords, blank = dialect.keywords, BLANK
    tokens: list[Token] = []
    kind = before = ""
    levels = 0
    position = start
    end = len(text)
    while True:
        position = blank.match(text, position).end()  # type: ignore[union-attr]  # matches the empty string
        if position == end:
            return tokens
        found = scanner.match(text, position)
        if found is None:
            _refuse(text, position, dialect)
        before, kind = kind, str(found.lastgroup)
        found_text = found.group()
        if kind == "NAME":
            word = found_text.upper() if found_text.isascii() else ""
            if word in keywords:
                kind = word
            elif not word and dialect.java_names:
                _check_name(text, position, found_text)
        elif kind == "BODY":
            for step in STEP.finditer(found_text):
                if step["name"]:
                    _check_name(text, position + step.start("name"), step["name"])
        elif kind == "QUOTED" and before in _ENDS_NAME:
            kind, found_text = _index_opening(found_text)
        token = _token(kind, found_text, position)
        if kind in _CONSTANTS:
            token.constant = _CONSTANTS[kind](found_text, dialect)  # type: ignore[attr-defined]  # a Constant
            if kind in _NUMBERS:
                _check_number(text, token, dialect, after_sign=_is_signed(tokens))
        elif kind in _OPENS:
            levels += 1
            if levels > limits.depth:
                raise FilterError(
                    f"more than {limits.depth} levels of parentheses", text=text, offset=position, length=1
                )
        elif kind in _CLOSES:
            levels -= 1
        elif kind == "BAD_BINARY":
            raise FilterError(
                "not a binary constant",
                text=text,
                offset=position,
                length=len(found_text),
                hint="a binary constant is 0x and an even number of hexadecimal digits",
            )
        tokens.append(token)
        if len(tokens) > limits.tokens:
            raise FilterError(f"more than {limits.tokens} tokens", text=text, offset=position, length=len(found_text))
        position = token.end_pos or 0


def check_text(text: str, limits: Limits) -> None:
    """Raise FilterError for a text that is too long or that is no Unicode text."""
    if len(text) > limits.characters:
        raise FilterError(
            f"the filter has {len(text)} characters, more than {limits.characters}",
            text=text[: limits.characters + 1],
            offset=limits.characters,
            length=1,
            hint="split it into several filters, or raise the limit",
        )
    lone = _SURROGATE.search(text)
    if lone is not None:
        raise FilterError(
            "a lone surrogate is no Unicode text",
            text=_SURROGATE.sub("\ufffd", text),
            offset=lone.start(),
            length=1,
        )


def _token(kind: str, text: str, position: int) -> Token:
    made = Constant if kind in _CONSTANTS else Token
    return made(kind, text, start_pos=position, end_pos=position + len(text))


def _index_opening(text: str) -> tuple[str, str]:
    """A bracket right after a name opens an index (docs/filters.md: `[` right after a name or `]`)."""
    return "LSQB", text[0]


def _is_signed(tokens: list[Token]) -> bool:
    """Whether the last token is a minus that stands as a sign."""
    return bool(tokens) and tokens[-1].type == "MINUS" and (len(tokens) < 2 or tokens[-2].type not in _ENDS_OPERAND)


def _unquote(text: str, dialect: Dialect) -> str:
    quote = text[0]
    return text[1:-1].replace("\\" + quote if dialect.backslash else quote * 2, quote)


def _unquote_name(text: str, dialect: Dialect) -> str:
    name = text[1:-1]
    for mark in dict.fromkeys(dialect.quote or ()):
        name = name.replace(mark * 2, mark)
    return name


def _bracketed(text: str, dialect: Dialect) -> str:
    return text[1:-1].replace("]]", "]")


def _path(text: str, dialect: Dialect) -> Path:
    return steps(text)


def _integer(text: str, dialect: Dialect) -> int | None:
    digits = text.rstrip("lL")
    if dialect.java_names and len(digits) > 1 and digits[0] == "0":
        return int(digits, 8) if set(digits) <= set("01234567") else None
    # a number that cannot fit is not even converted: 2^64 literals of any length stay cheap
    return int(digits) if len(digits.lstrip("0")) <= 20 else 2**64


def _hexadecimal(text: str, dialect: Dialect) -> int:
    return int(text.rstrip("lL"), 16)


def _binary(text: str, dialect: Dialect) -> bytes:
    return bytes.fromhex(text[2:])


def _float(text: str, dialect: Dialect) -> float:
    number = text.rstrip("fFdD") if dialect.java_names else text
    value = float(number)
    if text[-1] in "fF":
        return struct.unpack("<f", struct.pack("<f", value))[0] if value < _FLOAT32_MAX else math.inf
    return value


_CONSTANTS: Final[Mapping[str, Callable[[str, Dialect], Any]]] = {
    "INTEGER": _integer,
    "HEX": _hexadecimal,
    "FLOAT": _float,
    "STRING": _unquote,
    "QUOTED": _unquote_name,
    "BRACKETED": _bracketed,
    "BINARY": _binary,
    "BODY": _path,
}
_NUMBERS: Final = frozenset({"INTEGER", "HEX", "FLOAT"})


def _check_number(text: str, token: Any, dialect: Dialect, *, after_sign: bool) -> None:
    value = token.constant
    problem = hint = None
    if value is None:
        problem, hint = "not an octal number", "digits after a leading 0 are octal; leave the 0 out"
    elif isinstance(value, float):
        if math.isinf(value):
            problem, hint = "a number beyond the range of a double", "the largest is about 1.8e308"
    elif value > dialect.rules.most:
        decimal = token.type == "INTEGER" and not (dialect.java_names and token[0] == "0")
        if not (decimal and after_sign and value == dialect.rules.most + 1):
            problem = f"an integer beyond {dialect.rules.integer_bits} bits"
            hint = "write it as a double, with a decimal point" if "FLOAT" in dialect.tokens else None
    if problem:
        raise FilterError(problem, text=text, offset=token.start_pos, length=len(token), hint=hint)


def _check_name(text: str, position: int, name: str) -> None:
    for n, char in enumerate(name):
        if char.isascii():
            continue
        if unicodedata.category(char) not in (_NAME_PART if n else _NAME_START):
            raise FilterError(
                f"the character {char!r} cannot stand in a name",
                text=text,
                offset=position + n,
                length=1,
                hint="names have letters, digits, _ and $",
            )


def _refuse(text: str, position: int, dialect: Dialect) -> NoReturn:
    odd = _ODD.match(text, position)
    found = odd.group() if odd else text[position : position + 1]
    around = next(
        (text[n : n + 2] for n in (position - 1, position) if n >= 0 and text[n : n + 2] in dialect.hints), found
    )
    hint = dialect.hints.get(around) or dialect.hints.get(found[0])
    if dialect.body and found[0] in ".[" and _AFTER_BODY.search(text, max(0, position - 200), position):
        hint = MEMBERS if "BODY" in dialect.tokens else UNDECLARED
    raise FilterError(f"unexpected {found!r}", text=text, offset=position, length=len(found), hint=hint)


#: A reference into the body right before a place.
_AFTER_BODY: Final = re.compile(r"(?<![A-Za-z0-9_$.])body(?:[.\[][^\s()=<>,]*)?\Z")
UNDECLARED: Final = (
    'to look into bodies, say what they are: "x-payload": "json" among the arguments of the exchange or queue, or '
    '"payload" in a policy; for a filter that is no part of a topology also by itself: --payload json, payload in '
    "REST, job files and Python"
)
