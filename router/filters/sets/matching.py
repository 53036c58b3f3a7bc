"""When a property filter's reference value matches a message's value (AMQP Filter Expressions, "property filters")."""

from __future__ import annotations

from bindery.router.equality import family_equal
from bindery.router.filters.sets.modifiers import read_reference
from bindery.router.values import Table, Value


def matches(reference: Value, actual: Value) -> bool:
    """Whether a present value satisfies a reference, inside lists and maps by the same rules.

    A null reference asks only that the position or key exists, which the caller has established. A list
    matches a list that is at least as long, position by position; a map matches a map that has all its keys.
    """
    match reference:
        case None:
            return True
        case str():
            return isinstance(actual, str) and read_reference(reference).matches(actual)
        case tuple():
            return (
                isinstance(actual, tuple)
                and len(actual) >= len(reference)
                and all(matches(wanted, actual[at]) for at, wanted in enumerate(reference))
            )
        case Table():
            return isinstance(actual, Table) and all(
                key in actual and matches(wanted, actual[key]) for key, wanted in reference.items()
            )
    return family_equal(reference, actual)
