"""From a finished walk to deliveries: copies by queue, lineage by message, and the unroutable rest."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindery.router.engine.compile import MISSING, Plan
from bindery.router.engine.filtering import Findings
from bindery.router.engine.forms import FormsWalk
from bindery.router.engine.result import (
    ALTERNATE_MISSING,
    DELIVERED,
    DISCARDED,
    FILTER_ERROR,
    FILTERED,
    INTERNAL_EXCHANGE,
    NO_BINDING,
    NO_EXCHANGE,
    REASONS,
    REJECTED,
    RETURNED,
    Counts,
    Deliveries,
    Forms,
    Unroutable,
    Work,
)
from bindery.router.engine.walk import KERNELS, Walk
from bindery.router.matching.texts import Int32s, Int64s
from bindery.router.message import to_batch
from bindery.router.native import kernels
from bindery.router.transforms.statements import SECTIONS
from bindery.router.utf8 import repaired

Bools = npt.NDArray[np.bool_]
#: Filters that the detail of one message names.
_SHOWN: Final = 5


def assemble(walk: Walk, batch: pa.RecordBatch, exchange: Int32s) -> Deliveries:
    """The deliveries of a batch whose messages were published to the given exchanges (-1: unknown)."""
    plan, rows = walk.plan, batch.num_rows
    state = np.concatenate([np.zeros(0, np.int32), *(pairs.state for pairs in walk.pairs)])
    link = np.concatenate([np.zeros(0, np.int32), *(pairs.link for pairs in walk.pairs)])
    is_open = np.concatenate([np.zeros(0, np.bool_), *(pairs.open for pairs in walk.pairs)])
    native = kernels(KERNELS)
    of_links = (plan.links.id, plan.links.queue, len(plan.queues))
    lineage_offsets, lineage, queue_offsets, row_queues, copies, hits = native.gather(
        walk.message_of(state), link, is_open, rows, *of_links
    )
    routed = np.diff(queue_offsets) > 0
    forms = None
    if isinstance(walk, FormsWalk):
        forms, numbered = _forms(walk, state, link, is_open, rows)
        if forms is not None:
            _, _, queue_offsets, row_queues, copies, _ = native.gather(
                numbered[walk.row[state]], link, is_open, rows + len(forms), *of_links
            )
    starts = np.append(0, np.cumsum(copies))
    delivered = native.by_queue(queue_offsets, row_queues, starts)
    copy = None
    if forms is not None:
        delivered, copy = _by_message(delivered, starts, np.append(np.arange(rows, dtype=np.int32), forms.message))
    touched = np.flatnonzero(copies).astype(np.int32)
    findings = walk.findings()
    failures = _failures(plan, findings)
    unroutable = _unroutable(walk, batch, exchange, np.flatnonzero(~routed), failures, findings)
    return Deliveries(
        queue=touched,
        offsets=np.append(0, np.cumsum(copies[touched])).astype(np.int64),
        rows=delivered,
        lineage=pa.ListArray.from_arrays(pa.array(lineage_offsets), pa.array(lineage)),
        reached=_lists(queue_offsets, row_queues),
        unroutable=unroutable,
        incomplete=_incomplete({row: text for row, text in failures.items() if routed[row]}),
        counts=_counts(walk, hits, unroutable, findings),
        forms=forms,
        copy=copy,
    )


def _forms(walk: FormsWalk, state: Int32s, link: Int32s, is_open: Bools, rows: int) -> tuple[Forms | None, Int32s]:
    """The forms in which queues get messages, if any, and per row of the walk its row behind the batch, or 0.

    They are ordered by message and number.
    """
    row = walk.row[state[is_open & (walk.plan.links.queue[link] >= 0)]]
    held = np.unique(row[row >= rows])
    numbered = np.arange(len(walk.message), dtype=np.int32)
    numbered[rows:] = 0  # a form that no queue gets has no open pairs
    if not len(held):
        return None, numbered
    message = walk.message[held]
    number = np.array([walk.numbers(int(one))[int(form)] for one, form in zip(message, held, strict=True)], np.int32)
    order = np.lexsort((number, message))
    held, message, number = held[order], message[order], number[order]
    numbered[held] = rows + np.arange(len(held), dtype=np.int32)
    assert walk.plan.changing is not None  # noqa: S101  # a walk of forms has it
    sections = {name for one in walk.plan.changing.statements for name in one.sections}
    changed = to_batch(walk.form(int(form)) for form in held)
    return Forms(message, number, changed.select([name for name in SECTIONS if name in sections])), numbered


def _by_message(copies: Int32s, starts: Int64s, message: Int32s) -> tuple[Int32s, Int32s]:
    """Copies, rows of the batch with forms, in the order of messages in each queue: the messages, and the rows."""
    queue = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    copies = copies[np.lexsort((copies, message[copies], queue))]
    return message[copies], copies


def _lists(offsets: Int64s, numbers: Int32s) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(numbers))


# -- unroutable messages --------------------------------------------------------------------------------


def _failures(plan: Plan, findings: Findings) -> dict[int, str]:
    """The rows of messages that may lack copies, ascending, and which filters could not be evaluated, or what else."""
    found: dict[int, dict[int, str]] = {}
    texts = dict(findings.beyond)
    for row, member, error in findings.failed:
        link = int(plan.groups.link[member])  # a queue's filter may stand in several groups
        found.setdefault(row, {})[link if link < 0 else member] = error
    for row, members in sorted(found.items()):
        shown = [f"the filter of {_owner(plan, member)}: {error}" for member, error in members.items()]
        more = f"; and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        texts[row] = f"could not be evaluated: {'; '.join(shown[:_SHOWN])}{more}"
    return dict(sorted(texts.items()))


def _owner(plan: Plan, member: int) -> str:
    """The binding or divert of a member, or the queue -1 - `member`."""
    if member < 0:
        return f"queue {plan.queues[-1 - member]!r}"
    link = int(plan.groups.link[member])
    kind = "divert" if plan.links.divert[link] else "binding"
    return f"{kind} {plan.links.id[link]} from exchange {plan.exchange_names[plan.links.source[link]]!r}"


def _incomplete(failures: dict[int, str]) -> Unroutable:
    count = len(failures)
    return Unroutable(
        np.fromiter(failures, np.int32, count),
        np.full(count, FILTER_ERROR, np.int8),
        np.full(count, DELIVERED, np.int8),
        list(failures.values()),
        np.ones(count, np.bool_),
    )


def _unroutable(
    walk: Walk,
    batch: pa.RecordBatch,
    exchange: Int32s,
    rows: Int64s,
    failures: dict[int, str],
    findings: Findings,
) -> Unroutable:
    plan = walk.plan
    published = exchange[rows]
    known = published >= 0
    rejects = (known & plan.exchanges.rejects[published]) | _flags(batch, "reject_unroutable")[rows]
    records = ~known | plan.exchanges.records[published]
    mandatory = _flags(batch, "mandatory")[rows]
    disposition = np.where(mandatory, RETURNED, np.where(rejects, REJECTED, DISCARDED)).astype(np.int8)
    reason, detail = _reasons(walk, batch, published, rows, failures, findings)
    recorded = records | rejects | mandatory | (reason == FILTER_ERROR)  # a defect of ours is never only counted
    return Unroutable(rows.astype(np.int32), reason, disposition, detail, recorded)


def _flags(batch: pa.RecordBatch, name: str) -> Bools:
    if name not in batch.schema.names:  # rows of a table have no sender
        return np.zeros(batch.num_rows, np.bool_)
    column = batch.column(name)
    return np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)


def _reasons(
    walk: Walk,
    batch: pa.RecordBatch,
    published: Int32s,
    rows: Int64s,
    failures: dict[int, str],
    findings: Findings,
) -> tuple[npt.NDArray[np.int8], list[str | None]]:
    """Why each row is unroutable; of several reasons the first in the order of the assignments from the end."""
    plan = walk.plan
    place = np.full(batch.num_rows, -1, np.int64)
    place[rows] = np.arange(len(rows))
    reason = np.full(len(rows), NO_BINDING, np.int8)
    detail = np.empty(len(rows), object)
    names = np.array([f"no binding of exchange {name!r} matched" for name in plan.exchange_names], object)
    detail[:] = names[published] if len(rows) else None
    _mark(reason, detail, place, walk, walk.rejected, FILTERED, _filtered_details(plan))
    for row, unread in _unread(findings).items():
        if place[row] >= 0 and reason[place[row]] in (FILTERED, NO_BINDING):
            detail[place[row]] += f"; {'; '.join(sorted(unread))}"
    missing = walk.alternate_missing | ((plan.exchanges.alternate_link[walk.exchange] == MISSING) & ~walk.diverted)
    _mark(reason, detail, place, walk, missing, ALTERNATE_MISSING, _missing_details(plan))
    for row, text in failures.items():
        if place[row] >= 0:
            reason[place[row]], detail[place[row]] = FILTER_ERROR, text
    unknown = published < 0
    inside = ~unknown & plan.exchanges.internal[published]
    reason[inside] = INTERNAL_EXCHANGE
    detail[inside] = np.array([f"exchange {name!r} is internal" for name in plan.exchange_names], object)[
        published[inside]
    ]
    if unknown.any():
        reason[unknown] = NO_EXCHANGE
        column = batch.column("exchange").take(pa.array(rows[unknown])).dictionary_encode()
        names = repaired(column.dictionary).to_pylist()
        texts = np.array([f"there is no exchange {name!r}" for name in names], object)
        detail[unknown] = texts[column.indices.to_numpy()]
    return reason, detail.tolist()


def _unread(findings: Findings) -> dict[int, set[str]]:
    """The rows whose bodies filters asked for and could not read, and why."""
    found: dict[int, set[str]] = {}
    for (_, row), unread in findings.unparsable.items():
        found.setdefault(row, set()).add(unread.reason)
    return found


def _mark(
    reason: npt.NDArray[np.int8],
    detail: npt.NDArray[np.object_],
    place: Int64s,
    walk: Walk,
    states: Bools,
    code: int,
    texts: npt.NDArray[np.object_],
) -> None:
    """Give the rows of the marked states a reason; the detail names the first such exchange on the way."""
    found = np.flatnonzero(states).astype(np.int32)
    messages = walk.message_of(found)
    lost = place[messages] >= 0
    found, at = found[lost][::-1], place[messages[lost]][::-1]
    reason[at] = code
    detail[at] = texts[walk.exchange[found]]


def _filtered_details(plan: Plan) -> npt.NDArray[np.object_]:
    return np.array(
        [f"a filter behind exchange {name!r} did not accept the message" for name in plan.exchange_names], object
    )


def _missing_details(plan: Plan) -> npt.NDArray[np.object_]:
    return np.array([f"an alternate of exchange {name!r} does not exist" for name in plan.exchange_names], object)


# -- counters -------------------------------------------------------------------------------------------


def _counts(walk: Walk, hits: Int64s, unroutable: Unroutable, findings: Findings) -> Counts:
    plan = walk.plan
    ids, totals = _by_id(plan.links.id[np.flatnonzero(hits)], hits[hits > 0])
    none = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    trouble_ids, trouble = _by_owner(plan, *map(np.concatenate, zip(none, *findings.troubled, strict=True)))
    if findings.changing:
        changing = plan.links.id[np.array(findings.changing, np.int32)]
        trouble_ids, trouble = _by_id(
            np.concatenate([trouble_ids, changing]), np.concatenate([trouble, np.ones(len(changing), np.int64)])
        )
    failed = np.array([(row, member) for row, member, _ in findings.failed], np.int64).reshape(-1, 2)
    error_ids, errors = _by_owner(plan, failed[:, 0], failed[:, 1])
    return Counts(
        ids=ids,
        hits=totals,
        reasons=np.bincount(unroutable.reason, minlength=len(REASONS)).astype(np.int64),
        trouble_ids=trouble_ids,
        trouble=trouble,
        error_ids=error_ids,
        errors=errors,
        unparsable=_unparsable(plan, findings),
        work=Work(
            states=walk.states,
            entered=walk.entered,
            node_visits=walk.visits,
            filter_pairs=findings.pairs,
            candidates=findings.candidates,
        ),
    )


def _unparsable(plan: Plan, findings: Findings) -> Counter[tuple[str, str, str]]:
    names, queues = plan.exchange_names, plan.queues
    return Counter(
        (*(("exchange", names[place]) if place >= 0 else ("queue", queues[-1 - place])), unread.kind)
        for (place, _), unread in findings.unparsable.items()
    )


def _by_owner(plan: Plan, rows: Int64s, members: Int64s) -> tuple[Int32s, Int64s]:
    """Members of filter groups, counted by the binding, divert or queue whose filter they are: a queue once a row."""
    links = plan.groups.link[members]
    queues = np.flatnonzero(links < 0)
    if len(queues):
        _, first = np.unique(rows[queues] * len(plan.queues) - 1 - links[queues], return_index=True)
        links = np.concatenate([links[links >= 0], links[queues[first]]])
    owners = np.where(links >= 0, plan.links.id[np.maximum(links, 0)], links) if len(links) else links
    return _by_id(owners, np.ones(len(owners), np.int64))


def _by_id(ids: Int32s, amounts: Int64s) -> tuple[Int32s, Int64s]:
    distinct, place = np.unique(ids, return_inverse=True)
    totals = np.zeros(len(distinct), np.int64)
    np.add.at(totals, place.reshape(-1), amounts)
    return distinct.astype(np.int32), totals
