"""Policies: settings that apply to every exchange or queue whose name matches a pattern.

Of the policies that match, the one with the highest priority applies; ties go to the name that sorts
first. Routing reads two keys of a policy: `alternate-exchange`, and `payload`, which is what the argument `x-payload`
of an exchange or queue says (an argument of the exchange or queue itself wins). The compatibility mode of a vhost is
asked for here too, since it holds where an exchange or queue states none. A policy that applies to streams may
have the streams of jobs keep a journal: `journal`, with `max-age` and `max-length-bytes` as brokers bound streams.
Everything else in a policy is stored and reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, cast

from bindery.router.compat import SPECIFICATION
from bindery.router.errors import InvalidDeclaration, InvalidInput
from bindery.router.model import (
    ALTERNATE_EXCHANGE,
    COMPAT_ARGUMENT,
    PAYLOAD_ARGUMENT,
    Exchange,
    Queue,
    Setting,
    Topology,
)
from bindery.router.regex import Regex, regex
from bindery.router.values import Table, Value

POLICY: Final = "policy"
OPERATOR_POLICY: Final = "operator-policy"
#: The key of a policy for the argument `x-payload`, which predeclared exchanges cannot have.
PAYLOAD_KEY: Final = "payload"
#: The key of a policy that has the streams that it covers keep a journal, and those that bound it.
JOURNAL_KEY: Final = "journal"
MAX_AGE_KEY: Final = "max-age"
MAX_BYTES_KEY: Final = "max-length-bytes"
#: What such a policy applies to: streams, by the names that jobs give them.
STREAMS: Final = "streams"
#: The least that a journal is bounded to: a file of it may be as large.
LEAST_JOURNAL_BYTES: Final = 64 << 20
#: Of `max-age` in brokers ("Streams", retention): a number and a unit.
_MAX_AGE: Final = re.compile(r"0*([1-9][0-9]{0,5})([YMDhms])")
_UNITS: Final = {"Y": 365 * 86_400, "M": 30 * 86_400, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
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
class JournalBounds:
    """How old rows of a journal become, and how many bytes its files have; None where nothing is said."""

    age: timedelta | None
    bytes: int | None


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
        if JOURNAL_KEY in self.definition:
            self._check_journal(where)

    def _check_journal(self, where: str) -> None:
        stated = self.definition[JOURNAL_KEY]
        if not isinstance(stated, bool):
            raise InvalidDeclaration(f"journal is {stated!r}", where=f"{where}: journal", hint="true or false")
        if self.apply_to != STREAMS:
            raise InvalidDeclaration(
                f"journal goes with apply-to: {STREAMS}, not {self.apply_to}",
                where=f"{where}: journal",
                hint="a journal is kept by a stream, and the pattern is one for the names of streams",
            )
        age, size = self.definition.get(MAX_AGE_KEY), self.definition.get(MAX_BYTES_KEY)
        if age is not None and _age_of(age) is None:
            raise InvalidDeclaration(
                f"max-age is {age!r}",
                where=f"{where}: {MAX_AGE_KEY}",
                hint="a number and a unit of Y, M, D, h, m, s, a minute at least, such as 7D",
            )
        if size is not None and not (isinstance(size, int) and size >= LEAST_JOURNAL_BYTES):
            raise InvalidDeclaration(
                f"max-length-bytes is {size!r}",
                where=f"{where}: {MAX_BYTES_KEY}",
                hint=f"of a journal {LEAST_JOURNAL_BYTES} at least, which are 64 MiB",
            )

    @property
    def journal(self) -> JournalBounds | None:
        """How much of their journals the streams keep that it covers; None where it has them keep none."""
        if self.definition.get(JOURNAL_KEY) is not True:
            return None
        size = self.definition.get(MAX_BYTES_KEY)
        return JournalBounds(_age_of(self.definition.get(MAX_AGE_KEY)), size if isinstance(size, int) else None)

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
        self._modes = {name: vhost.compat for name, vhost in topology.vhosts.items() if vhost.compat is not None}
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

    def journal(self, vhost: str, stream: str) -> JournalBounds | None:
        """How much of its journal a stream of that name keeps that routes the vhost; None where it keeps none."""
        for policy in self._by_vhost.get(vhost, ()):
            if policy.apply_to == STREAMS and policy.matcher.found_in(stream):
                return policy.journal
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

    def compat(self, holder: Exchange | Queue) -> str | None:
        """The compatibility mode at an exchange or queue: that of its argument, or else of its vhost."""
        stated = holder.arguments.get(COMPAT_ARGUMENT)
        if isinstance(stated, str):
            return None if stated == SPECIFICATION else stated
        return self._modes.get(holder.vhost)

    def reading(self, holder: Exchange | Queue) -> tuple[Value, str | None]:
        """What decides how the filters at an exchange or queue are read: what bodies are, and the mode."""
        return self.payload(holder), self.compat(holder)

    def payload(self, holder: Exchange | Queue) -> Value:
        """What bodies are said to be at an exchange or queue: by its argument, or else the policy that applies."""
        if PAYLOAD_ARGUMENT in holder.arguments or holder.vhost not in self.declaring:
            return holder.arguments.get(PAYLOAD_ARGUMENT)
        scope: Literal["exchanges", "queues"] = "exchanges" if isinstance(holder, Exchange) else "queues"
        policy = self.applying(scope, holder.vhost, holder.name)
        return None if policy is None else policy.definition.get(PAYLOAD_KEY)


def _age_of(value: Value) -> timedelta | None:
    """A `max-age`; None for what is none, or is under a minute."""
    found = _MAX_AGE.fullmatch(value) if isinstance(value, str) else None
    seconds = 0 if found is None else int(found[1]) * _UNITS[found[2]]
    return timedelta(seconds=seconds) if seconds >= _UNITS["m"] else None


def policies_of(topology: Topology, *, kind: str = POLICY) -> Iterator[Policy]:
    """Every stored policy, or operator policy."""
    return (policy_of(setting) for setting in topology.settings.values() if setting.kind == kind)
