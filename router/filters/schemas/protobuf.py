"""Protocol buffers (Encoding, proto2, proto3, editions): descriptors, and bodies in wire format within bounds.

The library reads and checks descriptors. Of a body it makes everything before anything can be counted: half a million
empty submessages of two bytes take each its full size, hundreds of times the body. So bodies are read here, and every
value is counted before it is made; generated messages and random bytes are compared with what the library reads.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bindery.router.errors import InvalidInput
from bindery.router.filters.limits import PayloadLimits
from bindery.router.filters.unparsable import Unparsable, too_deep, too_many
from bindery.router.spelling import nearest
from bindery.router.values import INT64_MAX

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

_VARINT, _I64, _LEN, _START, _END, _I32 = range(6)
_MAX_NUMBER: Final = 2**29 - 1
#: Bytes of a variable-length integer of 64 bits.
_BYTES: Final = 10
#: Bytes of tags and sizes, which have 32 bits.
_SHORT: Final = 5
#: Types inside types, of which a body may be.
_MAX_PLACES: Final = 100
#: The number of the value in the entry of a map.
_VALUE: Final = 2
#: Stands for a number that the closed enum of a map's values does not have: there is no such entry.
_UNKNOWN: Final = object()
#: What makes the set that is asked for.
_MAKE: Final = "protoc --include_imports --descriptor_set_out=FILE, then base64; bindery apply takes .proto files"


class _Cut(Exception):
    """What a body holds that is no message of its type."""


# -- types ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Field:
    """A field: how its values stand on the wire, and what they are read as.

    read      the value of a scalar from what stands on the wire: an integer, or bytes
    message   the type of submessages, or of the entries of a map
    keys      of a map: the name of a key
    rivals    the other members of its oneof
    """

    name: str
    wire: int
    read: Callable[[Any], Any] | None = None
    message: _Message | None = None
    repeated: bool = False
    keys: Callable[[Any], str] | None = None
    rivals: tuple[str, ...] = ()


@dataclass(slots=True)
class _Message:
    """A message type: fields by number, and what stands for those that a body leaves out."""

    name: str
    fields: dict[int, _Field] = field(default_factory=dict)
    defaults: list[tuple[str, Any]] = field(default_factory=list)
    required: list[str] = field(default_factory=list)


def _signed(bits: int) -> Callable[[int], int]:
    half, whole = 1 << (bits - 1), 1 << bits
    return lambda number: ((number + half) & (whole - 1)) - half


def _zigzag(bits: int) -> Callable[[int], int]:
    def read(number: int) -> int:
        number &= (1 << bits) - 1
        return (number >> 1) ^ -(number & 1)

    return read


def _unsigned(number: int) -> int | float:
    """An integer where 64 bits with a sign hold it, else a double, as of JSON's numbers."""
    return number if number <= INT64_MAX else float(number)


def _unpacked(form: str) -> Callable[[bytes], Any]:
    unpack = struct.Struct(form).unpack
    return lambda raw: unpack(raw)[0]


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _Cut("a string is not UTF-8") from None


#: Wire type and reader of the scalar types, by their numbers in descriptors (descriptor.proto, `Type`).
_SCALARS: Final[Mapping[int, tuple[int, Callable[[Any], Any]]]] = {
    1: (_I64, _unpacked("<d")),
    2: (_I32, _unpacked("<f")),
    3: (_VARINT, _signed(64)),
    4: (_VARINT, _unsigned),
    5: (_VARINT, _signed(32)),
    6: (_I64, lambda raw: _unsigned(int.from_bytes(raw, "little"))),
    7: (_I32, _unpacked("<I")),
    8: (_VARINT, bool),
    9: (_LEN, _text),
    12: (_LEN, bytes),
    13: (_VARINT, lambda number: number & 0xFFFFFFFF),
    15: (_I32, _unpacked("<i")),
    16: (_I64, _unpacked("<q")),
    17: (_VARINT, _zigzag(32)),
    18: (_VARINT, _zigzag(64)),
}
_GROUP, _SUBMESSAGE, _ENUM = 10, 11, 14


def _symbols(enum: EnumDescriptor, beyond: object = None) -> Callable[[int], Any]:
    """The symbol of a number. Without one an open enum has the number, a closed one `beyond` (Enum Behavior)."""
    names: dict[int, str] = {}
    for value in enum.values:
        names.setdefault(value.number, value.name)
    as_int, closed = _signed(32), enum.is_closed

    def read(number: int) -> object:
        number = as_int(number)
        return names.get(number, beyond if closed else number)

    return read


