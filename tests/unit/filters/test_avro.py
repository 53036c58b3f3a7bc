"""Bodies that are Avro, against fastavro: its writer makes the bodies, its reader is the second opinion."""

from __future__ import annotations

import io
import json
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.errors import InvalidInput
from bindery.router.filters import Limits, evaluate, is_troubled, parse
from bindery.router.filters.limits import Payload, PayloadLimits
from bindery.router.filters.payload import look_up, parsed, reference
from bindery.router.filters.schemas import MAX_SCHEMA, read_schema
from bindery.router.filters.unparsable import Unparsable
from bindery.router.message import Message
from bindery.router.values import Timestamp

FLIGHT: dict[str, Any] = {
    "type": "record",
    "name": "Flight",
    "namespace": "air",
    "fields": [
        {"name": "carrier", "type": {"type": "enum", "name": "Carrier", "symbols": ["UA", "AA"]}},
        {"name": "delay", "type": ["null", "int"], "default": None},
        {"name": "fares", "type": {"type": "array", "items": "double"}},
        {"name": "left", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
LIST = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}


def avro(schema: Any, limits: PayloadLimits | None = None) -> Payload:
    return Payload("avro", limits or PayloadLimits(), read_schema("avro", schema))


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


# -- every schema and value -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A type, what fastavro's writer is given for a value of it, and what must be read."""

    schema: Any
    given: Any
    read: Any


def _float(number: float) -> float:
    return struct.unpack("<f", struct.pack("<f", number))[0]  # type: ignore[no-any-return]  # a float


TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
LEAVES: dict[str, Any] = {
    "null": st.none().map(lambda v: Case("null", v, v)),
    "boolean": st.booleans().map(lambda v: Case("boolean", v, v)),
    "int": st.integers(-(2**31), 2**31 - 1).map(lambda v: Case("int", v, v)),
    "long": st.integers(-(2**63), 2**63 - 1).map(lambda v: Case("long", v, v)),
    "float": st.floats(width=32, allow_nan=False).map(lambda v: Case("float", v, _float(v))),
    "double": st.floats(allow_nan=False).map(lambda v: Case("double", v, v)),
    "bytes": st.binary(max_size=5).map(lambda v: Case("bytes", v, v)),
    "string": TEXTS.map(lambda v: Case("string", v, v)),
}


@st.composite
def cases(draw: st.DrawFn, names: list[int] | None = None, levels: int = 4) -> Case:
    """A generated type with a value; names are given once."""
    names = [0] if names is None else names
    kind = draw(
        st.sampled_from(
            [*LEAVES, "enum", "fixed", "decimal", "time", "micros"]
            + (["record", "array", "map", "union"] * 3 if levels else [])
        )
    )
    if kind in LEAVES:
        return draw(LEAVES[kind])  # type: ignore[no-any-return]  # a case
    names[0] += 1
    name = f"n{names[0]}"
    match kind:
        case "enum":
            symbols = [f"S{n}" for n in range(draw(st.integers(1, 3)))]
            value = draw(st.sampled_from(symbols))
            return Case({"type": "enum", "name": name, "symbols": symbols}, value, value)
        case "fixed":
            raw = draw(st.binary(min_size=3, max_size=3))
            return Case({"type": "fixed", "name": name, "namespace": "a.b", "size": 3}, raw, raw)
        case "decimal":
            number = Decimal(draw(st.integers(-(10**9), 10**9))).scaleb(-3)
            return Case({"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 3}, number, float(number))
        case "time":
            ms = draw(st.integers(-(10**12), 10**12))
            return Case({"type": "long", "logicalType": "timestamp-millis"}, ms, Timestamp(ms))
        case "micros":
            return Case(
                {"type": "long", "logicalType": "timestamp-micros"}, 1_700_000_000_000_001, 1_700_000_000_000_001
            )
        case "record":
            fields = draw(st.lists(cases(names=names, levels=levels - 1), max_size=3))
            return Case(
                {
                    "type": "record",
                    "name": name,
                    "fields": [{"name": f"f{n}", "type": one.schema} for n, one in enumerate(fields)],
                },
                {f"f{n}": one.given for n, one in enumerate(fields)},
                {f"f{n}": one.read for n, one in enumerate(fields)},
            )
        case "array":
            one = draw(cases(names=names, levels=levels - 1))
            size = draw(st.integers(0, 3))
            return Case({"type": "array", "items": one.schema}, [one.given] * size, [one.read] * size)
        case "map":
            one = draw(cases(names=names, levels=levels - 1))
            keys = draw(st.sets(TEXTS, max_size=3))
            schema = {"type": "map", "values": one.schema}
            return Case(schema, dict.fromkeys(keys, one.given), dict.fromkeys(keys, one.read))
    one = draw(cases(names=names, levels=0))
    of = one.schema["type"] if isinstance(one.schema, dict) else one.schema
    others = ["null", {"type": "map", "values": "int"}, {"type": "enum", "name": f"{name}x", "symbols": ["q"]}]
    union = [*(other for other in others if other != of), one.schema]
    named = isinstance(one.schema, dict) and "name" in one.schema
    full = f"{one.schema.get('namespace', '')}.{one.schema['name']}".lstrip(".") if named else of
    if named or of in ("bytes", "long"):
        # the branch is named by its type; the writer would choose by the value
        return Case(union, (full, one.given) if named else one.given, one.read)
    return Case(union, one.given, one.read)


@given(cases())
def test_every_value_reads_as_it_was_written(case: Case) -> None:
    body = written(case.schema, case.given)
    if not body:
        return
    for stated in (case.schema, json.dumps(case.schema)):
        assert parsed(body, avro(stated)) == case.read
    with pytest.raises(Unparsable, match="follow the value"):
        parsed(body + b"\x00", avro(case.schema))
    if len(body) > 1:
        with pytest.raises(Unparsable):
            parsed(body[:-1], avro(case.schema))


@given(st.binary(max_size=30), cases())
def test_any_body_is_read_as_by_fastavro_or_refused_by_name(body: bytes, case: Case) -> None:
    try:
        found = parsed(body, avro(case.schema, PayloadLimits(nodes=1_000)))
    except Unparsable as error:
        assert str(error).startswith("the body ")
        return
    if not body:
        assert found is None
        return
    if "logicalType" not in json.dumps(case.schema):
        second = fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(case.schema), None)
        assert repr(found) == repr(second)


# -- rules of single types --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "body", "value"),
    [
        ("float", struct.pack("<f", 0.1), _float(0.1)),
        ({"type": "long", "logicalType": "timestamp-millis"}, varint(2**62), Timestamp(9223372036854775)),
        ({"type": "int", "logicalType": "date"}, varint(20_000), 20_000),
        ({"type": "int", "logicalType": "timestamp-millis"}, varint(5), 5),
        ({"type": "string", "logicalType": "uuid"}, varint(1) + b"x", "x"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, varint(1) + b"\x05", b"\x05"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, varint(1) + b"\xfb", -5.0),
        ({"type": "fixed", "name": "D", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 2},
         b"\x04\xd2", 12.34),
        (["null", "long"], varint(0), None),
        (["null", "long"], varint(1) + varint(7), 7),
        ({"type": "array", "items": "int"}, varint(-2) + varint(2) + varint(1) + varint(2) + varint(0), [1, 2]),
        ({"type": "map", "values": "int"}, b"\x04" + b"\x02a\x02" + b"\x02a\x04" + b"\x00", {"a": 2}),
    ],
)  # fmt: skip
def test_how_a_type_is_read(schema: Any, body: bytes, value: Any) -> None:
    found = parsed(body, avro(schema))
    assert found == value
    assert type(found) is type(value)


#: Bodies that are none of their schemas, by what is wrong.
UNPARSABLE: dict[str, tuple[Any, bytes, str]] = {
    "cut": ("long", b"\x80", "an integer is cut off"),
    "beyond 64 bits": ("long", b"\xff" * 9 + b"\x03", "an integer beyond 64 bits"),
    "endless": ("long", b"\xff" * 11, "an integer beyond 64 bits"),
    "int of 33 bits": ("int", varint(2**31), "2147483648 is no int of 32 bits"),
    "boolean": ("boolean", b"\x02", "2 is no boolean"),
    "bytes beyond the body": ("bytes", varint(2**40) + b"abc", "1099511627776 bytes are claimed where 3 are left"),
    "negative size": ("string", varint(-1) + b"abc", "-1 bytes are claimed"),
    "not UTF-8": ("string", varint(1) + b"\xff", "a string is not UTF-8"),
    "branch": (["null", "int"], varint(2), "branch 2 of a union of 2"),
    "negative branch": (["null", "int"], varint(-1), "branch -1 of a union of 2"),
    "symbol": ({"type": "enum", "name": "E", "symbols": ["A"]}, varint(1), "symbol 1 of an enum of 1"),
    "fixed": ({"type": "fixed", "name": "F", "size": 2**31 - 1}, b"ab", "2147483647 bytes are claimed"),
    "nulls without end": ({"type": "array", "items": "null"}, varint(2**40) + b"\x00", "more than 100000 values"),
    "a block without end": ({"type": "array", "items": "int"}, varint(2**40) + b"\x00", "an integer is cut off"),
    "a negative block": ({"type": "array", "items": "null"}, varint(-(2**63)) + b"\x00", "more than 100000 values"),
    "empty records": (
        {"type": "map", "values": {"type": "record", "name": "R", "fields": []}}, varint(2**50), "an integer is cut off"
    ),
    "deep": (LIST, b"\x02" * 900_000 + b"\x00", "nested deeper than 100 levels"),
    "a record in itself": ({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, b"\x00", "nested"),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 5}, varint(400) + b"\x7f" * 400, "range of a double"
    ),
    "single-object encoding": (FLIGHT, b"\xc3\x01" + b"\x05" * 8, "it begins as single-object encoding"),
    "a registry's": (FLIGHT, b"\x00\x00\x00\x00\x09" + b"\xff" * 8, 'schema 9: declare the schemas under "registry"'),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNPARSABLE)
def test_an_unparsable_body_is_unknown_counted_and_says_why(kind: str) -> None:
    schema, body, why = UNPARSABLE[kind]
    payload = avro(schema)
    with pytest.raises(Unparsable) as refused:
        parsed(body, payload)
    assert why in str(refused.value)
    filter = parse("body.delay = 5", "jms", limits=Limits(payload=payload))
    assert (evaluate(filter, Message(body=body)), is_troubled(filter, Message(body=body))) == (None, True)
    assert look_up(Message(body=body), reference(payload, ("delay",))).why == str(refused.value)


def test_each_bound_is_the_last_that_fits() -> None:
    tree = {"type": "array", "items": {"type": "array", "items": "int"}}
    body = written(tree, [[1], [2]])
    assert parsed(body, avro(tree, PayloadLimits(bytes=len(body), levels=2, nodes=5))) == [[1], [2]]
    for limits in (PayloadLimits(bytes=len(body) - 1), PayloadLimits(levels=1), PayloadLimits(nodes=4)):
        with pytest.raises(Unparsable):
            parsed(body, avro(tree, limits))
    deepest = avro(LIST, PayloadLimits(levels=500))
    assert isinstance(parsed(b"\x02" * 499 + b"\x00", deepest), dict)
    with pytest.raises(Unparsable, match="deeper than 500"):
        parsed(b"\x02" * 500 + b"\x00", deepest)


def test_avro_is_bytes_and_an_empty_body_is_none() -> None:
    payload = avro("string")
    with pytest.raises(Unparsable, match="the body is text, and no avro"):
        parsed("x", payload)
    assert [parsed(body, payload) for body in (b"", None, 5)] == [None] * 3


# -- registries -------------------------------------------------------------------------------------------


def test_a_body_names_its_schema_of_a_registry() -> None:
    payload = avro({"registry": {"57": FLIGHT, "4294967295": json.dumps("string")}})
    flight = {"carrier": "AA", "delay": None, "fares": [1.5], "left": 5}
    body = b"\x00\x00\x00\x00\x39" + written(FLIGHT, flight)
    assert parsed(body, payload) == flight | {"left": Timestamp(5)}
    assert parsed(b"\x00\xff\xff\xff\xff\x02x", payload) == "x"
    with pytest.raises(
        Unparsable, match="is of schema 58, which is not declared; take it over by `bindery schemas pull`"
    ):
        parsed(b"\x00\x00\x00\x00\x3a\x02x", payload)
    for broken in (b"\x00\x00\x00\x00", b"\x01\x00\x00\x00\x39\x00", b"{}"):
        with pytest.raises(Unparsable, match="does not begin with a zero byte and the id of a schema"):
            parsed(broken, payload)


# -- schemas that are none --------------------------------------------------------------------------------


def _nested(levels: int) -> Any:
    schema: Any = "int"
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def _record(*fields: Any) -> Any:
    return {"type": "record", "name": "R", "fields": [*fields]}


@pytest.mark.parametrize(
    ("schema", "where", "message"),
    [
        ("{", "", "the Avro schema is no JSON"),
        ("[" * 100_000, "", "the Avro schema is no JSON"),
        (5, "", "a schema is a name, an object or an array"),
        ('"strin"', "", "no type is called 'strin'"),
        (["int", "int"], "[1]", "a union has 'int' twice"),
        (["int", ["null"]], "[1]", "a union directly in a union"),
        ([], "", "a union without branches"),
        ({"type": "recrod", "name": "R"}, ".type", "there is no type 'recrod'"),
        ({"name": "R"}, "", "a schema has its type under `type`, as a name"),
        ({"type": {"type": "int"}}, "", "a schema has its type under `type`, as a name"),
        ({"type": "array"}, "", "items of a type array are missing"),
        ({"type": "map", "values": "x"}, ".values", "no type is called 'x'"),
        ({"type": "record", "name": "R"}, ".fields", "the fields of a record are an array"),
        (_record({"name": "a"}), ".fields[0]", "a field is an object with name and type"),
        (_record({"name": "a b", "type": "int"}), ".fields[0].name", '"a b" is no name'),
        (_record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}), ".fields[1].name", "the field 'a' twice"),
        (_record({"name": "a", "type": {"type": "enum", "name": "R", "symbols": ["A"]}}), ".fields[0].type.name",
         "the type 'R' is defined twice"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, ".symbols", "a symbol twice"),
        ({"type": "enum", "name": "E", "symbols": []}, ".symbols", "the symbols of an enum"),
        ({"type": "fixed", "name": "F", "size": -1}, ".size", "the size of a fixed"),
        ({"type": "fixed", "name": "1", "size": 1}, ".name", '"1" is no name'),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2000}, ".precision", "more than 1000 digits"),
        (_nested(101), ".items" * 101, "nested deeper than 100 levels"),
        ("x" * MAX_SCHEMA, "", "a schema of more than 1,000,000 characters"),
        ({"file": "flight.avsc"}, "", "the schema is stated as a file"),
        ({"registry": {}}, ".registry", "schemas of a registry are an object by their ids"),
        ({"registry": {"057": "int"}}, ".registry", "'057' is no id of a schema"),
        ({"registry": {str(2**32): "int"}}, ".registry", "'4294967296' is no id of a schema"),
        ({"registry": {"57": {"type": "array", "items": "x"}}}, ".registry.57.items", "no type is called 'x'"),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused_with_its_place(schema: Any, where: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_schema("avro", schema)
    assert message in refused.value.message
    assert refused.value.where == where


def test_types_are_named_within_namespaces() -> None:
    inner = {"type": "fixed", "name": "F", "size": 1}
    outer = {"type": "record", "name": "a.b.R", "fields": [{"name": "x", "type": inner}, {"name": "y", "type": "F"},
             {"name": "z", "type": "a.b.F"}, {"name": "n", "type": {"type": "F"}}]}  # fmt: skip
    assert parsed(b"1234", avro(outer)) == {"x": b"1", "y": b"2", "z": b"3", "n": b"4"}
    assert read_schema("avro", outer) == read_schema("avro", outer) != read_schema("avro", inner)
    assert isinstance(avro(_nested(99)), Payload)
