"""Bulk ingestion: message records, as NDJSON or Arrow IPC, for a vhost's inbox table.

Everything is read and checked before anything is written; what is wrong is reported by line or row.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from bindery.api.bodies import finite_float
from bindery.router.errors import InvalidInput, InvalidRecord
from bindery.router.message import MESSAGE_SCHEMA, SENT_SCHEMA, VALUE, Message, to_batch
from bindery.router.values import MAX_DEPTH, from_nested_text
from bindery.store import data_files, tables
from bindery.store.paths import DataDir

ARROW_TYPES: Final = frozenset({"application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.file"})
#: Problems that one answer names; more are counted.
MAX_PROBLEMS: Final = 100
#: Bad records after which no more are looked for: a body of nothing else would keep a processor busy.
MAX_COUNTED: Final = 10_000
_BATCH_ROWS: Final = 10_000
_FILE_MAGIC: Final = b"ARROW1"
#: Decoded bytes per byte sent: dictionaries and offsets unfold, compressed buffers are refused.
_MAX_GROWTH: Final = 64


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one record; `line` counts from 1 (Arrow: the row)."""

    line: int
    message: str
    where: str | None = None

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {"line": self.line, "message": self.message, "where": self.where}


class Rejected(Exception):
    """Records that cannot be stored; `total` counts the problems, `problems` are the first of them."""

    def __init__(self, problems: list[Problem], total: int) -> None:
        super().__init__(f"{total} bad records")
        self.problems = problems
        self.total = total


def read_ndjson(raw: bytes) -> pa.Table:
    """The records of NDJSON: one message a line, in its JSON form; blank lines are skipped.

    Raises Rejected with the bad lines, 10,000 of them at most.
    """
    problems: list[Problem] = []
    total = 0
    batches: list[pa.RecordBatch] = []
    messages: list[Message] = []
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            messages.append(_kept(Message.from_json(_parse(line))))
        except InvalidRecord as error:
            total += 1
            if len(problems) < MAX_PROBLEMS:
                problems.append(Problem(number, error.message, error.where))
            if total == MAX_COUNTED:
                break
            continue
        if len(messages) == _BATCH_ROWS:
            batches.append(to_batch(messages))
            messages = []
    if total:
        raise Rejected(problems, total)
    if messages:
        batches.append(to_batch(messages))
    return pa.Table.from_batches(batches, schema=SENT_SCHEMA).select(MESSAGE_SCHEMA.names)


