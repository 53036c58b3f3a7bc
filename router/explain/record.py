"""An explanation as data: what a message met on its way, and why it did not reach a queue.

Every class gives its JSON form with `as_data`; the terminal renders that same data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from bindery.router.arguments import encode_arguments
from bindery.router.exchanges import Choice
from bindery.router.filters.trace import Trace
from bindery.router.links import Alternate
from bindery.router.message import Message
from bindery.router.model import Binding, Divert
from bindery.router.transforms.statements import SECTIONS
from bindery.router.values import Table, encode_table

#: How a message came to an exchange, or leaves it.
LinkKind = Literal["publish", "binding", "divert", "alternate-exchange", "alternate-binding"]
#: What became of a way on: taken, or stopped by what.
Verdict = Literal["delivered", "forwarded", "filter", "queue-filter", "exclusive-divert", "too-many-forms"]
#: Why a condition did not hold.
CulpritKind = Literal["false", "true", "missing", "type", "trouble"]
CauseKind = Literal[
    "queue-filter",
    "filter",
    "exclusive-divert",
    "key",
    "headers",
    "hash",
    "alternate-not-used",
    "exchange-not-reached",
    "nothing-leads-here",
    "no-exchange",
    "internal-exchange",
]


@dataclass(frozen=True, slots=True)
class Read:
    """A field that a condition read; `type` is None when the message does not have it."""

    name: str
    value: Any
    type: str | None

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {"name": self.name, "value": self.value, "type": self.type}


@dataclass(frozen=True, slots=True)
class Culprit:
    """The smallest part of a filter that kept it from being true."""

    expression: str
    result: bool | None
    kind: CulpritKind
    message: str
    reads: tuple[Read, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "expression": self.expression,
            "result": truth(self.result),
            "kind": self.kind,
            "message": self.message,
            "reads": [item.as_data() for item in self.reads],
        }


@dataclass(frozen=True, slots=True)
class FilterVerdict:
    """A filter and its result; `culprits` are empty when it is true, `tree` has every part where it was asked for."""

    argument: str
    dialect: str
    text: str
    result: bool | None
    culprits: tuple[Culprit, ...] = ()
    tree: Trace | None = None

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        data: dict[str, Any] = {
            "argument": self.argument,
            "dialect": self.dialect,
            "filter": self.text,
            "result": truth(self.result),
            "culprits": [item.as_data() for item in self.culprits],
        }
        return data if self.tree is None else data | {"tree": self.tree.as_data()}


def truth(result: bool | None) -> str:
    """A three-valued result in words."""
    return {True: "true", False: "false", None: "unknown"}[result]


@dataclass(frozen=True, slots=True)
class Link:
    """A way from an exchange to a queue or exchange: a binding, a divert or an alternate.

    `id` is the lineage id: 0 for the default exchange's implicit binding, None for alternates.
    """

    kind: LinkKind
    source: str
    destination: str
    destination_type: Literal["queue", "exchange"]
    id: int | None = None
    name: str = ""
    routing_key: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    exclusive: bool = False

    @classmethod
    def of(cls, link: Binding | Divert | Alternate) -> Link:
        """A link of the topology, as an explanation names it."""
        ends = link.source, link.destination
        match link:
            case Alternate():
                return cls(link.kind, *ends, link.destination_type or "queue")
            case Divert():
                text, exclusive = link.routing_key, link.exclusive
                return cls("divert", *ends, "exchange", link.id, link.name, text, exclusive=exclusive)
        arguments = encode_arguments(link.arguments)
        return cls("binding", *ends, link.destination_type, link.id, "", link.routing_key, arguments)

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data; parts that the kind of link does not have are left out."""
        data: dict[str, Any] = {
            "kind": self.kind,
            "source": self.source,
            "destination": self.destination,
            "destination_type": self.destination_type,
        }
        if self.id is not None:
            data["id"] = self.id
        if self.name:
            data["name"] = self.name
        if self.routing_key is not None:
            data["routing_key"] = self.routing_key
        if self.arguments:
            data["arguments"] = self.arguments
        if self.kind == "divert":
            data["exclusive"] = self.exclusive
        return data


