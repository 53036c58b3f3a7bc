"""Header criteria: typed equality of application properties (Broker-J §4.6.3.2; AMQP 0-9-1 §3.1.3.4).

Never a scan over rules: a message looks up its own entries in an inverted index. `any` rules stand in
the posting of each of their criteria. `all` rules over the same names form a group; the group stands in the
postings of its rarest name, and one hash probe with the message's values finds the rule in the group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from bindery.router.columns import BINARY, BOOL, DOUBLE, INT, NESTED, STRING, TIMESTAMP, Column, Ref
from bindery.router.equality import BY_FAMILY, Equality
from bindery.router.matching.matcher import Matches, States
from bindery.router.matching.texts import KERNELS, Int32s, Int64s, NumberTable, slots_for
from bindery.router.native import kernels
from bindery.router.values import Opaque, Timestamp, Value, member_value, nested_value

_SECTION: Final = "application_properties"
#: The atom of a void criterion: the name is present, with any value.
_VOID: Final = -1

#: The name of a header, or a reference into the body.
Name = str | Ref
#: The form of a rule (any or all), and by name the value that is wanted (None: void).
Rule = tuple[str, Mapping[Name, Value]]


class HeadersMatcher:
    """An inverted index over header criteria; rule `base + i` is the i-th."""

    def __init__(self, rules: Sequence[Rule], base: int, equality: Equality = BY_FAMILY) -> None:
        self._base = base
        self._rule_count = len(rules)
        self._names: dict[Name, int] = {}
        self._atoms = _Atoms(equality)
        everything: list[int] = []
        any_rules: list[tuple[int, tuple[tuple[int, int], ...]]] = []
        all_rules: list[tuple[int, dict[int, int]]] = []
        for number, (form, found) in enumerate(rules):
            coded = {self._name(name): self._atoms.add(value) for name, value in found.items()}
            if form == "any":
                any_rules.append((base + number, tuple(coded.items())))
            elif coded:
                all_rules.append((base + number, coded))
            else:
                everything.append(base + number)
        self._everything: Int32s = np.array(everything, np.int32)
        self._atoms.freeze()
        postings = _Postings(len(self._names), max(1, len(self._atoms)))
        for rule, criteria_pairs in any_rules:
            for name, atom in criteria_pairs:
                postings.add_any(name, atom, rule)
        self._groups = _Groups(all_rules, postings)
        self._postings = postings.freeze()
        self.body_refs = tuple(name for name in self._names if isinstance(name, Ref))

    def _name(self, name: Name) -> int:
        return self._names.setdefault(name, len(self._names))

    def match(self, states: States) -> Matches:
        """See `bindery.router.matching.matcher.Matcher.match`; the class of a message is its own place."""
        native = kernels(KERNELS)
        offsets, names, atoms = self._entries(states)
        postings, groups = self._postings, self._groups
        rule_offsets, rules, visits = native.match_headers(
            offsets,
            names,
            atoms,
            max(1, len(self._names)),
            max(1, len(self._atoms)),
            postings.values.keys,
            postings.values.values,
            postings.names,
            postings.group_offsets,
            postings.groups,
            postings.any_offsets,
            postings.anys,
            groups.field_offsets,
            groups.field_names,
            groups.void_offsets,
            groups.void_names,
            groups.slots,
            groups.rule_groups,
            groups.rule_offsets,
            groups.rule_atoms,
            groups.rule_numbers,
            self._base,
            max(1, self._rule_count),
            self._everything,
        )
        return Matches(np.arange(len(states.rows), dtype=np.int32), rule_offsets, rules, visits)

    def _entries(self, states: States) -> tuple[Int64s, Int32s, Int32s]:
        """The entries of each message under names that some criterion mentions: (offsets, names, atoms)."""
        entries = states.view.entries(_SECTION)
        place = np.full(states.view.rows, -1, np.int32)
        place[states.rows] = np.arange(len(states.rows), dtype=np.int32)
        # a message may stand here under several key sets, which play no part: entries are read once a row
        name_of_key = np.array([self._names.get(key, -1) for key in entries.keys], np.int32)
        chosen: Int64s = np.zeros(0, np.int64)
        if len(name_of_key):
            chosen = np.flatnonzero((entries.owner >= 0) & (name_of_key[entries.codes] >= 0))
        chosen = chosen[place[entries.owner[chosen]] >= 0]
        names = name_of_key[entries.codes[chosen]] if len(chosen) else np.zeros(0, np.int32)
        atoms = self._atoms.find(entries.values(chosen))
        owners = place[entries.owner[chosen]]
        if self.body_refs:
            parts = [(owners, names, atoms), *self._of_bodies(states, place)]
            owners, names, atoms = (np.concatenate(part) for part in zip(*parts, strict=True))
        grouped: tuple[Int64s, Int32s, Int32s] = kernels(KERNELS).group_entries(owners, names, atoms, len(states.rows))
        offsets, names, atoms = grouped
        first = place[states.rows]
        if len(first) == 0 or (first == np.arange(len(first))).all():
            return grouped
        lengths = (offsets[1:] - offsets[:-1])[first]
        starts = np.cumsum(lengths) - lengths
        taken = np.repeat(offsets[:-1][first] - starts, lengths) + np.arange(int(lengths.sum()))
        return np.append(0, np.cumsum(lengths)), names[taken], atoms[taken]

    def _of_bodies(self, states: States, place: Int32s) -> Iterator[tuple[Int32s, Int32s, Int32s]]:
        """Entries out of the bodies of the messages, for each reference: (places, names, atoms)."""
        rows = np.flatnonzero(place >= 0).astype(np.int32)
        for ref in self.body_refs:
            held, values = states.bodies.held(ref, rows, states.exchange)
            yield place[rows[held]], np.full(len(held), self._names[ref], np.int32), self._atoms.find(values)


class _Atoms:
    """The distinct typed values that criteria name, numbered; a batch's values are looked up by family.

    Under another equality than that by family, a number stands under every value that is equal to its own.
    """

    def __init__(self, equality: Equality) -> None:
        self._equality = equality
        self._numbers: dict[Hashable, int] = {}
        self._values: list[Value] = []

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: Value) -> int:
        """The number of a criterion's value; void has none. NaN gets a number that nothing finds."""
        if value is None:
            return _VOID
        number = self._numbers.setdefault(self._equality.key(value), len(self._values))
        if number == len(self._values):
            self._values.append(value)
        return number

    def freeze(self) -> None:
        """Sort the values by family for lookup."""
        self._texts: dict[tuple[int, Hashable], int] = {}
        ordered: dict[int, list[tuple[float, int]]] = {tag: [] for tag in (BOOL, INT, DOUBLE, TIMESTAMP)}
        alike = self._equality.alike
        for number, value in ((n, member_value(one)) for n, named in enumerate(self._values) for one in alike(named)):
            match value:
                case bool():
                    ordered[BOOL].append((int(value), number))
                case int():
                    ordered[INT].append((value, number))
                case float():
                    if value == value:  # noqa: PLR0124  # NaN equals nothing
                        ordered[DOUBLE].append((value, number))
                case Timestamp():
                    ordered[TIMESTAMP].append((value.ms, number))
                case str():
                    self._texts[STRING, value] = number
                case bytes():
                    self._texts[BINARY, value] = number
                case Opaque():  # equals nothing
                    pass
                case _:
                    self._texts[NESTED, self._equality.nested_key(value)] = number
        self._ordered: dict[int, tuple[npt.NDArray[np.generic], Int32s]] = {}
        for tag, pairs in ordered.items():
            if pairs:
                pairs.sort()
                kind = np.float64 if tag == DOUBLE else np.int64
                self._ordered[tag] = (
                    np.array([value for value, _ in pairs], kind),
                    np.array([number for _, number in pairs], np.int32),
                )
        del self._numbers

    def find(self, column: Column) -> Int32s:
        """The number of each row's value, -1 for a value that no criterion names."""
        found = np.full(len(column), -1, np.int32)
        for tag, (known, numbers) in self._ordered.items():
            rows = np.flatnonzero(column.tag == tag)
            if len(rows):
                values = (column.dbl if tag == DOUBLE else column.num)[rows]
                places = np.minimum(np.searchsorted(known, values), len(known) - 1)
                found[rows] = np.where(known[places] == values, numbers[places], -1)
        if self._texts and column.distinct:
            of_code = np.array(
                [self._text(int(tag), text) for tag, text in zip(column.kind, column.distinct, strict=True)], np.int32
            )
            rows = np.flatnonzero(column.code >= 0)
            found[rows] = of_code[column.code[rows]]
        return found

    def _text(self, tag: int, text: str | bytes) -> int:
        key: Hashable = self._equality.nested_key(nested_value(str(text))) if tag == NESTED else text
        return self._texts.get((tag, key), -1)


