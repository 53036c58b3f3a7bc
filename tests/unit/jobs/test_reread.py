"""The column and the value for which a record does not parse, in words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.jobs.reread import Layout
from bindery.store.problems import Problem, misfit_in

COLUMNS = (("id", "STRING"), ("amount", "DOUBLE"), ("hot", "BOOLEAN"), ("at", "TIMESTAMP"), ("place", "STRUCT<X:INT>"))
CSV = Layout("csv", COLUMNS[:4], (0, 1, 2, 3))
JSON = Layout("json", COLUMNS, (0, 1, 2, 3, 4))


@pytest.mark.parametrize(
    ("text", "marks", "kind", "detail"),
    [
        ("a,abc,true,", "0100", "not-a-number", "amount: 'abc' is not DOUBLE"),
        ("a,NA,true,", "0100", "not-a-number", "amount: 'NA' is not DOUBLE; set nullValue"),
        ("a,,maybe,", "0110", "not-a-boolean", "hot: 'maybe' is not BOOLEAN"),
        ("a,,,tomorrow", "0111", "not-a-time", "at: 'tomorrow' is not TIMESTAMP"),
        ('"say ""hi""",x,,', "0111", "not-a-number", "amount: 'x' is not DOUBLE"),
        ("a,\x1b[2J,,", "0111", "not-a-number", "amount: '\ufffd[2J' is not DOUBLE"),
        ("a," + "9" * 99 + "x,,", "0111", "not-a-number", f"amount: '{'9' * 59}…' is not DOUBLE"),
        ("a,1,true,,5", "0001", "fields", "5 fields, the schema has 4 columns"),
        ("a", "0111", "fields", "1 field, the schema has 4 columns"),
        (
            'a,"two',
            "0111",
            "fields",
            "2 fields, the schema has 4 columns; a quote is left open: set multiLine: true if fields hold line ends",
        ),
        ("a,1,true,", "0001", "other", "the record does not parse by the schema of the source"),
        ("x" * 2**21, "1111", "other", "the record does not parse by the schema of the source"),
    ],
)
def test_of_csv(text: str, marks: str, kind: str, detail: str) -> None:
    found = CSV.problem(text, marks)
    assert (found.kind, found.detail) == (kind, detail)


@pytest.mark.parametrize(
    ("record", "marks", "kind", "detail"),
    [
        ({"id": "a", "amount": "abc"}, "01111", "not-a-number", "amount: 'abc' is not DOUBLE"),
        ({"id": "a", "amount": None, "hot": 5}, "01111", "not-a-boolean", "hot: '5' is not BOOLEAN"),
        ({"place": {"x": "y"}}, "11110", "not-a-value", 'place: \'{"x": "y"}\' is not STRUCT<X:INT>'),
        ({"id": "a"}, "01111", "other", "the record does not parse by the schema of the source"),
        ([1], "11111", "syntax", "no JSON object: '[1]'"),
    ],
)
def test_of_json(record: object, marks: str, kind: str, detail: str) -> None:
    found = JSON.problem(json.dumps(record), marks)
    assert (found.kind, found.detail) == (kind, detail)


def test_of_text_that_is_no_json() -> None:
    found = JSON.problem('{"id": "bad json", ', "11111")
    assert (found.kind, found.summary) == ("syntax", found.detail.partition(" at character")[0])
    assert found.detail.startswith("not JSON: ") and found.detail.endswith(" at character 20")


def test_what_stands_for_null_is_no_problem() -> None:
    layout = Layout("csv", COLUMNS[:2], (0, 1), null="-")
    assert layout.problem("-,x", "11").detail == "amount: 'x' is not DOUBLE"


def test_a_column_that_the_job_does_not_read_is_not_named() -> None:
    layout = Layout("csv", COLUMNS[:3], (0, 2))
    assert layout.problem("a,abc,maybe", "01").detail == "hot: 'maybe' is not BOOLEAN"


def test_a_separator_that_python_does_not_take_is_no_error() -> None:
    assert Layout("csv", COLUMNS[:2], (0, 1), separator="||").problem("a||x", "01").kind == "other"


@given(st.text(), st.sampled_from(["0000", "0100", "1111"]))
def test_any_text_has_a_problem_and_always_the_same(text: str, marks: str) -> None:
    for layout in (CSV, Layout("json", COLUMNS[:4], (0, 1, 2, 3))):
        found = layout.problem(text, marks)
        assert isinstance(found, Problem)
        assert found == layout.problem(text, marks)
        assert len(found.detail) < 400


def test_a_detail_tells_column_value_and_type() -> None:
    detail = CSV.problem("a,N/A,true,", "0100").detail
    assert misfit_in(detail) == {"column": "amount", "value": "N/A", "type": "DOUBLE"}
    assert misfit_in("amount: 'it's' is not DECIMAL(10,2); x") == {
        "column": "amount",
        "value": "it's",
        "type": "DECIMAL(10,2)",
    }
    assert misfit_in("the record does not parse by the schema of the source") is None
