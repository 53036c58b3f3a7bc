"""Bindings that decide nothing because another one to the same destination accepts the same and more.

A binding accepts what its key or headers match and all conditions of its filters are true for. It covers
another one when its match covers the other's and its conditions are among the other's.

Bindings are grouped by source, destination, replacement key and transformation; within a group, by what they ask.
Candidates come from an index of the exchange type (`ExchangeType.wider`), so the work grows with the bindings and not
with their square. What is left is bounded by `MAX_COMPARISONS`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.router.analysis.finding import Report, Subject, subject_of
from bindery.router.analysis.verdicts import Verdicts
from bindery.router.exchanges import ExchangeType
from bindery.router.links import FILTER_ARGUMENTS, Links, replacement_key, transform_of
from bindery.router.model import Binding
from bindery.router.values import Value

#: Comparisons of one binding with another in one analysis.
MAX_COMPARISONS: Final = 2_000_000


@dataclass(slots=True)
class Budget:
    """Comparisons still allowed."""

    left: int = MAX_COMPARISONS
    spent_out: bool = field(default=False)

    def spend(self, count: int = 1) -> bool:
        """Whether so many comparisons are still allowed; they then are counted."""
        if self.left < count:
            self.spent_out = True
            return False
        self.left -= count
        return True


@dataclass(frozen=True, slots=True)
class Cover:
    """`wide` accepts whatever `narrow` accepts; `equal` when that holds both ways."""

    narrow: Binding
    wide: Binding
    equal: bool


def check(links: Links, verdicts: Verdicts, report: Report) -> None:
    """BT101, BT102, BT199: one finding per superfluous binding."""
    budget = Budget()
    for cover in covers(links, verdicts, budget):
        code, verb = ("BT102", "accepts exactly what") if cover.equal else ("BT101", "accepts only what")
        report.add(
            code,
            subject_of(cover.narrow),
            f"{verb} binding {cover.wide.id} [{cover.wide.routing_key}] accepts{_less_filtered(cover)}",
            [subject_of(cover.wide)],
        )
    if budget.spent_out:
        report.add(
            "BT199",
            Subject("vhost", links.vhost, links.vhost),
            f"bindings were compared until {MAX_COMPARISONS:,} comparisons; some shadowed ones may be missing",
        )


def covers(links: Links, verdicts: Verdicts, budget: Budget) -> Iterator[Cover]:
    """For each superfluous binding one other that makes it so; never both of a pair."""
    groups: dict[tuple[str, str, str, str | None, Value], list[Binding]] = defaultdict(list)
    for binding in links.bindings:
        ends = binding.source, binding.destination_type, binding.destination
        groups[*ends, replacement_key(binding), transform_of(binding)].append(binding)
    for members in groups.values():
        if len(members) > 1:
            yield from _Members(members, links.type_of(members[0]), verdicts, budget).covers()


def _less_filtered(cover: Cover) -> str:
    narrow, wide = (one.arguments.keys() & set(FILTER_ARGUMENTS) for one in (cover.narrow, cover.wide))
    return ", which has no filter" if narrow and not wide else ""


@dataclass(slots=True)
class _Members:
    """Bindings from one exchange to one destination, with the conditions of their filters."""

    bindings: Sequence[Binding]
    kind: ExchangeType[Any]
    verdicts: Verdicts
    budget: Budget

    def _conditions(self, binding: Binding) -> frozenset[int]:
        """The conditions that must all be true; none for a binding without a filter."""
        return self.verdicts.of_binding(binding).conjuncts

    def _admits(self, wide: Binding, narrow: Binding) -> bool:
        """Whether the filters of `wide` are true whenever those of `narrow` are."""
        return wide is not narrow and self._conditions(wide) <= self._conditions(narrow)

    def covers(self) -> Iterator[Cover]:
        """Each binding that another one covers, with the first such."""
        found, classes = self._classes()
        yield from found
        wider = self.kind.wider(classes)
        for asked, bindings in classes.items():
            left = {binding.id: binding for binding in bindings}
            for candidate in wider(asked):
                if not self.budget.spend(len(classes[candidate]) * len(left)):
                    return
                pairs = [
                    Cover(narrow, wide, equal=False)
                    for narrow in left.values()
                    if (wide := next((one for one in classes[candidate] if self._admits(one, narrow)), None))
                    is not None
                ]
                if pairs and self.kind.covers(candidate, asked):
                    yield from pairs
                    for pair in pairs:
                        del left[pair.narrow.id]
                if not left:
                    break

    def _classes(self) -> tuple[list[Cover], dict[Hashable, list[Binding]]]:
        """Covers among bindings that ask the same, and by what they ask those that no other such one covers."""
        by_match: dict[Hashable, dict[frozenset[int], Binding]] = defaultdict(dict)
        found: list[Cover] = []
        for binding in self.bindings:
            first = by_match[self.kind.asked(binding)].setdefault(self._conditions(binding), binding)
            if first is not binding:
                found.append(Cover(binding, first, equal=True))
        kept: dict[Hashable, list[Binding]] = {}
        for key, by_conditions in by_match.items():
            kept[key] = []
            for binding, wide in self._implied(by_conditions):
                if wide is None:
                    kept[key].append(binding)
                else:
                    found.append(Cover(binding, wide, equal=False))
        return found, kept

    def _implied(self, by_conditions: dict[frozenset[int], Binding]) -> Iterator[tuple[Binding, Binding | None]]:
        """Each binding with one whose conditions are a proper part of its own, if any."""
        if len(by_conditions) == 1:
            yield next(iter(by_conditions.values())), None
            return
        often = Counter(one for conditions in by_conditions for one in conditions)
        index: dict[int | None, list[frozenset[int]]] = defaultdict(list)
        for conditions in by_conditions:
            index[min(conditions, key=often.__getitem__, default=None)].append(conditions)
        for conditions, binding in by_conditions.items():
            wide = None
            for key in (None, *conditions):
                candidates = index.get(key, ())
                if not self.budget.spend(len(candidates)):
                    break
                wide = next((by_conditions[one] for one in candidates if one < conditions), None)
                if wide is not None:
                    break
            yield binding, wide
