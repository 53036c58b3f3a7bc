"""Queues that recently received the same messages, judged by sampled rows.

A message is known by its lineage identity, the same on every copy, so a sample is one set of numbers per
queue, drawn from the same batches of every queue (`bindery.store.samples`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from bindery.router.analysis.finding import Report, Subject
from bindery.router.links import Links

#: Fewer sampled messages than this say nothing about a queue.
FEWEST: Final = 20
#: Share of a queue's messages in another one from which on they overlap.
SHARE: Final = 0.95
#: Queues that are compared with each other, those with the most sampled messages first.
MAX_QUEUES: Final = 1_000
#: Messages that are counted at once; bounds the matrix of messages and queues.
_BLOCK: Final = 4_096

Samples = Mapping[str, npt.NDArray[np.int64]]


def shared(samples: Samples) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Names of the compared queues, and a square matrix: messages that two of them have in common."""
    names = sorted(samples, key=lambda name: (-len(samples[name]), name))[:MAX_QUEUES]
    distinct = [np.unique(samples[name]) for name in names]
    queue = np.repeat(np.arange(len(names)), [len(found) for found in distinct])
    _, message = np.unique(np.concatenate([*distinct, np.empty(0, np.int64)]), return_inverse=True)
    order = np.argsort(message, kind="stable")
    queue, message = queue[order], message[order]
    common = np.zeros((len(names), len(names)), np.int64)
    bounds = np.searchsorted(message, np.arange(0, int(message.max(initial=-1)) + 1 + _BLOCK, _BLOCK))
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        held = np.zeros((_BLOCK, len(names)), np.float32)
        held[message[start:end] % _BLOCK, queue[start:end]] = 1
        common += (held.T @ held).astype(np.int64)  # counts below 2**24 are exact
    return names, common


def check(links: Links, report: Report, samples: Samples) -> None:
    """BT150, BT151: pairs of queues, the smaller one as the subject."""
    kept = {name: found for name, found in samples.items() if name in links.queues and len(found) >= FEWEST}
    if len(kept) < 2:
        return
    if len(kept) > MAX_QUEUES:
        subject = Subject("vhost", links.vhost, links.vhost)
        report.add("BT199", subject, f"only the {MAX_QUEUES:,} queues with the most recent messages were compared")
    names, common = shared(kept)
    sizes = np.diagonal(common)
    # at a place (small, big) with big earlier in the order of size, so that each pair is seen once
    for small, big in np.argwhere(np.tril(common, -1) >= np.ceil(SHARE * sizes[:, None])):
        both, of = int(common[small, big]), int(sizes[small])
        if not both:
            continue
        same = both == of == int(sizes[big])
        found = (
            f"all {of:,} sampled messages are the same"
            if same
            else f"{100 * both // of}% of its {of:,} sampled messages are also in queue {names[big]!r} ({sizes[big]:,})"
        )
        report.add(
            "BT151" if same else "BT150",
            Subject("queue", links.vhost, names[small]),
            f"as in queue {names[big]!r}: {found}" if same else found,
            [Subject("queue", links.vhost, names[big])],
        )
