"""Bindings that decide nothing because another one to the same destination accepts the same and more.

A binding accepts what its key or headers match and all conditions of its filters are true for. It covers
another one when its match covers the other's and its conditions are among the other's.

Bindings are grouped by source, destination and replacement key; within a group, by what they compare.
Candidates come from an index (a trie of patterns, an inverted index of header criteria), so the work
grows with the bindings and not with their square. What is left is bounded by `MAX_COMPARISONS`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from bindery.router.analysis.finding import Report, Subject, subject_of
from bindery.router.analysis.patterns import Pattern, PatternIndex
from bindery.router.analysis.scope import Criteria, Scope
from bindery.router.analysis.verdicts import Verdicts
from bindery.router.equality import family_key
from bindery.router.model import FILTERS_ARGUMENT, REPLACEMENT_KEY, SELECTOR_ARGUMENT, Binding

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


def check(scope: Scope, verdicts: Verdicts, report: Report) -> None:
    """BT101, BT102, BT199: one finding per superfluous binding."""
    budget = Budget()
    for cover in covers(scope, verdicts, budget):
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
            Subject("vhost", scope.vhost, scope.vhost),
            f"bindings were compared until {MAX_COMPARISONS:,} comparisons; some shadowed ones may be missing",
        )


def covers(scope: Scope, verdicts: Verdicts, budget: Budget) -> Iterator[Cover]:
    """For each superfluous binding one other that makes it so; never both of a pair."""
    groups: dict[tuple[str, str, str, object], list[Binding]] = defaultdict(list)
    for binding in scope.bindings:
        replacement = binding.arguments.get(REPLACEMENT_KEY) if binding.destination_type == "exchange" else None
        groups[binding.source, binding.destination_type, binding.destination, replacement].append(binding)
    for (source, *_), members in groups.items():
        if len(members) > 1:
            yield from _COVERS[scope.exchanges[source].type](_Members(members, verdicts, budget))


def _less_filtered(cover: Cover) -> str:
    narrow, wide = ({SELECTOR_ARGUMENT, FILTERS_ARGUMENT} & one.arguments.keys() for one in (cover.narrow, cover.wide))
    return ", which has no filter" if narrow and not wide else ""


@dataclass(slots=True)
class _Members:
    """Bindings from one exchange to one destination, with the conditions of their filters."""

    bindings: Sequence[Binding]
    verdicts: Verdicts
    budget: Budget

    def conditions(self, binding: Binding) -> frozenset[int]:
        """The conditions that must all be true; none for a binding without a filter."""
        return self.verdicts.of_binding(binding).conjuncts

    def admits(self, wide: Binding, narrow: Binding) -> bool:
        """Whether the filters of `wide` are true whenever those of `narrow` are."""
        return wide is not narrow and self.conditions(wide) <= self.conditions(narrow)

    def classes(self, matched: Callable[[Binding], Hashable]) -> tuple[list[Cover], dict[Hashable, list[Binding]]]:
        """Covers among bindings that match alike, and by class those that no other one of it covers."""
        by_match: dict[Hashable, dict[frozenset[int], Binding]] = defaultdict(dict)
        found: list[Cover] = []
        for binding in self.bindings:
            first = by_match[matched(binding)].setdefault(self.conditions(binding), binding)
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


def _by_key(members: _Members) -> Iterable[Cover]:
    return members.classes(lambda binding: binding.routing_key)[0]


def _all_alike(members: _Members) -> Iterable[Cover]:
    return members.classes(lambda _binding: None)[0]


def _by_pattern(members: _Members) -> Iterator[Cover]:
    patterns = {binding.id: Pattern.of(binding.routing_key) for binding in members.bindings}
    found, classes = members.classes(lambda binding: patterns[binding.id])
    yield from found
    # only a pattern with a wildcard covers another one than itself
    index = PatternIndex(pattern for pattern in classes if isinstance(pattern, Pattern) and not pattern.exact)
    for pattern, bindings in classes.items():
        assert isinstance(pattern, Pattern)  # noqa: S101  # the classes are keyed by pattern
        left = {binding.id: binding for binding in bindings}
        for candidate in index.candidates(pattern):
            if not members.budget.spend(len(classes[candidate]) * len(left)):
                return
            pairs = [
                Cover(narrow, wide, equal=False)
                for narrow in left.values()
                if (wide := next((one for one in classes[candidate] if members.admits(one, narrow)), None)) is not None
            ]
            if pairs and candidate.covers(pattern):
                yield from pairs
                for pair in pairs:
                    del left[pair.narrow.id]
            if not left:
                break


def _by_criteria(members: _Members) -> Iterator[Cover]:
    criteria = {binding.id: Criteria.of(binding) for binding in members.bindings}
    keys = {number: _criterion_keys(found) for number, found in criteria.items()}

    def matched(binding: Binding) -> Hashable:
        found = criteria[binding.id]
        # with one criterion "all" and "any" are the same
        return (found.every or len(found.compared) == 1, keys[binding.id])

    found, classes = members.classes(matched)
    yield from found
    remaining = [binding for bindings in classes.values() for binding in bindings]
    index: dict[Hashable, list[Binding]] = defaultdict(list)
    for binding in remaining:
        for key in keys[binding.id]:
            index[key].append(binding)
    whole = [binding for binding in remaining if criteria[binding.id].matches_all]
    for binding in remaining:
        if not members.budget.spend(len(whole)):
            return
        wide = next((one for one in whole if members.admits(one, binding)), None)
        if wide is None:
            wide = _wider(binding, criteria, keys, index, members)
        if wide is not None:
            yield Cover(binding, wide, equal=False)


def _criterion_keys(criteria: Criteria) -> frozenset[tuple[str, Hashable]]:
    return frozenset((name, None if value is None else family_key(value)) for name, value in criteria.compared.items())


def _wider(
    narrow: Binding,
    criteria: dict[int, Criteria],
    keys: dict[int, frozenset[tuple[str, Hashable]]],
    index: dict[Hashable, list[Binding]],
    members: _Members,
) -> Binding | None:
    """A binding whose criteria follow from those of `narrow`.

    Each criterion of `narrow` implies itself and "the header is present". "all" of the implied ones
    follow from "all" of the narrow ones; "any" follows as soon as one does. From "any" of several only
    an "any" follows, and only when each criterion implies one of its own.
    """
    own = criteria[narrow.id]
    implied: Counter[int] = Counter()
    by_id: dict[int, Binding] = {}
    for name, value in keys[narrow.id]:
        reached: set[int] = set()
        for key in {(name, value), (name, None)}:
            if not members.budget.spend(len(index[key])):
                return None
            for binding in index[key]:
                reached.add(binding.id)
                by_id[binding.id] = binding
        implied.update(reached)
    conjunctive = own.every or len(own.compared) == 1
    for number, count in implied.items():
        wide = criteria[number]
        enough = (len(wide.compared) if wide.every else 1) if conjunctive else len(own.compared)
        if (conjunctive or not wide.every or len(wide.compared) == 1) and count >= enough:
            candidate = by_id[number]
            if members.admits(candidate, narrow):
                return candidate
    return None


_COVERS: Final[dict[str, Callable[[_Members], Iterable[Cover]]]] = {
    "direct": _by_key,
    "fanout": _all_alike,
    "topic": _by_pattern,
    "headers": _by_criteria,
}
