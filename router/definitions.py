"""Definitions documents in RabbitMQ's format: reading, applying, exporting.

`parse_definitions` reads a cluster document, or one of a single vhost, into objects with their paths;
`apply` declares them through an editor, all or nothing; `export` writes a document that keeps what the
format loses, typed and void arguments, in the JSON forms of `router.values`. Users and permissions are
handed through unread: they are no part of a topology.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from router.arguments import decode_arguments, encode_arguments
from router.errors import BinderyError, DefinitionsRefused, InequivalentArgument, InvalidInput, NotFound
from router.json_lines import line_of
from router.model import (
    ALTERNATE_BINDING,
    UNROUTABLE_BEHAVIOUR,
    Binding,
    Divert,
    Exchange,
    Object,
    ObjectKey,
    Queue,
    Setting,
    Topology,
    TopologyEditor,
    Vhost,
    is_predeclared,
    object_key,
)
from router.policies import OPERATOR_POLICY, POLICY, Policy
from router.values import Table, decode, encode

__all__ = [
    "GLOBAL_PARAMETER",
    "PARAMETER_PREFIX",
    "Conflict",
    "Definitions",
    "Report",
    "apply",
    "as_entry",
    "check",
    "decode_arguments",
    "encode_arguments",
    "export",
    "parse_definitions",
    "protection_key",
]

#: Kinds of settings: "parameter:<component>" within a vhost, and global parameters.
PARAMETER_PREFIX: Final = "parameter:"
GLOBAL_PARAMETER: Final = "global-parameter"
DIVERTS_KEY: Final = "bindery_diverts"
_FORMAT: Final = "rabbitmq_definition_format"
_SINGLE_VHOST: Final = "single_virtual_host"
#: The component under which RabbitMQ's documents carry operator policies.
_OPERATOR_COMPONENT: Final = "operator_policy"
#: Qpid's names of two exchange attributes -> the arguments that mean the same.
_QPID_SPELLINGS: Final[Mapping[str, str]] = {
    "alternateBinding": ALTERNATE_BINDING,
    "unroutableMessageBehaviour": UNROUTABLE_BEHAVIOUR,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a document and the path where it stands, such as `bindings[3]`."""

    path: str
    item: Object


@dataclass(frozen=True, slots=True)
class Definitions:
    """A document that has been read; `entries` in the order in which they are applied.

    `users`, `permissions` and `topic_permissions` are the document's own objects, unread.
    `text` is the source text, when there was one, for line numbers.
    """

    entries: tuple[Entry, ...]
    users: tuple[Mapping[str, Any], ...] = ()
    permissions: tuple[Mapping[str, Any], ...] = ()
    topic_permissions: tuple[Mapping[str, Any], ...] = ()
    text: str | None = field(default=None, repr=False)


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
    """What applying a document did, or would do: counts by kind, and what stands against it."""

    created: dict[str, int] = field(default_factory=dict)
    updated: dict[str, int] = field(default_factory=dict)
    unchanged: dict[str, int] = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)

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
        }


# -- reading --------------------------------------------------------------------------------------------


def parse_definitions(
    document: str | bytes | Mapping[str, Any], *, vhost: str | None = None, require_durable: bool = False
) -> Definitions:
    """Read a document: JSON text (a byte order mark is skipped) or a parsed object.

    With `vhost` everything goes to that vhost, whatever the objects state; without, each object states
    its own. Partial documents are fine and unknown keys are ignored. A missing `durable` means true
    unless `require_durable`. Raises InvalidInput naming the path (`bindings[3].source`) and, for text,
    the line of what is wrong.
    """
    text = None
    if isinstance(document, bytes):
        try:
            document = document.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidInput(f"the document is not UTF-8: {error.reason}", where="definitions") from None
    if isinstance(document, str):
        text = document.removeprefix("\ufeff")
        document = _parse_json(text)
    if not isinstance(document, Mapping):
        raise InvalidInput("a definitions document is a JSON object", where="definitions")
    try:
        return _Reader(document, vhost, require_durable).read(text)
    except InvalidInput as error:
        raise _with_line(error, text) from None


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"not JSON: {error.msg}", where=f"line {error.lineno}, column {error.colno}") from None
    except (RecursionError, ValueError) as error:
        raise InvalidInput(f"not JSON: {error}", where="definitions") from None


