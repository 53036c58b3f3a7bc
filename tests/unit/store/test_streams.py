from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from bindery.router.errors import CheckpointMismatch, Refused
from bindery.store import data_files, tables
from bindery.store.commit import BatchCommitter
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.streams import EPOCH_BATCHES, STREAMS, Claim, epochs, first_batch_of, next_epoch, register, reopen
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import declare_queues, deliver


def test_a_stream_is_registered_once(data: DataDir) -> None:
    assert register(data, "flights", "c1").app_id == "flights:c1"
    assert register(data, "flights", "c1").app_id == "flights:c1"
    assert register(data, "other", "c9").app_id == "other:c9"
    assert [(e.stream, e.epoch, e.checkpoint_id) for e in epochs(data)] == [("flights", 1, "c1"), ("other", 1, "c9")]


def test_another_checkpoint_is_refused_unless_a_new_epoch_is_asked_for(data: DataDir) -> None:
    register(data, "flights", "c1")
    with pytest.raises(CheckpointMismatch) as refused:
        register(data, "flights", "c2")
    assert refused.value.exit_code == 3
    assert "--new-epoch" in str(refused.value.hint)
    assert register(data, "flights", "c2", new_epoch=True).app_id == "flights:c2"
    assert register(data, "flights", "c2").app_id == "flights:c2"
    with pytest.raises(CheckpointMismatch):
        register(data, "flights", "c1")
    assert [e.checkpoint_id for e in epochs(data)] == ["c1", "c2"]


def test_of_two_checkpoints_registered_at_once_one_is_refused(data: DataDir) -> None:
    register(data, "first", "c")

    def attempt(checkpoint: str) -> str:
        try:
            return register(data, "flights", checkpoint).app_id
        except CheckpointMismatch:
            return "refused"

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(attempt, ["a", "b", "c", "d"]))
    assert answers.count("refused") == 3
    assert len([e for e in epochs(data) if e.stream == "flights"]) == 1


def test_a_registration_is_decided_on_the_version_that_it_is_committed_on(
    data: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(data, "first", "c")
    grow = tables.grow

    def slow(log: TableLog, kind: tables.Kind) -> bool:
        """Another driver registers at the moment at which this one looks for new columns."""
        monkeypatch.setattr(tables, "grow", grow)
        register(data, "flights", "rival")
        return grow(log, kind)

    monkeypatch.setattr(tables, "grow", slow)
    with pytest.raises(CheckpointMismatch):
        register(data, "flights", "mine")
    assert [e.checkpoint_id for e in epochs(data) if e.stream == "flights"] == ["rival"]


def test_the_newest_claim_holds(data: DataDir) -> None:
    first = Claim(data, "flights:c1")
    other = Claim(data, "other:c1")
    assert first.holds()
    second = Claim(data, "flights:c1")
    assert (first.holds(), second.holds(), other.holds()) == (False, True, True)


# -- batch numbers -------------------------------------------------------------------------------------


def test_every_epoch_of_a_stream_has_batch_numbers_of_its_own(data: DataDir) -> None:
    first = register(data, "flights", "c1")
    second = register(data, "flights", "c2", new_epoch=True)
    assert (first.first_batch, second.first_batch) == (0, EPOCH_BATCHES)
    assert [first.batch_number(7), second.batch_number(7)] == [7, EPOCH_BATCHES + 7]
    assert register(data, "flights", "c2") == second
    assert register(data, "other", "c1").first_batch == 0


def test_a_checkpoint_goes_on_under_new_numbers_when_it_is_reopened(data: DataDir) -> None:
    first = register(data, "flights", "c1")
    second = reopen(data, first)
    assert (second.app_id, second.first_batch) == (first.app_id, EPOCH_BATCHES)
    assert register(data, "flights", "c1") == second
    with pytest.raises(CheckpointMismatch):
        reopen(data, first)


def test_a_batch_beyond_the_numbers_of_its_epoch_is_refused(data: DataDir) -> None:
    epoch = register(data, "flights", "c1")
    assert epoch.batch_number(EPOCH_BATCHES - 1) == EPOCH_BATCHES - 1
    with pytest.raises(Refused, match="1,000,000,000 batches") as refused:
        epoch.batch_number(EPOCH_BATCHES)
    assert "--new-epoch" in str(refused.value.hint)


def test_epochs_of_an_older_version_keep_the_numbers_under_which_they_were_routed(data: DataDir) -> None:
    older = tables.Kind(STREAMS.name, STREAMS.schema.remove(STREAMS.schema.get_field_index("first_batch")), {})
    log = tables.create_table(data.streams, older)
    rows = [{"stream": "flights", "epoch": n, "checkpoint_id": f"c{n}", "app_id": f"flights:c{n}"} for n in (1, 2)]
    log.commit([data_files.write_file(data.streams, pa.Table.from_pylist(rows, schema=older.schema))])

    assert register(data, "flights", "c2").batch_number(57) == 57
    assert register(data, "flights", "c3", new_epoch=True).first_batch == 2 * EPOCH_BATCHES
    assert register(data, "flights", "c3").first_batch == 2 * EPOCH_BATCHES


def test_each_process_takes_an_epoch_of_a_shared_stream_of_its_own_and_leaves_no_rows(data: DataDir) -> None:
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda _: next_epoch(data, "api"), range(8)))
    assert sorted(taken) == [number * EPOCH_BATCHES for number in range(8)]
    assert next_epoch(data, "other") == 0
    assert epochs(data) == []


def test_the_first_epoch_after_an_older_version_is_not_the_one_that_it_wrote_in(
    data: DataDir, store: TopologyStore
) -> None:
    version = store.edit(declare_queues("a"), author="t").version
    with BatchCommitter(data, stream="api", app_id="api:5f3e", claim=False) as committer:
        deliver(data, committer, 0, version, "a")
    assert next_epoch(data, "api") == EPOCH_BATCHES
    assert next_epoch(data, "api") == 2 * EPOCH_BATCHES


def test_numbers_stay_exact_in_json_readers_that_know_doubles_only() -> None:
    last = 2**53 // EPOCH_BATCHES - 1
    assert first_batch_of(last, stream="s") + EPOCH_BATCHES <= 2**53
    with pytest.raises(Refused, match="epochs"):
        first_batch_of(last + 1, stream="s")
