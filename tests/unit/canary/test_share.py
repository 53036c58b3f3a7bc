"""Which messages are in a canary: by their identity, whatever batch they come in, and the more the larger the share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.canary import Canary, Choice, places
from bindery.router.message import SOURCE, Message, to_batch
from bindery.router.values import Table

MANY = 20_000


def messages(number: int) -> pa.RecordBatch:
    return to_batch([Message(exchange="e", properties={"message_id": str(n)}) for n in range(number)])


def chosen(batch: pa.RecordBatch, share: float, **stated: str) -> list[bool]:
    return Choice(Canary("/", 1, 1, share=share, **stated))(batch, clock_ms=0).tolist()  # type: ignore[arg-type]


@pytest.mark.parametrize("share", [0.01, 0.05, 0.5, 0.9])
def test_a_share_is_a_share(share: float) -> None:
    found = sum(chosen(messages(MANY), share)) / MANY
    assert abs(found - share) < 5 * (share * (1 - share) / MANY) ** 0.5


def test_all_are_in_at_one() -> None:
    assert all(chosen(messages(1000), 1.0))


@given(st.lists(st.floats(1e-6, 1), min_size=2, max_size=2))
def test_who_is_in_stays_in_when_the_share_grows(shares: list[float]) -> None:
    batch = messages(200)
    low, high = (np.array(chosen(batch, share)) for share in sorted(shares))
    assert not (low & ~high).any()


@given(st.permutations(range(40)), st.integers(0, 40))
def test_batches_and_their_order_do_not_matter(order: list[int], cut: int) -> None:
    batch = messages(40)
    whole = places(batch)
    for part in (order[:cut], order[cut:]):
        assert places(batch.take(pa.array(part, pa.int64()))).tolist() == whole[part].tolist()


def test_places_are_known_values() -> None:
    """They must never change: a batch that runs again after an upgrade chooses the same messages."""
    sent = [
        Message(exchange="e", properties={"message_id": "a"}),
        Message(exchange="e", properties={"message_id": 7}),
        Message(exchange="e", routing_key="k", body=b"b"),
    ]
    assert places(to_batch(sent)).tolist() == KNOWN


KNOWN = [0.5938463232246067, 0.6519395868981506, 0.877082413149605]


def test_without_an_id_it_is_where_the_record_was_read() -> None:
    batch = to_batch([Message(exchange="e", body=b"same")] * 3)
    assert len(set(places(batch).tolist())) == 1
    read = [
        {"topic": "t", "partition": 0, "offset": 1},
        {"topic": "t", "partition": 0, "offset": 2},
        {"file": "f", "row_index": 1},
    ]
    sources = pa.array(read, SOURCE)
    told = pa.RecordBatch.from_arrays([*batch.columns, sources], names=[*batch.schema.names, "source"])
    assert len(set(places(told).tolist())) == 3


def test_a_filter_and_a_share_of_what_it_accepts() -> None:
    batch = to_batch(
        [Message(properties={"message_id": str(n)}, application_properties=Table({"n": n})) for n in range(400)]
    )
    found = chosen(batch, 0.5, filter="n >= 200")
    assert not any(found[:200]) and 60 < sum(found) < 140
    by_set = chosen(
        batch,
        1.0,
        filter='{"f": {"descriptor": "amqp:application-properties-filter", "value": {"n": 7}}}',
        dialect="filter-set",
    )
    assert [place for place, one in enumerate(by_set) if one] == [7]
