"""Policies: settings that apply to every exchange or queue whose name matches a pattern.

Of the policies that match, the one with the highest priority applies; ties go to the name that sorts
first. Routing reads two keys of a policy: `alternate-exchange`, and `payload`, which is what the argument `x-payload`
of an exchange or queue says (an argument of the exchange or queue itself wins). Everything else in a policy is stored
and reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, cast

from bindery.router.errors import InvalidDeclaration, InvalidInput
from bindery.router.model import ALTERNATE_EXCHANGE, PAYLOAD_ARGUMENT, Exchange, Queue, Setting, Topology
from bindery.router.regex import Regex, regex
from bindery.router.values import Table, Value

POLICY: Final = "policy"
OPERATOR_POLICY: Final = "operator-policy"
#: The key of a policy for the argument `x-payload`, which predeclared exchanges cannot have.
PAYLOAD_KEY: Final = "payload"
#: What a policy's `apply-to` covers; the queue kinds beyond these cover no object of ours.
APPLY_TO: Final[dict[str, frozenset[str]]] = {
    "all": frozenset({"exchanges", "queues"}),
    "exchanges": frozenset({"exchanges"}),
    "queues": frozenset({"queues"}),
    "classic_queues": frozenset({"queues"}),
    "quorum_queues": frozenset(),
    "streams": frozenset(),
}


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy: `pattern` is searched in names; `definition` maps keys to values."""

    vhost: str
    name: str
    pattern: str
    definition: Table
    apply_to: str = "all"
    priority: int = 0

    def __post_init__(self) -> None:
        """Raises InvalidDeclaration for a pattern or a scope that is none."""
        where = f"policy {self.name!r}"
        if self.apply_to not in APPLY_TO:
            raise InvalidDeclaration(
                f"apply-to is {self.apply_to!r}", where=f"{where}: apply-to", hint="one of " + ", ".join(APPLY_TO)
            )
        try:
            regex(self.pattern)
        except InvalidInput as error:
            raise InvalidDeclaration(error.message, where=f"{where}: pattern", hint=error.hint) from None

    @property
    def matcher(self) -> Regex:
        """The compiled pattern."""
        return regex(self.pattern)

    def setting(self, kind: str = POLICY) -> Setting:
        """The policy as it is stored."""
        value = Table(
            {
                "pattern": self.pattern,
                "definition": self.definition,
                "apply-to": self.apply_to,
                "priority": self.priority,
            }
        )
        return Setting(kind, self.vhost, self.name, value)


def policy_of(setting: Setting) -> Policy:
    """The policy behind a stored setting."""
    value = cast(Table, setting.value)
    return Policy(
        vhost=setting.vhost,
        name=setting.name,
        pattern=cast(str, value["pattern"]),
        definition=cast(Table, value["definition"]),
        apply_to=cast(str, value["apply-to"]),
        priority=cast(int, value["priority"]),
    )


class Policies:
    """The policies of one topology, ready to be asked per object: in each vhost, strongest first."""

    def __init__(self, topology: Topology, *, kind: str = POLICY) -> None:
        self._by_vhost: dict[str, list[Policy]] = {}
        for policy in policies_of(topology, kind=kind):
            self._by_vhost.setdefault(policy.vhost, []).append(policy)
        for policies in self._by_vhost.values():
            policies.sort(key=lambda policy: (-policy.priority, policy.name))
        #: The vhosts of which a policy says what bodies are.
        self.declaring = {
            vhost
            for vhost, policies in self._by_vhost.items()
            if any(PAYLOAD_KEY in policy.definition for policy in policies)
        }

    def applying(self, scope: Literal["exchanges", "queues"], vhost: str, name: str) -> Policy | None:
        """The policy that applies to the exchange or queue of that name."""
        for policy in self._by_vhost.get(vhost, ()):
            if scope in APPLY_TO[policy.apply_to] and policy.matcher.found_in(name):
                return policy
        return None

    def alternate_exchange(self, exchange: Exchange) -> str | None:
        """The exchange's alternate: its own argument, or else that of the policy that applies.

        The empty name is no alternate, and an empty argument of the exchange hides a policy's.
        """
        value: Value = exchange.arguments.get(ALTERNATE_EXCHANGE)
        if value is None:
            policy = self.applying("exchanges", exchange.vhost, exchange.name)
            value = None if policy is None else policy.definition.get(ALTERNATE_EXCHANGE)
        return value if isinstance(value, str) and value else None

    def payload(self, holder: Exchange | Queue) -> Value:
        """What bodies are said to be at an exchange or queue: by its argument, or else the policy that applies."""
        if PAYLOAD_ARGUMENT in holder.arguments or holder.vhost not in self.declaring:
            return holder.arguments.get(PAYLOAD_ARGUMENT)
        scope: Literal["exchanges", "queues"] = "exchanges" if isinstance(holder, Exchange) else "queues"
        policy = self.applying(scope, holder.vhost, holder.name)
        return None if policy is None else policy.definition.get(PAYLOAD_KEY)


def policies_of(topology: Topology, *, kind: str = POLICY) -> Iterator[Policy]:
    """Every stored policy, or operator policy."""
    return (policy_of(setting) for setting in topology.settings.values() if setting.kind == kind)
