"""A change of a topology as documents state it: made, or only tried.

A document is a definitions document, whose objects are declared over what exists (objects that exist get the
properties given), or an object with any of

    {"delete": {"bindings": [3], "queues": ["q"], …}, "add": {…}, "change": {…}, "definitions": {…}, "replace": false}

What is under `delete` goes first. `add`, `change` and `definitions` are definitions documents; what is under `add` must
not be there yet, what is under `change` must. With `replace`, what the definitions do not name goes too, in the vhosts
that they name. Kinds of `delete`, each a list of names, or of objects that state the vhost too:

    exchanges, queues, diverts, policies, operator_policies, limits, vhosts, global_parameters
    parameters      objects with `component` and `name`
    bindings        ids, or objects with `source`, `destination` and what else a binding has
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.router.arguments import decode_arguments
from bindery.router.declarations import TopologyEditor
from bindery.router.definitions import Definitions, Report, apply, parse_definitions, protection_key, read_definitions
from bindery.router.definitions.document import Entry
from bindery.router.definitions.keys import unknown_key
from bindery.router.documents import Source
from bindery.router.errors import BinderyError, InUse, InvalidInput, NotFound
from bindery.router.limits import LIMITS_KIND, LIMITS_NAME, limits_of
from bindery.router.model import (
    Binding,
    Divert,
    Exchange,
    Object,
    ObjectKey,
    Queue,
    Setting,
    Topology,
    Vhost,
    object_key,
)
from bindery.router.model.objects import CANARY_KIND, GLOBAL_PARAMETER, PARAMETER_PREFIX, RESERVED_PREFIX
from bindery.router.policies import OPERATOR_POLICY, POLICY
from bindery.router.values import Table

_ADD: Final = "add"
_CHANGE: Final = "change"
#: Keys of a change under which definitions documents stand.
DEFINITIONS_KEYS: Final = ("definitions", _ADD, _CHANGE)
_KEYS: Final = frozenset({"delete", *DEFINITIONS_KEYS, "replace"})
#: What can be deleted, in the order in which it is -> the kind of its keys.
_KINDS: Final[Mapping[str, str]] = {
    "bindings": "binding",
    "diverts": "divert",
    "queues": "queue",
    "exchanges": "exchange",
    "policies": POLICY,
    "operator_policies": OPERATOR_POLICY,
    "limits": "limit",
    "parameters": PARAMETER_PREFIX,
    "global_parameters": GLOBAL_PARAMETER,
    "vhosts": "vhost",
}
_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "bindings": frozenset({"vhost", "source", "destination", "destination_type", "routing_key", "arguments"}),
    "parameters": frozenset({"vhost", "component", "name"}),
    "global_parameters": frozenset({"name"}),
    "vhosts": frozenset({"name"}),
}
_NAMED: Final = frozenset({"vhost", "name"})


@dataclass(frozen=True, slots=True)
class _Deletion:
    """What is to go: its key (of a binding its id, or itself), and where that is said."""

    path: str
    target: ObjectKey | Binding
    source: Source | None


@dataclass(slots=True)
class Change:
    """What documents ask for; `problems` refuse it, `ignored` says what of them has no effect, and why.

    `emptied` are the vhosts from which goes what the definitions do not name. `expected` has the entries that must not
    be there before, under `add`, or must, under `change`.
    """

    definitions: Definitions
    deletions: list[_Deletion] = field(default_factory=list)
    emptied: set[str] = field(default_factory=set)
    expected: list[tuple[str, Entry]] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    ignored: list[dict[str, Any]] = field(default_factory=list)

    def take(self, section: str, definitions: Definitions) -> None:
        """Take in the definitions that stand under a key; of a document that is nothing but definitions, ""."""
        self.definitions = Definitions(tuple(sorted((*self.definitions.entries, *definitions.entries), key=_rank)))
        if section in (_ADD, _CHANGE):
            self.expected += [(section, entry) for entry in definitions.entries]

    def carry_out(self, editor: TopologyEditor) -> Report:
        """Make the change through an editor, which is to be thrown away when it is refused.

        Raises DefinitionsRefused, with everything that is wrong, for documents of files. For others a deletion that
        is refused raises its own error.
        """
        problems = list(self.problems)
        found: list[tuple[_Deletion, Object]] = []
        for deletion in self.deletions:
            with _noted(deletion, problems):
                found.append((deletion, _resolved(editor.topology, deletion)))
        for deletion, item in found:
            with _noted(deletion, problems):
                _remove(editor, item, deletion.target)
        for section, entry in self.expected:
            with _noted(entry, problems):
                _check_expected(editor.topology, section, entry)
        for vhost in sorted(self.emptied & editor.topology.vhosts.keys()):
            _prune(editor, vhost, self.definitions.entries)
        return apply(self.definitions, editor, overwrite=True, problems=problems)

    def applied_to(self, base: Topology) -> Topology:
        """The topology after the change; its version stays that of the base. Raises as `carry_out` does."""
        editor = TopologyEditor(base)
        self.carry_out(editor)
        editor.topology.version = base.version
        return editor.topology


def propose(base: Topology, vhost: str, proposal: Any) -> Topology:
    """The topology after a change that came as parsed JSON; unknown keys of definitions are ignored.

    Raises InvalidInput for a document that cannot be read, DefinitionsRefused for one that cannot be applied.
    """
    base.vhost(vhost)
    if not isinstance(proposal, Mapping):
        raise InvalidInput("a proposal is a JSON object", where="proposal")
    stated = proposal if is_change(proposal) else {"definitions": proposal}
    for error in _misshapen(stated):
        raise InvalidInput(error.message, where=f"proposal.{error.where}".removesuffix("."), hint=error.hint)
    change = Change(Definitions(()))
    for section in DEFINITIONS_KEYS:
        change.take(section, parse_definitions(stated.get(section) or {}, default_vhost=vhost))
    change.deletions = [_deletion(kind, raw, path, vhost, None) for kind, path, raw in _deletions(stated)]
    if stated.get("replace") is True:
        change.emptied = _named(change.definitions.entries) or {vhost}
    return change.applied_to(base)


def is_change(document: Mapping[str, Any]) -> bool:
    """Whether a document states more than definitions."""
    return bool(document.keys() & _KEYS)


def read_change(sources: Sequence[Source], vhost: str, *, prune: bool = False, replace: bool = False) -> Change:
    """The change that some documents state together; `vhost` is that of objects of documents that state none.

    With `prune` goes what the definitions do not name, in the vhosts that they name; `replace` empties `vhost`
    too where they name none.
    """
    change = Change(Definitions(()))
    for source in sources:
        stated, sections = source.value, [""]
        empties = replace
        if is_change(stated):
            sections = [section for section in DEFINITIONS_KEYS if isinstance(stated.get(section), Mapping)]
            for error in _misshapen(stated):
                change.problems.append(source.problem(error, error.where or "", key=error.where not in _KEYS))
            for kind, path, raw in _deletions(stated):
                try:
                    change.deletions.append(_deletion(kind, raw, path, vhost, source))
                except InvalidInput as error:
                    change.problems.append(source.problem(error, error.where or path, key=error.where != path))
            empties = replace or stated.get("replace") is True
        for section in sections:
            definitions, problems, ignored = read_definitions(source, default_vhost=vhost, inside=section)
            change.take(section, definitions)
            change.problems += problems
            change.ignored += ignored
            if prune or empties:
                change.emptied |= _named(definitions.entries)
        if empties and not _named(change.definitions.entries):
            change.emptied.add(vhost)
    return change


_RANKS: Final = (Vhost, Setting, Exchange, Queue, Binding, Divert)


def _rank(entry: Entry) -> int:
    """The order in which the objects of several documents are declared: that of the sections of one."""
    if isinstance(entry.item, Setting) and entry.item.kind != GLOBAL_PARAMETER:
        return len(_RANKS)
    return _RANKS.index(type(entry.item))


def _named(entries: Iterable[Entry]) -> set[str]:
    """The vhosts that definitions name."""
    return {object_key(entry.item)[1] for entry in entries} - {""}


def _misshapen(stated: Mapping[str, Any]) -> Iterator[InvalidInput]:
    """What is wrong with the form of a change document; `where` is the path."""
    for key in stated.keys() - _KEYS:
        unknown = unknown_key(key, key, _KEYS)
        yield InvalidInput(unknown.message, where=key, hint=f"{unknown.hint}; objects stand under 'definitions'")
    if not isinstance(stated.get("replace", False), bool):
        yield InvalidInput("replace is true or false", where="replace")
    for section in DEFINITIONS_KEYS:
        if not isinstance(stated.get(section) or {}, Mapping):
            yield InvalidInput("a definitions document is a JSON object", where=section)
    delete = stated.get("delete") or {}
    if not isinstance(delete, Mapping):
        yield InvalidInput("delete is an object of lists", where="delete", hint=", ".join(_KINDS))
        return
    for kind, listed in delete.items():
        if kind not in _KINDS:
            unknown = unknown_key(f"delete.{kind}", kind, frozenset(_KINDS))
            yield InvalidInput(unknown.message, where=unknown.path, hint=unknown.hint)
        elif not isinstance(listed, list):
            yield InvalidInput("expected an array", where=f"delete.{kind}")


def _deletions(stated: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Kind, path and statement of everything that is to go, in the order in which it does."""
    delete = stated.get("delete") or {}
    for kind in _KINDS if isinstance(delete, Mapping) else ():
        listed = delete.get(kind)
        for number, raw in enumerate(listed if isinstance(listed, list) else ()):
            yield kind, f"delete.{kind}[{number}]", raw


