"""Canaries as versions of the topology: begun, carried over, promoted, rolled back, and interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bindery.router.canary import canary_of, running_canary
from bindery.router.declarations import TopologyEditor
from bindery.router.definitions import export
from bindery.router.errors import InUse, InvalidInput, NotFound
from bindery.router.model import Binding, Exchange, Queue, Topology
from bindery.store import canaries, faults
from bindery.store.canaries import Request
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore


class Died(BaseException):
    """The process died here."""


def declare(editor: TopologyEditor) -> None:
    editor.declare_exchange(Exchange("/", "orders", "topic"))
    for name in ("eu", "us"):
        editor.declare_queue(Queue("/", name))
        editor.bind(Binding(0, "/", "orders", name, routing_key=f"{name}.#"))


#: Orders of the EU go to a new queue instead.
CHANGE: dict[str, Any] = {
    "delete": {"bindings": [{"source": "orders", "destination": "eu", "routing_key": "eu.#"}]},
    "definitions": {
        "queues": [{"name": "eu-new"}],
        "bindings": [{"source": "orders", "destination": "eu-new", "destination_type": "queue", "routing_key": "eu.#"}],
    },
}


@pytest.fixture
def store(tmp_path: Path) -> TopologyStore:
    store = TopologyStore(DataDir.open(str(tmp_path / "data"), create=True))
    store.edit(declare, author="tests")
    return store


def begun(store: TopologyStore, **stated: Any) -> canaries.Outcome:
    return canaries.put(store, "/", Request.of({"change": CHANGE, "share": 0.5} | stated), author="ada")


def links(topology: Topology) -> set[tuple[str, str, str]]:
    return {(one.source, one.routing_key, one.destination) for one in topology.bindings.values()}


OLD = {("orders", "eu.#", "eu"), ("orders", "us.#", "us")}
NEW = {("orders", "eu.#", "eu-new"), ("orders", "us.#", "us")}


def bind(*names: str, key: str = "x") -> Callable[[TopologyEditor], None]:
    def change(editor: TopologyEditor) -> None:
        for name in names:
            editor.bind(Binding(0, "/", "orders", name, routing_key=key))

    return change


def test_the_candidate_is_a_version_and_the_present_the_newest(store: TopologyStore) -> None:
    before = store.load()
    outcome = begun(store)
    present, canary = store.load(), outcome.canary
    assert outcome.changed and outcome.version == present.version == before.version + 2
    assert canary.version == canary.started == before.version + 1
    assert (canary.share, canary.filter, canary.deliver, canary.queues) == (0.5, None, True, ("eu-new",))
    assert links(present) == OLD
    assert links(store.load(version=canary.version)) == NEW
    # whoever opens the data directory anew sees the same
    again = TopologyStore(store.data)
    assert again.load() == present
    assert again.load(version=canary.version) == store.load(version=canary.version)
    # the queue of the candidate has its table, and its id in both
    assert present.queues["/", "eu-new"] == store.load(version=canary.version).queues["/", "eu-new"]


def test_the_same_request_again_changes_nothing(store: TopologyStore) -> None:
    first = begun(store)
    again = begun(store)
    assert not again.changed
    assert (again.version, again.canary) == (first.version, first.canary)


def test_another_share_keeps_the_candidate(store: TopologyStore) -> None:
    first = begun(store)
    outcome = canaries.put(store, "/", Request.of({"share": 0.75, "deliver": False}), author="ada")
    assert (outcome.canary.version, outcome.canary.share, outcome.canary.deliver) == (first.canary.version, 0.75, False)
    whole = begun(store, share=1)
    assert (whole.canary.version, whole.canary.share, whole.canary.deliver) == (first.canary.version, 1.0, True)


def test_promotion_gives_what_was_tried_its_ids_too_and_may_be_repeated(store: TopologyStore) -> None:
    tried = store.load(version=begun(store).canary.version)
    outcome = canaries.promote(store, "/", author="ada")
    present = store.load()
    assert outcome.changed and outcome.canary.state == "promoted"
    assert present.bindings == tried.bindings
    assert present.exchanges == tried.exchanges
    again = canaries.promote(store, "/", author="ada")
    assert not again.changed and again.canary == outcome.canary and again.version == outcome.version
    with pytest.raises(NotFound, match="was promoted"):
        canaries.roll_back(store, "/", author="ada")


def test_rollback_leaves_the_present_and_the_queues_of_the_candidate(store: TopologyStore) -> None:
    before = store.load()
    begun(store)
    outcome = canaries.roll_back(store, "/", author="ada")
    present = store.load()
    assert outcome.changed and outcome.canary.state == "rolled back"
    assert present.bindings == before.bindings
    assert outcome.canary.queues == ("eu-new",)
    assert ("/", "eu-new") in present.queues
    assert not canaries.roll_back(store, "/", author="ada").changed
    with pytest.raises(NotFound, match="was rolled back"):
        canaries.promote(store, "/", author="ada")


def test_ids_of_a_candidate_that_was_rolled_back_are_not_given_again(store: TopologyStore) -> None:
    tried = store.load(version=begun(store).canary.version)
    canaries.roll_back(store, "/", author="ada")
    store.edit(bind("us"), author="tests")
    new = set(store.load().bindings) - {1, 2}
    assert new.isdisjoint(tried.bindings)


def test_what_others_declare_reaches_the_candidate(store: TopologyStore) -> None:
    first = begun(store).canary
    store.edit(bind("us", key="urgent"), author="eve")
    canary = running_canary(store.load(), "/")
    assert canary is not None and canary.started == first.started and canary.version > first.version
    assert links(store.load()) == OLD | {("orders", "urgent", "us")}
    assert links(store.load(version=canary.version)) == NEW | {("orders", "urgent", "us")}
    canaries.promote(store, "/", author="ada")
    assert links(store.load()) == NEW | {("orders", "urgent", "us")}


def test_a_change_elsewhere_leaves_the_candidate_alone(store: TopologyStore) -> None:
    first = begun(store)
    store.edit(lambda editor: editor.delete_queue("/", "us"), author="eve")
    moved = running_canary(store.load(), "/")
    assert moved is not None and moved.version != first.canary.version

    def elsewhere(editor: TopologyEditor) -> None:
        from bindery.router.model import Vhost

        editor.declare_vhost(Vhost("other"))

    version = store.edit(elsewhere, author="eve").version
    assert running_canary(store.load(), "/") == moved
    assert version == moved.version + 2


def test_a_queue_that_is_deleted_leaves_the_candidate_too(store: TopologyStore) -> None:
    begun(store)
    store.edit(lambda editor: editor.delete_queue("/", "eu-new"), author="eve")
    canary = running_canary(store.load(), "/")
    assert canary is not None and not canary.conflicts
    candidate = store.load(version=canary.version)
    assert candidate.queues.keys() == store.load().queues.keys()
    assert links(candidate) == {("orders", "us.#", "us")}


def test_the_same_binding_from_elsewhere_is_the_presents(store: TopologyStore) -> None:
    begun(store)
    store.edit(bind("eu-new", key="eu.#"), author="eve")
    canary = running_canary(store.load(), "/")
    assert canary is not None
    (found,) = (one for one in store.load().bindings.values() if one.destination == "eu-new")
    candidate = store.load(version=canary.version)
    assert [one.id for one in candidate.bindings.values() if one.destination == "eu-new"] == [found.id]


def change_type(kind: str) -> dict[str, Any]:
    return {"exchanges": [{"name": "orders", "type": "topic", "arguments": {"alternate-exchange": kind}}]}


def test_promotion_is_refused_where_the_present_changed_the_same_otherwise(store: TopologyStore) -> None:
    from bindery.router.proposal import propose
    from bindery.store.candidates import changes_of

    canaries.put(store, "/", Request.of({"change": change_type("amq.fanout"), "share": 1}), author="ada")

    def otherwise(editor: TopologyEditor) -> None:
        made = propose(editor.topology, "/", change_type("amq.direct"))
        editor.replay({one.key: one.after for one in changes_of(editor.topology, made, "/")})

    store.edit(otherwise, author="eve")
    canary = running_canary(store.load(), "/")
    assert canary is not None and canary.conflicts == (("exchange", "/", "orders"),)
    before = store.load()
    with pytest.raises(InUse, match="exchange 'orders'"):
        canaries.promote(store, "/", author="ada")
    assert store.load() == before
    # begun again it says what is meant
    canaries.put(store, "/", Request.of({"change": change_type("amq.fanout"), "share": 1}), author="ada")
    assert canaries.promote(store, "/", author="ada").changed
    assert store.load().exchanges["/", "orders"].arguments["alternate-exchange"] == "amq.fanout"


def test_the_state_of_a_version_can_be_tried(store: TopologyStore) -> None:
    old = store.load().version
    store.edit(lambda editor: editor.delete_exchange("/", "orders"), author="eve")
    outcome = canaries.put(store, "/", Request.of({"version": old, "share": 0.1}), author="ada")
    assert links(store.load(version=outcome.canary.version)) == OLD
    canaries.promote(store, "/", author="ada")
    assert links(store.load()) == OLD


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"share": 0.1}, "no canary runs"),
        ({}, "nothing to try"),
        ({"change": CHANGE}, "which messages"),
        ({"change": CHANGE, "version": 1, "share": 1}, "exclude each other"),
        ({"change": CHANGE, "share": 0}, "above 0"),
        ({"change": CHANGE, "share": 5}, "above 0 and up to 1"),
        ({"change": CHANGE, "share": True}, "share is True"),
        ({"change": CHANGE, "share": float("nan")}, "share is nan"),
        ({"change": CHANGE, "share": 1, "dialect": "jms"}, "no filter"),
        ({"change": CHANGE, "filter": "a ="}, "ends too early"),
        ({"change": CHANGE, "shared": 1}, "unknown key 'shared'"),
        ({"change": CHANGE, "share": 1, "deliver": "no"}, "deliver is 'no'"),
        ({"version": 99, "share": 1}, "no topology version 99"),
        ({"version": -1, "share": 1}, "version is -1"),
        ({"change": {"delete": {"queues": ["eu"]}}, "share": 1}, "deletes no queue"),
        ({"change": {"delete": {"queues": ["eu"]}, "add": {"queues": [{"name": "eu"}]}}, "share": 1}, "deletes no"),
        ({"change": {"delete": {"vhosts": ["/"]}}, "share": 1}, "deletes no vhost"),
        ({"change": {"global_parameters": [{"name": "a", "value": 1}]}, "share": 1}, "global-parameter 'a'"),
        ({"change": {"vhosts": [{"name": "other"}]}, "share": 1}, "vhost 'other'"),
        ({"change": {"queues": [{"name": "eu"}]}, "share": 1}, "changes nothing"),
    ],
)
def test_what_no_canary_can_be_is_refused(store: TopologyStore, stated: dict[str, Any], message: str) -> None:
    before = store.load()
    with pytest.raises(InvalidInput, match=message):
        canaries.put(store, "/", Request.of(stated), author="ada")
    assert store.load() == before


def test_a_candidate_that_was_not_looked_at_is_not_promoted(store: TopologyStore) -> None:
    canary = begun(store).canary
    with pytest.raises(InUse, match=f"version {canary.version}, not 1"):
        canaries.promote(store, "/", author="ada", version=1)
    assert canaries.promote(store, "/", author="ada", version=canary.version).changed


def test_documents_and_vhosts_say_nothing_of_canaries(store: TopologyStore) -> None:
    before = export(store.load())
    begun(store)
    after = export(store.load())
    assert after["parameters"] == before["parameters"]
    assert after["bindings"] == before["bindings"]


def test_rolled_back_to_a_version_with_a_canary_it_runs_again(store: TopologyStore) -> None:
    outcome = begun(store)
    canaries.promote(store, "/", author="ada")
    store.rollback(outcome.version, author="ada")
    assert running_canary(store.load(), "/") == outcome.canary
    # and back to before there was any
    store.rollback(outcome.version - 2, author="ada")
    assert canary_of(store.load(), "/") is None
    store.rollback(outcome.canary.version, author="ada")
    assert canary_of(store.load(), "/") is None
    assert links(store.load()) == NEW


def test_who_changed_an_object_stays(store: TopologyStore) -> None:
    begun(store)
    (kept,) = (one for one in store.load().bindings.values() if one.destination == "eu")
    assert store.author(("binding", "/", str(kept.id))) == "tests"


POINTS = ("edit.begun", "edit.queues", "edit.files", "edit.committed")


@pytest.fixture
def dying() -> Iterator[Callable[[int], Any]]:
    """Dies at a point that is reached, counted from 0."""

    def install(at: int) -> Any:
        reached = [0]

        def hook(point: str, _path: str) -> None:
            if point in POINTS:
                reached[0] += 1
                if reached[0] > at:
                    raise Died

        return faults.installed(hook)

    yield install


@pytest.mark.parametrize("at", range(8))
def test_died_on_the_way_nobody_sees_a_candidate_as_the_present(
    store: TopologyStore, dying: Callable[[int], Any], at: int
) -> None:
    before = store.load()
    with dying(at), pytest.raises(Died):
        begun(store)
    found = TopologyStore(store.data)
    present = found.load()
    assert links(present) == OLD
    if at < 7:
        assert present == before
        assert found.queue_of("/", "eu-new") is None
        assert TopologyStore(store.data).queue_of("/", "eu") == before.queues["/", "eu"]
    # the next change goes on from the present, and the canary can be begun
    found.edit(bind("us", key="next"), author="eve")
    assert links(found.load()) == OLD | {("orders", "next", "us")}
    again = canaries.put(found, "/", Request.of({"change": CHANGE, "share": 0.5}), author="ada")
    assert links(found.load(version=again.canary.version)) == NEW | {("orders", "next", "us")}
    ids = [one.id for one in found.load(version=again.canary.version).bindings.values()]
    assert len(ids) == len(set(ids))
    assert links(TopologyStore(store.data).load()) == OLD | {("orders", "next", "us")}


@pytest.mark.parametrize("at", range(8))
def test_died_while_a_change_was_carried_over_rows_of_queues_stay(
    store: TopologyStore, dying: Callable[[int], Any], at: int
) -> None:
    from bindery.store import tables

    begun(store)
    before = store.load()
    with dying(at), pytest.raises(Died):
        store.edit(lambda editor: editor.delete_queue("/", "us"), author="eve")
    found = TopologyStore(store.data)
    if at < 7:
        assert found.load() == before
        found.edit(bind("eu", key="next"), author="eve")
        undeclared = tables.undeclared_since(tables.open_log(store.data.queue("/", "us"), tables.QUEUE))
        assert undeclared < before.version
        assert ("/", "us") in found.load().queues
    else:
        assert ("/", "us") not in found.load().queues


def test_another_process_may_change_the_topology_at_any_point(store: TopologyStore) -> None:
    """Between the candidate and the commit after it: the other stands on the present, and the canary begins again."""
    rival = TopologyStore(store.data)
    seen: list[set[tuple[str, str, str]]] = []

    def hook(point: str, _path: str) -> None:
        if point == "edit.committed" and not seen:
            seen.append(links(rival.load()))
            rival.edit(bind("us", key="rival"), author="eve")

    with faults.installed(hook):
        outcome = begun(store)
    assert seen == [OLD]
    assert links(store.load()) == OLD | {("orders", "rival", "us")}
    assert links(store.load(version=outcome.canary.version)) == NEW | {("orders", "rival", "us")}
    assert rival.load() == store.load()
    ids = {one for version in range(outcome.version + 1) for one in store.load(version=version).bindings.items()}
    assert len({number for number, _ in ids}) == len(ids), "an id was given twice"


def test_each_vhost_has_its_canary(store: TopologyStore) -> None:
    from bindery.router.model import Vhost

    def declare_other(editor: TopologyEditor) -> None:
        editor.declare_vhost(Vhost("other"))
        editor.declare_queue(Queue("other", "q"))

    store.edit(declare_other, author="tests")
    first = begun(store).canary
    change = {"bindings": [{"source": "amq.fanout", "destination": "q", "destination_type": "queue"}]}
    second = canaries.put(store, "other", Request.of({"change": change, "share": 1}), author="bob").canary
    assert running_canary(store.load(), "/") == first
    store.edit(bind("us", key="more"), author="eve")
    assert running_canary(store.load(), "other") == second
    canaries.promote(store, "other", author="bob")
    assert links(store.load()) == OLD | {("orders", "more", "us"), ("amq.fanout", "", "q")}
    again = running_canary(store.load(), "/")
    assert again is not None and links(store.load(version=again.version)) >= NEW
    canaries.promote(store, "/", author="ada")
    assert links(store.load()) == NEW | {("orders", "more", "us"), ("amq.fanout", "", "q")}


def test_at_a_time_the_present_of_then_is_found(store: TopologyStore) -> None:
    canary = begun(store).canary
    moment = store.version(canary.version).timestamp
    assert links(store.load(at=moment)) == OLD


def test_changes_of_many_that_come_together_are_carried_over(store: TopologyStore) -> None:
    from bindery.store.group_commit import GroupCommitter

    begun(store)
    with GroupCommitter(store) as committer:
        waiting = [committer.submit(bind("us", key=f"k{n}"), "eve") for n in range(5)]
        for one in waiting:
            one.result()
    added = {("orders", f"k{n}", "us") for n in range(5)}
    canary = running_canary(store.load(), "/")
    assert canary is not None
    assert links(store.load()) == OLD | added
    assert links(store.load(version=canary.version)) == NEW | added
