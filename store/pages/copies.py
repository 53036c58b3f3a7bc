"""Files of some rows of a table, gathered out of what was encoded once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import numpy as np
import pyarrow as pa

from bindery.store.pages.leaves import Column, Repetition, Rows, Values
from bindery.store.pages.metadata import MAGIC, Chunk, Codec, Encoding, data_page, dictionary_page, footer, schema
from bindery.store.pages.shredding import Slots, leaves

#: Bytes of a page, about; readers hold one page of each column at a time.
_PAGE_BYTES: Final = 1 << 20
#: A column is compressed when that leaves at most this share …
_WORTH: Final = 0.95
#: … of so many bytes of its largest page.
_SAMPLE: Final = 64 << 10
_SNAPPY: Final = pa.Codec("snappy")

#: The repetition levels of some rows, by the column that repeats and where the rows begin and end.
_Repeated = dict[tuple[Repetition, int, int], bytes]


class Copies:
    """The rows of a table, of which any may stand in any number of Parquet files.

    `table` has columns of the types of messages (`bindery.router.message`), of which none repeats within what
    repeats. `delta` are the paths of leaves whose integers are differences (those of 32 bits are from 0 on), `bounded`
    those of leaves of texts and integers whose least and greatest value files state.
    """

    def __init__(self, table: pa.Table, *, delta: Collection[str] = (), bounded: Collection[str] = ()) -> None:
        self._schema = schema(table.schema)
        self._columns = []
        repetitions: dict[Slots, Repetition] = {}
        for leaf in leaves(table):
            if leaf.slots is not None and leaf.slots not in repetitions:
                repetitions[leaf.slots] = Repetition(leaf.slots)
            repetition = None if leaf.slots is None else repetitions[leaf.slots]
            path = ".".join(leaf.path)
            self._columns.append(Column(leaf, repetition, delta=path in delta, bounded=path in bounded))

    def file(self, rows: Rows) -> list[bytes]:
        """A file of the rows at these positions (uint32), at least one, in their order, as one row group: its parts.

        They are not joined: beside the file that would take as much memory again.
        """
        parts = [MAGIC]
        position = len(MAGIC)
        chunks: list[Chunk] = []
        repeated: _Repeated = {}
        for column in self._columns:
            chunk, pages = self._chunk(column, rows, position, repeated)
            parts += pages
            chunks.append(chunk)
            position += chunk.compressed
        return [*parts, footer(self._schema, len(rows), chunks)]

    def _chunk(self, column: Column, rows: Rows, start: int, repeated: _Repeated) -> tuple[Chunk, list[bytes]]:
        """A column of a file that begins at a position, and its headers and pages."""
        values = column.values(len(rows))
        pages: list[_Page] = []
        if values.dictionary is not None:
            count, content = values.dictionary
            pages.append(_Page(content, partial(dictionary_page, count)))
        slots = 0
        for first, last in _cuts(values, rows):
            chosen = rows[first:last]
            count = column.slots(chosen)
            levels = b""
            if column.repetition is not None:
                levels = repeated.get((column.repetition, first, last)) or column.repetition.page(chosen, count)
                repeated[column.repetition, first, last] = levels
            content = b"".join([levels, column.definition.page(chosen, count), values.page(chosen)])
            pages.append(_Page(content, partial(data_page, count, values.encoding)))
            slots += count
        codec = _codec_of(pages)
        parts: list[bytes] = []
        size, data = 0, start
        pages.reverse()
        while pages:
            page = pages.pop()  # what is compressed is not held as it was beside it
            packed = page.content if codec is Codec.UNCOMPRESSED else page.compressed
            head = page.head(len(page.content), len(packed))
            size += len(head) + len(page.content)
            if values.dictionary is not None and not parts:
                data += len(head) + len(packed)
            parts += [head, packed]
        encodings = {Encoding.RLE, values.encoding} | ({Encoding.PLAIN} if values.dictionary is not None else set())
        chunk = Chunk(
            kind=column.kind,
            path=column.path,
            encodings=tuple(sorted(encodings)),
            codec=codec,
            slots=slots,
            start=start,
            data=data,
            size=size,
            compressed=sum(map(len, parts)),
            bounds=column.bounds(rows, slots),
        )
        return chunk, parts


@dataclass(frozen=True)
class _Page:
    """The content of a page, and what gives its header for the sizes of the content and of what is stored."""

    content: bytes
    head: Callable[[int, int], bytes]

    @cached_property
    def compressed(self) -> bytes:
        """The content, compressed."""
        return _compressed(self.content)


def _codec_of(pages: Sequence[_Page]) -> Codec:
    """How a column is stored: the beginning of its largest page decides."""
    page = max(pages, key=lambda page: len(page.content))
    content = page.content
    sample = memoryview(content)[:_SAMPLE]
    packed = page.compressed if len(sample) == len(content) else _compressed(sample)
    return Codec.SNAPPY if len(packed) <= _WORTH * len(sample) else Codec.UNCOMPRESSED


def _compressed(content: bytes | memoryview) -> bytes:
    packed: bytes = _SNAPPY.compress(content, asbytes=True)
    return packed


def _cuts(values: Values, rows: Rows) -> Iterator[tuple[int, int]]:
    """Where the pages of a column begin and end, as positions in the rows."""
    room = 8 * _PAGE_BYTES // values.unit
    if values.spans.widest * len(rows) <= room:
        yield 0, len(rows)
        return
    size = np.cumsum(values.spans.lengths(rows))
    first = 0
    while first < len(rows):
        before = int(size[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(size, before + room, side="right")))
        yield first, last
        first = last
