"""Canaries of a data directory: begun, changed, promoted, rolled back, and how they do.

Each is one change of the topology, whole or not at all, and can be repeated when its answer was lost: it says what is
so already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from bindery.router.canary import (
    PROMOTED,
    ROLLED_BACK,
    Canary,
    canary_of,
    checked_filter,
    checked_share,
    running_canary,
)
from bindery.router.declarations import TopologyEditor
from bindery.router.errors import InUse, InvalidInput, NotFound
from bindery.router.model import Binding, Divert, Object, Queue, Topology, object_key
from bindery.router.model.objects import CANARY_KIND
from bindery.router.proposal import Change, propose
from bindery.router.spelling import did_you_mean, nearest
from bindery.store.candidates import changes_of
from bindery.store.comparison import as_page
from bindery.store.plans import planned
from bindery.store.topology import Edit, TopologyStore
from bindery.store.totals import Totals

#: What a request may say.
KEYS: Final = ("change", "version", "share", "filter", "dialect", "deliver")
_OWN: Final = ("share", "filter", "deliver")
#: Queues of a comparison that are listed, those that differ most first.
SHOWN: Final = 1_000


@dataclass(frozen=True, slots=True)
class Request:
    """What a canary is to be.

    change    a document of definitions or of a change (`bindery.router.proposal`), as read from files or as JSON
    version   the version of the topology whose state of the vhost is tried
    share, filter, dialect, deliver   as in `Canary`; None: as it is, or by default

    Without `change` and `version` the canary that runs is changed.
    """

    change: Change | Mapping[str, Any] | None = None
    version: int | None = None
    share: float | None = None
    filter: object = None
    dialect: str | None = None
    deliver: bool | None = None

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> Request:
        """A request as JSON states it. Raises InvalidInput for unknown keys and values that are none."""
        for name in stated:
            if name not in KEYS:
                near = nearest(name, KEYS)
                raise InvalidInput(
                    f"unknown key {name!r}", where=name, hint=did_you_mean(near, then="keys: " + ", ".join(KEYS))
                )
        version, deliver, dialect = (stated.get(name) for name in ("version", "deliver", "dialect"))
        if version is not None and (isinstance(version, bool) or not isinstance(version, int) or version < 0):
            raise InvalidInput(f"version is {version!r}", where="version", hint="the number of a topology version")
        if deliver is not None and not isinstance(deliver, bool):
            raise InvalidInput(f"deliver is {deliver!r}", where="deliver", hint="true or false")
        if dialect is not None and not isinstance(dialect, str):
            raise InvalidInput(f"dialect is {dialect!r}", where="dialect", hint="a text: jms, amqp-sql …")
        if "change" in stated and not isinstance(stated["change"], Mapping):
            raise InvalidInput("change is a document: definitions, or a change", where="change")
        found = cls(stated.get("change"), version, stated.get("share"), stated.get("filter"), dialect, deliver)
        found.check()
        return found

    def check(self) -> None:
        """Raise InvalidInput, and FilterError, for what no canary can be."""
        if self.change is not None and self.version is not None:
            raise InvalidInput("a change and a version exclude each other", where="version", hint="state one of them")
        if self.share is not None:
            checked_share(self.share)
        checked_filter(self.filter, self.dialect)
        if self.is_new and self.share is None and self.filter is None:
            raise InvalidInput(
                "which messages?", where="share", hint='a share ("share": 0.05), a filter, or both; all: a share of 1'
            )
        if not self.is_new and all(getattr(self, name) is None for name in _OWN):
            raise InvalidInput("nothing to try", where="change", hint="state a change, or the version to try")

    @property
    def is_new(self) -> bool:
        """Whether it says what is tried."""
        return self.change is not None or self.version is not None

    def upon(self, canary: Canary) -> Canary:
        """A canary with what the request says of its messages."""
        stated: dict[str, Any] = {}
        if self.share is not None:
            stated["share"] = checked_share(self.share)
        if self.filter is not None:
            stated["filter"], stated["dialect"] = checked_filter(self.filter, self.dialect)
        if self.deliver is not None:
            stated["deliver"] = self.deliver
        return replace(canary, **stated)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a call: the canary, the version of the topology that says so, and whether this call made it."""

    canary: Canary
    version: int
    changed: bool

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {"topology_version": self.version, "changed": self.changed, "canary": self.canary.as_data()}


