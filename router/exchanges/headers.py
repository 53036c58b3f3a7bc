"""Headers exchanges: criteria over application properties (Broker-J §4.6.3.2; AMQP 0-9-1 §3.1.3.4)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain
from typing import ClassVar

from bindery.router.equality import family_equal, family_key
from bindery.router.exchanges.exchange_type import ExchangeType, Miss, Remark
from bindery.router.matching.headers import HeadersMatcher
from bindery.router.model import NOT_HEADER_CRITERIA, X_MATCH, X_MATCH_FORMS, Binding
from bindery.router.values import Table, Value, described, shown


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a headers binding asks.

    form         all or any
    compared     by name the value that is wanted; None: any value
    keys         the same as a set, without order or repetition
    conjunctive  whether all must agree: of one criterion, all and any are the same
    """

    form: str = field(compare=False)
    compared: dict[str, Value] = field(compare=False)
    keys: frozenset[tuple[str, Hashable]]
    conjunctive: bool

    def implied_by(self, criterion: tuple[str, Hashable]) -> bool:
        """Whether one of the criteria follows from the given one; from a value its presence does."""
        return criterion in self.keys or (criterion[0], None) in self.keys


class Headers(ExchangeType[Criteria]):
    """A binding asks for the criteria among its arguments."""

    reads_headers = True
    choices: ClassVar[Mapping[str, Sequence[str]]] = {X_MATCH: X_MATCH_FORMS}

    def asked(self, binding: Binding) -> Criteria:
        """See `ExchangeType`."""
        form = str(binding.arguments.get(X_MATCH, "all"))
        with_x = form.endswith("-with-x")
        found = {
            name: value
            for name, value in binding.arguments.items()
            if name not in NOT_HEADER_CRITERIA and (with_x or not name.startswith("x-"))
        }
        keys = frozenset((name, None if value is None else family_key(value)) for name, value in found.items())
        form = form.removesuffix("-with-x")
        return Criteria(form, found, keys, form == "all" or len(found) == 1)

    def matcher(self, asked: Sequence[Criteria], base: int) -> HeadersMatcher:
        """See `ExchangeType`."""
        return HeadersMatcher([(one.form, one.compared) for one in asked], base)

    def miss(self, binding: Binding, keys: Sequence[str], properties: Table) -> Miss | None:
        """The headers that a binding asks for and a message does not have so."""
        criteria = self.asked(binding)
        wanted = criteria.compared
        if self.never(criteria):
            return Miss("no header is named and x-match is any: the binding matches no message", 0, 1)
        missing = [
            _missing(name, value, properties)
            for name, value in wanted.items()
            if name not in properties or (value is not None and not family_equal(value, properties[name]))
        ]
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

    def implied(self, asked: Criteria) -> Mapping[str, Value]:
        """The values of an "all"; a void criterion asks for presence: the value stays open."""
        return {n: v for n, v in asked.compared.items() if v is not None} if asked.form == "all" else {}

    def remarks(self, binding: Binding) -> Iterator[Remark]:
        """See `ExchangeType`."""
        yield from super().remarks(binding)
        criteria = self.asked(binding)
        form = str(binding.arguments.get(X_MATCH, "all"))
        if self.always(criteria):
            yield "BT111", f"x-match is {form} and no header is named: every message matches"
        if self.never(criteria):
            yield "BT112", f"x-match is {form} and no header is named: no message matches"
        skipped = sorted(binding.arguments.keys() - criteria.compared.keys() - NOT_HEADER_CRITERIA)
        if skipped:
            yield "BT113", f"x-match is {form}, so {', '.join(map(repr, skipped))} is not compared"


def _missing(name: str, wanted: Value, properties: Table) -> str:
    if name not in properties:
        return f"header {name!r} is missing, {'any value' if wanted is None else shown(wanted)} is wanted"
    actual = properties[name]
    if type(actual) is type(wanted) or actual is None:
        return f"header {name!r} is {shown(actual)}, {shown(wanted)} is wanted"
    return f"header {name!r} is {described(actual)}, {described(wanted)} is wanted: unlike types are never equal"


class _CriteriaIndex:
    """Criteria that may cover others: an "all" under its rarest criterion, an "any" under each."""

    def __init__(self, asked: Collection[Criteria]) -> None:
        self._asked = list(asked)
        self._places: dict[tuple[str, Hashable] | None, list[int]] = defaultdict(list)
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
