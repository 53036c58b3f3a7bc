"""What Spark has planned for a micro-batch: its clock, and its files or offsets; read from the checkpoint.

Spark writes both durably before a batch begins and never changes them. The list names each file with its
modification time when it was found, so that a file that has been replaced since can be told.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from urllib.parse import unquote

from bindery.router.errors import CheckpointMismatch
from bindery.store.places import Place, at

_VERSION = "v1"


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file of a batch: its address as a URI, and when it was modified (ms since 1970, UTC)."""

    address: str
    modified_ms: int

    @property
    def path(self) -> str:
        """The address without URI escapes, as Spark's readers take it."""
        return unquote(self.address)

    @property
    def place(self) -> str:
        """The address as Spark states it with the records of the file."""
        return place_of(self.address)


def place_of(address: str) -> str:
    """An address as `_metadata.file_path` has it: without an authority that is empty."""
    return f"file:/{address.removeprefix('file:').lstrip('/')}" if address.startswith("file:") else address


def batch_clock(checkpoint: str, batch_id: int) -> int:
    """The time at which a batch was planned, in ms since 1970 (UTC): what Spark takes for the current time in it."""
    return int(json.loads(_lines(at(checkpoint, "offsets", str(batch_id)))[0])["batchTimestampMs"])


def planned_files(checkpoint: str, batch_id: int) -> list[PlannedFile]:
    """The files of a batch of a file stream, in the order in which Spark took them."""
    folder = at(checkpoint)
    after = _end(folder, batch_id - 1) if batch_id else -1
    wanted = range(after + 1, _end(folder, batch_id) + 1)
    files: list[PlannedFile] = []
    for number in wanted:
        entries = (json.loads(line) for line in _list(folder / "sources" / "0", number))
        files += [PlannedFile(row["path"], row["timestamp"]) for row in entries if row["batchId"] == number]
    return files


def planned_ends(checkpoint: str, batch_id: int) -> dict[str, dict[int, int]]:
    """Where a batch of a Kafka stream ends: topic -> partition -> the offset after the last."""
    offsets = json.loads(_lines(at(checkpoint, "offsets", str(batch_id)))[1])
    return {topic: {int(partition): end for partition, end in ends.items()} for topic, ends in offsets.items()}


def _end(folder: Place, batch_id: int) -> int:
    """The number of the last list of files that a batch takes in."""
    offset = _lines(folder / "offsets" / str(batch_id))[1]
    return -1 if offset == "-" else int(json.loads(offset)["logOffset"])


def _list(folder: Place, number: int) -> list[str]:
    """The list of that number; every tenth holds all before it, too, and outlives them."""
    names = [str(number), f"{number}.compact"]
    present = folder.files()
    later = (int(name.removesuffix(".compact")) for name in present if name.endswith(".compact"))
    names += [f"{found}.compact" for found in sorted(later) if found > number]
    found = folder / next((name for name in names if name in present), names[0])
    mark = f'"batchId":{number}}}'
    return [line for line in _lines(found) if line.endswith(mark)]


def _lines(path: Place) -> list[str]:
    try:
        version, *lines = (path.read() or b"nothing").decode().splitlines()
        if version != _VERSION:
            raise ValueError(f"its format is {version[:20]!r}, not {_VERSION}")
    except (OSError, ValueError) as error:
        raise CheckpointMismatch(
            f"the checkpoint cannot be read: {error}",
            where=str(path),
            hint="restore the checkpoint, or remove it and start with --new-epoch: files may then be routed again",
        ) from None
    return lines
