"""Messages of a canary go as the candidate alone sends them, the others as the present alone does."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.canary import Canary, Choice
from bindery.router.declarations import TopologyEditor
from bindery.router.engine import CanaryRouter, Router
from bindery.router.errors import InvalidInput
from bindery.router.message import Message, to_batch
from bindery.router.model import DEFAULT_VHOST, Binding, Queue, Topology
from bindery.router.reference import NaiveRouter
from tests.examples import examples
from tests.unit.engine.test_against_reference import outcomes_of
from tests.unit.engine.test_forms import copies_of, transforming
from tests.unit.engine.topologies import maze_messages, mazes, messages, topologies


@st.composite
def changed(draw: st.DrawFn, present: Topology) -> Topology:
    """A candidate: the topology without some of its bindings and diverts, and with some others."""
    editor = TopologyEditor(present)
    for binding in draw(
        st.lists(st.sampled_from(sorted(present.bindings)), unique=True) if present.bindings else st.just([])
    ):
        editor.replay({("binding", DEFAULT_VHOST, str(binding)): None})
    for divert in list(present.diverts.values()):
        if draw(st.booleans()):
            editor.delete_divert(divert.vhost, divert.name)
    exchanges = sorted(name for _, name in present.exchanges if name)
    for _, queue in sorted(present.queues):
        if draw(st.booleans()):
            source = draw(st.sampled_from(exchanges))
            if present.exchanges[DEFAULT_VHOST, source].type in ("fanout", "direct", "topic"):
                editor.bind(Binding(0, DEFAULT_VHOST, source, queue, routing_key="a"))
    editor.topology.version = present.version + 1
    return editor.topology


@given(st.data(), topologies(), st.lists(messages, max_size=12), st.sampled_from([0.2, 0.5, 0.8, 1.0]), st.booleans())
@examples(100)
def test_each_message_goes_as_its_topology_alone_sends_it(
    data: st.DataObject, present: Topology, batch: list[Message], share: float, deliver: bool
) -> None:
    candidate = data.draw(changed(present))
    canary = Canary(DEFAULT_VHOST, candidate.version, candidate.version, share=share, deliver=deliver)
    router: CanaryRouter = pickle.loads(pickle.dumps(CanaryRouter.beside(present, candidate, canary)))  # noqa: S301  # what it wrote itself
    records = to_batch(batch)
    chosen = Choice(canary)(records, clock_ms=0)
    old, new = NaiveRouter(present, DEFAULT_VHOST), NaiveRouter(candidate, DEFAULT_VHOST)
    before, after = ([naive.route(message) for message in batch] for naive in (old, new))
    expected = [
        new_one if is_in and deliver else old_one for old_one, new_one, is_in in zip(before, after, chosen, strict=True)
    ]
    assert outcomes_of(router, records) == expected

    found = router.route(records, clock_ms=0)
    if not chosen.any():
        assert found.versions is None and found.compared is None
        return
    assert found.versions is not None and found.compared is not None
    assert found.versions.tolist() == [candidate.version if is_in and deliver else present.version for is_in in chosen]
    compared = found.compared
    gained: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    reasons = Counter[str](), Counter[str]()
    for place in np.flatnonzero(chosen).tolist():
        gained.update(after[place].queues - before[place].queues)
        lost.update(before[place].queues - after[place].queues)
        for counted, side in zip(reasons, (before, after), strict=True):
            counted.update([side[place].reason] if side[place].reason else [])
    assert (compared.messages, compared.gained, compared.lost) == (chosen.sum(), gained, lost)
    assert compared.differing == sum(before[n].queues != after[n].queues for n in np.flatnonzero(chosen).tolist())
    assert (compared.before, compared.after) == reasons
    for (what, queue), place in compared.examples.items():
        ours, theirs = (after, before) if what == "gained" else (before, after)
        assert chosen[place] and queue in ours[place].queues - theirs[place].queues
    assert {what for what, _ in compared.examples} == {
        name for name, counted in (("gained", gained), ("lost", lost)) if counted
    }


@given(st.data(), transforming(mazes()), st.lists(maze_messages, max_size=8), st.sampled_from([0.3, 0.7, 1.0]))
@examples(30)
def test_copies_that_are_changed_on_their_way_are_those_of_the_topology_that_routes(
    data: st.DataObject, present: Topology, batch: list[Message], share: float
) -> None:
    candidate = data.draw(changed(present))
    canary = Canary(DEFAULT_VHOST, candidate.version, candidate.version, share=share)
    records = to_batch(batch)
    chosen = Choice(canary)(records, clock_ms=0).tolist()
    routers = [Router.compile(topology, DEFAULT_VHOST) for topology in (present, candidate)]
    old, new = (copies_of(router, router.route(records, clock_ms=0), records) for router in routers)
    router = CanaryRouter.beside(present, candidate, canary)
    found = copies_of(router, router.route(records, clock_ms=0), records)
    assert found == [new[place] if is_in else old[place] for place, is_in in enumerate(chosen)]


def test_topologies_with_other_queues_do_not_go_together() -> None:
    present = Topology.empty()
    editor = TopologyEditor(present)
    editor.declare_queue(Queue("/", "q"))
    with pytest.raises(InvalidInput, match="other queues"):
        CanaryRouter(Router.compile(present, "/"), Router.compile(editor.topology, "/"), Canary("/", 1, 1))
