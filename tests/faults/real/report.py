"""A run as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.faults.real.installation import Installation
from tests.faults.real.verdict import Verdict


def render(title: str, times: Mapping[str, int], installation: Installation, verdict: Verdict) -> str:
    """What happened, what was sent, what is there, and everything that is not as it must be."""
    return "\n".join(_lines(title, times, installation, verdict))


def passed(installation: Installation, verdict: Verdict) -> bool:
    """Whether nothing happened that should not."""
    return verdict.good and not installation.faults and not unexplained(installation)


def unexplained(installation: Installation) -> list[str]:
    """Answers of the service that are neither success nor a refusal by rule."""
    return [f"{what}: {status} {text} ({times} times)" for (what, status, text), times in _errors(installation)]


def _errors(installation: Installation) -> list[tuple[tuple[str, int, str], int]]:
    return [] if installation.may_fail else installation.ledger.errors.most_common()


def _lines(title: str, times: Mapping[str, int], installation: Installation, verdict: Verdict) -> Iterator[str]:
    ledger = installation.ledger
    yield f"{title}, seed {installation.seed}"
    yield "  " + ", ".join(f"{kind} {number}" for kind, number in sorted(times.items()))
    batches = ", ".join(f"{number:,} of {stream}" for stream, number in sorted(verdict.batches.items()))
    changes = ledger.changes["made"]
    yield f"  batches: {batches}; topology versions: {verdict.versions:,}, requests to change it: {changes:,}"
    beside = (f"{one.name} {one.times['ended']} and {one.times['killed']} killed" for one in installation.companions)
    yield f"  beside it: {', '.join(beside)}"
    yield (
        f"  commits to queues: {verdict.commits.commits:,}, "
        f"of these flushes: {verdict.commits.flushes:,} with {verdict.commits.copies:,} copies"
    )
    yield f"  {'':18}{'messages':>10}{'copies':>10}{'lost':>8}{'doubled':>8}{'wrong':>8}"
    for name, book in verdict.books.items():
        numbers = f"{book.messages:>10,}{book.copies:>10,}{book.lost:>8,}{book.doubled:>8,}{book.wrong:>8,}"
        yield f"  {name:18}{numbers}"
    failed = sum(times for (what, _, _), times in ledger.errors.items() if what == "publish")
    yield (
        f"  REST without an answer: {verdict.whole} there, {verdict.torn} in part, {verdict.absent} not; "
        f"{failed} of them were answered with an error"
    )
    for what, number in sorted(verdict.findings.items()):
        yield f"  WRONG {number:,} times: {what}"
        yield from (f"      {example}" for example in verdict.examples[what])
    for fault in [*installation.faults, *unexplained(installation)]:
        yield f"  WRONG {fault}"
    end = "as it must be" if passed(installation, verdict) else "FAILED"
    yield f"  lost {verdict.lost}, doubled {verdict.doubled}: {end}"
