"""Bodies that are protocol buffers, against the library: it writes the messages, and reads them as second opinion."""

from __future__ import annotations

import base64
import math
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.errors import InvalidInput
from bindery.router.filters import Limits, evaluate, is_troubled, parse
from bindery.router.filters.limits import Payload, PayloadLimits
from bindery.router.filters.payload import parsed
from bindery.router.filters.schemas import read_schema
from bindery.router.filters.unparsable import Unparsable
from bindery.router.message import Message as Record

F = descriptor_pb2.FieldDescriptorProto
SCALARS = [name for name in F.Type.keys() if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")]  # noqa: SIM118


def field(name: str, number: int, kind: str, of: str = "", *, many: bool = False, **more: Any) -> Any:
    label = F.LABEL_REPEATED if many else more.pop("label", F.LABEL_OPTIONAL)
    more |= {"type_name": of} if of else {}
    return F(name=name, number=number, type=F.Type.Value(kind), label=label, **more)


def entry(name: str, key: str, value: Any) -> Any:
    """The type of the entries of a map."""
    return descriptor_pb2.DescriptorProto(
        name=name,
        field=[field("key", 1, key), value],
        options=descriptor_pb2.MessageOptions(map_entry=True),
    )


def every_kind(syntax: str) -> Any:
    """A file with a message that has a field of each kind there is, each alone, repeated, and in a oneof."""
    closed = descriptor_pb2.EnumDescriptorProto(name="E")
    for name, number in (("ZERO", 0), ("ONE", 1), ("MINUS", -1)):
        closed.value.add(name=name, number=number)
    message = descriptor_pb2.DescriptorProto(name="M")
    kinds = [*SCALARS, "TYPE_ENUM", "TYPE_MESSAGE"] + (["TYPE_GROUP"] if syntax == "proto2" else [])
    names = {"TYPE_ENUM": ".p.E", "TYPE_MESSAGE": ".p.M", "TYPE_GROUP": ".p.M.G"}
    message.oneof_decl.add(name="choice")
    for number, kind in enumerate(kinds, 1):
        of = names.get(kind, "")
        message.field.append(field(f"f{number}", number, kind, of))
        if kind != "TYPE_GROUP":
            message.field.append(field(f"r{number}", 100 + number, kind, of, many=True))
            message.field.append(field(f"o{number}", 200 + number, kind, of, oneof_index=0))
    if syntax == "proto2":
        message.nested_type.add(name="G").field.append(field("x", 1, "TYPE_INT32"))
        message.field.append(field("d", 300, "TYPE_INT32", default_value="7"))
        message.field.append(field("de", 301, "TYPE_ENUM", ".p.E", default_value="ONE"))
    else:
        message.oneof_decl.add(name="_p")
        message.field.append(field("p", 300, "TYPE_INT32", proto3_optional=True, oneof_index=1))
    values = [
        field("value", 2, "TYPE_STRING"),
        field("value", 2, "TYPE_MESSAGE", ".p.M"),
        field("value", 2, "TYPE_ENUM", ".p.E"),
    ]
    for number, (key, value) in enumerate(zip(("TYPE_STRING", "TYPE_SINT32", "TYPE_BOOL"), values, strict=True), 1):
        message.nested_type.append(entry(f"K{number}Entry", key, value))
        message.field.append(field(f"k{number}", 400 + number, "TYPE_MESSAGE", f".p.M.K{number}Entry", many=True))
    return descriptor_pb2.FileDescriptorProto(
        name=f"{syntax}.proto", package="p", syntax=syntax, message_type=[message], enum_type=[closed]
    )


def stated(*files: Any) -> str:
    return base64.b64encode(descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()).decode()


def protobuf(file: Any, name: str = "p.M", limits: PayloadLimits | None = None) -> Payload:
    return Payload("protobuf", limits or PayloadLimits(), read_schema("protobuf", stated(file), name))


def library(file: Any, name: str = "p.M") -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


FILES = {syntax: every_kind(syntax) for syntax in ("proto2", "proto3")}
CLASSES = {syntax: library(file) for syntax, file in FILES.items()}
PAYLOADS = {syntax: protobuf(file) for syntax, file in FILES.items()}


def by_hand(message: Message) -> dict[str, Any]:
    """What must be read of a message, by the library's own reflection."""
    found = {}
    for one in message.DESCRIPTOR.fields:
        value = getattr(message, one.name)
        if one.is_repeated and one.message_type is not None and one.message_type.GetOptions().map_entry:
            inner = one.message_type.fields_by_name["value"]
            read = {_name(key): _scalar(inner, value[key]) for key in value}
        elif one.is_repeated:
            read = [_scalar(one, part) for part in value]
        elif one.has_presence and not message.HasField(one.name) and not one.has_default_value:
            continue
        else:
            read = _scalar(one, value)
        if not one.is_repeated or read:
            found[one.name] = read
    return found


def _name(key: Any) -> str:
    return {True: "true", False: "false"}[key] if isinstance(key, bool) else str(key)


def _scalar(one: Any, value: Any) -> Any:
    if one.message_type is not None:
        return by_hand(value)
    if one.enum_type is not None:
        known = one.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if isinstance(value, int) and not isinstance(value, bool) and value >= 2**63:
        return float(value)
    return value


def plain(found: Any) -> Any:
    """The same with NaN as a text, and without lists and maps that nothing is in: both read as null."""
    match found:
        case float() if math.isnan(found):
            return "NaN"
        case dict():
            return {name: plain(one) for name, one in found.items() if one != []}
        case list():
            return [plain(one) for one in found]
    return found


def a_value(draw: st.DrawFn, message: Any, one: Any, levels: int) -> Any:
    if one.message_type is not None:
        return filled(draw, message, levels - 1)
    match one.cpp_type:
        case one.CPPTYPE_BOOL:
            return draw(st.booleans())
        case one.CPPTYPE_ENUM:
            return draw(st.sampled_from([0, 1, -1]))
        case one.CPPTYPE_DOUBLE:
            return draw(st.floats())
        case one.CPPTYPE_FLOAT:
            return draw(st.floats(width=32))
        case one.CPPTYPE_STRING:
            return draw(
                st.binary(max_size=4)
                if one.type == one.TYPE_BYTES
                else st.text(st.characters(codec="utf-8"), max_size=4)
            )
    bits = 32 if one.cpp_type in (one.CPPTYPE_INT32, one.CPPTYPE_UINT32) else 64
    unsigned = one.cpp_type in (one.CPPTYPE_UINT32, one.CPPTYPE_UINT64)
    return draw(st.integers(0, 2**bits - 1) if unsigned else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))


