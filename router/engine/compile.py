"""From a topology to flat arrays: what `Router` ships to workers and walks.

Bindings, diverts, the default exchange's implicit bindings and alternate bindings to queues all become
*links*: rows of parallel arrays with an id, a destination and a replacement key. Links of one exchange that
ask the same question form a rule; a rule lists its links without filter first, and its filtered links form
one filter group. The filters of the queues that its other links lead to form a group, too, its *gate*: however
many queues there are behind a rule, a message asks once, and what is evaluated is what its values lead to. The
diverts of an exchange are one rule of their own that every message meets.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bindery.router.columns import Ref
from bindery.router.filters import Filter, FilterGroups
from bindery.router.filters.limits import Payload
from bindery.router.filters.payload import referred
from bindery.router.links import Link, Links, replacement_key
from bindery.router.matching.matcher import Matcher
from bindery.router.matching.texts import Int32s, TextTable
from bindery.router.model import ALTERNATE_BINDING, ALTERNATE_EXCHANGE, Binding, Divert, Exchange, Topology
from bindery.router.transforms import Transformation

Bools = npt.NDArray[np.bool_]

#: An alternate that is not set, and one whose target does not exist.
UNSET = -1
MISSING = -2
#: Id of links that leave no trace in the lineage: alternate bindings.
NO_ID = -1


@dataclass(frozen=True, slots=True)
class LinkTable:
    """Everything that leads from an exchange to a queue or exchange, as parallel arrays.

    id         lineage id; NO_ID for alternate bindings
    queue      destination queue number, -1 when it is an exchange
    exchange   destination exchange number, -1 when it is a queue
    key        position in `Plan.replacement_keys`, -1 = the keys stay
    divert     diverts
    exclusive  exclusive diverts
    source     the exchange that it starts from
    """

    id: Int32s
    queue: Int32s
    exchange: Int32s
    key: Int32s
    divert: Bools
    exclusive: Bools
    source: Int32s


@dataclass(frozen=True, slots=True)
class Changing:
    """Links that change what goes over them. In the table of links they lead nowhere; others stand for where they lead.

    of      int32[l]  per link its position in `statements`, or -1
    behind  int32[l]  per link the one that stands for where it leads, or -1; that has NO_ID
    """

    statements: tuple[Transformation, ...]
    of: Int32s
    behind: Int32s


@dataclass(frozen=True, slots=True)
class Rules:
    """Which links a met rule gives (see `kernels.expand`).

    first  its first link
    plain  how many links from there on have no filter
    gated  how many of these, the last ones, lead to queues with filters
    gate   the group of these queues' filters, in the order of the links, or -1
    group  the group of the filters of its other links, or -1
    """

    first: Int32s
    plain: Int32s
    gated: Int32s
    gate: Int32s
    group: Int32s


@dataclass(frozen=True, slots=True)
class Groups:
    """The filter groups: of links, of the queues behind a rule (gates), and one for each queue with a filter.

    first         int32[g+1]  group g has the members `link[first[g]:first[g + 1]]`
    link          int32[m]    the link of a member; for queue filters -1 - queue number
    needed        int32[m]    how many filters of the member's link must accept; 1 for queue filters
    several       whether any link has more than one filter
    links         int32[g]    distinct links per group
    place         int32[g]    the exchange that the filters of a group stand at; below 0 for those of queues
    of_queue      int32[q]    the group of a queue's filter alone, or -1
    any_of_queue  whether any queue has a filter
    """

    filters: FilterGroups
    first: Int32s
    link: Int32s
    needed: Int32s
    several: bool
    links: Int32s
    place: Int32s
    of_queue: Int32s
    any_of_queue: bool


@dataclass(frozen=True, slots=True)
class Exchanges:
    """Per exchange number what the walk needs to know.

    divert_rule        rule of its diverts, or -1
    alternate          exchange number of `alternate-exchange`, UNSET or MISSING
    alternate_link     link of `alternate-binding`, UNSET or MISSING
    """

    names: TextTable
    internal: Bools
    rejects: Bools
    records: Bools
    divert_rule: Int32s
    alternate: Int32s
    alternate_link: Int32s


@dataclass(frozen=True)
class Plan:
    """A vhost, compiled. Exchanges and queues are numbered in the order of their names."""

    vhost: str
    version: int
    queues: tuple[str, ...]
    queue_ids: Int32s
    exchange_names: tuple[str, ...]
    exchanges: Exchanges
    matchers: tuple[Matcher | None, ...]
    links: LinkTable
    rules: Rules
    groups: Groups
    replacement_keys: tuple[str, ...]
    body_refs: Mapping[Payload, Collection[Ref]]
    changing: Changing | None

    @property
    def has_alternate_bindings(self) -> bool:
        """Whether any exchange has an alternate binding whose target exists."""
        return bool((self.exchanges.alternate_link >= 0).any())


@dataclass(slots=True)
class _Link:
    """One link while the plan is built."""

    id: int
    source: int
    queue: int = -1
    exchange: int = -1
    key: int = -1
    divert: bool = False
    exclusive: bool = False
    filters: tuple[Filter, ...] = ()
    change: int = -1
    behind: int = -1
    leads: _Link | None = None


class _Compiler:
    def __init__(self, topology: Topology, vhost: str) -> None:
        self._declared = declared = Links(topology, vhost)
        self._exchange_number = {name: number for number, name in enumerate(declared.exchanges)}
        self._queue_number = {name: number for number, name in enumerate(declared.queues)}
        self._keys: dict[str, int] = {}
        self._links: list[_Link] = []
        self._rule_first: list[int] = []
        self._rule_plain: list[int] = []
        self._rule_gated: list[int] = []
        self._rule_gate: list[int] = []
        self._rule_group: list[int] = []
        self._groups: list[list[tuple[int, Filter]]] = []
        self._queue_filters = [declared.queue_filter(queue) for queue in declared.queues.values()]
        self._gates: dict[tuple[int, ...], int] = {}
        self._changes: dict[Transformation, int] = {}

    def plan(self) -> Plan:
        exchanges = self._declared.exchanges.values()
        matchers = [self._compile_exchange(exchange) for exchange in exchanges]
        diverts = [self._compile_diverts(exchange.name) for exchange in exchanges]
        alternates = [self._alternate(exchange.name) for exchange in exchanges]
        alternate_links = [self._alternate_link(exchange.name) for exchange in exchanges]
        of_queue = [
            -1 if accepts is None else self._gate((number,)) for number, accepts in enumerate(self._queue_filters)
        ]
        groups = self._frozen_groups(of_queue)
        changing = self._changing()
        return Plan(
            vhost=self._declared.vhost,
            version=self._declared.topology.version,
            queues=tuple(self._queue_number),
            queue_ids=_numbers(queue.id for queue in self._declared.queues.values()),
            exchange_names=tuple(self._exchange_number),
            exchanges=Exchanges(
                names=TextTable.of(list(self._exchange_number)),
                internal=_flags(exchange.internal for exchange in exchanges),
                rejects=_flags(exchange.rejects_unroutable for exchange in exchanges),
                records=_flags(exchange.records_unroutable for exchange in exchanges),
                divert_rule=_numbers(diverts),
                alternate=_numbers(alternates),
                alternate_link=_numbers(alternate_links),
            ),
            matchers=tuple(matchers),
            links=LinkTable(
                id=_numbers(link.id for link in self._links),
                queue=_numbers(link.queue for link in self._links),
                exchange=_numbers(link.exchange for link in self._links),
                key=_numbers(link.key for link in self._links),
                divert=_flags(link.divert for link in self._links),
                exclusive=_flags(link.exclusive for link in self._links),
                source=_numbers(link.source for link in self._links),
            ),
            rules=Rules(
                first=_numbers(self._rule_first),
                plain=_numbers(self._rule_plain),
                gated=_numbers(self._rule_gated),
                gate=_numbers(self._rule_gate),
                group=_numbers(self._rule_group),
            ),
            groups=groups,
            replacement_keys=tuple(self._keys),
            body_refs=_body_refs(groups.filters, matchers),
            changing=changing,
        )

    # -- bindings and diverts -----------------------------------------------------------------------

    def _compile_exchange(self, exchange: Exchange) -> Matcher | None:
        bindings = self._declared.bindings_from(exchange.name)
        if not bindings:
            return None
        base = len(self._rule_first)
        matcher, rules = self._declared.type_at(exchange.name).compile(bindings, base)
        links: dict[int, list[_Link]] = {}
        for binding, rule in zip(bindings, rules, strict=True):
            links.setdefault(rule, []).append(self._link(binding.id, binding))
        for rule in range(base, base + len(links)):
            self._add_rule(links[rule])
        return matcher

    def _compile_diverts(self, source: str) -> int:
        links = [self._link(divert.id, divert) for divert in self._declared.diverts_from(source)]
        if not links:
            return -1
        self._add_rule(links)
        return len(self._rule_first) - 1

    def _link(self, number: int, link: Link) -> _Link:
        made = _Link(number, self._exchange_number[link.source])
        changes = None
        if not isinstance(link, Binding) or len(link.arguments):  # most bindings have none: nothing is called for them
            made.filters = tuple(self._declared.filters(link).values())
            changes = self._declared.transformation(link)
        if changes is not None:
            made.change = self._changes.setdefault(changes, len(self._changes))
            made.leads = self._led(_Link(NO_ID, made.source), link)
        else:
            self._led(made, link)
        if isinstance(link, Divert):
            made.divert, made.exclusive = True, link.exclusive
        return made

    def _led(self, made: _Link, link: Link) -> _Link:
        """The same, leading where a link of the topology does."""
        if link.destination_type == "queue":
            made.queue = self._queue_number[link.destination]
            return made
        made.exchange = self._exchange_number[link.destination]
        key = replacement_key(link)
        if key is not None:
            made.key = self._keys.setdefault(key, len(self._keys))
        return made

    def _changing(self) -> Changing | None:
        """What links change, when all of them are there; those that stand for where they lead come last."""
        if not self._changes:
            return None
        for link in list(self._links):
            if link.leads is not None:
                link.behind = len(self._links)
                self._links.append(link.leads)
        return Changing(
            statements=tuple(self._changes),
            of=_numbers(link.change for link in self._links),
            behind=_numbers(link.behind for link in self._links),
        )

    def _add_rule(self, links: Sequence[_Link]) -> None:
        """Append a rule: its links without filter, to queues with one last, and its filtered links as one group."""
        free: list[_Link] = []
        gated: list[_Link] = []
        filtered: list[_Link] = []
        for link in links:
            is_gated = link.queue >= 0 and self._queue_filters[link.queue] is not None
            (filtered if link.filters else gated if is_gated else free).append(link)
        plain = free + gated
        self._rule_first.append(len(self._links))
        self._rule_plain.append(len(plain))
        self._rule_gated.append(len(gated))
        self._rule_gate.append(self._gate(tuple(link.queue for link in gated)) if gated else -1)
        self._rule_group.append(len(self._groups) if filtered else -1)
        self._links += plain
        if filtered:
            first = len(self._links)
            self._links += filtered
            self._groups.append([(first + n, one) for n, link in enumerate(filtered) for one in link.filters])

    # -- alternates and queue filters -----------------------------------------------------------------

    def _alternate(self, exchange: str) -> int:
        found = self._declared.alternates.get((exchange, ALTERNATE_EXCHANGE))
        return UNSET if found is None else self._exchange_number.get(found.destination, MISSING)

    def _alternate_link(self, exchange: str) -> int:
        found = self._declared.alternates.get((exchange, ALTERNATE_BINDING))
        if found is None:
            return UNSET
        if found.destination_type is None:
            return MISSING
        self._links.append(self._link(NO_ID, found))
        return len(self._links) - 1

    def _gate(self, queues: tuple[int, ...]) -> int:
        """The group of the filters of these queues, in their order; rules that lead to the same ones share it."""
        known = self._gates.get(queues)
        if known is None:
            known = self._gates[queues] = len(self._groups)
            filters = ((number, self._queue_filters[number]) for number in queues)
            self._groups.append([(-1 - number, accepts) for number, accepts in filters if accepts is not None])
        return known

    def _frozen_groups(self, of_queue: Sequence[int]) -> Groups:
        sizes = [len(group) for group in self._groups]
        needed = np.ones(sum(sizes), np.int32)
        links = _numbers(link for group in self._groups for link, _ in group)
        needed[links >= 0] = _numbers(
            count for group in self._groups for count in _multiplicities([link for link, _ in group if link >= 0])
        )
        return Groups(
            filters=FilterGroups([[one for _, one in group] for group in self._groups]),
            first=np.append(0, np.cumsum(sizes)).astype(np.int32),
            link=links,
            needed=needed,
            several=bool((needed > 1).any()),
            links=_numbers(len({link for link, _ in group}) for group in self._groups),
            place=_numbers(link if link < 0 else self._links[link].source for ((link, _), *_) in self._groups),
            of_queue=_numbers(of_queue),
            any_of_queue=any(group >= 0 for group in of_queue),
        )


def compile_plan(topology: Topology, vhost: str) -> Plan:
    """Compile one vhost; raises NotFound when there is none of that name."""
    with _collector_paused():
        return _Compiler(topology, vhost).plan()


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No cycle collection meanwhile: it would scan the whole topology again and again (half of the time)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _body_refs(filters: FilterGroups, matchers: Iterable[Matcher | None]) -> dict[Payload, dict[Ref, None]]:
    """What filters and headers bindings look for in bodies, by what these are declared to be."""
    found = {payload: dict(refs) for payload, refs in filters.body_refs.items()}
    for matcher in matchers:
        for ref in () if matcher is None else matcher.body_refs:
            found.setdefault(referred(ref)[0], {})[ref] = None
    return found


def _multiplicities(values: Sequence[int]) -> Iterable[int]:
    """For each value how often it occurs among all."""
    counts = Counter(values)
    return (counts[value] for value in values)


def _numbers(values: Iterable[int]) -> Int32s:
    return np.array(list(values), np.int32)


def _flags(values: Iterable[bool]) -> Bools:
    return np.array(list(values), np.bool_)
