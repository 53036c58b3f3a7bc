"""Amazon SNS: templates of CloudFormation, and attributes of subscriptions as the command line shows them.

A topic is a fanout exchange; a subscription is a binding with the filter policy as its filter, to a queue (SNS
developer guide, "Message filtering", "Raw message delivery"; API reference, `GetSubscriptionAttributes`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
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
from bindery.router.importers.events_of_patterns import BODIES
from bindery.router.importers.objects import Example, SourceObject
from bindery.router.message import Message
from bindery.router.model import PAYLOAD_ARGUMENT

DESCRIPTOR: Final = "aws:sns-filter"
_TOPIC: Final = "AWS::SNS::Topic"
_SUBSCRIPTION: Final = "AWS::SNS::Subscription"
_BODY: Final = "MessageBody"
_ENVELOPE: Final = "the queue gets the message as it was published, without SNS's JSON around it"
_TOPIC_IDLE: Final = frozenset(
    {
        *("TopicName", "DisplayName", "KmsMasterKeyId", "SignatureVersion", "TracingConfig", "Tags"),
        *("DeliveryStatusLogging", "Subscription", "FifoThroughputScope"),
    }
)
_TOPIC_DIFFERS: Final[Mapping[str, str]] = {
    "FifoTopic": "rows have an order; a message that is sent twice is there twice",
    "ContentBasedDeduplication": "a message that is sent twice is there twice",
    "DataProtectionPolicy": "bodies are neither read nor changed",
    "ArchivePolicy": "messages are not kept beside their queues; a stream's journal keeps what it routed",
}
_READ: Final = frozenset(
    {"SubscriptionArn", "TopicArn", "Endpoint", "Protocol", "FilterPolicy", "FilterPolicyScope", "RawMessageDelivery"}
)
_IDLE: Final[Mapping[str, str]] = {
    "RedrivePolicy": NO_FAILURE,
    "DeliveryPolicy": NO_FAILURE,
    "EffectiveDeliveryPolicy": NO_FAILURE,
    "ReplayPolicy": "`bindery backfill` brings earlier messages to a new queue",
    **dict.fromkeys(
        (
            *("Owner", "SubscriptionPrincipal", "SubscriptionRoleArn", "Region"),
            *("ConfirmationWasAuthenticated", "PendingConfirmation"),
        ),
        "nothing is confirmed or called here",
    ),
}
#: What `get-subscription-attributes` says of every subscription, and `list-subscriptions` of none.
_ATTRIBUTES: Final = frozenset({"RawMessageDelivery", "ConfirmationWasAuthenticated", "PendingConfirmation"})


def read(name: str, raw: bytes, *, access: bool = False) -> list[SourceObject]:
    """The objects of a template or of subscriptions; raises DefinitionsRefused for what is neither."""
    template = Template(name, raw)
    value = template.source.value
    listed: list[tuple[str, Any]] | None = None
    if not template.resources:
        if isinstance(value.get("Attributes"), Mapping):
            listed = [("Attributes", value["Attributes"])]
        elif isinstance(value.get("Subscriptions"), list):
            listed = [(f"Subscriptions[{number}]", one) for number, one in enumerate(value["Subscriptions"])]
        else:
            hint = 'CloudFormation has "Resources"; `aws sns get-subscription-attributes` gives "Attributes"'
            said = InvalidInput("this is no template and no attributes of subscriptions", hint=hint)
            raise refusal([template.source.problem(said, "")])
    reader = _Reader(template)
    reader.read(listed)
    return reader.found


class _Reader:
    def __init__(self, template: Template) -> None:
        self.template = template
        self.found: list[SourceObject] = []
        #: The arguments of each topic's exchange.
        self._topics: dict[str, dict[str, Any]] = {}
        self._queues = Queues()
        self._bound: set[tuple[str, str]] = set()
        #: Of each topic the queues that get everything.
        self._unfiltered: dict[str, list[str]] = {}
        #: Subscriptions that take a message without properties, and their topics.
        self._absent: list[tuple[SourceObject, str]] = []

    def read(self, listed: list[tuple[str, Any]] | None) -> None:
        for name, properties, place in self.template.of_type(_TOPIC):
            self._topic(self.template.name_of(name), place, properties)
            conditional(self.template.resources[name], self.found[-1])
        for name, item in self.template.queues():
            self._queues.declared(name)
            self.found.append(item)
        for name, stated, place, resource in self._subscriptions(listed):
            self._subscription(name, stated, place, resource)
        for item, topic in self._absent:
            item.differs(
                "FilterPolicy",
                "a message without any property has none of those that must not exist; SNS wants some attribute",
                example=Example({"exchange": topic}, tuple(self._unfiltered.get(topic, ()))),
            )
        self.found += self.template.others(_TOPIC, _SUBSCRIPTION)

    def _subscriptions(
        self, listed: list[tuple[str, Any]] | None
    ) -> Iterator[tuple[str, Mapping[str, Any], str, Mapping[str, Any] | None]]:
        """Name, what is stated, place, and the resource of a template; None for what the command line lists."""
        for name, properties, place in self.template.of_type(_TOPIC):
            inside = properties.get("Subscription")
            for number, one in enumerate(inside if isinstance(inside, list) else []):
                if isinstance(one, Mapping):
                    here = f"{member(member(place, 'Properties'), 'Subscription')}[{number}]"
                    yield f"{number + 1} of {name}", {**one, "TopicArn": {"Ref": name}}, here, {}
        for name, properties, place in self.template.of_type(_SUBSCRIPTION):
            yield name, properties, place, self.template.resources[name]
        for place, one in listed or []:
            stated = one.get("Attributes", one) if isinstance(one, Mapping) else None
            if not isinstance(stated, Mapping):
                raise refusal([self.template.source.problem(InvalidInput("expected an object"), place)])
            yield last_part(str(stated.get("SubscriptionArn", "subscription"))), stated, place, None

    def _topic(self, name: str, place: str, properties: Mapping[str, Any]) -> None:
        if name in self._topics:
            return
        arguments = self._topics[name] = {}
        item = SourceObject("topic", name, place)
        item.declares.append(("exchanges", {"name": name, "type": "fanout", "arguments": arguments}))
        for key, value in properties.items():
            if key in _TOPIC_DIFFERS:
                if value is not False:
                    item.differs(key, _TOPIC_DIFFERS[key])
            elif key not in _TOPIC_IDLE:
                item.unknown(key)
        self.found.append(item)

    def _subscription(
        self, name: str, stated: Mapping[str, Any], place: str, resource: Mapping[str, Any] | None
    ) -> None:
        item = SourceObject("subscription", name, place)
        topic, endpoint = self.template.text(stated.get("TopicArn")), self.template.text(stated.get("Endpoint"))
        if topic is not None:
            self._topic(last_part(topic), place, {})
        self.found.append(item)
        conditional(resource or {}, item)
        if topic is None:
            item.lost("nobody says which topic it is of", "TopicArn", hint="write the topic's ARN into the template")
            return
        for key in stated:
            if key in _IDLE:
                item.idle(key, _IDLE[key])
            elif key not in _READ:
                item.unknown(key)
        if resource is None and not _ATTRIBUTES & stated.keys():
            item.lost("the list says no filter policies", hint="`aws sns get-subscription-attributes` says them")
            return
        if str(stated.get("PendingConfirmation", "false")).lower() == "true":
            item.lost(
                "it is not confirmed: no message goes there", "PendingConfirmation", hint="confirm it, or leave it"
            )
            return
        exchange = last_part(topic)
        text = self._policy(item, stated, exchange)
        if text is None:
            return
        protocol = str(stated.get("Protocol"))
        # of a function or stream the name is known, of an address of mail or the web there is none
        is_named = (endpoint or "").startswith("arn:") or self.template.resource_of(stated.get("Endpoint")) is not None
        queue = last_part(endpoint) if endpoint and (protocol == "sqs" or is_named) else name
        self._queues.add(item, queue, endpoint or "")
        if protocol != "sqs":
            item.differs(
                "Protocol",
                f"{protocol} is not called: its messages wait in the queue {queue!r}",
                hint="let it read the queue",
            )
        if protocol == "sqs" and str(stated.get("RawMessageDelivery", "false")).lower() != "true":
            item.differs("RawMessageDelivery", _ENVELOPE, hint="readers take the body itself")
        if (exchange, queue) in self._bound:
            item.differs("Endpoint", f"a message that fits several subscriptions is in the queue {queue!r} once")
        self._bound.add((exchange, queue))
        if not text:
            self._unfiltered.setdefault(exchange, []).append(queue)
        elif stated.get("FilterPolicyScope") != _BODY and evaluate(parse(text, "sns", limits=BODIES), Message()):
            self._absent.append((item, exchange))
        item.declares.append(("bindings", bound(exchange, queue, "queue", DESCRIPTOR, text)))

    def _policy(self, item: SourceObject, stated: Mapping[str, Any], exchange: str) -> str | None:
        """The text of the filter, empty without one; None where it cannot be carried over, which is said."""
        raw = stated.get("FilterPolicy")
        policy = resolved(self.template, parsed(raw))
        if policy in (None, {}, ""):
            return ""
        open_ = unresolved(policy)
        if open_ is not None:
            item.lost(f"nobody says what {open_} is", "FilterPolicy", hint="write the value into the policy")
            return None
        text = raw if isinstance(raw, str) else json.dumps(policy, ensure_ascii=False)
        if stated.get("FilterPolicyScope") == _BODY:
            text = f'{{"FilterPolicyScope": "{_BODY}", "FilterPolicy": {text}}}'
        try:
            parse(text, "sns", limits=BODIES)
        except FilterError as error:
            item.lost(f"the policy is refused: {error.message}", "FilterPolicy", hint=error.hint)
            return None
        if stated.get("FilterPolicyScope") == _BODY:
            self._topics[exchange][PAYLOAD_ARGUMENT] = "json"
        return text
