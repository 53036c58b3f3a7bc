"""Files, and lines of files, that a batch leaves out: named in the unroutable table, and decided once.

What has been left out of a batch is noted in the checkpoint before anything of the batch is routed: an
attempt that follows a crash leaves out the same, whatever has become of the files meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final, Literal

from bindery.store import effects
from bindery.store.places import at

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
        self._path = at(checkpoint, _FOLDER, f"{batch_id}.json")
        noted = effects.read(self._path)
        rows = [] if noted is None else json.loads(noted)
        self._parts: dict[str, RefusedPart] = {row["file"]: RefusedPart(**row) for row in rows}

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
        folder = self._path.parent
        with effects.looking(folder):
            older = [number for number in folder.numbers(".json") if number < int(self._path.stem)]
        for number in older:
            effects.remove(folder / f"{number}.json")
