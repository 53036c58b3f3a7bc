"""Three evaluators side by side: filter groups over a batch, the scalar reference, and the plain reading."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from bindery.router.columns import BatchView
from bindery.router.filters import Filter, FilterGroups, Selection, evaluate, is_troubled
from bindery.router.filters.ast import TROUBLE, And, Node, XPath, walk
from bindery.router.filters.sets import nodes
from bindery.router.message import Message, to_batch
from tests.unit.filters import plain, plain_events

CLOCK_MS = 1_577_836_800_000
#: Nodes that the plain reading of trees does not know: sets are read from their JSON form (`sets/plain.py`).
_UNREAD = (XPath, *(kind for kind in vars(nodes).values() if isinstance(kind, type) and issubclass(kind, Node)))

Pairs = Sequence[tuple[int, int]]


def expected(groups: Sequence[Sequence[Filter]], batch: Sequence[Message], pairs: Pairs) -> Selection:
    """What the scalar reference says, once it agrees with the plain reading."""
    accepted, troubled = [], []
    readable = {
        item: not any(isinstance(node, _UNREAD) for node in walk(item.expression)) for g in groups for item in g
    }
    verdicts: dict[tuple[int, Filter], tuple[bool, bool]] = {}
    for pair, (row, group) in enumerate(pairs):
        for member, item in enumerate(groups[group]):
            verdict = verdicts.get((row, item))
            if verdict is None:
                truth = evaluate(item, batch[row], clock_ms=CLOCK_MS)
                in_trouble = truth is not True and is_troubled(item, batch[row], clock_ms=CLOCK_MS)
                if item.dialect == "cesql":
                    _judge_event(item, batch[row], truth)
                elif readable[item]:
                    reading = plain.evaluate(item.expression, batch[row], CLOCK_MS)
                    found = TROUBLE if in_trouble else truth
                    assert found is reading, f"{item} gives {found}, by the rules {reading}, for {batch[row]}"
                verdict = verdicts[row, item] = truth is True, in_trouble
            if verdict[0]:
                accepted.append((pair, member))
            elif verdict[1]:
                troubled.append((pair, member))
    return Selection(*_columns(accepted), *_columns(troubled))


def _judge_event(item: Filter, message: Message, truth: bool | None) -> None:
    """An AND over all is not asked where it ends: parts that are false hide errors before them."""
    value, errors = plain_events.evaluate(item.text, message)
    wanted = value if type(value) is bool and not errors else None
    same = truth is wanted or (isinstance(item.expression, And) and truth is not True and wanted is not True)
    assert same, f"{item} gives {truth}, by the specification {value} with {errors}, for {message}"


def _columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    array = np.array(pairs, np.int64).reshape(-1, 2)
    return array[:, 0], array[:, 1].astype(np.int32)


def select(compiled: FilterGroups, batch: pa.RecordBatch, pairs: Pairs) -> Selection:
    """What filter groups say of pairs of a row and a group."""
    rows, groups = np.array(pairs, np.int64).reshape(-1, 2).T
    return compiled.select(BatchView(batch, clock_ms=CLOCK_MS), rows, groups.astype(np.int32))


def assert_same(
    found: Selection, wanted: Selection, groups: Sequence[Sequence[Filter]], batch: Sequence[Message], pairs: Pairs
) -> None:
    """Fail with the first filter and message that two selections differ about."""
    assert not found.failed_error
    for name in ("pair", "member", "troubled_pair", "troubled_member"):
        assert getattr(found, name).dtype == getattr(wanted, name).dtype
    both = (set(zip(s.pair.tolist(), s.member.tolist(), strict=True)) for s in (found, wanted))
    for pair, member in sorted(set.symmetric_difference(*both)):
        pytest.fail(f"{groups[pairs[pair][1]][member]} differs for {batch[pairs[pair][0]]}")
    both = (set(zip(s.troubled_pair.tolist(), s.troubled_member.tolist(), strict=True)) for s in (found, wanted))
    for pair, member in sorted(set.symmetric_difference(*both)):
        pytest.fail(f"{groups[pairs[pair][1]][member]} is troubled in one for {batch[pairs[pair][0]]}")
    for name in ("pair", "member", "troubled_pair", "troubled_member"):
        if not np.array_equal(getattr(found, name), getattr(wanted, name)):
            pytest.fail(f"{name} is not sorted by pair and member, each once: {_repeated(found, groups, pairs)}")


def _repeated(found: Selection, groups: Sequence[Sequence[Filter]], pairs: Pairs) -> str:
    seen = set()
    for pair, member in zip(found.pair.tolist(), found.member.tolist(), strict=True):
        if (pair, member) in seen:
            return f"{groups[pairs[pair][1]][member]} stands twice"
        seen.add((pair, member))
    return "the order"


def judge(groups: Sequence[Sequence[Filter]], batch: Sequence[Message], pairs: Pairs | None = None) -> None:
    """All evaluators agree on pairs of message and group (all of them), also after pickling and in a slice."""
    pairs = pairs if pairs is not None else [(row, group) for row in range(len(batch)) for group in range(len(groups))]
    wanted = expected(groups, batch, pairs)
    compiled = FilterGroups(groups)
    whole = to_batch(batch)
    assert_same(select(compiled, whole, pairs), wanted, groups, batch, pairs)
    shipped = pickle.loads(pickle.dumps(compiled))  # noqa: S301  # our own bytes
    assert_same(select(shipped, inside(whole), pairs), wanted, groups, batch, pairs)


def inside(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same batch as a slice of a longer one, whose other rows hold the same values in another order."""
    if not batch.num_rows:
        return batch
    around = pa.Table.from_batches([batch.slice(batch.num_rows // 2), batch, batch.slice(0, batch.num_rows // 2)])
    (whole,) = around.combine_chunks().to_batches()
    return whole.slice(batch.num_rows - batch.num_rows // 2, batch.num_rows)
