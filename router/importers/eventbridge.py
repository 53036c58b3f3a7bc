"""Amazon EventBridge: templates of CloudFormation, and rules with their targets as the command line lists them.

A bus is a fanout exchange whose bodies are JSON; each target of a rule is a binding with the rule's pattern as its
filter, to a queue, or to the exchange of another bus (EventBridge user guide, "Rules", "Targets"; API reference,
`Rule` and `Target`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bindery.router.documents import refusal
from bindery.router.documents.places import member
from bindery.router.errors import FilterError, InvalidInput
from bindery.router.filters import evaluate, parse
from bindery.router.importers.aws import (
    NO_FAILURE,
    Queues,
    Template,
    bound,
    conditional,
    last_part,
    parsed,
    resolved,
    unresolved,
)
from bindery.router.importers.events_of_patterns import BODIES, event_of, plain_numbers, without_dots
from bindery.router.importers.objects import Example, SourceObject
from bindery.router.message import Message
from bindery.router.model import PAYLOAD_ARGUMENT

DESCRIPTOR: Final = "aws:eventbridge-filter"
#: The bus that events of AWS go to, and those that name none.
DEFAULT_BUS: Final = "default"
_BUS: Final = "AWS::Events::EventBus"
_RULE: Final = "AWS::Events::Rule"
_ENABLED: Final = ("ENABLED", "ENABLED_WITH_ALL_CLOUDTRAIL_MANAGEMENT_EVENTS")
_CHANGED: Final = "the queue gets the event as it is"
#: Properties of targets -> what of them is different; without a text nothing is missing.
_TARGET: Final[Mapping[str, str]] = {
    "Input": _CHANGED,
    "InputPath": _CHANGED,
    "InputTransformer": _CHANGED,
    "DeadLetterConfig": "",
    "RetryPolicy": "",
}
_PARAMETERS: Final = "Parameters"
_RULE_KEYS: Final = frozenset({"Name", "Arn", "EventPattern", "State", "ScheduleExpression", "EventBusName", "Targets"})
_RULE_IDLE: Final = frozenset({"Description", "RoleArn", "ManagedBy", "Tags", "CreatedBy", "EventBusArn"})
_BUS_IDLE: Final = frozenset({"Name", "Description", "Tags", "KmsKeyIdentifier", "Policy", "LogConfig"})


def read(name: str, raw: bytes, *, access: bool = False) -> list[SourceObject]:
    """The objects of a template or of listed rules; raises DefinitionsRefused for what is neither."""
    template = Template(name, raw)
    listed = template.source.value.get("Rules")
    if not template.resources and not isinstance(listed, list):
        raise refusal(
            [
                template.source.problem(
                    InvalidInput(
                        "this is no template and no list of rules",
                        hint='CloudFormation has "Resources", `aws events list-rules` "Rules", each with its "Targets"',
                    ),
                    "",
                )
            ]
        )
    reader = _Reader(template)
    reader.read(listed if isinstance(listed, list) and not template.resources else None)
    return reader.found


@dataclass(slots=True)
class _Bound:
    """A target that is carried over: its object, bus, queue or other bus, and the pattern; `told`: what differs was."""

    item: SourceObject
    bus: str
    name: str
    text: str
    leads_on: bool
    told: bool = False


class _Reader:
    def __init__(self, template: Template) -> None:
        self.template = template
        self.found: list[SourceObject] = []
        self._buses: set[str] = set()
        self._queues = Queues()
        self._bound: list[_Bound] = []

    def read(self, listed: list[Any] | None) -> None:
        for name, properties, place in self.template.of_type(_BUS):
            self._bus(self.template.name_of(name), place, properties)
            conditional(self.template.resources[name], self.found[-1])
        for name, item in self.template.queues():
            self._queues.declared(name)
            self.found.append(item)
        for name, rule, place, resource in self._rules(listed):
            self._rule(name, rule, place, resource)
        for one in self._bound:
            self._compare(one)
        self.found += self.template.others(_BUS, _RULE)

    def _rules(self, listed: list[Any] | None) -> Iterator[tuple[str, Mapping[str, Any], str, Mapping[str, Any]]]:
        if listed is None:
            for name, properties, place in self.template.of_type(_RULE):
                yield self.template.name_of(name), properties, place, self.template.resources[name]
            return
        for number, rule in enumerate(listed):
            place = f"Rules[{number}]"
            if not isinstance(rule, Mapping):
                raise refusal([self.template.source.problem(InvalidInput("expected an object"), place)])
            yield str(rule.get("Name")), rule, place, {}

    def _bus(self, name: str, place: str, properties: Mapping[str, Any]) -> None:
        if name in self._buses:
            return
        self._buses.add(name)
        item = SourceObject("event bus", name, place)
        item.declares.append(("exchanges", {"name": name, "type": "fanout", "arguments": {PAYLOAD_ARGUMENT: "json"}}))
        for key in properties:
            if key in ("EventSourceName", "DeadLetterConfig"):
                item.differs(key, "nothing comes from partners, and delivery does not fail for one queue alone")
            elif key not in _BUS_IDLE:
                item.unknown(key)
        self.found.append(item)

    def _rule(self, name: str, rule: Mapping[str, Any], place: str, resource: Mapping[str, Any]) -> None:
        stated = rule.get("EventBusName", DEFAULT_BUS)
        known = self.template.text(stated)
        bus = last_part(known or DEFAULT_BUS)
        if known:
            self._bus(bus, place, {})
        item = SourceObject("rule", name, place)
        self.found.append(item)
        conditional(resource, item)
        for key in rule:
            if key not in _RULE_KEYS and key not in _RULE_IDLE:
                item.unknown(key)
        if known:
            text = self._pattern(item, rule)
        else:
            text = None
            item.lost("nobody says which bus it is of", "EventBusName", hint="write the bus's name into the rule")
        targets = rule.get("Targets", [])
        if not isinstance(targets, list):
            item.unknown("Targets", "this is no list: nothing comes of it")
            targets = []
        if text is not None and not targets:
            item.idle("Targets", "it has none, so that no event goes anywhere for it")
        for number, target in enumerate(targets):
            if isinstance(target, Mapping):
                self._target(item, target, bus, text, f"{member(place, 'Targets')}[{number}]")
            else:
                item.unknown("Targets", "a target that is no object: nothing comes of it")

    def _pattern(self, item: SourceObject, rule: Mapping[str, Any]) -> str | None:
        """The text of the rule's pattern; None where none can be carried over, which is said."""
        state = self.template.text(rule.get("State", "ENABLED"))
        if state is None:
            item.differs("State", "nobody says whether it is enabled: here it is")
        elif state not in _ENABLED:
            item.lost(
                "it is disabled: no event goes anywhere for it", "State", hint="enable it there before the import"
            )
            return None
        stated = rule.get("EventPattern")
        if rule.get("ScheduleExpression") not in (None, ""):
            if stated is None:
                item.lost(
                    "nothing is published by the clock", "ScheduleExpression", hint="publish from cron or a workflow"
                )
                return None
            item.differs("ScheduleExpression", "nothing is published by the clock: the pattern alone holds")
        if stated is None:
            item.lost("it has no pattern", "EventPattern")
            return None
        pattern = resolved(self.template, parsed(stated))
        open_ = unresolved(pattern)
        if open_ is not None:
            item.lost(f"nobody says what {open_} is", "EventPattern", hint="write the value into the pattern")
            return None
        text = stated if isinstance(stated, str) else json.dumps(pattern, ensure_ascii=False)
        try:
            parse(text, "eventbridge", limits=BODIES)
        except FilterError as error:
            item.lost(f"the pattern is refused: {error.message}", "EventPattern", hint=error.hint)
            return None
        return text

    def _target(self, rule: SourceObject, target: Mapping[str, Any], bus: str, text: str | None, place: str) -> None:
        arn = self.template.text(target.get("Arn"))
        service = self.template.service_of(target.get("Arn"))
        item = SourceObject("target", f"{target.get('Id')} of {rule.name}", place)
        self.found.append(item)
        if text is None:
            item.lost(f"its rule {rule.name!r} is not carried over")
            return
        if arn is None:
            item.lost("nobody says where it is", "Arn", hint="write its ARN into the template")
            return
        name = last_part(arn)
        leads_on = service == "events" or ":event-bus/" in arn
        if leads_on:
            self._bus(name, place, {})
        else:
            self._queues.add(item, name, arn)
        for key in target:
            if key not in ("Arn", "Id", "RoleArn"):
                self._of_target(item, key)
        if not leads_on and service != "sqs":
            item.differs(
                "Arn",
                f"{service or 'the target'} is not called: its events wait in the queue {name!r}",
                hint="let it read the queue",
            )
        self._bound.append(_Bound(item, bus, name, text, leads_on))
        item.declares.append(("bindings", bound(bus, name, "exchange" if leads_on else "queue", DESCRIPTOR, text)))

    def _of_target(self, item: SourceObject, key: str) -> None:
        if key in _TARGET:
            if _TARGET[key]:
                item.differs(
                    key, _TARGET[key], hint="a job's expressions make messages, or readers take what they need"
                )
            else:
                item.idle(key, NO_FAILURE)
        elif key.endswith(_PARAMETERS):
            item.idle(key, "how the target is called")
        else:
            item.unknown(key)

    def _compare(self, one: _Bound) -> None:
        """What a target gets here and not there, with an event that shows it."""
        others = (other for other in self._bound if other is not one and (other.bus, other.name) == (one.bus, one.name))
        for other in others:
            event = event_of(one.text, other.text)
            if event is not None and not other.told:
                one.told = True
                one.item.differs(
                    "EventPattern",
                    f"an event that fits several rules is in the queue {one.name!r} once",
                    example=self._example(one.bus, json.dumps(event)),
                )
                break
        event = event_of(one.text)
        nested = None if event is None else without_dots(event)
        if nested != event:
            shown = self._example(one.bus, json.dumps(nested))
            one.item.differs(
                "EventPattern.names",
                "a name with a dot is one name; EventBridge takes it for a way into objects, too",
                hint="write the objects into the pattern",
                example=Example(shown.message, (*shown.there, one.name)),
            )
        exact = [number for number in plain_numbers(json.loads(one.text)) if isinstance(number, float)]
        if event is None or not exact:
            return
        body = json.dumps(event)
        other_form = body.replace(repr(exact[0]), f"{exact[0]:.6e}", 1)
        if other_form != body:
            one.item.differs(
                "EventPattern.numbers",
                f"{exact[0]!r} is a double, however it is written; EventBridge compares the digits",
                example=self._example(one.bus, other_form, number=exact[0]),
            )

    def _example(self, bus: str, body: str, *, number: float | None = None) -> Example:
        """An event and the queues that it reaches there, by each rule; `number` is one that is written otherwise."""
        message = Message.from_json({"body": body})

        def reached(bus: str, seen: frozenset[str]) -> Iterator[str]:
            for one in self._bound:
                if one.bus != bus or not evaluate(parse(one.text, "eventbridge", limits=BODIES), message):
                    continue
                if number is not None and number in plain_numbers(json.loads(one.text)):
                    continue
                if not one.leads_on:
                    yield one.name
                elif one.name not in seen:
                    yield from reached(one.name, seen | {one.name})

        return Example({"exchange": bus, "body": body}, tuple(reached(bus, frozenset({bus}))))
