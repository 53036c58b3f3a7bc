"""Findings as data: the table of codes, one finding, and the report that counts them.

Codes never change their meaning; docs/topology-lint.md has one section for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from bindery.router.model import Binding, Divert, Exchange, Queue, Setting

Severity = Literal["error", "warning", "info"]
#: Severities from the gravest; a report is sorted by it.
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
#: Findings of one code that a report lists; the rest is counted.
LISTED_PER_CODE: Final = 200
DOCUMENT: Final = "docs/topology-lint.md"


@dataclass(frozen=True, slots=True)
class Rule:
    """One code: what it is called, how grave it is, and why it matters."""

    code: str
    name: str
    severity: Severity
    explanation: str

    @property
    def anchor(self) -> str:
        """Where the code is documented."""
        return f"{DOCUMENT}#{self.code.lower()}"


def _table(*rows: tuple[str, str, Severity, str]) -> dict[str, Rule]:
    return {code: Rule(code, name, severity, explanation) for code, name, severity, explanation in rows}


#: Every code, in the order of the documentation.
RULES: Final = _table(
    ("BT101", "shadowed binding", "warning",
     "Another binding from the same exchange to the same destination accepts every message that this one "
     "accepts. One copy is made whatever number of bindings match, so this one decides nothing."),
    ("BT102", "duplicate binding", "warning",
     "Two bindings from the same exchange to the same destination accept exactly the same messages although "
     "their keys or arguments are written differently."),
    ("BT103", "wildcard on a direct exchange", "warning",
     "A direct exchange compares keys byte for byte: * and # in its binding keys are ordinary characters."),
    ("BT104", "wildcard inside a word", "warning",
     "On a topic exchange only a whole word can be a wildcard: in a#b, ** or order-* the sign is a literal."),
    ("BT105", "ignored routing key", "info",
     "Fanout and headers exchanges never look at the binding key."),
    ("BT106", "ignored arguments", "warning",
     "Only a headers exchange reads x-match and header criteria; on the other types they have no effect."),
    ("BT107", "replacement key without effect", "info",
     "x-replacement-routing-key is handed on to a destination exchange; a queue never sees it."),
    ("BT111", "headers binding that matches everything", "warning",
     "No argument is left to compare, and 'all of nothing' is true for every message."),
    ("BT112", "headers binding that matches nothing", "error",
     "No argument is left to compare, and 'any of nothing' is true for no message."),
    ("BT113", "skipped header criterion", "warning",
     "With x-match all or any, arguments whose name begins with x- are no criteria; all-with-x and any-with-x "
     "compare them."),
    ("BT120", "queue without a binding", "info",
     "Nothing leads to the queue but the default exchange, by publishing with its name as the key."),
    ("BT121", "unreachable queue", "warning",
     "Bindings lead to the queue, and none of them can ever deliver a message."),
    ("BT122", "unreachable exchange", "warning",
     "Nobody may publish to an internal exchange, and no binding, divert or alternate leads to this one."),
    ("BT123", "exchange without destinations", "info",
     "No binding, divert or alternate leaves the exchange: whatever is published to it is unroutable."),
    ("BT130", "cycle of bindings", "warning",
     "Exchange-to-exchange bindings come back to where they began. Each exchange is visited once per message "
     "and set of keys, so routing ends, but the last binding of the circle adds nothing."),
    ("BT131", "cycle of alternates", "warning",
     "Alternates come back to where they began: a message that nobody wants is still unroutable at the end."),
    ("BT132", "cycle of diverts", "warning",
     "A divert leads back to its own source. The second visit with the same keys is cut."),
    ("BT133", "missing alternate", "error",
     "The alternate does not exist: messages that need it become unroutable with reason alternate_missing."),
    ("BT134", "ambiguous alternate", "info",
     "A queue and an exchange share the name in alternate-binding; the exchange is taken."),
    ("BT135", "alternate that is never used", "info",
     "Every message meets a binding of the exchange, so its alternate-exchange gets nothing."),
    ("BT140", "exclusive divert that starves", "warning",
     "The divert takes every message of its source; bindings and non-exclusive diverts there never apply."),
    ("BT141", "divert that never fires", "warning",
     "No message can meet the divert."),
    ("BT142", "divert into nothing", "error",
     "The exclusive divert takes messages away from their bindings, to an exchange that leads to no queue."),
    ("BT150", "overlapping queues", "info",
     "Nearly every recent message of one queue is in the other as well."),
    ("BT151", "queues with the same messages", "info",
     "Recently two queues received the same messages: one of them may be superfluous."),
    ("BT160", "look-alike names", "warning",
     "Two names differ in case, blanks, invisible characters or letters that look the same, and names compare "
     "byte for byte."),
    ("BT161", "blank or invisible characters in a name", "warning",
     "A name or key begins or ends with a blank, or holds a character that nobody sees."),
    ("BT170", "filter that is never true", "error",
     "No message passes the filter."),
    ("BT171", "filter that is always true", "info",
     "Every message passes the filter: it says nothing."),
    ("BT172", "filter that contradicts its binding", "error",
     "The filter can only be true for messages that the header criteria of the same binding exclude."),
    ("BT173", "binding filter that contradicts the queue filter", "error",
     "No message passes the filter of the binding and the filter of the queue behind it."),
    ("BT174", "remark on a filter", "warning",
     "The filter can be honoured, but hardly says what was meant."),
    ("BT180", "arguments without effect", "warning",
     "Arguments that brokers know, and any others, are accepted and kept; these do nothing here."),
    ("BT181", "policy keys without effect", "warning",
     "Policies are accepted and kept whatever their keys; these do nothing here."),
    ("BT199", "analysis was cut short", "info",
     "The topology needs more comparisons than the analysis allows itself; what was compared is reported."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Subject:
    """What a finding is about; `id` is the lineage id of a binding or divert."""

    kind: str
    vhost: str
    name: str
    id: int | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.id is None else f"{self.kind} {self.name} (id {self.id})"


def subject_of(item: Exchange | Queue | Binding | Divert | Setting) -> Subject:
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


def binding_name(binding: Binding) -> str:
    """A binding in a few words: source -> destination [key]."""
    target = binding.destination if binding.destination_type == "queue" else f"exchange {binding.destination}"
    return f"{binding.source} -> {target} [{binding.routing_key}]"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the analysis noticed; `related` names the other objects that play a part."""

    code: str
    subject: Subject
    message: str
    related: tuple[Subject, ...] = ()

    @property
    def rule(self) -> Rule:
        """The row of RULES behind the code."""
        return RULES[self.code]

    def as_data(self) -> dict[str, Any]:
        """The finding as JSON-ready data."""
        return {
            "code": self.code,
            "name": self.rule.name,
            "severity": self.rule.severity,
            "subject": _subject_data(self.subject),
            "message": self.message,
            "related": [_subject_data(item) for item in self.related],
            "explanation": self.rule.explanation,
            "documentation": self.rule.anchor,
        }


