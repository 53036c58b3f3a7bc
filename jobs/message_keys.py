"""Keys of messages: the fields by which one is known that repeats another, as 128 bits of a hash.

Two keys are the same when each of their fields has the same type and value: text `1` is not the integer 1. A message
that lacks one of the fields, or has a null there, has no key. The hash is one for which nobody can find two that meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.message import VALUE
from bindery.store.seen_keys import Keys
from bindery.store.writer import SEQ

#: Bytes of a hash, which Keys hold as two integers.
_BYTES: Final = 16
#: Which type a value has, in one byte before it.
_MARKS: Final = {member.name: bytes([number]) for number, member in enumerate(VALUE, 1)}


@dataclass(frozen=True, slots=True)
class MessageKeys:
    """Takes keys of messages; `fields` are column of the message and field in it ("": the column itself)."""

    fields: tuple[tuple[str, str], ...]

    def __call__(self, messages: pa.RecordBatch) -> tuple[Keys, npt.NDArray[np.int64]]:
        """The keys of a batch (BATCH_SCHEMA), and the rows that have one."""
        parts = [_bytes_of(_field(messages.column(column), name)) for column, name in self.fields]
        has = np.ones(messages.num_rows, np.bool_)
        for part in parts:
            has &= np.asarray(part.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        rows = np.flatnonzero(has)
        taken = pa.array(rows)
        hashes = np.frombuffer(_hashes([part.take(taken).to_pylist() for part in parts]), "<i8").reshape(-1, 2)
        seq = messages.column(SEQ).take(taken).to_numpy()
        return Keys(np.ascontiguousarray(hashes[:, 0]), np.ascontiguousarray(hashes[:, 1]), seq), rows


def _hashes(parts: Sequence[Sequence[bytes]]) -> bytes:
    """The hashes of rows of texts, one after the other."""
    if len(parts) == 1:
        return b"".join([blake2b(text, digest_size=_BYTES).digest() for text in parts[0]])
    return b"".join(
        [
            blake2b(b"".join([len(text).to_bytes(8, "little") + text for text in texts]), digest_size=_BYTES).digest()
            for texts in zip(*parts, strict=True)
        ]
    )


def _field(column: pa.Array, name: str) -> pa.Array:
    """One field of a section for every message; null where it is absent."""
    if not name:
        return column
    if pa.types.is_map(column.type):
        return pc.map_lookup(column, name, "first")
    return pc.struct_field(column, name)


def _bytes_of(values: pa.Array) -> pa.Array:
    """Values as bytes that differ whenever type or value does; null stays null, and so does a typed null."""
    if values.type != VALUE:
        return _marked(values, _MARKS[_member(values.type)])
    found = pa.nulls(len(values), pa.binary())
    for member in VALUE:
        # struct_field leaves out what lies below a null
        found = pc.coalesce(found, _marked(pc.struct_field(values, member.name), _MARKS[member.name]))
    return found


def _marked(values: pa.Array, mark: bytes) -> pa.Array:
    kind = values.type
    if pa.types.is_floating(kind):
        values = values.view(pa.int64())
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        values = values.cast(pa.string())
    return pc.binary_join_element_wise(pa.scalar(mark), values.cast(pa.binary()), pa.scalar(b"", pa.binary()))


def _member(kind: pa.DataType) -> str:
    """The member of the VALUE union for a type of a column."""
    if pa.types.is_integer(kind):
        return "int"
    return next(str(member.name) for member in VALUE if member.type == kind)
