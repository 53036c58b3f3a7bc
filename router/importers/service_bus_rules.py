"""Rules of subscriptions of Azure Service Bus: their filters as filter sets, their actions as transformations, and
messages that fit them.

Source: "Topic filters and actions": SQL filters, correlation filters, and the boolean filters `1=1` and `1=0`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bindery.router.errors import FilterError
from bindery.router.filters import Filter, evaluate, parse
from bindery.router.filters.ast import And, Compare, Field, IsNull, Literal, Node, Not, Truth
from bindery.router.filters.fields import property_name
from bindery.router.filters.sets import parse_filter_set
from bindery.router.importers.arm_expressions import hole_of
from bindery.router.importers.objects import SourceObject
from bindery.router.message import Message
from bindery.router.transforms import of_rule_action

SQL: Final = "com.microsoft:sql-filter"
CORRELATION: Final = "com.microsoft:correlation-filter"
_TRUE: Final = re.compile(r"\s*1\s*=\s*1\s*")
_FALSE: Final = re.compile(r"\s*1\s*=\s*0\s*")
_KINDS: Final = {"sqlfilter": "sqlFilter", "correlationfilter": "correlationFilter"}
_IDLE: Final = frozenset({"requiresPreprocessing", "compatibilityLevel"})


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that is carried over: its object, and its filter set (empty: everything).

    acts       whether it has an action, and so makes a copy of its own there
    transform  the transformation that is its action, and gives the copy the rule's name as `RuleName`; None without one
    """

    item: SourceObject
    filters: Mapping[str, Any]
    acts: bool = False
    transform: str | None = None

    @property
    def filter(self) -> Filter | None:
        """Its filter; None where it lets everything in."""
        return parse_filter_set(self.filters) if self.filters else None

    def fits(self, message: Message) -> bool:
        """Whether it lets a message in."""
        found = self.filter
        return found is None or evaluate(found, message) is True


def rule_of(item: SourceObject, properties: Mapping[str, Any]) -> Rule | None:
    """The rule that properties state; None for one that lets nothing in or cannot be carried over, which is said."""
    kind = str(properties.get("filterType") or "").lower()
    stated = [name for name in _KINDS.values() if isinstance(properties.get(name), Mapping)]
    name = _KINDS.get(kind, "") if kind else stated[0] if len(stated) == 1 else ""
    for key in properties:
        if key not in ("filterType", "action", *_KINDS.values()):
            item.unknown(key)
    if name not in stated:
        item.lost("it states no filter that is known", "filterType", hint="sqlFilter or correlationFilter")
        return None
    raw = {key: value for key, value in properties[name].items() if value is not None}
    open_ = hole_of(raw)
    if open_ is not None:
        item.lost(f"nobody says what {open_} is", name, hint="write it into a copy of the file")
        return None
    for key in _IDLE & raw.keys():
        item.idle(f"{name}.{key}", "how Service Bus reads the filter")
        del raw[key]
    filters = _sql(item, raw) if name == "sqlFilter" else _correlation(item, raw)
    acts, transform = _action(item, properties.get("action"))
    return None if filters is None else Rule(item, filters, acts, transform)


def _sql(item: SourceObject, raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for key in raw.keys() - {"sqlExpression"}:
        item.unknown(f"sqlFilter.{key}")
    text = raw.get("sqlExpression")
    if not isinstance(text, str):
        item.lost("it states no expression", "sqlFilter.sqlExpression", hint="a text")
        return None
    if _TRUE.fullmatch(text):
        return {}
    if _FALSE.fullmatch(text):
        item.idle("sqlFilter", "it lets nothing in")
        return None
    try:
        parse(text, "service-bus")
    except FilterError as error:
        item.lost(f"the filter is refused: {error.message}", "sqlFilter.sqlExpression", hint=error.hint)
        return None
    return {"filter": {"descriptor": SQL, "value": text}}


def _correlation(item: SourceObject, raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    properties = raw.get("properties")
    if properties == {}:
        raw = {key: value for key, value in raw.items() if key != "properties"}
    filters = {"filter": {"descriptor": CORRELATION, "value": dict(raw)}}
    try:
        parse_filter_set(filters)
    except FilterError as error:
        item.lost(f"the filter is refused: {error.message}", "correlationFilter", hint=error.hint)
        return None
    return filters


def _action(item: SourceObject, raw: Any) -> tuple[bool, str | None]:
    """Whether a rule has an action, and the transformation that it is; says why where it is none."""
    text = raw.get("sqlExpression") if isinstance(raw, Mapping) else None
    if text in (None, ""):
        return False, None
    try:
        if not isinstance(text, str):
            raise FilterError("no text", text=str(text))
        return True, of_rule_action(text, rule=item.name.rpartition("/")[2])
    except FilterError as error:
        said = f"not carried out, it is refused: {error.message}; the copy has the properties of the message"
        item.differs("action", said, hint=error.hint or "readers, or the expressions of a job, set them")
        return True, None


# -- messages that fit


def message_of(rules: Sequence[Rule]) -> Mapping[str, Any] | None:
    """A message that fits all of some rules, in its JSON form; None where a simple one is not found."""
    data: dict[str, Any] = {}
    for rule in rules:
        if rule.filter is None:
            continue
        for section, name, value in _wanted(rule.filter.expression):
            held = data.setdefault(section, {})
            same = next((key for key in held if key.lower() == name.lower()), name)
            held[same] = value
    try:
        json.dumps(data, allow_nan=False)
        message = Message.from_json(data)
    except (TypeError, ValueError):
        return None
    return data if all(rule.fits(message) for rule in rules) else None


def _wanted(node: Node) -> Iterator[tuple[str, str, Any]]:
    """Section, name and value of fields that a condition asks for, where that is easily seen."""
    match node:
        case And():
            for part in node.parts:
                yield from _wanted(part)
        case Truth(operand=Field(ref=ref)):
            yield (*_place(ref), True)
        case Compare(op="=", left=Field(ref=ref), right=Literal(value=value)):
            yield (*_place(ref), value)
        case Compare(op=">" | ">=", left=Field(ref=ref), right=Literal(value=int() | float() as value)):
            yield (*_place(ref), value + 1)
        case Compare(op="<" | "<=", left=Field(ref=ref), right=Literal(value=int() | float() as value)):
            yield (*_place(ref), value - 1)
        case Not(part=IsNull(operand=Field(ref=ref))):
            yield (*_place(ref), "any")


def _place(ref: Any) -> tuple[str, str]:
    name = property_name(ref)
    return ("application_properties", name) if name is not None else (ref.section, ref.name)