@dataclass(frozen=True, slots=True)
class _FrozenPostings:
    """Posting lists in flat arrays; `values` and `names` give the posting of a criterion."""

    values: NumberTable
    names: Int32s
    any_offsets: Int64s
    anys: Int32s
    group_offsets: Int64s
    groups: Int32s


class _Postings:
    """Posting lists while they are built; a posting belongs to (name, atom) or to (name, void)."""

    def __init__(self, names: int, atoms: int) -> None:
        self._names = names
        self._atoms = atoms
        self._anys: dict[tuple[int, int], list[int]] = {}
        self._groups: dict[tuple[int, int], dict[int, None]] = {}

    def add_any(self, name: int, atom: int, rule: int) -> None:
        """An `any` rule that is met by this criterion."""
        self._anys.setdefault((name, atom), []).append(rule)

    def add_group(self, name: int, atom: int, group: int) -> None:
        """A group to probe when a message meets this criterion."""
        self._groups.setdefault((name, atom), {})[group] = None

    def freeze(self) -> _FrozenPostings:
        """All lists, flat."""
        criteria = list({**dict.fromkeys(self._anys), **dict.fromkeys(self._groups)})
        names = np.full(max(1, self._names), -1, np.int32)
        keys, values = [], []
        for posting, (name, atom) in enumerate(criteria):
            if atom == _VOID:
                names[name] = posting
            else:
                keys.append(name * self._atoms + atom)
                values.append(posting)
        anys = _flat([self._anys.get(criterion, ()) for criterion in criteria])
        groups = _flat([tuple(self._groups.get(criterion, ())) for criterion in criteria])
        return _FrozenPostings(NumberTable.of(keys, values), names, *anys, *groups)


