"""Why a message goes elsewhere here than in the broker: what explain says, and what is known of RabbitMQ beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from bindery.jobs.shadowing.look import Carried
from bindery.router.explain import Cause, Explanation
from bindery.router.explain import Link as Named
from bindery.router.message import Message, to_batch
from bindery.router.values import Table

#: Causes that are given of one queue.
CAUSES: Final = 3
_RING: Final = (
    "the ring of the broker follows from the order in which its bindings were made, which its API does not tell"
)
_NUMBERS: Final = "RabbitMQ 3 compares numbers whatever their type; here, as in AMQP 0-9-1, integers and floats differ"
_VOID: Final = (
    'RabbitMQ\'s API tells an argument without a value as the text "undefined", and so it was carried over: '
    "bind it here with null"
)


class Reasons:
    """Reasons for one message, under a topology as it is carried over."""

    def __init__(self, message: Message, carried: Carried) -> None:
        self._message = message
        self._carried = carried

    def not_here(self, queue: str) -> list[str]:
        """Why a message does not come to a queue that the broker gives it to."""
        carried = self._carried
        found = []
        for kind, name in (("queue", queue), ("exchange", self._message.exchange)):
            if (why := carried.lost.get((kind, name))) is not None:
                found.append(f"{kind} {name!r} is not carried over: {why}")
        for told, why in carried.lost_bindings:
            if told.get("destination") == queue and len(found) < CAUSES:
                found.append(f"a binding of exchange {told.get('source')!r} is not carried over: {why}")
        if found:
            return found
        (answer,) = self._explained(queue).why_not
        causes = answer.causes[:CAUSES]
        known = dict.fromkeys(note for cause in causes for note in self._known(cause))
        return [*(f"{cause.message}{_way(cause)}" for cause in causes), *known]

    def here(self, queue: str) -> list[str]:
        """What brings a message to a queue that the broker does not give it to."""
        steps = [step for visit in self._plain.visits for step in visit.steps]
        links = [step.link for step in steps if step.verdict == "delivered" and step.link.destination == queue]
        found = [f"{_named(link)} matches" for link in links[:CAUSES]]
        if any(visit.choice is not None for visit in self._plain.visits):
            found.append(_RING)
        return found

    @cached_property
    def _plain(self) -> Explanation:
        return self._explained()

    def _explained(self, *queues: str) -> Explanation:
        (found,) = self._carried.explainer.explain(to_batch([self._message]), clock_ms=0, queues=queues)
        return found

    def _known(self, cause: Cause) -> Iterator[str]:
        """What is known of RabbitMQ that may be behind a cause."""
        if cause.kind == "hash":
            yield _RING
        if cause.kind != "headers" or not cause.path:
            return
        binding = self._carried.topology.bindings.get(cause.path[0].id or 0)
        headers = self._message.application_properties
        for name, wanted in (Table() if binding is None else binding.arguments).items():
            sent = headers.get(name)
            if {type(wanted), type(sent)} == {int, float} and wanted == sent:
                yield _NUMBERS
            if wanted == "undefined" and name in headers:
                yield _VOID


def _way(cause: Cause) -> str:
    return f" ({', then '.join(map(_named, cause.path))})" if cause.path else ""


def _named(link: Named) -> str:
    arguments = f", arguments {json.dumps(link.arguments, ensure_ascii=False)}" if link.arguments else ""
    key = "" if link.routing_key is None else f", key {link.routing_key!r}"
    return f"{link.kind} {link.source or '(default)'} -> {link.destination}{key}{arguments}"