def _key(value: Any) -> str:
    """The name of the member that an entry of a map is."""
    return value if isinstance(value, str) else str(value).lower()


class _Types:
    """The message types that one leads to."""

    def __init__(self) -> None:
        self._known: dict[str, _Message] = {}
        self._open: list[tuple[_Message, Descriptor]] = []
        #: Whether any of them has a field that must be set.
        self.require = False

    def of(self, descriptor: Descriptor) -> _Message:
        """The type of a descriptor, with all that its fields need; a loop, however deep types nest."""
        found = self._named(descriptor)
        while self._open:
            message, described = self._open.pop()
            for one in described.fields:
                self._add(message, one)
        return found

    def _named(self, descriptor: Descriptor) -> _Message:
        found = self._known.get(descriptor.full_name)
        if found is None:
            found = self._known[descriptor.full_name] = _Message(descriptor.full_name)
            self._open.append((found, descriptor))
        return found

    def _add(self, message: _Message, described: FieldDescriptor) -> None:
        in_entry = described.containing_type.GetOptions().map_entry
        made = message.fields[described.number] = _Field(described.name, _LEN, repeated=described.is_repeated)
        if described.type in (_GROUP, _SUBMESSAGE):
            made.wire = _START if described.type == _GROUP else _LEN
            made.message = self._named(described.message_type)
            if described.message_type.GetOptions().map_entry:
                made.keys = _key
        elif described.type == _ENUM:
            made.wire, made.read = _VARINT, _symbols(described.enum_type, _UNKNOWN if in_entry else None)
        else:
            made.wire, made.read = _SCALARS[described.type]
        if described.containing_oneof is not None:
            made.rivals = tuple(one.name for one in described.containing_oneof.fields if one.name != described.name)
        elif (
            not described.is_repeated
            and made.read is not None
            and (described.has_default_value or not described.has_presence or in_entry)
        ):
            message.defaults.append((described.name, _default(described)))
        if described.is_required:
            message.required.append(described.name)
            self.require = True


def _default(described: FieldDescriptor) -> Any:
    stated = described.default_value
    if described.type == _ENUM:
        return _symbols(described.enum_type)(stated)
    return _unsigned(stated) if isinstance(stated, int) and not isinstance(stated, bool) else stated


# -- bodies -----------------------------------------------------------------------------------------------


class _Body:
    """The bytes of one body while they are read; `nodes` are the values that it may still have."""

    __slots__ = ("at", "data", "limits", "nodes")

    def __init__(self, data: bytes, limits: PayloadLimits) -> None:
        self.data = data
        self.limits = limits
        self.nodes = limits.nodes
        self.at = 0

    def varint(self, end: int, most: int = _BYTES) -> int:
        """A variable-length integer without a sign, in so many bytes; bits beyond 64 do not count (Encoding)."""
        data, at = self.data, self.at
        if at < end and (byte := data[at]) < 0x80:  # most are small
            self.at = at + 1
            return byte
        number = shift = 0
        while at < end and shift < 7 * most:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.at = at
                return number & (1 << 64) - 1
            shift += 7
        raise _Cut(f"an integer of more than {most} bytes" if shift == 7 * most else "an integer is cut off")

    def span(self, end: int) -> int:
        """Where what begins with its size ends."""
        size = self.varint(end, _SHORT)
        if size > end - self.at:
            raise _Cut(f"{size} bytes are claimed where {end - self.at} are left")
        return self.at + size

    def take(self, size: int, end: int) -> bytes:
        """So many bytes."""
        start = self.at
        if size > end - start:
            raise _Cut(f"{size} bytes are claimed where {end - start} are left")
        self.at = start + size
        return self.data[start : start + size]

    def tag(self, end: int) -> tuple[int, int]:
        """The number of a field, and how its value stands on the wire."""
        tag = self.varint(end, _SHORT)
        number, wire = tag >> 3, tag & 7
        if not 0 < number <= _MAX_NUMBER or wire > _I32:
            raise _Cut(f"there is no field {number} of wire type {wire}")
        return number, wire

    def raw(self, wire: int, end: int) -> Any:
        """What stands on the wire: an integer or bytes."""
        if wire == _VARINT:
            return self.varint(end)
        return self.take(8 if wire == _I64 else 4 if wire == _I32 else self.varint(end, _SHORT), end)

    def skip(self, number: int, wire: int, end: int) -> None:
        """Pass over the value of a field that the type does not have; groups end with their own number."""
        groups: list[int] = []
        while True:
            if wire == _START:
                groups.append(number)
            elif wire == _END:
                if not groups or groups.pop() != number:
                    raise _Cut("a group ends that did not begin")
            else:
                self.raw(wire, end)
            if not groups:
                return
            number, wire = self.tag(end)

    def count(self) -> None:
        """Count a value before it is made."""
        self.nodes -= 1
        if self.nodes < 0:
            raise too_many(self.limits)


