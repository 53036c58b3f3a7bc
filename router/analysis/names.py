"""Names that look alike, and names with characters that nobody sees.

Names compare byte for byte (AMQP 0-9-1 §3.1.3.3), so "orders", "Orders" and "orders " are three. Two
names look alike when their skeletons are equal: compatibility characters resolved, letters of other
scripts replaced by the Latin ones they are drawn like, case folded, blanks and invisible signs dropped.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from bindery.router.analysis.finding import Report, Subject, subject_of
from bindery.router.links import Links

#: Letters drawn like Latin ones, as their Latin twins (the common part of Unicode TR 39, "confusables").
_TWINS: Final = str.maketrans(
    dict(
        zip(
            "АВЕЅІЈКМНОРСТХУаеіјорсухһԁԛԝѕ"  # Cyrillic
            "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαινορυχ"  # Greek
            "ɑɡıℓ",
            "ABESIJKMHOPCTXYaeijopcyxhdqwsABEZHIKMNOPTYXaivopuxagil",
            strict=True,
        )
    )
)
#: Signs of one shape within Latin script, after folding.
_SHAPES: Final = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l"})
#: Signs that people use for one another between words.
_DASHES: Final = str.maketrans(dict.fromkeys("‐‑‒–—―−_", "-"))
_INVISIBLE: Final = ("Cc", "Cf", "Zl", "Zp")


def skeleton(name: str) -> str:
    """What a name looks like; two names with one skeleton are easily taken for each other."""
    plain = unicodedata.normalize("NFKD", name).translate(_TWINS)
    visible = "".join(
        char for char in plain if not char.isspace() and unicodedata.category(char) not in (*_INVISIBLE, "Mn")
    )
    return visible.casefold().translate(_SHAPES).translate(_DASHES)


def oddity(name: str) -> str | None:
    """What is unexpected about the characters of a name, in words, if anything."""
    if name != name.strip():
        return "begins or ends with a blank"
    for char in name:
        if unicodedata.category(char) in _INVISIBLE or (char.isspace() and char != " "):
            return f"holds the invisible character U+{ord(char):04X}"
    return None


def look_alikes(names: Iterable[str]) -> list[list[str]]:
    """Groups of two and more names that look alike, each sorted, in a stable order."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[skeleton(name)].append(name)
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)


def check(links: Links, report: Report) -> None:
    """BT160 within exchanges, queues and diverts; BT161 also for the keys of bindings."""
    declared = {
        "exchange": [name for name in links.exchanges if not name.startswith("amq.")],
        "queue": list(links.queues),
        "divert": [divert.name for divert in links.diverts],
    }
    for kind, names in declared.items():
        for first, *others in look_alikes(names):
            report.add(
                "BT160",
                Subject(kind, links.vhost, first),
                f"{first!r} looks like " + ", ".join(repr(other) for other in others),
                [Subject(kind, links.vhost, other) for other in others],
            )
        for name in names:
            odd = oddity(name)
            if odd:
                report.add("BT161", Subject(kind, links.vhost, name), f"the name {name!r} {odd}")
    for binding in links.bindings:
        odd = oddity(binding.routing_key)
        if odd:
            report.add("BT161", subject_of(binding), f"the key {binding.routing_key!r} {odd}")