def _deletion(kind: str, raw: Any, path: str, vhost: str, source: Source | None) -> _Deletion:
    """Read what is to go; raises InvalidInput naming the path."""
    if kind == "bindings" and isinstance(raw, int) and not isinstance(raw, bool):
        return _Deletion(path, ("binding", vhost, str(raw)), source)
    if isinstance(raw, str) and kind not in ("bindings", "parameters"):
        raw = {"name": raw}
    if not isinstance(raw, Mapping):
        said = "an id or an object" if kind == "bindings" else "an object" if kind == "parameters" else "a name"
        raise InvalidInput(f"expected {said}", where=path, hint="write a name in quotes")
    members = _MEMBERS.get(kind, _NAMED)
    for key, value in raw.items():
        if key not in members:
            unknown = unknown_key(f"{path}.{key}", key, members)
            raise InvalidInput(unknown.message, where=unknown.path, hint=unknown.hint)
        if key != "arguments" and not isinstance(value, str):
            raise InvalidInput(f"{key} is no string", where=f"{path}.{key}", hint="write it in quotes")
    for key in {"source", "destination"} if kind == "bindings" else members - {"vhost"}:
        if key not in raw:
            raise InvalidInput(f"{key} is missing", where=path)
    there = raw.get("vhost", vhost)
    if kind == "bindings":
        if raw.get("destination_type", "queue") not in ("queue", "exchange"):
            raise InvalidInput("destination_type is queue or exchange", where=f"{path}.destination_type")
        arguments = decode_arguments(raw.get("arguments") or {}, where=f"{path}.arguments")
        ends = (raw["source"], raw["destination"], raw.get("destination_type", "queue"), raw.get("routing_key", ""))
        return _Deletion(path, Binding(0, there, *ends, arguments), source)
    if kind == "vhosts":
        return _Deletion(path, ("vhost", raw["name"], ""), source)
    if kind == "parameters":
        return _Deletion(path, (PARAMETER_PREFIX + raw["component"], there, raw["name"]), source)
    return _Deletion(path, (_KINDS[kind], "" if kind == "global_parameters" else there, raw["name"]), source)


