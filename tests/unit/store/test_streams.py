from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from router.errors import CheckpointMismatch
from store.paths import DataDir
from store.streams import Claim, epochs, register


def test_a_stream_is_registered_once(data: DataDir) -> None:
    assert register(data, "flights", "c1") == "flights:c1"
    assert register(data, "flights", "c1") == "flights:c1"
    assert register(data, "other", "c9") == "other:c9"
    assert [(e.stream, e.epoch, e.checkpoint_id) for e in epochs(data)] == [("flights", 1, "c1"), ("other", 1, "c9")]


def test_another_checkpoint_is_refused_unless_a_new_epoch_is_asked_for(data: DataDir) -> None:
    register(data, "flights", "c1")
    with pytest.raises(CheckpointMismatch) as refused:
        register(data, "flights", "c2")
    assert refused.value.exit_code == 3
    assert "--new-epoch" in str(refused.value.hint)
    assert register(data, "flights", "c2", new_epoch=True) == "flights:c2"
    assert register(data, "flights", "c2") == "flights:c2"
    with pytest.raises(CheckpointMismatch):
        register(data, "flights", "c1")
    assert [e.checkpoint_id for e in epochs(data)] == ["c1", "c2"]


def test_of_two_checkpoints_registered_at_once_one_is_refused(data: DataDir) -> None:
    register(data, "first", "c")

    def attempt(checkpoint: str) -> str:
        try:
            return register(data, "flights", checkpoint)
        except CheckpointMismatch:
            return "refused"

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(attempt, ["a", "b", "c", "d"]))
    assert answers.count("refused") == 3
    assert len([e for e in epochs(data) if e.stream == "flights"]) == 1


def test_the_newest_claim_holds(data: DataDir) -> None:
    first = Claim(data, "flights:c1")
    other = Claim(data, "other:c1")
    assert first.holds()
    second = Claim(data, "flights:c1")
    assert (first.holds(), second.holds(), other.holds()) == (False, True, True)
