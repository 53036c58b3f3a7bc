"""Differences between states of the topology as data: counts, and the changes of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bindery.router.declarations import TopologyEditor
from bindery.router.definitions import Definitions, Report, apply, protection_key
from bindery.router.model import Binding, ObjectKey, Topology, Vhost, object_key
from bindery.store.history import ObjectChange, changes_between


@dataclass(frozen=True, slots=True)
class Proposed:
    """What importing a document, with overwriting, would do to a topology.

    `absent` are the objects that the topology has, in vhosts that the document is about, and the document
    has not: an import leaves them.
    """

    changes: Sequence[ObjectChange]
    absent: Sequence[ObjectKey]
    report: Report


def counts_of(changes: Iterable[ObjectChange]) -> dict[str, dict[str, int]]:
    """Numbers of changes: {"created": {"queue": 2}, …}."""
    counts: dict[str, dict[str, int]] = {}
    for one in changes:
        kinds = counts.setdefault(one.change, {})
        kinds[one.key[0]] = kinds.get(one.key[0], 0) + 1
    return counts


def as_page(changes: Sequence[ObjectChange], *, offset: int = 0, limit: int) -> dict[str, Any]:
    """JSON-ready data: totals over all changes, and those of one page in full."""
    return {
        "total": len(changes),
        "counts": counts_of(changes),
        "offset": offset,
        "changes": [one.as_data() for one in changes[offset : offset + limit]],
    }


def proposed_changes(topology: Topology, document: Definitions) -> Proposed:
    """Compare a definitions document with a topology; raises DefinitionsRefused when it cannot be applied."""
    editor = TopologyEditor(topology)
    report = apply(document, editor, overwrite=True, skip_dangling=True)
    after = editor.topology
    absent = absent_objects(after, document)
    return Proposed(changes_between(topology, after), absent, report)


def absent_objects(topology: Topology, document: Definitions) -> list[ObjectKey]:
    """What a topology has, in the vhosts that a document names, and the document has not, in a stable order."""
    stated: set[ObjectKey] = set()
    vhosts: set[str] = set()
    for entry in document.entries:
        item = entry.item
        present = topology.find_binding(item) if isinstance(item, Binding) else item
        if present is not None:
            stated.add(object_key(present))
        vhosts.add(item.name if isinstance(item, Vhost) else getattr(item, "vhost", ""))
    return sorted(
        key
        for key in map(object_key, topology.objects())
        if key[0] not in ("vhost", "sequence") and key[1] in vhosts and key not in stated
    )


def protected_vhosts(present: Topology, changes: Iterable[ObjectChange]) -> list[str]:
    """Vhosts that the changes would delete although they are protected from it."""
    gone = (one.key[1] for one in changes if one.key[0] == "vhost" and one.after is None)
    return [vhost for vhost in gone if protection_key(vhost) in present.settings]
