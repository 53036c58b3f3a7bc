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
        "A task writes it to a file; one commit per batch makes it count, or of a deferred queue one per flush. "
        "Compaction merges files and keeps rows and their order. A requeue counts a delivery. It leaves when it is "
        "taken, moved, expired, too many or replaced, or the queue is emptied or deleted; older versions have it "
        "for the retention, then its file is deleted.",
        (
            _WRITTEN,
            Stage(
                ("committed", "with its batch,", "once"),
                "lit",
                ("deferred", "in the journal first,", "a flush commits it"),
            ),
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
        "The task that writes the copies of a message writes it once, with the ids of its queues. It is committed "
        "as one more table of the batch. Files of one day are merged. A file whose newest row is older than the "
        "retention, or that is above the size, is taken out, unless copies wait in it, and deleted a day later.",
        (
            _WRITTEN,
            Stage(
                ("committed", "with its batch,", "queues by their ids"),
                "lit",
                ("copies wait", "of deferred queues: it", "stays until a flush"),
            ),
            Stage(("merged", "with files of", "the same day")),
            Stage(("trimmed", "7 days old, or the", "journal is too large"), "lit"),
            Stage(("gone", "its file is deleted", "1 day later")),
        ),
        "What happens to its copies in queues (taken, moved, expired, deleted) changes nothing here.",
    ),
    "life-dedup": Life(
        "The life of a row of a stream's keys",
        "The driver writes the keys that a batch brings first. They are committed after the batch's other tables, "
        "so a key on record is that of a message whose copies are all there. A driver that starts reads those "
        "within the window. Files of one hour are merged; those past the window are taken out, and deleted a day "
        "later.",
        (
            Stage(
                ("written", "by the driver, a file", "for each batch"),
                "soft",
                ("the driver dies", "the batch is judged", "again, alike"),
                "lost",
            ),
            Stage(("committed", "after the other tables", "of its batch"), "lit"),
            Stage(
                ("known", "in the memory of", "the driver"),
                "box",
                ("a repeat", "is left out, with the", "reason duplicate"),
            ),
            Stage(("trimmed", "older than the newest", "row by the window"), "lit"),
            Stage(("gone", "its file is deleted", "1 day later")),
        ),
        "The window stands in the table's properties; rows stay for up to an hour more.",
    ),
    "life-topology": Life(
        "The life of a row of the topology",
        "A change of any size is one commit, checked on the state that it follows. It becomes the new version of "
        "the topology, by which batches are pinned. A change of an object replaces its row, a deletion removes it. "
        "No version is ever removed, so a rollback and a replay find it.",
        (
            Stage(
                ("declared", "by REST, a file or", "a broker's definitions"),
                "soft",
                ("refused", "nothing of the change", "is there"),
                "lost",
            ),
            Stage(("committed", "one commit a change:", "a version"), "lit", ("batches", "are pinned to", "a version")),
            Stage(("merged", "with rows of small files,", "by a later change")),
            Stage(
                ("leaves", "deleted, or replaced", "by what it is now"),
                "lit",
                ("rollback", "it is back, with the id", "that it had"),
            ),
            Stage(("stays", "in the versions that", "had it, for ever")),
        ),
        "Ids of bindings and queues are never given again. Rows of tables name them, and the version that they had.",
    ),
    "life-streams": Life(
        "The life of a row of the streams",
        "A stream that starts on a checkpoint that it had not before gets an epoch: a row with the number of its "
        "first batch. Only one start can add it. The newest epoch counts; a start with another checkpoint is "
        "refused, unless it asks for a new epoch. The rows stay: numbers of batches say which epoch they are of.",
        (
            Stage(
                ("begins", "the first start, or one", "with --new-epoch"),
                "soft",
                ("refused", "another checkpoint", "without --new-epoch"),
                "lost",
            ),
            Stage(("committed", "one start wins: an", "epoch of its own"), "lit"),
            Stage(
                ("counts", "batches are committed", "under its app_id"),
                "box",
                ("claimed", "by each driver: the", "last one owns it"),
            ),
            Stage(("followed", "by the next epoch", "of the stream"), "lit"),
            Stage(("stays", "its numbers are not", "given again")),
        ),
        "Claims, and the epochs of the control plane, are transactions of the table's log and no rows.",
    ),
    "life-pin": Life(
        "The life of a pin",
        "A pin is written before a batch is routed, if absent. Whoever routes the batch, now or after a crash, "
        "goes by it. It is removed once two newer batches have ended; those of a stream that is no more after a "
        "day.",
        (
            Stage(("checked", "the topology is fit", "for the job"), "soft"),
            Stage(
                ("written", "if absent: the first", "one counts"),
                "lit",
                ("unusable", "--repin routes it", "anew"),
                "lost",
            ),
            Stage(("routed by", "again after a crash,", "with the same result")),
            Stage(("ended", "the manifest knows", "the rest"), "lit"),
            Stage(("gone", "after two newer", "batches")),
        ),
        "It is a file, and no row: DIR/pins/<stream and checkpoint>/<batch>.json.",
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
        "Once every table has a batch its row is written: from then on the batch is whole. Totals are kept beside "
        "the table. After 30 days rows are summed up, one per stream and month, but for the newest 256 batches of "
        "each app id.",
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
