"""Hypothesis strategies for filters of every dialect and for messages that they are about.

Both draw from the same few names and the same hostile values, so that comparisons, patterns and references meet
something: null, NaN, both zeros, the ends of 64 bits, neighbours of 2^53, texts that look like numbers, lists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from router.message import Message
from router.values import Table, Timestamp

NAMES = ("a", "b", "s", "t")
INTEGERS = (0, 1, -1, 2, 5, 7, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63))
DOUBLES = (
    0.0,
    -0.0,
    1.0,
    0.5,
    -1.5,
    5.0,
    2.0**53,
    2.0**63,
    -(2.0**63),
    1e308,
    float("inf"),
    -float("inf"),
    float("nan"),
)
TEXTS = (
    *("", "a", "ab", "abc", "b", "A", "%", "_", "a%", "5", "5.0", "-1", "+5", "1e3", " 5", "0x10"),
    *("TRUE", "false", "9223372036854775808", "é", "É", "ß", "😀", "\uffff", "a\nb", "2020-01-01", "2020-01-01T00:00Z"),
)
BINARIES = (b"", b"a", b"ab", b"\xff", b"\x00")
TIMESTAMPS = (Timestamp(0), Timestamp(5), Timestamp(2**53 // 1000), Timestamp(1_577_836_800_000))
SCALARS = (True, False, *INTEGERS, *DOUBLES, *TEXTS, *BINARIES, *TIMESTAMPS)
NESTED = (
    (),
    (1, "a", (5, 2.0)),
    ("a", None, True),
    Table({"a": 1, "b": "x"}),
    Table({"a": Table({"b": (1, 2)}), "0": 5}),
    (Table({"a": "abc"}),),
)

values = st.sampled_from(SCALARS) | st.sampled_from(INTEGERS) | st.sampled_from(TEXTS) | st.sampled_from(NESTED)
_tables = st.dictionaries(st.sampled_from(NAMES), values | st.none(), max_size=4).map(Table)


def _fields(**kinds: st.SearchStrategy) -> st.SearchStrategy:
    return st.fixed_dictionaries({}, optional=kinds)


_short_texts = st.sampled_from(TEXTS)
_moments = st.sampled_from(TIMESTAMPS)
messages = st.builds(
    Message,
    exchange=st.sampled_from(("", "x")),
    header=_fields(
        durable=st.booleans(),
        priority=st.sampled_from((0, 4, 5)),
        ttl=st.sampled_from((0, 5)),
        first_acquirer=st.booleans(),
        delivery_count=st.sampled_from((0, 1, 2**63 - 1)),
    ),
    properties=_fields(
        message_id=st.sampled_from(SCALARS),
        user_id=st.sampled_from(BINARIES),
        to=_short_texts,
        subject=_short_texts,
        correlation_id=st.sampled_from(SCALARS),
        absolute_expiry_time=_moments,
        creation_time=_moments,
        group_id=_short_texts,
        group_sequence=st.sampled_from((0, 5, 2**32 - 1)),
    ),
    application_properties=_tables,
    message_annotations=st.dictionaries(st.sampled_from(("x-opt-jms-type", "jms-type", "a")), values, max_size=2).map(
        Table
    ),
    footer=_tables,
    body=st.none() | st.sampled_from((b"", b"<a/>", b"<a><b>5</b></a>", b"no xml")),
    amqp_value=st.none() | values,
    amqp_sequence=st.none() | st.sampled_from(NESTED),
)


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
_STRINGS = tuple(map(_quoted, TEXTS))
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
        conditions=("XPATH '/a/b = 5'", "XPATH 'a'"),
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
            *("h.priority", "p.subject", "p.message_id", "properties.group_sequence", "m.a", "f.s", "amqp_value"),
            *("amqp_sequence", "v.a.b", "a.a", "[s]", "s[0]", "b['a']", "amqp_sequence[2]", "v[b]", "t[1][0]", "t[s]"),
        ),
        literals=(*_NUMBERS, *_STRINGS, "TRUE", "FALSE", "NULL", "NAN", "INF", "0xFF", "0x61", "UTC()"),
        operators=("+", "-", "*", "/", "%"),
        comparisons=("=", "<>", "!=", "<", "<=", ">", ">="),
        calls=("LOWER({})", "UPPER({})", "DATE({})", "LEFT({}, {})", "RIGHT({}, {})", "SUBSTRING({}, {}, {})"),
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


def filter_texts(dialect: str) -> st.SearchStrategy[str]:
    """Texts of one dialect; most are legal, a few break a type rule."""
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