def _subject_data(subject: Subject) -> dict[str, Any]:
    data: dict[str, Any] = {"kind": subject.kind, "vhost": subject.vhost, "name": subject.name}
    if subject.id is not None:
        data["id"] = subject.id
    return data


@dataclass
class Report:
    """What an analysis found: at most LISTED_PER_CODE findings of each code, and how many there are."""

    findings: list[Finding] = field(default_factory=list)
    totals: Counter[str] = field(default_factory=Counter)

    def add(self, code: str, subject: Subject, message: str, related: Iterable[Subject] = ()) -> None:
        """Count a finding, and list it unless its code is listed often enough."""
        self.totals[code] += 1
        if self.totals[code] <= LISTED_PER_CODE:
            self.findings.append(Finding(code, subject, message, tuple(related)))

    def sort(self) -> None:
        """Order the findings: gravest first, then by code and subject."""
        self.findings.sort(
            key=lambda found: (
                SEVERITIES.index(found.rule.severity),
                found.code,
                found.subject.vhost,
                found.subject.kind,
                found.subject.name,
                found.subject.id or 0,
            )
        )

    def codes(self) -> set[str]:
        """The codes that occur."""
        return set(self.totals)

    def worst(self) -> Severity | None:
        """The gravest severity that occurs."""
        present = {RULES[code].severity for code in self.totals}
        return next((severity for severity in SEVERITIES if severity in present), None)

    def as_data(self) -> dict[str, Any]:
        """The report as JSON-ready data."""
        severities = Counter[str]()
        for code, count in self.totals.items():
            severities[RULES[code].severity] += count
        return {
            "findings": [found.as_data() for found in self.findings],
            "totals": dict(sorted(self.totals.items())),
            "severities": {severity: severities[severity] for severity in SEVERITIES},
            "listed_per_code": LISTED_PER_CODE,
        }
