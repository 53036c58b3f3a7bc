"""The identity of a Spark checkpoint: the id in its `metadata` file."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from router.errors import CheckpointMismatch
from store import effects


def checkpoint_id(folder: str) -> str:
    """The id of a checkpoint; a folder without one gets it now, before Spark first starts there.

    Raises CheckpointMismatch for a checkpoint that has batches but no id: Spark could not resume it.
    StorageFailed leaves the checkpoint as it was.
    """
    path = Path(folder)
    metadata = path / "metadata"
    found = _read(metadata)
    if found is not None:
        return found
    if any((path / "offsets").glob("*")):
        raise CheckpointMismatch(
            "the checkpoint has batches but no id in its metadata file",
            where=str(metadata),
            hint="restore the file, or remove the checkpoint and start with --new-epoch",
        )
    content = json.dumps({"id": str(uuid.uuid4())}).encode()
    effects.make_folder(path)
    if not effects.put_new(metadata, content) and _read(metadata) is None:
        effects.replace(metadata, content)
    found = _read(metadata)
    assert found is not None  # noqa: S101  # just written, by this driver or a rival
    return found


def _read(metadata: Path) -> str | None:
    """The id on record; None without a file, or for an empty one, which a full disk has left behind."""
    try:
        text = metadata.read_text("utf-8")
        return str(json.loads(text)["id"]) if text else None
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointMismatch(
            f"damaged checkpoint metadata: {error}",
            where=str(metadata),
            hint="restore the file, or remove the checkpoint and start with --new-epoch",
        ) from None
