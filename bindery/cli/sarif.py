"""Findings of lint as SARIF 2.1.0 (OASIS, 2020), which code hosts and editors show beside the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from bindery import __version__
from bindery.router.lint import Rule

if TYPE_CHECKING:
    from bindery.router.analysis import Report, Subject
    from bindery.router.analysis.finding import Finding

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
#: `level` (§3.27.10) of each severity.
_LEVELS: Final = {"error": "error", "warning": "warning", "info": "note"}


def as_sarif(report: Report, file: Path | None, line: Callable[[Subject], int | None]) -> dict[str, Any]:
    """One run with the findings of a report; places in a definitions file where there is one."""
    rules = sorted({found.code: found.rule for found in report.findings}.items())
    index = {code: number for number, (code, _) in enumerate(rules)}

    def result(found: Finding) -> dict[str, Any]:
        return {
            "ruleId": found.code,
            "ruleIndex": index[found.code],
            "level": _LEVELS[found.severity],
            "message": {"text": f"{found.subject}: {found.message}"},
            "locations": [_location(found.subject, file, line)],
            "relatedLocations": [_location(subject, file, line) for subject in found.related],
        }

    driver = {"name": "bindery lint", "version": __version__, "rules": [_rule(rule) for _, rule in rules]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [result(found) for found in report.findings],
        "properties": {"totals": dict(sorted(report.totals.items()))},
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.title.split()),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.explanation},
        "help": {"text": "\n\n".join(rule.page())},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _location(subject: Subject, file: Path | None, line: Callable[[Subject], int | None]) -> dict[str, Any]:
    logical = {"name": subject.name, "fullyQualifiedName": f"{subject.vhost}/{subject}", "kind": subject.kind}
    location: dict[str, Any] = {"logicalLocations": [logical]}
    if file is not None:
        physical: dict[str, Any] = {"artifactLocation": {"uri": quote(file.as_posix())}}
        found = line(subject)
        if found is not None:
            physical["region"] = {"startLine": found}
        location["physicalLocation"] = physical
    return location
