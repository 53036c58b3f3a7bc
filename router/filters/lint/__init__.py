"""Lint: remarks on filters that are legal but probably not what was meant, or mean something else elsewhere.

    lint(parse("NOT colour = 'red'", "artemis"))

Findings are data; nothing is ever refused because of them. docs/lint.md explains each rule.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bindery.router.errors import FilterError
from bindery.router.filters.filter import Filter, parse
from bindery.router.filters.limits import NO_LIMITS, Limits
from bindery.router.filters.lint import brokers, conditions, names
from bindery.router.filters.lint.finding import Finding
from bindery.router.filters.lint.rules import RULES
from bindery.router.filters.lint.schema import ObservedSchema
from bindery.router.filters.lint.subject import Subject, described
from bindery.router.filters.sets.descriptors import FILTER_TYPES
from bindery.router.filters.sets.parser import DIALECT

__all__ = ["RULES", "Finding", "ObservedSchema", "brokers", "conditions", "lint", "names"]

#: Descriptors whose value is a filter written as text, and its language.
_TEXTS = {
    descriptor: kind.dialect
    for kind in FILTER_TYPES
    for descriptor in (kind.symbol, kind.code)
    if kind.dialect is not None and descriptor is not None
}


def lint(filter: Filter, *, schema: ObservedSchema | None = None) -> list[Finding]:  # what it is
    """All findings on a filter, by place and code; `schema` is what a queue's messages were seen to hold."""
    found = list(_apply(filter, schema, "filter set" if filter.dialect == DIALECT else None))
    if filter.dialect == DIALECT:
        for where, inner in _inner_texts(json.loads(filter.text), replace(NO_LIMITS, payload=filter.payload)):
            found.extend(_apply(inner, schema, where))
    return sorted(found, key=lambda finding: (finding.where or "", finding.offset, finding.code))


def _apply(filter: Filter, schema: ObservedSchema | None, where: str | None) -> Iterator[Finding]:
    subject = Subject(filter, schema)
    for rule in RULES.values():
        if filter.dialect in rule.dialects:
            for remark in dict.fromkeys(rule.check(subject)):
                yield Finding(rule.code, remark.message, remark.offset, remark.length, where)


def _inner_texts(raw: Any, limits: Limits) -> Iterator[tuple[str, Filter]]:
    """The selectors and SQL filters inside a filter set, with their places."""
    for where, item in described(raw):
        descriptor, value = item["descriptor"], item["value"]
        dialect = _TEXTS.get(descriptor) if isinstance(descriptor, str | int) else None
        if dialect is not None and isinstance(value, str):
            try:
                yield f"{where}.value", parse(value, dialect, limits=limits)
            except FilterError:
                continue  # a map that only looks like a filter
