"""What lint says of a topology: findings as data, and the report that counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.router import lint
from bindery.router.analysis.rules import RULES
from bindery.router.lint import SEVERITIES, Severity
from bindery.router.model import Binding, Divert, Exchange, Queue, Setting, Vhost

#: Findings of one code that a report lists; the rest is counted.
LISTED_PER_CODE: Final = 200


@dataclass(frozen=True, slots=True)
class Subject:
    """What a finding is about; `id` is the lineage id of a binding or divert."""

    kind: str
    vhost: str
    name: str
    id: int | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.id is None else f"{self.kind} {self.name} (id {self.id})"


def subject_of(item: Exchange | Queue | Binding | Divert | Setting | Vhost) -> Subject:
    """The subject that stands for an object of the topology."""
    match item:
        case Exchange():
            return Subject("exchange", item.vhost, item.name)
        case Queue():
            return Subject("queue", item.vhost, item.name)
        case Binding():
            return Subject("binding", item.vhost, binding_name(item), item.id)
        case Divert():
            return Subject("divert", item.vhost, item.name, item.id)
        case Setting():
            return Subject(item.kind, item.vhost, item.name)
        case Vhost():
            return Subject("vhost", item.name, item.name)


def binding_name(binding: Binding) -> str:
    """A binding in a few words: source -> destination [key]."""
    target = binding.destination if binding.destination_type == "queue" else f"exchange {binding.destination}"
    return f"{binding.source} -> {target} [{binding.routing_key}]"


@dataclass(frozen=True, slots=True)
class Finding(lint.Finding):
    """One thing that the analysis noticed; `related` names the other objects that play a part."""

    subject: Subject
    related: tuple[Subject, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """The finding as JSON-ready data."""
        return {
            "code": self.code,
            "name": self.title,
            "severity": self.severity,
            "subject": _subject_data(self.subject),
            "message": self.message,
            "related": [_subject_data(item) for item in self.related],
            "explanation": self.explanation,
            "documentation": self.anchor,
        }


def _subject_data(subject: Subject) -> dict[str, Any]:
    data: dict[str, Any] = {"kind": subject.kind, "vhost": subject.vhost, "name": subject.name}
    if subject.id is not None:
        data["id"] = subject.id
    return data


@dataclass
class Report:
    """What an analysis found: at most `listed_per_code` findings of each code, and how many there are."""

    findings: list[Finding] = field(default_factory=list)
    totals: Counter[str] = field(default_factory=Counter)
    listed_per_code: int = LISTED_PER_CODE

    def add(self, code: str, subject: Subject, message: str, related: Iterable[Subject] = ()) -> None:
        """Count a finding, and list it unless its code is listed often enough."""
        self.totals[code] += 1
        if self.totals[code] <= self.listed_per_code:
            self.findings.append(Finding(code, message, subject, tuple(related)))

    def sort(self) -> None:
        """Order the findings: gravest first, then by code and subject."""
        self.findings.sort(
            key=lambda found: (
                SEVERITIES.index(found.severity),
                found.code,
                found.subject.vhost,
                found.subject.kind,
                found.subject.name,
                found.subject.id or 0,
            )
        )

    def narrow(self, select: Sequence[str], ignore: Sequence[str]) -> None:
        """Keep the findings of selected codes, all without a selection, but for ignored ones.

        Both are codes or beginnings of them; of two that fit a code the longer one counts.
        """

        def kept(code: str) -> bool:
            chosen = max((len(prefix) for prefix in select if code.startswith(prefix)), default=-1 if select else 0)
            left_out = max((len(prefix) for prefix in ignore if code.startswith(prefix)), default=-1)
            return chosen > left_out

        self.findings = [found for found in self.findings if kept(found.code)]
        self.totals = Counter({code: count for code, count in self.totals.items() if kept(code)})

    def drop(self, is_meant: Callable[[Finding], bool]) -> int:
        """Leave out listed findings that are meant so, and count them no more; how many that were."""
        kept = [found for found in self.findings if not is_meant(found)]
        self.totals -= Counter(found.code for found in self.findings) - Counter(found.code for found in kept)
        dropped = len(self.findings) - len(kept)
        self.findings = kept
        return dropped

    def shortened(self, listed: int = LISTED_PER_CODE) -> Report:
        """The same report with at most `listed` findings of each code, the first ones."""
        seen = Counter[str]()
        kept = []
        for found in self.findings:
            seen[found.code] += 1
            if seen[found.code] <= listed:
                kept.append(found)
        return Report(kept, self.totals, listed)

    def severities(self) -> dict[Severity, int]:
        """How many findings there are of each severity."""
        counted = Counter[Severity]()
        for code, count in self.totals.items():
            counted[RULES[code].severity] += count
        return {severity: counted[severity] for severity in SEVERITIES}

    def codes(self) -> set[str]:
        """The codes that occur."""
        return set(self.totals)

    def worst(self) -> Severity | None:
        """The gravest severity that occurs."""
        present = {RULES[code].severity for code in self.totals}
        return next((severity for severity in SEVERITIES if severity in present), None)

    def as_data(self) -> dict[str, Any]:
        """The report as JSON-ready data."""
        return {
            "findings": [found.as_data() for found in self.findings],
            "totals": dict(sorted(self.totals.items())),
            "severities": self.severities(),
            "listed_per_code": self.listed_per_code,
        }