@contextmanager
def _noted(stated: _Deletion | Entry, problems: list[dict[str, Any]]) -> Iterator[None]:
    """Notes an error as a problem of a document that was read from a file; of others it passes."""
    try:
        yield
    except BinderyError as error:
        if stated.source is None:
            raise
        problems.append(stated.source.problem(error, stated.path))


def _check_expected(topology: Topology, section: str, entry: Entry) -> None:
    """Raise InvalidInput for an object to add that is there, NotFound for one to change that is not."""
    item, where = entry.item, f"proposal.{section}.{entry.path}"
    kind, vhost, name = object_key(item)
    if isinstance(item, Binding):
        if section == _CHANGE:
            said = "a binding cannot be changed: it is told by all that it states"
            raise InvalidInput(said, where=where, hint="delete it, and add another")
        is_there = topology.find_binding(item) is not None
        named = f"the binding of {item.source!r} to {item.destination!r}"
    else:
        found = topology.get((kind, vhost, name))
        is_there = found is not None and object_key(found) == (kind, vhost, name)
        named = f"{kind} {name or vhost!r}"
    if section == _ADD and is_there:
        raise InvalidInput(f"{named} is there already", where=where, hint="state it under change or definitions")
    if section == _CHANGE and not is_there:
        raise NotFound(f"{named} is not there", where=where, hint="state it under add or definitions")


