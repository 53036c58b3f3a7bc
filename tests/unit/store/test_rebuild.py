"""A queue's table that is lost or damaged is made again from journals, beside streams that run."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.errors import Fenced, Refused, UnsupportedTable
from bindery.store import deferred, faults, tables
from bindery.store.backfill import Backfiller
from bindery.store.commit import BatchCommitter
from bindery.store.log import TableLog
from bindery.store.maintenance import maintain
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.read import read_queue, take
from bindery.store.rebuild import Rebuilder
from bindery.store.topology import TopologyStore
from tests.examples import examples
from tests.unit.store.conftest import Crash, declare_queues, deliver
from tests.unit.store.conftest import at as reached
from tests.unit.store.routed import route
from tests.unit.store.test_backfill import CLOCK, Identity, bound, held, sent

pytestmark = pytest.mark.local_only  # which loses folders


@pytest.fixture
def queue(data: DataDir, store: TopologyStore) -> str:
    return prepared(data, store)


def prepared(data: DataDir, store: TopologyStore) -> str:
    """The folder of a queue: of batch 0 a backfill has brought a message, of 1 to 3 its stream has."""
    store.edit(declare_queues("q"), author="t")
    route(data, store, sent("a", "b"), batch_id=0, journal=True, clock_ms=CLOCK)
    store.edit(bound("a"), author="t")
    for number in range(1, 4):
        route(data, store, sent("a", "b"), batch_id=number, journal=True, clock_ms=CLOCK + number)
    Backfiller(data, store, "/").backfill("q")
    return data.queue("/", "q")


EVERYTHING = [("flights", number, 0) for number in range(4)]


def lose_folder(path: str) -> None:
    shutil.rmtree(path)


def lose_log(path: str) -> None:
    shutil.rmtree(f"{path}/_delta_log")


def damage_log(path: str) -> None:
    for entry in Path(path, "_delta_log").iterdir():
        if entry.is_file():
            entry.write_text("{")


@pytest.mark.parametrize("lose", [lose_folder, lose_log, damage_log])
def test_a_lost_table_has_everything_again(
    data: DataDir, store: TopologyStore, queue: str, lose: Callable[[str], None]
) -> None:
    before = read_queue(data, "q").to_pylist()
    transactions = dict(TableLog(queue).transactions)
    lose(queue)
    work = Rebuilder(data, store, "/")
    assert work.rebuild("q", dry_run=True).rows == 4
    found = work.rebuild("q")
    assert (found.was, found.rows, found.streams) == ("lost", 4, {"flights": 4})
    assert (found.aside is None) == (lose is lose_folder)
    assert read_queue(data, "q").to_pylist() == before
    assert dict(TableLog(queue).transactions) == {**transactions, "bindery.flush:flights": 3}
    assert work.rebuild("q").was == "whole"
    with pytest.raises(Fenced):  # a replay of the newest batch, which has ended
        route(data, store, sent("a"), batch_id=3, journal=True)
    route(data, store, sent("a"), batch_id=4, journal=True, clock_ms=CLOCK + 4)
    assert Backfiller(data, store, "/").backfill("q").rows == 0
    assert held(data) == [*EVERYTHING, ("flights", 4, 0)]
    assert not [one for one in maintain(data).tables if one.error]


def test_what_no_journal_has_is_counted(data: DataDir, store: TopologyStore, queue: str) -> None:
    with BatchCommitter(data, stream="api", app_id="api:1") as committer:
        deliver(data, committer, 0, store.load().version, "q", rows=3)
    route(data, store, sent("a"), batch_id=0, stream="bare", clock_ms=CLOCK)
    take(data, "q", limit=2)
    lose_folder(queue)
    found = Rebuilder(data, store, "/").rebuild("q")
    assert (found.rows, found.not_covered) == (4, {"api": 3, "bare": 1})
    assert held(data) == EVERYTHING, "those that were taken, too"
    with BatchCommitter(data, stream="api", app_id="api:1") as committer, pytest.raises(Fenced):
        deliver(data, committer, 0, store.load().version, "q", rows=3)
    assert held(data) == EVERYTHING, "its batch has ended"


def test_a_batch_under_way_is_appended_by_its_driver(data: DataDir, store: TopologyStore, queue: str) -> None:
    """Its pin is there, and its row of the manifest is not: other tables may have it, the lost one had not."""
    with (
        faults.installed(reached("batch.appending", die, where="queues")),
        pytest.raises(Crash),
    ):
        route(data, store, sent("a"), batch_id=4, journal=True, clock_ms=CLOCK + 4)
    lose_folder(queue)
    found = Rebuilder(data, store, "/").rebuild("q", wait=0.1)
    assert (found.rows, found.under_way) == (4, ("flights:c:4",))
    route(data, store, sent("a"), batch_id=4, journal=True)
    assert held(data) == [*EVERYTHING, ("flights", 4, 0)]


def die() -> None:
    raise Crash


def test_a_batch_that_the_lost_table_had_and_that_ends_meanwhile_is_not_missed(
    data: DataDir, store: TopologyStore, queue: str
) -> None:
    """Its driver has appended to the lost table and is about to end the batch: it will not append to the new one."""
    gone, end = threading.Event(), threading.Event()

    def wait() -> None:
        gone.set()
        assert end.wait(20)

    def drive() -> None:
        with faults.installed(reached("batch.in_tables", wait)):
            route(data, TopologyStore(data), sent("a"), batch_id=4, journal=True, clock_ms=CLOCK + 4)

    driver = threading.Thread(target=drive)
    driver.start()
    assert gone.wait(20)
    lose_folder(queue)
    threading.Timer(0.5, end.set).start()
    found = Rebuilder(data, store, "/").rebuild("q", wait=20)
    driver.join()
    assert (found.rows, found.under_way) == (5, ())
    route(data, store, sent("a"), batch_id=5, journal=True, clock_ms=CLOCK + 5)
    assert held(data) == [("flights", number, 0) for number in range(6)]


def test_lost_files_are_replaced(data: DataDir, store: TopologyStore, queue: str) -> None:
    with pytest.raises(UnsupportedTable):
        place(queue, file_of(queue, 2)).remove()
        read_queue(data, "q")
    place(queue, file_of(queue, 0)).replace(b"PAR1 no more")
    work = Rebuilder(data, store, "/")
    assert work.rebuild("q", dry_run=True).rows == 2
    found = work.rebuild("q")
    assert (found.was, len(found.files), found.rows, found.again) == ("files", 2, 2, 0)
    assert held(data) == EVERYTHING
    assert work.rebuild("q").was == "whole"


def test_rows_of_lost_files_that_were_taken_are_counted(data: DataDir, store: TopologyStore, queue: str) -> None:
    route(data, store, sent("a", "a"), batch_id=4, journal=True, clock_ms=CLOCK + 4)
    take(data, "q", limit=5)
    assert held(data) == [("flights", 4, 1)]
    for file in list(tables.files_of(TableLog(queue, files=True))):
        place(queue, file).remove()
    found = Rebuilder(data, store, "/").rebuild("q")
    assert (found.rows, found.again) == (1, 0), "its numbers say which it was"
    assert held(data) == [("flights", 4, 1)]


def file_of(path: str, batch: int) -> str:
    """The file that has the rows of a batch."""
    for name, file in tables.files_of(TableLog(path, files=True)).items():
        if f'"batch_id":{batch}' in file.stats:
            return name
    raise AssertionError(batch)


def test_of_two_rebuilds_at_once_one_makes_the_table(data: DataDir, store: TopologyStore, queue: str) -> None:
    lose_folder(queue)
    other = reached("rebuild.aside", lambda: Rebuilder(data, store, "/").rebuild("q"))
    with faults.installed(other), pytest.raises(Refused, match="somebody else has made the table"):
        Rebuilder(data, store, "/").rebuild("q")
    assert held(data) == EVERYTHING


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("lose", [damage_log, lambda path: place(path, file_of(path, 1)).remove()])
def test_a_death_at_any_effect_is_gone_on_from(tmp_path: Path, side: str, lose: Callable[[str], None]) -> None:
    number = 0
    while True:
        number += 1
        data = DataDir.open(tmp_path / f"{number}", create=True)
        store = TopologyStore(data)
        store.create()
        path = prepared(data, store)
        lose(path)
        seen = 0

        def hook(point: str, _path: str, wanted: int = number) -> None:
            nonlocal seen
            if faults.is_effect(point) and point.endswith(side):
                seen += 1
                if seen == wanted:
                    raise Crash

        try:
            with faults.installed(hook):
                Rebuilder(data, store, "/").rebuild("q")
        except Crash:
            Rebuilder(data, TopologyStore(data), "/").rebuild("q")
        else:
            break
        route(data, store, sent("a"), batch_id=4, journal=True, clock_ms=CLOCK + 4)
        assert held(data) == [*EVERYTHING, ("flights", 4, 0)], (side, number)
    assert number > 1


@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "a.b"]), min_size=1, max_size=4), min_size=1, max_size=6),
    st.sets(st.integers(0, 5)),
    st.integers(0, 5),
)
@examples(25)
def test_a_rebuilt_queue_is_what_it_was(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[str]], lost: set[int], since: int
) -> None:
    """Nothing was taken: the table holds what it held, whichever files were lost; with all of them, its folder too."""
    data = DataDir.open(tmp_path_factory.mktemp("data"), create=True)
    store = TopologyStore(data)
    store.create()
    store.edit(declare_queues("q"), author="t")
    for number, keys in enumerate(batches):
        if number == since:
            store.edit(bound("#"), author="t")
        route(data, store, sent(*keys), batch_id=number, journal=True, clock_ms=CLOCK + number)
    Backfiller(data, store, "/").backfill("q")
    before: list[Identity] = held(data)
    path = data.queue("/", "q")
    files = sorted(tables.files_of(TableLog(path, files=True)))
    for number, file in enumerate(files):
        if number in lost:
            place(path, file).remove()
    if lost >= set(range(len(files))):
        lose_folder(path)
    Rebuilder(data, store, "/").rebuild("q")
    assert held(data) == before


@given(
    st.lists(st.booleans(), min_size=1, max_size=6), st.integers(0, 5), st.sampled_from(["folder", "files", "nothing"])
)
@examples(15)
def test_a_deferred_queue_is_rebuilt_with_what_it_had_and_what_waits_comes_later(
    tmp_path_factory: pytest.TempPathFactory, flushes: list[bool], immediate: int, lose: str
) -> None:
    data = DataDir.open(tmp_path_factory.mktemp("data"), create=True)
    store = TopologyStore(data)
    store.create()
    store.edit(declare_queues("q"), author="t")
    store.edit(bound("#"), author="t")
    for number, flush in enumerate(flushes):
        late = 0 if number == immediate else 60
        route(data, store, sent("a", "b"), batch_id=number, journal=True, freshness=late, clock_ms=CLOCK + number)
        if flush:
            deferred.materialise_queue(data, store, "/", "q")
    path = data.queue("/", "q")
    if lose == "folder":
        lose_folder(path)
    elif lose == "files":
        for file in tables.files_of(TableLog(path, files=True)):
            place(path, file).remove()
    Rebuilder(data, store, "/").rebuild("q")
    deferred.materialise_queue(data, store, "/", "q")
    assert held(data) == [("flights", number, seq) for number in range(len(flushes)) for seq in range(2)]
