"""The life of a row, table by table: what makes it, what changes it, and when it is gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from handbook.drawing import Box, Drawing, Kind

#: Pixels: the picture, its margin, the space between stages, and where stages and asides stand.
_WIDTH, _LEFT, _GAP, _TOP, _BELOW = 860, 4, 28, 12, 124


@dataclass(frozen=True, slots=True)
class Stage:
    """A name and smaller lines below it; what may happen to a row there stands `aside`, below it."""

    words: Sequence[str]
    kind: Kind = "box"
    aside: Sequence[str] = ()
    aside_kind: Kind = "soft"


@dataclass(frozen=True, slots=True)
class Life:
    """Stages from left to right, and what is said beneath them."""

    title: str
    description: str
    stages: Sequence[Stage]
    foot: str

    def drawing(self) -> Drawing:
        """The stages as boxes of one height, with arrows from each to the next."""
        lines = max(len(one.words) for one in self.stages)
        below = max((len(one.aside) for one in self.stages), default=0)
        height = _BELOW + (20 + 16 * below if below else -20) + 34
        drawn = Drawing(self.title, self.description, _WIDTH, height)
        width = (_WIDTH - 2 * _LEFT - _GAP * (len(self.stages) - 1)) / len(self.stages)
        boxes: list[Box] = []
        for place, one in enumerate(self.stages):
            words = [*one.words, *[""] * (lines - len(one.words))]
            box = drawn.box(_LEFT + place * (width + _GAP), _TOP, width, words, kind=one.kind)
            boxes.append(box)
            if one.aside:
                beside = drawn.box(box.x, _BELOW, width, one.aside, kind=one.aside_kind)
                drawn.arrow(box.bottom, beside.top, kind=one.aside_kind)
        for left, right in pairwise(boxes):
            drawn.arrow(left.right, right.left)
        drawn.words(_LEFT, height - 8, [self.foot])
        return drawn


_WRITTEN: Final = Stage(
    ("written", "a file to which", "no table refers"),
    "soft",
    ("the task dies", "maintenance deletes", "it after a day"),
    "lost",
)

_LIVES: Final[Mapping[str, Life]] = {
    "life-queue": Life(
        "The life of a row of a queue",
        "A task writes it to a file; one commit per batch makes it count. Compaction merges files and keeps rows "
        "and their order. A requeue counts a delivery. It leaves when it is taken, moved, expired, too many or "
        "replaced, or the queue is emptied or deleted; older versions have it for the retention, then its file is"
        " deleted.",
        (
            _WRITTEN,
            Stage(("committed", "with its batch,", "once"), "lit"),
            Stage(
                ("merged", "into larger files,", "in the same order"),
                "box",
                ("requeued", "delivery_count", "is one more"),
            ),
            Stage(
                ("leaves", "taken, moved, emptied,", "a limit, no queue"),
                "lit",
                ("dead letter", "a row of another queue,", "or of unroutable"),
            ),
            Stage(("gone", "its file is deleted", "7 days later")),
        ),
        "In between older versions of the table have it: time travel, streams that are behind, RESTORE.",
    ),
    "life-unroutable": Life(
        "The life of a row of unroutable messages",
        "A message that reached no queue, or may have missed one, or a record that is none, is written with its "
        "batch. A redrive writes a plan, marks the row with the topology version and its batch, and routes it "
        "anew. The row stays.",
        (
            _WRITTEN,
            Stage(("committed", "with its batch:", "reason, disposition"), "lit"),
            Stage(("chosen", "a redrive has it", "in its plan"), "box", ("still reaches none", "is as it was"), "soft"),
            Stage(
                ("marked", "redriven: version", "and batch"),
                "lit",
                ("copies in queues", "one per queue", "that it missed"),
            ),
            Stage(("stays", "as a record, also when", "the vhost is gone")),
        ),
        "Nothing that Bindery does deletes it. After a crash behind the mark the next redrive delivers from the plan.",
    ),
    "life-journal": Life(
        "The life of a row of a journal",
        "The task that writes the copies of a message writes it once, with the ids of its queues. It is committed"
        " as one more table of the batch. Files of one day are merged. A file whose newest row is older than the "
        "retention, or that is above the size, is taken out, and deleted a day later.",
        (
            _WRITTEN,
            Stage(("committed", "with its batch,", "queues by their ids"), "lit"),
            Stage(("merged", "with files of", "the same day")),
            Stage(("trimmed", "7 days old, or the", "journal is too large"), "lit"),
            Stage(("gone", "its file is deleted", "1 day later")),
        ),
        "What happens to its copies in queues (taken, moved, expired, deleted) changes nothing here.",
    ),
    "life-inbox": Life(
        "The life of a row of an inbox",
        "Bulk ingestion or a drain appends messages, requests share commits. Streaming jobs that read the inbox "
        "route it, each job once. The row stays in the inbox.",
        (
            Stage(
                ("handed in", "POST inbox/…,", "bindery drain"),
                "box",
                ("a bad record", "POST: nothing is stored,", "drain: unroutable"),
                "lost",
            ),
            Stage(("committed", "requests of one", "moment together"), "lit"),
            Stage(("read", "in a batch of each job", "that reads the inbox"), "lit", ("copies in queues", "each once")),
            Stage(("stays", "until you delete it", "by an engine of yours")),
        ),
        "What a stream has not read yet is not vacuumed, as long as the stream moves once in 30 days.",
    ),
    "life-manifest": Life(
        "The life of a row of the manifest",
        "Once every table has a batch its row is written: from then on the batch is whole. Totals are kept beside"
        " the table. After 30 days rows are summed up, one per stream and month, but for the newest 256 batches "
        "of each app id.",
        (
            Stage(
                ("every table", "has the batch"), "soft", ("the driver dies", "the next one writes", "the row"), "lost"
            ),
            Stage(
                ("committed", "the batch is whole"), "lit", ("totals.json", "sums up to a version,", "by maintenance")
            ),
            Stage(("merged", "4,096 rows a file", "at most")),
            Stage(("summed up", "30 days later: a row per", "stream and month"), "lit"),
            Stage(("stays", "the sums", "for ever")),
        ),
        "The newest 256 batches of each app id stay single rows, however old they are.",
    ),
}


#: Name of a picture -> who draws it.
LIVES: Final[Mapping[str, Callable[[], Drawing]]] = {name: life.drawing for name, life in _LIVES.items()}
