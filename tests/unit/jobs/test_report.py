"""The line that a run of a stream ends with."""

from __future__ import annotations

from bindery.jobs.report import BatchReport, Totals


def report(
    records: int,
    copies: int,
    reasons: dict[str, int],
    problems: dict[str, int],
    unparsable: dict[tuple[str, str, str], int] | None = None,
) -> BatchReport:
    lost = sum(reasons.values())
    return BatchReport(
        0, 1, records, copies, lost, {}, reasons=reasons, problems=problems, unparsable=unparsable or {}
    )  # fmt: skip


def test_a_summary_names_the_most_frequent_problems_shortened() -> None:
    totals = Totals()
    assert totals.summary == "0 records → 0 copies"
    many = {f"column {n} \x1b": n for n in range(1, 6)}
    totals.add(report(1500, 1, {"invalid_record": 15, "filtered": 3, "no_binding": 4}, many))
    totals.add(report(1, 0, {"invalid_record": 1}, {"a" * 500: 9}))
    assert totals.summary == (
        f"1,501 records → 1 copy, 16 invalid: {'a' * 119}… ×9, column 5 \ufffd ×5, column 4 \ufffd ×4 …, "
        "7 unroutable: no_binding ×4, filtered ×3"
    )


def test_a_summary_is_data_too() -> None:
    totals = Totals()
    totals.add(report(3, 2, {"no_binding": 1}, {}))
    totals.add(report(2, 1, {"invalid_record": 1}, {"n is no number": 1}))
    assert totals.as_data() == {
        "batches": 2,
        "records": 5,
        "copies": 3,
        "unroutable": 2,
        "reasons": {"invalid_record": 1, "no_binding": 1},
        "problems": {"n is no number": 1},
        "unparsable": [],
    }


def test_bodies_that_filters_could_not_read_are_told_wherever_they_went() -> None:
    totals = Totals()
    totals.add(report(3, 3, {}, {}, {("exchange", "orders", "syntax"): 1}))
    totals.add(report(3, 3, {}, {}, {("exchange", "orders", "syntax"): 1, ("queue", "it's", "too-deep"): 1}))
    assert totals.summary == (
        "6 records → 6 copies, 3 bodies not readable: syntax for exchange 'orders' ×2, too-deep for queue \"it's\" ×1"
    )
    assert totals.as_data()["unparsable"] == [
        {"kind": "exchange", "name": "orders", "reason": "syntax", "messages": 2},
        {"kind": "queue", "name": "it's", "reason": "too-deep", "messages": 1},
    ]


def test_duplicates_are_told_apart_and_are_not_lost() -> None:
    totals = Totals()
    totals.add(BatchReport(0, 1, 6, 3, 3, {}, reasons={"duplicate": 2, "no_binding": 1}))
    assert totals.summary == "6 records → 3 copies, 2 duplicates, 1 unroutable: no_binding ×1"
    assert (totals.unroutable, totals.lost) == (3, 1)
