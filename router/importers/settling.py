"""From objects of a source to definitions that can be applied: what the rules here refuse is left out, and said.

What depends on something that is left out goes with it, such as the bindings of an exchange of an unknown type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bindery.router.declarations import TopologyEditor
from bindery.router.definitions import Definitions, apply, parse_every
from bindery.router.definitions.document import Entry
from bindery.router.definitions.keys import Ignored, check_arguments
from bindery.router.errors import DefinitionsRefused
from bindery.router.importers.objects import Outcome, SourceObject
from bindery.router.known_arguments import KNOWN, Kind, concerns_storage, without_effect
from bindery.router.message import Message
from bindery.router.model import (
    DEFAULT_VHOST,
    Binding,
    Divert,
    Exchange,
    ObjectKey,
    Queue,
    Setting,
    Topology,
    Vhost,
    object_key,
)
from bindery.router.policies import OPERATOR_POLICY, POLICY
from bindery.router.reference import NaiveRouter

_ENTRY: Final = re.compile(r"[\w-]+\[\d+\]")
#: Where a mode stands that is stated with the import.
_MODE: Final = "--compat"
#: Sections that nothing is read from when everything goes to one vhost.
_OF_CLUSTER: Final = frozenset({"vhosts", "global_parameters"})


@dataclass(frozen=True, slots=True)
class Settled:
    """Definitions that can be applied to `base`, the topology that they make, and what becomes of each object.

    `owners` names the object of the source that each path of the definitions comes from.
    """

    definitions: Definitions
    topology: Topology
    objects: tuple[SourceObject, ...]
    owners: Mapping[str, SourceObject]
    vhost: str | None

    @property
    def faithful(self) -> bool:
        """Whether every object is carried over exactly."""
        return all(item.outcome is Outcome.EXACT for item in self.objects)

    def as_data(self) -> list[dict[str, Any]]:
        """Every object with what becomes of it, JSON-ready; messages of examples are routed for it."""
        routers: dict[str, NaiveRouter] = {}
        return [self._object(item, routers) for item in self.objects]

    def _object(self, item: SourceObject, routers: dict[str, NaiveRouter]) -> dict[str, Any]:
        vhost = self.vhost or item.vhost or DEFAULT_VHOST
        notes = []
        for note in item.notes:
            data: dict[str, Any] = {"weight": note.weight.value, "key": note.key, "text": note.text}
            if note.hint is not None:
                data["hint"] = note.hint
            if note.example is not None and vhost in self.topology.vhosts:
                if vhost not in routers:
                    routers[vhost] = NaiveRouter(self.topology, vhost)
                outcome = routers[vhost].route(Message.from_json(note.example.message))
                there, here = sorted(note.example.there), sorted(outcome.queues)
                data["example"] = {"message": dict(note.example.message), "there": there, "here": here}
            notes.append(data)
        shown: dict[str, Any] = {"kind": item.kind, "name": item.name, "place": item.place}
        if item.vhost is not None:
            shown["vhost"] = item.vhost
        return shown | {"outcome": item.outcome.value, "notes": notes}


def settle(
    objects: Sequence[SourceObject], base: Topology, *, vhost: str | None = None, compat: str | None = None
) -> Settled:
    """Definitions of all that can be declared on `base`; with `vhost` everything goes there.

    `compat` is the compatibility mode of every vhost that anything goes to. What is refused is marked on its object
    as left out, in the words of the refusal.
    """
    objects = list(objects)
    if vhost is not None:
        for item in objects:
            if item.declares and all(section in _OF_CLUSTER for section, _ in item.declares):
                item.declares.clear()
                item.idle("", f"everything goes to vhost {vhost!r}")
    while True:
        document, owners = _document(objects)
        definitions, unread = parse_every(document, vhost=vhost, default_vhost=DEFAULT_VHOST)
        if compat is not None:
            definitions = _in_mode(definitions, compat, base, objects, owners)
        editor = TopologyEditor(base)
        errors = [(error.where or "", error.message, error.hint) for error in unread]
        errors += _replaced(definitions, owners)
        try:
            apply(definitions, editor, overwrite=True)
        except DefinitionsRefused as refused:
            errors += [(one["path"], one["message"], one.get("hint")) for one in refused.problems]
        if not errors:
            break
        for path, message, hint in errors:
            found = _ENTRY.match(path)
            if found is None:
                raise AssertionError(f"{path}: {message}")
            owner = owners[found[0]]
            if owner.outcome is not Outcome.LEFT_OUT:
                owner.lost(message, hint=hint)
    for entry in definitions.entries:
        _note_idle(entry, owners[entry.path], editor.topology)
    return Settled(definitions, editor.topology, tuple(objects), owners, vhost)


def _in_mode(
    definitions: Definitions, mode: str, base: Topology, objects: list[SourceObject], owners: dict[str, SourceObject]
) -> Definitions:
    """The definitions with a mode on each of their vhosts, those that the source does not declare as well."""
    declared = [
        replace(entry, item=replace(entry.item, compat=mode)) if isinstance(entry.item, Vhost) else entry
        for entry in definitions.entries
    ]
    known = {entry.item.name for entry in declared if isinstance(entry.item, Vhost)}
    used = {entry.item.vhost for entry in declared if isinstance(entry.item, Exchange | Queue | Binding | Divert)}
    first = []
    for number, name in enumerate(sorted(used - known)):
        owner = next((one for one in objects if one.place == _MODE and one.name == name), None)
        if owner is None:
            owner = SourceObject("vhost", name, _MODE, name)
            objects.append(owner)
        if owner.outcome is not Outcome.LEFT_OUT and name in base.vhosts:
            path = f"{_MODE}[{number}]"
            owners[path] = owner
            first.append(Entry(path, replace(base.vhosts[name], compat=mode)))
    return replace(definitions, entries=(*first, *declared))


def _replaced(definitions: Definitions, owners: Mapping[str, SourceObject]) -> Iterator[tuple[str, str, str | None]]:
    """The paths of entries that a later one, of another object of the source, says otherwise, with what to say of it.

    Applied as they are the later one would count, and the earlier one would be told of as carried over.
    """
    last: dict[ObjectKey, Entry] = {}
    for entry in definitions.entries:
        if isinstance(entry.item, Binding):
            continue  # its arguments are part of what it is
        before = last.get(key := object_key(entry.item))
        last[key] = entry
        if before is not None and before.item != entry.item and owners[before.path] is not owners[entry.path]:
            place = owners[entry.path].place
            yield before.path, f"it stands in the source again, otherwise: {place}", "keep one of the two"


def _document(objects: Sequence[SourceObject]) -> tuple[dict[str, list[Mapping[str, Any]]], dict[str, SourceObject]]:
    document: dict[str, list[Mapping[str, Any]]] = {}
    owners: dict[str, SourceObject] = {}
    for item in objects:
        for section, declared in item.declares:
            listed = document.setdefault(section, [])
            owners[f"{section}[{len(listed)}]"] = item
            listed.append(declared)
    return document, owners


def _note_idle(entry: Entry, owner: SourceObject, topology: Topology) -> None:
    """What an object keeps that nothing here acts on."""
    for kind, key, name, why in _idle(entry, topology):
        if kind is None or concerns_storage(kind, name):
            owner.idle(key, why)
        elif (kind, name) in KNOWN or kind == "parameter":
            owner.differs(key, why)
        else:
            owner.unknown(key, f"{why}: it is kept and does nothing")


def _idle(entry: Entry, topology: Topology) -> Iterator[tuple[Kind | None, str, str, str]]:
    """The kind, the key in the source, the name and the reason of each."""
    item = entry.item
    if isinstance(item, Binding):
        source = topology.exchanges.get((item.vhost, item.source))
        for found in check_arguments(item, None if source is None else source.type):
            why = found.reason if isinstance(found, Ignored) else f"{found.message}: it is kept and does nothing"
            yield None, found.path, "", why
        return
    kinds: dict[type, tuple[Kind, str]] = {Exchange: ("exchange", "arguments."), Queue: ("queue", "arguments.")}
    kind, prefix = kinds.get(type(item), ("vhost", ""))
    if isinstance(item, Setting):
        kind, prefix = _of_setting(item)
    for name, why in without_effect(item).items():
        yield kind, f"{prefix}{name}", name, why


def _of_setting(item: Setting) -> tuple[Kind, str]:
    if item.kind == POLICY:
        return "policy", "definition."
    if item.kind == OPERATOR_POLICY:
        return "policy", "value.definition."
    return ("limit", "value.") if item.kind.endswith("vhost-limits") else ("parameter", "")
