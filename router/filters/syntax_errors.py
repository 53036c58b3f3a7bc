"""What to say about a token that does not fit: message, what was expected, a hint.

Works on the tokens around the place and on what the parser would have taken there.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from lark import Token, UnexpectedToken

from bindery.router.errors import FilterError
from bindery.router.filters.dialect import DIALECTS, Dialect
from bindery.router.spelling import did_you_mean, nearest

_OPERAND: Final = "a value"
#: Token types as they are listed to people; several that mean the same are listed once.
_WORDS: Final = {
    "NAME": "a property",
    "QUOTED": "a property",
    "BRACKETED": "a property",
    "BODY": "a property",
    "INTEGER": _OPERAND,
    "HEX": _OPERAND,
    "FLOAT": _OPERAND,
    "BINARY": _OPERAND,
    "STRING": _OPERAND,
    "TRUE": _OPERAND,
    "FALSE": _OPERAND,
    "NULL": "NULL",
    "NAN": _OPERAND,
    "INF": _OPERAND,
    "COMPARISON": "a comparison",
    "PLUS": "an arithmetic operator",
    "MINUS": "an arithmetic operator",
    "STAR": "an arithmetic operator",
    "SLASH": "an arithmetic operator",
    "PERCENT": "an arithmetic operator",
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "COMMA": ",",
    "DOT": ".",
    "$END": "the end",
}
_FUNCTIONS: Final = ("LOWER", "UPPER", "LEFT", "RIGHT", "SUBSTRING", "UTC", "DATE")
#: Words that some language reserves: one grammar serves several, and not all of them have every word in it.
_RESERVED: Final = frozenset(word for dialect in DIALECTS.values() for word in dialect.keywords)
_STARTS_OPERAND: Final = frozenset({"NAME", "QUOTED", "INTEGER", "FLOAT", "STRING"})


def explain(error: UnexpectedToken, tokens: list[Token], text: str, dialect: Dialect) -> FilterError:
    """The FilterError for a sentence that stopped making sense at `error.token`."""
    token = error.token
    ended = token.type == "$END"
    place = len(tokens) if ended else next(n for n, item in enumerate(tokens) if item is token)
    offset = len(text) if ended else token.start_pos or 0
    found = "" if ended else str(token)
    before = tokens[place - 1] if place else None
    if before is not None and before.type == token.type == "COMPARISON" and before.end_pos == offset:
        # two operators written as one, such as ==
        found, offset = before + found, before.start_pos or 0
    return FilterError(
        "the filter ends too early" if ended else f"unexpected {found!r}",
        text=text,
        offset=offset,
        length=len(found),
        expected=tuple(_expected(set(error.accepts or error.expected) - (_RESERVED - dialect.keywords))),
        hint=_hint(place, tokens, text, dialect, set(error.accepts or error.expected)),
    )


def _expected(types: Iterable[str]) -> list[str]:
    names = {_WORDS.get(kind, kind) for kind in types} - {"an arithmetic operator"} or {"an arithmetic operator"}
    if _OPERAND in names:
        names -= set(_FUNCTIONS)
    return sorted(names, key=lambda name: (not name[0].isalpha() or name.isupper(), name))


def _hint(place: int, tokens: list[Token], text: str, dialect: Dialect, expected: set[str]) -> str | None:
    token = tokens[place] if place < len(tokens) else None
    before = tokens[place - 1] if place else None
    for rule in (_operator_hint, _unclosed_hint, _between_hint, _call_hint, _word_hint, _operand_hint):
        hint = rule(token, before, tokens[:place], dialect, expected)
        if hint is not None:
            return hint
    return None


def _operator_hint(
    token: Token | None, before: Token | None, seen: list[Token], dialect: Dialect, expected: set[str]
) -> str | None:
    if token is None or token.type != "COMPARISON" or before is None:
        return None
    if before.type == "COMPARISON" and before.end_pos == token.start_pos:
        return dialect.hints.get(before + token, "one operator too many")
    if before.type != "COMPARISON" and _since_connective(seen) & {"COMPARISON", "LIKE", "IN", "IS", "BETWEEN"}:
        return "comparisons do not chain; join two of them with AND, or put the first in parentheses"
    return None


def _since_connective(seen: list[Token]) -> set[str]:
    types: set[str] = set()
    for token in reversed(seen):
        if token.type in ("AND", "OR", "NOT", "LPAR"):
            break
        types.add(token.type)
    return types


def _unclosed_hint(
    token: Token | None, before: Token | None, seen: list[Token], dialect: Dialect, expected: set[str]
) -> str | None:
    opened = [item for item in seen if item.type == "LPAR"]
    closed = sum(item.type == "RPAR" for item in seen)
    if token is not None and token.type == "RPAR" and len(opened) <= closed:
        return "this parenthesis was not opened"
    if token is None and "RPAR" in expected and len(opened) > closed:
        return f"{len(opened) - closed} of the parentheses opened before are not closed"
    if token is None and "RSQB" in expected:
        return "a bracket opened before is not closed"
    if token is not None and token.type == "RPAR" and before is not None and before.type == "LPAR":
        return "a list needs at least one member"
    return None


def _between_hint(
    token: Token | None, before: Token | None, seen: list[Token], dialect: Dialect, expected: set[str]
) -> str | None:
    if "BETWEEN" in [item.type for item in seen[-6:]] and "AND" in expected and "OR" not in expected:
        return "BETWEEN takes two bounds: x BETWEEN a AND b"
    if token is not None and token.upper() == "BETWEEN" and "BETWEEN" not in dialect.keywords:
        return "there is no BETWEEN in this language; write x >= a AND x <= b"
    return None


def _call_hint(
    token: Token | None, before: Token | None, seen: list[Token], dialect: Dialect, expected: set[str]
) -> str | None:
    if token is None or before is None or token.type != "LPAR" or before.type != "NAME":
        return None
    known = [name for name in _FUNCTIONS if name in dialect.keywords]
    close = nearest(before.upper(), known)
    functions = "functions: " + ", ".join(known) if known else "there are no functions in this language"
    return did_you_mean(close, functions, quoted=False)


def _word_hint(
    token: Token | None, before: Token | None, seen: list[Token], dialect: Dialect, expected: set[str]
) -> str | None:
    for word in (token, before):
        if word is not None and word.type == "NAME" and word.isascii():
            close = difflib.get_close_matches(word.upper(), dialect.keywords - set(_FUNCTIONS), 1, 0.65)
            if close and len(word) > 1:
                return did_you_mean(close[0], quoted=False)
    if token is not None and token.type == "STRING" and token[0] == '"':
        return "a string takes single quotes"
    if token is not None and token.type in _STARTS_OPERAND and before is not None:
        return "an operator is missing between two values"
    return None


def _operand_hint(
    token: Token | None, before: Token | None, seen: list[Token], dialect: Dialect, expected: set[str]
) -> str | None:
    if token is not None and token.type == "NULL" and "NULL" not in expected:
        return "there is no NULL literal; test with IS NULL"
    if token is not None and token.type in dialect.keywords and "NAME" in expected:
        how = f"; as a property write {dialect.quote[0]}{token}{dialect.quote[1]}" if dialect.quote else ""
        return f"{token.type} is a reserved word{how}"
    if token is None and before is not None and "NAME" in expected:
        return f"a value is missing after {str(before)!r}"
    if token is not None and "NAME" in expected:
        return "a value is missing here"
    return None
