"""The identity of a Spark checkpoint: the id in its `metadata` file."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from router.errors import CheckpointMismatch


def checkpoint_id(folder: str) -> str:
    """The id of a checkpoint; a folder without one gets it now, before Spark first starts there.

    Raises CheckpointMismatch for a checkpoint that has batches but no id: Spark could not resume it.
    """
    path = Path(folder)
    metadata = path / "metadata"
    try:
        return str(json.loads(metadata.read_text("utf-8"))["id"])
    except FileNotFoundError:
        pass
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointMismatch(f"damaged checkpoint metadata: {error}", where=str(metadata)) from None
    if (path / "offsets").is_dir() and any((path / "offsets").iterdir()):
        raise CheckpointMismatch(
            "the checkpoint has batches but no metadata file",
            where=folder,
            hint="restore the file, or remove the checkpoint and start with --new-epoch",
        )
    path.mkdir(parents=True, exist_ok=True)
    found = str(uuid.uuid4())
    metadata.write_text(json.dumps({"id": found}), encoding="utf-8")
    return found