@dataclass(frozen=True, slots=True)
class Change:
    """What a link has made of a message: its statements, the message before and after.

    `left_out` counts statements that met run-time trouble.
    """

    statements: str
    before: Message
    made: Message
    left_out: int = 0

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data: the fields that differ, each before and after; null where there was or is none."""
        changes = []
        for section in SECTIONS:
            old, new = Table(getattr(self.before, section)), Table(getattr(self.made, section))
            for name in sorted(old.keys() | new.keys()):
                before, after = (Table({name: one[name]}) if name in one else Table() for one in (old, new))
                if before != after:
                    said = (encode_table(one).get(name) for one in (before, after))
                    changes.append(dict(zip(("field", "before", "after"), (f"{section}.{name}", *said), strict=True)))
        return {"statements": self.statements, "changes": changes, "left_out": self.left_out}


@dataclass(frozen=True, slots=True)
class Step:
    """A link whose key or headers matched, or a divert: taken, or stopped by a filter or an exclusive divert.

    `visit` is the number of the visit that it led to, `change` what it made of the message, `switches` are those of a
    compatibility mode without which its key or headers would not have matched.
    """

    link: Link
    verdict: Verdict
    filters: tuple[FilterVerdict, ...] = ()
    visit: int | None = None
    change: Change | None = None
    switches: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        data = self.link.as_data() | {
            "verdict": self.verdict,
            "filters": [item.as_data() for item in self.filters],
        }
        if self.change is not None:
            data["transform"] = self.change.as_data()
        if self.switches:
            data["switches"] = list(self.switches)
        return data if self.visit is None else data | {"visit": self.visit}


@dataclass(frozen=True, slots=True)
class Missed:
    """A binding whose key or headers did not match, and which word or header it was."""

    link: Link
    message: str

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return self.link.as_data() | {"message": self.message}


@dataclass(frozen=True, slots=True)
class Arrival:
    """How a message came to an exchange: from which visit (None: it was published there), by which link."""

    kind: LinkKind
    visit: int | None = None
    id: int | None = None

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        data: dict[str, Any] = {"kind": self.kind}
        if self.visit is not None:
            data["visit"] = self.visit
        return data if self.id is None else data | {"id": self.id}


@dataclass(frozen=True, slots=True)
class Visit:
    """An exchange with the keys under which the message was evaluated there, once.

    further_steps  steps that are not listed
    unmatched      bindings whose key or headers did not match
    not_evaluated  bindings that an exclusive divert kept from being looked at
    choice         what the hash of a hash exchange chose
    missed         some of those that did not match, with the reason, where they were asked for
    form           the number of the form in which the message came; 0 as it was published
    compat         the compatibility mode there
    """

    number: int
    exchange: str
    type: str
    keys: tuple[str, ...]
    arrivals: tuple[Arrival, ...]
    steps: tuple[Step, ...]
    further_steps: int
    unmatched: int
    not_evaluated: int
    choice: Choice | None = None
    missed: tuple[Missed, ...] | None = None
    form: int = 0
    compat: str | None = None

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        data: dict[str, Any] = {
            "number": self.number,
            "exchange": self.exchange,
            "type": self.type,
            "keys": list(self.keys),
            "arrivals": [item.as_data() for item in self.arrivals],
            "steps": [item.as_data() for item in self.steps],
            "further_steps": self.further_steps,
            "unmatched": self.unmatched,
            "not_evaluated": self.not_evaluated,
        }
        if self.choice is not None:
            data["choice"] = self.choice.as_data()
        if self.form:
            data["form"] = self.form
        if self.compat is not None:
            data["compat"] = self.compat
        return data if self.missed is None else data | {"missed": [item.as_data() for item in self.missed]}


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why a message did not come to a queue; the nearest one stands first.

    `path` leads from an exchange to the queue, link by link; the first link is the one that was not
    taken, unless an earlier one took the message away. `matched` of `asked` words or headers agreed.
    """

    kind: CauseKind
    message: str
    path: tuple[Link, ...] = ()
    visit: int | None = None
    filters: tuple[FilterVerdict, ...] = ()
    divert: Link | None = None
    matched: int = 0
    asked: int = 0

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        data: dict[str, Any] = {
            "kind": self.kind,
            "message": self.message,
            "path": [item.as_data() for item in self.path],
        }
        if self.visit is not None:
            data["visit"] = self.visit
        if self.filters:
            data["filters"] = [item.as_data() for item in self.filters]
        if self.divert is not None:
            data["divert"] = self.divert.as_data()
        if self.asked:
            data |= {"matched": self.matched, "asked": self.asked}
        return data


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why a queue did not get a message; no causes when it did."""

    queue: str
    reached: bool
    causes: tuple[Cause, ...] = ()
    further: int = 0

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data; `further` counts causes that are not listed."""
        return {
            "queue": self.queue,
            "reached": self.reached,
            "causes": [item.as_data() for item in self.causes],
            "further_causes": self.further,
        }


@dataclass(frozen=True, slots=True)
class Form:
    """A form in which queues get a message, by its number (`bindery.router.engine.Forms`)."""

    number: int
    queues: tuple[str, ...]
    message: Message

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data; of the message what transformations may change."""
        held = {section: encode_table(getattr(self.message, section)) for section in SECTIONS}
        message = {section: content for section, content in held.items() if content}
        return {"number": self.number, "queues": list(self.queues), "message": message}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What became of one message under one topology version, and how."""

    vhost: str
    topology_version: int
    queues: tuple[str, ...]
    reason: str | None
    disposition: str | None
    detail: str | None
    recorded: bool
    lineage: tuple[int, ...]
    visits: tuple[Visit, ...]
    why_not: tuple[WhyNot, ...] = ()
    forms: tuple[Form, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data; `unroutable` is None for a message that reached a queue.

        `forms` is there where queues get it in another form than it was published.
        """
        unroutable = None
        if self.reason is not None:
            unroutable = {
                "reason": self.reason,
                "disposition": self.disposition,
                "detail": self.detail,
                "recorded": self.recorded,
            }
        return {
            "vhost": self.vhost,
            "topology_version": self.topology_version,
            "queues": list(self.queues),
            "unroutable": unroutable,
            "lineage": list(self.lineage),
            "visits": [visit.as_data() for visit in self.visits],
            "why_not": [item.as_data() for item in self.why_not],
            **({"forms": [item.as_data() for item in self.forms]} if self.forms else {}),
        }
