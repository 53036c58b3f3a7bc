"""Templates of Azure Resource Manager, and lists of resources as its REST API and `az` print them: resources in a row.

Source: "ARM template syntax", "Set name and type for child resources", "Resource iteration", "Linked and nested
templates". Children stand inside of their parents or beside them with slashes in type and name; from
`languageVersion` 2.0 on, which bicep writes, resources have symbolic names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bindery.router.documents import Source, read_source, refusal
from bindery.router.documents.places import member
from bindery.router.errors import InvalidInput
from bindery.router.importers.arm_expressions import Hole, Scope, Text, hole_of, segments
from bindery.router.importers.objects import SourceObject

#: Resources of a document, and levels of templates in templates.
_MAX_RESOURCES: Final = 100_000
_MAX_LEVELS: Final = 10
#: Copies of one resource (template limits of Resource Manager).
_MAX_COPIES: Final = 800
DEPLOYMENT: Final = "microsoft.resources/deployments"
#: What `az` prints beside a resource's properties.
_OF_LISTED: Final = frozenset(
    {"id", "name", "type", "location", "resourceGroup", "tags", "systemData", "sku", "identity"}
)


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource: its type in lower case, the parts of its name, its properties worked out.

    `exists` says that the template refers to it and does not deploy it. `wanted` is its condition, None where nobody
    knows it. `why_not` says why nothing of it can be carried over.
    """

    kind: str
    names: tuple[str | Text | Hole, ...]
    properties: Mapping[str, Any]
    place: str
    exists: bool = False
    wanted: bool | None = True
    why_not: tuple[str, str, str] | None = None

    def object(self, kind: str, name: str) -> SourceObject:
        """The object of the report, with what its condition and its loop have to say."""
        item = SourceObject(kind, name, self.place)
        if self.why_not is not None:
            text, key, hint = self.why_not
            item.lost(text, key, hint=hint)
        elif self.wanted is None:
            item.differs("condition", "nobody says whether it holds: it is declared")
        return item


