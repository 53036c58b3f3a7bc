"""What can be mended without doubt: bindings that decide nothing are taken away, and no copy changes.

Only BT101 and BT102 are mended. For every other finding its author has to say what was meant.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bindery.router.analysis.finding import Finding

#: Codes of findings whose subject, a binding, can be deleted.
FIXED: Final = frozenset({"BT101", "BT102"})


def superfluous(findings: Iterable[Finding]) -> dict[int, Finding]:
    """By lineage id the bindings that can all be deleted together.

    Each is covered by another one, which may be covered itself: the last one of such a row stays.
    """
    found = {
        finding.subject.id: finding
        for finding in findings
        if finding.code in FIXED and finding.subject.id is not None and finding.related
    }
    gone: dict[int, Finding] = {}
    for number, finding in found.items():
        wide = finding.related[0].id
        while wide in gone and wide != number:
            wide = gone[wide].related[0].id
        if wide != number:
            gone[number] = finding
    return gone
