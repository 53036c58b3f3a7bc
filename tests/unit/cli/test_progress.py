"""The line that a run of a stream ends with."""

from __future__ import annotations

from bindery.cli.progress import StreamProgress
from bindery.jobs.route import BatchReport


def report(records: int, copies: int, reasons: dict[str, int], problems: dict[str, int]) -> BatchReport:
    lost = sum(reasons.values())
    return BatchReport(0, 1, records, copies, lost, {}, reasons=reasons, problems=problems)


def test_a_summary_names_the_most_frequent_problems_shortened() -> None:
    progress = StreamProgress("s")
    assert progress.summary == "0 records → 0 copies"
    many = {f"column {n} \x1b": n for n in range(1, 6)}
    progress.report(report(1500, 1, {"invalid_record": 15, "filtered": 3, "no_binding": 4}, many))
    progress.report(report(1, 0, {"invalid_record": 1}, {"a" * 500: 9}))
    assert progress.summary == (
        f"1,501 records → 1 copy, 16 invalid: {'a' * 119}… ×9, column 5 \ufffd ×5, column 4 \ufffd ×4 …, "
        "7 unroutable: no_binding ×4, filtered ×3"
    )