def put(store: TopologyStore, vhost: str, request: Request, *, author: str) -> Outcome:
    """Begin a canary, or change the one that runs; the same request again changes nothing.

    A candidate other than that of a canary that runs takes its place, and is compared anew.
    Raises NotFound, InvalidInput, and what a change raises that cannot be applied.
    """
    request.check()
    candidates: dict[str, Topology] = {}
    found: list[Canary | None] = []

    def change(editor: TopologyEditor) -> None:
        candidates.clear()
        present = replace(editor.topology)
        present.vhost(vhost)
        found.append(canary_of(present, vhost))
        running = running_canary(present, vhost)
        if not request.is_new:
            if running is None:
                raise _none_runs(vhost)
            _store(editor, request.upon(running))
            return
        candidate = _candidate(store, present, vhost, request)
        if (
            running is not None
            and not running.conflicts
            and _alike(candidate, store.load(version=running.version), vhost)
        ):
            fresh = Canary(vhost, running.version, running.started, by=running.by, since=running.since)
            _store(editor, request.upon(replace(fresh, queues=running.queues)))
            return
        new = [key for key in candidate.queues if key not in present.queues]
        added: list[Object] = [candidate.queues[key] for key in new]
        editor.replay({object_key(item): item for item in [*added, candidate.sequence]})
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        names = {name for _, name in new} | set(() if running is None else running.queues)
        fresh = Canary(vhost, -1, -1, by=author, since=moment, queues=tuple(sorted(names)))
        _store(editor, request.upon(fresh))
        candidates[vhost] = candidate

    edit = store.edit(change, author=author, reason=f"canary in vhost {vhost!r}", candidates=candidates)
    return _outcome(edit, vhost, found[-1])


def promote(store: TopologyStore, vhost: str, *, author: str, version: int | None = None) -> Outcome:
    """Make the candidate the topology of the vhost, for every message.

    With `version` only if that is the candidate. Raises NotFound where none was begun, InUse for another candidate, and
    where the present has changed the same objects.
    """
    found: list[Canary | None] = []

    def change(editor: TopologyEditor) -> None:
        canary = _ending(editor.topology, vhost, PROMOTED, version)
        found.append(canary)
        if canary.state == PROMOTED:
            return
        if canary.conflicts:
            named = ", ".join(f"{kind} {name!r}" for kind, _, name in canary.conflicts[:5])
            more = f" and {len(canary.conflicts) - 5} more" if len(canary.conflicts) > 5 else ""
            raise InUse(
                f"the topology has changed otherwise since what the canary changes: {named}{more}",
                where=f"canary of vhost {vhost!r}",
                hint="nothing was promoted: begin the canary again with a change that says what is meant now",
            )
        candidate = store.load(version=canary.version)
        editor.replay({one.key: one.after for one in changes_of(replace(editor.topology), candidate, vhost)})
        _store(editor, replace(canary, state=PROMOTED, ended=_now()))

    edit = store.edit(change, author=author, reason=f"promoted the canary in vhost {vhost!r}")
    return _outcome(edit, vhost, found[-1])


def roll_back(store: TopologyStore, vhost: str, *, author: str, version: int | None = None) -> Outcome:
    """End the canary: every message goes by the present topology again.

    Queues that were declared for it stay, with their messages. Raises as `promote` does.
    """
    found: list[Canary | None] = []

    def change(editor: TopologyEditor) -> None:
        canary = _ending(editor.topology, vhost, ROLLED_BACK, version)
        found.append(canary)
        if canary.state != ROLLED_BACK:
            _store(editor, replace(canary, state=ROLLED_BACK, ended=_now()))

    edit = store.edit(change, author=author, reason=f"rolled back the canary in vhost {vhost!r}")
    return _outcome(edit, vhost, found[-1])


def status(store: TopologyStore, totals: Totals, vhost: str) -> dict[str, Any]:
    """The canary of a vhost, running or ended, its change and its comparison so far, as JSON-ready data.

    Raises NotFound where none was ever begun.
    """
    topology = store.load()
    topology.vhost(vhost)
    canary = canary_of(topology, vhost)
    if canary is None:
        raise _none_begun(vhost)
    changes: dict[str, Any] = {}
    if canary.is_running:
        changes = as_page(changes_of(topology, store.load(version=canary.version), vhost), limit=SHOWN)
    return {
        "topology_version": topology.version,
        "canary": canary.as_data(),
        "change": changes,
        "comparison": comparison(totals, canary),
    }


def comparison(totals: Totals, canary: Canary) -> dict[str, Any]:
    """What the streams have counted for a canary, as JSON-ready data."""
    counted = {
        (what, name): number
        for (vhost, started, what, name), number in totals.canary.items()
        if (vhost, started) == (canary.vhost, canary.started)
    }
    named = {name for what, name in counted if what in ("gained", "lost")}
    queues = []
    for name in sorted(named, key=lambda one: (-_moved(counted, one), one)):
        entry: dict[str, Any] = {"queue": name}
        for what in ("gained", "lost"):
            entry[what] = counted.get((what, name), 0)
            entry[f"{what}_example"] = totals.canary_examples.get((canary.vhost, canary.started, what, name))
        queues.append(entry)
    messages, differing = (counted.get((what, ""), 0) for what in ("messages", "differing"))
    unroutable = {
        side: {name: number for (what, name), number in sorted(counted.items()) if what == side}
        for side in ("before", "after")
    }
    return {
        "messages": messages,
        "equal": messages - differing,
        "differing": differing,
        "unroutable": unroutable,
        "queues": queues[:SHOWN],
        "queues_total": len(queues),
    }


