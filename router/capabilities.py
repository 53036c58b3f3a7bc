"""AMQP capabilities: which filters may be used where, by the names that the specifications give.

Sources: the Apache AMQP filters name the `APACHE.ORG:` capabilities, the AMQP Filter Expressions the
`AMQP_FILTEX_` ones. A capability is offered by the service, by an exchange (a source on it is an exclusive
queue whose one binding carries the filter set; docs/filter-sets.md says which binding) or by a queue (its
consumers take filter sets). Filters that no specification has a descriptor for belong to none.
"""

from __future__ import annotations

from typing import Final, Literal

Place = Literal["service", "exchange", "queue"]
PLACES: Final[tuple[Place, ...]] = ("service", "exchange", "queue")

#: Capability -> the filters that it stands for, by descriptor.
CAPABILITIES: Final[dict[str, tuple[str, ...]]] = {
    "APACHE.ORG:LEGACY_AMQP_EXCHANGE_FILTERS": (
        "apache.org:legacy-amqp-direct-binding:string",
        "apache.org:legacy-amqp-topic-binding:string",
        "apache.org:legacy-amqp-headers-binding:map",
    ),
    "APACHE.ORG:NO_LOCAL": ("apache.org:no-local-filter:list",),
    "APACHE.ORG:SELECTOR": ("apache.org:selector-filter:string",),
    "APACHE.ORG:JMS_FILTERS": ("apache.org:jms-no-local-filter:list", "apache.org:jms-selector-filter:string"),
    "APACHE.ORG:LOGIC_FILTERS": (
        "apache.org:or-filter:list",
        "apache.org:and-filter:list",
        "apache.org:not-filter:list",
    ),
    "AMQP_FILTEX_PROP_V1_0": (
        "amqp:header-filter",
        "amqp:properties-filter",
        "amqp:application-properties-filter",
        "amqp:message-annotations-filter",
        "amqp:delivery-annotations-filter",
        "amqp:footer-filter",
        "amqp:amqp-value-filter",
        "amqp:amqp-sequence-filter",
        "amqp:all-filter",
        "amqp:any-filter",
        "amqp:not-filter",
    ),
    "AMQP_FILTEX_SQL_V1_0": ("amqp:sql-filter",),
}


def capabilities(place: Place) -> list[str]:
    """The capabilities offered at a place, in a fixed order.

    Every filter works in bindings, queue filters and consumer filters alike, so exchanges and queues offer
    what the service does; an object that offers less would leave names out here.
    """
    if place not in PLACES:
        raise ValueError(f"not a place: {place}")
    return list(CAPABILITIES)


def of_exchange(name: str) -> list[str]:
    """The capabilities of a source on an exchange: none on the default exchange, since nothing can be bound to it.

    Seed 000 demands a capability of "sources supporting these filter types", so it must not be told where no
    source can be.
    """
    return capabilities("exchange") if name else []
