"""What bounds a queue: arguments and policies together, as RabbitMQ has it."""

from __future__ import annotations

from typing import Any

import pytest

from bindery.router.declarations import TopologyEditor
from bindery.router.errors import InvalidDeclaration
from bindery.router.known_arguments import without_effect
from bindery.router.model import Queue, Topology
from bindery.router.policies import OPERATOR_POLICY, POLICY, Policy
from bindery.router.queue_limits import LimitsOf, QueueLimits
from bindery.router.values import Table


def limits(arguments: dict[str, Any], *policies: Policy, operator: Policy | None = None) -> QueueLimits:
    editor = TopologyEditor(Topology.empty())
    queue = Queue("/", "q", arguments=Table(arguments))
    editor.declare_queue(queue)
    for policy in policies:
        editor.put_setting(policy.setting(POLICY))
    if operator is not None:
        editor.put_setting(operator.setting(OPERATOR_POLICY))
    return LimitsOf(editor.topology)(queue)


def policy(name: str = "p", priority: int = 0, apply_to: str = "queues", **keys: Any) -> Policy:
    definition = Table({key.replace("_", "-"): value for key, value in keys.items()})
    return Policy("/", name, "^q", definition, apply_to, priority)


def test_a_queue_that_states_nothing_has_no_limits() -> None:
    assert not limits({})
    assert not limits({"x-dead-letter-exchange": "d", "x-overflow": "drop-head"})


def test_of_numbers_the_lowest_holds() -> None:
    found = limits(
        {"x-message-ttl": 50, "x-max-length": 9},
        policy(message_ttl=60, max_length=7, max_length_bytes=100),
        operator=policy(message_ttl=40, max_length_bytes=200),
    )
    assert found == QueueLimits(ttl_ms=40, max_rows=7, max_bytes=100)


def test_of_expiries_the_lowest_holds_and_rows_are_not_bounded_by_it() -> None:
    found = limits({"x-expires": 50}, policy(expires=40, message_ttl=9), operator=policy(expires=60))
    assert found == QueueLimits(expires_ms=40, ttl_ms=9)
    assert limits({}, operator=policy(expires=5)) == QueueLimits(expires_ms=5)
    assert limits({}, policy(expires=0)).expires_ms is None
    assert not limits({"x-expires": 1})


def test_a_last_value_queue_is_declared_by_its_argument() -> None:
    assert limits({"x-last-value-key": "k"}) == QueueLimits(last_value_key="k")
    assert not limits({}, policy(last_value_key="k"))


def test_only_the_policy_of_the_highest_priority_applies() -> None:
    assert limits({}, policy("a", 1, message_ttl=1), policy("b", 2, max_length=5)) == QueueLimits(max_rows=5)
    assert not limits({}, policy(apply_to="exchanges", message_ttl=1))


def test_of_anything_else_the_argument_comes_first() -> None:
    found = limits(
        {"x-message-ttl": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k"},
        policy(dead_letter_exchange="d", dead_letter_routing_key="l"),
    )
    assert found == QueueLimits(ttl_ms=0, exchange="", routing_key="k")
    assert limits({"x-max-length": 1}, policy(dead_letter_exchange="d")).exchange == "d"


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_nothing_is_dropped_where_publishing_was_to_be_refused(overflow: str) -> None:
    stated = {"x-overflow": overflow, "x-max-length": 1, "x-max-length-bytes": 1, "x-message-ttl": 5}
    assert limits(stated) == QueueLimits(ttl_ms=5)
    assert list(without_effect(Queue("/", "q", arguments=Table(stated)))) == [
        "x-overflow",
        "x-max-length",
        "x-max-length-bytes",
    ]
    assert not limits({"x-max-length": 1}, policy(overflow=overflow))
    assert limits({"x-max-length": 1, "x-overflow": "drop-head"}, policy(overflow=overflow)).max_rows == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-expires", 0),
        ("x-expires", True),
        ("x-expires", "60"),
        ("x-message-ttl", -1),
        ("x-message-ttl", "60"),
        ("x-max-length", True),
        ("x-max-length-bytes", 1.5),
        ("x-overflow", "drop"),
        ("x-last-value-key", ""),
        ("x-last-value-key", 1),
        ("x-dead-letter-exchange", 1),
    ],
)
def test_values_that_brokers_refuse_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidDeclaration, match=name):
        limits({name: value})


def test_a_policys_value_that_is_none_is_no_limit() -> None:
    assert not limits({}, policy(message_ttl="1", max_length=-1, max_length_bytes=True))
