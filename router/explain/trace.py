"""From a finished walk of the engine to the visits of one message, step by step.

Everything comes from the walk itself: its states are the visits, its pairs the links that were taken.
Links that a filter stopped are found by asking the exchange's own matcher once more which rules the
message met there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Final

import numpy as np

from bindery.router.columns import BatchView
from bindery.router.compat import switches_of
from bindery.router.engine import Router
from bindery.router.engine.compile import NO_ID
from bindery.router.engine.forms import FormsWalk
from bindery.router.engine.walk import Walk
from bindery.router.exchanges import Choice
from bindery.router.explain.filters import Judge
from bindery.router.explain.record import Arrival, Change, FilterVerdict, Missed, Step, Verdict, Visit
from bindery.router.explain.record import Link as Named
from bindery.router.links import Alternate, Link, Links
from bindery.router.message import Message, from_batch
from bindery.router.model import (
    ALTERNATE_BINDING,
    ALTERNATE_EXCHANGE,
    DEFAULT_BINDING_ID,
    Binding,
    Divert,
    implicit_binding,
)
from bindery.router.reference import matches
from bindery.router.transforms import apply

#: Steps that a visit lists, beside those that lead to another exchange, and bindings that did not match.
LISTED_STEPS: Final = 500
LISTED_MISSED: Final = 200


@dataclass(frozen=True, slots=True)
class _Link:
    """A link of the plan at a state: its place among the others, and whether it was taken."""

    order: int
    link: int
    taken: bool


@dataclass(frozen=True, slots=True)
class _Considered:
    """The links at a state, how many of them are bindings, and whether an exclusive divert kept bindings out."""

    links: tuple[_Link, ...]
    bindings: int
    stopped: bool


class RowTrace:
    """One message of a walk: its visits in order, and what was taken at each."""

    def __init__(self, tracer: Tracer, row: int, message: Message) -> None:
        self.tracer = tracer
        self.row = row
        self.message = message
        self._judges: dict[int, Judge] = {}
        self.states = tracer.states_of(row)
        self.number = {state: number for number, state in enumerate(self.states, 1)}

    def message_at(self, visit: Visit) -> Message:
        """The message as it came to a visit."""
        return self.tracer.message_at(self.states[visit.number - 1], self.message)

    def _judge(self, state: int) -> Judge:
        row = int(self.tracer.row_of(state))
        if row not in self._judges:
            message = self.tracer.message_at(state, self.message)
            self._judges[row] = Judge(message, self.tracer.clock_ms, detailed=self.tracer.detailed)
        return self._judges[row]

    @cached_property
    def visits(self) -> tuple[Visit, ...]:
        """The visits, with their arrivals."""
        drawn = [self._visit(state) for state in self.states]
        arrivals: dict[int, list[Arrival]] = defaultdict(list)
        for visit in drawn:
            for step in visit.steps:
                if step.visit is not None:
                    arrivals[step.visit].append(Arrival(step.link.kind, visit.number, step.link.id))
        published = Arrival("publish")
        return tuple(
            replace(visit, arrivals=((published,) if visit.number == 1 else ()) + tuple(arrivals[visit.number]))
            for visit in drawn
        )

    def _visit(self, state: int) -> Visit:
        tracer = self.tracer
        name = tracer.exchange_of(state)
        considered = self._considered[state]
        total = len(tracer.links.bindings_from(name))
        # links to other exchanges lead to the next visits: they are listed whatever their number
        onward = [one for one in considered.links if one.taken and tracer.leads_on(one.link)]
        others = [one for one in considered.links if not (one.taken and tracer.leads_on(one.link))]
        listed = sorted(onward + others[:LISTED_STEPS], key=lambda one: one.order)
        steps = [self._step(state, one.link, tracer.link(one.link, state), one.taken) for one in listed]
        return Visit(
            number=self.number[state],
            exchange=name,
            type=tracer.links.exchanges[name].type,
            keys=tracer.keys_of(state),
            arrivals=(),
            steps=(
                *(step for step in steps if step.link.kind != ALTERNATE_BINDING),
                *self._alternate_exchange(state),
                # used when there was still no queue
                *(step for step in steps if step.link.kind == ALTERNATE_BINDING),
            ),
            further_steps=len(considered.links) - len(listed),
            unmatched=0 if considered.stopped else total - considered.bindings,
            not_evaluated=total if considered.stopped else 0,
            choice=None if considered.stopped else self._choice(state, name, tracer.keys_of(state)),
            missed=self._missed(state, name, tracer.keys_of(state), considered) if tracer.detailed else None,
            form=tracer.form_number(state),
            compat=tracer.links.limits_at(name).text.compat,
        )

    def _switches(self, state: int, link: Link) -> tuple[str, ...]:
        """The switches of the mode at an exchange without which a binding's key or headers would not have matched."""
        links = self.tracer.links
        mode = links.limits_at(link.source).text.compat
        if mode is None or not isinstance(link, Binding):
            return ()
        kind, keys = links.exchanges[link.source].type, self.tracer.keys_of(state)
        properties = self.tracer.message_at(state, self.message).application_properties

        def met(switches: frozenset[str]) -> bool:
            return matches(link, kind, keys, properties, switches)

        switches = switches_of(mode)
        if not met(switches) or met(frozenset()):
            return ()
        return tuple(sorted(name for name in switches if not met(switches - {name})))

    def _choice(self, state: int, exchange: str, keys: tuple[str, ...]) -> Choice | None:
        """What the hash of a hash exchange chose."""
        return self.tracer.links.type_at(exchange).choice(keys, self.tracer.message_at(state, self.message))

    def _missed(self, state: int, exchange: str, keys: tuple[str, ...], considered: _Considered) -> tuple[Missed, ...]:
        """The first bindings of an exchange that did not match; those of the default exchange are its queues."""
        if considered.stopped or exchange == "":
            return ()
        links = self.tracer.links
        met = {int(self.tracer.plan.links.id[one.link]) for one in considered.links}
        others = (one for one in links.bindings_from(exchange) if one.id not in met)
        message = self.tracer.message_at(state, self.message)
        each = ((one, links.type_of(one).miss(one, keys, message)) for one in islice(others, LISTED_MISSED))
        return tuple(Missed(Named.of(one), miss.message) for one, miss in each if miss is not None)

    @cached_property
    def _considered(self) -> dict[int, _Considered]:
        """Per state, the links that were taken or stopped there."""
        return {state: self.tracer.considered(state) for state in self.states}

    def step(self, visit: Visit, link: Link) -> Step | None:
        """What became of a link at a visit; None when its key or headers did not match there."""
        state = self.states[visit.number - 1]
        if isinstance(link, Alternate) and link.kind == ALTERNATE_EXCHANGE:
            return next((step for step in visit.steps if step.link == Named.of(link)), None)
        for one in self._considered[state].links:
            if self.tracer.stands_for(one.link, link):
                return self._step(state, one.link, link, one.taken)
        return None

    def _step(self, state: int, number: int, link: Link, taken: bool) -> Step:
        tracer, named = self.tracer, Named.of(link)
        filters, switches = self._judge(state).link(tracer.links, link), self._switches(state, link)
        if not taken:
            diverted = isinstance(link, Divert) and all(verdict.result for verdict in filters)
            return Step(named, "exclusive-divert" if diverted else "filter", filters, switches=switches)
        change = self._change(state, link)
        if change is not None and tracer.changed(state, number) is None:
            return Step(named, "too-many-forms", filters, change=change, switches=switches)
        if link.destination_type == "queue":
            judge = self._judge(state) if change is None else Judge(change.made, tracer.clock_ms)
            behind = judge.queue(tracer.links, tracer.links.queues[link.destination])
            verdict: Verdict = "delivered" if tracer.is_open(state, number) else "queue-filter"
            return Step(named, verdict, filters + behind, change=change, switches=switches)
        return Step(named, "forwarded", filters, self.number[tracer.followed(state, number)], change, switches)

    def _change(self, state: int, link: Link) -> Change | None:
        """What a link makes of the message that came to a state."""
        statements = self.tracer.links.transformation(link)
        if statements is None:
            return None
        before = self.tracer.message_at(state, self.message)
        applied = apply(statements, before, clock_ms=self.tracer.clock_ms)
        return Change(statements.text, before, applied.message, applied.troubled)

    def _alternate_exchange(self, state: int) -> Iterator[Step]:
        tracer = self.tracer
        target = tracer.alternate_exchange_state(state)
        if target is not None:
            link = tracer.links.alternates[tracer.exchange_of(state), ALTERNATE_EXCHANGE]
            yield Step(Named.of(link), "forwarded", visit=self.number[target])

    def filters_of(self, link: Link, visit: Visit) -> tuple[FilterVerdict, ...]:
        """The verdicts of the filters on a link itself, about the message as it came to a visit."""
        return self._judge(self.states[visit.number - 1]).link(self.tracer.links, link)