def filled(draw: st.DrawFn, message: Any, levels: int) -> Any:
    """The message with some of its fields set."""
    chosen = draw(st.lists(st.sampled_from(list(message.DESCRIPTOR.fields)), max_size=4 if levels else 0))
    for one in chosen:
        held = getattr(message, one.name)
        if one.message_type is not None and one.message_type.GetOptions().map_entry:
            key = draw(
                {"K1Entry": st.text("ab", max_size=2), "K2Entry": st.integers(-9, 9), "K3Entry": st.booleans()}[
                    one.message_type.name
                ]
            )
            if one.message_type.fields_by_name["value"].message_type is not None:
                filled(draw, held[key], levels - 1)
            else:
                held[key] = a_value(draw, None, one.message_type.fields_by_name["value"], 0)
        elif one.is_repeated:
            for _ in range(draw(st.integers(1, 2))):
                if one.message_type is not None:
                    filled(draw, held.add(), levels - 1)
                else:
                    held.append(a_value(draw, None, one, 0))
        elif one.message_type is not None:
            held.SetInParent()
            filled(draw, held, levels - 1)
        else:
            setattr(message, one.name, a_value(draw, None, one, 0))
    return message


@pytest.mark.parametrize("syntax", FILES)
@given(st.data())
def test_every_message_reads_as_it_was_written(syntax: str, data: st.DataObject) -> None:
    draw: Any = data.draw
    messages = [filled(draw, CLASSES[syntax](), 3) for _ in range(2)]
    bodies = [one.SerializeToString() for one in messages]
    assert plain(parsed(bodies[0], PAYLOADS[syntax])) == plain(by_hand(messages[0]))
    # parts of one message follow each other: later ones are merged into earlier ones
    merged = CLASSES[syntax].FromString(bodies[0] + bodies[1])
    assert plain(parsed(bodies[0] + bodies[1], PAYLOADS[syntax])) == plain(by_hand(merged))


def tag(number: int, wire: int) -> bytes:
    key = number << 3 | wire
    return bytes([key & 0x7F | 0x80, key >> 7]) if key > 0x7F else bytes([key])