def _read(kind: _Message, body: _Body, end: int, level: int, into: dict[str, Any], group: int = 0) -> None:
    """Read a message, up to the end or that of its group, into what earlier parts of it have said.

    One level of calls for a message; lists and maps are levels of the body too.
    """
    if level > body.limits.levels:
        raise too_deep(body.limits)
    while body.at < end:
        number, wire = body.tag(end)
        if wire == _END and number == group:
            break
        found = kind.fields.get(number)
        if found is None or (wire != found.wire and not (wire == _LEN and found.repeated and found.read)):
            body.skip(number, wire, end)
        elif found.message is None:
            _scalars(found, body, wire, end, level, into)
        else:
            inner, down = _opened(found, body, level, into)
            last = end if wire == _START else body.span(end)
            _read(found.message, body, last, level + down, inner, number if wire == _START else 0)
            _keep(found, inner, body, level, into)
    else:
        if group:
            raise _Cut("a group does not end")
    for name, value in kind.defaults:
        if name not in into:
            body.count()
            into[name] = value


def _scalars(found: _Field, body: _Body, wire: int, end: int, level: int, into: dict[str, Any]) -> None:
    """A scalar; of a repeated field one, or the packed ones."""
    assert found.read is not None  # noqa: S101  # fields without submessages are scalars
    packed = wire != found.wire
    last = body.span(end) if packed else end
    while body.at < last:
        value = found.read(body.raw(found.wire, last))
        if value is not None:  # else a number that a closed enum does not have
            body.count()
            if found.repeated:
                _list(found, body, level, into).append(value)
            else:
                _alone(found, into)
                into[found.name] = value
        if not packed:
            return
    if not packed:
        raise _Cut("a value is cut off")


def _alone(found: _Field, into: dict[str, Any]) -> None:
    """Of the members of a oneof the last one counts."""
    for rival in found.rivals:
        into.pop(rival, None)


def _list(found: _Field, body: _Body, level: int, into: dict[str, Any]) -> list[Any]:
    items: list[Any] | None = into.get(found.name)
    if items is None:
        if level >= body.limits.levels:
            raise too_deep(body.limits)
        body.count()
        items = into[found.name] = []
    return items


