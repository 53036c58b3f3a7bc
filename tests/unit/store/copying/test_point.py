"""The point of a copy against a slow reference: every combination of versions, judged by what really happened."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import pytest

from bindery.store.actions import Transaction
from bindery.store.copying.point import Commit, Endings, Found, Point, latest_point

_TABLES = ("a", "b", "c")
_APPS = ("s:1", "t:1", "api:2")


@dataclass
class World:
    """What really happened, and what a look at it found: of each log only what was there when it was read."""

    manifest: list[Commit] = field(default_factory=lambda: [Commit(0)])
    topology: int = 1
    tables: dict[str, list[Commit]] = field(default_factory=lambda: {name: [Commit(0)] for name in _TABLES})
    batches: dict[Transaction, dict[str, int]] = field(default_factory=dict)
    #: Versions of the topology that declare a table's queue again, with the version of the table that is then cleared.
    declared: list[tuple[int, str, int]] = field(default_factory=list)
    read: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)

    def commit(self, table: str, **what: object) -> int:
        version = len(self.tables[table])
        self.tables[table].append(Commit(version, 1_000, **what))  # type: ignore[arg-type]
        return version


def happen(rng: random.Random, steps: int) -> tuple[World, Found]:
    """Streams commit batches and look at tables, queues are deleted and declared again; somebody looks meanwhile."""
    world = World()
    todo: dict[str, list[tuple[str, object]]] = {app: [] for app in _APPS}
    numbers = dict.fromkeys(_APPS, -1)
    looks = sorted(rng.randrange(steps) for _ in range(2 + len(_TABLES)))
    order = ["manifest", "topology", *rng.sample(_TABLES, len(_TABLES))]
    seen: dict[str, object] = {}
    for step in range(steps):
        while looks and looks[0] == step:
            looks.pop(0)
            name = order[len(seen)]
            seen[name] = {"manifest": list(world.manifest), "topology": world.topology}.get(name) or list(
                world.tables[name]
            )
        event = rng.random()
        if event < 0.06:
            table = rng.choice(_TABLES)
            world.topology += 1
            at = world.topology
            version = world.commit(table, topology=at, cleared=at)
            if rng.random() < 0.7:
                world.topology += 1
                world.declared.append((world.topology, table, version))
        elif event < 0.2:
            world.commit(rng.choice(_TABLES))
        else:
            app = rng.choice(_APPS)
            if not todo[app]:
                numbers[app] += 1
                batch = Transaction(app, numbers[app])
                world.batches[batch] = {}
                pinned = world.topology
                # what a stream has read by the end of a batch, it has read by the end of the next one
                world.read[batch] = dict(world.read.get(Transaction(app, numbers[app] - 1), {}))
                if rng.random() < 0.3:
                    name = rng.choice(_TABLES)
                    world.read[batch][name] = len(world.tables[name]) - 1
                todo[app] = [(table, pinned) for table in rng.sample(_TABLES, rng.randint(0, 3))]
                todo[app].append(("manifest", pinned))
            table, pinned = todo[app].pop(0)
            batch = Transaction(app, numbers[app])
            if table == "manifest":
                world.manifest.append(Commit(len(world.manifest), 1_000, (batch,)))
            else:
                world.batches[batch][table] = world.commit(table, batches=(batch,), topology=pinned)
    for name in order[len(seen) :]:
        seen[name] = {"manifest": list(world.manifest), "topology": world.topology}.get(name) or list(
            world.tables[name]
        )
    tables = {name: seen[name] for name in _TABLES}
    found = Found(
        seen["manifest"],  # type: ignore[arg-type]
        seen["topology"],  # type: ignore[arg-type]
        tables,  # type: ignore[arg-type]
        {name: commits[-1].version for name, commits in tables.items()},  # type: ignore[index]
    )
    return world, found


def is_whole(world: World, point: Point) -> bool:
    """Whether nothing is torn apart at a point, by what really happened."""
    ended = {batch for commit in world.manifest[: point.manifest + 1] for batch in commit.batches}
    for batch, parts in world.batches.items():
        if any((version <= point.tables[table]) != (batch in ended) for table, version in parts.items()):
            return False
        read = world.read.get(batch, {}) if batch in ended else {}
        if any(point.tables[table] < version for table, version in read.items()):
            return False
    for table, commits in world.tables.items():
        if any(commit.topology > point.topology for commit in commits[: point.tables[table] + 1]):
            return False
    return all(at > point.topology or point.tables[table] >= cleared for at, table, cleared in world.declared)


@pytest.mark.parametrize("seed", range(300))
def test_nothing_is_torn_and_nothing_that_could_be_kept_is_left_out(seed: int) -> None:
    rng = random.Random(seed)
    world, found = happen(rng, rng.randint(4, 40))
    point = latest_point(found, settled_ms=0, reads=lambda app, number: world.read.get(Transaction(app, number), {}))
    assert point is not None
    assert is_whole(world, point)
    # every other whole point, with any version of the topology that was there, is no later in anything
    heads = [range(found.manifest[-1].version + 1), *(range(found.heads[name] + 1) for name in _TABLES)]
    for manifest, *versions in itertools.product(*heads):
        other = Point(manifest, point.topology, dict(zip(_TABLES, versions, strict=True)))
        if is_whole(world, other):
            assert other.manifest <= point.manifest
            assert all(other.tables[name] <= point.tables[name] for name in _TABLES)


def found(manifest: list[Commit], **tables: list[Commit]) -> Found:
    return Found(manifest, 5, tables, {name: commits[-1].version for name, commits in tables.items()})


def test_a_batch_that_a_dead_job_has_left_does_not_hold_the_point_back() -> None:
    left = Commit(1, 10, (Transaction("dead:1", 7),), topology=2)
    later = Commit(2, 500, (Transaction("s:1", 0),), topology=2)
    manifest = [Commit(0), Commit(1, 501, (Transaction("s:1", 0),))]
    seen = found(manifest, a=[Commit(0), left, later])
    assert latest_point(seen, settled_ms=100) == Point(1, 5, {"a": 2})
    assert latest_point(seen, settled_ms=10) == Point(0, 5, {"a": 0})


def test_a_point_before_what_can_be_read_is_none() -> None:
    going = Commit(7, 500, (Transaction("s:1", 1),))
    seen = Found([Commit(3)], 5, {"a": [going]}, {"a": 7}, {"a": 7}, {"s:1": 0})
    assert latest_point(seen, settled_ms=0) is None
    # a batch of which nobody knows when it ended cannot be taken out again
    ended = Commit(8, 500, (Transaction("t:1", 3),))
    seen = Found([Commit(3)], 5, {"a": [going, ended]}, {"a": 8}, {"a": 0}, {"s:1": 0, "t:1": 3})
    assert latest_point(seen, settled_ms=0) is None


def test_a_table_that_was_made_for_a_later_topology_is_not_there_yet() -> None:
    seen = Found([Commit(0)], 5, {"a": [Commit(0, cleared=6)]}, {"a": 0})
    assert latest_point(seen, settled_ms=0) == Point(0, 5, {"a": -1})


def test_when_a_batch_ended() -> None:
    commits = [Commit(4, 0, (Transaction("s", 2),)), Commit(5), Commit(6, 0, (Transaction("s", 4),))]
    endings = Endings(commits, {"s": 1, "t": 9})
    assert [endings.of(Transaction("s", number)) for number in range(6)] == [-1, -1, 4, 6, 6, None]
    assert endings.of(Transaction("u", 0)) is None
    assert [endings.newest(version)["s"] for version in (3, 4, 5, 6)] == [1, 2, 2, 4]
    assert endings.newest(3)["t"] == 9


def test_what_comes_after_a_version_that_is_left_out_is_left_out_too() -> None:
    torn = Commit(1, 500, (Transaction("s:1", 9),))
    after = Commit(2, 500, after={"unroutable": 2})
    seen = found(
        [Commit(0)],
        unroutable=[Commit(0), torn, Commit(2, 500)],
        inbox=[Commit(0), Commit(1, 500), after, Commit(3, 500)],
    )
    assert latest_point(seen, settled_ms=0) == Point(0, 5, {"unroutable": 0, "inbox": 1})
    # the table was read before the commit that is named, or it is not there at all
    for unread in (found([Commit(0)], inbox=[after], unroutable=[Commit(1)]), found([Commit(0)], inbox=[after])):
        assert latest_point(unread, settled_ms=0) == Point(0, 5, {**unread.heads, "inbox": 1})
    # long afterwards somebody has removed it
    gone = found([Commit(0)], inbox=[Commit(2, 10, after={"unroutable": 7})], unroutable=[Commit(0)])
    assert latest_point(gone, settled_ms=100) == Point(0, 5, {"unroutable": 0, "inbox": 2})
