"""Files, and lines of files, that a batch leaves out: named in the unroutable table, and decided once.

What has been left out of a batch is noted in the checkpoint before anything of the batch is routed: an
attempt that follows a crash leaves out the same, whatever has become of the files meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from bindery.store import effects

_FOLDER: Final = "refused"


@dataclass(frozen=True, slots=True)
class RefusedPart:
    """A file that cannot be read, or with `offset` one line of it (its first byte in the decompressed file)."""

    file: str
    reason: Literal["invalid_record", "too_large"]
    detail: str
    offset: int | None = None


class Refusals:
    """What a batch leaves out, in the checkpoint of its stream."""

    def __init__(self, checkpoint: str, batch_id: int) -> None:
        self._path = Path(checkpoint) / _FOLDER / f"{batch_id}.json"
        self._parts: dict[str, RefusedPart] = {}
        with suppress(FileNotFoundError):
            self._parts = {row["file"]: RefusedPart(**row) for row in json.loads(self._path.read_text("utf-8"))}

    @property
    def parts(self) -> list[RefusedPart]:
        """The files that are left out."""
        return list(self._parts.values())

    def holds(self, file: str) -> bool:
        """Whether a file is left out."""
        return file in self._parts

    def add(self, parts: Iterable[RefusedPart]) -> None:
        """Leave these files out, too; durable when it returns."""
        self._parts |= {part.file: part for part in parts}
        effects.make_folder(self._path.parent)
        rows = [asdict(part) for part in self.parts]
        effects.replace(self._path, json.dumps(rows, indent=1).encode())

    def forget_older(self) -> None:
        """Remove what was noted for batches before this one, which are done."""
        for path in self._path.parent.glob("*.json"):
            if path.stem.isdecimal() and int(path.stem) < int(self._path.stem):
                effects.remove(path)
