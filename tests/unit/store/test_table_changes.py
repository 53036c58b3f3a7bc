"""What a table's log says of what has happened to it."""

from __future__ import annotations

import json

import pytest

from bindery.router.errors import UnsupportedTable
from bindery.store import tables
from bindery.store.commit import BatchCommitter
from bindery.store.log import entry_of
from bindery.store.maintenance.compaction import replace_files
from bindery.store.paths import DataDir
from bindery.store.read import delete_matching, take
from bindery.store.table_changes import FileSizes, columns_of, newest_changes, type_text
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import declare_queues, deliver


@pytest.fixture
def path(data: DataDir, store: TopologyStore) -> str:
    """Two batches, a get, a purge."""
    version = store.edit(declare_queues("q"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        for batch in range(2):
            deliver(data, committer, batch, version, "q")
    take(data, "q", limit=1)
    delete_matching(data, "q", None)
    return data.queue("/", "q")


def test_changes_are_listed_newest_first_with_the_rows_that_came(path: str) -> None:
    found = newest_changes(path, 100)
    assert [(one.version, one.change, one.stream, one.batch_id, one.added) for one in found] == [
        (4, "purge", None, None, None),
        (3, "get", None, None, None),
        (2, "append", "s", 1, 3),
        (1, "append", "s", 0, 3),
        (0, "create", None, None, None),
    ]
    assert found[0].committed_ms >= found[-1].committed_ms > 0
    assert [one.version for one in newest_changes(path, 2, before=3)] == [2, 1]
    assert newest_changes(path, 0) == []


def test_maintenance_is_told_from_messages_that_came(data: DataDir, path: str) -> None:
    log = tables.open_log(path, tables.QUEUE, files=True)
    assert replace_files(log, [], [])
    newest = newest_changes(path, 1)[0]
    assert (newest.change, newest.added) == ("compact", None)


def test_a_damaged_entry_names_the_table(path: str) -> None:
    entry_of(path, 2).replace(b'{"commitInfo": ')
    with pytest.raises(UnsupportedTable, match="cannot read the log of "):
        newest_changes(path, 10)


def test_sizes_and_columns(data: DataDir, path: str) -> None:
    assert FileSizes.of([]) == FileSizes(0, 0, 0, 0, 0)
    log = tables.open_log(path, tables.QUEUE, files=True)
    columns = {one.name: one for one in columns_of(log.state)}
    assert columns["cc"].type == "array<string>"
    assert columns["routing"].type.startswith("struct<topology_version: bigint, stream: string,")
    assert columns["application_properties"].type.startswith("map<string, struct<bool: boolean, int: bigint,")
    assert columns["routing_key"].comment == "The routing key as published."
    assert type_text(json.loads('"integer"')) == "int"
