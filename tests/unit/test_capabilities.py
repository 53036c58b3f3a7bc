"""Capabilities name exactly the filters that exist."""

from __future__ import annotations

import pytest

from router.capabilities import CAPABILITIES, PLACES, capabilities
from router.filters.sets.descriptors import FILTER_TYPES


def test_every_filter_belongs_to_one_capability() -> None:
    named = [symbol for symbols in CAPABILITIES.values() for symbol in symbols]
    assert sorted(named) == sorted(kind.symbol for kind in FILTER_TYPES)


@pytest.mark.parametrize("place", PLACES)
def test_all_seven_are_offered_everywhere(place: str) -> None:
    assert capabilities(place) == [  # type: ignore[arg-type]  # a place
        "APACHE.ORG:LEGACY_AMQP_EXCHANGE_FILTERS",
        "APACHE.ORG:NO_LOCAL",
        "APACHE.ORG:SELECTOR",
        "APACHE.ORG:JMS_FILTERS",
        "APACHE.ORG:LOGIC_FILTERS",
        "AMQP_FILTEX_PROP_V1_0",
        "AMQP_FILTEX_SQL_V1_0",
    ]


def test_other_places_are_refused() -> None:
    with pytest.raises(ValueError, match="not a place"):
        capabilities("link")  # type: ignore[arg-type]  # on purpose
