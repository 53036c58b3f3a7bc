"""Versions of the topology: who changed what and when, and what lies between two of them."""

from __future__ import annotations

import bisect
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from bindery.router.definitions import as_entry
from bindery.router.errors import NotFound, UnsupportedTable
from bindery.router.model import Binding, Object, ObjectKey, Queue, Sequence, Topology, object_key
from bindery.router.moments import in_utc
from bindery.store.log import entry_of

_AUTHOR: Final = "bindery.author"
_REASON: Final = "bindery.reason"
_SUMMARY: Final = "bindery.changes"
#: Changes that a commit names one by one; of the rest it keeps the counts.
_NAMED: Final = 50


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """One version of the topology.

    `changes` names up to 50 objects as {"change": created | updated | deleted, "kind", "vhost", "name"}, and of a
    binding, whose name is a number, "source", "destination", "destination_type" and "routing_key" as well;
    `counts` counts all of them: {"created": {"queue": 2}, …}.
    """

    version: int
    timestamp: datetime
    author: str
    reason: str
    counts: Mapping[str, Mapping[str, int]]
    changes: tuple[Mapping[str, Any], ...]

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "version": self.version,
            "timestamp": self.timestamp.isoformat(),
            "author": self.author,
            "reason": self.reason,
            "counts": {change: dict(kinds) for change, kinds in self.counts.items()},
            "changes": [dict(change) for change in self.changes],
        }


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which versions are meant: those by an author, those that change an object of a kind, vhost and name."""

    author: str | None = None
    kind: str | None = None
    vhost: str | None = None
    name: str | None = None

    @property
    def is_everything(self) -> bool:
        """Whether every version is meant."""
        return self == Wanted()

    def holds(self, info: VersionInfo) -> bool:
        """Whether a version is meant, or may be: it changes more objects than it names."""
        if self.author is not None and info.author != self.author:
            return False
        if self.kind is None and self.vhost is None and self.name is None:
            return True
        if any(self._is_of(change) for change in info.changes):
            return True
        counted = sum(
            count for kinds in info.counts.values() for kind, count in kinds.items() if self.kind in (None, kind)
        )
        return counted > sum(1 for change in info.changes if self.kind in (None, change["kind"]))

    def _is_of(self, change: Mapping[str, Any]) -> bool:
        wanted = {"kind": self.kind, "vhost": self.vhost, "name": self.name}
        if all(value is None or change[key] == value for key, value in wanted.items()):
            return True
        # a binding concerns both of its ends; versions of earlier releases do not name them
        ends = {("exchange", change.get("source")), (change.get("destination_type"), change.get("destination"))}
        return self.name is not None and (self.kind, self.name) in ends and self.vhost in (None, change["vhost"])


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One object before and after; None where it does not exist."""

    key: ObjectKey
    before: Object | None
    after: Object | None

    @property
    def change(self) -> str:
        """created, updated or deleted."""
        if self.before is None:
            return "created"
        return "deleted" if self.after is None else "updated"

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data; the states are entries of a definitions document."""
        kind, vhost, name = self.key
        return {
            "change": self.change,
            "kind": kind,
            "vhost": vhost,
            "name": name,
            "before": None if self.before is None else as_entry(self.before),
            "after": None if self.after is None else as_entry(self.after),
        }


def changes_between(before: Topology, after: Topology) -> list[ObjectChange]:
    """What leads from one state to another, in a stable order; lineage counters are left out."""
    old = {object_key(item): item for item in before.objects() if not isinstance(item, Sequence)}
    new = {object_key(item): item for item in after.objects() if not isinstance(item, Sequence)}
    changed = [
        ObjectChange(key, old.get(key), new.get(key))
        for key in old.keys() | new.keys()
        if old.get(key) is not new.get(key) and old.get(key) != new.get(key)
    ]
    return sorted(changed, key=lambda one: one.key)


def changes_back(present: Topology, older: Topology) -> list[ObjectChange]:
    """What leads back to an older state, as `changes_between` gives it; a queue that is there keeps its id."""
    found = []
    for one in changes_between(present, older):
        if isinstance(one.before, Queue) and isinstance(one.after, Queue):
            after = replace(one.after, id=one.before.id)
            if after != one.before:
                found.append(replace(one, after=after))
        else:
            found.append(one)
    return found


def commit_info(
    author: str, reason: str, changes: Mapping[ObjectKey, Object | None], before: Topology
) -> dict[str, Any]:
    """What a topology commit states about itself."""
    counts: dict[str, dict[str, int]] = {}
    named: list[dict[str, str]] = []
    for key, item in changes.items():
        if isinstance(item, Sequence):
            continue
        present = before.get(key)
        change = ObjectChange(key, present, item).change
        kinds = counts.setdefault(change, {})
        kinds[key[0]] = kinds.get(key[0], 0) + 1
        if len(named) < _NAMED:
            stated = {"change": change, "kind": key[0], "vhost": key[1], "name": key[2]}
            named.append(stated | _ends(item or present))
    return {
        _AUTHOR: author,
        _REASON: reason,
        _SUMMARY: json.dumps({"counts": counts, "changes": named}, separators=(",", ":")),
    }


def _ends(item: Object | None) -> dict[str, str]:
    """What tells a reader which binding it is."""
    if not isinstance(item, Binding):
        return {}
    return {
        "source": item.source,
        "destination": item.destination,
        "destination_type": item.destination_type,
        "routing_key": item.routing_key,
    }


def read_history(table: str, newest: int, *, limit: int | None = None) -> list[VersionInfo]:
    """The versions up to `newest`, newest first, `limit` at most; one small file is read for each."""
    oldest = 0 if limit is None else max(0, newest - limit + 1)
    return [read_version(table, version) for version in range(newest, oldest - 1, -1)]


def read_version(table: str, version: int) -> VersionInfo:
    """What the commit of a version says about itself; raises UnsupportedTable when it is damaged."""
    try:
        actions = map(json.loads, (entry_of(table, version).read() or b"").decode().splitlines())
        entry = next(action["commitInfo"] for action in actions if "commitInfo" in action)
        summary = json.loads(entry.get(_SUMMARY) or "{}")
        return VersionInfo(
            version,
            datetime.fromtimestamp(entry["timestamp"] / 1000, UTC),
            entry.get(_AUTHOR, ""),
            entry.get(_REASON, ""),
            summary.get("counts", {}),
            tuple(summary.get("changes", ())),
        )
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
        raise UnsupportedTable(
            f"cannot read topology version {version}: {error or 'it says nothing about itself'}",
            where=table,
            hint="the log of the topology table is kept whole; restore the file from a backup",
        ) from error


def version_at(table: str, newest: int, at: datetime) -> int:
    """The newest version committed at or before a time; a time without a zone is UTC.

    Raises NotFound for a time before the first version. Looks at about log2 of the versions, whose times
    only ever grow as long as the clock is not set back.
    """
    moment = in_utc(at)
    later = bisect.bisect_right(range(newest + 1), moment, key=lambda version: read_version(table, version).timestamp)
    if later == 0:
        raise NotFound(f"the topology did not exist at {moment.isoformat()}", where="at")
    return later - 1
