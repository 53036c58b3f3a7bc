"""How far back versions stay readable."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from bindery.router.errors import InvalidInput
from bindery.store import tables
from bindery.store.log import TableLog
from bindery.store.maintenance import Policy
from bindery.store.maintenance.holds import Hold
from bindery.store.maintenance.horizon import Horizon, horizon, retention, state_properties
from bindery.store.maintenance.listing import LogFiles
from bindery.store.maintenance.policy import as_interval, duration, retention_of, size
from bindery.store.maintenance.table_places import TablePlace, place_of, table_places
from bindery.store.paths import DataDir
from bindery.store.places import Place, at
from bindery.store.topology import TopologyStore

Versions = Callable[..., TableLog]

HOUR = 3_600_000
NOW = 1_800_000_000_000


@pytest.fixture
def place(data: DataDir, store: TopologyStore) -> TablePlace:
    tables.ensure_queue_table(data, "/", "a")
    return place_of(data, tables.QUEUE, data.queue("/", "a"))


@pytest.fixture
def versions(place: TablePlace, dated: Callable[[Place, float], None]) -> Versions:
    """Gives the table a version made at each of those times, in hours before; the first is its creation."""

    def make(*hours_old: float) -> TableLog:
        log = place.open()
        for _ in hours_old[1:]:
            log.commit(())
        for version, hours in enumerate(hours_old):
            dated(at(place.path, "_delta_log", f"{version:020}.json"), (NOW - hours * HOUR) / 1_000)
        return place.open()

    return make


def found(place: TablePlace, log: TableLog, policy: Policy, *holds: Hold) -> Horizon:
    result = horizon(place, log, LogFiles.of(place.path), policy, holds, NOW)
    assert result is not None
    return result


def test_the_version_that_was_the_present_when_the_retention_began_is_the_oldest(
    place: TablePlace, versions: Versions
) -> None:
    log = versions(100, 50, 30, 20, 10)
    assert found(place, log, Policy(retention=timedelta(hours=24))).version == 2
    assert found(place, log, Policy(retention=timedelta(hours=30))).version == 2
    assert found(place, log, Policy(retention=timedelta(hours=31))).version == 1
    assert found(place, log, Policy(retention=timedelta(hours=500))).version == 0


def test_of_very_many_versions_the_newest_stay_and_those_of_a_day(place: TablePlace, versions: Versions) -> None:
    log = versions(*range(120, 20, -1))
    many = Policy(retention=timedelta(hours=110), versions=20)
    assert found(place, log, many).version == 79
    assert found(place, log, Policy(retention=timedelta(hours=110), versions=2)).version == 96  # 24 hours old
    assert found(place, log, Policy(retention=timedelta(hours=110), versions=200)).version == 10
    assert found(place, log, Policy(retention=timedelta(hours=2), versions=200)).version == 99


def test_a_stream_that_is_behind_holds_back_and_others_do_not(place: TablePlace, versions: Versions) -> None:
    log = versions(100, 50, 30, 20, 10)
    table = log.state.table_id
    policy = Policy(retention=timedelta(hours=15))
    behind = Hold("bridge", table, 1, NOW)
    assert found(place, log, policy) == Horizon(3, NOW - 15 * HOUR - 60_000)
    held = found(place, log, policy, behind, Hold("other", "another table", 0, NOW), Hold("ahead", table, 4, NOW))
    assert held == Horizon(1, NOW - 50 * HOUR - 60_000, ("bridge",))


def test_of_the_topology_everything_is_kept(data: DataDir, store: TopologyStore) -> None:
    (place,) = [place for place in table_places(data) if place.kind.name == "topology"]
    assert horizon(place, place.open(), LogFiles.of(place.path), Policy(retention=timedelta(0)), (), NOW) is None
    assert not state_properties(place, place.open(), Policy(retention=timedelta(days=1)))


def test_what_a_table_states_is_the_source_of_truth(place: TablePlace) -> None:
    log = place.open()
    assert retention(place, log, Policy()) == timedelta(days=7)
    assert not state_properties(place, log, Policy())
    assert state_properties(place, log, Policy(retention=timedelta(hours=36)))
    assert not state_properties(place, log, Policy(retention=timedelta(hours=36)))
    assert retention(place, place.open(), Policy()) == timedelta(hours=36)
    assert not state_properties(place, place.open(), Policy())


def test_a_table_of_an_older_version_gets_the_properties(data: DataDir, place: TablePlace) -> None:
    older = tables.Kind("manifest", tables.QUEUE.schema, tables.retained("interval 36500 days"))
    tables.create_table(data.manifest, older)
    log = TableLog(data.manifest, files=True)
    manifest = TablePlace(
        tables.Kind("manifest", older.schema, tables.retained(tables.RETENTION)), data.manifest, "manifest"
    )
    assert state_properties(manifest, log, Policy())
    assert log.state.configuration["delta.logRetentionDuration"] == "interval 7 days"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7 days", 604_800), ("interval 1 week", 604_800), ("90 minutes", 5_400), ("INTERVAL 12 hours", 43_200)],
)
def test_lengths_of_time(text: str, seconds: int) -> None:
    assert duration(text) == timedelta(seconds=seconds)
    assert duration(as_interval(duration(text))) == duration(text)


@pytest.mark.parametrize("text", ["", "7", "days", "-1 days", "1 month", "30 seconds"])
def test_what_is_no_retention_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        retention_of(text)


@pytest.mark.parametrize(("text", "number"), [("1 MiB", 1 << 20), ("128MiB", 128 << 20), ("1 GiB", 1 << 30)])
def test_sizes(text: str, number: int) -> None:
    assert size(text) == number


@pytest.mark.parametrize("text", ["", "1", "1 KiB", "5 GiB", "1 MB", "-1 MiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        size(text)