def _moved(counted: Mapping[tuple[str, str], int], queue: str) -> int:
    return counted.get(("gained", queue), 0) + counted.get(("lost", queue), 0)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _store(editor: TopologyEditor, canary: Canary) -> None:
    editor.replay({canary.key: canary.as_setting()})


def _outcome(edit: Edit[None], vhost: str, before: Canary | None) -> Outcome:
    canary = canary_of(edit.topology, vhost)
    assert canary is not None  # noqa: S101  # what did not raise has left one
    return Outcome(canary, edit.version, canary != before)


def _none_begun(vhost: str) -> NotFound:
    return NotFound(f"no canary was begun in vhost {vhost!r}", where="canary", hint="bindery canary start")


def _none_runs(vhost: str) -> NotFound:
    return NotFound(
        f"no canary runs in vhost {vhost!r}", where="canary", hint="state a change or a version to begin one"
    )


def _ending(topology: Topology, vhost: str, wanted: str, version: int | None) -> Canary:
    """The canary that is to end, or has ended as is wanted."""
    topology.vhost(vhost)
    canary = canary_of(topology, vhost)
    if canary is None:
        raise _none_begun(vhost)
    if not canary.is_running and canary.state != wanted:
        hint = "bindery topology rollback goes back to a version before" if canary.state == PROMOTED else None
        raise NotFound(f"the canary in vhost {vhost!r} was {canary.state} {canary.ended}", where="canary", hint=hint)
    if version is not None and version != canary.version:
        raise InUse(
            f"the candidate in vhost {vhost!r} is version {canary.version}, not {version}",
            where="version",
            hint="look at its status again; nothing was changed",
        )
    return canary


def _candidate(store: TopologyStore, present: Topology, vhost: str, request: Request) -> Topology:
    """What is to be tried, and on what it stands. Raises InvalidInput for what no canary can try."""
    if request.version is not None:
        candidate = _state_of(present, store.load(version=request.version), vhost)
    elif isinstance(request.change, Change):
        editor = TopologyEditor(present)
        made = planned(editor, request.change)
        for where, name in made.emptied:
            raise _no_deletion(where, name)
        candidate = editor.topology
    else:
        candidate = propose(present, vhost, request.change)
    if vhost not in candidate.vhosts:
        raise InvalidInput(f"a canary deletes no vhost: {vhost!r}", where="change")
    for key, item in candidate.queues.items():
        if key in present.queues and present.queues[key].id != item.id:
            raise _no_deletion(*key)
    for name in (name for where, name in present.queues if (where, name) not in candidate.queues):
        raise _no_deletion(vhost, name)
    elsewhere = TopologyEditor(present)
    changes = changes_of(present, candidate, vhost)
    elsewhere.replay({one.key: one.after for one in changes if one.key[0] != "vhost"})
    others = [key for key in _keys(candidate) if candidate.get(key) != elsewhere.topology.get(key)]
    others += [key for key in _keys(present) if candidate.get(key) is None and key[1] != vhost]
    for kind, where, name in others:
        raise InvalidInput(
            f"a canary changes exchanges, queues, bindings, diverts, policies and parameters of vhost {vhost!r}, "
            f"and this is {kind} {name or where!r}" + (f" of vhost {where!r}" if name and where else ""),
            where="change",
            hint="make that change by itself, for every message",
        )
    if not changes:
        raise InvalidInput("the change changes nothing: there is nothing to compare", where="change")
    return candidate


def _keys(topology: Topology) -> list[tuple[str, str, str]]:
    return [key for key in map(object_key, topology.objects()) if key[0] not in ("sequence", CANARY_KIND)]


def _no_deletion(vhost: str, name: str) -> InvalidInput:
    return InvalidInput(
        f"a canary deletes no queue, and declares none anew: {name!r} of vhost {vhost!r}",
        where="change",
        hint="take its bindings away in the canary, and delete the queue after the promotion",
    )


def _state_of(present: Topology, older: Topology, vhost: str) -> Topology:
    """The present with a vhost as it was; queues that have come since stay, and those that are there keep their ids."""
    older.vhost(vhost)
    editor = TopologyEditor(present)
    for one in changes_of(present, older, vhost):
        item = one.after
        if one.key[0] == "vhost" or (isinstance(one.before, Queue) and item is None):
            continue
        if isinstance(one.before, Queue) and isinstance(item, Queue):
            item = replace(item, id=one.before.id)
        editor.replay({one.key: item})
    editor.give_queue_ids()
    return editor.topology


def _alike(first: Topology, second: Topology, vhost: str) -> bool:
    """Whether two topologies state the same in a vhost, whatever ids their bindings, diverts and queues have."""
    return _stated(first, vhost) == _stated(second, vhost)


def _stated(topology: Topology, vhost: str) -> dict[object, object]:
    found: dict[object, object] = {}
    for item in topology.objects():
        key = object_key(item)
        if key[1] != vhost or key[0] == CANARY_KIND:
            continue
        if isinstance(item, Binding):
            found[item.identity] = None
        else:
            found[key] = replace(item, id=0) if isinstance(item, Divert | Queue) else item
    return found
