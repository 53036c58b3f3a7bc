"""What the recorder writes into cases is what a drain would read from the wire (tests/recording)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bindery.conformance import read_cases, run_cases
from bindery.jobs.draining.wire import read_properties
from bindery.router.values import decode_table
from tests.recording.wire import NUMBERS, Field, Headers, equal
from tests.recording.worlds import Worlds

RECORDED = Path(__file__).parents[1] / "conformance" / "recorded"


def test_fields_of_every_type_are_read_from_the_wire_as_cases_state_them() -> None:
    worlds, met = Worlds(5, "rabbitmq-3"), set()
    for _ in range(300):
        fields = {f"f{number}": worlds.field() for number in range(8)}
        met |= {field.type for field in fields.values()}
        found = read_properties(b"".join(Headers(fields).encode()))["headers"]
        stated = decode_table({name: field.as_json() for name, field in fields.items()}, nested=False)
        assert found == stated
    assert met == {*NUMBERS, *"tDSxAFV"}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Field("b", 5), Field("d", 5.0), True),
        (Field("t", True), Field("b", 1), False),
        (Field("S", b"a"), Field("x", b"a"), True),
        (Field("A", ()), Field("F", ()), True),
        (Field("A", (Field("b", 5),)), Field("A", (Field("l", 5),)), False),
        (Field("D", (1, 50)), Field("D", (0, 5)), False),
        (Field("D", (0, 5)), Field("b", 5), False),
        (Field("V", None), Field("V", None), True),
    ],
)
def test_terms_are_equal_as_erlang_has_it(one: Field, other: Field, same: bool) -> None:
    assert equal(one.term(), other.term()) is same


def test_recorded_cases_pass_under_their_mode_and_not_without_it() -> None:
    cases = read_cases([RECORDED])
    assert {case.content["compat"] for case in cases} == {"rabbitmq-3"}
    assert not run_cases(cases, clock_ms=0).failures
    plain = [
        replace(case, content={key: part for key, part in case.content.items() if key != "compat"}) for case in cases
    ]
    assert run_cases(plain, clock_ms=0).failures


def test_a_case_of_a_mode_that_is_none_is_refused(tmp_path: Path) -> None:
    case = {"id": "x", "kind": "route", "compat": "rabbitmq-5", "topology": {}, "messages": []}
    (tmp_path / "x.jsonl").write_text(json.dumps(case))
    with pytest.raises(Exception, match="rabbitmq-5"):
        read_cases([tmp_path])