class _Groups:
    """`all` rules over the same names, in flat arrays.

    field_offsets, field_names  per group the names that carry a value, ascending
    void_offsets, void_names    per group the names that must only be present
    slots                       hash slots of rules by group and values
    rule_groups, rule_offsets, rule_atoms, rule_numbers  per rule its group, values and router-wide number
    """

    def __init__(self, rules: Sequence[tuple[int, dict[int, int]]], postings: _Postings) -> None:
        shapes: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        coded: list[tuple[int, int, tuple[int, ...]]] = []
        for number, criteria in rules:
            fields = tuple(sorted(name for name, atom in criteria.items() if atom != _VOID))
            voids = tuple(sorted(name for name, atom in criteria.items() if atom == _VOID))
            group = shapes.setdefault((fields, voids), len(shapes))
            coded.append((number, group, tuple(criteria[name] for name in fields)))
        self._attach(list(shapes), coded, postings)
        self.field_offsets, self.field_names = _flat([fields for fields, _ in shapes])
        self.void_offsets, self.void_names = _flat([voids for _, voids in shapes])
        self.rule_numbers: Int32s = np.array([number for number, _, _ in coded], np.int32)
        self.rule_groups: Int32s = np.array([group for _, group, _ in coded], np.int32)
        self.rule_offsets, self.rule_atoms = _flat([atoms for _, _, atoms in coded])
        self.slots = slots_for(len(coded))
        kernels(KERNELS).build_header_rules(self.rule_groups, self.rule_offsets, self.rule_atoms, self.slots)

    @staticmethod
    def _attach(
        shapes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
        coded: Sequence[tuple[int, int, tuple[int, ...]]],
        postings: _Postings,
    ) -> None:
        """Put each group into the postings of the name that leads to the fewest other groups and rules."""
        groups_of: Counter[int] = Counter()
        values_of: dict[int, set[int]] = {}
        for fields, voids in shapes:
            groups_of.update((*fields, *voids))
        for _, group, atoms in coded:
            for name, atom in zip(shapes[group][0], atoms, strict=True):
                values_of.setdefault(name, set()).add(atom)
        access: list[int] = []
        for group, (fields, voids) in enumerate(shapes):
            if fields:  # how many groups share one of its values, on average
                crowds = [groups_of[name] / len(values_of[name]) for name in fields]
                access.append(crowds.index(min(crowds)))
            else:
                access.append(-1)
                postings.add_group(min(voids, key=lambda name: (groups_of[name], name)), _VOID, group)
        for _, group, atoms in coded:
            if access[group] >= 0:
                postings.add_group(shapes[group][0][access[group]], atoms[access[group]], group)


def _flat(lists: Sequence[Sequence[int]]) -> tuple[Int64s, Int32s]:
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(items) for items in lists], out=offsets[1:])
    return offsets, np.fromiter((item for items in lists for item in items), np.int32, int(offsets[-1]))
