"""What brokers check about the settings of a policy, with refusals in the broker's words.

The rules are those of `rabbit_policies`, `rabbit_quorum_queue` and `rabbit_federation_parameters`. Settings
that they do not name are stored as they are, whatever their value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from bindery.api.errors import bad_request
from bindery.router.errors import InvalidInput
from bindery.router.freshness import EXPECTED, FRESHNESS, is_freshness
from bindery.router.model import ALTERNATE_EXCHANGE
from bindery.router.regex import Regex, regex
from bindery.router.values import Table, Value, encode

_Accepts = Callable[[Value], bool]
#: A number and a unit: years, months, days, hours, minutes, seconds.
_MAX_AGE: Final = Regex(r"^0*[1-9][0-9]*[YMDhms]$")
_MAX_SEGMENT: Final = 3_000_000_000


def _is_text(value: Value) -> bool:
    return isinstance(value, str)


def _is_integer(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _between(low: int, high: int | None = None) -> _Accepts:
    def accepts(value: Value) -> bool:
        return isinstance(value, int) and _is_integer(value) and low <= value and (high is None or value <= high)

    return accepts


def _among(*values: str | int) -> _Accepts:
    return lambda value: not isinstance(value, bool) and isinstance(value, str | int) and value in values


def _is_max_age(value: Value) -> bool:
    return isinstance(value, str) and _MAX_AGE.found_in(value)


#: Setting -> what it accepts, and what the broker says of another value.
RULES: Final[Mapping[str, tuple[_Accepts, str]]] = {
    ALTERNATE_EXCHANGE: (_is_text, "{} is not a valid alternate exchange name"),
    "consumer-timeout": (_between(0), "{} is not a valid consumer timeout"),
    "dead-letter-exchange": (_is_text, "{} is not a valid dead letter exchange name"),
    "dead-letter-routing-key": (_is_text, "{} is not a valid dead letter routing key"),
    "dead-letter-strategy": (_among("at-most-once", "at-least-once"), "{} is not a valid dead letter strategy"),
    "message-ttl": (_between(0), "{} is not a valid message TTL"),
    FRESHNESS: (is_freshness, "{} is not a valid freshness: " + EXPECTED),
    "expires": (_between(1), "{} is not a valid queue expiry"),
    "max-length": (_between(0), "{} is not a valid maximum length"),
    "max-length-bytes": (_between(0), "{} is not a valid maximum length in bytes"),
    "max-in-memory-length": (_between(0), "{} is not a valid maximum memory in bytes"),
    "max-in-memory-bytes": (_between(0), "{} is not a valid maximum memory in bytes"),
    "queue-mode": (_among("default", "lazy"), "{} is not a valid queue-mode value"),
    "queue-version": (_among(1, 2), "{} is not a valid queue-version value"),
    "overflow": (_among("drop-head", "reject-publish", "reject-publish-dlx"), "{} is not a valid overflow value"),
    "delivery-limit": (_is_integer, "{} is not a valid delivery limit"),
    "max-age": (_is_max_age, "{} is not a valid max age"),
    "queue-leader-locator": (
        _among("client-local", "balanced", "random", "least-leaders"),
        "{} is not a valid queue leader locator value",
    ),
    "initial-cluster-size": (_between(0), "{} is not a valid cluster size"),
    "stream-max-segment-size-bytes": (_between(0, _MAX_SEGMENT), "{} is not a valid segment size"),
    "stream-filter-size-bytes": (_between(16, 255), "{} is not a valid filter size. Valid range is 16-255"),
    "target-group-size": (_between(1), "{} is not a valid qq target count value"),
    "federation-upstream": (_is_text, "{} is not a valid federation upstream name"),
    "federation-upstream-set": (_is_text, "{} is not a valid federation upstream set name"),
    "federation-upstream-pattern": (_is_text, "{} is not a valid federation upstream pattern name"),
}
_FEDERATION: Final = ("federation-upstream", "federation-upstream-set", "federation-upstream-pattern")


def check_policy(definition: Table) -> None:
    """Refuse the settings of a policy that a broker refuses, with 400; raises Refusal."""
    fault = _fault(definition)
    if fault is not None:
        raise bad_request(validation_failed(fault))


def validation_failed(fault: str) -> str:
    """The broker's words for a policy with a fault."""
    return f"Validation failed\n\n{fault}\n"


def _fault(definition: Table) -> str | None:
    """What the broker says of the first setting, in the order of their names, that is wrong."""
    if not definition:
        return "no policy provided"
    if sum(name in definition for name in _FEDERATION) > 1:
        return "cannot specify federation-upstream, federation-upstream-set or federation-upstream-pattern together"
    for name in sorted(definition.keys() & RULES.keys()):
        accepts, said = RULES[name]
        if not accepts(definition[name]):
            return said.format(_term(definition[name]))
    pattern = definition.get("federation-upstream-pattern")
    if isinstance(pattern, str):
        try:
            regex(pattern)
        except InvalidInput as error:
            return f"could not compile pattern {pattern} to a regular expression. Error: {error.message}"
    return None


def _term(value: Value) -> str:
    """A value as Erlang prints it; what is inside of arrays and tables as JSON."""
    if isinstance(value, str):
        return f"<<{json.dumps(value, ensure_ascii=False)}{'' if value.isascii() else '/utf8'}>>"
    return json.dumps(encode(value), ensure_ascii=False)
