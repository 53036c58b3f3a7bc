"""Problems that differ by what they quote are told as one, and of very many only so many."""

from __future__ import annotations

from collections import Counter

from bindery.store.problems import KINDS, add_alike, misfit


def test_problems_that_differ_by_their_values_are_one() -> None:
    told: Counter[str] = Counter()
    add_alike(told, [("amount 'abc' is not DOUBLE", 1), ("amount 'x' is not DOUBLE", 2), ("id '' is not INT", 1)])
    add_alike(told, [("amount 'y' is not DOUBLE", 4)])
    assert told == {"amount 'abc' is not DOUBLE": 7, "id '' is not INT": 1}


def test_so_many_problems_are_told_apart() -> None:
    told: Counter[str] = Counter()
    add_alike(told, [(f"column {number}", 1) for number in range(1000)])
    add_alike(told, [("column 3", 1), ("column 999", 1)])
    assert (len(told), told["column 3"]) == (50, 2)


def test_the_kind_is_that_of_the_type() -> None:
    kinds = {name: misfit("a", "b", name).kind for name in ("DECIMAL(10,2)", "DATE", "BOOLEAN", "ARRAY<INT>", "BINARY")}
    assert list(kinds.values()) == ["not-a-number", "not-a-time", "not-a-boolean", "not-a-value", "not-a-value"]
    assert set(kinds.values()) <= set(KINDS)
