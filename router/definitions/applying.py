"""Declaring what a document holds, all or nothing, with a report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.router.arguments import encode_arguments
from bindery.router.declarations import TopologyEditor
from bindery.router.definitions.document import Definitions, Entry
from bindery.router.errors import BinderyError, DefinitionsRefused, InequivalentArgument, NotFound
from bindery.router.json_lines import line_of
from bindery.router.known_arguments import without_effect
from bindery.router.limits import QueueRoom
from bindery.router.model import Binding, Divert, Exchange, Object, Queue, Setting, Topology, Vhost, object_key
from bindery.router.model.objects import PARAMETER_PREFIX
from bindery.router.values import Table


@dataclass(frozen=True, slots=True)
class Conflict:
    """An object that exists with other properties: property -> (current, given), in JSON forms."""

    path: str
    kind: str
    vhost: str
    name: str
    differences: Mapping[str, tuple[Any, Any]]
    line: int | None = None

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "path": self.path,
            "kind": self.kind,
            "vhost": self.vhost,
            "name": self.name,
            "differences": {
                name: {"current": current, "given": given} for name, (current, given) in self.differences.items()
            },
        } | ({} if self.line is None else {"line": self.line})


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
) -> Report:
    """Declare everything in the document through the editor; gives what was done.

    Raises DefinitionsRefused, with a report of every conflict and error, when an object exists with
    other properties (unless `overwrite`) or a declaration is refused: the editor is then to be thrown
    away, as TopologyStore.edit does. Vhost metadata, policies and parameters are replaced. Nothing is
    deleted. With `skip_dangling` a binding or divert from or to something that does not exist is
    skipped and reported, as RabbitMQ does it. `done` is told the number of each entry as it is reached.
    """
    report = _apply(definitions, editor, overwrite, skip_dangling, done)
    if report.refused:
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
            report.conflicts.append(_conflict(entry, editor.topology, definitions.text))
        except NotFound as error:
            dangling = skip_dangling and isinstance(entry.item, Binding | Divert)
            (report.skipped if dangling else report.errors).append(_problem(entry, error, definitions.text))
        except BinderyError as error:
            report.errors.append(_problem(entry, error, definitions.text))
        else:
            _note_idle(entry, report)
    return report


def _note_idle(entry: Entry, report: Report) -> None:
    names = without_effect(entry.item)
    if names:
        kind, vhost, name = object_key(entry.item)
        report.without_effect.append(
            {"path": entry.path, "kind": _said(kind), "vhost": vhost, "name": name, "names": names}
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


def _conflict(entry: Entry, topology: Topology, text: str | None) -> Conflict:
    given = entry.item
    kind, vhost, name = object_key(given)
    current = topology.get((kind, vhost, name))
    differences: dict[str, tuple[Any, Any]] = {}
    for attribute in (*_COMPARED, "routing_key"):
        old, new = getattr(current, attribute, None), getattr(given, attribute, None)
        if old != new:
            differences[attribute] = (old, new)
    old_arguments = encode_arguments(getattr(current, "arguments", Table()))
    new_arguments = encode_arguments(getattr(given, "arguments", Table()))
    for key in sorted(old_arguments.keys() | new_arguments.keys()):
        if old_arguments.get(key, ...) != new_arguments.get(key, ...):
            differences[f"arguments.{key}"] = (old_arguments.get(key), new_arguments.get(key))
    return Conflict(entry.path, kind, vhost, name, differences, _line(text, entry.path))


def _problem(entry: Entry, error: BinderyError, text: str | None) -> dict[str, Any]:
    line = _line(text, entry.path)
    return {"path": entry.path, **error.as_data()} | ({} if line is None else {"line": line})


def _line(text: str | None, path: str) -> int | None:
    return None if text is None else line_of(text, path)


def _refusal(report: Report) -> DefinitionsRefused:
    first: dict[str, Any] = (report.errors or [conflict.as_data() for conflict in report.conflicts])[0]
    found = len(report.errors) + len(report.conflicts)
    if report.errors:
        problem = f"{first['path']}: {first['message']}"
    else:
        name, values = next(iter(first["differences"].items()), ("properties", {"current": None, "given": None}))
        problem = (
            f"{first['path']}: {first['kind']} {first['name']!r} exists with {name} "
            f"{json.dumps(values['current'])}, given {json.dumps(values['given'])}"
        )
    line = f" (line {first['line']})" if "line" in first else ""
    return DefinitionsRefused(
        f"{problem}{line}" + (f" and {found - 1} more" if found > 1 else "") + "; nothing was changed",
        report=report.as_data(),
        where=first["path"],
        hint=first.get("hint") or ("overwrite replaces what exists" if not report.errors else None),
    )
