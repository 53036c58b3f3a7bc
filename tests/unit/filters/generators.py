"""Hypothesis strategies for filters of every dialect and for messages that they are about.

Both draw from the same few names and the same kinds of values (`kinds`), so that comparisons, patterns and
references meet something. `groups` puts filters of all origins side by side, several on one field.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from hypothesis import strategies as st

from bindery.router.compat import MODES
from bindery.router.errors import FilterError
from bindery.router.filters import Filter, parse
from bindery.router.filters.access import Key, entries, plain_number
from bindery.router.filters.ast import Node
from bindery.router.filters.limits import DEFAULT_LIMITS
from bindery.router.filters.sets import DEFAULT_SET_LIMITS, parse_filter_set
from bindery.router.message import Message
from bindery.router.values import Table, Value
from tests.examples import FACTOR
from tests.unit.filters.kinds import ASKED, INSIDE, MEMBERS, PLACES, SIMPLE_KINDS, VALUES, key_kind, kind_of
from tests.unit.filters.rules import WORDED

NAMES = ("a", "b", "s", "t")


#: Messages and filter sets are drawn from pools, made once: drawing each of their parts takes a hundred times as
#: long, and hypothesis repeats itself in examples of hundreds of parts.
POOL: Final = round(2_000 * min(max(FACTOR, 1), 20))
_choose: Final = random.Random(POOL)


def _of(kinds: Mapping[str, Sequence[Value]]) -> Value:
    """A kind first and a value of it after: a rare kind is met as often as a common one. Often what filters ask."""
    if _choose.random() < 0.3:
        asked = _choose.choice(ASKED)
        if kind_of(asked) in kinds:
            return asked
    return _choose.choice(kinds[_choose.choice(list(kinds))])


def _some(kinds: Mapping[str, Sequence[Value]], depth: int) -> Value:
    """A value of some kind, or a list or map of such."""
    if depth == 0 or _choose.random() < 0.7:
        return _of(kinds)
    inside = {**VALUES, **INSIDE}
    members = [_some(inside, depth - 1) for _ in range(_choose.randrange(4))]
    names = _choose.sample(_KEYS, len(members))
    return tuple(members) if _choose.random() < 0.5 else Table(dict(zip(names, members, strict=True)))


def _pool(make: Callable[[], Any]) -> list[Any]:
    """The simplest first, which is what a failure shrinks to."""
    return sorted((make() for _ in range(POOL)), key=lambda part: len(repr(part)))


def lists(pool: Sequence[Any], *, min_size: int, max_size: int) -> st.SearchStrategy[list[Any]]:
    """Parts of a pool by few draws: hypothesis repeats what it has drawn, most of all in long lists."""

    def chosen(places: tuple[int, int, int]) -> list[Any]:
        start, step, size = places
        return [pool[(start + n * step) % len(pool)] for n in range(size)]

    starts = st.integers(0, len(pool) - 1)
    return st.tuples(starts, st.sampled_from((1, 37, 331)), st.integers(min_size, max_size)).map(chosen)


def _fields(fullness: float, **kinds: Callable[[], Value]) -> dict[str, Value]:
    return {name: make() for name, make in kinds.items() if _choose.random() < fullness}


def _table(fullness: float, *names: str) -> Table:
    return Table({name: _some(VALUES, 2) for name in names if _choose.random() < fullness})


_KEYS: Final = [*NAMES, "0", "int", ""]
_SIMPLE: Final = {kind: VALUES[kind] for kind in SIMPLE_KINDS}
_TEXTS: Final = {kind: VALUES[kind] for kind in SIMPLE_KINDS if "text" in kind}
_NOT_NULL: Final = {kind: values for kind, values in VALUES.items() if kind != "null"}
_BINARIES: Final = {kind: VALUES[kind] for kind in ("binary", "empty binary")}
_MOMENTS: Final = {kind: VALUES[kind] for kind in ("timestamp", "end of timestamps")}


def _message() -> Message:
    """Any parts, and mostly a value where one of the references of the languages looks for it."""
    message = _parts()
    if _choose.random() < 0.3:
        return message
    place = PLACES[_choose.choice(list(PLACES))]
    value = _of(INSIDE) if place.inside and _choose.random() < 0.2 else _some(_NOT_NULL, 1)
    return place.put(message, value)


def _parts() -> Message:
    full = _choose.choice((0.1, 0.5, 0.9))
    return Message(
        exchange=_choose.choice(("", "x")),
        routing_key=_choose.choice(("", "a", "ab", "a.b", "é")),
        connection=_choose.choice((None, "c", "d")),
        header=_fields(
            full,
            durable=lambda: _choose.random() < 0.5,
            priority=lambda: _choose.choice((0, 4, 5)),
            ttl=lambda: _choose.choice((0, 5, 2**63 - 1)),
            first_acquirer=lambda: _choose.random() < 0.5,
            delivery_count=lambda: _choose.choice((0, 1, 2**63 - 1)),
        ),
        properties=_fields(
            full,
            message_id=lambda: _some(_NOT_NULL, 2),
            user_id=lambda: _of(_BINARIES),
            to=lambda: _of(_TEXTS),
            subject=lambda: _of(_TEXTS),
            correlation_id=lambda: _of(_SIMPLE),
            absolute_expiry_time=lambda: _of(_MOMENTS),
            creation_time=lambda: _of(_MOMENTS),
            group_id=lambda: _of(_TEXTS),
            group_sequence=lambda: _choose.choice((0, 5, 2**32 - 1)),
        ),
        application_properties=_table(full, *NAMES, ""),
        message_annotations=_table(full, "x-opt-jms-type", "jms-type", "a", "b"),
        delivery_annotations=_table(full, "a", "b"),
        footer=_table(full, *NAMES),
        body=_choose.choice((None, b"", b"<a/>", b"<a><b>5</b></a>", b"no xml")),
        amqp_value=_some(_NOT_NULL, 2) if _choose.random() < full else None,
        amqp_sequence=_some(_NOT_NULL, 2) if _choose.random() < full else None,
    )


MESSAGES: Final[list[Message]] = _pool(_message)
messages = st.sampled_from(MESSAGES)


def batches(min_size: int, max_size: int) -> st.SearchStrategy[list[Message]]:
    """Lists of messages."""
    return lists(MESSAGES, min_size=min_size, max_size=max_size)


@dataclass(frozen=True)
class Language:
    """The parts of a dialect that sentences are made of; each is a list of texts."""

    properties: tuple[str, ...]
    literals: tuple[str, ...]
    operators: tuple[str, ...]
    comparisons: tuple[str, ...]
    calls: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ("",)
    computed_patterns: bool = False
    between: bool = True


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_NUMBERS = (
    *("0", "1", "2", "5", "-5", "7", "0.5", "5.", ".5", "1e3", "-0.0", "9007199254740992", "9007199254740993"),
    *("9007199254740992.0", "9223372036854775807", "-9223372036854775808", "9223372036854775808.0", "1e308"),
)
_STRINGS = tuple(_quoted(str(text)) for kind in SIMPLE_KINDS if "text" in kind for text in VALUES[kind])
_PATTERNS = ("%", "_", "a%", "%a", "_%", "%_a", "a_b", "a!%", "!_%", "%5%", "", "é", "a%b%c", "__", "!!a")

LANGUAGES = {
    "jms": Language(
        properties=(*NAMES, "JMSPriority", "JMSType", "JMSMessageID", "JMSTimestamp", "JMSRedelivered", "JMSXUserID"),
        literals=(*_NUMBERS, *_STRINGS, "TRUE", "FALSE", "0x1F", "017", "5L", "0.1f", "7d"),
        operators=("+", "-", "*", "/"),
        comparisons=("=", "<>", "<", "<=", ">", ">="),
    ),
    "apache-selector": Language(
        properties=(*NAMES, "amqp.subject", "amqp.priority", "amqp.correlation_id", "amqp.jms_type", "JMSDeliveryMode"),
        literals=(*_NUMBERS, *_STRINGS, "TRUE", "FALSE"),
        operators=("+", "-", "*", "/"),
        comparisons=("=", "<>", "<", "<=", ">", ">="),
    ),
    "artemis": Language(
        properties=(*NAMES, '"s"', "AMQPriority", "AMQAddress", "AMQExpiration", "AMQDurable", "AMQSize", "AMQUserID"),
        literals=(*_NUMBERS, *_STRINGS, "TRUE", "FALSE"),
        operators=("+", "-", "*", "/", "%"),
        comparisons=("=", "<>", "<", "<=", ">", ">="),
        conditions=("XPATH '/a/b = 5'", "XPATH 'a'", "XPATH 'a' = TRUE", "b <> XPATH '/a/b = 5'", "XPATH 'a' IS NULL"),
        prefixes=(
            "",
            "convert_string_expressions:",
            "hyphenated_props:",
            "hyphenated_props:convert_string_expressions:",
        ),
    ),
    "amqp-sql": Language(
        properties=(
            *NAMES,
            *(
                "h.priority",
                "h.ttl",
                "p.subject",
                "p.message_id",
                "p.user_id",
                "properties.group_sequence",
                "m.a",
                "f.s",
            ),
            *("d.a", "amqp_value", "amqp_sequence", "v.a.b", "a.a", "[s]", "s[0]", "b['a']", "amqp_sequence[1]"),
            *("v[b]", "t[1][0]", "t[s]", "[]", "f.b", "p.creation_time", "m.a[0]", "amqp_sequence[0]"),
            *(place.expression for place in PLACES.values() if place.inside),
        ),
        literals=(*_NUMBERS, *_STRINGS, "TRUE", "FALSE", "NULL", "NAN", "INF", "0xFF", "0x61", "UTC()"),
        operators=("+", "-", "*", "/", "%"),
        comparisons=("=", "<>", "!=", "<", "<=", ">", ">="),
        calls=("LOWER({})", "UPPER({})", "DATE({})", "LEFT({}, {})", "RIGHT({}, {})", "SUBSTRING({}, {}, {})"),
        computed_patterns=True,
        between=False,
    ),
    "service-bus": Language(
        properties=(
            *("a", "A", "B", "s", "T", "user.a", "USER.b", "[s]", '"T"', "[]", "p('a')", "property('B')"),
            *("sys.Label", "sys.subject", "SYS.MessageId", "sys.CorrelationId", "sys.[To]", "sys.SessionId"),
        ),
        literals=(*_NUMBERS, *_STRINGS, "TRUE", "false", "NULL"),
        operators=("+", "-", "*", "/", "%"),
        comparisons=("=", "<>", "!=", "<", "<=", ">", ">="),
        computed_patterns=True,
        between=False,
    ),
}


def _operands(language: Language) -> st.SearchStrategy[str]:
    atoms = st.sampled_from(language.properties) | st.sampled_from(language.literals)

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        grown = [
            st.builds("({} {} {})".format, inner, st.sampled_from(language.operators), inner),
            st.builds("{} ({})".format, st.sampled_from("+-"), inner),
        ]
        grown += [st.builds(call.format, *[inner] * call.count("{}")) for call in language.calls]
        return st.one_of(grown)

    return st.recursive(atoms, grow, max_leaves=3)


def _event_texts() -> st.SearchStrategy[str]:
    """Texts of CloudEvents SQL, where any expression may stand anywhere."""
    attributes = st.sampled_from((*NAMES, "subject", "type", "A"))
    strings = ("'a'", '"ab"', "'5'", "' 5'", "'-7'", "'true'", "'FALSE'", "''", "'2147483648'", "'a\\'b'", "'é\u2028'")
    literals = st.sampled_from((*strings, "0", "1", "-5", "2147483647", "-2147483648", "+2", "TRUE", "false"))
    patterns = st.sampled_from((*_PATTERNS, "a\\%", "\\_%", "5%", "tr%", "a\\b", "\\\\%")).map(_quoted)
    operators = ("=", "<>", "!=", "<", ">=", "+", "-", "*", "/", "%", *("AND", "OR") * 4, *("XOR",) * 2)
    ones = ("INT", "BOOL", "STRING", "IS_INT", "IS_BOOL", "LENGTH", "TRIM", "ABS", "lower", "UPPER", "CONCAT")
    templates = (
        *(f"({{}} {operator} {{}})" for operator in operators),
        *(f"{name}({{}})" for name in ones),
        *("CONCAT_WS({}, {}, {})", "LEFT({}, {})", "RIGHT({}, {})", "SUBSTRING({}, {})", "SUBSTRING({}, {}, {})"),
        *(
            "CONCAT()",
            "NOT ({})",
            "-({})",
            "({} OR {} AND {})",
            "({} IN ({}, {}))",
            "({} NOT IN ({}, {}))",
            "(EXISTS a)",
        ),
    )

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.builds(str.format, st.sampled_from(templates), inner, inner, inner) | st.builds(
            "({} {}LIKE {})".format, inner, st.sampled_from(("", "NOT ")), patterns
        )

    plain = st.builds("{} {} {}".format, attributes, st.sampled_from(("=", "<>", "<")), literals)
    expressions = st.recursive(attributes | literals, grow, max_leaves=5)
    either = st.builds("{} {} {}".format, plain, st.sampled_from(("AND", "OR")), plain)
    return st.one_of(plain, either, expressions, st.builds("{} = {}".format, expressions, expressions))


def filter_texts(dialect: str) -> st.SearchStrategy[str]:
    """Texts of one dialect; most are legal, a few break a type rule."""
    if dialect == "cesql":
        return _event_texts()
    language = LANGUAGES[dialect]
    operands = _operands(language)
    # half of the comparisons are of the shape that real filters have
    plain = st.sampled_from(language.properties)
    literal = st.sampled_from(language.literals)
    nots = st.sampled_from(("", "NOT "))
    patterns = st.sampled_from(_PATTERNS).map(_quoted)
    escapes = st.sampled_from(("", " ESCAPE '!'"))
    lists = st.lists(operands if language.computed_patterns else st.sampled_from(_STRINGS), min_size=1, max_size=3)
    simple = [
        st.builds("{} {} {}".format, plain, st.sampled_from(("=", "=", *language.comparisons)), literal),
        st.builds("{} {} {}".format, operands, st.sampled_from(language.comparisons), operands),
        st.builds("{} {}IN ({})".format, plain, nots, lists.map(", ".join)),
        st.builds("{} {}LIKE {}{}".format, operands, nots, patterns, escapes),
        st.builds("{} IS {}NULL".format, plain, nots),
        plain,
    ]
    if language.between:
        simple.append(st.builds("{} {}BETWEEN {} AND {}".format, operands, nots, operands, operands))
    if language.computed_patterns:
        simple.append(st.builds("{} {}LIKE {} ESCAPE {}".format, operands, nots, operands, operands))
        simple.append(st.builds("EXISTS({})".format, plain))
    if language.conditions:
        simple.append(st.sampled_from(language.conditions))

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        joined: Callable[..., str] = " {} ".join  # type: ignore[assignment]  # formatted below
        chains = st.builds(
            lambda word, parts: joined(parts).replace("{}", word),
            st.sampled_from(("AND", "OR")),
            st.lists(inner.map("({})".format), min_size=2, max_size=3),
        )
        return chains | inner.map("NOT ({})".format) | st.builds("({}) = ({})".format, inner, inner)

    return st.builds(
        str.__add__, st.sampled_from(language.prefixes), st.recursive(st.one_of(simple), grow, max_leaves=4)
    )


# -- parsed filters and groups of them ------------------------------------------------------------------


def _parsed(text: str, dialect: str, mode: str | None = None) -> Filter | None:
    """The filter, or None for a text that breaks a rule."""
    try:
        return parse(text, dialect, limits=replace(DEFAULT_LIMITS, compat=mode))
    except FilterError:
        return None


def filters(dialect: str) -> st.SearchStrategy[Filter]:
    """Filters of one dialect."""
    return filter_texts(dialect).map(lambda text: _parsed(text, dialect)).filter(bool)


#: The specification, as often as any compatibility mode.
modes = st.none() | st.sampled_from(sorted(MODES))


def filters_in_modes(dialect: str) -> st.SearchStrategy[Filter]:
    """Filters of one dialect, under any compatibility mode."""
    return st.builds(lambda text, mode: _parsed(text, dialect, mode), filter_texts(dialect), modes).filter(bool)


def _set_in_mode(raw: dict[str, Any], mode: str | None) -> Filter:
    limits = replace(DEFAULT_SET_LIMITS, text=replace(DEFAULT_LIMITS, compat=mode))
    return parse_filter_set(raw, limits=limits)


def _by_kind(members: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Filters by the kinds of keys that they have."""
    found: dict[str, list[dict[str, Any]]] = {}
    for member in members:
        tree = parse_filter_set({"f": member}).expression
        for kind in sorted({key_kind(key) for entry in entries(tree) for key in entry.keys} or {"none"}):
            found.setdefault(kind, []).append(member)
    return found