NUMBERS = sorted({one.number for one in FILES["proto2"].message_type[0].field} | {99, 500})
PARTS = st.lists(
    st.one_of(
        st.builds(tag, st.sampled_from(NUMBERS), st.integers(0, 5)),
        st.binary(max_size=4),
        st.sampled_from([b"\x00", b"\x01", b"\x05", b"\x80\x01", b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x03"]),
    ),
    max_size=8,
).map(b"".join)


@pytest.mark.parametrize("syntax", FILES)
@given(PARTS)
def test_any_body_is_read_as_by_the_library_or_refused_by_both(syntax: str, body: bytes) -> None:
    try:
        second = plain(by_hand(CLASSES[syntax].FromString(body)))
    except (DecodeError, UnicodeDecodeError):
        with pytest.raises(Unparsable, match=r"the body is no message of type p\.M: "):
            parsed(body, PAYLOADS[syntax])
        return
    try:
        assert plain(parsed(body, PAYLOADS[syntax])) == second
    except Unparsable as error:
        # strings of proto2 may hold anything, as they are found only when they are looked at
        assert syntax == "proto2"
        assert "a string is not UTF-8" in str(error)


# -- rules ------------------------------------------------------------------------------------------------


def test_what_is_not_set_is_null_or_its_default() -> None:
    assert "p" not in parsed(b"", PAYLOADS["proto3"])
    kinds = {name: value for name, value in parsed(b"", PAYLOADS["proto3"]).items() if name.startswith("f")}
    assert sorted(map(repr, kinds.values())) == sorted(map(repr, [0.0, 0.0, *[0] * 10, False, "", b"", "ZERO"]))
    assert parsed(b"", PAYLOADS["proto2"]) == {"d": 7, "de": "ONE"}
    payload = PAYLOADS["proto3"]
    absent, default = (parse(f"body.{name} IS NULL", "jms", limits=Limits(payload=payload)) for name in ("p", "f3"))
    assert [evaluate(one, Record(body=b"")) for one in (absent, default)] == [True, False]
    assert evaluate(default, Record()) is True
    assert not is_troubled(absent, Record(body=b""))


def test_numbers_without_a_symbol() -> None:
    number = next(one.number for one in FILES["proto3"].message_type[0].field if one.type == F.TYPE_ENUM)
    assert parsed(tag(number, 0) + b"\x05", PAYLOADS["proto3"])[f"f{number}"] == 5
    assert f"f{number}" not in parsed(tag(number, 0) + b"\x05", PAYLOADS["proto2"])


def test_required_fields_are_required() -> None:
    inner = descriptor_pb2.DescriptorProto(name="I", field=[field("x", 1, "TYPE_INT32", label=F.LABEL_REQUIRED)])
    outer = descriptor_pb2.DescriptorProto(name="M", field=[field("i", 1, "TYPE_MESSAGE", ".p.I", many=True)])
    file = descriptor_pb2.FileDescriptorProto(name="r.proto", package="p", message_type=[outer, inner])
    payload = protobuf(file)
    assert parsed(b"\x0a\x02\x08\x05", payload) == {"i": [{"x": 5}]}
    with pytest.raises(Unparsable, match=r"p\.I lacks its required field x"):
        parsed(b"\x0a\x00", payload)


WIDE = descriptor_pb2.FileDescriptorProto(
    name="w.proto",
    package="p",
    syntax="proto3",
    message_type=[
        descriptor_pb2.DescriptorProto(
            name="M",
            field=[field("m", 1, "TYPE_MESSAGE", ".p.M"), field("r", 2, "TYPE_MESSAGE", ".p.M", many=True),
                   *(field(f"x{n}", n, "TYPE_INT64") for n in range(3, 503))],
        )
    ],
)  # fmt: skip


def nested(levels: int) -> bytes:
    body = b""
    for _ in range(levels - 1):
        size = len(body)
        head = bytearray(b"\x0a")
        while size > 0x7F:
            head.append(size & 0x7F | 0x80)
            size >>= 7
        body = bytes([*head, size]) + body
    return body


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"\x12\x00" * 500_000, "more than 100000 values"),
        (nested(101), "nested deeper than 100 levels"),
        (b"\x0a\xff\xff\xff\xff\x0f", "4294967295 bytes are claimed where 0 are left"),
        (b"\x0b" * 1000, "a group|deeper|cut off|integer"),
        (b"\x1a\x05", "5 bytes are claimed where 0 are left"),
        (b"\x00\x05", "there is no field 0"),
        (b"\x18", "cut off"),
        (b"\x0c", "a group ends that did not begin"),
    ],
)
def test_hostile_bodies_cost_nothing_and_say_why(body: bytes, why: str) -> None:
    with pytest.raises(Unparsable, match=why):
        parsed(body, protobuf(WIDE))
    filter = parse("body.x3 = 5", "jms", limits=Limits(payload=protobuf(WIDE)))
    assert (evaluate(filter, Record(body=body)), is_troubled(filter, Record(body=body))) == (None, True)


