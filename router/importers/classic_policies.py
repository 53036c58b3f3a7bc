"""Policies of destinations of ActiveMQ Classic: which one holds for a queue, and what of them comes here.

A message whose time to live has passed goes to the dead letter queue (`SharedDeadLetterStrategy`, `ActiveMQ.DLQ` where
nothing is said; `IndividualDeadLetterStrategy`). Here messages expire in queues with a `message-ttl`, which queues have
where `timeStampingBrokerPlugin` gives every message a time to live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, Final

from bindery.router.importers import classic_known as known
from bindery.router.importers.classic_virtual import QUEUE, TOPIC, is_pattern, matches
from bindery.router.importers.objects import NO_RETRIES, OF_BROKER, SourceObject, late
from bindery.router.importers.xml import Element
from bindery.router.queue_limits import DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, MESSAGE_TTL, argument

_SHARED: Final = "ActiveMQ.DLQ"
_PREFIX: Final = "ActiveMQ.DLQ.Queue."
_TTL: Final = argument(MESSAGE_TTL)
_LATE: Final = late("Classic")
_NEVER: Final = "it gets what was delivered too often, and what expires: that is, of queues with a message-ttl here"
_STRATEGIES: Final = ("sharedDeadLetterStrategy", "individualDeadLetterStrategy", "discarding")


@dataclass(frozen=True, slots=True)
class _Policy:
    """An entry: the queues that it is about, and its dead letter strategy, if it states one."""

    item: SourceObject
    pattern: str
    letters: Element | None


def _more_general(one: _Policy, other: _Policy) -> int:
    """The order of `ActiveMQDestination.compare`: what stands for another comes behind it, else by name."""
    if one.pattern == other.pattern:
        return 0
    if is_pattern(one.pattern) and matches(one.pattern, other.pattern):
        return 1
    if is_pattern(other.pattern) and matches(other.pattern, one.pattern):
        return -1
    return -1 if one.pattern < other.pattern else 1


class Policies:
    """The policies of a broker; `add` makes an object of the source."""

    def __init__(self, add: Callable[[str, str, Element], SourceObject]) -> None:
        self._add = add
        self._of_queues: list[_Policy] = []
        self._otherwise: _Policy | None = None
        self._ttl: int | None = None
        self._drops = False
        self._arguments: dict[str, dict[str, Any]] = {}

    def __len__(self) -> int:
        """How many entries are about queues."""
        return len(self._of_queues)

    def read(self, policy_map: Element) -> None:
        """The entries of a `policyMap`."""
        entries = [one for part in policy_map.all("policyEntries") for one in part.children]
        entries += [one for part in policy_map.all("entries") for one in part.children]
        for entry in entries:
            self._entry(entry)
        for entry in (one for part in policy_map.all("defaultEntry") for one in part.children):
            self._otherwise = self._entry(entry, by_default=True)

    def _entry(self, entry: Element, *, by_default: bool = False) -> _Policy | None:
        said = entry.attributes
        kind = next((one for one in (QUEUE, TOPIC, "tempQueue", "tempTopic") if one in said), "")
        pattern = said.get(kind, "")
        for one in (inner for part in entry.all("destination") for inner in part.children):
            kind, pattern = one.name, one.attributes.get("physicalName", one.attributes.get("name", ""))
        item = self._add("policy", "of all others" if by_default else f"{kind} {pattern}", entry)
        for key in dict.fromkeys([*said, *(child.name for child in entry.children)]):
            if key in known.POLICY:
                asks_nothing, why = known.POLICY[key]
                if said.get(key, "").lower() not in asks_nothing and not _is_none(entry, key):
                    item.differs(key, why)
            elif key in known.POLICY_IDLE:
                item.idle(key, OF_BROKER)
            elif key not in known.POLICY_READ:
                item.unknown(key)
        found = [one for part in entry.all("deadLetterStrategy") for one in part.children]
        letters = found[0] if found else None
        if letters is not None:
            self._strategy(item, letters)
        policy = _Policy(item, pattern, letters)
        if kind == QUEUE and not by_default:
            self._of_queues += [_Policy(item, one.strip(), letters) for one in pattern.split(",")]
        return policy

    @staticmethod
    def _strategy(item: SourceObject, letters: Element) -> None:
        if letters.name not in _STRATEGIES:
            item.differs("deadLetterStrategy", f"{letters.name} is a strategy of one's own, and does not run here")
            return
        for key in (letters.attributes.keys() | {child.name for child in letters.children}) - known.LETTERS:
            item.unknown(f"deadLetterStrategy.{key}")
        if letters.name == "discarding":
            item.idle("deadLetterStrategy", "nothing is kept of what expires or was delivered too often")

    def plugin(self, item: SourceObject, plugin: Element) -> bool:
        """Take a plugin that is about times to live or dead letters; False for others."""
        said = plugin.attributes
        if plugin.name == "discardingDLQBrokerPlugin":
            self._drops = said.get("dropAll", "true").lower() == "true"
            if self._drops:
                item.idle("", "nothing is kept of what expires or was delivered too often")
            elif "dropOnly" in said:
                item.differs("dropOnly", "the dead letters of all queues are kept")
            return True
        if plugin.name != "timeStampingBrokerPlugin":
            return False
        for key in said.keys() - {"zeroExpirationOverride", "ttlCeiling", "futureOnly", "processNetworkMessages", "id"}:
            item.unknown(key)
        given, most = (_milliseconds(item, key, said.get(key, "0")) for key in ("zeroExpirationOverride", "ttlCeiling"))
        if given > 0:
            self._ttl = min(given, most) if most > 0 else given
            item.differs("zeroExpirationOverride", f"the message-ttl of every queue of the file: {_LATE}")
            if self._ttl != most:
                item.differs("ttlCeiling", f"here {self._ttl} ms bound messages that state a longer time to live, too")
        elif most > 0:
            item.differs("ttlCeiling", "times to live are not changed", hint="a policy with message-ttl bounds queues")
        item.idle("", "rows say when they were routed")
        return True

    def settle(self, queues: Iterable[str]) -> list[tuple[SourceObject, str]]:
        """Work out the arguments of queues; gives the dead letter queues that are to be declared, and by whom."""
        wanted: list[tuple[SourceObject, str]] = []
        letters_of = {queue: self._policy_of(queue) for queue in queues}
        targets = {self._target(queue, policy) for queue, policy in letters_of.items()}
        for queue, policy in letters_of.items():
            arguments = self._arguments[queue] = {}
            if self._ttl is None or queue in targets:
                continue
            arguments[_TTL] = self._ttl
            target = self._target(queue, policy)
            if target is not None:
                arguments |= {argument(DEAD_LETTER_EXCHANGE): "", argument(DEAD_LETTER_ROUTING_KEY): target}
                if policy is not None:
                    wanted.append((policy.item, target))
        for policy in self._of_queues:
            if policy.letters is not None and policy.letters.name in _STRATEGIES[:2]:
                self._tell(policy)
        return wanted

    def _tell(self, policy: _Policy) -> None:
        if self._ttl is None:
            policy.item.differs("deadLetterStrategy", _NEVER)
        else:
            policy.item.differs("deadLetterStrategy", f"it gets what expires, {_LATE}; {NO_RETRIES}")
            if policy.letters is not None and policy.letters.attributes.get("processNonPersistent") != "true":
                policy.item.differs(
                    "deadLetterStrategy.processNonPersistent", "messages that are not persistent are kept as well"
                )

    def _policy_of(self, queue: str) -> _Policy | None:
        exact = [one for one in self._of_queues if one.pattern == queue]
        found = exact or [one for one in self._of_queues if matches(one.pattern, queue)]
        return min(found, key=cmp_to_key(_more_general)) if found else self._otherwise

    def _target(self, queue: str, policy: _Policy | None) -> str | None:
        """The dead letter queue of a queue; None where nothing is kept, or where it is no queue."""
        if self._drops:
            return None
        letters = None if policy is None else policy.letters
        if letters is None:
            return _SHARED
        said = letters.attributes
        if letters.name == "discarding" or said.get("processExpired", "true").lower() != "true":
            return None
        if letters.name == "individualDeadLetterStrategy":
            if said.get("useQueueForQueueMessages", "true").lower() != "true":
                return None
            return f"{said.get('queuePrefix', _PREFIX)}{queue}{said.get('queueSuffix', '')}"
        for one in (inner for part in letters.all("deadLetterQueue") for inner in part.children):
            return one.attributes.get("physicalName", _SHARED) if one.name == QUEUE else None
        return _SHARED if letters.name == "sharedDeadLetterStrategy" else None

    def arguments(self, queue: str) -> dict[str, Any]:
        """The arguments of a queue."""
        return self._arguments.get(queue, {})


def _is_none(entry: Element, key: str) -> bool:
    """A policy that states that there is none."""
    return any(one.name == "noSubscriptionRecoveryPolicy" for part in entry.all(key) for one in part.children)


def _milliseconds(item: SourceObject, key: str, stated: str) -> int:
    try:
        return int(stated)
    except ValueError:
        item.unknown(key, "this is no number: nothing comes of it")
        return 0