def _asked(tree: Node) -> set[str]:
    """The values that the keys of a filter ask for."""
    keys = [key for entry in entries(tree) for key in entry.keys]
    return {repr(plain_number(key.value.value)) for key in keys if isinstance(key, Key)}


def _by_value(members: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Filters that one value satisfies by different keys."""
    found: dict[str, list[dict[str, Any]]] = {}
    for member in members:
        tree = parse_filter_set({"f": member}).expression
        for value in _asked(tree):
            found.setdefault("0" if value == "-0.0" else value, []).append(member)
    return [members for _, members in sorted(found.items()) if len(members) > 1]


_ON_FIELD: Final = [_by_kind(members) for members in MEMBERS.values()]
_ON_VALUE: Final = [_by_value(members) for members in MEMBERS.values()]
_GROUPS: Final = ("amqp:any-filter", "amqp:any-filter", "amqp:all-filter", "amqp:not-filter")


def _member(fields: Sequence[Mapping[str, list[dict[str, Any]]]], depth: int) -> dict[str, Any]:
    """A filter with keys of some kind, or a group of such."""
    if depth == 0 or _choose.random() < 0.4:
        members = _choose.choice(fields)
        kinds = [kind for kind in members if kind.startswith("field")] if _choose.random() < 0.6 else []
        return _choose.choice(members[_choose.choice(kinds or list(members))])
    inner = [_member(fields, depth - 1) for _ in range(_choose.randrange(1, 4))]
    return {"descriptor": _choose.choice(_GROUPS), "value": inner}


def _either() -> dict[str, Any]:
    """A plain OR of filters on one field, of those that one value satisfies or of any."""
    if _choose.random() < 0.5:
        alike = _choose.choice(_choose.choice(_ON_VALUE))
        members = _choose.sample(alike, min(len(alike), _choose.randrange(2, 4)))
    else:
        fields = [_choose.choice(_ON_FIELD)]
        members = [_member(fields, 0) for _ in range(_choose.randrange(2, 5))]
    return {"descriptor": "amqp:any-filter", "value": members}


#: Filter sets whose members are about one field, half of them a plain OR: their keys meet there.
SETS_ON_ONE_FIELD: Final = _pool(
    lambda: {"f": _either() if _choose.random() < 0.5 else _member([_choose.choice(_ON_FIELD)], 2)}
)
#: Filter sets about any fields.
SETS: Final = _pool(lambda: {name: _member(_ON_FIELD, 2) for name in "fg"[: _choose.randrange(3)]})
any_set = st.builds(_set_in_mode, st.sampled_from(SETS_ON_ONE_FIELD) | st.sampled_from(SETS), modes)
any_filter = st.one_of(*(filters_in_modes(dialect) for dialect in WORDED), any_set, any_set)


@st.composite
def groups(draw: st.DrawFn) -> list[list[Filter]]:
    """A few groups of filters from one pool: filters are shared between groups and repeated inside them.

    One in three holds a single filter: what many filters compile to depends on all of them.
    """
    if draw(st.integers(0, 2)) == 0:
        return [[draw(any_filter)]]
    pool = draw(st.lists(any_filter, min_size=1, max_size=5))
    return draw(st.lists(st.lists(st.sampled_from(pool), max_size=6), min_size=1, max_size=4))