class Template:
    """A document of Azure: its resources, in the order in which they stand."""

    def __init__(self, name: str, raw: bytes) -> None:
        if raw.lstrip()[:1] == b"[":  # `az … list` prints an array, the REST API an object with it
            raw = b'{"value":' + raw + b"}"
        self.source: Source = read_source(name, raw)
        self.resources: list[Resource] = []
        value = self.source.value
        listed = value.get("value")
        #: Whether it lists what exists: rules that are not in it may exist all the same.
        self.is_list = "resources" not in value
        if self.is_list and isinstance(listed, list):
            for number, one in enumerate(listed):
                self._listed(one, f"value[{number}]")
        elif "resources" in value:
            self._walk(value["resources"], "resources", _scope(value, {}), None, 0)
        elif isinstance(value.get("id"), str) and "type" in value:
            self._listed(value, "")
        else:
            hint = 'a template has "resources"; bicep build FILE writes one; lists have "value"'
            raise self._refused(InvalidInput("this is no template and no list of resources", hint=hint), "")

    def _refused(self, error: InvalidInput, place: str) -> Exception:
        return refusal([self.source.problem(error, place)])

    def _object(self, value: Any, place: str) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self._refused(InvalidInput("expected an object"), place)
        return value

    def _add(self, resource: Resource) -> None:
        if len(self.resources) >= _MAX_RESOURCES:
            raise self._refused(InvalidInput(f"more than {_MAX_RESOURCES:,} resources"), resource.place)
        self.resources.append(resource)

    def _listed(self, raw: Any, place: str) -> None:
        """A resource that exists: its id says what it is."""
        one = self._object(raw, place)
        path = str(one.get("id", "")).rpartition("/providers/")[2].split("/")
        provider, kinds, names = path[0], path[1::2], path[2::2]
        if not kinds or len(kinds) != len(names):
            hint = "/subscriptions/…/providers/Microsoft.ServiceBus/namespaces/…"
            raise self._refused(InvalidInput("its id says not what it is", hint=hint), member(place, "id"))
        stated = one.get("properties")
        properties = stated if isinstance(stated, Mapping) else {k: v for k, v in one.items() if k not in _OF_LISTED}
        self._add(Resource("/".join((provider, *kinds)).lower(), tuple(names), properties, place))

    # -- templates

    def _walk(self, raw: Any, place: str, scope: Scope, parent: Resource | None, level: int) -> None:
        if isinstance(raw, Mapping):
            stated = [(member(place, name), one) for name, one in raw.items()]
        elif isinstance(raw, list):
            stated = [(f"{place}[{number}]", one) for number, one in enumerate(raw)]
        else:
            raise self._refused(InvalidInput("expected an array or object of resources"), place)
        for where, one in stated:
            resource = self._object(one, where)
            for inner, why_not in _copies(resource, scope):
                self._one(resource, where, inner, parent, level, why_not)

    def _one(
        self,
        raw: Mapping[str, Any],
        place: str,
        scope: Scope,
        parent: Resource | None,
        level: int,
        why_not: tuple[str, str, str] | None,
    ) -> None:
        kind = raw.get("type")
        if not isinstance(kind, str):
            raise self._refused(InvalidInput("a resource without a type"), place)
        names = tuple(segments(scope.value(raw.get("name", ""))))
        inside = parent is not None and not kind.lower().startswith("microsoft.")
        if inside and parent is not None:
            kind, names = f"{parent.kind}/{kind}", (*parent.names, *names)
        condition = scope.value(raw.get("condition", True))
        properties = scope.value(raw.get("properties", {}))
        if why_not is None and parent is not None and parent.why_not is not None:
            why_not = parent.why_not
        if why_not is None and not isinstance(properties, Mapping):
            open_ = hole_of(properties)
            said = "they are no object" if open_ is None else f"nobody says what {open_} is"
            why_not = (said, "properties", "write them into a copy of the file")
        resource = Resource(
            kind.lower(),
            names,
            properties if isinstance(properties, Mapping) else {},
            place,
            exists=raw.get("existing") is True,
            wanted=condition if isinstance(condition, bool) else None,
            why_not=why_not,
        )
        stated = raw.get("properties")
        if resource.kind == DEPLOYMENT and isinstance(stated, Mapping) and level < _MAX_LEVELS and why_not is None:
            template = stated.get("template")
            if isinstance(template, Mapping) and resource.wanted is not False:
                path = member(member(member(place, "properties"), "template"), "resources")
                inner = _inner(template, stated, scope)
                self._walk(template.get("resources", []), path, inner, None, level + 1)
                return
        self._add(resource)
        if "resources" in raw and resource.wanted is not False:
            self._walk(raw["resources"], member(place, "resources"), scope, resource, level)


def _scope(template: Mapping[str, Any], given: Mapping[str, Any]) -> Scope:
    parameters, variables = template.get("parameters"), template.get("variables")
    return Scope(
        parameters if isinstance(parameters, Mapping) else {},
        variables if isinstance(variables, Mapping) else {},
        given,
    )


def _inner(template: Mapping[str, Any], properties: Mapping[str, Any], scope: Scope) -> Scope:
    """What expressions of a template in a template refer to: the outer template, unless it says otherwise."""
    options = properties.get("expressionEvaluationOptions")
    if not isinstance(options, Mapping) or str(options.get("scope", "")).lower() != "inner":
        return scope
    stated = properties.get("parameters")
    given = {
        name: scope.value(one["value"])
        for name, one in (stated.items() if isinstance(stated, Mapping) else ())
        if isinstance(one, Mapping) and "value" in one
    }
    return _scope(template, given)


def _copies(resource: Mapping[str, Any], scope: Scope) -> Iterator[tuple[Scope, tuple[str, str, str] | None]]:
    """The scope of each copy of a resource, or of the resource itself; and what is in the way."""
    loop = resource.get("copy")
    if loop is None:
        yield scope, None
        return
    stated = loop if isinstance(loop, Mapping) else {}
    count, name = scope.value(stated.get("count")), stated.get("name")
    if type(count) is int and 0 <= count <= _MAX_COPIES and isinstance(name, str):
        for index in range(count):
            yield scope.within({name: index, "": index}), None
        return
    open_ = hole_of(count)
    said = "nobody knows how many copies there are" if open_ is None else f"nobody says what {open_} is"
    yield scope, (said, "copy", "write the count, or its parameter's defaultValue, into a copy of the file")
