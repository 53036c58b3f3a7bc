"""The operators of mutation testing: what they change, and what they leave alone."""

from __future__ import annotations

import ast

from tests.mutation.operators import mutants, mutate

_SOURCE = '''
def first(numbers: list[int], least: int = 0) -> int | None:
    """The first that is large enough."""
    for number in numbers:
        if number >= least and not number == 7:
            return number
        continue
    return None
'''


def _faults(source: str) -> set[str]:
    return {mutant.after for mutant in mutants(source)}


def test_every_operator_changes_its_place_and_no_other() -> None:
    found = _faults(_SOURCE)
    assert "if number > least and (not number == 7):" in found
    assert "if number < least and (not number == 7):" in found
    assert "if number >= least or not number == 7:" in found
    assert "if number >= least and number == 7:" in found
    assert "if number >= least and (not number == 8):" in found
    assert "if True:" in found
    assert {"break", "return None", "def first(numbers: list[int], least: int=1) -> int | None:"} <= found


def test_annotations_and_texts_stay() -> None:
    assert not _faults('"""A text."""\n\nlimit: "int | None"\n\n\ndef f(a: int | str) -> int | str: ...\n')


def test_a_fault_is_put_in_by_its_number() -> None:
    for mutant in mutants(_SOURCE):
        changed = ast.unparse(mutate(_SOURCE, mutant.number))
        assert changed != ast.unparse(ast.parse(_SOURCE))
        assert mutant.after in changed
