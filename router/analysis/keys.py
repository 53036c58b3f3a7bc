"""Keys and arguments that an exchange of that type reads otherwise than they look."""

from __future__ import annotations

from bindery.router.analysis.finding import Report, subject_of
from bindery.router.links import Links
from bindery.router.model import REPLACEMENT_KEY


def check(links: Links, report: Report) -> None:
    """BT103 to BT115, each from one binding alone."""
    for binding in links.bindings:
        for code, message in links.type_of(binding).remarks(binding):
            report.add(code, subject_of(binding), message)
        if binding.destination_type == "queue" and REPLACEMENT_KEY in binding.arguments:
            report.add("BT107", subject_of(binding), f"the destination {binding.destination!r} is a queue")
