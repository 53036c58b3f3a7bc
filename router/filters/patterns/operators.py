"""What a pattern may ask of a value: the value itself, or an operator (EventBridge user guide, "Comparison operators").

Every condition is true or false, never unknown: it is about one value that is there. Operators on texts are false for
every other value; `numeric` is for every value that is no number.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from bindery.router.errors import FilterError
from bindery.router.filters.ast import And, Compare, Field, IsNull, Like, Literal, Node, Not, Or, Rules, Truth
from bindery.router.filters.limits import Limits
from bindery.router.filters.patterns.json_text import Item, Listed, Member, Object, Scalar
from bindery.router.filters.patterns.nodes import InNetwork
from bindery.router.filters.sets.nodes import Accepts, Equals, StartsWith, TextForm, in_forms
from bindery.router.spelling import did_you_mean, nearest

_RULES: Final = Rules()
#: A condition that every value meets that is there.
THERE: Final = Truth(Literal(True))
_ESCAPES: Final = r"in JSON, \\* stands for an asterisk that is meant, \\\\ for a backslash"
_COMPARISONS: Final = ("=", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Language:
    """How a language reads values.

    strict_numbers  a plain number is the one that is written the same: 300 is not 300.0
    empty_exists    `exists` holds for null and the empty text, too
    """

    strict_numbers: bool
    empty_exists: bool


class Operators:
    """Reads what stands in the list behind a name; `text` is the whole pattern."""

    def __init__(self, text: str, limits: Limits, language: Language) -> None:
        self.text = text
        self._limits = limits
        self._language = language

    def refuse(self, item: Item | Member, message: str, hint: str | None = None) -> NoReturn:
        """Raise FilterError for a part of the pattern."""
        raise FilterError(message, text=self.text, offset=item.start, length=item.end - item.start, hint=hint)

    def there(self, field: Field) -> Node:
        """What `exists` asks of a value."""
        return THERE if self._language.empty_exists else Not(Or((IsNull(field), Equals(field, Literal("")))))

    def exists(self, item: Item) -> bool | None:
        """Whether an entry is `{"exists": true}` or `{"exists": false}`; None for any other."""
        if not isinstance(item, Object) or [one.name for one in item.members] != ["exists"]:
            return None
        value = item.members[0].item
        if not isinstance(value, Scalar) or not isinstance(value.value, bool):
            self.refuse(value, "exists takes true or false")
        return value.value

    def condition(self, item: Item, field: Field) -> Node:
        """The condition of an entry other than `exists`."""
        if isinstance(item, Scalar):
            return self._equal(item, field)
        if isinstance(item, Listed):
            self.refuse(item, "a list in a list of values", "each value stands in the list itself")
        operator = self._one(item, "an operator")
        read = _OPERATORS.get(operator.name)
        if read is None:
            close = nearest(operator.name.lower(), (*_OPERATORS, "exists"))
            known = "operators: " + ", ".join((*_OPERATORS, "exists"))
            self.refuse(operator, f"unknown operator {operator.name!r}", did_you_mean(close, known, quoted=False))
        return read(self, operator.item, field)

    def _one(self, item: Item, what: str) -> Member:
        if not isinstance(item, Object) or len(item.members) != 1:
            self.refuse(item, f"an object with {what} has one name, and nothing beside it")
        return item.members[0]

    def _equal(self, item: Scalar, field: Field) -> Node:
        if item.value is None:
            return IsNull(field)
        if item.is_number and not self._language.strict_numbers:
            return self._same_number(item, field)
        return Equals(field, Literal(item.value))

    @staticmethod
    def _same_number(item: Scalar, field: Field) -> Node:
        return Accepts(Compare("=", field, Literal(item.value), _RULES))

    def _string(self, item: Item, operator: str) -> str:
        if not isinstance(item, Scalar) or not isinstance(item.value, str):
            self.refuse(item, f"{operator} takes a string")
        return item.value

    # -- texts ------------------------------------------------------------------------------------------------

    def _begins(self, item: Item, field: Field) -> Node:
        return self._affix(item, field, "prefix", ())

    def _ends(self, item: Item, field: Field) -> Node:
        return self._affix(item, field, "suffix", ("reversed",))

    def _affix(self, item: Item, field: Field, operator: str, forms: tuple[str, ...]) -> Node:
        if isinstance(item, Object):
            inner = self._one(item, f"what {operator} ignores")
            if inner.name != "equals-ignore-case":
                self.refuse(inner, f"{operator} takes a string or equals-ignore-case, not {inner.name!r}")
            item, forms = inner.item, ("folded", *forms)
        return _formed(field, self._string(item, operator), forms, StartsWith)

    def _ignoring_case(self, item: Item, field: Field) -> Node:
        return _formed(field, self._string(item, "equals-ignore-case"), ("folded",), Equals)

    def _wildcard(self, item: Item, field: Field) -> Node:
        """`*` is any text. A backslash stands before a `*` or a backslash that is meant (aws/event-ruler, README)."""
        text = self._string(item, "wildcard")
        pattern, literally, before = "", False, ""
        for char in text:
            if literally and char not in "*\\":
                self.refuse(item, f"a backslash before {char!r}", _ESCAPES)
            if char == "*" and not literally and before == "*":
                self.refuse(item, "two wildcards in a row", "one * is any text, the empty one too")
            before = "*" if char == "*" and not literally else ""
            if literally:
                pattern, literally = pattern + ("\\\\" if char == "\\" else char), False
            elif char == "\\":
                literally = True
            else:
                pattern += "%" if char == "*" else "\\" + char if char in "%_" else char
        if literally:
            self.refuse(item, "the wildcard ends with a backslash", _ESCAPES)
        if len(pattern) > self._limits.like_pattern:
            self.refuse(item, f"a wildcard of more than {self._limits.like_pattern} characters")
        return Accepts(Like(field, Literal(pattern), Literal("\\"), self._limits.like_pattern))

    def _network(self, item: Item, field: Field) -> Node:
        text = self._string(item, "cidr")
        address, slash, bits = text.partition("/")
        try:
            if not slash or not bits.isascii() or not bits.isdigit() or "%" in address:
                raise ValueError
            network = ipaddress.ip_network(f"{ipaddress.ip_address(address)}/{int(bits)}", strict=False)
        except ValueError:
            self.refuse(item, f"{text!r} is no network", "an address, a slash and its leading bits: 10.0.0.0/24")
        return InNetwork(field, str(network))

    # -- numbers ----------------------------------------------------------------------------------------------

    def _numeric(self, item: Item, field: Field) -> Node:
        """`[op, number]`, or a lower and an upper bound: `[">", 0, "<=", 5]`."""
        if not isinstance(item, Listed) or len(item.items) not in (2, 4):
            self.refuse(item, "numeric takes an operator and a number, or two of them", 'for example [">", 0, "<=", 5]')
        bounds = [self._bound(*item.items[at : at + 2]) for at in range(0, len(item.items), 2)]
        if len(bounds) == 2:
            (low, least), (high, most) = bounds
            if low not in (">", ">=") or high not in ("<", "<="):
                self.refuse(item, "of two bounds the first is > or >=, the second < or <=")
            if least >= most:
                self.refuse(item, f"no number is {low} {least} and {high} {most}")
        compared = tuple(Compare(op, field, Literal(number), _RULES) for op, number in bounds)
        return Accepts(compared[0] if len(compared) == 1 else And(compared))

    def _bound(self, op: Item, number: Item) -> tuple[str, int | float]:
        if not isinstance(op, Scalar) or op.value not in _COMPARISONS:
            self.refuse(op, "numeric compares by one of " + " ".join(_COMPARISONS))
        if not isinstance(number, Scalar) or not number.is_number:
            self.refuse(number, "numeric takes a number behind its operator")
        return str(op.value), number.value  # type: ignore[return-value]  # a number, as asked

    # -- negation ---------------------------------------------------------------------------------------------

    def _anything_but(self, item: Item, field: Field) -> Node:
        """Every value but some: strings or numbers, or the texts that an operator accepts."""
        if isinstance(item, Object):
            operator = self._one(item, "what anything-but leaves out")
            read = _LEFT_OUT.get(operator.name)
            if read is None:
                known = "one of " + ", ".join(_LEFT_OUT)
                self.refuse(operator, f"anything-but takes no {operator.name!r}", known)
            texts = self._several(operator.item)
            for one in texts:
                if not self._string(one, f"{operator.name} in anything-but") and operator.name in ("prefix", "suffix"):
                    self.refuse(one, f"an empty {operator.name} leaves nothing")
            return _none_of([read(self, one, field) for one in texts])
        values = self._several(item)
        for one in values:
            if not isinstance(one, Scalar) or not (one.is_number or isinstance(one.value, str)):
                self.refuse(one, "anything-but takes strings or numbers")
        scalars = [one for one in values if isinstance(one, Scalar)]
        if len({one.is_number for one in scalars}) > 1:
            self.refuse(item, "anything-but takes strings or numbers, not both")
        return _none_of(
            [self._same_number(one, field) if one.is_number else Equals(field, Literal(one.value)) for one in scalars]
        )

    def _several(self, item: Item) -> list[Item]:
        if not isinstance(item, Listed):
            return [item]
        if not item.items:
            self.refuse(item, "an empty list")
        return item.items


def _none_of(conditions: list[Node]) -> Node:
    return Not(conditions[0] if len(conditions) == 1 else Or(tuple(conditions)))


def _formed(field: Field, text: str, forms: tuple[str, ...], kind: type[Equals | StartsWith]) -> Node:
    """Equality or a prefix of texts in a form, as modifiers of property filters have them."""
    return kind(TextForm(field, forms) if forms else field, Literal(in_forms(text, forms)))


Read = Callable[[Operators, Item, Field], Node]
_LEFT_OUT: Final[Mapping[str, Read]] = {
    "prefix": Operators._begins,
    "suffix": Operators._ends,
    "equals-ignore-case": Operators._ignoring_case,
    "wildcard": Operators._wildcard,
}
_OPERATORS: Final[Mapping[str, Read]] = {
    "prefix": Operators._begins,
    "suffix": Operators._ends,
    "equals-ignore-case": Operators._ignoring_case,
    "wildcard": Operators._wildcard,
    "anything-but": Operators._anything_but,
    "numeric": Operators._numeric,
    "cidr": Operators._network,
}
#: Names that no member has in an alternative of `$or` (aws/event-ruler, `RESERVED_FIELD_NAMES_IN_OR_RELATIONSHIP`).
RESERVED: Final = frozenset({*_OPERATORS, "exists", "exactly", "regex", *_COMPARISONS})
