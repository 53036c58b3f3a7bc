"""Declaring what a document holds, all or nothing, with a report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.router.arguments import encode_arguments
from bindery.router.declarations import TopologyEditor, stored_limits
from bindery.router.definitions.document import Definitions, Entry
from bindery.router.definitions.filters import filter_errors
from bindery.router.definitions.keys import Ignored, check_arguments
from bindery.router.documents import refusal
from bindery.router.errors import BinderyError, DefinitionsRefused, InequivalentArgument, InvalidInput, NotFound
from bindery.router.known_arguments import without_effect
from bindery.router.limits import QueueRoom
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
from bindery.router.model.objects import PARAMETER_PREFIX
from bindery.router.policies import Policies
from bindery.router.values import Table


@dataclass(frozen=True, slots=True)
class Conflict:
    """An object that exists with other properties: property -> (current, given), in JSON forms."""

    path: str
    kind: str
    vhost: str
    name: str
    differences: Mapping[str, tuple[Any, Any]]
    place: Mapping[str, Any] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """The first difference, in words."""
        name, (current, given) = next(iter(self.differences.items()), ("properties", (None, None)))
        return f"{self.kind} {self.name!r} exists with {name} {json.dumps(current)}, given {json.dumps(given)}"

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "path": self.path,
            "kind": self.kind,
            "vhost": self.vhost,
            "name": self.name,
            "message": self.message,
            "differences": {
                name: {"current": current, "given": given} for name, (current, given) in self.differences.items()
            },
        } | dict(self.place)


@dataclass(slots=True)
class Report:
    """What applying a document did, or would do: counts by kind, and what stands against it.

    `without_effect` names, object by object, the arguments and policy keys that are kept and do nothing.
    """

    created: dict[str, int] = field(default_factory=dict)
    updated: dict[str, int] = field(default_factory=dict)
    unchanged: dict[str, int] = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)
    without_effect: list[dict[str, Any]] = field(default_factory=list)

    @property
    def refused(self) -> bool:
        """Whether the document cannot be applied."""
        return bool(self.conflicts or self.errors)

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "created": dict(self.created),
            "updated": dict(self.updated),
            "unchanged": dict(self.unchanged),
            "conflicts": [conflict.as_data() for conflict in self.conflicts],
            "errors": list(self.errors),
            "skipped": list(self.skipped),
            "without_effect": list(self.without_effect),
        }


def apply(
    definitions: Definitions,
    editor: TopologyEditor,
    *,
    overwrite: bool = False,
    skip_dangling: bool = False,
    done: Callable[[int], None] | None = None,
    problems: Sequence[dict[str, Any]] = (),
) -> Report:
    """Declare everything in the document through the editor; gives what was done.

    Raises DefinitionsRefused, with a report of every conflict and error, when an object exists with
    other properties (unless `overwrite`) or a declaration is refused: the editor is then to be thrown
    away, as TopologyStore.edit does. Vhost metadata, policies and parameters are replaced. Nothing is
    deleted. With `skip_dangling` a binding or divert from or to something that does not exist is
    skipped and reported, as RabbitMQ does it. `done` is told the number of each entry as it is reached.
    `problems` are those that reading has found: they refuse the document too. Of entries that were read from
    a file the arguments must be known, and what stands twice must be equal.
    """
    report = _apply(definitions, editor, overwrite, skip_dangling, done)
    if problems:
        # what a part that could not be read would have declared is not found, which says nothing
        found = [error for error in report.errors if error["code"] != NotFound.code]
        report.errors = [*problems, *found]
    if report.refused:
        report.errors.sort(key=_in_files)
        raise _refusal(report)
    return report


def check(
    definitions: Definitions, topology: Topology, *, overwrite: bool = False, skip_dangling: bool = False
) -> Report:
    """What `apply` would report on that topology, refused or not; nothing is changed."""
    return _apply(definitions, TopologyEditor(topology), overwrite, skip_dangling)


def _apply(
    definitions: Definitions,
    editor: TopologyEditor,
    overwrite: bool,
    skip_dangling: bool,
    done: Callable[[int], None] | None = None,
) -> Report:
    report = Report()
    # the limits of the document itself come after its queues, as in the broker
    room = QueueRoom(editor.topology, editor.topology.vhosts)
    for number, entry in enumerate(definitions.entries, start=1):
        if done is not None:
            done(number)
        try:
            _declare(entry.item, editor, overwrite, report, room)
        except InequivalentArgument:
            report.conflicts.append(_conflict(entry, editor.topology))
        except NotFound as error:
            dangling = skip_dangling and isinstance(entry.item, Binding | Divert)
            (report.skipped if dangling else report.errors).append(_problem(entry, error))
            if not dangling:
                report.errors += _filter_problems(entry, editor.topology)
        except BinderyError as error:
            report.errors.append(_problem(entry, error))
        else:
            _note_idle(entry, report)
    _check_files([entry for entry in definitions.entries if entry.source is not None], editor.topology, report)
    return report


def _filter_problems(entry: Entry, topology: Topology) -> Iterator[dict[str, Any]]:
    """What is wrong with the filters of an entry that is refused before anybody looks at them."""
    item = entry.item
    source = topology.exchanges.get((item.vhost, item.source)) if isinstance(item, Binding | Divert) else None
    for _, error in filter_errors(item, stored_limits(topology), source, Policies(topology)):
        yield _problem(entry, error)


def _check_files(entries: Sequence[Entry], topology: Topology, report: Report) -> None:
    """What is asked of files beyond what may be declared: arguments that are known, and nothing said twice."""
    first: dict[ObjectKey, Entry] = {}
    for entry in entries:
        item = entry.item
        if isinstance(item, Exchange | Queue | Binding):
            source = topology.exchanges.get((item.vhost, item.source)) if isinstance(item, Binding) else None
            for found in check_arguments(item, None if source is None else source.type):
                if isinstance(found, Ignored):
                    _note(entry, {found.path.removeprefix("arguments."): found.reason}, report)
                else:
                    error = InvalidInput(found.message, where=found.path, hint=found.hint)
                    report.errors.append(_problem(entry, error, key=True))
        if isinstance(item, Binding) or (isinstance(item, Vhost) and item == Vhost(item.name)):
            continue
        before = first.setdefault(object_key(item), entry)
        if before.item != item and before.source is not None:
            kind, _, name = object_key(item)
            place = before.source.problem(InvalidInput(""), before.path)
            at = "{file}:{line}:{column}".format_map(place)
            error = InvalidInput(
                f"{_said(kind)} {name or getattr(item, 'name', '')!r} stands here otherwise than at {at}"
            )
            report.errors.append(_problem(entry, error))


def _note_idle(entry: Entry, report: Report) -> None:
    names = without_effect(entry.item)
    if names:
        _note(entry, names, report)


def _note(entry: Entry, names: Mapping[str, str], report: Report) -> None:
    kind, vhost, name = object_key(entry.item)
    report.without_effect.append(
        {"path": entry.path, "kind": _said(kind), "vhost": vhost, "name": name, "names": dict(names)}
    )


def _said(kind: str) -> str:
    """A kind of objects as reports call it."""
    return "parameter" if kind.startswith(PARAMETER_PREFIX) else kind


def _declare(item: Object, editor: TopologyEditor, overwrite: bool, report: Report, room: QueueRoom) -> None:
    kind = object_key(item)[0]
    before = editor.topology.get(object_key(item))
    match item:
        case Vhost():
            # an entry without metadata says that the vhost exists, not that its metadata is to go
            if before is None or item not in (before, Vhost(item.name)):
                editor.declare_vhost(item)
        case Exchange():
            editor.declare_exchange(item, overwrite=overwrite)
        case Queue():
            if before is None:
                room.take(item.vhost, item.name)
            editor.declare_queue(item, overwrite=overwrite)
        case Binding():
            created = not _is_implicit(item, editor.topology) and editor.bind(item)[1]
            before = None if created else item
        case Divert():
            editor.declare_divert(item, overwrite=overwrite)
        case Setting():
            if item != before:
                editor.put_setting(item)
    after = item if isinstance(item, Binding) else editor.topology.get(object_key(item))
    counts = report.created if before is None else report.unchanged if before == after else report.updated
    kind = _said(kind)
    counts[kind] = counts.get(kind, 0) + 1


def _is_implicit(binding: Binding, topology: Topology) -> bool:
    """Whether a binding is the default exchange's own to a queue, which exists without being declared."""
    return (
        binding.source == ""
        and binding.destination_type == "queue"
        and binding.routing_key == binding.destination
        and (binding.vhost, binding.destination) in topology.queues
    )


