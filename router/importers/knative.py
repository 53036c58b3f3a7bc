"""Knative Eventing: brokers and triggers, as YAML of one or more documents, as JSON, alone or in a list.

A broker is a fanout exchange, a trigger a binding with its filter, a subscriber a queue, or the exchange of a broker;
a namespace is a vhost (documentation of Knative Eventing: "Brokers", "Triggers", "Event delivery").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bindery.router.documents import Source, read_source, refusal
from bindery.router.documents.places import member
from bindery.router.errors import InvalidInput
from bindery.router.filters import evaluate
from bindery.router.filters.sets import parse_filter_set
from bindery.router.importers.knative_filters import filters_of, mixes, statements
from bindery.router.importers.objects import OF_BROKER, Example, SourceObject
from bindery.router.message import Message

_EVENTING: Final = "eventing.knative.dev"
_CLASS: Final = f"{_EVENTING}/broker.class"
_NOT_CALLED: Final = "nothing is delivered, so that no delivery fails"
_DELIVERY: Final = frozenset(
    {"deadLetterSink", "retry", "timeout", "backoffPolicy", "backoffDelay", "retryAfterMax", "format"}
)
#: Groups of the API, and kinds in them, of which something is lost: why, and what to do.
_LOST: Final[Mapping[str, tuple[str, str]]] = {
    "messaging.knative.dev": ("channels are not read", "a channel is a fanout exchange, a subscription a binding"),
    "flows.knative.dev": ("nothing is called in a row", "a job reads a queue and feeds an exchange"),
    "sources.knative.dev": ("nothing is fetched for it", "a job reads the source and feeds the exchange"),
    "sinks.knative.dev": ("nothing is handed on to it", "`bindery forward` delivers a queue to Kafka"),
    f"{_EVENTING}/EventTransform": ("events are not changed", "the expressions of a job make messages"),
}
_USER: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#]*@)?")
_MAX_EXAMPLE_HOPS: Final = 16


def read(name: str, raw: bytes, *, access: bool = False) -> list[SourceObject]:
    """The objects of resources of Kubernetes; raises DefinitionsRefused for what is none."""
    reader = _Reader(read_source(name, raw, several=True))
    reader.read()
    return reader.found


@dataclass(frozen=True, slots=True)
class _Resource:
    """A resource of Kubernetes: group, version and kind, name and namespace, where it stands."""

    group: str
    version: str
    kind: str
    name: str
    namespace: str | None
    spec: Mapping[str, Any]
    annotations: Mapping[str, Any]
    place: str

    @property
    def is_ours(self) -> bool:
        """Whether it is a broker or a trigger."""
        return self.group == _EVENTING and self.kind in ("Broker", "Trigger")


@dataclass(frozen=True, slots=True)
class _Subscriber:
    """What a trigger calls: group, kind and name, or a URI alone; `namespace` only where it is another one."""

    vhost: str | None
    group: str
    kind: str
    namespace: str
    name: str
    uri: str

    @property
    def is_broker(self) -> bool:
        """Whether it is a broker that hands events on."""
        return self.group == _EVENTING and self.kind == "Broker" and not self.uri

    @property
    def short(self) -> str:
        """What it is called where no other one is."""
        if not self.name:
            return _USER.sub("", self.uri)
        return "".join((f"{self.namespace}/" if self.namespace else "", self.name, self.uri))

    @property
    def long(self) -> str:
        """What it is called beside another one of its short name."""
        return f"{self.group}/{self.kind}/{self.short}".lstrip("/") if self.name else self.uri


@dataclass(slots=True)
class _Trigger:
    """A trigger that is carried over: its object, broker and subscriber, and its filter set."""

    item: SourceObject
    broker: str
    subscriber: _Subscriber
    filters: Mapping[str, Any]
    spec: Mapping[str, Any]
    destination: str = ""

    def fits(self, message: Message) -> bool:
        """Whether an event passes its filter."""
        return not self.filters or evaluate(parse_filter_set(self.filters), message) is True


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.found: list[SourceObject] = []
        self._brokers: dict[tuple[str | None, str], SourceObject] = {}
        self._triggers: list[_Trigger] = []

    def read(self) -> None:
        """Brokers before the triggers that name them."""
        resources = list(self._resources())
        if not resources:
            hint = "kubectl get brokers,triggers --all-namespaces -o yaml"
            raise refusal([self.source.problem(InvalidInput("there is no resource of Kubernetes", hint=hint), "")])
        ours = [one for one in resources if one.is_ours]
        places: dict[str, str] = {}
        for one in ours:
            if one.namespace is not None:
                places.setdefault(one.namespace, one.place)
        for name, place in places.items():
            item = SourceObject("namespace", name, place, None, [("vhosts", {"name": name})])
            self.found.append(item)
        for one in ours:
            if one.kind == "Broker":
                self._broker(one)
        for one in ours:
            if one.kind == "Trigger":
                self._trigger(one)
        self._bind()
        for one in resources:
            if not one.is_ours:
                self._other(one)

    def _resources(self) -> Iterator[_Resource]:
        for number, document in enumerate(self.source.value):
            if document is not None:
                yield from self._listed(document, "" if self.source.is_json else f"[{number}]")

    def _listed(self, raw: Any, path: str) -> Iterator[_Resource]:
        one = self._object(raw, path)
        kind, version = one.get("kind"), one.get("apiVersion")
        if not isinstance(kind, str) or not isinstance(version, str):
            raise self._refused(InvalidInput("no resource of Kubernetes: it has no kind and apiVersion"), path)
        if kind.endswith("List") and isinstance(one.get("items"), list):
            for number, inner in enumerate(one["items"]):
                yield from self._listed(inner, f"{member(path, 'items')}[{number}]")
            return
        metadata = self._object(one.get("metadata") or {}, member(path, "metadata"))
        spec = one.get("spec")
        annotations, namespace = metadata.get("annotations"), metadata.get("namespace")
        group, _, number_ = version.rpartition("/")
        yield _Resource(
            group,
            number_,
            kind,
            str(metadata.get("name", "")),
            namespace if isinstance(namespace, str) and namespace else None,
            spec if isinstance(spec, Mapping) else {},
            annotations if isinstance(annotations, Mapping) else {},
            f"line {self.source.line(path)}",
        )

    def _object(self, raw: Any, path: str) -> Mapping[str, Any]:
        if not isinstance(raw, Mapping):
            raise self._refused(InvalidInput("expected an object"), path)
        return raw

    def _refused(self, error: InvalidInput, path: str) -> Exception:
        return refusal([self.source.problem(error, path)])

    # -- brokers

    def _broker(self, one: _Resource) -> None:
        item = self._exchange(one.name, one.namespace, one.place)
        if item is None:
            again = SourceObject("broker", one.name, one.place, one.namespace)
            again.lost("it stands in the file twice", hint="keep one of the two")
            self.found.append(again)
            return
        if one.annotations.get(_CLASS) not in (None, "MTChannelBasedBroker"):
            item.idle(_CLASS, "how it keeps events; filters mean the same")
        for key, value in one.spec.items():
            if key == "delivery":
                self._delivery(item, value)
            elif key == "config":
                item.idle(key, OF_BROKER)
            else:
                item.unknown(key)

    def _exchange(self, name: str, namespace: str | None, place: str) -> SourceObject | None:
        """The object of a broker's exchange; None where there is one."""
        if (namespace, name) in self._brokers:
            return None
        item = self._brokers[namespace, name] = SourceObject("broker", name, place, namespace)
        item.declares.append(("exchanges", _placed(namespace, name=name, type="fanout")))
        self.found.append(item)
        return item

    @staticmethod
    def _delivery(item: SourceObject, stated: Any) -> None:
        for key in stated if isinstance(stated, Mapping) else ():
            if key in _DELIVERY:
                item.idle(f"delivery.{key}", _NOT_CALLED)
            else:
                item.unknown(f"delivery.{key}")

    # -- triggers

    def _trigger(self, one: _Resource) -> None:
        item = SourceObject("trigger", one.name, one.place, one.namespace)
        broker = self._broker_of(item, one)
        self.found.append(item)
        for key in one.spec:
            if key == "delivery":
                self._delivery(item, one.spec[key])
            elif key not in ("broker", "brokerRef", "filter", "filters", "subscriber"):
                item.unknown(key)
        if broker is None:
            return
        subscriber = self._subscriber(item, one)
        if subscriber is None:
            return
        try:
            filters = filters_of(one.spec)
        except InvalidInput as error:
            item.lost(error.message, error.where or "", hint=error.hint)
            return
        if one.spec.get("filters") and one.spec.get("filter"):
            item.idle("filter", "`filters` counts alone, there too")
        self._say(item, one.spec)
        self._triggers.append(_Trigger(item, broker, subscriber, filters, one.spec))

    def _broker_of(self, item: SourceObject, one: _Resource) -> str | None:
        """The broker of a trigger; one that is not in the file is declared all the same."""
        reference = one.spec.get("brokerRef")
        stated = reference.get("name") if isinstance(reference, Mapping) else one.spec.get("broker")
        elsewhere = reference.get("namespace") if isinstance(reference, Mapping) else None
        if elsewhere not in (None, "", one.namespace):
            item.lost(f"its broker is in the namespace {elsewhere}", "brokerRef", hint="a vhost has its own exchanges")
            return None
        if stated in (None, "") and one.version != "v1":
            stated = "default"  # so did the versions before
        if not isinstance(stated, str) or not stated:
            item.lost("it names no broker", "broker")
            return None
        broker = self._exchange(stated, one.namespace, one.place)
        if broker is not None:
            broker.idle("", "the file only refers to it")
        return stated

    def _subscriber(self, item: SourceObject, one: _Resource) -> _Subscriber | None:
        stated = one.spec.get("subscriber")
        reference = stated.get("ref") if isinstance(stated, Mapping) else None
        uri = stated.get("uri") if isinstance(stated, Mapping) else None
        uri = uri if isinstance(uri, str) else ""
        if isinstance(reference, Mapping) and isinstance(reference.get("name"), str):
            version = str(reference.get("apiVersion", ""))
            group = str(reference.get("group") or version.rpartition("/")[0])
            namespace = str(reference.get("namespace") or "")
            elsewhere = "" if namespace == (one.namespace or "") else namespace
            found = _Subscriber(
                one.namespace, group, str(reference.get("kind", "")), elsewhere, str(reference["name"]), uri
            )
            if found.is_broker and elsewhere:
                item.lost(f"it leads to a broker in the namespace {elsewhere}", "subscriber", hint="to one of its own")
                return None
            return found
        if uri:
            return _Subscriber(one.namespace, "", "", "", "", uri)
        item.lost("it names no subscriber", "subscriber", hint="ref or uri")
        return None

    @staticmethod
    def _say(item: SourceObject, spec: Mapping[str, Any]) -> None:
        for kind, value in statements(spec):
            if kind == "cesql" and isinstance(value, str) and mixes(value):
                item.differs(
                    "filters.cesql",
                    "AND, OR and XOR go from left to right; the SDK that Knative uses takes the last one first",
                    hint="write parentheses",
                )
            elif "time" in value and kind != "cesql":
                item.differs(
                    "filters.time",
                    "the time as the event has it; Knative writes it anew before it compares",
                    hint="publish times in UTC, without zeros at the end of fractions",
                )

    # -- subscribers

    def _bind(self) -> None:
        """Queues of subscribers, and bindings to them, once all names are known."""
        called: dict[tuple[str | None, str], set[_Subscriber]] = {}
        for trigger in self._triggers:
            if not trigger.subscriber.is_broker:
                called.setdefault((trigger.subscriber.vhost, trigger.subscriber.short), set()).add(trigger.subscriber)
        declared: set[_Subscriber] = set()
        for trigger in self._triggers:
            one = trigger.subscriber
            if one.is_broker:
                trigger.destination = one.name
                broker = self._exchange(one.name, one.vhost, trigger.item.place)
                if broker is not None:
                    broker.idle("", "the file only refers to it")
            else:
                trigger.destination = one.short if len(called[one.vhost, one.short]) == 1 else one.long
                if one not in declared:
                    declared.add(one)
                    self._queue(one, trigger)
            arguments = {"x-filters": trigger.filters} if trigger.filters else {}
            kind = "exchange" if one.is_broker else "queue"
            ends = {"source": trigger.broker, "destination": trigger.destination, "destination_type": kind}
            trigger.item.declares.append(("bindings", _placed(one.vhost, **ends, routing_key="", arguments=arguments)))
        for number, trigger in enumerate(self._triggers):
            self._compare(trigger, self._triggers[:number])

    def _queue(self, one: _Subscriber, trigger: _Trigger) -> None:
        item = SourceObject("subscriber", one.long, trigger.item.place, one.vhost)
        item.declares.append(("queues", _placed(one.vhost, name=trigger.destination)))
        item.differs(
            "",
            f"it is not called: its events wait in the queue {trigger.destination!r}",
            hint="let it read the queue, and publish what it replies to the exchange",
        )
        self.found.append(item)

    def _compare(self, trigger: _Trigger, earlier: list[_Trigger]) -> None:
        """An event that fits two triggers of one broker with one subscriber is delivered twice there."""
        for other in earlier:
            same = (other.broker, other.subscriber) == (trigger.broker, trigger.subscriber)
            event = _event(trigger, other) if same else None
            if event is not None:
                message = Message.from_json(shown := {"exchange": trigger.broker, "application_properties": event})
                there = tuple(self._reached(trigger.subscriber.vhost, trigger.broker, message, 0))
                trigger.item.differs(
                    "subscriber",
                    f"an event that fits {other.item.name!r}, too, comes twice there; here it is there once",
                    example=Example(shown, there),
                )
                return

    def _reached(self, vhost: str | None, broker: str, message: Message, hops: int) -> Iterator[str]:
        """The queues that an event reaches there, by each trigger that it fits."""
        for one in self._triggers if hops < _MAX_EXAMPLE_HOPS else ():
            if (one.subscriber.vhost, one.broker) != (vhost, broker) or not one.fits(message):
                continue
            if one.subscriber.is_broker:
                yield from self._reached(vhost, one.destination, message, hops + 1)
            else:
                yield one.destination

    # -- others

    def _other(self, one: _Resource) -> None:
        item = SourceObject(one.kind, one.name, one.place, one.namespace)
        found = _LOST.get(f"{one.group}/{one.kind}") or _LOST.get(one.group)
        if found is not None:
            item.lost(found[0], hint=found[1])
        else:
            item.idle("", "no event goes elsewhere for it")
        self.found.append(item)


def _placed(vhost: str | None, **declared: Any) -> dict[str, Any]:
    return declared if vhost is None else {"vhost": vhost, **declared}


def _event(*triggers: _Trigger) -> dict[str, str] | None:
    """Attributes of an event that fits all of some triggers; None where a simple one is not found."""
    exact: dict[str, str] = {}
    stated = [
        (kind, name, str(value))
        for trigger in triggers
        for kind, values in statements(trigger.spec, wanted=True)
        if isinstance(values, Mapping)
        for name, value in values.items()
    ]
    for kind, name, value in sorted(stated, key=lambda one: one[0] != "exact"):
        held = exact.get(name, "")
        if kind == "exact":
            exact[name] = value or held or "any"
        elif kind == "prefix":
            exact[name] = held if held.startswith(value) else value + held
        else:
            exact[name] = held if held.endswith(value) else held + value
    message = Message.from_json({"application_properties": exact})
    return exact if all(trigger.fits(message) for trigger in triggers) else None
