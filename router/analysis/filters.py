"""Filters of bindings, diverts and queues that let everything or nothing through, alone or together."""

from __future__ import annotations

from typing import Final

from bindery.router.analysis.finding import Report, Subject, subject_of
from bindery.router.analysis.verdicts import MAX_FILTERS, MAX_LINTED, Read, Verdicts
from bindery.router.links import Links, transform_of
from bindery.router.model import Binding, Divert, Queue

#: Characters of a filter that a message quotes.
QUOTED: Final = 120


def check(links: Links, verdicts: Verdicts, report: Report) -> None:
    """BT170 to BT174, and BT199 when there are too many distinct filters."""
    for queue in links.queues.values():
        _alone(queue, verdicts.of_queue(queue), verdicts, report)
    for divert in links.diverts:
        _alone(divert, verdicts.of_divert(divert), verdicts, report)
    for binding in links.bindings:
        _alone(binding, verdicts.of_binding(binding), verdicts, report)
        _together(links, verdicts, binding, report)
    if verdicts.spent_out:
        report.add(
            "BT199",
            Subject("vhost", links.vhost, links.vhost),
            f"of the distinct filters only the first {MAX_FILTERS:,} were judged and {MAX_LINTED:,} linted",
        )


def _alone(item: Queue | Divert | Binding, read: Read, verdicts: Verdicts, report: Report) -> None:
    if not read.filters:
        return
    if read.verdict is not None:
        report.add("BT171" if read.verdict else "BT170", subject_of(item), quoted(read))
    for remark in verdicts.remarks(read):
        report.add("BT174", subject_of(item), remark)


def _together(links: Links, verdicts: Verdicts, binding: Binding, report: Report) -> None:
    own = verdicts.of_binding(binding)
    if own.filters and own.verdict is not False and not verdicts.meets(binding):
        report.add("BT172", subject_of(binding), f"{quoted(own)}: never true for a message with the headers it matches")
        return
    if binding.destination_type != "queue" or transform_of(binding) is not None:  # its queue sees another message
        return
    queue = links.queues[binding.destination]
    behind = verdicts.of_queue(queue)
    alone = own.verdict is False or behind.verdict is False
    if behind.filters and not alone and not verdicts.meets(binding, behind):
        report.add(
            "BT173",
            subject_of(binding),
            f"the queue only takes {quoted(behind)}" + (f", the binding {quoted(own)}" if own.filters else ""),
            [subject_of(queue)],
        )


def quoted(read: Read) -> str:
    """The texts of filters, cut to a readable length."""
    text = " AND ".join(f"({item.text})" if len(read.filters) > 1 else item.text for item in read.filters)
    return text if len(text) <= QUOTED else text[: QUOTED - 1] + "…"
