"""What the filters of bindings, diverts and queues can say: always true, never true, or it depends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bindery.router.analysis.possible import can_be_true, flattened
from bindery.router.columns import Ref
from bindery.router.declarations import at, binding_filters
from bindery.router.filters import Filter
from bindery.router.filters.ast import Field, Literal, Node, walk
from bindery.router.filters.lint import lint
from bindery.router.filters.lint.truths import possible
from bindery.router.links import FILTER_ARGUMENTS, Links
from bindery.router.model import QUEUE_FILTER, Binding, Divert, Queue
from bindery.router.model.objects import COMPAT_ARGUMENT
from bindery.router.values import Table, Value

#: Distinct filters that one analysis parses; the others count as "it depends".
MAX_FILTERS: Final = 20_000
#: Distinct filters that one analysis lints.
MAX_LINTED: Final = 2_000
#: Remarks of filter lint that the analysis makes itself: never true, always true.
_OWN: Final = frozenset({"BF101", "BF102"})


@dataclass(frozen=True, slots=True)
class Read:
    """Filters that stand together, and whether they are always (True) or never (False) true.

    `conjuncts` are the conditions that must all be true, as numbers: equal conditions share one.
    """

    filters: tuple[Filter, ...]
    verdict: bool | None
    conjuncts: frozenset[int] = frozenset()

    @property
    def conditions(self) -> tuple[Node, ...]:
        """The trees of the filters."""
        return tuple(item.expression for item in self.filters)


_NONE: Final = Read((), True)


class Verdicts:
    """Reads each distinct filter of a vhost once."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._read: dict[object, Read] = {}
        self._met: dict[object, bool] = {}
        self._conditions: dict[Node, int] = {}
        self._of_binding: dict[int, Read] = {}
        self._remarks: dict[tuple[Filter, ...], tuple[str, ...]] = {}
        self.spent_out = False

    def binding(self, binding: Binding) -> bool | None:
        """Whether the filters of a binding are always (True) or never (False) true."""
        return self.of_binding(binding).verdict

    def divert(self, divert: Divert) -> bool | None:
        """Whether the filter of a divert is always (True) or never (False) true."""
        return self.of_divert(divert).verdict

    def queue(self, queue: Queue) -> bool | None:
        """Whether the filter of a queue is always (True) or never (False) true."""
        return self.of_queue(queue).verdict

    def of_binding(self, binding: Binding) -> Read:
        """The filters of a binding."""
        found = self._of_binding.get(binding.id)
        if found is None:
            names = (*FILTER_ARGUMENTS, COMPAT_ARGUMENT)
            stated = {name: binding.arguments[name] for name in names if name in binding.arguments}
            found = _NONE
            if stated:
                limits = self._links.limits_at(binding.source)
                found = self._judged(
                    ("binding", Table(stated), limits.text),
                    lambda: binding_filters(binding, owner=None, limits=limits),
                )
            self._of_binding[binding.id] = found
        return found

    def of_divert(self, divert: Divert) -> Read:
        """The filter of a divert."""
        reading = self._links.limits_at(divert.source).text
        return self._judged(("divert", divert.filter, reading), lambda: [*self._links.filters(divert).values()])

    def of_queue(self, queue: Queue) -> Read:
        """The filter of a queue."""
        stated = queue.arguments.get(QUEUE_FILTER)
        if stated is None:
            return _NONE
        key = "queue", stated, at(self._links.limits, queue, self._links.policies).text
        return self._judged(key, lambda: (self._links.queue_filter(queue),))

    def _judged(self, key: object, read: Callable[[], Sequence[Filter | None]]) -> Read:
        found = self._read.get(key)
        if found is None:
            if len(self._read) >= MAX_FILTERS:
                self.spent_out = True
                # what nobody has read is like nothing else
                return Read((), None, frozenset({self._number(Literal(repr(key)))}))
            filters = tuple(item for item in read() if item is not None)
            conjuncts = frozenset(self._number(part) for part in flattened(item.expression for item in filters))
            found = self._read[key] = Read(filters, _verdict(filters), conjuncts)
        return found

    def remarks(self, read: Read) -> tuple[str, ...]:
        """What filter lint warns of."""
        found = self._remarks.get(read.filters)
        if found is None:
            if len(self._remarks) >= MAX_LINTED:
                self.spent_out = True
                return ()
            found = self._remarks[read.filters] = tuple(
                f"{finding.code} {finding.title}: {finding.message} ({finding.anchor})"
                for item in read.filters
                for finding in lint(item)
                if finding.severity == "warning" and finding.code not in _OWN
            )
        return found

    def _number(self, condition: Node) -> int:
        return self._conditions.setdefault(condition, len(self._conditions))

    def meets(self, binding: Binding, other: Read = _NONE) -> bool:
        """Whether some message may match the binding, pass its filters and those of `other`."""
        own = self.of_binding(binding)
        conditions = own.conditions + other.conditions
        fixed = self._fixed(binding, conditions)
        if not fixed and not other.filters:
            return own.verdict is not False
        key = (own.filters, other.filters, Table({str(ref): value for ref, value in fixed.items()}))
        found = self._met.get(key)
        if found is None:
            found = self._met[key] = can_be_true(conditions, fixed=fixed)
        return found

    def _fixed(self, binding: Binding, conditions: Sequence[Node]) -> dict[Ref, Value]:
        """What a match of the binding says about the fields that the conditions read."""
        if not conditions:
            return {}
        kind = self._links.type_of(binding)
        read = {node.ref for condition in conditions for node in walk(condition) if isinstance(node, Field)}
        return {ref: value for ref, value in kind.implied(kind.asked(binding)).items() if ref in read}


def _verdict(filters: Sequence[Filter]) -> bool | None:
    conditions = [item.expression for item in filters]
    if not can_be_true(conditions):
        return False
    return True if all(possible(condition) == {True} for condition in conditions) else None
