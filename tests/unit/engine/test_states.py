"""The cost of a walk follows the states that it visits, however many rounds they take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router, Work
from bindery.router.engine.states import Growing, Known
from bindery.router.message import Message, to_batch
from bindery.router.model import Binding, Exchange, Queue, Topology
from bindery.router.reference import NaiveRouter


def chain(length: int, *, back: bool = False) -> Topology:
    """Exchanges e0 … that lead from one to the next and at last to a queue, and on request back to the first."""
    editor = TopologyEditor(Topology.empty())
    editor.declare_queue(Queue("/", "end"))
    for n in range(length):
        editor.declare_exchange(Exchange("/", f"e{n}", "fanout"))
    for n in range(length - 1):
        editor.bind(Binding(0, "/", f"e{n}", f"e{n + 1}", "exchange"))
    editor.bind(Binding(0, "/", f"e{length - 1}", "end"))
    if back:
        editor.bind(Binding(0, "/", f"e{length - 1}", "e0", "exchange"))
    return editor.topology


def work(topology: Topology, messages: int) -> Work:
    found = Router.compile(topology, "/").route(to_batch([Message(exchange="e0")] * messages), clock_ms=0)
    assert found.rows.tolist() == list(range(messages))
    return found.counts.work


@pytest.mark.parametrize("messages", [1, 3])
@pytest.mark.parametrize("back", [False, True])
def test_a_chain_of_exchanges_costs_nearly_what_its_states_do(messages: int, back: bool) -> None:
    length = 600
    done = work(chain(length, back=back), messages)
    assert done.states == length * messages
    assert done.entered <= 2 * done.states


def test_a_walk_of_one_round_needs_no_index() -> None:
    assert work(chain(1), 100).entered == 0


def test_a_chain_and_a_circle_give_what_the_reference_gives() -> None:
    for back in (False, True):
        topology = chain(40, back=back)
        found = Router.compile(topology, "/").route(to_batch([Message(exchange="e0")]), clock_ms=0)
        expected = NaiveRouter(topology, "/").route(Message(exchange="e0"))
        assert tuple(found.lineage[0].as_py()) == expected.lineage
        assert expected.queues == {"end"}


@given(st.lists(st.lists(st.integers(0, 60), max_size=8), max_size=12), st.lists(st.integers(0, 70), max_size=10))
def test_known_codes_are_found_whenever_they_were_added(rounds: list[list[int]], asked: list[int]) -> None:
    known, expected = Known(), {}
    for added in rounds:
        new = [code for code in dict.fromkeys(added) if code not in expected]
        numbers = range(len(expected), len(expected) + len(new))
        known.add(np.array(new, np.int64), np.array(numbers, np.int32))
        expected |= dict(zip(new, numbers, strict=True))
        wanted = [expected.get(code, -1) for code in asked]
        assert known.find(np.array(asked, np.int64)).tolist() == wanted


@given(st.lists(st.lists(st.integers(0, 9), max_size=40), max_size=8))
def test_a_growing_array_holds_what_was_appended_and_takes_writes(parts: list[list[int]]) -> None:
    held = Growing(np.int32)
    expected: list[int] = []
    for part in parts:
        held.append(np.array(part, np.int32))
        expected += part
        held.all[:1] = 7
        expected[:1] = [7] * len(expected[:1])
        assert held.all.tolist() == expected
        assert len(held) == len(expected)
