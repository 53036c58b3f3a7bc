"""A filter's normal form states the filter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.filters import parse
from bindery.router.filters.printer import normal_form
from tests.examples import examples
from tests.unit.filters.generators import filters
from tests.unit.filters.rules import WORDED


@pytest.mark.parametrize("dialect", WORDED)
@given(data=st.data())
@examples(40)
def test_the_normal_form_parses_to_the_same_tree(dialect: str, data: st.DataObject) -> None:
    item = data.draw(filters(dialect))
    assert parse(normal_form(item.expression, dialect), dialect).expression == item.expression


@pytest.mark.parametrize("name", ["[amqp-value]", "m.[message-annotations]", "v.[amqp-sequence].x", "[h]", "p.[to]"])
def test_a_delimited_name_stays_that_name(name: str) -> None:
    item = parse(f"{name} = 5", "amqp-sql")
    assert parse(normal_form(item.expression, "amqp-sql"), "amqp-sql").expression == item.expression
