"""Running cases: which evaluator takes which kind, and in what order the outcomes come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from bindery.conformance.capabilities import run_capabilities
from bindery.conformance.cases import Case
from bindery.conformance.filters import run_filter_sets, run_text_filters
from bindery.conformance.report import Outcome, Report
from bindery.conformance.routing import run_bridge, run_declare, run_route

Runner = Callable[[list[Case], int], list[Outcome]]

#: Kind of case -> what runs all cases of that kind, given the clock that UTC() reads.
_RUNNERS: Final[Mapping[str, Runner]] = {
    "filter": run_text_filters,
    "filter-set": run_filter_sets,
    "route": lambda cases, clock_ms: [run_route(case, clock_ms=clock_ms) for case in cases],
    "bridge": lambda cases, clock_ms: [run_bridge(case, clock_ms=clock_ms) for case in cases],
    "capabilities": lambda cases, _: [run_capabilities(case) for case in cases],
    "declare": lambda cases, _: [run_declare(case) for case in cases],
}


def run_cases(cases: Iterable[Case], *, clock_ms: int) -> Report:
    """Runs cases of every kind; a kind that is not known gives an outcome of its own, never an error.

    `clock_ms` is what UTC() gives in filters, in milliseconds since 1970.
    """
    by_kind: dict[str, list[Case]] = defaultdict(list)
    order: dict[int, int] = {}
    for number, case in enumerate(cases):
        by_kind[case.kind].append(case)
        order[id(case)] = number
    outcomes: list[Outcome] = []
    for kind, group in by_kind.items():
        runner = _RUNNERS.get(kind)
        outcomes += [Outcome(case, supported=False) for case in group] if runner is None else runner(group, clock_ms)
    return Report(tuple(sorted(outcomes, key=lambda outcome: order[id(outcome.case)])))
