"""A pattern as a tree: which members it names, and what is asked of each.

Members of an object must all fit, of the entries in a list any (EventBridge user guide, "Event patterns"). A list in
the event fits where any of its elements does, and members of one object are asked of one element: the event
`{"a": [{"x": 1}, {"y": 2}]}` does not fit `{"a": {"x": [1], "y": [2]}}` (aws/event-ruler, README, "JSON Array
Matching").

`{"exists": false}` asks of the elements that other parts of the pattern chose, and where none chose any, of all. So
each object has two conditions: that it fits by some value that is there (`bound`), and that it fits by absence alone
(`free`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from bindery.router.columns import Ref
from bindery.router.errors import FilterError
from bindery.router.filters.ast import And, Field, Node, Not, Or
from bindery.router.filters.dialect import Dialect
from bindery.router.filters.limits import Limits, Payload
from bindery.router.filters.parser import READERS
from bindery.router.filters.patterns.json_text import Item, Listed, Member, Object, Scalar, read_json
from bindery.router.filters.patterns.nodes import AnyElement
from bindery.router.filters.patterns.operators import RESERVED, Language, Operators
from bindery.router.filters.payload import FORMATS, reference
from bindery.router.filters.spread import OBJECTS, VALUES, elements_ref

#: Combinations of alternatives that the `$or` of one pattern may stand for (EventBridge user guide, "$or").
COMBINATIONS: Final = 1000
#: Nodes that the tree of a pattern may have: members that may be absent, inside each other, multiply.
NODES: Final = 10_000
_OR: Final = "$or"
_EVENTBRIDGE: Final = Language(strict_numbers=True, empty_exists=True)
_SNS: Final = Language(strict_numbers=False, empty_exists=False)
_SCOPES: Final = ("MessageAttributes", "MessageBody")
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Ways:
    """How a part of a pattern can fit: by some value that is there, or by absence alone; None: it cannot.

    `sizes`: about how many nodes either condition has.
    """

    bound: Node | None
    free: Node | None
    sizes: tuple[int, int]

    @property
    def either(self) -> Node:
        """That the part fits."""
        return _joined(Or, [way for way in (self.bound, self.free) if way is not None])


def _joined(kind: type[And | Or], parts: Iterable[Node]) -> Node:
    """The parts in one flat AND or OR."""
    found: list[Node] = []
    for part in parts:
        found.extend(part.parts if isinstance(part, kind) else (part,))
    return found[0] if len(found) == 1 else kind(tuple(found))


def _through(node: Node, over: Field) -> Node:
    """Conditions of absence inside an object, asked of every element that it is."""
    match node:
        case Not():
            return Not(AnyElement(over, node.part))
        case And() | Or():
            return replace(node, parts=tuple(_through(part, over) for part in node.parts))
    raise TypeError(f"{node} is no condition of absence")


class _Pattern:
    """One pattern while it is read; `payload`: it is about bodies, else about properties."""

    def __init__(self, operators: Operators, payload: Payload | None) -> None:
        self._operators = operators
        self._payload = payload

    def tree(self, item: Item) -> Node:
        if not isinstance(item, Object):
            self._operators.refuse(item, "a pattern is an object", '{"name": [values]}')
        self._combinations(item)
        return self._object(item, (), frozenset(), in_or=False)[0].either

    def _combinations(self, item: Object) -> int:
        """How many alternatives the `$or` below an object stand for, all combined."""
        total = 1
        for member in item.members:
            inner = member.item
            if isinstance(inner, Object):
                total *= self._combinations(inner)
            elif member.name == _OR and isinstance(inner, Listed):
                total *= sum(self._combinations(one) for one in inner.items if isinstance(one, Object)) or 1
            if total > COMBINATIONS:
                self._operators.refuse(member, f"more than {COMBINATIONS} combinations of alternatives")
        return total

    def _object(
        self, item: Object, path: Path, known: frozenset[Path], *, in_or: bool
    ) -> tuple[_Ways, frozenset[Path]]:
        """The ways of an object, and the members that it asks about beside those `known` around it."""
        if not item.members:
            self._operators.refuse(item, "an empty object", "name at least one member")
        ways: list[_Ways] = []
        asked = known
        for member in item.members:
            found, asked = self._member(member, path, asked, in_or=in_or)
            ways.append(found)
        every = _all(ways)
        if sum(every.sizes) > NODES:
            self._operators.refuse(item, "too many combinations of values and absent members")
        return every, asked

    def _member(
        self, member: Member, path: Path, asked: frozenset[Path], *, in_or: bool
    ) -> tuple[_Ways, frozenset[Path]]:
        inner, refuse = member.item, self._operators.refuse
        if member.name == _OR:
            return self._alternatives(member, path, asked)
        if in_or and member.name in RESERVED:
            refuse(member, f"{member.name!r} is a reserved name inside $or")
        if isinstance(inner, Object):
            if self._payload is None:
                refuse(inner, "properties have no members", "a list of values, or a policy about the body")
            over = self._field((*path, member.name, OBJECTS))
            found, asked = self._object(inner, (*path, member.name, OBJECTS), asked, in_or=in_or)
            bound = None if found.bound is None else AnyElement(over, found.bound)
            free = None if found.free is None else _through(found.free, over)
            return _Ways(bound, free, (found.sizes[0] + 2, 3 * found.sizes[1])), asked
        place = (*path, member.name)
        if place in asked:
            refuse(member, f"{member.name!r} is asked about twice", "put all its values into one list")
        return self._values(member, place), asked | {place}

    def _alternatives(self, member: Member, path: Path, asked: frozenset[Path]) -> tuple[_Ways, frozenset[Path]]:
        refuse, listed = self._operators.refuse, member.item
        if not isinstance(listed, Listed) or len(listed.items) < 2:
            refuse(listed, "$or takes a list of two objects or more")
        ways: list[_Ways] = []
        together = asked
        for one in listed.items:
            if not isinstance(one, Object):
                refuse(one, "an alternative of $or is an object")
            found, known = self._object(one, path, asked, in_or=True)
            ways.append(found)
            together |= known
        bound = [found.bound for found in ways if found.bound is not None]
        free = [found.free for found in ways if found.free is not None]
        sizes = sum(found.sizes[0] for found in ways), sum(found.sizes[1] for found in ways)
        return _Ways(_joined(Or, bound) if bound else None, _joined(Or, free) if free else None, sizes), together

    def _values(self, member: Member, place: Path) -> _Ways:
        listed, operators = member.item, self._operators
        if not isinstance(listed, Listed):
            hint = "write a list of one value" if isinstance(listed, Scalar) else None
            operators.refuse(listed, f"what {member.name!r} may hold is a list, or an object of members", hint)
        if not listed.items:
            operators.refuse(listed, "an empty list", "no value would fit")
        field = self._field((*place, VALUES))
        conditions: list[Node] = []
        free: Node | None = None
        for item in listed.items:
            match operators.exists(item):
                case None:
                    conditions.append(operators.condition(item, field))
                case True:
                    conditions.append(operators.there(field))
                case False:
                    free = Not(AnyElement(field, operators.there(field)))
        bound = AnyElement(field, _joined(Or, conditions)) if conditions else None
        return _Ways(bound, free, (4 * len(conditions), 4))

    def _field(self, path: Path) -> Field:
        if self._payload is None:
            return Field(elements_ref(Ref("application_properties", str(path[0]))))
        return Field(reference(self._payload, path))


def _all(ways: list[_Ways]) -> _Ways:
    """All of some parts: bound where any of them is, free where all are."""
    each = sum(sum(way.sizes) for way in ways)
    free = [way.free for way in ways if way.free is not None]
    bound = [way.bound for way in ways if way.bound is not None]
    if len(free) < len(ways):  # a part that is bound at any rate
        return _Ways(_joined(And, [way.either for way in ways]), None, (each, 0))
    absent, sizes = _joined(And, free), (0, sum(way.sizes[1] for way in ways))
    if not bound:
        return _Ways(None, absent, sizes)
    if len(ways) == 1:
        return _Ways(bound[0], absent, ways[0].sizes)
    some = And((*(way.either for way in ways), _joined(Or, bound)))
    return _Ways(some, absent, (each + sum(way.sizes[0] for way in ways), sizes[1]))


def _bodies(text: str, limits: Limits, what: str) -> Payload:
    """What bodies are where the filter stands."""
    payload = limits.payload
    if payload is None:
        raise FilterError(
            f"{what} is about members of the body, and nobody says what bodies are",
            text=text,
            length=len(text),
            hint='declare bodies: "x-payload": "json" among the arguments of the exchange or queue, or --payload json',
        )
    if not FORMATS[payload.format].members:
        raise FilterError(f"a body that is {payload.format} has no members", text=text, length=len(text))
    return payload


def read_pattern(text: str, dialect: Dialect, limits: Limits) -> Node:
    """The tree of an event pattern: of bodies that are JSON objects, or of another format with members."""
    item = read_json(text, limits)
    payload = _bodies(text, limits, "a pattern")
    return _Pattern(Operators(text, limits, _EVENTBRIDGE), payload).tree(item)


def read_policy(text: str, dialect: Dialect, limits: Limits) -> Node:
    """The tree of a filter policy: of properties, or as its scope says.

    A scope stands beside the policy under the names that a subscription has for them: `FilterPolicyScope` and
    `FilterPolicy`. No policy is like this: what a member may hold is a list or an object, never a string.
    """
    operators = Operators(text, limits, _SNS)
    item = read_json(text, limits)
    scope = _SCOPES[0]
    if isinstance(item, Object):
        stated = {member.name: member for member in item.members}
        said = stated.get("FilterPolicyScope")
        if said is not None and isinstance(said.item, Scalar):
            for name in sorted(stated.keys() - {"FilterPolicyScope", "FilterPolicy"}):
                operators.refuse(stated[name], f"unknown name {name!r} beside FilterPolicyScope")
            if said.item.value not in _SCOPES:
                operators.refuse(said.item, "the scope is one of " + ", ".join(_SCOPES))
            if "FilterPolicy" not in stated:
                operators.refuse(item, "FilterPolicy is missing beside FilterPolicyScope")
            scope, item = str(said.item.value), stated["FilterPolicy"].item
    payload = _bodies(text, limits, "this policy") if scope == _SCOPES[1] else None
    return _Pattern(operators, payload).tree(item)


READERS["pattern"] = read_pattern
READERS["policy"] = read_policy