def _kept(message: Message) -> Message:
    if message.reject_unroutable:
        raise InvalidRecord(
            "an inbox does not keep what a sender asks for; the job that reads it can ask: "
            "`message: {reject_unroutable: 'true'}`",
            where="reject_unroutable",
        )
    return message


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line.decode(), parse_constant=_refuse_constant, parse_float=finite_float)
    except RecursionError:
        raise InvalidRecord(f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise InvalidRecord(f"not JSON: {error}") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def read_arrow(raw: bytes) -> pa.Table:
    """The records of an Arrow IPC stream or file with columns of MESSAGE_SCHEMA; missing ones are null.

    Raises Rejected for what is no Arrow IPC, for unknown columns and other types, for text that is not
    UTF-8, and for compressed buffers (a few bytes could unfold to any size).
    """
    try:
        batches = list(_bounded(_batches(raw), len(raw)))
        found = pa.Table.from_batches(batches) if batches else MESSAGE_SCHEMA.empty_table()
        unknown = sorted(set(found.column_names) - set(MESSAGE_SCHEMA.names))
        if unknown or len(set(found.column_names)) < found.num_columns:
            raise _one(f"unknown or repeated column {(unknown or found.column_names)[0]!r}")
        columns: list[pa.Array | pa.ChunkedArray] = [
            found[field.name].cast(field.type) if field.name in found.column_names else pa.nulls(len(found), field.type)
            for field in MESSAGE_SCHEMA
        ]
    except (pa.ArrowException, OSError, struct.error, IndexError) as error:
        raise _one(f"not Arrow IPC of the message schema: {str(error).splitlines()[0]}") from None
    records = pa.table(columns, schema=MESSAGE_SCHEMA)
    _check_nested(records)
    return records


def _check_nested(records: pa.Table) -> None:
    """Refuse lists and maps whose JSON text cannot be read: they would fail whole batches later."""
    for field in MESSAGE_SCHEMA:
        values = records[field.name].combine_chunks()
        for texts in _nested_texts(values):
            for text in pc.unique(texts).to_pylist():
                try:
                    from_nested_text(text or "null")
                except InvalidInput as error:
                    raise _one(f"column {field.name!r}: {error.message}") from None


def _nested_texts(values: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_map(values.type):
        yield from _nested_texts(values.items)
    elif pa.types.is_struct(values.type):
        for member in values.type:
            inner = pc.struct_field(values, member.name)
            if member.name == "nested" and values.type.equals(VALUE):
                yield inner
            else:
                yield from _nested_texts(inner)


def _batches(raw: bytes) -> Iterator[pa.RecordBatch]:
    if raw.startswith(_FILE_MAGIC):
        # the file format is the stream format between two marks, with an index behind it
        raw = raw[8:]
    if any(_is_compressed(message.metadata.to_pybytes()) for message in _messages(raw)):
        raise _one("compressed buffers are refused; send the stream uncompressed")
    for batch in pa.ipc.open_stream(io.BytesIO(raw)):
        batch.validate(full=True)
        yield batch


def _messages(raw: bytes) -> Iterator[pa.Message]:
    reader = pa.ipc.MessageReader.open_stream(pa.BufferReader(raw))
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _bounded(batches: Iterable[pa.RecordBatch], sent: int) -> Iterator[pa.RecordBatch]:
    size = 0
    for batch in batches:
        size += batch.nbytes
        if size > _MAX_GROWTH * max(sent, 1_024):
            raise _one("the records unfold to far more than was sent")
        yield batch


def _is_compressed(metadata: bytes) -> bool:
    """Whether a record batch message states a compression (Arrow columnar format: Message, RecordBatch)."""
    message = _Flat(metadata, struct.unpack_from("<I", metadata, 0)[0])
    kind = message.byte(1)
    if kind == _DICTIONARY_BATCH:
        batch = message.table(2)
        records = None if batch is None else batch.table(1)
    else:
        records = message.table(2) if kind == _RECORD_BATCH else None
    return records is not None and records.table(3) is not None


_DICTIONARY_BATCH: Final = 2
_RECORD_BATCH: Final = 3


class _Flat:
    """A table of a FlatBuffers message: its fields by number."""

    def __init__(self, buffer: bytes, position: int) -> None:
        self._buffer = buffer
        self._position = position
        self._fields = position - struct.unpack_from("<i", buffer, position)[0]

    def _field(self, number: int) -> int:
        """Where a field stands, 0 when it is absent."""
        size = struct.unpack_from("<H", self._buffer, self._fields)[0]
        place = 4 + 2 * number
        offset = struct.unpack_from("<H", self._buffer, self._fields + place)[0] if place < size else 0
        return self._position + offset if offset else 0

    def byte(self, number: int) -> int:
        place = self._field(number)
        return self._buffer[place] if place else 0

    def table(self, number: int) -> _Flat | None:
        place = self._field(number)
        return _Flat(self._buffer, place + struct.unpack_from("<I", self._buffer, place)[0]) if place else None


def _one(message: str) -> Rejected:
    return Rejected([Problem(0, message)], 1)


def exchanges_of(records: pa.Table) -> list[str]:
    """The distinct exchanges that records are published to; a missing name is the default exchange."""
    return [name or "" for name in pc.unique(records["exchange"]).to_pylist()]


def keys_of(records: pa.Table, exchange: str) -> Iterator[str]:
    """The distinct routing keys, sender-selected ones included, of the records published to an exchange."""
    chosen = records.filter(pc.equal(pc.fill_null(records["exchange"], ""), exchange))
    yield from (key or "" for key in pc.unique(chosen["routing_key"]).to_pylist())
    for column in ("cc", "bcc"):
        yield from (key or "" for key in pc.unique(pc.list_flatten(chosen[column])).to_pylist())


def users_of(records: pa.Table) -> set[bytes]:
    """The distinct user ids that records state."""
    return set(pc.unique(pc.struct_field(records["properties"], "user_id")).to_pylist()) - {None}


def append(data: DataDir, vhost: str, records: pa.Table, *, author: str) -> int:
    """Append records to the vhost's inbox in one commit; gives the table's version that holds them."""
    path = data.inbox(vhost)
    log = tables.ensure_inbox_table(data, vhost)
    with data_files.Draft(log) as draft:
        draft.write(records)
        for _ in tables.attempts(path):
            version = draft.commit(info={"isBlindAppend": True, "bindery.author": author})
            if version is not None:
                return version
            log.refresh()
    raise AssertionError("attempts() ends by raising")
