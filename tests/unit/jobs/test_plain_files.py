"""Tasks that read files of messages themselves: parts of files, and what ends it; the rows are tests/spark's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bindery.jobs.fold import Fold, MappedColumn
from bindery.jobs.plain_files import FilePart, NotPlain, PlainFiles
from bindery.jobs.task import Held, RouteTask
from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.message import Message, to_batch
from bindery.router.model import Binding, Queue, Topology
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from bindery.store.writer import BatchStamp

COLUMNS = ("exchange", "routing_key", "body")


def written(folder: Path, rows: int, *, group: int, name: str = "a b%.parquet") -> FilePart:
    """A file of messages, whole."""
    messages = [Message("amq.fanout", f"key {row}", body=b"x" * (row % 7)) for row in range(rows)]
    path = folder / name
    pq.write_table(pa.Table.from_batches([to_batch(messages)]), path, row_group_size=group)
    return FilePart("file://" + str(path).replace("%", "%25").replace(" ", "%20"), 0, path.stat().st_size)


def read(*parts: FilePart, rows: int = 100, rebased: bool = False) -> list[pa.RecordBatch]:
    ids = pa.record_batch({"id": [0]})
    return list(PlainFiles(COLUMNS, [parts], rows, rebased)(iter([ids])))


@pytest.mark.parametrize("size", [300, 1000, 5000, 10**6])
def test_parts_of_a_file_have_each_row_once_and_know_its_place(tmp_path: Path, size: int) -> None:
    whole = written(tmp_path, 50, group=10)
    parts = [FilePart(whole.address, start, min(start + size, whole.end)) for start in range(0, whole.end, size)]
    table = pa.Table.from_batches(read(*parts, rows=3))
    assert table["routing_key"].to_pylist() == [f"key {row}" for row in range(50)]
    places = table["__source"].combine_chunks()
    assert places.field("row_index").to_pylist() == [*range(50)]
    assert places.field("file").unique().to_pylist() == [whole.address.replace("file://", "file:")]


def test_batches_have_as_many_records_as_they_may(tmp_path: Path) -> None:
    assert [batch.num_rows for batch in read(written(tmp_path, 10, group=10), rows=4)] == [4, 4, 2]


@pytest.mark.parametrize(
    ("metadata", "rebased", "refused"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"org.apache.spark.version": "4.2.0"}, True, False),
        ({"org.apache.spark.version": "2.4.8"}, False, True),
        ({"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}, False, True),
    ],
)
def test_times_of_the_julian_calendar_are_sparks_to_read(
    tmp_path: Path, metadata: dict[str, str], rebased: bool, refused: bool
) -> None:
    """Spark's DataSourceUtils.datetimeRebaseSpec: by who wrote the file, or else by the setting."""
    part = written(tmp_path, 3, group=3)
    pq.write_table(pq.read_table(part.path).replace_schema_metadata(metadata), part.path)
    part = FilePart(part.address, 0, Path(part.path).stat().st_size)
    if refused:
        with pytest.raises(NotPlain, match="calendar"):
            read(part, rebased=rebased)
    else:
        assert sum(batch.num_rows for batch in read(part, rebased=rebased)) == 3


def test_a_file_that_is_gone_or_damaged_is_named(tmp_path: Path) -> None:
    part = written(tmp_path, 3, group=3)
    Path(part.path).write_bytes(b"PAR1 and nothing more")
    with pytest.raises(NotPlain, match=r"a%20b%25\.parquet: "):
        read(part)
    Path(part.path).unlink()
    with pytest.raises(NotPlain, match=r"a%20b%25\.parquet: "):
        read(part)


def test_of_an_attempt_that_is_given_up_no_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files were written when the second one turns out to be damaged: groups and buffers are as small as can be."""
    monkeypatch.setattr("bindery.jobs.task.GROUP_ROWS", 1)
    data = DataDir.open(tmp_path / "data", create=True)

    def declare(editor: TopologyEditor) -> None:
        editor.declare_queue(Queue("/", "all"))
        editor.bind(Binding(0, "/", "amq.fanout", "all"))

    topology: Topology = TopologyStore(data).edit(declare, author="test").topology
    good = written(tmp_path, 10, group=10)
    bad = written(tmp_path, 10, group=10, name="bad.parquet")

    def reader(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in (good, bad):
            yield from PlainFiles(COLUMNS, [[part]], 10, rebased=False)(batches)
            batches = iter([pa.record_batch({"id": [0]})])

    task = RouteTask(
        data,
        "/",
        BatchStamp("s", 0, topology.version, 0),
        Fold(tuple(MappedColumn(name, name) for name in COLUMNS), False, 1 << 20),
        Held(Router.compile(topology, "/")),
        buffer_bytes=1,
        reader=reader,  # type: ignore[arg-type]  # files one after the other, each a batch of its own
    )
    folder = Path(data.queue("/", "all"))
    (answer,) = task(iter([pa.record_batch({"id": [0]})]))
    assert len(json.loads(answer["result"][0].as_py())["files"]) == len(list(folder.glob("*.parquet"))) > 0
    for file in folder.glob("*.parquet"):
        file.unlink()

    Path(bad.path).write_bytes(b"nothing")
    (answer,) = task(iter([pa.record_batch({"id": [0]})]))
    assert "bad.parquet" in json.loads(answer["result"][0].as_py())["not_plain"]
    assert list(folder.glob("*.parquet")) == []
