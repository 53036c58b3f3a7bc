from __future__ import annotations

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake

from bindery.router.errors import UnsupportedTable
from bindery.router.message import QUEUE_SCHEMA, UNROUTABLE_SCHEMA
from bindery.store import tables
from bindery.store.commit import BatchCommitter
from bindery.store.descriptions import columns_of, description_of
from bindery.store.log import create_log
from bindery.store.manifest import MANIFEST
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.streams import STREAMS
from bindery.store.topology import TOPOLOGY, TopologyStore
from tests.unit.store.conftest import declare_queues, deliver, remove_data_files


def test_a_declared_queue_has_an_empty_table_with_its_true_name(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare_queues("a b/é"), author="t")
    table = DeltaTable(data.queue("/", "a b/é"))
    properties = table.metadata().configuration
    assert properties["bindery.format_version"] == "1"
    assert (properties["bindery.kind"], properties["bindery.vhost"]) == ("queue", "/")
    assert properties["bindery.name"] == "a b/é"
    assert int(properties["delta.checkpointInterval"]) == 100
    assert {"delta.logRetentionDuration", "delta.deletedFileRetentionDuration"} <= properties.keys()
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)
    assert tables.count_rows(data, "/", "a b/é") == 0


def test_rows_are_counted_from_the_log(data: DataDir, store: TopologyStore) -> None:
    version = store.edit(declare_queues("q"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        for batch in range(12):
            deliver(data, committer, batch, version, "q", rows=5)
    remove_data_files(data.queue("/", "q"))
    assert tables.count_rows(data, "/", "q") == 60


def test_every_engine_reads_the_same_rows(data: DataDir, store: TopologyStore) -> None:
    version = store.edit(declare_queues("q"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        deliver(data, committer, 0, version, "q", application_properties=lambda seq: [("n", {"int": seq})])
    path = data.queue("/", "q")
    arrow = DeltaTable(path).to_pyarrow_table()
    assert sorted(arrow["routing_key"].to_pylist()) == ["k0", "k1", "k2"]
    assert pl.read_delta(path)["routing_key"].sort().to_list() == ["k0", "k1", "k2"]
    found = duckdb.sql("SELECT sum(application_properties['n'].int) FROM arrow").fetchall()
    assert int(found[0][0]) == 3


def test_a_missing_table_is_named(data: DataDir) -> None:
    with pytest.raises(UnsupportedTable) as refused:
        tables.open_table(data.queue("/", "none"), tables.QUEUE)
    assert refused.value.where == data.queue("/", "none")


def test_a_newer_format_version_is_refused(data: DataDir) -> None:
    path = data.queue("/", "q")
    tables.ensure_queue_table(data, "/", "q")
    DeltaTable(path).alter.set_table_properties({"bindery.format_version": "2"}, raise_if_not_exists=False)
    with pytest.raises(UnsupportedTable, match="format version 2") as refused:
        tables.open_table(path, tables.QUEUE)
    assert refused.value.hint == "upgrade Bindery"


def test_a_foreign_table_is_refused(data: DataDir) -> None:
    path = data.queue("/", "q")
    write_deltalake(path, QUEUE_SCHEMA.empty_table())
    with pytest.raises(UnsupportedTable, match="no Bindery table"):
        tables.open_table(path, tables.QUEUE)


@pytest.mark.parametrize("feature", ["delta.enableDeletionVectors", "delta.enableChangeDataFeed"])
def test_table_features_beyond_the_minimal_protocol_are_refused(data: DataDir, feature: str) -> None:
    path = data.queue("/", "q")
    tables.ensure_queue_table(data, "/", "q")
    table = DeltaTable(path)
    table.alter.set_table_properties({feature: "true"})
    protocol = DeltaTable(path).protocol()
    assert protocol.min_writer_version > 2, "the feature did not raise the protocol"
    with pytest.raises(UnsupportedTable, match="Delta protocol"):
        tables.open_table(path, tables.QUEUE)


def test_a_table_of_another_name_in_the_same_folder_is_refused(data: DataDir) -> None:
    tables.ensure_queue_table(data, "/", "q")
    with pytest.raises(UnsupportedTable, match="states name 'q', expected 'Q'"):
        tables.open_table(data.queue("/", "q"), tables.QUEUE, vhost="/", name="Q")


def test_a_damaged_log_is_named(data: DataDir) -> None:
    path = data.queue("/", "q")
    tables.ensure_queue_table(data, "/", "q")
    place(path, "_delta_log", f"{0:020}.json").replace(b'{"commitInfo')
    with pytest.raises(UnsupportedTable) as refused:
        tables.open_table(path, tables.QUEUE)
    assert refused.value.where == path
    assert "\n" not in refused.value.message


def described(path: str) -> tuple[str | None, str | None, dict[str, str | None]]:
    table = DeltaTable(path)
    columns = {field.name: field.metadata.get("comment") for field in table.schema().fields}
    return table.metadata().name, table.metadata().description, columns


@pytest.mark.parametrize("kind", [tables.QUEUE, tables.UNROUTABLE, tables.INBOX, MANIFEST, STREAMS, TOPOLOGY])
def test_every_column_of_every_kind_is_described_in_a_sentence(kind: tables.Kind) -> None:
    comments = columns_of(kind.name)
    assert list(comments) == kind.schema.names
    assert all(text.endswith(".") and len(text) <= 250 for text in comments.values())
    assert description_of(kind.name, vhost="/", name="q")


def test_a_table_says_what_it_is_about(data: DataDir) -> None:
    tables.ensure_queue_table(data, "/", "to.lax")
    name, description, columns = described(data.queue("/", "to.lax"))
    assert (name, columns) == ("to.lax", dict(columns_of("queue")))
    assert description is not None
    assert description.startswith("Messages routed to the queue 'to.lax' of the vhost '/'")


def test_a_description_outlives_a_checkpoint_and_other_changes_of_the_metadata(data: DataDir) -> None:
    path = data.queue("/", "q")
    tables.ensure_queue_table(data, "/", "q")
    before = described(path)
    DeltaTable(path).create_checkpoint()
    newer = tables.Kind("queue", QUEUE_SCHEMA.append(pa.field("later", pa.string())), {})
    assert tables.grow(tables.open_log(path, tables.QUEUE), newer)
    name, description, columns = described(path)
    assert (name, description, columns) == (*before[:2], before[2] | {"later": None})


def test_a_table_of_before_is_used_as_it_is_and_described_when_it_grows(data: DataDir) -> None:
    path = data.unroutable("/")
    plain = Schema.from_arrow(pa.schema([field for field in UNROUTABLE_SCHEMA if field.name != "detail"]))
    create_log(path, plain, {"bindery.format_version": "1", "bindery.kind": "unroutable", "bindery.vhost": "/"})
    log = tables.ensure_unroutable_table(data, "/")
    assert (log.version, described(path)[:2]) == (0, (None, None))
    assert tables.grow(log, tables.UNROUTABLE)
    name, description, columns = described(path)
    assert (name, description) == ("unroutable", description_of("unroutable", vhost="/", name=None))
    assert columns == columns_of("unroutable")


def test_a_column_of_another_type_is_refused_and_a_missing_nullable_one_is_added(data: DataDir) -> None:
    older = pa.schema([field for field in UNROUTABLE_SCHEMA if field.name != "detail"])
    path = data.unroutable("/")
    log = tables.create_table(path, tables.Kind("unroutable", older, {}), vhost="/")
    tables.check_table(log.state, path, tables.UNROUTABLE)
    assert tables.grow(log, tables.UNROUTABLE)
    grown = tables.open_table(path, tables.UNROUTABLE)
    assert {field.name for field in grown.schema().fields} == set(UNROUTABLE_SCHEMA.names)
    assert not tables.grow(log, tables.UNROUTABLE)

    wrong = UNROUTABLE_SCHEMA.set(0, pa.field("exchange", pa.int64()))
    other = tables.create_table(data.unroutable("v"), tables.Kind("unroutable", wrong, {}))
    assert other.version == 0
    with pytest.raises(UnsupportedTable, match="column 'exchange'"):
        tables.open_table(data.unroutable("v"), tables.UNROUTABLE)