def _with_line(error: InvalidInput, text: str | None) -> InvalidInput:
    line = None if text is None or error.where is None else line_of(text, error.where)
    if line is not None:
        error.where = f"{error.where} (line {line})"
    return error


class _Reader:
    """Reads one document; `path` names where the reader stands."""

    def __init__(self, document: Mapping[str, Any], vhost: str | None, require_durable: bool) -> None:
        self.document = document
        self.vhost = vhost
        self.require_durable = require_durable

    def read(self, text: str | None) -> Definitions:
        if self.vhost is None and self.document.get(_FORMAT) == _SINGLE_VHOST:
            raise InvalidInput(
                "the document defines a single vhost",
                where=_FORMAT,
                hint="import it into a vhost",
            )
        entries = [Entry(path, read(raw, path)) for key, read in self._sections() for path, raw in self._objects(key)]
        return Definitions(
            tuple(entries),
            users=tuple(raw for _, raw in self._objects("users")),
            permissions=tuple(raw for _, raw in self._objects("permissions")),
            topic_permissions=tuple(raw for _, raw in self._objects("topic_permissions")),
            text=text,
        )

    def _sections(self) -> Iterator[tuple[str, Callable[[Mapping[str, Any], str], Object]]]:
        """Keys of the document in the order in which their objects are applied."""
        if self.vhost is None:
            yield "vhosts", self._vhost
        yield "exchanges", self._exchange
        yield "queues", self._queue
        yield "bindings", self._binding
        yield DIVERTS_KEY, self._divert
        yield "policies", self._policy
        yield "parameters", self._parameter
        if self.vhost is None:
            yield "global_parameters", self._global_parameter

    def _objects(self, key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        listed = self.document.get(key)
        if listed is None:
            return
        if not isinstance(listed, list):
            raise InvalidInput("expected an array", where=key)
        for number, raw in enumerate(listed):
            path = f"{key}[{number}]"
            if not isinstance(raw, Mapping):
                raise InvalidInput("expected an object", where=path)
            yield path, raw

    # -- objects

    def _vhost(self, raw: Mapping[str, Any], path: str) -> Vhost:
        metadata = raw.get("metadata")
        known = {**metadata, **raw} if isinstance(metadata, Mapping) else raw
        return Vhost(
            _text(raw, "name", path),
            description=_text(known, "description", path, default=""),
            tags=_tags(known.get("tags"), f"{path}.tags"),
            default_queue_type=_text(known, "default_queue_type", path, default="") or None,
            tracing=_flag(known, "tracing", path, default=False),
        )

    def _exchange(self, raw: Mapping[str, Any], path: str) -> Exchange:
        return Exchange(
            self._vhost_of(raw, path),
            _text(raw, "name", path),
            _text(raw, "type", path),
            durable=self._durable(raw, path),
            auto_delete=_flag(raw, "auto_delete", path, default=False),
            internal=_flag(raw, "internal", path, default=False),
            arguments=_exchange_arguments(raw, path),
        )

    def _queue(self, raw: Mapping[str, Any], path: str) -> Queue:
        return Queue(
            self._vhost_of(raw, path),
            _text(raw, "name", path),
            durable=self._durable(raw, path),
            auto_delete=_flag(raw, "auto_delete", path, default=False),
            arguments=_arguments(raw, path),
        )

    def _binding(self, raw: Mapping[str, Any], path: str) -> Binding:
        kind = _text(raw, "destination_type", path, default="queue")
        if kind not in ("queue", "exchange"):
            raise InvalidInput(
                f"destination_type is {kind!r}", where=f"{path}.destination_type", hint="queue or exchange"
            )
        destination_type: Literal["queue", "exchange"] = "queue" if kind == "queue" else "exchange"
        return Binding(
            0,
            self._vhost_of(raw, path),
            _text(raw, "source", path),
            _text(raw, "destination", path),
            destination_type,
            _text(raw, "routing_key", path, default=""),
            _arguments(raw, path),
        )

    def _divert(self, raw: Mapping[str, Any], path: str) -> Divert:
        return Divert(
            0,
            self._vhost_of(raw, path),
            _text(raw, "name", path),
            _text(raw, "source", path),
            _text(raw, "destination", path),
            filter=_text(raw, "filter", path, default=""),
            exclusive=_flag(raw, "exclusive", path, default=False),
            routing_key=None if raw.get("routing_key") is None else _text(raw, "routing_key", path),
        )

    def _policy(self, raw: Mapping[str, Any], path: str) -> Setting:
        return _policy_setting(raw, path, self._vhost_of(raw, path), _text(raw, "name", path), POLICY)

    def _parameter(self, raw: Mapping[str, Any], path: str) -> Setting:
        component, name = _text(raw, "component", path), _text(raw, "name", path)
        vhost = self._vhost_of(raw, path)
        if "value" not in raw:
            raise InvalidInput("value is missing", where=f"{path}.value")
        if component == _OPERATOR_COMPONENT and isinstance(raw["value"], Mapping):
            return _policy_setting(raw["value"], f"{path}.value", vhost, name, OPERATOR_POLICY)
        return Setting(f"{PARAMETER_PREFIX}{component}", vhost, name, decode(raw["value"], where=f"{path}.value"))

    def _global_parameter(self, raw: Mapping[str, Any], path: str) -> Setting:
        if "value" not in raw:
            raise InvalidInput("value is missing", where=f"{path}.value")
        return Setting(GLOBAL_PARAMETER, "", _text(raw, "name", path), decode(raw["value"], where=f"{path}.value"))

    # -- fields

    def _vhost_of(self, raw: Mapping[str, Any], path: str) -> str:
        if self.vhost is not None:
            return self.vhost
        if raw.get("vhost") is None:
            raise InvalidInput(
                "vhost is missing",
                where=f"{path}.vhost",
                hint="each object states its vhost, or the document is imported into one",
            )
        return _text(raw, "vhost", path)

    def _durable(self, raw: Mapping[str, Any], path: str) -> bool:
        if self.require_durable and raw.get("durable") is None:
            raise InvalidInput("durable is missing", where=f"{path}.durable", hint="true or false")
        return _flag(raw, "durable", path, default=True)


def _text(raw: Mapping[str, Any], key: str, path: str, *, default: str | None = None) -> str:
    content = raw.get(key)
    if content is None and default is not None:
        return default
    if not isinstance(content, str):
        problem = f"{key} is missing" if content is None else f"{key} is no string: {json.dumps(content)[:60]}"
        raise InvalidInput(problem, where=f"{path}.{key}")
    return content


_FLAGS: Final[Mapping[Any, bool]] = {"true": True, "false": False}


def _flag(raw: Mapping[str, Any], key: str, path: str, *, default: bool) -> bool:
    content = raw.get(key)
    if content is None:
        return default
    if isinstance(content, bool):
        return content
    if isinstance(content, str) and content in _FLAGS:
        return _FLAGS[content]
    raise InvalidInput(f"{key} is {json.dumps(content)[:60]}", where=f"{path}.{key}", hint="true or false")


def _tags(raw: Any, where: str) -> tuple[str, ...]:
    """Tags as a list, or in older documents as text with commas."""
    if raw is None:
        return ()
    if isinstance(raw, str):
        return tuple(tag.strip() for tag in raw.split(",") if tag.strip())
    if isinstance(raw, list) and all(isinstance(tag, str) for tag in raw):
        return tuple(raw)
    raise InvalidInput("tags are an array of strings", where=where)


def _arguments(raw: Mapping[str, Any], path: str) -> Table:
    content = raw.get("arguments")
    # an empty list is how PHP and some exporters write an empty object
    return decode_arguments({} if content is None or content == [] else content, where=f"{path}.arguments")


def _exchange_arguments(raw: Mapping[str, Any], path: str) -> Table:
    """The arguments, with Qpid's spellings (among them or beside them) in the names used here."""
    arguments = dict(_arguments(raw, path))
    beside = {name: raw[name] for name in _QPID_SPELLINGS if raw.get(name) is not None}
    arguments |= decode_arguments(beside, where=path)
    for spelling, name in _QPID_SPELLINGS.items():
        if spelling not in arguments:
            continue
        value = arguments.pop(spelling)
        if name == ALTERNATE_BINDING and isinstance(value, Table) and "destination" in value:
            value = Table({"destination": value["destination"]})
        arguments.setdefault(name, value)
    return Table(arguments)


def _policy_setting(raw: Mapping[str, Any], path: str, vhost: str, name: str, kind: str) -> Setting:
    definition = raw.get("definition")
    if not isinstance(definition, Mapping):
        raise InvalidInput("definition is an object", where=f"{path}.definition")
    priority = raw.get("priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise InvalidInput("priority is an integer", where=f"{path}.priority")
    try:
        policy = Policy(
            vhost,
            name,
            _text(raw, "pattern", path),
            Table({key: decode(value, where=f"{path}.definition.{key}") for key, value in definition.items()}),
            apply_to=_text(raw, "apply-to", path, default="all"),
            priority=priority,
        )
    except InvalidInput as error:
        if error.where is None or not error.where.startswith(path):
            error.where = path
        raise
    return policy.setting(kind)


# -- applying -------------------------------------------------------------------------------------------


def apply(
    definitions: Definitions, editor: TopologyEditor, *, overwrite: bool = False, skip_dangling: bool = False
) -> Report:
    """Declare everything in the document through the editor; gives what was done.

    Raises DefinitionsRefused, with a report of every conflict and error, when an object exists with
    other properties (unless `overwrite`) or a declaration is refused: the editor is then to be thrown
    away, as TopologyStore.edit does. Vhost metadata, policies and parameters are replaced. Nothing is
    deleted. With `skip_dangling` a binding or divert from or to something that does not exist is
    skipped and reported, as RabbitMQ does it.
    """
    report = _apply(definitions, editor, overwrite, skip_dangling)
    if report.refused:
        raise _refusal(report)
    return report


def check(
    definitions: Definitions, topology: Topology, *, overwrite: bool = False, skip_dangling: bool = False
) -> Report:
    """What `apply` would report on that topology, refused or not; nothing is changed."""
    return _apply(definitions, topology.edit(), overwrite, skip_dangling)


def _apply(definitions: Definitions, editor: TopologyEditor, overwrite: bool, skip_dangling: bool) -> Report:
    report = Report()
    for entry in definitions.entries:
        try:
            _declare(entry.item, editor, overwrite, report)
        except InequivalentArgument:
            report.conflicts.append(_conflict(entry, editor.topology, definitions.text))
        except NotFound as error:
            dangling = skip_dangling and isinstance(entry.item, Binding | Divert)
            (report.skipped if dangling else report.errors).append(_problem(entry, error, definitions.text))
        except BinderyError as error:
            report.errors.append(_problem(entry, error, definitions.text))
    return report


def _declare(item: Object, editor: TopologyEditor, overwrite: bool, report: Report) -> None:
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
    kind = "parameter" if kind.startswith(PARAMETER_PREFIX) else kind
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


# -- exporting ------------------------------------------------------------------------------------------


def export(topology: Topology, *, vhost: str | None = None) -> dict[str, Any]:
    """The topology as a document; with `vhost` a single-vhost one, whose objects state no vhost.

    Predeclared exchanges and implicit bindings are left out; internal exchanges are in, with their
    flag. Raises NotFound for a vhost that does not exist.
    """
    if vhost is not None:
        topology.vhost(vhost)
    names = sorted(topology.vhosts) if vhost is None else [vhost]
    document: dict[str, Any] = {_FORMAT: "cluster"}
    if vhost is None:
        document["vhosts"] = [_vhost_entry(topology.vhosts[name]) for name in names]
    else:
        document = {_FORMAT: _SINGLE_VHOST, "original_vhost_name": vhost}
    sections: dict[str, list[dict[str, Any]]] = {
        key: [] for key in ("parameters", "policies", "queues", "exchanges", "bindings", DIVERTS_KEY)
    }
    for name in names:
        exchanges, queues, bindings, diverts = topology.in_vhost(name)
        stated = {} if vhost is not None else {"vhost": name}
        sections["exchanges"] += [_exchange_entry(e) | stated for e in exchanges if not is_predeclared(e.name)]
        sections["queues"] += [_queue_entry(q) | stated for q in queues]
        sections["bindings"] += [_binding_entry(b) | stated for b in bindings]
        sections[DIVERTS_KEY] += [_divert_entry(d) | stated for d in diverts]
    global_parameters = []
    for key in sorted(topology.settings):
        setting = topology.settings[key]
        if setting.kind == GLOBAL_PARAMETER:
            global_parameters.append({"name": setting.name, "value": encode(setting.value)})
        elif vhost is None or setting.vhost == vhost:
            stated = {} if vhost is not None else {"vhost": setting.vhost}
            section, entry = _setting_entry(setting)
            sections[section].append(entry | stated)
    if vhost is None:
        document["global_parameters"] = global_parameters
    return document | sections


def _vhost_entry(vhost: Vhost) -> dict[str, Any]:
    metadata: dict[str, Any] = {"description": vhost.description, "tags": list(vhost.tags)}
    if vhost.default_queue_type is not None:
        metadata["default_queue_type"] = vhost.default_queue_type
    entry = {"name": vhost.name, **metadata, "metadata": metadata, "limits": []}
    return entry | ({"tracing": True} if vhost.tracing else {})


def _exchange_entry(exchange: Exchange) -> dict[str, Any]:
    return {
        "name": exchange.name,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": encode_arguments(exchange.arguments),
    }


def _queue_entry(queue: Queue) -> dict[str, Any]:
    return {
        "name": queue.name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": encode_arguments(queue.arguments),
    }


def _binding_entry(binding: Binding) -> dict[str, Any]:
    return {
        "source": binding.source,
        "destination": binding.destination,
        "destination_type": binding.destination_type,
        "routing_key": binding.routing_key,
        "arguments": encode_arguments(binding.arguments),
    }


def _divert_entry(divert: Divert) -> dict[str, Any]:
    return {
        "name": divert.name,
        "source": divert.source,
        "destination": divert.destination,
        "filter": divert.filter,
        "exclusive": divert.exclusive,
        "routing_key": divert.routing_key,
    }


def _setting_entry(setting: Setting) -> tuple[str, dict[str, Any]]:
    """The section of the document and the entry of a setting of one vhost."""
    value = encode(setting.value)
    if setting.kind == POLICY:
        return "policies", {"name": setting.name, **value}
    component = _OPERATOR_COMPONENT if setting.kind == OPERATOR_POLICY else setting.kind.removeprefix(PARAMETER_PREFIX)
    return "parameters", {"component": component, "name": setting.name, "value": value}


def protection_key(vhost: str) -> ObjectKey:
    """The setting that protects a vhost from deletion while it exists; it travels in documents."""
    return (f"{PARAMETER_PREFIX}vhost-protection", vhost, "deletion")


def as_entry(item: Object) -> dict[str, Any]:
    """One object as the entry that a document has for it, with its vhost and, where it has one, its id."""
    match item:
        case Vhost():
            return _vhost_entry(item)
        case Exchange():
            return _exchange_entry(item) | {"vhost": item.vhost}
        case Queue():
            return _queue_entry(item) | {"vhost": item.vhost}
        case Binding():
            return _binding_entry(item) | {"vhost": item.vhost, "id": item.id}
        case Divert():
            return _divert_entry(item) | {"vhost": item.vhost, "id": item.id}
        case Setting(kind=kind) if kind == GLOBAL_PARAMETER:
            return {"name": item.name, "value": encode(item.value)}
        case Setting():
            return _setting_entry(item)[1] | {"vhost": item.vhost}
        case _:
            raise TypeError(f"{item!r} stands in no document")
