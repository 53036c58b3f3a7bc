"""The walk: a batch of messages through the exchanges of a vhost, round by round.

A *state* is (message row, exchange, key set). Each state is evaluated once: diverts, else bindings and
non-exclusive diverts, else the alternate exchange (docs/routing.md). What it leads to at other exchanges are
the states of the next round. Cycles and diamonds end because known states are not evaluated again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bindery.router.columns import BatchView
from bindery.router.engine.compile import MISSING, UNSET, Plan
from bindery.router.engine.filtering import Findings, Screening
from bindery.router.engine.states import Growing, Known
from bindery.router.matching.matcher import KeySets, States
from bindery.router.matching.texts import Int32s, Int64s
from bindery.router.native import kernels

Bools = npt.NDArray[np.bool_]
KERNELS = "bindery.router.engine.kernels"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Links that fired: of which state, and whether the queue behind (if any) takes the message."""

    state: Int32s
    link: Int32s
    open: Bools


@dataclass(frozen=True, slots=True)
class _Gates:
    """Who asks the filters of queues: which state, which group, and where the first of its links stands among pairs."""

    state: Int32s
    gate: Int32s
    place: Int64s


class Walk:
    """One batch on its way. State arrays grow by round; a state's number is its place in them."""

    def __init__(
        self, plan: Plan, view: BatchView, sets: KeySets, replacement_sets: Int32s, screening: Screening
    ) -> None:
        self.plan = plan
        self.view = view
        self.screening = screening
        self.sets = sets
        self.replacement_sets = replacement_sets
        self._numbers = tuple(Growing(np.int32) for _ in range(3))
        self._flags = tuple(Growing(np.bool_) for _ in range(3))
        self._known = Known()
        self.pairs: list[Pairs] = []
        self.edges: list[tuple[Int32s, Int32s]] = []
        self.visits = 0

    @property
    def states(self) -> int:
        """How many states there are so far."""
        return len(self._numbers[0])

    @property
    def entered(self) -> int:
        """How often a state was entered into the index that tells known ones from new ones."""
        return self._known.entered

    @property
    def row(self) -> Int32s:
        """Per state the message."""
        return self._numbers[0].all

    @property
    def exchange(self) -> Int32s:
        """Per state the exchange."""
        return self._numbers[1].all

    @property
    def key_set(self) -> Int32s:
        """Per state the set of routing keys."""
        return self._numbers[2].all

    @property
    def diverted(self) -> Bools:
        """Per state whether a divert fired."""
        return self._flags[0].all

    @property
    def rejected(self) -> Bools:
        """Per state whether a binding or queue filter turned the message away here."""
        return self._flags[1].all

    @property
    def alternate_missing(self) -> Bools:
        """Per state whether it would have used an alternate exchange that does not exist."""
        return self._flags[2].all

    def start(self, rows: Int32s, exchange: Int32s, key_set: Int32s) -> None:
        """Put messages at the exchanges that they were published to, and follow them to the end."""
        self._append(rows, exchange, key_set)
        self._follow(0)

    def lead(self, states: Int32s, links: Int32s) -> None:
        """Let links of states fire (alternate bindings) and follow what they lead to."""
        before = self.states
        pairs = self._keep(Pairs(states, links, self._ask_queues(states, links)))
        none = np.zeros(0, np.int32)
        self._advance(pairs.state, pairs.link, none, none)
        self._follow(before)

    # -- rounds ---------------------------------------------------------------------------------------

    def _follow(self, first: int) -> None:
        while first < self.states:
            last = self.states
            self._evaluate(first, last)
            first = last

    def _evaluate(self, first: int, last: int) -> None:
        """Evaluate the states first … last - 1, which are sorted by exchange."""
        plan = self.plan
        diverts = self._divert(first, last)
        remaining = np.arange(first, last, dtype=np.int32)
        given = np.zeros(last - first, np.bool_)
        if len(diverts.state):
            self.diverted[diverts.state] = True
            given[diverts.state - first] = True
            stopped = np.zeros(last - first, np.bool_)
            stopped[diverts.state[plan.links.exclusive[diverts.link]] - first] = True
            remaining = remaining[~stopped]
        bindings = self._match(remaining)
        given[bindings.state - first] = True
        lost = np.flatnonzero(~given).astype(np.int32) + np.int32(first)
        alternate = plan.exchanges.alternate[self.exchange[lost]]
        self.alternate_missing[lost[alternate == MISSING]] = True
        lost, alternate = lost[alternate > UNSET], alternate[alternate > UNSET]
        self._advance(
            np.concatenate([diverts.state, bindings.state]),
            np.concatenate([diverts.link, bindings.link]),
            lost,
            alternate,
        )

    def _divert(self, first: int, last: int) -> Pairs:
        """The diverts that fire: the exclusive ones alone where any matches."""
        plan = self.plan
        rule = plan.exchanges.divert_rule[self.exchange[first:last]]
        states = np.flatnonzero(rule >= 0).astype(np.int32) + np.int32(first)
        if not len(states):
            return _no_pairs()
        rules = rule[states - first]
        each = np.arange(len(states) + 1)
        state, link = self._fire(states, each[:-1].astype(np.int32), each, rules)
        exclusive = plan.links.exclusive[link]
        if exclusive.any():
            stopped = np.zeros(last - first, np.bool_)
            stopped[state[exclusive] - first] = True
            kept = exclusive | ~stopped[state - first]
            state, link = state[kept], link[kept]
        return self._keep(Pairs(state, link, np.ones(len(state), np.bool_)))

    def _match(self, states: Int32s) -> Pairs:
        """The bindings of the states' exchanges that match, filters included."""
        exchange = self.exchange[states]
        bounds = np.append(np.flatnonzero(np.append(True, exchange[1:] != exchange[:-1])), len(states))
        found: list[Pairs] = []
        gates: list[_Gates] = []
        waiting: list[tuple[Int32s, Int32s]] = []
        filled = 0
        for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            if start == end:
                continue
            matcher = self.plan.matchers[exchange[start]]
            if matcher is None:
                continue
            chosen = states[start:end]
            met = matcher.match(self.at_exchange(chosen, int(exchange[start])))
            self.visits += met.visits
            pairs, asked, group_state, group = self._expand(chosen, met.classes, met.offsets, met.rules)
            found.append(pairs)
            if len(asked.gate):
                gates.append(_Gates(asked.state, asked.gate, asked.place + filled))
            if len(group):
                waiting.append((group_state, group))
            filled += len(pairs.state)
        if waiting:
            state, link = self._screen(_joined([one for one, _ in waiting]), _joined([two for _, two in waiting]))
            found.append(Pairs(state, link, self._ask_queues(state, link)))
        if not found:
            return self._keep(_no_pairs())
        pairs = Pairs(
            np.concatenate([one.state for one in found]),
            np.concatenate([one.link for one in found]),
            np.concatenate([one.open for one in found]),
        )
        if gates:
            self._enter(
                pairs,
                _Gates(
                    np.concatenate([one.state for one in gates]),
                    np.concatenate([one.gate for one in gates]),
                    np.concatenate([one.place for one in gates]),
                ),
            )
        return self._keep(pairs)

    def _expand(
        self, states: Int32s, classes: Int32s, offsets: Int64s, class_rules: Int32s
    ) -> tuple[Pairs, _Gates, Int32s, Int32s]:
        """The links of rules that states met, closed where queues have filters; who asks these, and who others."""
        rules = self.plan.rules
        state, link, is_open, gate_state, gate, place, group_state, group = kernels(KERNELS).expand(
            states, classes, offsets, class_rules, rules.first, rules.plain, rules.gated, rules.gate, rules.group
        )
        return Pairs(state, link, is_open), _Gates(gate_state, gate, place), group_state, group

    def _enter(self, pairs: Pairs, gates: _Gates) -> None:
        """Open the links whose queues take the message; a state with one that does not is noted."""
        screening, rows = self._asking(gates.state)
        asked, queue = screening.entered(rows, gates.gate)
        pairs.open[gates.place[asked] + queue] = True
        first = self.plan.groups.first
        accepted = np.bincount(asked, minlength=len(gates.state))
        self.rejected[gates.state[accepted < first[gates.gate + 1] - first[gates.gate]]] = True

    def message_of(self, states: Int32s) -> Int32s:
        """The messages, as they were published, that states are about."""
        return self.row[states]

    def findings(self) -> Findings:
        """What the filters have met that is worth telling."""
        return self.screening.findings()

    def _asking(self, states: Int32s) -> tuple[Screening, Int32s]:
        """Who asks the filters for states of one call, and their rows there."""
        return self.screening, self.row[states]

    def at_exchange(self, states: Int32s, exchange: int) -> States:
        """Some states of one exchange, as its matcher reads them."""
        return States(
            self.row[states], self.key_set[states], self.sets, self.view, self.screening.bodies, exchange
        )  # fmt: skip

    def _fire(self, states: Int32s, classes: Int32s, offsets: Int64s, class_rules: Int32s) -> tuple[Int32s, Int32s]:
        """The diverts of the rules that accept."""
        pairs, _, group_state, group = self._expand(states, classes, offsets, class_rules)  # they lead to no queue
        if not len(group):
            return pairs.state, pairs.link
        screening, rows = self._asking(group_state)
        place, more_link = screening.accepted(rows, group)
        return np.concatenate([pairs.state, group_state[place]]), np.concatenate([pairs.link, more_link])

    def _screen(self, states: Int32s, groups: Int32s) -> tuple[Int32s, Int32s]:
        """The filtered bindings of groups that accept; a state with one that did not is noted."""
        screening, rows = self._asking(states)
        place, link = screening.accepted(rows, groups)
        accepted = np.bincount(place, minlength=len(states))
        self.rejected[states[accepted < self.plan.groups.links[groups]]] = True
        return states[place], link

    def _ask_queues(self, states: Int32s, links: Int32s) -> Bools:
        """Ask the filters of the queues that single links lead to: which links are open."""
        is_open = np.ones(len(links), np.bool_)
        if self.plan.groups.any_of_queue:
            queue = self.plan.links.queue[links]
            group = np.where(queue >= 0, self.plan.groups.of_queue[queue], -1)
            asked = np.flatnonzero(group >= 0)
            if len(asked):
                is_open[asked] = False
                screening, rows = self._asking(states[asked])
                is_open[asked[screening.entered(rows, group[asked])[0]]] = True
                self.rejected[states[asked[~is_open[asked]]]] = True
        return is_open

    def _keep(self, pairs: Pairs) -> Pairs:
        self.pairs.append(pairs)
        return pairs

    # -- states ---------------------------------------------------------------------------------------

    def _advance(self, states: Int32s, links: Int32s, lost: Int32s, alternate: Int32s) -> None:
        """The states that follow: over links to exchanges, and from lost states to their alternate exchange."""
        table = self.plan.links
        onward = np.flatnonzero(table.exchange[links] >= 0)
        origin, link = states[onward], links[onward]
        if not len(origin) and not len(lost):
            return
        key = table.key[link]
        key_set = self.key_set[origin]
        replaced = key >= 0
        key_set[replaced] = self.replacement_sets[key[replaced]]
        self._reach(
            np.concatenate([origin, lost]),
            np.concatenate([self.row[origin], self.row[lost]]),
            np.concatenate([table.exchange[link], alternate]),
            np.concatenate([key_set, self.key_set[lost]]),
        )

    def _reach(self, origin: Int32s, row: Int32s, exchange: Int32s, key_set: Int32s) -> None:
        """Rows that come from states to exchanges under key sets: those that are new there become states."""
        codes, first, place = np.unique(self._code(row, exchange, key_set), return_index=True, return_inverse=True)
        number = self._known.find(codes)
        known = number >= 0
        new = first[~known]
        new_exchange = exchange[new]
        order = np.argsort(new_exchange, kind="stable")
        fresh = np.empty(len(new), np.int32)
        fresh[order] = np.arange(self.states, self.states + len(new), dtype=np.int32)
        number[~known] = fresh
        self._append(row[new][order], new_exchange[order], key_set[new][order])
        if self.plan.has_alternate_bindings:
            self.edges.append((origin, number[place.reshape(-1)]))

    def _code(self, row: Int32s, exchange: Int32s, key_set: Int32s) -> Int64s:
        """A state as one number: rows x exchanges x key sets stay far below 2^63 for any batch that fits memory."""
        exchanges = len(self.plan.exchange_names)
        return (row.astype(np.int64) * exchanges + exchange) * len(self.sets) + key_set

    def _append(self, row: Int32s, exchange: Int32s, key_set: Int32s) -> None:
        first = self.states
        for numbers, values in zip(self._numbers, (row, exchange, key_set), strict=True):
            numbers.append(values)
        for flags in self._flags:
            flags.append(np.zeros(len(row), np.bool_))
        self._known.add(self._code(row, exchange, key_set), np.arange(first, first + len(row), dtype=np.int32))


def _joined(arrays: list[Int32s]) -> Int32s:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int32)


def _no_pairs() -> Pairs:
    return Pairs(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.bool_))
