"""What documents of AWS have in common: templates of CloudFormation, names in ARNs, queues of SQS.

A template names what it declares by logical ids, and says the rest with functions (CloudFormation user guide,
"Intrinsic function reference"). What needs no account to be known is worked out: references to resources and to
parameters with defaults, and texts joined of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bindery.router.documents import Source, read_source, refusal
from bindery.router.documents.places import member
from bindery.router.errors import InvalidInput
from bindery.router.importers.objects import NO_RETRIES, SourceObject, late
from bindery.router.queue_limits import MESSAGE_TTL, argument

_SUBSTITUTED: Final = re.compile(r"\$\{([^!}][^}]*)\}")
#: What each account and region is called where nobody says which.
_PSEUDO: Final = {
    "AWS::Partition": "aws",
    "AWS::Region": "region",
    "AWS::AccountId": "account",
    "AWS::StackName": "stack",
    "AWS::URLSuffix": "amazonaws.com",
}
#: Properties that give a resource its name.
_NAMES: Final = ("QueueName", "TopicName", "FunctionName", "Name", "StateMachineName", "DeliveryStreamName")
_WITH: Final = "`bindery import --from {}` reads it in this file"
#: Types of resources, or what they begin with -> what is lost with them, and what to do; of all others no message goes
#: elsewhere.
_LOST: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(
        ("AWS::Events::EventBus", "AWS::Events::Rule"),
        ("it is of EventBridge", _WITH.format("eventbridge")),
    ),
    **dict.fromkeys(("AWS::SNS::Topic", "AWS::SNS::Subscription"), ("it is of SNS", _WITH.format("sns"))),
    "AWS::Serverless": (
        "what SAM makes of it is not known",
        "`aws cloudformation get-template --template-stage Processed` gives a template without SAM",
    ),
    "AWS::CloudFormation::Stack": ("its resources stand elsewhere", "import its template by itself"),
    "AWS::Events::Archive": ("events are not kept beside their queues", "a stream's journal keeps what it routed"),
    "AWS::Events::ApiDestination": ("nothing is sent to an address", "a reader of the queue calls it"),
    "AWS::Events::Endpoint": ("there is one service", "object stores and catalogs are replicated by themselves"),
    "AWS::Pipes::Pipe": ("nothing is handed on", "a job reads a queue and feeds an exchange"),
    "AWS::Scheduler::Schedule": ("nothing is published by the clock", "publish from cron or a workflow"),
}
NO_FAILURE: Final = "a queue gets its messages with the commit of their batch, which does not fail for it alone"
_QUEUE: Final = "AWS::SQS::Queue"
OF_AWS: Final = "no message goes elsewhere for it"
_IDLE_OF_QUEUES: Final = frozenset(
    {
        *("QueueName", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled", "Tags"),
        *("RedriveAllowPolicy", "FifoThroughputLimit", "DeduplicationScope"),
        *("VisibilityTimeout", "ReceiveMessageWaitTimeSeconds"),
    }
)
_LATE: Final = late("SQS")


class Queues:
    """The queues of a topology, by name: two endpoints of one name are two queues there, and one here."""

    def __init__(self) -> None:
        self._endpoints: dict[str, str] = {}

    def add(self, item: SourceObject, name: str, endpoint: str = "") -> None:
        """Have a queue declared by an object unless there is one of that name."""
        if name not in self._endpoints:
            self._endpoints[name] = endpoint
            item.declares.append(("queues", {"name": name}))
        elif self._endpoints[name] and endpoint and self._endpoints[name] != endpoint:
            item.differs("", f"there is another queue called {name!r}, in another region or account: here both are one")

    def declared(self, name: str) -> None:
        """A queue that the document declares itself."""
        self._endpoints[name] = ""


class Template:
    """A document of AWS: the resources of a template, if it is one, and what is said of values in it."""

    def __init__(self, name: str, raw: bytes) -> None:
        self.source: Source = read_source(name, raw)
        self.resources = self._mapping("Resources")
        self._parameters = self._mapping("Parameters")

    def _mapping(self, section: str) -> dict[str, Mapping[str, Any]]:
        found = self.source.value.get(section, {})
        if not isinstance(found, Mapping):
            raise refusal([self.source.problem(InvalidInput("expected an object"), section)])
        for name, one in found.items():
            if not isinstance(one, Mapping):
                raise refusal([self.source.problem(InvalidInput("expected an object"), member(section, name))])
        return dict(found)

    def of_type(self, kind: str) -> Iterator[tuple[str, Mapping[str, Any], str]]:
        """The resources of a type: logical id, properties and place."""
        for name, resource in self.resources.items():
            if resource.get("Type") == kind:
                properties = resource.get("Properties")
                yield name, properties if isinstance(properties, Mapping) else {}, member("Resources", name)

    def text(self, value: Any) -> str | None:
        """What a value is as text, functions worked out; None where that takes an account."""
        if isinstance(value, str):
            return value
        if isinstance(value, bool) or value is None:
            return None
        if isinstance(value, int | float):
            return json.dumps(value)
        if not isinstance(value, Mapping) or len(value) != 1:
            return None
        ((function, stated),) = value.items()
        match function, stated:
            case "Ref", str():
                return self._referred(stated)
            case "Fn::GetAtt", [str() as resource, "Arn" | "Name" | "TopicName" | "QueueName"]:
                return self._referred(resource)
            case "Fn::GetAtt", str():
                return self._referred(stated.partition(".")[0])
            case "Fn::Sub", str():
                return self._substituted(stated, {})
            case "Fn::Sub", [str() as text, Mapping() as values]:
                return self._substituted(text, values)
            case "Fn::Join", [str() as between, list() as parts]:
                texts = [self.text(part) for part in parts]
                return None if None in texts else between.join(map(str, texts))
        return None

    def _referred(self, name: str) -> str | None:
        if name in self.resources:
            return self.name_of(name)
        if name in _PSEUDO:
            return _PSEUDO[name]
        default = self._parameters.get(name, {}).get("Default")
        return default if isinstance(default, str) else None

    def _substituted(self, text: str, values: Mapping[str, Any]) -> str | None:
        unknown = False

        def known(found: re.Match[str]) -> str:
            nonlocal unknown
            value = self.text(values[found[1]]) if found[1] in values else self._referred(found[1].partition(".")[0])
            unknown = unknown or value is None
            return value or ""

        replaced = _SUBSTITUTED.sub(known, text)
        return None if unknown else replaced

    def name_of(self, resource: str) -> str:
        """What a resource of the template is called: the name that it states, else its logical id."""
        properties = self.resources[resource].get("Properties")
        stated = [properties.get(key) for key in _NAMES] if isinstance(properties, Mapping) else []
        return next((name for name in stated if isinstance(name, str)), resource)

    def resource_of(self, value: Any) -> str | None:
        """The type of the resource of the template that a value refers to."""
        if isinstance(value, Mapping) and len(value) == 1:
            ((function, stated),) = value.items()
            name = stated[0] if isinstance(stated, list) and stated else stated
            if function in ("Ref", "Fn::GetAtt") and isinstance(name, str):
                kind = self.resources.get(name.partition(".")[0], {}).get("Type")
                return kind if isinstance(kind, str) else None
        return None

    def service_of(self, value: Any) -> str:
        """The service of the resource that a value refers to, as ARNs call it: `sqs`, `lambda` …"""
        kind = self.resource_of(value)
        if kind is not None:
            return kind.split("::")[1].lower()
        text = self.text(value) or ""
        return text.split(":")[2] if text.startswith("arn:") and text.count(":") >= 5 else ""

    def others(self, *known: str) -> Iterator[SourceObject]:
        """The resources of other types than those known and queues, and what is lost with them."""
        for name, resource in self.resources.items():
            kind = str(resource.get("Type"))
            if kind in known or kind == _QUEUE:
                continue
            item = SourceObject(kind, name, member("Resources", name))
            found = _LOST.get(kind) or _LOST.get(kind.rpartition("::")[0])
            properties = resource.get("Properties")
            if found is not None:
                item.lost(found[0], hint=found[1])
            elif isinstance(properties, Mapping) and "NotificationConfiguration" in properties:
                item.differs("NotificationConfiguration", "nobody publishes what happens to it", hint="publish it")
            else:
                item.idle("", OF_AWS)
            yield item

    def queues(self) -> Iterator[tuple[str, SourceObject]]:
        """The queues of SQS that the template declares, and what they are called."""
        for name, properties, place in self.of_type(_QUEUE):
            called = self.name_of(name)
            item = SourceObject("queue", called, place)
            arguments: dict[str, Any] = {}
            for key, value in properties.items():
                _of_queue(item, key, value, arguments)
            item.declares.append(("queues", {"name": called, "arguments": arguments}))
            conditional(self.resources[name], item)
            yield called, item


def _of_queue(item: SourceObject, key: str, value: Any, arguments: dict[str, Any]) -> None:
    seconds = value if isinstance(value, int) and not isinstance(value, bool) else None
    match key:
        case "MessageRetentionPeriod" if seconds is not None:
            arguments[argument(MESSAGE_TTL)] = seconds * 1000
            item.differs(key, _LATE)
        case "RedrivePolicy":
            item.idle(key, NO_RETRIES)
        case "DelaySeconds":
            if value != 0:
                item.differs(key, "messages are there with their batch, and not later")
        case "MaximumMessageSize":
            item.differs(key, "a message of any size stays; jobs bound their records")
        case "FifoQueue" | "ContentBasedDeduplication":
            if value is True:
                item.differs(key, "rows have an order; a message that is sent twice is there twice")
        case _ if key in _IDLE_OF_QUEUES:
            item.idle(key, OF_AWS)
        case _:
            item.unknown(key)


def conditional(resource: Mapping[str, Any], item: SourceObject) -> None:
    """A resource with a condition is declared whatever that says."""
    if "Condition" in resource:
        item.differs("Condition", "it is declared whatever the condition says")


def last_part(arn: str) -> str:
    """The name at the end of an ARN; a text that is none is a name itself."""
    if not arn.startswith("arn:"):
        return arn
    parts = arn.split(":", 5)
    resource = parts[5] if len(parts) == 6 else parts[-1]
    if parts[2] == "lambda":
        return resource.removeprefix("function:").partition(":")[0]
    return re.split("[:/]", resource)[-1]


def parsed(text: Any) -> Any:
    """What stands in a document as JSON text, or as itself."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def resolved(template: Template, value: Any) -> Any:
    """A pattern or policy of a template with its references worked out; what cannot be stays as it is."""
    if isinstance(value, Mapping):
        if len(value) == 1 and next(iter(value)) in ("Ref", "Fn::Sub", "Fn::Join", "Fn::GetAtt"):
            uses = json.dumps(value)
            found = None if "AWS::" in uses else template.text(value)
            return value if found is None else found
        return {key: resolved(template, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [resolved(template, inner) for inner in value]
    return value


def unresolved(value: Any) -> str | None:
    """A function of a template that nobody has worked out, such as `{"Ref": "AWS::AccountId"}`."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "Ref" or key.startswith("Fn::"):
                return json.dumps(value)
            found = unresolved(inner)
            if found is not None:
                return found
    elif isinstance(value, list):
        return next((found for found in map(unresolved, value) if found is not None), None)
    return None


def bound(source: str, destination: str, kind: str, descriptor: str, text: str) -> dict[str, Any]:
    """A binding with a filter, if there is one."""
    arguments = {"x-filters": {"filter": {"descriptor": descriptor, "value": text}}} if text else {}
    return {
        "source": source,
        "destination": destination,
        "destination_type": kind,
        "routing_key": "",
        "arguments": arguments,
    }
