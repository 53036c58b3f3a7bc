"""A walk over links that change what goes over them: each message in all the forms that it takes on its way.

A *form* is a message as transformations have left it (docs/transform.md). It is a further row of the batch: whatever
lies behind the link is asked about that row, and states are told apart by it. Forms with the same content are one, and
one with the content of the message as it was published is that. So cycles end where nothing new comes of them; where
statements make something new of each round, MOST_FORMS ends them.

Rows of forms stand in layers: each is a batch of those that were made together, with a view and filters of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindery.router.columns import BatchView
from bindery.router.engine.compile import Changing, Plan
from bindery.router.engine.filtering import Findings, Screening
from bindery.router.engine.states import Growing
from bindery.router.engine.walk import Pairs, Walk
from bindery.router.filters.bodies import Bodies
from bindery.router.matching.matcher import KeySets, States
from bindery.router.matching.texts import Int32s
from bindery.router.message import Message, from_batch, to_batch
from bindery.router.transforms import apply, content_of

#: Forms of one message beside the one that was published.
MOST_FORMS: Final = 15
_TOO_MANY: Final = (
    f"transformations make more than {MOST_FORMS} forms of the message: copies in further ones are missing"
)


@dataclass(frozen=True, slots=True)
class _Layer:
    """Rows from `first` on: the batch that they stand in, and who asks filters about them."""

    first: int
    view: BatchView
    screening: Screening


class FormsWalk(Walk):
    """A walk whose rows are messages and, behind those of the batch, their forms.

    `waypoints` are the numbers of states at which nothing is evaluated: there a form enters a queue.
    """

    def __init__(
        self, plan: Plan, view: BatchView, sets: KeySets, replacement_sets: Int32s, screening: Screening
    ) -> None:
        super().__init__(plan, view, sets, replacement_sets, screening)
        assert plan.changing is not None  # noqa: S101  # else a plain walk does
        self._changing: Changing = plan.changing
        self._layers = [_Layer(0, view, screening)]
        self._message: Growing[np.int32] = Growing(np.int32)
        self._message.append(np.arange(view.rows, dtype=np.int32))
        self._content: dict[int, Message] = {}
        self._rows_of: dict[int, dict[str, int]] = {}
        self._changed: dict[tuple[int, int], int] = {}
        self._seen = 0
        self._troubled: list[int] = []
        self._beyond: dict[int, str] = {}
        self.waypoints: set[int] = set()

    # -- what others read -------------------------------------------------------------------------------

    @property
    def message(self) -> Int32s:
        """Per row, those of forms included, the message that it is one of."""
        return self._message.all

    def message_of(self, states: Int32s) -> Int32s:
        """The messages, as they were published, that states are about."""
        return self.message[self.row[states]]

    def form(self, row: int) -> Message:
        """A form, or a message that was looked at for one."""
        return self._content[row]

    def changed(self, row: int, link: int) -> int | None:
        """The row of what a link made of a row; None where it made nothing of it."""
        return self._changed.get((row, int(self._changing.of[link])))

    def numbers(self, row: int) -> Mapping[int, int]:
        """Of a message the rows of its forms, each with its number: from 1, by their contents."""
        forms = sorted(self._rows_of.get(row, {}).items())
        return {form: number for number, (_, form) in enumerate((one for one in forms if one[1] != row), 1)}

    def findings(self) -> Findings:
        """What was met in all layers, by message."""
        parts = [(layer.first, layer.screening.findings()) for layer in self._layers]
        message = self.message
        return Findings(
            pairs=sum(part.pairs for _, part in parts),
            candidates=sum(part.candidates for _, part in parts),
            troubled=[
                (message[rows + first].astype(np.int64), members)
                for first, part in parts
                for rows, members in part.troubled
            ],
            failed=[
                (int(message[row + first]), member, error)
                for first, part in parts
                for row, member, error in part.failed
            ],
            unparsable={
                (place, int(message[row + first])): unread
                for first, part in reversed(parts)
                for (place, row), unread in part.unparsable.items()
            },
            changing=self._troubled,
            beyond=self._beyond,
        )

    # -- the walk ---------------------------------------------------------------------------------------

    def start(self, rows: Int32s, exchange: Int32s, key_set: Int32s) -> None:
        """Put messages at the exchanges that they were published to, and follow them in all their forms."""
        super().start(rows, exchange, key_set)
        self._settle()

    def lead(self, states: Int32s, links: Int32s) -> None:
        """Let links of states fire (alternate bindings) and follow what they lead to."""
        layers = self._layer_numbers(self.row[states])
        for number in np.unique(layers).tolist():
            chosen = layers == number
            super().lead(states[chosen], links[chosen])
        self._settle()

    def at_exchange(self, states: Int32s, exchange: int) -> States:
        """Some states of one exchange and one layer, as its matcher reads them."""
        layer, rows = self._within(states)
        bodies = layer.screening.bodies
        return States(rows, self.key_set[states], self.sets, layer.view, bodies, exchange)

    def _asking(self, states: Int32s) -> tuple[Screening, Int32s]:
        layer, rows = self._within(states)
        return layer.screening, rows

    def _within(self, states: Int32s) -> tuple[_Layer, Int32s]:
        """The layer of some states, which is one, and their rows in it: rounds stay within one layer."""
        rows = self.row[states]
        layer = self._layers[self._layer_numbers(rows[:1])[0] if len(rows) else 0]
        return layer, rows - np.int32(layer.first)

    def _layer_numbers(self, rows: Int32s) -> npt.NDArray[np.int64]:
        return np.searchsorted([layer.first for layer in self._layers], rows, side="right") - 1

    def _settle(self) -> None:
        """Follow what changing links have made, until nothing more is made."""
        while self._seen < len(self.pairs):
            fired = self.pairs[self._seen :]
            self._seen = len(self.pairs)
            state = np.concatenate([one.state for one in fired])
            link = np.concatenate([one.link for one in fired])
            changes = self._changing.of[link] >= 0
            state, link = state[changes], link[changes]
            if not len(state):
                continue
            rows = self._make(self.row[state], link)
            kept = rows >= 0
            state, rows, behind = state[kept], rows[kept], self._changing.behind[link[kept]]
            layers = self._layer_numbers(rows)
            for number in np.unique(layers).tolist():
                chosen = layers == number
                self._arrive(state[chosen], rows[chosen], behind[chosen])

    def _arrive(self, origin: Int32s, rows: Int32s, links: Int32s) -> None:
        """Rows of one layer come, over links that stand for changing ones, from states to queues and exchanges."""
        table = self.plan.links
        to_queue = table.queue[links] >= 0
        if to_queue.any():
            self._deliver(origin[to_queue], rows[to_queue], links[to_queue])
        origin, rows, links = origin[~to_queue], rows[~to_queue], links[~to_queue]
        if not len(origin):
            return
        key, key_set = table.key[links], self.key_set[origin]
        key_set[key >= 0] = self.replacement_sets[key[key >= 0]]
        first = self.states
        self._reach(origin, rows, table.exchange[links], key_set)
        self._follow(first)

    def _deliver(self, origin: Int32s, rows: Int32s, links: Int32s) -> None:
        """Forms enter queues, whose filters look at them; the states of that are evaluated no further."""
        first = self.states
        waypoints = np.arange(first, first + len(origin), dtype=np.int32)
        for numbers, values in zip(self._numbers, (rows, self.exchange[origin], self.key_set[origin]), strict=True):
            numbers.append(values)
        for flags in self._flags:
            flags.append(np.zeros(len(origin), np.bool_))
        self.waypoints.update(waypoints.tolist())
        self.diverted[waypoints] = True  # alternates are the affair of the state that it comes from
        if self.plan.has_alternate_bindings:
            self.edges.append((origin, waypoints))
        self._keep(Pairs(waypoints, links, self._ask_queues(waypoints, links)))

    # -- forms ------------------------------------------------------------------------------------------

    def _make(self, rows: Int32s, links: Int32s) -> Int32s:
        """The row of what each link makes of a row; -1 where a message has too many forms."""
        asked = list(zip(rows.tolist(), self._changing.of[links].tolist(), strict=True))
        new = sorted({one for one in asked if one not in self._changed})
        self._read(sorted({row for row, _ in new}))
        made: dict[int, dict[str, tuple[Message, list[tuple[int, int]]]]] = defaultdict(dict)
        troubled: dict[tuple[int, int], int] = {}
        for row, change in new:
            applied = apply(self._changing.statements[change], self._content[row], clock_ms=self.view.clock_ms)
            message, content = int(self.message[row]), content_of(applied.message)
            if applied.troubled:
                troubled[row, change] = applied.troubled
            known = self._rows_of[message].get(content)
            if known is None:
                made[message].setdefault(content, (applied.message, []))[1].append((row, change))
            else:
                self._changed[row, change] = known
        self._add(made)
        for row, change, link in {(*one, link) for one, link in zip(asked, links.tolist(), strict=True)}:
            self._troubled += [link] * troubled.get((row, change), 0)
        return np.array([self._changed[one] for one in asked], np.int32)

    def _read(self, rows: Sequence[int]) -> None:
        """Read the messages of rows that were never looked at; forms are at hand."""
        missing = [row for row in rows if row not in self._content]
        messages = from_batch(self.view.batch.take(pa.array(missing, pa.int32()))) if missing else []
        for row, message in zip(missing, messages, strict=True):
            self._content[row] = message
            self._rows_of[row] = {content_of(message): row}

    def _add(self, made: Mapping[int, Mapping[str, tuple[Message, list[tuple[int, int]]]]]) -> None:
        """Give new forms their rows, in an order that follows from the messages alone."""
        first = len(self.message)
        added: list[Message] = []
        messages: list[int] = []
        for message, contents in sorted(made.items()):
            known = self._rows_of[message]
            for content, (form, ways) in sorted(contents.items(), key=lambda one: one[0]):
                row = first + len(added)
                if len(known) > MOST_FORMS:
                    row = -1
                    self._beyond[message] = _TOO_MANY
                else:
                    known[content] = row
                    self._content[row] = form
                    added.append(form)
                    messages.append(message)
                self._changed.update(dict.fromkeys(ways, row))
        if added:
            view = BatchView(to_batch(added), clock_ms=self.view.clock_ms)
            bodies = Bodies(view, self.plan.body_refs)
            self._layers.append(_Layer(first, view, Screening(self.plan.groups, view, bodies)))
            self._message.append(np.array(messages, np.int32))
