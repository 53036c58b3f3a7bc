"""Alternate bindings: where a message goes that reached no queue through an exchange (Broker-J §4.6.4)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bindery.router.engine.walk import KERNELS, Walk
from bindery.router.matching.texts import Int32s
from bindery.router.native import kernels

Bools = npt.NDArray[np.bool_]


def fire_alternate_bindings(walk: Walk) -> None:
    """Rounds until nothing fires: in each, every innermost state that reached no queue uses its alternate.

    A state reaches a queue when it, or any state that follows from it, delivered to one. Innermost means that
    no other such state follows from it, but for those from which it follows itself (a cycle fires together).
    The outcome depends on no order of evaluation. Each state fires at most once.
    """
    fired = np.zeros(0, np.bool_)
    links = walk.plan.exchanges.alternate_link
    while True:
        fired = np.append(fired, np.zeros(walk.states - len(fired), np.bool_))
        waiting = (links[walk.exchange] >= 0) & ~walk.diverted & ~fired
        if not waiting.any():
            return
        origin, target = _edges(walk)
        reached = _reaching(walk, origin, target)
        waiting &= ~reached
        unreached = ~reached[origin]
        states = _innermost(waiting, origin[unreached], target[unreached])
        if not len(states):
            return
        fired[states] = True
        walk.lead(states, links[walk.exchange[states]])


def _edges(walk: Walk) -> tuple[Int32s, Int32s]:
    none = np.zeros(0, np.int32)
    origin = np.concatenate([none, *(origin for origin, _ in walk.edges)])
    target = np.concatenate([none, *(target for _, target in walk.edges)])
    return origin, target


def _reaching(walk: Walk, origin: Int32s, target: Int32s) -> Bools:
    """Per state whether a queue was reached through it."""
    reached = np.zeros(walk.states, np.bool_)
    for pairs in walk.pairs:
        reached[pairs.state[pairs.open & (walk.plan.links.queue[pairs.link] >= 0)]] = True
    return _backwards(reached, origin, target)


def _backwards(marked: Bools, origin: Int32s, target: Int32s) -> Bools:
    """Mark every state from which a marked one follows."""
    while True:
        further = origin[marked[target] & ~marked[origin]]
        if not len(further):
            return marked
        marked[further] = True


def _innermost(waiting: Bools, origin: Int32s, target: Int32s) -> Int32s:
    """The waiting states from which no waiting state of another component follows."""
    states = np.flatnonzero(waiting).astype(np.int32)
    if not len(origin):
        return states
    nodes, place = np.unique(np.concatenate([origin, target, states]), return_inverse=True)
    tail, head = place[: len(origin)], place[len(origin) : 2 * len(origin)]
    order = np.argsort(tail, kind="stable")
    offsets = np.searchsorted(tail[order], np.arange(len(nodes) + 1))
    component, count = kernels(KERNELS).components(offsets, head[order])
    holds = np.zeros(count, np.bool_)
    holds[component[place[2 * len(origin) :]]] = True
    between = component[tail] != component[head]
    above, below = component[tail[between]], component[head[between]]
    blocked = np.zeros(count, np.bool_)
    while True:
        further = above[(holds[below] | blocked[below]) & ~blocked[above]]
        if not len(further):
            break
        blocked[further] = True
    inner: Bools = ~blocked[component[place[2 * len(origin) :]]]
    return states[inner]