def _opened(found: _Field, body: _Body, level: int, into: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The submessage that is read next, as far as it is known, and how many levels further in it is."""
    if found.keys is not None:
        if found.name not in into:
            body.count()
            into[found.name] = {}
        return {}, 1  # an entry stands for the level of its map
    if found.repeated:
        _list(found, body, level, into)
        body.count()
        return {}, 2
    inner: dict[str, Any] | None = into.get(found.name)
    if inner is None:
        body.count()
    return ({} if inner is None else inner), 1


def _keep(found: _Field, inner: dict[str, Any], body: _Body, level: int, into: dict[str, Any]) -> None:
    if found.keys is not None:
        assert found.message is not None  # noqa: S101  # the entry of the map
        value = inner.get("value")
        described = found.message.fields[_VALUE].message
        if value is None and described is not None:
            value = {}
            _read(described, body, body.at, level + 2, value)
        if value is not _UNKNOWN:
            into[found.name][found.keys(inner["key"])] = value
        body.nodes += 1  # keys are no values
    elif found.repeated:
        into[found.name].append(inner)
    else:
        _alone(found, into)
        into[found.name] = inner


def _lacking(kind: _Message, found: dict[str, Any]) -> str | None:
    """A required field that a message lacks, or one in it (Language Guide of proto2)."""
    pending = [(kind, found)]
    while pending:
        kind, found = pending.pop()
        for name in kind.required:
            if name not in found:
                return f"{kind.name} lacks its required field {name}"
        for one in kind.fields.values():
            inside = None if one.keys is None or one.message is None else one.message.fields[_VALUE].message
            message, value = (one.message if one.keys is None else inside), found.get(one.name)
            if message is not None and value is not None:
                parts = value.values() if one.keys is not None else value if one.repeated else (value,)
                pending += [(message, part) for part in parts]
    return None


class ProtobufSchema:
    """A FileDescriptorSet in base64; raises InvalidInput for what is none.

    Values: messages and maps as dicts, repeated fields as lists, enums as their symbols, bytes as bytes. A field that
    is not set is its default where the schema states one, or where nothing tells whether it was set; else it is absent.
    """

    def __init__(self, raw: Any) -> None:
        self._files = _files(raw)
        self._types = _Types()
        self._by_place: dict[tuple[int, ...], _Reader] = {}

    def of_type(self, name: str) -> _Reader:
        """What reads messages of the type of that full name; raises InvalidInput."""
        known = {one.full_name: one for file in self._files for one in _all(file.message_types_by_name.values())}
        if name not in known:
            close = nearest(name, known)
            hint = f"did you mean {close}?" if close else "types are named in full, with their package"
            raise InvalidInput(f"the schema has no message type {name!r}", hint=hint)
        return self._reader(known[name])

    def parse(self, data: bytes, limits: PayloadLimits) -> Any:
        """A message behind the places of its type in the last file: of the outermost type, then of those inside it."""
        body = _Body(data, limits)
        try:
            count = _zigzag(64)(body.varint(len(data)))
            if not 0 <= count <= _MAX_PLACES:
                raise _Cut(f"{count} places")
            # no places are the first type, the usual one, in one byte
            places = tuple(_zigzag(64)(body.varint(len(data))) for _ in range(count)) or (0,)
        except _Cut as reason:
            raise Unparsable(f"the body does not say what type it is of: {reason}") from None
        reader = self._by_place.get(places)
        if reader is None:
            reader = self._by_place[places] = self._reader(self._at(places))
        return reader.parse(data[body.at :], limits)

    def _at(self, places: tuple[int, ...]) -> Descriptor:
        inside: list[Descriptor] = [*self._files[-1].message_types_by_name.values()]
        for place in places:
            if not 0 <= place < len(inside):
                raise Unparsable(f"the body is of a type at {[*places]} that its schema does not have")
            found = inside[place]
            inside = [*found.nested_types]
        return found

    def _reader(self, descriptor: Descriptor) -> _Reader:
        message = self._types.of(descriptor)
        return _Reader(message, require=self._types.require)


class _Reader:
    """Reads messages of one type."""

    def __init__(self, message: _Message, *, require: bool) -> None:
        self._message = message
        self._require = require

    def parse(self, data: bytes, limits: PayloadLimits) -> Any:
        """The message that a body is, a dict; raises Unparsable."""
        body = _Body(data, limits)
        found: dict[str, Any] = {}
        try:
            body.count()
            _read(self._message, body, len(data), 1, found)
            if self._require and (lacking := _lacking(self._message, found)):
                raise _Cut(lacking)
        except _Cut as reason:
            said = f"the body is no message of type {self._message.name}: {reason} (byte {body.at})"
            raise Unparsable(said) from None
        except RecursionError:
            raise too_deep(limits) from None
        return found


def _all(descriptors: Any) -> Iterator[Descriptor]:
    pending = [*descriptors]
    while pending:
        one = pending.pop()
        yield one
        pending += one.nested_types


def _files(raw: Any) -> list[Any]:
    """The files of a set, each checked, in their order."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet  # noqa: PLC0415  # few processes read protobuf
    from google.protobuf.descriptor_pool import DescriptorPool  # noqa: PLC0415
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    try:
        content = FileDescriptorSet.FromString(base64.b64decode(raw if isinstance(raw, str) else b"!", validate=True))
    except (binascii.Error, DecodeError, ValueError):
        raise InvalidInput("the schema is no FileDescriptorSet in base64", where="", hint=_MAKE) from None
    pool = DescriptorPool()
    found = []
    present: set[str] = set()
    for file in content.file:
        missing = [name for name in file.dependency if name not in present]
        if missing:
            said = f"{file.name} imports {missing[0]}, which does not stand before it in the set"
            raise InvalidInput(said, where="", hint=_MAKE)
        try:
            pool.Add(file)
            found.append(pool.FindFileByName(file.name))
        except (TypeError, KeyError, ValueError) as error:
            said = " ".join(str(error).split())
            raise InvalidInput(f"the schema's file {file.name} is refused: {said}", where="", hint=_MAKE) from None
        present.add(file.name)
    if not found:
        raise InvalidInput("the schema is an empty FileDescriptorSet", where="", hint=_MAKE)
    return found
