"""Headers exchanges: criteria over application properties (Broker-J §4.6.3.2; AMQP 0-9-1 §3.1.3.4).

Where bodies are declared, a key that is written as a reference into the body (`body.amount`) names what the body
holds there, and no header (docs/filters.md, "The body"). It compares by the same rule; no value there is no entry.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain
from typing import ClassVar, Final

from bindery.router.columns import Ref
from bindery.router.compat import HEADERS_ANY_OF_NOTHING, HEADERS_EMPTY_TEXT, HEADERS_FORMS, switches_of
from bindery.router.equality import Equality, equality_under
from bindery.router.exchanges.exchange_type import ExchangeType, Miss, Remark
from bindery.router.filters.ast import Trouble
from bindery.router.filters.body_paths import steps_of_key
from bindery.router.filters.limits import Payload
from bindery.router.filters.payload import look_up, reference
from bindery.router.filters.printer import Printer
from bindery.router.matching.headers import HeadersMatcher, Name
from bindery.router.message import Message
from bindery.router.model import NOT_HEADER_CRITERIA, X_MATCH, X_MATCH_FORMS, Binding, Exchange
from bindery.router.values import Value, described, shown

_SECTION: Final = "application_properties"
#: Keys are written as selectors write them.
_PRINTER: Final = Printer("jms", bodies=True)


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a headers binding asks; a name is that of a header, or a reference into the body.

    form         all or any
    compared     by name the value that is wanted; None: any value
    keys         the same as a set, without order or repetition
    conjunctive  whether all must agree: of one criterion, all and any are the same
    """

    form: str = field(compare=False)
    compared: dict[Name, Value] = field(compare=False)
    keys: frozenset[tuple[Name, Hashable]]
    conjunctive: bool

    def implied_by(self, criterion: tuple[Name, Hashable]) -> bool:
        """Whether one of the criteria follows from the given one; from a value its presence does."""
        return criterion in self.keys or (criterion[0], None) in self.keys


class Headers(ExchangeType[Criteria]):
    """A binding asks for the criteria among its arguments; `payload` is what bodies are, `compat` the mode."""

    reads_headers = True
    choices: ClassVar[Mapping[str, Sequence[str]]] = {X_MATCH: X_MATCH_FORMS}

    def __init__(self, payload: Payload | None = None, compat: str | None = None) -> None:
        self._payload = payload
        self._compat = compat
        self._switches = switches_of(compat)
        #: When a header is equal to an argument.
        self.equality: Final = equality_under(self._switches)

    def at(
        self,
        exchange: Exchange,
        bindings: Callable[[], Iterable[Binding]],
        payload: Payload | None,
        compat: str | None = None,
    ) -> Headers:
        """See `ExchangeType`."""
        return self if (payload, compat) == (self._payload, self._compat) else Headers(payload, compat)

    def _name(self, key: str) -> Name:
        if self._payload is None:
            return key
        path = steps_of_key(key)
        return key if path is None else reference(self._payload, path)

    def asked(self, binding: Binding) -> Criteria:
        """See `ExchangeType`."""
        form, skipped = self._form(binding)
        empty_asks = HEADERS_EMPTY_TEXT in self._switches
        found = {
            self._name(key): None if empty_asks and value == "" else value
            for key, value in binding.arguments.items()
            if key not in NOT_HEADER_CRITERIA and not key.startswith(skipped)
        }
        if not found and HEADERS_ANY_OF_NOTHING in self._switches:
            form = "all"
        key = self.equality.key
        keys = frozenset((name, None if value is None else key(value)) for name, value in found.items())
        return Criteria(form, found, keys, form == "all" or len(found) == 1)

    def _form(self, binding: Binding) -> tuple[str, tuple[str, ...]]:
        """All or any, and how the names of arguments begin that are no criteria."""
        stated = str(binding.arguments.get(X_MATCH, "all"))
        if HEADERS_FORMS in self._switches:
            return "any" if stated == "any" else "all", ("x-", "X-")
        return stated.removesuffix("-with-x"), () if stated.endswith("-with-x") else ("x-",)

    def matcher(self, asked: Sequence[Criteria], base: int) -> HeadersMatcher:
        """See `ExchangeType`."""
        return HeadersMatcher([(one.form, one.compared) for one in asked], base, self.equality)

    def miss(self, binding: Binding, keys: Sequence[str], message: Message) -> Miss | None:
        """The headers that a binding asks for and a message does not have so."""
        criteria = self.asked(binding)
        wanted = criteria.compared
        if self.never(criteria):
            return Miss("no header is named and x-match is any: the binding matches no message", 0, 1)
        found = [(value, _found(name, message)) for name, value in wanted.items()]
        missing = [_missing(value, one, self._compat) for value, one in found if not one.agrees(value, self.equality)]
        if not missing or (criteria.form == "any" and len(missing) < len(wanted)):
            return None
        text = "; ".join(missing)
        if criteria.form == "any":
            return Miss(f"none of {len(wanted)} headers agrees: {text}", 0, 1)
        return Miss(text, len(wanted) - len(missing), len(wanted))

    def always(self, asked: Criteria) -> bool:
        """See `ExchangeType`."""
        return asked.conjunctive and not asked.keys

    def never(self, asked: Criteria) -> bool:
        """See `ExchangeType`."""
        return not asked.conjunctive and not asked.keys

    def covers(self, wide: Criteria, narrow: Criteria) -> bool:
        """Each criterion of `narrow` implies itself and "the header is present".

        "all" of the implied ones follow from "all" of the narrow ones; "any" follows as soon as one does. From
        "any" of several only an "any" follows, and only when each criterion implies one of its own.
        """
        implied = sum(map(wide.implied_by, narrow.keys))
        if narrow.conjunctive:
            return implied >= (len(wide.keys) if wide.conjunctive else 1)
        return self.always(wide) or (0 < implied == len(narrow.keys) and (not wide.conjunctive or len(wide.keys) == 1))

    def wider(self, asked: Collection[Criteria]) -> Callable[[Criteria], Iterable[Criteria]]:
        """See `ExchangeType`."""
        return _CriteriaIndex(asked).candidates

    def implied(self, asked: Criteria) -> Mapping[Ref, Value]:
        """The values of an "all"; a void criterion asks for presence: the value stays open.

        Under another equality than that by family a header may have any of several values.
        """
        if asked.form != "all" or self.equality.switches:
            return {}
        named = ((name if isinstance(name, Ref) else Ref(_SECTION, name), v) for name, v in asked.compared.items())
        return {ref: value for ref, value in named if value is not None}

    def remarks(self, binding: Binding) -> Iterator[Remark]:
        """See `ExchangeType`."""
        yield from super().remarks(binding)
        criteria = self.asked(binding)
        form = str(binding.arguments.get(X_MATCH, "all"))
        if self.always(criteria):
            yield "BT111", f"x-match is {form} and no header is named: every message matches"
        if self.never(criteria):
            yield "BT112", f"x-match is {form} and no header is named: no message matches"
        named = {key for key in binding.arguments if self._name(key) in criteria.compared}
        skipped = sorted(binding.arguments.keys() - named - NOT_HEADER_CRITERIA)
        if skipped:
            yield "BT113", f"x-match is {form}, so {', '.join(map(repr, skipped))} is not compared"
        if self._payload is None:
            plain = sorted(key for key in named if steps_of_key(key))
            if plain:
                yield "BT114", f"{', '.join(map(repr, plain))} is the name of a header: nothing says what bodies are"


