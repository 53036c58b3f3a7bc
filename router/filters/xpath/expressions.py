"""XPath 1.0 expressions that evaluate themselves over a `Document` within a budget of steps.

A value is a float, a str, a bool or a list of node numbers (sorted, distinct). Parts that do not depend on
the context are computed once per evaluation, and comparing two node sets looks at each node once, so that
`//a[@id = //b/@ref]` is linear in the document. What still multiplies (positions along long axes) is stopped
by the budget.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Final, cast

from bindery.router.filters.xpath.axes import AXES, Nodes, NodeTest
from bindery.router.filters.xpath.functions import (
    Argument,
    Function,
    TypeMismatch,
    XPathValue,
    to_boolean,
    to_number,
)
from bindery.router.filters.xpath.run import CHARACTERS_PER_STEP, Run


class Expression(ABC):
    """Base: `depends` on the context at all, `positional` as a predicate."""

    __slots__ = ("depends", "numeric", "positional_inside")

    def __init__(self, *, depends: bool, numeric: bool = False, positional_inside: bool = False) -> None:
        self.depends = depends
        self.numeric = numeric
        self.positional_inside = positional_inside

    @property
    def positional(self) -> bool:
        """Whether this, as a predicate, may look at positions (§2.4: a number means `position() =`)."""
        return self.numeric or self.positional_inside

    def evaluate(self, run: Run, node: int, position: int, size: int) -> XPathValue:
        """The value at a context; context-free values are kept for the rest of the run."""
        if self.depends:
            return self._compute(run, node, position, size)
        if self not in run.known:
            run.known[self] = self._compute(run, node, position, size)
        return cast(XPathValue, run.known[self])

    @abstractmethod
    def _compute(self, run: Run, node: int, position: int, size: int) -> XPathValue: ...


def _traits(parts: Iterable[Expression]) -> tuple[bool, bool]:
    parts = list(parts)
    return any(part.depends for part in parts), any(part.positional_inside for part in parts)


class Constant(Expression):
    """A number or a literal."""

    __slots__ = ("value",)

    def __init__(self, value: float | str) -> None:
        super().__init__(depends=True, numeric=isinstance(value, float))  # cheaper than remembering it
        self.value = value

    def _compute(self, run: Run, node: int, position: int, size: int) -> XPathValue:
        return self.value


Rest = tuple[tuple[str, Expression], ...]


class _Chain(Expression):
    """Operands joined from left to right by operators of one precedence level."""

    __slots__ = ("first", "rest")

    def __init__(self, first: Expression, rest: Rest, *, numeric: bool = False) -> None:
        depends, inside = _traits([first, *(operand for _, operand in rest)])
        super().__init__(depends=depends, numeric=numeric, positional_inside=inside)
        self.first = first
        self.rest = rest


class Junction(_Chain):
    """`or` or `and`; later operands are looked at only when needed (§3.4)."""

    __slots__ = ()

    def _compute(self, run: Run, node: int, position: int, size: int) -> XPathValue:
        decisive = self.rest[0][0] == "or"
        for operand in (self.first, *(operand for _, operand in self.rest)):
            if to_boolean(operand.evaluate(run, node, position, size)) is decisive:
                return decisive
        return not decisive


class Arithmetic(_Chain):
    """`+ - * div mod` on IEEE 754 doubles (§3.5)."""

    __slots__ = ()

    def __init__(self, first: Expression, rest: Rest) -> None:
        super().__init__(first, rest, numeric=True)

    def _compute(self, run: Run, node: int, position: int, size: int) -> XPathValue:
        total = to_number(run, self.first.evaluate(run, node, position, size))
        for operator, operand in self.rest:
            total = _ARITHMETIC[operator](total, to_number(run, operand.evaluate(run, node, position, size)))
        return total


class Negation(Expression):
    """One or more unary minus signs; the operand becomes a number in any case."""

    __slots__ = ("odd", "operand")

    def __init__(self, operand: Expression, *, odd: bool) -> None:
        super().__init__(depends=operand.depends, numeric=True, positional_inside=operand.positional_inside)
        self.operand = operand
        self.odd = odd

    def _compute(self, run: Run, node: int, position: int, size: int) -> XPathValue:
        value = to_number(run, self.operand.evaluate(run, node, position, size))
        return -value if self.odd else value


def _divide(left: float, right: float) -> float:
    if right:
        return left / right
    if left == 0 or math.isnan(left) or math.isnan(right):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _remainder(left: float, right: float) -> float:
    if math.isinf(left) or not right or math.isnan(right):
        return math.nan
    return math.fmod(left, right)


def _multiply(left: float, right: float) -> float:
    return left * right


_ARITHMETIC: Final[dict[str, Callable[[float, float], float]]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": _multiply,
    "div": _divide,
    "mod": _remainder,
}


class Comparison(_Chain):
    """`= != < <= > >=` (§3.4): with a node set, whether some node compares so."""

    __slots__ = ()

    def _compute(self, run: Run, node: int, position: int, size: int) -> XPathValue:
        left_of: Expression | None = self.first
        left = self.first.evaluate(run, node, position, size)
        for operator, operand in self.rest:
            right = operand.evaluate(run, node, position, size)
            left = self._compare(run, operator, (left_of, left), (operand, right))
            left_of = None
        return left

    def _compare(
        self,
        run: Run,
        operator: str,
        left: tuple[Expression | None, XPathValue],
        right: tuple[Expression | None, XPathValue],
    ) -> bool:
        if isinstance(left[1], list) or isinstance(right[1], list):
            if isinstance(left[1], bool) or isinstance(right[1], bool):
                return _plain(run, operator, to_boolean(left[1]), to_boolean(right[1]))
            return _sets(operator, _members(run, *left), _members(run, *right))
        return _plain(run, operator, left[1], right[1])


class _Members:
    """What comparing looks at: the distinct texts of a node set, or one text or number."""

    __slots__ = ("high", "low", "number", "numbers", "texts")

    def __init__(self, run: Run, value: XPathValue) -> None:
        self.texts: set[str] = set()
        self.number: float | None = None
        if isinstance(value, list):
            self.texts = {run.string_value(node) for node in value}
        elif isinstance(value, str):
            self.texts = {value}
        else:
            self.number = float(value)
        numbers = {to_number(run, text) for text in self.texts} if self.number is None else {self.number}
        self.numbers = {number for number in numbers if not math.isnan(number)}
        self.low = min(self.numbers, default=math.nan)
        self.high = max(self.numbers, default=math.nan)


def _members(run: Run, source: Expression | None, value: XPathValue) -> _Members:
    if source is None or source.depends:
        return _Members(run, value)
    key = (source, "members")
    if key not in run.known:
        run.known[key] = _Members(run, value)
    return cast(_Members, run.known[key])


def _sets(operator: str, left: _Members, right: _Members) -> bool:
    if operator in _ORDERINGS:
        low_first = operator in ("<", "<=")
        low, high = (left.low, right.high) if low_first else (right.low, left.high)
        return low < high if operator in ("<", ">") else low <= high
    if left.number is None and right.number is None:
        if operator == "=":
            return not left.texts.isdisjoint(right.texts)
        return bool(left.texts and right.texts) and (len(left.texts) > 1 or left.texts != right.texts)
    number, texts = (left.number, right) if left.number is not None else (right.number, left)
    if operator == "=":
        return number in texts.numbers
    # a text that is no number is NaN, which differs from every number
    return any(True for _ in texts.texts) and (math.isnan(number or 0.0) or _some_other(texts, number))


def _some_other(members: _Members, number: float | None) -> bool:
    strays = members.numbers - {number}
    return bool(strays) or any(math.isnan(to_number(None, text)) for text in members.texts)


_ORDERINGS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def _plain(run: Run, operator: str, left: XPathValue, right: XPathValue) -> bool:
    if operator in _ORDERINGS:
        return _ORDERINGS[operator](to_number(run, left), to_number(run, right))
    same: bool
    if isinstance(left, bool) or isinstance(right, bool):
        same = to_boolean(left) == to_boolean(right)
    elif isinstance(left, float) or isinstance(right, float):
        same = to_number(run, left) == to_number(run, right)
    else:
        same = left == right
    return same if operator == "=" else not same


class Union(Expression):
    """`|` of node sets (§3.3)."""

    __slots__ = ("members",)

    def __init__(self, members: tuple[Expression, ...]) -> None:
        depends, inside = _traits(members)
        super().__init__(depends=depends, positional_inside=inside)
        self.members = members

    def _compute(self, run: Run, node: int, position: int, size: int) -> XPathValue:
        found: set[int] = set()
        for member in self.members:
            nodes = member.evaluate(run, node, position, size)
            if not isinstance(nodes, list):
                raise TypeMismatch
            found.update(nodes)
        run.charge(len(found))
        return sorted(found)


class Call(Expression):
    """A function of the core library (§4)."""

    __slots__ = ("arguments", "function")

    def __init__(self, function: Function, arguments: tuple[Expression, ...]) -> None:
        depends, inside = _traits(arguments)
        super().__init__(
            depends=depends or function.reads_context(len(arguments)),
            numeric=function.numeric,
            positional_inside=inside or function.positional,
        )
        self.function = function
        self.arguments = arguments

    def _compute(self, run: Run, node: int, position: int, size: int) -> XPathValue:
        values = [argument.evaluate(run, node, position, size) for argument in self.arguments]
        run.charge(1 + sum(len(value) // CHARACTERS_PER_STEP for value in values if isinstance(value, str)))
        return self.function.apply(run, Argument(values, node, position, size))


class Step:
    """One location step: axis, node test, predicates (§2.1)."""

    __slots__ = ("_each", "_ordered", "axis", "predicates", "test")

    def __init__(self, axis: str, test: NodeTest, predicates: tuple[Expression, ...]) -> None:
        self.axis = axis
        self.test = test
        self.predicates = predicates
        self._ordered = any(predicate.positional for predicate in predicates)
        self._each = self._ordered or axis == "namespace"

    def walk(self, run: Run, nodes: Nodes) -> Nodes:
        """The step from every node of a set; set-at-a-time unless positions count."""
        if not self._each or len(nodes) <= 1:
            return self._from(run, nodes)
        found: set[int] = set()
        for node in nodes:
            found.update(self._from(run, [node]))
        return sorted(found)

    def _from(self, run: Run, nodes: Nodes) -> Nodes:
        axis = AXES[self.axis]
        document = run.document
        run.charge(1 + len(nodes) + axis.scanned(document, nodes))
        reached = axis.nodes(document, nodes)
        run.charge(len(reached))
        kept = self.test.keep(document, reached, axis.principal)
        if self._ordered and axis.reverse:
            kept.reverse()
        for predicate in self.predicates:
            kept = _select(run, kept, predicate)
        if self._ordered and axis.reverse:
            kept.reverse()
        return kept


def _select(run: Run, nodes: Nodes, predicate: Expression) -> Nodes:
    """The nodes for which a predicate holds; a number selects a position (§2.4)."""
    size = len(nodes)
    run.charge(size)
    kept = []
    for position, node in enumerate(nodes, 1):
        value = predicate.evaluate(run, node, position, size)
        if value == position if type(value) is float else to_boolean(value):
            kept.append(node)
    return kept


class Filtered(Expression):
    """A primary expression with predicates; positions count in document order (§3.3)."""

    __slots__ = ("predicates", "start")

    def __init__(self, start: Expression, predicates: tuple[Expression, ...]) -> None:
        super().__init__(depends=start.depends, positional_inside=start.positional_inside)
        self.start = start
        self.predicates = predicates

    def _compute(self, run: Run, node: int, position: int, size: int) -> XPathValue:
        nodes = self.start.evaluate(run, node, position, size)
        if not isinstance(nodes, list):
            raise TypeMismatch
        for predicate in self.predicates:
            nodes = _select(run, nodes, predicate)
        return nodes


class Path(Expression):
    """A location path from the document, the context node, or the nodes of another expression."""

    __slots__ = ("absolute", "start", "steps")

    def __init__(self, start: Expression | None, steps: Sequence[Step], *, absolute: bool) -> None:
        super().__init__(
            depends=not absolute if start is None else start.depends,
            positional_inside=start is not None and start.positional_inside,
        )
        self.start = start
        self.steps = tuple(steps)
        self.absolute = absolute

    def _compute(self, run: Run, node: int, position: int, size: int) -> XPathValue:
        if self.start is None:
            nodes: XPathValue = [0] if self.absolute else [node]
        else:
            nodes = self.start.evaluate(run, node, position, size)
        if not isinstance(nodes, list):
            raise TypeMismatch
        for step in self.steps:
            nodes = step.walk(run, nodes)
        return nodes
