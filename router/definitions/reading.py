"""Reading a definitions document, of a cluster or a single vhost, into objects with their paths."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal

from bindery.router.arguments import decode_arguments
from bindery.router.definitions.document import (
    DIVERTS_KEY,
    FORMAT_KEY,
    OPERATOR_COMPONENT,
    SINGLE_VHOST,
    Definitions,
    Entry,
)
from bindery.router.definitions.filters import filter_errors
from bindery.router.definitions.keys import Ignored, check_keys
from bindery.router.documents import Source
from bindery.router.documents.places import member
from bindery.router.errors import BinderyError, InvalidInput
from bindery.router.filters.sets import FilterSetLimits
from bindery.router.model import (
    Binding,
    Divert,
    Exchange,
    Object,
    Queue,
    Setting,
    Topology,
    Vhost,
)
from bindery.router.model.objects import GLOBAL_PARAMETER, PARAMETER_PREFIX
from bindery.router.policies import OPERATOR_POLICY, POLICY, Policies, Policy
from bindery.router.qpid import exchange_arguments
from bindery.router.values import Table, decode


def parse_definitions(
    document: Any, *, vhost: str | None = None, default_vhost: str | None = None, require_durable: bool = False
) -> Definitions:
    """Read a document that has been parsed.

    With `vhost` everything goes to that vhost, whatever the objects state; without, each object states its own,
    or none states any and all are in `default_vhost`. Partial documents are fine and unknown keys are ignored.
    A missing `durable` means true unless `require_durable`. Raises InvalidInput naming the path
    (`bindings[3].source`) of what is wrong.
    """
    if not isinstance(document, Mapping):
        raise InvalidInput("a definitions document is a JSON object", where="definitions")
    return _Reader(document, vhost, default_vhost, require_durable=require_durable).read()


def parse_every(
    document: Mapping[str, Any], *, vhost: str | None = None, default_vhost: str | None = None
) -> tuple[Definitions, list[BinderyError]]:
    """As `parse_definitions`, of a document whose sections are lists of objects: what can be read, and every error.

    An error names the path of what it is about in `where`.
    """
    refused: list[BinderyError] = []
    return _Reader(document, vhost, default_vhost, refused=refused).read(), refused


def read_definitions(
    source: Source,
    *,
    vhost: str | None = None,
    default_vhost: str | None = None,
    inside: str = "",
) -> tuple[Definitions, list[dict[str, Any]], list[dict[str, Any]]]:
    """Read a document of a file: what can be read, everything that is wrong with it, and what is ignored.

    As `parse_definitions`, but unknown keys are wrong. `inside` is the path of the definitions in the file.
    """
    document = source.value[inside] if inside else source.value
    if not isinstance(document, Mapping):
        error = InvalidInput("a definitions document is a JSON object", where=inside)
        return Definitions(()), [source.problem(error, inside)], []
    ignored, problems = [], []
    for found in check_keys(document, path=inside):
        if isinstance(found, Ignored):
            ignored.append({"file": source.name, "path": found.path, "reason": found.reason})
        else:
            unknown = InvalidInput(found.message, where=found.path, hint=found.hint)
            problems.append(source.problem(unknown, found.path, key=True))
    if vhost is not None:
        said = f"everything goes to vhost {vhost!r}"
        ignored += [
            {"file": source.name, "path": member(inside, key), "reason": said}
            for key in ("vhosts", "global_parameters")
            if document.get(key)
        ]
    refused: list[BinderyError] = []
    reader = _Reader(document, vhost, default_vhost, inside=inside, refused=refused, source=source)
    try:
        definitions = reader.read()
    except InvalidInput as error:
        definitions = Definitions(())
        refused.append(error)
    once: dict[str, BinderyError] = {}
    for one in (*refused, *_misstated(document, inside)):
        once.setdefault(one.where or inside, one)
    return definitions, problems + [source.problem(one, path) for path, one in once.items()], ignored


def _misstated(document: Mapping[str, Any], inside: str) -> Iterator[InvalidInput]:
    """Every value that is no text, or neither true nor false, where it must be; also the second in an object."""
    for section, fields in _FIELDS.items():
        listed = document.get(section)
        for number, raw in enumerate(listed if isinstance(listed, list) else ()):
            for key in raw.keys() & fields.keys() if isinstance(raw, Mapping) else ():
                if raw[key] is None:
                    continue
                path = f"{member(inside, section)}[{number}]"
                try:
                    fields[key](raw, key, path)
                except InvalidInput as error:
                    yield error


class _Reader:
    """Reads one document; `path` names where the reader stands."""

    def __init__(
        self,
        document: Mapping[str, Any],
        vhost: str | None,
        default_vhost: str | None,
        *,
        require_durable: bool = False,
        inside: str = "",
        refused: list[BinderyError] | None = None,
        source: Source | None = None,
    ) -> None:
        self.document = document
        self.vhost = vhost
        states_own = any("vhost" in raw for key in _FIELDS for raw in _mappings(document.get(key)))
        self.default_vhost = None if states_own else default_vhost
        self.require_durable = require_durable
        self.inside = inside
        self.refused = refused
        self.source = source

    def read(self) -> Definitions:
        stands_alone = self.vhost is None and self.default_vhost is None
        if stands_alone and self.document.get(FORMAT_KEY) == SINGLE_VHOST:
            raise InvalidInput(
                "the document defines a single vhost",
                where=member(self.inside, FORMAT_KEY),
                hint="import it into a vhost",
            )
        return Definitions(
            tuple(entry for key, read in self._sections() for entry in self._entries(key, read)),
            users=tuple(raw for _, raw in self._objects("users")),
            permissions=tuple(raw for _, raw in self._objects("permissions")),
            topic_permissions=tuple(raw for _, raw in self._objects("topic_permissions")),
        )

    def _entries(self, key: str, read: Callable[[Mapping[str, Any], str], Object]) -> Iterator[Entry]:
        """The objects of a section; what cannot be read is raised, or noted and left out where all of it is wanted."""
        objects = self._objects(key)
        while True:
            path, raw = "", None
            try:
                path, raw = next(objects)
                yield Entry(path, read(raw, path), self.source)
            except StopIteration:
                return
            except InvalidInput as error:
                if self.refused is None:
                    raise
                self.refused.append(error)
                if raw is not None:
                    self.refused += _filters_of(key, raw, path)

    def _sections(self) -> Iterator[tuple[str, Callable[[Mapping[str, Any], str], Object]]]:
        """Keys of the document in the order in which their objects are applied."""
        if self.vhost is None:
            yield "vhosts", self._vhost
            yield "global_parameters", self._global_parameter  # one of them says how large filters may be
        yield "policies", self._policy  # one of them may say what bodies are that filters look into
        yield "exchanges", self._exchange
        yield "queues", self._queue
        yield "bindings", self._binding
        yield DIVERTS_KEY, self._divert
        yield "parameters", self._parameter

    def _objects(self, key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        here = member(self.inside, key)
        listed = self.document.get(key)
        if listed is None:
            return
        if not isinstance(listed, list):
            raise InvalidInput("expected an array", where=here)
        for number, raw in enumerate(listed):
            path = f"{here}[{number}]"
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
            compat=_text(known, "compat", path, default="") or None,
        )

    def _exchange(self, raw: Mapping[str, Any], path: str) -> Exchange:
        return Exchange(
            self._vhost_of(raw, path),
            _text(raw, "name", path),
            _text(raw, "type", path),
            durable=self._durable(raw, path),
            auto_delete=_flag(raw, "auto_delete", path, default=False),
            internal=_flag(raw, "internal", path, default=False),
            arguments=exchange_arguments(_stated(raw), raw, where=path, arguments_at=f"{path}.arguments"),
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
            transform=_text(raw, "transform", path, default=""),
        )

    def _policy(self, raw: Mapping[str, Any], path: str) -> Setting:
        return _policy_setting(raw, path, self._vhost_of(raw, path), _text(raw, "name", path), POLICY)

    def _parameter(self, raw: Mapping[str, Any], path: str) -> Setting:
        component, name = _text(raw, "component", path), _text(raw, "name", path)
        vhost = self._vhost_of(raw, path)
        if "value" not in raw:
            raise InvalidInput("value is missing", where=f"{path}.value")
        if component == OPERATOR_COMPONENT and isinstance(raw["value"], Mapping):
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
        if self.default_vhost is not None:
            return self.default_vhost
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
        if content is None:
            raise InvalidInput(f"{key} is missing", where=f"{path}.{key}")
        shown = json.dumps(content)[:60]
        hint = None if isinstance(content, Mapping | list) else "write it in quotes"
        raise InvalidInput(f"{key} is no string: {shown}", where=f"{path}.{key}", hint=hint)
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


def _filters_of(section: str, raw: Mapping[str, Any], path: str) -> Iterator[BinderyError]:
    """What is wrong with the filters of an object that cannot be read; their paths are in `where`."""
    try:
        arguments = _arguments(raw, path)
    except InvalidInput:
        arguments = Table()
    item: Object
    match section, raw.get("filter"):
        case "queues", _:
            item = Queue("", "", arguments=arguments)
        case "bindings", _:
            item = Binding(0, "", "", "", arguments=arguments)
        case key, text if key == DIVERTS_KEY:
            transform = raw.get("transform")
            said, changes = (one if isinstance(one, str) else "" for one in (text, transform))
            item = Divert(0, "", "", "", "", filter=said, transform=changes)
        case _:
            return
    # how large filters may be is said by a part of the document that may come later
    for place, error in filter_errors(item, FilterSetLimits(), None, Policies(Topology.empty())):
        error.where = f"{path}.{place}"
        yield error


def _mappings(listed: Any) -> Iterator[Mapping[str, Any]]:
    return (raw for raw in listed if isinstance(raw, Mapping)) if isinstance(listed, list) else iter(())


#: Section of objects in vhosts -> what reads their plain members.
_FIELDS: Final[Mapping[str, Mapping[str, Callable[[Mapping[str, Any], str, str], Any]]]] = {
    "exchanges": {
        **dict.fromkeys(("vhost", "name", "type"), _text),
        **dict.fromkeys(("durable", "auto_delete", "internal"), partial(_flag, default=False)),
    },
    "queues": {
        **dict.fromkeys(("vhost", "name"), _text),
        **dict.fromkeys(("durable", "auto_delete"), partial(_flag, default=False)),
    },
    "bindings": dict.fromkeys(("vhost", "source", "destination", "destination_type", "routing_key"), _text),
    DIVERTS_KEY: {
        **dict.fromkeys(("vhost", "name", "source", "destination", "filter", "routing_key", "transform"), _text),
        "exclusive": partial(_flag, default=False),
    },
    "policies": dict.fromkeys(("vhost", "name", "pattern", "apply-to"), _text),
    "parameters": dict.fromkeys(("vhost", "component", "name"), _text),
}


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
    return decode_arguments(_stated(raw), where=f"{path}.arguments")


def _stated(raw: Mapping[str, Any]) -> Any:
    """The arguments as they stand; an empty list is how PHP and some exporters write an empty object."""
    content = raw.get("arguments")
    return {} if content is None or content == [] else content


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
