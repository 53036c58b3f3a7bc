"""The point of a copy: a version of each table, so that of every batch they hold all or nothing.

A batch is committed table by table and ends with its row of the manifest; several streams commit at once. So the
newest versions of all tables, read one after the other, hold parts of batches, and the tables can be brought to one
point only by leaving out what came last. What must not be torn apart:

- a batch that the manifest has is in all of its tables, and one that it does not have is in none;
- a table knows no topology version that the topology does not have: neither of the batches that it holds, nor as the
  one at which its queue was seen undeclared;
- a queue that is declared again was cleared before: its table remembers the version at which it was undeclared;
- of a table that a stream reads, the copy has what the stream has read;
- an inbox holds nothing of a drain that comes after refused messages which the unroutable table lacks.

Each rule takes versions away and never adds any, so that repeating them ends at the latest point that there is.

A batch whose commit has not ended long after it began belongs to a job that died. It does not hold the point back: its
part is copied as a crash leaves it, together with its pin and Spark's plan, and the job completes it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bindery.store.actions import Transaction

#: Of a batch that ended before everything that is known of the manifest.
_BEFORE: Final = -1

#: What a stream has read by the end of a batch (app id, number): the least version of each table that it reads.
Reads = Callable[[str, int], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Commit:
    """A version of a table: when it was made (ms), and what else it belongs to.

    batches   the batches that it is a part of; of the manifest: those that it ends
    topology  the newest topology version that it speaks of
    cleared   the topology version at which the table's queue was seen undeclared, where the commit says so
    after     versions of other tables, by their paths, that it comes after
    """

    version: int
    at_ms: int = 0
    batches: Sequence[Transaction] = ()
    topology: int = -1
    cleared: int | None = None
    after: Mapping[str, int] = field(default_factory=dict)

    @property
    def matters(self) -> bool:
        """Whether it binds the table to others."""
        return bool(self.batches or self.after) or self.topology >= 0 or self.cleared is not None


@dataclass(frozen=True, slots=True)
class Found:
    """What was read of a data directory: first of the manifest, then of the topology, then of the tables.

    That order matters: a table that is read later has every batch that the manifest had ended, and was cleared
    for every queue that the topology had declared again. Commits are ascending; `first` is the least version of
    each table that can be read, `ended` how far each app id had come before the commits of the manifest.
    """

    manifest: Sequence[Commit]
    topology: int
    tables: Mapping[str, Sequence[Commit]]
    heads: Mapping[str, int]
    first: Mapping[str, int] = field(default_factory=dict)
    ended: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Point:
    """A version of the manifest, of the topology, and of each table by its path: -1 where it is not there yet."""

    manifest: int
    topology: int
    tables: Mapping[str, int]


class Endings:
    """When each batch ended: the version of the manifest that has its row."""

    def __init__(self, manifest: Sequence[Commit], before: Mapping[str, int]) -> None:
        self._before = dict(before)
        self._numbers: dict[str, list[int]] = {}
        self._versions: dict[str, list[int]] = {}
        for commit in manifest:
            for app_id, number in commit.batches:
                self._numbers.setdefault(app_id, []).append(number)
                self._versions.setdefault(app_id, []).append(commit.version)

    def of(self, batch: Transaction) -> int | None:
        """The version of the manifest that ended a batch, or a later one of its app id; None while it has not ended."""
        if self._before.get(batch.app_id, -1) >= batch.version:
            return _BEFORE
        numbers = self._numbers.get(batch.app_id, ())
        place = bisect_left(numbers, batch.version)
        return self._versions[batch.app_id][place] if place < len(numbers) else None

    def newest(self, manifest: int) -> dict[str, int]:
        """The newest batch of each app id that had ended by a version of the manifest."""
        found = dict(self._before)
        for app_id, versions in self._versions.items():
            place = bisect_left(versions, manifest + 1)
            if place:
                found[app_id] = self._numbers[app_id][place - 1]
        return found


def latest_point(found: Found, *, settled_ms: int, reads: Reads = lambda _app_id, _number: {}) -> Point | None:
    """The latest point at which nothing is torn apart; None when that would lie before what can be read.

    A commit from before `settled_ms` whose batch has not ended is taken for one that a job has left behind.
    """
    endings = Endings(found.manifest, found.ended)
    bound = {path: [commit for commit in commits if commit.matters] for path, commits in found.tables.items()}
    tables = dict(found.heads)
    topology = found.topology
    manifest = found.manifest[-1].version if found.manifest else -1

    def is_torn(commit: Commit) -> bool:
        for batch in commit.batches:
            end = endings.of(batch)
            if commit.at_ms >= settled_ms if end is None else end > manifest:
                return True
        # what came before an old commit is there, or was removed by somebody
        if commit.at_ms >= settled_ms and any(tables.get(path, -1) < version for path, version in commit.after.items()):
            return True
        return max(commit.topology, -1 if commit.cleared is None else commit.cleared) > topology

    while True:
        before = (manifest, topology, dict(tables))
        for path, commits in bound.items():
            torn = next((one for one in commits if one.version <= tables[path] and is_torn(one)), None)
            if torn is not None:
                tables[path] = torn.version - 1
            for commit in reversed(commits):
                if commit.version <= tables[path]:
                    break
                if commit.cleared is not None:
                    topology = min(topology, commit.cleared)
                for batch in commit.batches:
                    end = endings.of(batch)
                    if end == _BEFORE:
                        return None
                    if end is not None:
                        manifest = min(manifest, end - 1)
        for app_id, number in endings.newest(manifest).items():
            if any(tables.get(path, version) < version for path, version in reads(app_id, number).items()):
                end = endings.of(Transaction(app_id, number))
                if end is None or end == _BEFORE:
                    return None
                manifest = min(manifest, end - 1)
        if before == (manifest, topology, tables):
            break
    if any(-1 < version < found.first.get(path, 0) for path, version in tables.items()):
        return None
    if any(version == -1 and found.first.get(path, 0) > 0 for path, version in tables.items()):
        return None
    return Point(manifest, topology, tables)
