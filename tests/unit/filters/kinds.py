"""The kinds of values, references and keys that the code tells apart, each with what stands for it.

The exhaustive tests (`test_every_kind`) take all of them, the random ones draw a kind first and a value of it
after, so that a rare kind is met as often as a common one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from bindery.router.columns import Ref
from bindery.router.filters.access import Lead, Within, Word
from bindery.router.filters.pairs import COMPUTED
from bindery.router.message import Message
from bindery.router.values import INT64_MAX, INT64_MIN, TIMESTAMP_MAX, TIMESTAMP_MIN, Table, Timestamp, Value

BEYOND: Final = 2**64 - 1  #: an unsigned integer that only nested values hold


def _deep(levels: int) -> Value:
    value: Value = 5
    for _ in range(levels):
        value = (value,)
    return value


#: Kind -> values. Several kinds hold what looks like 5, "a" or zero, so that unlike families meet.
VALUES: Final[Mapping[str, tuple[Value, ...]]] = {
    "boolean": (True, False),
    "integer": (0, 1, 5, -1, 2, 7),
    "integer near 2^53": (2**53, 2**53 + 1, -(2**53) - 1),
    "end of 64 bits": (INT64_MAX, INT64_MIN, 2**62),
    "whole double": (5.0, 1.0, 2.0**53),
    "fraction": (0.5, -1.5),
    "zero": (0.0, -0.0),
    "NaN": (math.nan,),
    "infinity": (math.inf, -math.inf),
    "double beyond 64 bits": (2.0**63, -(2.0**63), 1e308),
    "text": ("a", "ab", "abc", "b", "A", "a\nb", "%", "_", "a%"),
    "empty text": ("",),
    "number as text": ("5", "5.0", "-1", "+5", "1e3", " 5", "0x10", "9223372036854775808"),
    "boolean as text": ("TRUE", "false"),
    "date as text": ("2020-01-01", "2020-01-01T00:00Z"),
    "wide text": ("é", "É", "ß", "ẞ", "😀", "\uffff", "ǅ"),
    "dotted text": ("a.b", "a..b", "b.a.b", "a.b.", "."),
    "long text": ("ab" * 20, "ab" * 16 + "c"),
    "binary": (b"a", b"ab", b"\xff", b"\x00", b"5"),
    "empty binary": (b"",),
    "timestamp": (Timestamp(5), Timestamp(0), Timestamp(1_577_836_800_000)),
    "end of timestamps": (Timestamp(TIMESTAMP_MIN), Timestamp(TIMESTAMP_MAX)),
    "list": ((5, "a", (5, 2.0)), ("a", True), ("ab",), (0.0, -0.0), (b"a", Timestamp(5))),
    "empty list": ((),),
    "map": (Table({"a": 5, "b": "x"}), Table({"a": Table({"b": (1, 2)}), "0": 5}), Table({"a": "ab"})),
    "empty map": (Table(),),
    "null inside": (("a", None, True), (None,), Table({"a": None})),
    "beyond 64 bits inside": ((BEYOND,), (5, BEYOND), (BEYOND, 5), Table({"a": BEYOND}), Table({"a": (BEYOND, -1)})),
    "NaN inside": ((math.nan, math.inf), Table({"a": math.nan})),
    "end of timestamps inside": ((Timestamp(TIMESTAMP_MAX),), Table({"a": Timestamp(TIMESTAMP_MIN)})),
    "type name as key": (Table({"int": 5}), (Table({"timestamp": "a"}),)),
    "deep": (_deep(90), Table({"a": _deep(80)})),
    "null": (None,),
}
#: Kinds that stand in lists and maps alone.
INSIDE: Final[Mapping[str, tuple[Value, ...]]] = {"beyond 64 bits": (BEYOND, -BEYOND, INT64_MAX + 1, INT64_MIN - 1)}
KIND_OF: Final[Mapping[str, str]] = {
    f"{type(value).__name__} {value!r}": kind for kind, values in (*VALUES.items(), *INSIDE.items()) for value in values
}
SIMPLE_KINDS: Final = tuple(
    kind for kind, values in VALUES.items() if not isinstance(values[0], tuple | Table) and values[0] is not None
)


def kind_of(value: Value) -> str | None:
    """The kind of a value of the table; None for any other."""
    return KIND_OF.get(f"{type(value).__name__} {value!r}")


#: What most filters of `MEMBERS` ask for.
ASKED: Final[tuple[Value, ...]] = (
    *(5, 5.0, 0.5, 0.0, -0.0, True, False, "ab", "", "5", Timestamp(5), b"ab", Table({"a": 5, "b": "x"})),
    *((5, BEYOND), (BEYOND, 5), Table({"a": BEYOND})),
)

#: What may stand in the `nested` field of a record and is no text that Bindery writes. Some of it reads as a
#: value all the same; what does not is damage, and concerns no message but its own.
RAW_NESTED: Final[Mapping[str, tuple[str, ...]]] = {
    "beyond 64 bits": ("[18446744073709551615]", '{"a":{"ulong":18446744073709551615}}', "[-99999999999999999999]"),
    "scalar": ("5", '"a"', "true", "null", "0.5", '{"timestamp":5}', '{"binary":"61"}', "18446744073709551615"),
    "not finite": ("[NaN]", "[1e999]", "[-Infinity]"),
    "repeated key": ('{"a":1,"a":5}',),
    "surrogate": ('["\\ud800"]', '{"\\ud800":5,"a":"\\udfff"}'),
    "typed": ('[{"int":5}]', '[{"list":[5]}]', '{"map":{"int":5}}'),
    "blanks": ("[ 5 , 6 ]", ' {"a" : 5}\n'),
    "no JSON": ("", "{", "[1,", "nul", "[1] 2", "{'a':5}", "\x00"),
    "wrong type inside": ('[{"binary":"zz"}]', '{"a":{"char":"ab"}}', '[{"ubyte":256}]', '[{"list":5}]'),
    "timestamp out of range": ('[{"timestamp":99999999999999999999}]', '{"a":{"timestamp":9223372036854775807}}'),
    "too deep": ("[" * 101 + "]" * 101, "[" * 3000 + "]" * 3000, '{"a":' * 150 + "5" + "}" * 150, "[" * 100_000),
    "endless number": ("[" + "9" * 5000 + "]", "[1e" + "9" * 400 + "]"),
}


@dataclass(frozen=True)
class Place:
    """A way to refer to a value, and to put one there; `inside` a list or map, where more values may stand."""

    expression: str
    put: Callable[[Message, Value], Message]
    section: str
    name: str = ""
    inside: bool = False


def _in(section: str, name: str) -> Callable[[Message, Value], Message]:
    return lambda message, value: replace(message, **{section: Table({**getattr(message, section), name: value})})


def _whole(section: str) -> Callable[[Message, Value], Message]:
    return lambda message, value: replace(message, **{section: value})


def _property(name: str) -> Callable[[Message, Value], Message]:
    return lambda message, value: replace(message, properties={**message.properties, name: value})


#: Reference kind -> where it points, as an amqp-sql expression.
PLACES: Final[Mapping[str, Place]] = {
    "application property": Place("a", _in("application_properties", "a"), "application_properties", "a"),
    "message annotation": Place("m.a", _in("message_annotations", "a"), "message_annotations", "a"),
    "delivery annotation": Place("d.a", _in("delivery_annotations", "a"), "delivery_annotations", "a"),
    "footer": Place("f.a", _in("footer", "a"), "footer", "a"),
    "property of any type": Place("p.message_id", _property("message_id"), "properties", "message_id"),
    "whole section": Place("amqp_value", _whole("amqp_value"), "amqp_value"),
    "sequence": Place("amqp_sequence", _whole("amqp_sequence"), "amqp_sequence"),
    "list element": Place(
        "a[0]",
        lambda message, value: _in("application_properties", "a")(message, (value, 1)),
        "application_properties",
        inside=True,
    ),
    "map element": Place(
        "v.a",
        lambda message, value: _whole("amqp_value")(message, Table({"a": value, "b": 1})),
        "amqp_value",
        inside=True,
    ),
    "element of an element": Place(
        "m.a.b[1]",
        lambda message, value: _in("message_annotations", "a")(message, Table({"b": (None, value)})),
        "message_annotations",
        inside=True,
    ),
    "computed element": Place(
        "a[b]",
        lambda message, value: _in("application_properties", "a")(
            _in("application_properties", "b")(message, 1), (0, value)
        ),
        "application_properties",
        inside=True,
    ),
    "element by a value": Place(
        "s[a]",
        lambda message, value: _in("application_properties", "a")(
            _in("application_properties", "s")(message, ("a", "b", "c")), value
        ),
        "application_properties",
    ),
}


def key_kind(key: Lead) -> str:
    """What the index tells apart: what the key looks into, how strictly, and the type asked for."""
    if isinstance(key, Within):
        looks_into = key.ref.section if key.ref.section in COMPUTED else "field"
        return f"{looks_into} {'strict' if key.strict else 'by number'} within"
    value = key.value.value
    sign = "-" if isinstance(value, float) and value == 0 and math.copysign(1, value) < 0 else ""
    zero = " zero" if isinstance(value, float) and value == 0 else ""
    looks_into = key.ref.section if key.ref.section in COMPUTED else "field"
    if isinstance(key, Word):
        looks_into = "any word"
    if looks_into == "text head":
        looks_into += " of a form" if "/text form/" in key.ref.name else ""
    return f"{looks_into} {'strict' if key.strict else 'by number'} {sign}{type(value).__name__}{zero}"


def _filter(descriptor: str, value: Any) -> dict[str, Any]:
    return {"descriptor": descriptor, "value": value}


def _inverse(member: dict[str, Any]) -> dict[str, Any]:
    return _filter("amqp:not-filter", [member])


_STRICT: Final = (
    *(5, 5.0, 0.5, 0.0, -0.0, True, False, "ab", "", "5", {"timestamp": 5}, {"binary": "6162"}, {"binary": ""}),
    *(2**53 + 1, 2.0**53, INT64_MAX, {"decimal": "nan"}),
    *("&i:AB", "&P:ab", "&p:AB", "&S:b", "&s:B", "&P:" + "ab" * 20, "&P:", "&S:", None),
)
_NESTED: Final = ([5], [None, "a"], {"a": 5}, {"a": [None]}, [], {}, ["&p:A"], [[]], {"a": {"b": [1]}}, [0.0], [-0.0])
_TEXTS: Final = (
    *("{} = 5", "{} = 5.0", "0.5 = {}", "{} = -0.0", "{} = 0", "{} = 'ab'", "{} = ''", "{} = 0x6162", "{} = TRUE"),
    *("{}", "NOT {}", "{} IN (5, 'ab', 0.5, NULL)", "{} LIKE 'ab%'", "{} LIKE 'a_%'", "{} LIKE 'ab%c'", "{} = NULL"),
    *("{} = 9007199254740993", "{} = 9007199254740992.0", "{} = NAN", "{0} = 5 AND {0} > 4", "{0} = 5 OR {0} = '5'"),
    *("{} <> 5", "{} IS NULL", "{} + 1 = 6", "{} / 0 = 1 AND {} = 5", "FALSE", "TRUE", "NULL"),
)


def _members(expression: str, section: str, name: str) -> tuple[dict[str, Any], ...]:
    """Filters on one field, one or more for each kind of key (and a few without)."""
    found = [_filter("amqp:sql-filter", text.format(expression, expression)) for text in _TEXTS]
    found += [_inverse(found[0]), _filter("amqp:any-filter", [_inverse(_inverse(found[0])), found[1]])]
    if section == "amqp_value":
        return (*found, *(_filter("amqp:amqp-value-filter", value) for value in (*_STRICT, *_NESTED)))
    if section == "amqp_sequence":
        values = [value for value in _NESTED if isinstance(value, list)]
        return (*found, *(_filter("amqp:amqp-sequence-filter", [*value]) for value in values))
    if name == "subject":
        texts = [value for value in _STRICT if value is None or isinstance(value, str)]
        patterns = ("a.b", "a.*", "*.b", "a.#", "#.b", "#", "*", "", "a.b.#", "#.b.#", "*.*")
        found += [_filter("apache.org:legacy-amqp-topic-binding:string", pattern) for pattern in patterns]
        found += [_filter("apache.org:legacy-amqp-direct-binding:string", text) for text in ("a.b", "ab", "")]
        return (*found, *(_filter("amqp:properties-filter", {name: value}) for value in texts))
    symbol = f"amqp:{section.replace('_', '-')}-filter"
    if section == "application_properties":
        found += [
            _filter("apache.org:legacy-amqp-headers-binding:map", {"x-match": mode, name: value})
            for mode in ("all", "any")
            for value in (5, 0.0, -0.0, "ab", True, {"timestamp": 5}, None)
        ]
        return (*found, *(_filter(symbol, {name: value}) for value in _STRICT))
    return (*found, *(_filter(symbol, {name: value}) for value in (*_STRICT, *_NESTED)))


#: Field -> filters on it.
MEMBERS: Final[Mapping[Ref, tuple[dict[str, Any], ...]]] = {
    Ref(section, name): _members(expression, section, name)
    for expression, section, name in (
        ("a", "application_properties", "a"),
        ("m.a", "message_annotations", "a"),
        ("p.subject", "properties", "subject"),
        ("amqp_value", "amqp_value", ""),
        ("amqp_sequence", "amqp_sequence", ""),
    )
}
