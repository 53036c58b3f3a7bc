"""Bindings that decide nothing because another one to the same destination accepts the same and more.

Bindings are grouped by source, destination and replacement key; within a group, by what they compare.
Candidates come from an index (a trie of patterns, an inverted index of header criteria), so the work
grows with the bindings and not with their square. What is left is bounded by `MAX_COMPARISONS`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from router.analysis.finding import Report, Subject, subject_of
from router.analysis.patterns import Pattern, PatternIndex
from router.analysis.scope import Criteria, Scope
from router.equality import family_key
from router.model import FILTERS_ARGUMENT, REPLACEMENT_KEY, SELECTOR_ARGUMENT, Binding
from router.values import Table

#: Comparisons of one binding with another in one analysis.
MAX_COMPARISONS: Final = 400_000


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


def check(scope: Scope, report: Report) -> None:
    """BT101, BT102, BT199: one finding per superfluous binding."""
    budget = Budget()
    for cover in covers(scope, budget):
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


def covers(scope: Scope, budget: Budget) -> Iterator[Cover]:
    """For each superfluous binding one other that makes it so; never both of a pair."""
    groups: dict[tuple[str, str, str, object], list[Binding]] = defaultdict(list)
    for binding in scope.bindings:
        replacement = binding.arguments.get(REPLACEMENT_KEY) if binding.destination_type == "exchange" else None
        groups[binding.source, binding.destination_type, binding.destination, replacement].append(binding)
    for (source, *_), members in groups.items():
        if len(members) > 1:
            yield from _COVERS[scope.exchanges[source].type](members, budget)


def _filtered(binding: Binding) -> str:
    """A text that two bindings share when their filters are written the same; empty without a filter."""
    filters = {
        name: binding.arguments[name] for name in (SELECTOR_ARGUMENT, FILTERS_ARGUMENT) if name in binding.arguments
    }
    return Table(filters).identity if filters else ""


def _less_filtered(cover: Cover) -> str:
    return ", which has no filter" if _filtered(cover.narrow) and not _filtered(cover.wide) else ""


def _same_match(
    members: Sequence[Binding], matched: Callable[[Binding], Hashable]
) -> tuple[list[Cover], dict[Hashable, list[Binding]]]:
    """Covers among bindings that match alike, and what is left of each such class: one binding per filter."""
    classes: dict[Hashable, dict[str, Binding]] = defaultdict(dict)
    found: list[Cover] = []
    for binding in members:
        present = classes[matched(binding)]
        first = present.setdefault(_filtered(binding), binding)
        if first is not binding:
            found.append(Cover(binding, first, equal=True))
    kept: dict[Hashable, list[Binding]] = {}
    for key, by_filter in classes.items():
        unfiltered = by_filter.get("")
        if unfiltered is None:
            kept[key] = list(by_filter.values())
            continue
        found += [Cover(other, unfiltered, equal=False) for other in by_filter.values() if other is not unfiltered]
        kept[key] = [unfiltered]
    return found, kept


def _by_key(members: Sequence[Binding], _budget: Budget) -> Iterable[Cover]:
    return _same_match(members, lambda binding: binding.routing_key)[0]


def _all_alike(members: Sequence[Binding], _budget: Budget) -> Iterable[Cover]:
    return _same_match(members, lambda _binding: None)[0]


def _by_pattern(members: Sequence[Binding], budget: Budget) -> Iterator[Cover]:
    patterns = {binding.id: Pattern.of(binding.routing_key) for binding in members}
    found, classes = _same_match(members, lambda binding: patterns[binding.id])
    yield from found
    # only a pattern with a wildcard covers another one than itself
    index = PatternIndex(pattern for pattern in classes if isinstance(pattern, Pattern) and not pattern.exact)
    for pattern, bindings in classes.items():
        assert isinstance(pattern, Pattern)  # noqa: S101  # the classes are keyed by pattern
        open_ones = {binding.id: binding for binding in bindings}
        for candidate in index.candidates(pattern):
            wide = {_filtered(binding): binding for binding in classes[candidate]}
            covered = [b for b in open_ones.values() if _filtered(b) in wide or "" in wide]
            if not budget.spend():
                return
            if covered and candidate.covers(pattern):
                for binding in covered:
                    yield Cover(binding, wide.get("") or wide[_filtered(binding)], equal=False)
                    del open_ones[binding.id]
            if not open_ones:
                break


def _by_criteria(members: Sequence[Binding], budget: Budget) -> Iterator[Cover]:
    criteria = {binding.id: Criteria.of(binding) for binding in members}
    keys = {number: _criterion_keys(found) for number, found in criteria.items()}

    def matched(binding: Binding) -> Hashable:
        found = criteria[binding.id]
        # with one criterion "all" and "any" are the same
        return (found.every or len(found.compared) == 1, keys[binding.id])

    found, classes = _same_match(members, matched)
    yield from found
    remaining = [binding for bindings in classes.values() for binding in bindings]
    index: dict[Hashable, list[Binding]] = defaultdict(list)
    for binding in remaining:
        for key in keys[binding.id]:
            index[key].append(binding)
    whole = {_filtered(binding): binding for binding in remaining if criteria[binding.id].matches_all}
    for binding in remaining:
        wide = whole.get("") or whole.get(_filtered(binding))
        if wide is None or wide is binding:
            wide = _wider(binding, criteria, keys, index, budget)
        if wide is not None:
            yield Cover(binding, wide, equal=False)


def _criterion_keys(criteria: Criteria) -> frozenset[Hashable]:
    return frozenset(
        (name, None if value is None else family_key(value)) for name, value in criteria.compared.items()
    )


def _admits(wide: Binding, narrow: Binding) -> bool:
    return wide is not narrow and _filtered(wide) in ("", _filtered(narrow))


def _wider(
    narrow: Binding,
    criteria: dict[int, Criteria],
    keys: dict[int, frozenset[Hashable]],
    index: dict[Hashable, list[Binding]],
    budget: Budget,
) -> Binding | None:
    """A binding whose criteria follow from those of `narrow`.

    Each criterion of `narrow` implies itself and "the header is present". "all" of the implied ones
    follow from "all" of the narrow ones; "any" follows as soon as one does. From "any" of several only
    an "any" follows, and only when each criterion implies one of its own.
    """
    own = criteria[narrow.id]
    implied: Counter[int] = Counter()
    by_id: dict[int, Binding] = {}
    for name, value in keys[narrow.id]:  # type: ignore[misc]  # keys are pairs of name and value key
        reached: set[int] = set()
        for key in {(name, value), (name, None)}:
            if not budget.spend(len(index[key])):
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
            if _admits(candidate, narrow):
                return candidate
    return None


_COVERS: Final[dict[str, Callable[[Sequence[Binding], Budget], Iterable[Cover]]]] = {
    "direct": _by_key,
    "fanout": _all_alike,
    "topic": _by_pattern,
    "headers": _by_criteria,
}
