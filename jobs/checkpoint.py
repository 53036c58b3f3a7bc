"""A Spark checkpoint as a job needs it: its id, how far it has come, and what a batch of it reads.

Spark writes `offsets/<batch>` when it has planned a batch and `commits/<batch>` when the batch has ended; at its
next start it runs a batch that was planned and has not ended again.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass

from bindery.router.errors import CheckpointMismatch
from bindery.store import effects
from bindery.store.commit import OLDER_CHECKPOINT
from bindery.store.places import Place, at


@dataclass(frozen=True, slots=True)
class Progress:
    """The newest batch that Spark has planned, and the newest that has ended; -1 for none."""

    planned: int
    ended: int

    @property
    def pending(self) -> int | None:
        """The batch that Spark runs again when it starts."""
        return self.planned if self.planned > self.ended else None

    def check(self, recorded: int | None, *, stream: str, where: str) -> None:
        """Raise CheckpointMismatch unless the tables, which have `recorded` batches up to that one, fit.

        They may be one batch ahead: then the driver died before Spark heard of its commit, and runs it again.
        """
        if recorded is None or recorded in (self.ended, self.pending):
            return
        if recorded < self.ended:
            raise CheckpointMismatch(
                f"the checkpoint of stream {stream!r} has ended batch {self.ended}, and the tables know of "
                f"batch {recorded} at most: they are older, and the batches between are missing",
                where=where,
                hint="restore the newest tables; or start with --new-epoch to go on without what is missing",
            )
        raise CheckpointMismatch(
            f"the checkpoint of stream {stream!r} ends with batch {self.ended}, and the tables have batch {recorded}: "
            "it is an older one, whose next batches would be taken for those that are there",
            where=where,
            hint=OLDER_CHECKPOINT,
        )


class Checkpoint:
    """The checkpoint in a folder, which may not be there yet."""

    def __init__(self, folder: str) -> None:
        self.folder = at(folder)

    def id(self) -> str:
        """Its id; see `checkpoint_id`."""
        return checkpoint_id(str(self.folder))

    def progress(self) -> Progress:
        """How far Spark has come."""
        return Progress(_newest(self.folder / "offsets"), _newest(self.folder / "commits"))

    def digest(self, batch_id: int) -> str:
        """What tells Spark's plan of a batch from any other: its offsets and the moment of its planning.

        Spark writes the plan once and reads it again for a replay; the moment is needed because the offsets of
        file sources are counters only. "" when there is no plan.
        """
        plan = effects.read(self.folder / "offsets" / str(batch_id))
        return "" if plan is None else hashlib.sha256(plan).hexdigest()[:32]


def _newest(folder: Place) -> int:
    """The newest batch that has a file in a folder of the checkpoint."""
    with effects.looking(folder):
        return max(folder.numbers(), default=-1)


def checkpoint_id(folder: str) -> str:
    """The id of a checkpoint; a folder without one gets it now, before Spark first starts there.

    Raises CheckpointMismatch for a checkpoint that has batches but no id: Spark could not resume it.
    StorageFailed leaves the checkpoint as it was.
    """
    path = at(folder)
    metadata = path / "metadata"
    found = _read(metadata)
    if found is not None:
        return found
    with effects.looking(path):
        has_batches = bool((path / "offsets").files())
    if has_batches:
        raise CheckpointMismatch(
            "the checkpoint has batches but no id in its metadata file",
            where=str(metadata),
            hint="restore the file, or remove the checkpoint and start with --new-epoch",
        )
    content = json.dumps({"id": str(uuid.uuid4())}).encode()
    effects.make_folder(path)
    if effects.put_new(metadata, content) is None and _read(metadata) is None:
        effects.replace(metadata, content)
    found = _read(metadata)
    assert found is not None  # noqa: S101  # just written, by this driver or a rival
    return found


def _read(metadata: Place) -> str | None:
    """The id on record; None without a file, or for an empty one, which a full disk has left behind."""
    text = effects.read(metadata)
    try:
        return str(json.loads(text)["id"]) if text else None
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointMismatch(
            f"damaged checkpoint metadata: {error}",
            where=str(metadata),
            hint="restore the file, or remove the checkpoint and start with --new-epoch",
        ) from None
