"""Candidates of canaries: what a topology would be with a change that is tried, while the present goes on changing.

A candidate is the present with a change, always: when the present changes, the change is carried over
(`carried_over`), and the candidate is another version from then on. So a message of a canary never misses what
others have declared meanwhile, and what is promoted is what was tried.
"""

from __future__ import annotations

from bindery.router.declarations import TopologyEditor
from bindery.router.model import Binding, Divert, ObjectKey, Queue, Topology, object_key
from bindery.router.model.objects import CANARY_KIND
from bindery.store.history import ObjectChange, changes_between


def changes_of(present: Topology, candidate: Topology, vhost: str) -> list[ObjectChange]:
    """What a candidate changes in a vhost; no change of queues that are there but of what they state."""
    return [one for one in changes_between(present, candidate) if one.key[1] == vhost and one.key[0] != CANARY_KIND]


def with_changes(present: Topology, changes: list[ObjectChange]) -> Topology:
    """The present with changes that were validated before."""
    editor = TopologyEditor(present)
    editor.replay({one.key: one.after for one in changes})
    return editor.topology


def carried_over(
    before: Topology, candidate: Topology, after: Topology, vhost: str
) -> tuple[Topology, tuple[ObjectKey, ...]]:
    """The candidate of `before` as one of `after`, and the objects that both have changed, otherwise than each other.

    Of these the candidate keeps its own. What the present has deleted is no part of the candidate any more, and
    neither is what led from it or to it.
    """
    kept: list[ObjectChange] = []
    conflicts: list[ObjectKey] = []
    for one in changes_of(before, candidate, vhost):
        present = after.get(one.key)
        if isinstance(one.before, Queue) and isinstance(present, Queue) and present.id != one.before.id:
            continue  # deleted and declared again: another queue
        if present == one.after or (present is None and one.before is not None):
            continue
        if present != one.before:
            conflicts.append(one.key)
        kept.append(one)
    found = with_changes(after, kept)
    editor = TopologyEditor(found)
    links: list[Binding | Divert] = [*found.bindings.values(), *found.diverts.values()]
    for item in links:
        if item.vhost == vhost and not _is_whole(found, after, item):
            editor.replay({object_key(item): None})
    return editor.topology, tuple(conflicts)


def _is_whole(topology: Topology, present: Topology, item: Binding | Divert) -> bool:
    """Whether both ends of a binding or divert are there, and no binding of the present says the same."""
    ends = [("exchange", item.source), (item.destination_type, item.destination)]
    if any((item.vhost, name) not in getattr(topology, f"{kind}s") for kind, name in ends):
        return False
    if isinstance(item, Binding):
        same = present.find_binding(item)
        return same is None or same.id == item.id or same.id not in topology.bindings
    return True
