"""Queues that expire: what counts as use, when an unused one is deleted, and who may come in between.

The rules are RabbitMQ's (its guide "TTL", "Queue TTL"): unused is a queue without consumers that was not declared again
and of which nothing was got; what is routed to it is no use; it may go later than it could, never sooner.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bindery.router.declarations import TopologyEditor
from bindery.router.message import Message
from bindery.router.model import Binding, Exchange, Queue
from bindery.router.policies import OPERATOR_POLICY, POLICY, Policy
from bindery.router.values import Table
from bindery.store import faults, queue_use, read
from bindery.store.destinations import ToQueue
from bindery.store.limiting import LimitsReport
from bindery.store.maintenance import maintain
from bindery.store.moves import Mover
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.queue_use import note_use
from bindery.store.topology import TopologyStore
from bindery.store.transfers import Transfer
from tests.unit.store.conftest import FailingDisk, at, declare_queues
from tests.unit.store.routed import route

#: Milliseconds, and the part of them for which uses after one on record are not noted.
EXPIRES = 80_000
GRAIN = EXPIRES // 8


def expiring(name: str = "q", **arguments: Any) -> Callable[[TopologyEditor], object]:
    stated = Table({"x-expires": EXPIRES, **{key.replace("_", "-"): value for key, value in arguments.items()}})
    return lambda editor: editor.declare_queue(Queue("/", name, arguments=stated))


@pytest.fixture
def q(data: DataDir, store: TopologyStore) -> DataDir:
    store.edit(expiring(), author="t")
    return data


def used(data: DataDir, name: str = "q") -> int:
    """The use on record."""
    use = queue_use.recorded(data, "/", name).use
    assert use is not None
    return use.used_ms


def keep(data: DataDir, now: int, *, dry_run: bool = False) -> LimitsReport | None:
    """A pass of maintenance at a moment; what it reports of the one queue that expires."""
    done = maintain(data, dry_run=dry_run, clock=lambda: now)
    assert not done.failed
    return done.limits[0] if done.limits else None


def names(data: DataDir) -> set[str]:
    return {name for _, name in TopologyStore(data).load().queues}


def test_a_queue_that_was_never_used_counts_from_its_declaration(q: DataDir) -> None:
    declared = used(q)
    assert abs(time.time_ns() // 1_000_000 - declared) < 60_000
    end = declared + EXPIRES + GRAIN
    found = keep(q, end - 1)
    assert found is not None and (found.deleted, found.unused_ms, found.ends_ms) == (False, declared, end)
    assert names(q) == {"q"}
    found = keep(q, end)
    assert found is not None and (found.deleted, found.is_touched) == (True, True)
    assert names(q) == set()
    assert keep(q, end) is None


def test_the_history_says_who_and_why(q: DataDir, store: TopologyStore) -> None:
    keep(q, used(q) + 2 * EXPIRES)
    newest = store.history(limit=1)[0]
    assert newest.author == "bindery"
    assert newest.reason.startswith("expired: unused since 20")


def test_a_dry_run_says_it_and_does_nothing(q: DataDir, store: TopologyStore) -> None:
    version, declared = store.load().version, used(q)
    found = keep(q, declared + 2 * EXPIRES, dry_run=True)
    assert found is not None and (found.deleted, found.unused_ms) == (True, declared)
    assert (store.load().version, used(q)) == (version, declared)


USES: dict[str, Callable[[DataDir, TopologyStore], object]] = {
    "get": lambda data, _: read.take(data, "q"),
    "get and requeue": lambda data, _: read.take(data, "q", requeue=True),
    "browse": lambda data, _: read.browse(data, "q"),
    "look": lambda data, _: read.look(data, "q"),
    "rows deleted that were read": lambda data, _: read.delete_rows(data, "q", read.read_queue(data, "q")),
    "move": lambda data, store: Mover(data, store, "/").move(Transfer("/", "q", ToQueue("other"))),
}
NO_USES: dict[str, Callable[[DataDir, TopologyStore], object]] = {
    "what is routed": lambda data, store: route(data, store, [Message("", "q")], stream="late"),
    "purge": lambda data, _: read.delete_matching(data, "q", None),
    "count": lambda data, _: read.count(data, "q"),
    "an analyst's read": lambda data, _: read.read_queue(data, "q"),
    "a binding": lambda _, store: store.edit(
        lambda editor: (
            editor.declare_exchange(Exchange("/", "x", "fanout")),
            editor.bind(Binding(0, "/", "x", "q")),
        ),
        author="t",
    ),
    "a move that is tried": lambda data, store: Mover(data, store, "/").move(
        Transfer("/", "q", ToQueue("other")), dry_run=True
    ),
}


@pytest.mark.parametrize("name", [*USES, *NO_USES])
def test_what_a_use_is(q: DataDir, store: TopologyStore, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store.edit(declare_queues("other"), author="t")
    route(q, store, [Message("", "q", body=b"1")])
    before = used(q)
    later = before + GRAIN
    monkeypatch.setattr(queue_use.time, "time_ns", lambda: later * 1_000_000)
    {**USES, **NO_USES}[name](q, store)
    assert used(q) == (later if name in USES else before)


def test_a_use_is_written_once_in_a_grain(q: DataDir) -> None:
    written: list[str] = []
    begun = used(q)
    with faults.installed(at("replace.after", lambda: written.append("x"), where=".used", times=99)):
        for moment in range(begun, begun + EXPIRES, 100):
            note_use(q, "/", "q", now_ms=moment)
    assert len(written) == EXPIRES // GRAIN - 1


def test_a_use_while_the_expiry_is_being_changed_is_not_lost(q: DataDir) -> None:
    found = queue_use.recorded(q, "/", "q")
    assert found.use is not None
    changed, moment = replace(found.use, grain_ms=5), found.use.used_ms + EXPIRES
    meanwhile = at("replace.before", lambda: queue_use.record(q, "/", "q", changed, found), where=".used")
    with faults.installed(meanwhile):
        note_use(q, "/", "q", now_ms=moment)
    assert queue_use.recorded(q, "/", "q").use == replace(changed, used_ms=moment)


def test_a_queue_that_does_not_expire_has_no_record(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare_queues("q"), author="t")
    read.take(data, "q")
    assert keep(data, 5) is None
    assert not place(data.queue("/", "q"), ".used.json").exists()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(gaps=st.lists(st.integers(0, 3 * EXPIRES), min_size=1, max_size=6), rest=st.integers(0, 2 * EXPIRES))
def test_no_queue_goes_sooner_than_it_may_nor_later_than_a_grain(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[int], rest: int
) -> None:
    """Against the rule: whenever the pass comes, the last use was longer ago than the expiry."""
    data = DataDir.open(tmp_path_factory.mktemp("d"), create=True)
    store = TopologyStore(data)
    store.edit(expiring(), author="t")
    last = used(data)
    for gap in gaps:
        if names(data):
            keep(data, last + gap)
            assert ("q" in names(data)) or gap >= EXPIRES
        if not names(data):
            assert gap >= EXPIRES
            return
        last += gap
        note_use(data, "/", "q", now_ms=last)
    found = keep(data, last + rest)
    assert found is not None
    assert found.deleted or rest < EXPIRES + GRAIN
    assert not found.deleted or rest >= EXPIRES


def test_a_queue_that_is_used_while_it_is_being_deleted_stays(q: DataDir, store: TopologyStore) -> None:
    """The change of the topology loses a race, and whether the queue is unused is asked again."""
    end = used(q) + 2 * EXPIRES

    def meanwhile() -> None:
        TopologyStore(q).edit(declare_queues("other"), author="another")
        note_use(q, "/", "q", now_ms=end)

    with faults.installed(at("edit.files", meanwhile)):
        found = keep(q, end)
    assert found is not None and not found.deleted
    assert names(q) == {"q", "other"}
    assert store.history(limit=1)[0].author == "another"


def test_one_that_was_declared_anew_meanwhile_is_another_queue(q: DataDir, store: TopologyStore) -> None:
    end = used(q) + 2 * EXPIRES

    def anew(editor: TopologyEditor) -> None:
        editor.delete_queue("/", "q")
        expiring()(editor)

    with faults.installed(at("edit.files", lambda: TopologyStore(q).edit(anew, author="another"))):
        found = keep(q, end)
    assert found is not None and not found.deleted
    assert names(q) == {"q"}
    assert used(q) > end - 2 * EXPIRES
    keep(q, used(q) + EXPIRES)
    assert names(q) == {"q"}


def test_one_that_a_rollback_brings_back_begins_anew(q: DataDir, store: TopologyStore) -> None:
    version, declared = store.load().version, used(q)
    store.edit(lambda editor: editor.delete_queue("/", "q"), author="t")
    store.rollback(version, author="t")
    assert used(q) > declared


def test_nothing_of_it_is_a_dead_letter(q: DataDir, store: TopologyStore) -> None:
    store.edit(lambda editor: editor.delete_queue("/", "q"), author="t")
    store.edit(declare_queues("dead"), author="t")
    dead: dict[str, Any] = {"x_message_ttl": 0, "x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}
    store.edit(expiring(**dead), author="t")
    route(q, store, [Message("", "q")], clock_ms=5)
    planned = keep(q, used(q) + 2 * EXPIRES, dry_run=True)
    assert planned is not None and (planned.deleted, planned.expired, planned.dead_lettered) == (True, 0, 0)
    keep(q, used(q) + 2 * EXPIRES)
    assert names(q) == {"dead"}
    assert read.count(q, "dead") == read.count(q, "q") == 0


# -- without a declaration that could say so ----------------------------------------------------------


@pytest.mark.parametrize("kind", [POLICY, OPERATOR_POLICY])
def test_under_a_policy_it_counts_from_when_maintenance_meets_it(
    data: DataDir, store: TopologyStore, kind: str
) -> None:
    store.edit(declare_queues("q"), author="t")
    setting = Policy("/", "p", "^q", Table({"expires": EXPIRES}), "queues").setting(kind)
    store.edit(lambda editor: editor.put_setting(setting), author="t")
    assert keep(data, 1_000, dry_run=True) is not None
    assert queue_use.recorded(data, "/", "q").use is None
    keep(data, 1_000)
    keep(data, 1_000 + EXPIRES)
    assert names(data) == {"q"}
    keep(data, 1_000 + EXPIRES + GRAIN)
    assert names(data) == set()


def test_a_queue_of_an_older_version_gets_an_id_first(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(TopologyEditor, "_put_queue", lambda self, q: self._put("queues", (q.vhost, q.name), q))
        store.edit(expiring(), author="t")
    queue_use.forget(data, "/", "q")
    keep(data, 1_000)
    use = queue_use.recorded(data, "/", "q").use
    assert use is not None
    assert use.queue == TopologyStore(data).load().queue("/", "q").id > 0


def test_what_was_noted_of_a_queue_that_is_gone_does_not_count(q: DataDir, store: TopologyStore) -> None:
    """As after an upgrade from a version that did not note declarations."""
    store.edit(lambda editor: editor.delete_queue("/", "q"), author="t")
    old = place(q.queue("/", "q"), ".used.json").read()
    store.edit(expiring(), author="t")
    assert old is not None
    place(q.queue("/", "q"), ".used.json").replace(old)
    now = used(q) + 9 * EXPIRES
    keep(q, now)
    assert (names(q), used(q)) == ({"q"}, now)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"format": 2}', b'{"format": 1, "queue": 1}'])
def test_a_damaged_record_is_made_anew(q: DataDir, content: bytes) -> None:
    now = used(q) + 9 * EXPIRES
    place(q.queue("/", "q"), ".used.json").replace(content)
    note_use(q, "/", "q")
    keep(q, now)
    assert (names(q), used(q)) == ({"q"}, now)


def test_a_shorter_expiry_counts_from_the_last_use_that_may_have_been(q: DataDir, store: TopologyStore) -> None:
    begun = used(q)
    shorter = Policy("/", "p", "^q", Table({"expires": 800}), "queues").setting(POLICY)
    store.edit(lambda editor: editor.put_setting(shorter), author="t")
    # a use just before the end of the grain, which is not on record
    note_use(q, "/", "q", now_ms=begun + GRAIN - 1)
    keep(q, begun + GRAIN - 1 + 799)
    assert names(q) == {"q"}
    assert used(q) == begun + GRAIN - 100
    keep(q, begun + GRAIN + 800)
    assert names(q) == set()


@pytest.mark.parametrize("number", range(1, 7))
def test_a_disk_that_fails_deletes_it_whole_or_not(q: DataDir, number: int) -> None:
    end = used(q) + 2 * EXPIRES
    disk = FailingDisk(number)
    with faults.installed(disk):
        maintain(q, clock=lambda: end)
    assert disk.failed
    keep(q, end)
    assert names(q) == set()


def test_a_use_that_cannot_be_noted_does_not_fail(q: DataDir) -> None:
    with faults.installed(FailingDisk(1, for_long=True)):
        note_use(q, "/", "q", now_ms=used(q) + EXPIRES)
