"""How the rows of journals are laid down in files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bindery.router.message import JOURNAL_SCHEMA, Message, to_batch
from bindery.store.encoding import copies, journal_file

ROWS = 20_000


def rows_of_a_journal() -> pa.Table:
    sent = [
        Message(exchange="x", routing_key=f"key{n % 9}", connection=f"from {n}", body=b"%d" % n) for n in range(ROWS)
    ]
    batch = to_batch(sent)
    routing = JOURNAL_SCHEMA.field("routing")
    said = [
        {
            "topology_version": 3,
            "stream": "s",
            "batch_id": 7,
            "seq": seq,
            "bindings": [seq % 5, 7],
            "queues": [seq // 10_000, 9],
            "deferred": [9] if seq % 2 else None,
        }
        for seq in range(ROWS)
    ]
    columns = {name: batch.column(name) for name in ("exchange", "routing_key", "connection", "body")}
    return pa.table({**columns, "routing": pa.array(said, routing.type)})


def test_a_journal_is_laid_down_for_those_who_want_few_of_its_rows() -> None:
    """docs/storage.md: row groups of 8,192 messages, of which statistics tell numbers, keys and queues."""
    rows = rows_of_a_journal()
    content = b"".join(journal_file(rows))
    file = pq.ParquetFile(pa.BufferReader(content))
    assert file.read().equals(rows)
    metadata = file.metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [8_192, 8_192, 3_616]
    leaves = {groups[0].column(n).path_in_schema: n for n in range(metadata.num_columns)}
    bounds = {
        name: [(group.column(place).statistics.min, group.column(place).statistics.max) for group in groups]
        for name, place in leaves.items()
        if groups[0].column(place).is_stats_set
    }
    assert bounds == {
        "exchange": [("x", "x")] * 3,
        "routing_key": [("key0", "key8")] * 3,
        "routing.topology_version": [(3, 3)] * 3,
        "routing.batch_id": [(7, 7)] * 3,
        "routing.seq": [(0, 8_191), (8_192, 16_383), (16_384, 19_999)],
        "routing.queues.list.element": [(0, 9), (0, 9), (1, 9)],
        "routing.deferred.list.element": [(9, 9)] * 3,
    }
    encoded = {name: set(groups[0].column(place).encodings) for name, place in leaves.items()}
    assert {name for name, ways in encoded.items() if "RLE_DICTIONARY" in ways} == {
        "exchange",
        "routing_key",
        "routing.topology_version",
        "routing.stream",
        "routing.batch_id",
    }
    assert all("DELTA_BINARY_PACKED" in encoded[name] for name in leaves if "element" in name or "seq" in name)


def test_files_of_journals_and_of_copies_say_the_same_of_their_columns() -> None:
    rows = rows_of_a_journal()
    ours = b"".join(copies(rows).file(np.arange(ROWS, dtype=np.uint32)))
    files = [pq.ParquetFile(pa.BufferReader(content)) for content in (b"".join(journal_file(rows)), ours)]
    assert str(files[0].schema).partition("\n")[2] == str(files[1].schema).partition("\n")[2]
    assert files[0].schema_arrow.equals(files[1].schema_arrow)
