"""A filter's normal form states the filter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.filters import DIALECTS, parse
from router.filters.printer import normal_form
from tests.examples import examples
from tests.unit.filters.generators import filters


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
@examples(40)
def test_the_normal_form_parses_to_the_same_tree(dialect: str, data: st.DataObject) -> None:
    item = data.draw(filters(dialect))
    assert parse(normal_form(item.expression, dialect), dialect).expression == item.expression
