"""Running `capabilities` cases: what a place that supports some filters must say that it offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bindery.conformance.cases import Case
from bindery.conformance.guard import evaluated
from bindery.conformance.report import Outcome
from bindery.router.capabilities import CAPABILITIES, capabilities, of_exchange

#: How the descriptors of a section begin -> its capability, by the letter (Apache AMQP filters §1 to §3).
_BY_THE_LETTER: Final[Mapping[str, str]] = {
    "apache.org:legacy-amqp-": "APACHE.ORG:LEGACY_AMQP_EXCHANGE_FILTERS",
    "apache.org:no-local-filter:": "APACHE.ORG:NO_LOCAL",
    "apache.org:selector-filter:": "APACHE.ORG:SELECTOR",
    "apache.org:jms-": "APACHE.ORG:JMS_FILTERS",
    "apache.org:or-filter:": "APACHE.ORG:LOGIC_FILTERS",
    "apache.org:and-filter:": "APACHE.ORG:LOGIC_FILTERS",
    "apache.org:not-filter:": "APACHE.ORG:LOGIC_FILTERS",
}


def run_capabilities(case: Case) -> Outcome:
    """Compares the capabilities that the product offers for some descriptors with those that the sections name."""
    return Outcome(case, engine=evaluated(_offered, case.content), reference=evaluated(_named, case.content))


def _offered(content: Mapping[str, Any]) -> list[str]:
    place = content["place"]
    offered = of_exchange(content["exchange"]) if place == "exchange" else capabilities(place)
    wanted = set(content["descriptors"])
    return sorted(name for name in offered if wanted & set(CAPABILITIES[name]))


def _named(content: Mapping[str, Any]) -> list[str]:
    if content["place"] == "exchange" and not content["exchange"]:
        return []  # nothing can be bound to the default exchange: it is no source
    begun = ((start, descriptor) for start in _BY_THE_LETTER for descriptor in content["descriptors"])
    return sorted({_BY_THE_LETTER[start] for start, descriptor in begun if descriptor.startswith(start)})
