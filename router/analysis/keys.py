"""Keys and arguments that an exchange of that type reads otherwise than they look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from bindery.router.analysis.finding import Report, subject_of
from bindery.router.analysis.patterns import ANY, ONE, words
from bindery.router.analysis.scope import Criteria, Scope
from bindery.router.model import FILTERS_ARGUMENT, NOT_HEADER_CRITERIA, REPLACEMENT_KEY, X_MATCH, Binding

Remark = tuple[str, str]


def check(scope: Scope, report: Report) -> None:
    """BT103 to BT113, each from one binding alone."""
    for binding in scope.bindings:
        for code, message in (*_BY_TYPE[scope.type_of(binding)](binding), *_replacement(binding)):
            report.add(code, subject_of(binding), message)


def _direct(binding: Binding) -> Iterator[Remark]:
    wild = [word for word in words(binding.routing_key) if word in (ONE, ANY)]
    if wild:
        yield "BT103", f"key {binding.routing_key!r} matches that very text only; {wild[0]} is a wildcard on a topic"
    yield from _ignored_arguments(binding)


def _topic(binding: Binding) -> Iterator[Remark]:
    for word in words(binding.routing_key):
        if word not in (ONE, ANY) and (ONE in word or ANY in word):
            yield "BT104", f"the word {word!r} of key {binding.routing_key!r} is a literal"
    yield from _ignored_arguments(binding)


def _fanout(binding: Binding) -> Iterator[Remark]:
    yield from _ignored_key(binding)
    yield from _ignored_arguments(binding)


def _headers(binding: Binding) -> Iterator[Remark]:
    yield from _ignored_key(binding)
    criteria = Criteria.of(binding)
    form = str(binding.arguments.get(X_MATCH, "all"))
    if criteria.matches_all:
        yield "BT111", f"x-match is {form} and no header is named: every message matches"
    if criteria.matches_none:
        yield "BT112", f"x-match is {form} and no header is named: no message matches"
    if criteria.skipped:
        yield "BT113", f"x-match is {form}, so {_listed(criteria.skipped)} is not compared"


def _ignored_key(binding: Binding) -> Iterator[Remark]:
    if binding.routing_key:
        yield "BT105", f"key {binding.routing_key!r} is not looked at"


def _ignored_arguments(binding: Binding) -> Iterator[Remark]:
    ignored = sorted(
        name
        for name in binding.arguments
        if name == X_MATCH or (name not in NOT_HEADER_CRITERIA and not name.startswith("x-"))
    )
    if ignored:
        yield "BT106", f"{_listed(ignored)} is not compared; filter with {FILTERS_ARGUMENT} or a headers exchange"


def _replacement(binding: Binding) -> Iterator[Remark]:
    if binding.destination_type == "queue" and REPLACEMENT_KEY in binding.arguments:
        yield "BT107", f"the destination {binding.destination!r} is a queue"


def _listed(names: Iterator[str] | tuple[str, ...] | list[str]) -> str:
    return ", ".join(repr(name) for name in names)


_BY_TYPE: Final[dict[str, Callable[[Binding], Iterator[Remark]]]] = {
    "direct": _direct,
    "topic": _topic,
    "fanout": _fanout,
    "headers": _headers,
}
