"""Attempts: what a batch consists of, once one attempt at it has begun to commit, beside its pin.

A driver that lives on resumes a batch with the files that it has. Where each commit is a process of its own (a sink of
Spark's), a batch that runs again comes with other files, and with other rows in them where its query was split in
another way or gives other values. So the first attempt whose commit begins is put on record, if none is there, and
every later one commits that one's files: in every table stands the same attempt.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from bindery.router.errors import StorageFailed
from bindery.store import effects
from bindery.store.paths import DataDir
from bindery.store.places import Place, at


class Attempts:
    """The attempts on record of one app id; `parts` below are what its tasks gave, one text each."""

    def __init__(self, data: DataDir, app_id: str) -> None:
        self._folder = at(data.pins(app_id))

    def first(self, batch_id: int, parts: Sequence[str]) -> list[str]:
        """The parts that the batch consists of: those on record, or these, which are on record from now on.

        Raises StorageFailed.
        """
        place = self._path(batch_id)
        effects.put_new(place, json.dumps(list(parts)).encode())
        recorded = effects.read(place)
        if recorded is None:
            raise StorageFailed(f"{place} is gone", where=str(place), hint="the batch can be tried again")
        found: list[str] = json.loads(recorded)
        return found

    def forget(self, batch_id: int) -> None:
        """Remove the record of a batch that has ended, if there is one. Raises StorageFailed."""
        effects.remove(self._path(batch_id))

    def _path(self, batch_id: int) -> Place:
        return self._folder / f"attempt-{batch_id}.json"