def _resolved(topology: Topology, deletion: _Deletion) -> Object:
    """The object that is to go; raises NotFound."""
    target = deletion.target
    where = f"proposal.{deletion.path.partition('[')[0]}"
    if isinstance(target, Binding):
        topology.vhost(target.vhost)
        binding = topology.find_binding(target)
        if binding is None:
            between = [
                repr(one.routing_key)
                for one in topology.bindings_from(target.vhost, target.source)
                if (one.destination_type, one.destination) == (target.destination_type, target.destination)
            ]
            hint = f"keys of bindings between the two: {', '.join(between[:5])}" if between else None
            said = f"no such binding of {target.source!r} to {target.destination_type} {target.destination!r}"
            raise NotFound(f"{said} in vhost {target.vhost!r}", where=where, hint=hint)
        return binding
    kind, vhost, name = target
    if kind == "limit":
        limits = topology.settings.get((LIMITS_KIND, topology.vhost(vhost).name, LIMITS_NAME))
        if limits is not None and name in limits_of(limits):
            return limits
    elif kind == "vhost":
        return topology.vhost(vhost)
    elif kind == "exchange":
        return topology.exchange(vhost, name)
    elif (item := topology.get(target)) is not None and object_key(item) == target:
        return item
    what = f"with id {name}" if kind == "binding" else repr(name)
    raise NotFound(f"no {kind} {what}" + (f" in vhost {vhost!r}" if vhost else ""), where=where)


def _remove(editor: TopologyEditor, item: Object, target: ObjectKey | Binding) -> None:
    """Delete an object that was there, unless it has gone with another."""
    topology = editor.topology
    if topology.get(object_key(item)) is None:
        return
    match item:
        case Binding():
            editor.unbind(item)
        case Divert():
            editor.delete_divert(item.vhost, item.name)
        case Queue():
            editor.delete_queue(item.vhost, item.name)
        case Exchange():
            editor.delete_exchange(item.vhost, item.name)
        case Vhost():
            if protection_key(item.name) in topology.settings:
                raise InUse(f"vhost {item.name!r} is protected from deletion", hint="delete its protection too")
            editor.delete_vhost(item.name)
        case Setting() if not isinstance(target, Binding) and target[0] == "limit":
            kept = {
                key: value for key, value in limits_of(topology.settings[object_key(item)]).items() if key != target[2]
            }
            editor.put_setting(Setting(item.kind, item.vhost, item.name, Table(kept)))
        case Setting():
            editor.delete_setting(*object_key(item))


def _prune(editor: TopologyEditor, vhost: str, entries: Iterable[Entry]) -> None:
    """Delete what the entries do not name; what every vhost has stays, and what protects it from deletion."""
    stated: set[object] = set()
    for entry in entries:
        stated.add(entry.item.identity if isinstance(entry.item, Binding) else object_key(entry.item))
    exchanges, queues, bindings, diverts = editor.topology.in_vhost(vhost)
    settings = [item for item in editor.topology.settings.values() if item.vhost == vhost and item.kind != CANARY_KIND]
    items: tuple[Object, ...] = (*bindings, *diverts, *queues, *exchanges, *settings)
    for item in items:
        key = item.identity if isinstance(item, Binding) else object_key(item)
        if isinstance(item, Exchange) and (item.name == "" or item.name.startswith(RESERVED_PREFIX)):
            continue
        if key not in stated and key != protection_key(vhost):
            _remove(editor, item, object_key(item))
