"""Running `filter` and `filter-set` cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bindery.conformance.cases import Case
from bindery.conformance.guard import defined, evaluated
from bindery.conformance.report import Outcome, same
from bindery.router.columns import BatchView
from bindery.router.errors import InvalidRecord
from bindery.router.filters import DIALECTS, Filter, FilterGroups, evaluate, parse
from bindery.router.filters.limits import DEFAULT_LIMITS
from bindery.router.filters.sets import DEFAULT_SET_LIMITS, parse_filter_set
from bindery.router.message import Message, to_batch


@dataclass(frozen=True, slots=True)
class _Trial:
    """A case whose filter was accepted; `message` is None for a record that no filter ever sees."""

    case: Case
    filter: Filter
    message: Message | None


def run_text_filters(cases: list[Case], clock_ms: int) -> list[Outcome]:
    """Runs cases with a filter in one of the text dialects; another dialect is not supported."""
    known = [case for case in cases if case.content["dialect"] in DIALECTS]
    unknown = [case for case in cases if case.content["dialect"] not in DIALECTS]
    outcomes = _run(known, _text_filter, clock_ms)
    return outcomes + [Outcome(case, supported=False) for case in unknown]


def run_filter_sets(cases: list[Case], clock_ms: int) -> list[Outcome]:
    """Runs cases with an AMQP filter set; `connection` is the reader's, unknown where it is not stated."""
    return _run(cases, _filter_set, clock_ms)


def _text_filter(case: Case) -> Filter:
    limits = replace(DEFAULT_LIMITS, compat=case.content.get("compat"))
    return parse(case.content["filter"], case.content["dialect"], limits=limits)


def _filter_set(case: Case) -> Filter:
    limits = replace(DEFAULT_SET_LIMITS, text=replace(DEFAULT_LIMITS, compat=case.content.get("compat")))
    return parse_filter_set(case.content["filters"], owner=case.content.get("connection"), limits=limits)


def _run(cases: list[Case], define: Callable[[Case], Filter], clock_ms: int) -> list[Outcome]:
    outcomes: list[Outcome] = []
    trials: list[_Trial] = []
    for case in cases:
        trial = defined(_trial, case, define)
        if isinstance(trial, _Trial):
            trials.append(trial)
        else:
            outcomes.append(Outcome(case, engine=trial, reference=trial))
    together = _together(trials, clock_ms)
    for trial, shared in zip(trials, together, strict=True):
        alone = evaluated(_select_one, trial, clock_ms)
        outcomes.append(
            Outcome(
                trial.case,
                engine=alone if same(alone, shared) else f"alone {alone}, in a batch with others {shared}",
                reference=evaluated(_refer, trial, clock_ms),
            )
        )
    return outcomes


def _trial(case: Case, define: Callable[[Case], Filter]) -> _Trial:
    return _Trial(case, define(case), _message(case))


def _message(case: Case) -> Message | None:
    try:
        return Message.from_json(case.content["message"])
    except InvalidRecord:
        return None


def _refer(trial: _Trial, clock_ms: int) -> bool:
    """The reference: unknown does not accept, and an invalid record is never accepted."""
    return trial.message is not None and evaluate(trial.filter, trial.message, clock_ms=clock_ms) is True


def _together(trials: list[_Trial], clock_ms: int) -> list[Any]:
    """The engine on all messages in one batch and all filters in one compilation: what cases share is shared."""
    accepted = evaluated(_select, trials, clock_ms)
    return accepted if isinstance(accepted, list) else [accepted] * len(trials)


def _select_one(trial: _Trial, clock_ms: int) -> bool:
    return _select([trial], clock_ms)[0]


def _select(trials: Sequence[_Trial], clock_ms: int) -> list[bool]:
    """Which trials the engine accepts, each asked for its own message and its own filter."""
    seen = [n for n, trial in enumerate(trials) if trial.message is not None]
    accepted = [False] * len(trials)
    if not seen:
        return accepted
    filters: dict[Filter, int] = {}
    groups = [filters.setdefault(trials[n].filter, len(filters)) for n in seen]
    view = BatchView(to_batch(message for n in seen if (message := trials[n].message)), clock_ms=clock_ms)
    selection = FilterGroups([[item] for item in filters]).select(
        view, np.arange(len(seen), dtype=np.int64), np.array(groups, np.int32)
    )
    for pair in selection.pair.tolist():
        accepted[seen[pair]] = True
    return accepted
