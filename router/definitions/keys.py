"""The keys that a definitions document may have, and the arguments that its objects may.

A file is written by hand or exported by a broker. What a broker exports and nothing here acts on is accepted and
told; a name that nobody knows is refused, because it is a typing error that would silently leave out what it says.
Over HTTP such names are kept: clients of brokers send what they like (topology lint: BT106, BT113, BT180, BT181).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from bindery.router.definitions.document import DIVERTS_KEY, FORMAT_KEY, OPERATOR_COMPONENT
from bindery.router.documents.places import member
from bindery.router.known_arguments import KNOWN, Kind
from bindery.router.limits import LIMITS_KIND
from bindery.router.model import (
    FILTERS_ARGUMENT,
    REPLACEMENT_KEY,
    SELECTOR_ARGUMENT,
    TRANSFORM,
    X_MATCH,
    Binding,
    Exchange,
    Queue,
)
from bindery.router.model.objects import COMPAT_ARGUMENT, PARAMETER_PREFIX
from bindery.router.qpid import ATTRIBUTES
from bindery.router.spelling import did_you_mean, misspelt, nearest
from bindery.router.values import Table

_SAID_ELSEWHERE: Final = "users and permissions are no part of a topology: POST /api/definitions imports them"
_BROKER: Final = "known to RabbitMQ, without effect here"
_GIVEN: Final = "given by the topology"
#: Keys of the document that hold no objects of a topology -> why nothing comes of them.
BESIDE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("users", "permissions", "topic_permissions"), _SAID_ELSEWHERE),
    **dict.fromkeys(
        (
            "rabbit_version",
            "rabbitmq_version",
            "product_name",
            "product_version",
            "original_cluster_name",
            "original_vhost_name",
            "explanation",
            "description",
            "metadata",
            "limits",
            "default_queue_type",
        ),
        _BROKER,
    ),
}
#: Section -> keys of its objects: those that are read, and others with the reason why not.
_READ: Final[Mapping[str, frozenset[str]]] = {
    "vhosts": frozenset({"name", "description", "tags", "default_queue_type", "tracing", "compat", "metadata"}),
    "global_parameters": frozenset({"name", "value"}),
    "exchanges": frozenset({"vhost", "name", "type", "durable", "auto_delete", "internal", "arguments", *ATTRIBUTES}),
    "queues": frozenset({"vhost", "name", "durable", "auto_delete", "arguments"}),
    "bindings": frozenset({"vhost", "source", "destination", "destination_type", "routing_key", "arguments"}),
    DIVERTS_KEY: frozenset(
        {"vhost", "name", "source", "destination", "filter", "exclusive", "routing_key", "transform"}
    ),
    "policies": frozenset({"vhost", "name", "pattern", "apply-to", "definition", "priority"}),
    "parameters": frozenset({"vhost", "component", "name", "value"}),
}
_IGNORED: Final[Mapping[str, Mapping[str, str]]] = {
    "vhosts": {"limits": "limits are parameters (component vhost-limits)", "cluster_state": _BROKER},
    "exchanges": dict.fromkeys(("policy", "user_who_performed_action"), _BROKER),
    "queues": {
        "type": "every queue is a Delta table",
        "id": _GIVEN,
        **dict.fromkeys(("exclusive", "policy", "operator_policy", "node", "user_who_performed_action"), _BROKER),
    },
    "bindings": {"properties_key": _GIVEN, "id": _GIVEN},
    DIVERTS_KEY: {"id": _GIVEN},
}
_METADATA: Final = frozenset({"description", "tags", "default_queue_type", "tracing", "compat"})
_METADATA_IGNORED: Final = {"protected_from_deletion": "protection is a parameter (component vhost-protection)"}
_POLICY_VALUE: Final = frozenset({"pattern", "apply-to", "definition", "priority", "name", "vhost"})

KNOWN_TOP: Final = frozenset({*_READ, *BESIDE, FORMAT_KEY})


class Unknown(NamedTuple):
    """A name that is refused, and where its key stands."""

    path: str
    message: str
    hint: str | None


class Ignored(NamedTuple):
    """A part of a document of which nothing comes, and why."""

    path: str
    reason: str


def check_keys(document: Mapping[str, Any], *, path: str = "") -> Iterator[Unknown | Ignored]:
    """What a document says that is refused or ignored, key by key; values are checked where they are read."""
    for key, content in document.items():
        here = member(path, key)
        if key in BESIDE:
            if content not in ([], {}, None):
                yield Ignored(here, BESIDE[key])
        elif key in _READ:
            for number, item in enumerate(content if isinstance(content, list) else ()):
                if isinstance(item, Mapping):
                    yield from check_object(key, item, f"{here}[{number}]")
        elif key != FORMAT_KEY:
            yield unknown_key(here, key, KNOWN_TOP)


def check_object(section: str, item: Mapping[str, Any], path: str) -> Iterator[Unknown | Ignored]:
    """What one object of a section says that is refused or ignored, key by key."""
    yield from _check(item, path, _READ[section], _IGNORED.get(section, {}))
    if section == "vhosts":
        yield from _check(item.get("metadata"), f"{path}.metadata", _METADATA, _METADATA_IGNORED)
    elif section == "policies":
        yield from _check(item.get("definition"), f"{path}.definition", _names("policy"))
    elif section == "parameters":
        component, value = item.get("component"), item.get("value")
        if component == OPERATOR_COMPONENT and isinstance(value, Mapping):
            yield from _check(value, f"{path}.value", _POLICY_VALUE)
            yield from _check(value.get("definition"), f"{path}.value.definition", _names("policy"))
        elif component == LIMITS_KIND.removeprefix(PARAMETER_PREFIX):
            yield from _check(value, f"{path}.value", _names("limit"))
        elif isinstance(component, str) and component not in _names("parameter"):
            meant = misspelt(component, _names("parameter"))
            if meant is not None:
                yield Unknown(f"{path}.component", f"no component is called {component!r}", did_you_mean(meant))


def _check(
    content: Any, path: str, known: frozenset[str], ignored: Mapping[str, str] | None = None
) -> Iterator[Unknown | Ignored]:
    for key, value in content.items() if isinstance(content, Mapping) else ():
        if ignored is not None and key in ignored:
            if value not in ([], {}, None, "", False):
                yield Ignored(f"{path}.{key}", ignored[key])
        elif key not in known:
            yield unknown_key(f"{path}.{key}", key, known)


def unknown_key(path: str, key: str, known: frozenset[str]) -> Unknown:
    """The refusal of a key that is none of those that are known."""
    meant = nearest(key, sorted(known))
    return Unknown(path, f"unknown key {key!r}", did_you_mean(meant, "keys: " + ", ".join(sorted(known))))


@cache
def _names(kind: Kind) -> frozenset[str]:
    return frozenset(name for of, name in KNOWN if of == kind)


_KEPT_OVER_HTTP: Final = "POST /api/definitions keeps names that nobody knows; those without x- in front are anybody's"


def check_arguments(item: Exchange | Queue | Binding, exchange_type: str | None) -> Iterator[Unknown | Ignored]:
    """The arguments of an object that nobody knows; paths begin at the object.

    `exchange_type` is that of a binding's source, None when there is none. Names that begin with `x-` must be
    known, others must not be a known one misspelt. On a headers exchange the arguments are criteria: with
    `all-with-x` and `any-with-x` those that begin with `x-` too, so that only a filter argument misspelt is
    refused there.
    """
    match item:
        case Exchange():
            known = _names("exchange") | ATTRIBUTES.keys()
        case Queue():
            known = _names("queue")
        case Binding():
            yield from _check_binding(item, exchange_type)
            return
    for name in item.arguments:
        if name in known:
            continue
        meant = misspelt(name, sorted(known))
        if name.startswith("x-") or meant is not None:
            yield _unknown_argument(name, meant or nearest(name, sorted(known)))


def _check_binding(binding: Binding, exchange_type: str | None) -> Iterator[Unknown | Ignored]:
    known = _names("binding")
    compares_x = exchange_type == "headers" and binding.arguments.get(X_MATCH) in ("all-with-x", "any-with-x")
    for name, value in binding.arguments.items():
        argument = KNOWN.get(("binding", name))
        if argument is not None:
            if not argument.effective and not compares_x:
                yield Ignored(f"arguments.{name}", argument.meaning)
            continue
        if name.startswith("x-") and not compares_x:
            yield _unknown_argument(name, nearest(name, sorted(known)))
            continue
        meant = misspelt(name, (SELECTOR_ARGUMENT, REPLACEMENT_KEY, TRANSFORM, COMPAT_ARGUMENT))
        if meant is None and (not compares_x or isinstance(value, Table)):
            meant = misspelt(name, (FILTERS_ARGUMENT,), at_most=1)
        if meant is None and not compares_x:
            meant = misspelt(name, (X_MATCH,), at_most=1)
        if meant is not None:
            yield _unknown_argument(name, meant)


def _unknown_argument(name: str, meant: str | None) -> Unknown:
    return Unknown(
        f"arguments.{name}",
        f"unknown argument {name!r}",
        did_you_mean(meant, _KEPT_OVER_HTTP),
    )