@dataclass(frozen=True, slots=True)
class _Found:
    """What a message has under a name: `why` says why it has nothing there."""

    name: str
    value: Value = None
    why: str | None = None

    def agrees(self, wanted: Value, equality: Equality) -> bool:
        """Whether a criterion is met."""
        return self.why is None and (wanted is None or equality.equal(wanted, self.value))


def _found(name: Name, message: Message) -> _Found:
    if isinstance(name, str):
        what, properties = f"header {name!r}", message.application_properties
        return _Found(what, properties[name]) if name in properties else _Found(what, why=f"{what} is missing")
    what, seen = _PRINTER.field(name), look_up(message, name)
    if isinstance(seen.value, Trouble):
        return _Found(what, why=f"{what} cannot be read: {seen.why}")
    return _Found(what, seen.value, None if seen.value is not None else f"{what} is missing: {seen.why}")


def _missing(wanted: Value, found: _Found, compat: str | None) -> str:
    if found.why is not None:
        return f"{found.why}, {'any value' if wanted is None else shown(wanted)} is wanted"
    name, actual = found.name, found.value
    if type(actual) is type(wanted) or actual is None:
        return f"{name} is {shown(actual)}, {shown(wanted)} is wanted"
    why = "unlike types are never equal" if compat is None else f"under {compat} these are not equal"
    return f"{name} is {described(actual)}, {described(wanted)} is wanted: {why}"


class _CriteriaIndex:
    """Criteria that may cover others: an "all" under its rarest criterion, an "any" under each."""

    def __init__(self, asked: Collection[Criteria]) -> None:
        self._asked = list(asked)
        self._places: dict[tuple[Name, Hashable] | None, list[int]] = defaultdict(list)
        often = Counter(key for one in self._asked for key in one.keys)
        for place, one in enumerate(self._asked):
            rarest = min(one.keys, key=often.__getitem__, default=None)
            for key in (rarest,) if one.conjunctive else one.keys:
                self._places[key].append(place)

    def candidates(self, narrow: Criteria) -> Iterator[Criteria]:
        """Other criteria that `narrow` leads to: what every message matches first, then in the order of indexing."""
        keys = {found for name, value in narrow.keys for found in ((name, value), (name, None))}
        last = -1
        for place in chain(self._places.get(None, ()), merge(*(self._places.get(key, ()) for key in keys))):
            if place != last and self._asked[place] != narrow:
                yield self._asked[place]
            last = place