class Tracer:
    """A walk, indexed by message and state."""

    def __init__(self, links: Links, router: Router, walk: Walk, view: BatchView, *, detailed: bool = False) -> None:
        self.links = links
        self.detailed = detailed
        self._diverts = {divert.id: divert for divert in links.diverts}
        self.plan = walk.plan
        self.queues = router.queues
        self.clock_ms = view.clock_ms
        self._walk = walk
        self._view = view
        message = walk.message_of(np.arange(walk.states, dtype=np.int32))
        self._forms = walk if isinstance(walk, FormsWalk) else None
        evaluated = np.ones(walk.states, np.bool_)
        if self._forms is not None:
            evaluated[list(self._forms.waypoints)] = False
        self._by_row = np.argsort(message, kind="stable")
        self._by_row = self._by_row[evaluated[self._by_row]]
        self._row_bounds = np.searchsorted(message[self._by_row], np.arange(view.rows + 1))
        state = np.concatenate([np.zeros(0, np.int32), *(pairs.state for pairs in walk.pairs)])
        self._links = np.concatenate([np.zeros(0, np.int32), *(pairs.link for pairs in walk.pairs)])
        self._open = np.concatenate([np.zeros(0, np.bool_), *(pairs.open for pairs in walk.pairs)])
        self._entered = (
            set()
            if self._forms is None
            else {
                (int(walk.row[one]), link)
                for one, link, is_open in zip(state.tolist(), self._links.tolist(), self._open.tolist(), strict=True)
                if is_open and one in self._forms.waypoints
            }
        )
        self._by_state = np.argsort(state, kind="stable")
        self._state_bounds = np.searchsorted(state[self._by_state], np.arange(walk.states + 1))

    def row(self, row: int) -> RowTrace:
        """The trace of one message of the batch."""
        (message,) = from_batch(self._view.batch.slice(row, 1))
        return RowTrace(self, row, message)

    def states_of(self, row: int) -> list[int]:
        """The states of a message, in the order in which they were evaluated."""
        found: list[int] = self._by_row[self._row_bounds[row] : self._row_bounds[row + 1]].tolist()
        return found

    def row_of(self, state: int) -> int:
        """The row of a state: of a message, or of one of its forms."""
        return int(self._walk.row[state])

    def message_at(self, state: int, published: Message) -> Message:
        """The message in the form that came to a state."""
        row = self.row_of(state)
        return published if self._forms is None or row < self._view.rows else self._forms.form(row)

    def form_number(self, state: int) -> int:
        """The number of the form that came to a state; 0 for the message as it was published."""
        row = self.row_of(state)
        return 0 if self._forms is None else self._forms.numbers(int(self._forms.message[row])).get(row, 0)

    def changed(self, state: int, link: int) -> int | None:
        """The row of what a changing link has made at a state; None where that was a form too many."""
        row = None if self._forms is None else self._forms.changed(self.row_of(state), link)
        return None if row is None or row < 0 else row

    def _behind(self, link: int) -> int:
        """The link that says where one leads: itself, but for those that change the message."""
        changing = self.plan.changing
        return link if changing is None or changing.of[link] < 0 else int(changing.behind[link])

    def exchange_of(self, state: int) -> str:
        """The exchange of a state."""
        name: str = self.plan.exchange_names[self._walk.exchange[state]]
        return name

    def keys_of(self, state: int) -> tuple[str, ...]:
        """The routing keys of a state, sorted."""
        sets, number = self._walk.sets, int(self._walk.key_set[state])
        members = sets.members[sets.offsets[number] : sets.offsets[number + 1]].tolist()
        return tuple(sorted(sets.keys.text(key) for key in members))

    # -- links ----------------------------------------------------------------------------------------

    def link(self, number: int, state: int) -> Link:
        """A link that leaves a state."""
        identity = int(self.plan.links.id[number])
        if identity == DEFAULT_BINDING_ID:
            return implicit_binding(self.links.vhost, self.plan.queues[self.plan.links.queue[number]])
        if identity == NO_ID:
            return self.links.alternates[self.exchange_of(state), ALTERNATE_BINDING]
        return self._diverts.get(identity) or self.links.topology.bindings[identity]

    def is_exclusive(self, link: int) -> bool:
        """Whether a link is an exclusive divert."""
        return bool(self.plan.links.exclusive[link])

    def _taken(self, state: int) -> dict[int, bool]:
        """Links that were taken at a state, and whether the queue behind took the message."""
        pairs = self._by_state[self._state_bounds[state] : self._state_bounds[state + 1]]
        return dict(zip(self._links[pairs].tolist(), self._open[pairs].tolist(), strict=True))

    def is_open(self, state: int, link: int) -> bool:
        """Whether the queue behind a taken link took the message."""
        behind = self._behind(link)
        return self._taken(state)[link] if behind == link else (self.changed(state, link), behind) in self._entered

    def _divert_links(self, state: int) -> list[int]:
        rule = int(self.plan.exchanges.divert_rule[self._walk.exchange[state]])
        return sorted(self._links_of_rule(rule)) if rule >= 0 else []

    def leads_on(self, link: int) -> bool:
        """Whether a link leads to an exchange."""
        return bool(self.plan.links.exchange[self._behind(link)] >= 0)

    def stands_for(self, number: int, link: Link) -> bool:
        """Whether a link of the plan is that one, which leaves the same exchange."""
        identity = int(self.plan.links.id[number])
        if identity != (NO_ID if isinstance(link, Alternate) else link.id):
            return False
        return identity != DEFAULT_BINDING_ID or self.plan.queues[self.plan.links.queue[number]] == link.destination

    def considered(self, state: int) -> _Considered:
        """The links that were taken or stopped at a state: diverts, bindings, the alternate binding."""
        taken = self._taken(state)
        diverts = self._divert_links(state)
        stopped = any(link in taken and self.is_exclusive(link) for link in diverts)
        met = [] if stopped else self._met(state)
        alternates = [link for link in taken if self.plan.links.id[link] == NO_ID]
        in_order = [
            *(link for link in diverts if link in taken),
            *(link for link in diverts if link not in taken),
            *(link for link in met if link in taken),
            *(link for link in met if link not in taken),
            *alternates,
        ]
        return _Considered(
            tuple(_Link(order, link, link in taken) for order, link in enumerate(in_order)), len(met), stopped
        )

    def _met(self, state: int) -> list[int]:
        exchange = int(self._walk.exchange[state])
        matcher = self.plan.matchers[exchange]
        if matcher is None:
            return []
        found = matcher.match(self._walk.at_exchange(np.array([state], np.int32), exchange))
        one = int(found.classes[0])
        rules = found.rules[found.offsets[one] : found.offsets[one + 1]].tolist()
        return sorted(link for rule in rules for link in self._links_of_rule(rule))

    def _links_of_rule(self, rule: int) -> list[int]:
        rules, groups = self.plan.rules, self.plan.groups
        first = int(rules.first[rule])
        found = list(range(first, first + int(rules.plain[rule])))
        group = int(rules.group[rule])
        if group >= 0:
            found += sorted(set(groups.link[groups.first[group] : groups.first[group + 1]].tolist()))
        return found

    # -- states that follow ---------------------------------------------------------------------------

    def followed(self, state: int, link: int) -> int:
        """The state that a link led to."""
        walk, behind = self._walk, self._behind(link)
        key = int(self.plan.links.key[behind])
        key_set = int(walk.key_set[state]) if key < 0 else int(walk.replacement_sets[key])
        row = self.row_of(state) if behind == link else self.changed(state, link)
        assert row is not None  # noqa: S101  # what made no form has led nowhere
        return self._state(row, int(self.plan.links.exchange[behind]), key_set)

    def alternate_exchange_state(self, state: int) -> int | None:
        """The state that the alternate exchange led to, when it was used."""
        alternate = int(self.plan.exchanges.alternate[self._walk.exchange[state]])
        used = any(self.plan.links.id[link] != NO_ID for link in self._taken(state))
        if alternate < 0 or used:
            return None
        return self._state(int(self._walk.row[state]), alternate, int(self._walk.key_set[state]))

    def _state(self, row: int, exchange: int, key_set: int) -> int:
        walk = self._walk
        message = row if self._forms is None else int(self._forms.message[row])
        return next(
            s
            for s in self.states_of(message)
            if walk.exchange[s] == exchange and walk.key_set[s] == key_set and walk.row[s] == row
        )
