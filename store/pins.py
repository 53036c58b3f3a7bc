"""Pins: what each batch of a stream is routed with, on record before anything is routed.

`DIR/pins/<stream and checkpoint>/<batch>.json`, put-if-absent: the first record counts, for every replay.
Of finished batches the manifest knows the rest, so that only the newest pins are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.router.errors import UnusablePin
from bindery.store import effects
from bindery.store.paths import DataDir
from bindery.store.places import Place, at

#: Pins of finished batches that are kept: Spark replays at most the last one.
_KEPT: Final = 1


@dataclass(frozen=True, slots=True)
class Pin:
    """What a batch is routed with.

    topology_version  version of the topology
    clock_ms          the batch's clock, since 1970 (UTC)
    done              the batch has been committed whole before: route nothing
    source            digest of the plan of what the batch reads, "" where it has none
    splits            settings that decide how what is read is split among tasks
    freshness         seconds that copies for queues may wait of which nothing else is said
    dedup             by what messages are known that repeat one, and how long; empty where none are dropped
    """

    topology_version: int
    clock_ms: int
    done: bool = False
    source: str = ""
    splits: Mapping[str, str] = field(default_factory=dict)
    freshness: int = 0
    dedup: Mapping[str, str] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data; what is not set is left out."""
        data: dict[str, Any] = {"topology_version": self.topology_version, "clock_ms": self.clock_ms}
        return data | {
            name: value for name in ("source", "splits", "freshness", "dedup") if (value := getattr(self, name))
        }


class Pins:
    """The pins of one app id."""

    def __init__(self, data: DataDir, *, stream: str, app_id: str) -> None:
        self._folder = at(data.pins(app_id))
        self._stream = stream
        #: The pins that there are, listed once: this driver makes and removes the others.
        self._present: set[int] | None = None

    def read(self, batch_id: int) -> Pin | None:
        """The pin of a batch, None when it has none; raises UnusablePin for a damaged record."""
        recorded = effects.read(self._path(batch_id))
        if recorded is None:
            return None
        try:
            content = json.loads(recorded)
            return Pin(
                content["topology_version"],
                content["clock_ms"],
                source=content.get("source", ""),
                splits=dict(content.get("splits", {})),
                freshness=int(content.get("freshness", 0)),
                dedup=dict(content.get("dedup", {})),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self.unusable(batch_id, f"its pin is damaged: {error}") from error

    def write(self, batch_id: int, pin: Pin) -> Pin:
        """Pin a batch unless it is pinned; the record that counts. Raises StorageFailed."""
        effects.make_folder(self._folder)
        effects.put_new(self._path(batch_id), json.dumps(pin.as_data()).encode())
        if self._present is not None:
            self._present.add(batch_id)
        written = self.read(batch_id)
        assert written is not None  # noqa: S101  # just written, by this driver or a rival
        return written

    def remove(self, batch_id: int) -> None:
        """Forget the pin of a batch."""
        effects.remove(self._path(batch_id))

    def remove_older(self, batch_id: int) -> None:
        """Forget the pins of batches that no replay can ask for once this one is finished."""
        if self._present is None:
            with effects.looking(self._folder):
                self._present = set(self._folder.numbers(".json"))
        for older in [older for older in self._present if older < batch_id - _KEPT]:
            effects.remove(self._path(older))
            self._present.discard(older)

    def unusable(self, batch_id: int, reason: str) -> UnusablePin:
        """The error of a batch that can no longer be routed with what its pin says."""
        return UnusablePin(
            f"batch {batch_id} of stream {self._stream!r} was begun and cannot be routed as its pin says: {reason}",
            where=str(self._path(batch_id)),
            hint="repair the cause; or start once with --repin, which routes the batch with the newest topology, "
            "provided that nothing of it was committed",
        )

    def _path(self, batch_id: int) -> Place:
        return self._folder / f"{batch_id}.json"
