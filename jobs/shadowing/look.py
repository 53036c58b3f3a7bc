"""The topology of a running RabbitMQ as its management API tells it at one moment, and a router of it.

It is what `bindery import --from rabbitmq` would make of the broker, and beside it what an import leaves out since it
does not last: exclusive queues, and queues that the broker has named (`amq.gen-…`), with their bindings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from bindery.router.errors import InvalidInput
from bindery.router.explain import Explainer
from bindery.router.importers import rabbitmq
from bindery.router.importers.objects import Outcome
from bindery.router.importers.settling import settle
from bindery.router.model import (
    DEFAULT_VHOST,
    PREDECLARED,
    RESERVED_PREFIX,
    Binding,
    Exchange,
    Object,
    Queue,
    Topology,
)

#: What the names of all that a shadow declares in a broker begin with.
OWN: Final = "bindery.shadow."
#: Sections of the definitions that decide where messages go.
_SECTIONS: Final = ("exchanges", "queues", "bindings", "policies", "parameters")
_Sections = dict[str, list[dict[str, Any]]]
_OF_BINDING: Final = ("source", "destination", "destination_type", "routing_key", "arguments")


class Carried:
    """A topology of the broker as it is carried over here, with a router of it that is compiled when it is needed.

    digest           equal for equal topologies
    queues           the names of the broker's queues, carried over or not
    lost             exchanges and queues that are not carried over, by kind and name -> why
    lost_bindings    bindings that are not, as the API tells them, each with why
    counts           objects of the broker by what becomes of them
    """

    def __init__(self, digest: str, sections: _Sections, compat: str | None = None) -> None:
        prefix = _free_prefix(sections)
        renamed = {name: [_renamed(name, one, prefix) for one in objects] for name, objects in sections.items()}
        objects = rabbitmq.read("definitions", json.dumps(renamed).encode())
        settled = settle(objects, Topology.empty(), vhost=DEFAULT_VHOST, compat=compat)
        self.digest = digest
        self.topology = Topology.of(_named_again(settled.topology, prefix))
        self.queues = frozenset(str(one.get("name")) for one in sections["queues"])
        self.counts = {outcome.value: sum(one.outcome is outcome for one in settled.objects) for outcome in Outcome}
        self.lost: dict[tuple[str, str], str] = {}
        self.lost_bindings: list[tuple[Mapping[str, Any], str]] = []
        for item in settled.objects:
            if item.outcome is Outcome.LEFT_OUT and item.kind in ("exchange", "queue", "binding"):
                told, why = _at(sections, item.place), "; ".join(note.text for note in item.notes)
                if item.kind == "binding":
                    self.lost_bindings.append((told, why))
                else:
                    self.lost[item.kind, str(told.get("name"))] = why

    @cached_property
    def explainer(self) -> Explainer:
        """Routes and explains."""
        return Explainer(self.topology, DEFAULT_VHOST)


@dataclass(frozen=True, slots=True)
class Look:
    """What there was at one moment: the topology, and other shadows.

    taps     the names of their queues: those that run have one
    claims   the names of their exchanges, of those that run or have died -> whether it answers for the firehose
    """

    carried: Carried
    taps: frozenset[str]
    claims: Mapping[str, bool]


def read_look(
    definitions: bytes,
    bindings: Iterable[Mapping[str, Any]],
    before: Look | None = None,
    *,
    compat: str | None = None,
) -> Look:
    """What the definitions of a vhost and the list of its bindings tell; an unchanged topology is that of `before`.

    It is read under the compatibility mode `compat`, the same each time.

    Raises InvalidInput for definitions that are none.
    """
    try:
        document = json.loads(definitions)
    except (ValueError, RecursionError):
        raise InvalidInput("are no JSON", where="definitions") from None
    if not isinstance(document, dict):
        raise InvalidInput("are no object", where="definitions")
    sections = {name: _objects(document.get(name)) for name in _SECTIONS}
    listed = list(bindings)
    taps = frozenset(str(one.get("destination")) for one in listed if one.get("source") == "")
    claims = {str(one.get("name")): one.get("auto_delete") is False for one in sections["exchanges"]}
    own = frozenset(filter(_is_own, taps)), {name: answers for name, answers in claims.items() if _is_own(name)}
    _complete(sections, listed)
    digest = hashlib.sha256(json.dumps(sections, sort_keys=True).encode()).hexdigest()
    if before is not None and before.carried.digest == digest:
        return Look(before.carried, *own)
    return Look(Carried(digest, sections, compat), *own)


def _objects(found: Any) -> list[dict[str, Any]]:
    return [dict(one) for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _is_own(name: object) -> bool:
    return isinstance(name, str) and name.startswith(OWN)


def _complete(sections: _Sections, listed: Collection[Mapping[str, Any]]) -> None:
    """Add what the definitions leave out and the list of bindings has; drop what belongs to shadows.

    The order of the definitions stays: the rings of hash exchanges follow from it.
    """
    queues = {one.get("name") for one in sections["queues"]}
    known = {_identity(one) for one in sections["bindings"]}
    for one in listed:
        if one.get("source") == "":
            # the default exchange has a binding for every queue there is
            if one.get("destination") not in queues:
                sections["queues"].append({"name": one.get("destination"), "durable": True, "arguments": {}})
        elif _identity(one) not in known:
            sections["bindings"].append({key: one[key] for key in _OF_BINDING if key in one})
    for name in ("exchanges", "queues"):
        sections[name] = [one for one in sections[name] if not _is_own(one.get("name"))]
    sections["bindings"] = [
        one
        for one in sections["bindings"]
        if one.get("source") != "" and not _is_own(one.get("source")) and not _is_own(one.get("destination"))
    ]
    # exchanges that brokers declare by themselves, such as that of the firehose, are in no definitions
    declared = {one.get("name") for one in sections["exchanges"]} | PREDECLARED.keys()
    for source in sorted({str(one.get("source")) for one in sections["bindings"]} - declared):
        if source.startswith(RESERVED_PREFIX):
            sections["exchanges"].append({"name": source, "type": "topic", "durable": True, "internal": True})


def _identity(binding: Mapping[str, Any]) -> str:
    return json.dumps([binding.get(key) for key in _OF_BINDING], sort_keys=True)


def _free_prefix(sections: _Sections) -> str:
    """A beginning of names as long as `amq.` that no name has."""
    names = [str(one.get("name")) for name in ("exchanges", "queues") for one in sections[name]]
    number = 0
    while any(name.startswith(f"~{number:02}~") for name in names):
        number += 1
    return f"~{number:02}~"


def _renamed(section: str, one: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """An object under names that may be declared: those that begin `amq.` are the broker's alone."""
    keys = ("source", "destination") if section == "bindings" else ("name",)
    out = dict(one)
    for key in keys if section in ("exchanges", "queues", "bindings") else ():
        name = out.get(key)
        if isinstance(name, str) and name.startswith(RESERVED_PREFIX):
            is_queue = section == "queues" or (key == "destination" and out.get("destination_type") == "queue")
            if is_queue or name not in PREDECLARED:
                out[key] = prefix + name.removeprefix(RESERVED_PREFIX)
    return out


def _named_again(topology: Topology, prefix: str) -> Iterator[Object]:
    def original(name: str) -> str:
        return RESERVED_PREFIX + name.removeprefix(prefix) if name.startswith(prefix) else name

    for item in topology.objects():
        match item:
            case Exchange() | Queue():
                yield replace(item, name=original(item.name))
            case Binding():
                yield replace(item, source=original(item.source), destination=original(item.destination))
            case _:
                yield item


def _at(sections: _Sections, place: str) -> Mapping[str, Any]:
    """The object at a place such as `bindings[3]`."""
    name, _, number = place.removesuffix("]").partition("[")
    return sections[name][int(number)]