_COMPARED: Final = ("type", "durable", "auto_delete", "internal", "source", "destination", "filter", "exclusive")


def _conflict(entry: Entry, topology: Topology) -> Conflict:
    given = entry.item
    kind, vhost, name = object_key(given)
    current = topology.get((kind, vhost, name))
    differences: dict[str, tuple[Any, Any]] = {}
    for attribute in (*_COMPARED, "routing_key", "transform"):
        old, new = getattr(current, attribute, None), getattr(given, attribute, None)
        if old != new:
            differences[attribute] = (old, new)
    old_arguments = encode_arguments(getattr(current, "arguments", Table()))
    new_arguments = encode_arguments(getattr(given, "arguments", Table()))
    for key in sorted(old_arguments.keys() | new_arguments.keys()):
        if old_arguments.get(key, ...) != new_arguments.get(key, ...):
            differences[f"arguments.{key}"] = (old_arguments.get(key), new_arguments.get(key))
    place: dict[str, Any] = {}
    if entry.source is not None:
        error = InvalidInput("", where=next(iter(differences), None))
        found = entry.source.problem(error, entry.path, *_nearer(entry, error))
        place = {key: found[key] for key in ("file", "line", "column")}
    return Conflict(entry.path, kind, vhost, name, differences, place)


def _problem(entry: Entry, error: BinderyError, *, key: bool = False) -> dict[str, Any]:
    if entry.source is None:
        return {"path": entry.path, **error.as_data()}
    return entry.source.problem(error, entry.path, *_nearer(entry, error), key=key)


def _nearer(entry: Entry, error: BinderyError) -> Iterator[str]:
    """Paths inside an entry that an error may be about, by what it says of the place, the likeliest first."""
    stated = (error.where or "").rpartition(": ")[2]
    yield f"{entry.path}.{stated}"
    yield f"{entry.path}.arguments.{stated}"
    if isinstance(error, NotFound):
        for end in ("source", "destination"):
            if repr(getattr(entry.item, end, None)) in error.message:
                yield f"{entry.path}.{end}"
    yield f"{entry.path}.name"


def _in_files(problem: Mapping[str, Any]) -> tuple[str, int, int]:
    """Problems of files in their order there; others stay as they come."""
    return (problem["file"], problem["line"], problem["column"]) if "file" in problem else ("", 0, 0)


def _refusal(report: Report) -> DefinitionsRefused:
    error = refusal(**report.as_data())
    if error.hint is None and not report.errors:
        error.hint = "overwrite replaces what exists"
    return error