def test_each_bound_is_the_last_that_fits() -> None:
    deepest = protobuf(WIDE, limits=PayloadLimits(levels=500, nodes=10**6))
    parsed(nested(500), deepest)
    with pytest.raises(Unparsable, match="deeper than 500"):
        parsed(nested(501), deepest)
    body = b"\x12\x00"
    assert len(parsed(body, protobuf(WIDE, limits=PayloadLimits(nodes=1003, levels=3)))["r"]) == 1
    for limits in (PayloadLimits(nodes=1002), PayloadLimits(levels=2), PayloadLimits(bytes=1)):
        with pytest.raises(Unparsable):
            parsed(body, protobuf(WIDE, limits=limits))


def test_keys_of_a_map_are_no_values() -> None:
    body = tag(401, 2) + b"\x06" + b"\x0a\x01a" + b"\x12\x01b"
    # the message, its map and what is in it, and two defaults
    limits = PayloadLimits(nodes=5)
    assert parsed(body, protobuf(FILES["proto2"], limits=limits))["k1"] == {"a": "b"}
    with pytest.raises(Unparsable, match="more than 4 values"):
        parsed(body, protobuf(FILES["proto2"], limits=PayloadLimits(nodes=4)))


# -- registries and schemas -------------------------------------------------------------------------------


def of_a_registry() -> Payload:
    inner = descriptor_pb2.DescriptorProto(name="In", field=[field("x", 1, "TYPE_INT32")])
    outer = descriptor_pb2.DescriptorProto(name="Out", nested_type=[inner], field=[field("y", 1, "TYPE_STRING")])
    file = descriptor_pb2.FileDescriptorProto(name="a", package="p", syntax="proto3", message_type=[outer, inner])
    return Payload("protobuf", PayloadLimits(), read_schema("protobuf", {"registry": {"9": stated(file)}}))


def test_a_body_names_its_type_in_its_schema() -> None:
    payload, head = of_a_registry(), b"\x00\x00\x00\x00\x09"
    assert parsed(head + b"\x00" + b"\x0a\x01q", payload) == {"y": "q"}
    assert parsed(head + b"\x02\x00" + b"\x0a\x01q", payload) == {"y": "q"}
    assert parsed(head + b"\x02\x02" + b"\x08\x05", payload) == {"x": 5}
    assert parsed(head + b"\x04\x00\x00" + b"\x08\x05", payload) == {"x": 5}
    for body, why in (
        (b"\x02\x04", r"a type at \[2\] that its schema does not have"),
        (b"\x04\x02\x00", "does not have"),
        (b"\x01", "does not say what type it is of"),
        (b"\xff" * 9 + b"\x01", "does not say what type"),
        (b"", "does not say what type"),
    ):
        with pytest.raises(Unparsable, match=why):
            parsed(head + body, payload)
    assert parsed(b"", payload) is None


@pytest.mark.parametrize(
    ("schema", "type", "message"),
    [
        ("syntax = 'proto3';", "p.M", "no FileDescriptorSet in base64"),
        ("AAAA", "p.M", "no FileDescriptorSet in base64"),
        ("", "p.M", "an empty FileDescriptorSet"),
        (5, "p.M", "no FileDescriptorSet in base64"),
        ({"file": "a.proto"}, "p.M", "stated as a file"),
        (stated(FILES["proto3"]), "M", "the schema has no message type 'M'"),
        (stated(FILES["proto3"]), None, "nobody says of which type bodies are"),
        ({"registry": {"9": stated(FILES["proto3"])}}, "p.M", "bodies of a registry say their type themselves"),
        (stated(descriptor_pb2.FileDescriptorProto(name="a", dependency=["b"])), "M", "a imports b, which does not"),
        (stated(descriptor_pb2.FileDescriptorProto(name="a", message_type=[
            descriptor_pb2.DescriptorProto(name="M", field=[field("x", 1, "TYPE_MESSAGE", ".No")])])), "M",
         "file a is refused"),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused(schema: Any, type: str | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_schema("protobuf", schema, type)
    with pytest.raises(InvalidInput, match="a schema of avro is its type"):
        read_schema("avro", "int", "M")
