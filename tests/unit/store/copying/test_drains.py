"""What a copy has of drains: an inbox without what comes after refused messages that are not in the copy."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from bindery.router.message import MESSAGE_SCHEMA, UNROUTABLE_SCHEMA, Message, to_batch
from bindery.store import faults, tables
from bindery.store.copying import copy_data
from bindery.store.draining import DrainLog, Rows
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import Crash, at, crash
from tests.unit.store.routed import route


def drained(data: DataDir, *, refused: int, kept: int) -> None:
    """A batch of a stream: a message that is refused, and one after it that is not."""
    log = DrainLog(data, "/", "drain:d:s")
    version = log.topology_version()
    routing = {"stream": log.app_id, "topology_version": version, "batch_id": log.claim, "seq": 1}
    row = {"reason": "invalid_record", "detail": str(refused), "routing": routing}
    log.append_refused(
        Rows(pa.Table.from_pylist([row], schema=UNROUTABLE_SCHEMA), [refused]), kept, topology_version=version
    )
    messages = pa.Table.from_batches([to_batch([Message(routing_key=str(kept))])]).select(MESSAGE_SCHEMA.names)
    log.append(Rows(messages, [kept]), kept)


def offsets(data: DataDir) -> tuple[list[str], list[str]]:
    """The messages that were refused, and those that were not."""
    refused = DeltaTable(data.unroutable("/")).to_pyarrow_table().to_pylist()
    kept = DeltaTable(data.inbox("/")).to_pyarrow_table()["routing_key"].to_pylist()
    return sorted(row["detail"] for row in refused if row["reason"] == "invalid_record"), sorted(kept)


def test_what_was_refused_is_not_lost_where_its_table_is_cut(
    data: DataDir, store: TopologyStore, tmp_path: Path
) -> None:
    drained(data, refused=0, kept=1)
    with faults.installed(at("batch.in_tables", crash)), pytest.raises(Crash):
        route(data, store, [Message(routing_key="nowhere")], batch_id=0)
    before = tables.open_log(data.unroutable("/"), tables.UNROUTABLE).version
    drained(data, refused=2, kept=3)
    copy_data(data, DataDir.named(tmp_path / "copy"))
    there = DataDir.open(tmp_path / "copy")
    assert tables.open_log(there.unroutable("/"), tables.UNROUTABLE).version == before - 1
    assert offsets(there) == (["0"], ["1"])
    assert DrainLog(there, "/", "drain:d:s").position == 1
    drained(there, refused=2, kept=3)
    assert offsets(there) == offsets(data) == (["0", "2"], ["1", "3"])
