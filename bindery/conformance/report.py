"""What came out of a run: outcomes, counts a family, failures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bindery.conformance.cases import Case


class Status(StrEnum):
    """How a case ended; the values are the keys of the JSON report."""

    PASSED = "passed"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A case with the results of both implementations; `supported` is false for an unknown kind or dialect."""

    case: Case
    engine: Any = None
    reference: Any = None
    supported: bool = True

    @property
    def status(self) -> Status:
        """Passed only when the engine and the reference both gave what the case expects."""
        if not self.supported:
            return Status.UNSUPPORTED
        agreed = same(self.engine, self.case.expect) and same(self.reference, self.case.expect)
        return Status.PASSED if agreed else Status.FAILED


@dataclass(frozen=True, slots=True)
class Report:
    """All outcomes of a run, in the order of the cases."""

    outcomes: tuple[Outcome, ...]

    @property
    def failures(self) -> list[Outcome]:
        """The outcomes of the cases that failed."""
        return [outcome for outcome in self.outcomes if outcome.status is Status.FAILED]

    @property
    def families(self) -> dict[str, dict[str, int]]:
        """Counts by family and status, families sorted by name; every status is there."""
        counts = {family: dict.fromkeys(map(str, Status), 0) for family in _families(self.outcomes)}
        for outcome in self.outcomes:
            counts[outcome.case.family][outcome.status] += 1
        return counts

    def as_json(self) -> dict[str, Any]:
        """The report as JSON-ready data."""
        return {
            "families": self.families,
            "failures": [
                {
                    "id": outcome.case.id,
                    "expect": outcome.case.expect,
                    "engine": outcome.engine,
                    "reference": outcome.reference,
                }
                for outcome in self.failures
            ],
        }


def same(result: Any, expected: Any) -> bool:
    """Equality of results in which true is not 1."""
    return type(result) is type(expected) and bool(result == expected)


def _families(outcomes: Iterable[Outcome]) -> list[str]:
    return sorted({outcome.case.family for outcome in outcomes})
