"""Policies: which one applies, and the alternate exchange that it gives."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.errors import InvalidDeclaration
from bindery.router.message import Message, to_batch
from bindery.router.model import Binding, Exchange, Queue, Topology
from bindery.router.policies import OPERATOR_POLICY, JournalBounds, Policies, Policy, policies_of
from bindery.router.values import Table

ALTERNATE = Table({"alternate-exchange": "other"})


def topology(*policies: Policy, arguments: Table | None = None) -> Topology:
    editor = TopologyEditor(Topology.empty())
    editor.declare_exchange(Exchange("/", "x", "direct", arguments=arguments or Table()))
    editor.declare_exchange(Exchange("/", "other", "fanout"))
    editor.declare_queue(Queue("/", "rest"))
    editor.bind(Binding(0, "/", "other", "rest"))
    for policy in policies:
        editor.put_setting(policy.setting())
    return editor.topology


def applying(*policies: Policy, scope: str = "exchanges", name: str = "x") -> str | None:
    found = Policies(topology(*policies)).applying(scope, "/", name)  # type: ignore[arg-type]
    return None if found is None else found.name


def policy(name: str, pattern: str = "", *, apply_to: str = "all", priority: int = 0) -> Policy:
    return Policy("/", name, pattern, ALTERNATE, apply_to, priority)


def test_the_highest_priority_applies_then_the_first_name() -> None:
    assert applying(policy("low"), policy("high", priority=2), policy("also", priority=2)) == "also"
    assert applying(policy("negative", priority=-1)) == "negative"


def test_a_pattern_is_searched_in_the_name() -> None:
    assert applying(policy("p", "rder"), name="orders") == "p"
    assert applying(policy("p", "^rder"), name="orders") is None


@pytest.mark.parametrize(
    ("apply_to", "exchanges", "queues"),
    [("all", True, True), ("exchanges", True, False), ("queues", False, True), ("quorum_queues", False, False)],
)
def test_apply_to_says_what_is_meant(apply_to: str, exchanges: bool, queues: bool) -> None:
    one = policy("p", apply_to=apply_to)
    assert (applying(one) == "p", applying(one, scope="queues") == "p") == (exchanges, queues)


def test_a_policy_gives_an_exchange_its_alternate_and_an_argument_wins() -> None:
    routed = topology(policy("p", "^x$"))
    assert Policies(routed).alternate_exchange(routed.exchange("/", "x")) == "other"
    assert Policies(routed).alternate_exchange(routed.exchange("/", "other")) is None
    own = topology(policy("p", "^x$"), arguments=Table({"alternate-exchange": "own"}))
    assert Policies(own).alternate_exchange(own.exchange("/", "x")) == "own"


def test_the_empty_name_is_no_alternate_and_hides_that_of_a_policy() -> None:
    hidden = topology(policy("p", "^x$"), arguments=Table({"alternate-exchange": ""}))
    assert Policies(hidden).alternate_exchange(hidden.exchange("/", "x")) is None
    empty = topology(Policy("/", "p", "^x$", Table({"alternate-exchange": ""})))
    assert Policies(empty).alternate_exchange(empty.exchange("/", "x")) is None


def test_routing_follows_the_policy() -> None:
    batch = to_batch([Message(exchange="x", routing_key="nobody")])
    router = Router.compile(topology(policy("p", "^x$")), "/")
    deliveries = router.route(batch, clock_ms=0)
    assert [router.queues[number] for number in deliveries.queue] == ["rest"]
    assert len(Router.compile(topology(), "/").route(batch, clock_ms=0).unroutable) == 1


def test_policies_survive_storage_and_kinds_stay_apart() -> None:
    kept = policy("p", "^x", apply_to="exchanges", priority=3)
    assert list(policies_of(topology(kept))) == [kept]
    assert not list(policies_of(topology(kept), kind=OPERATOR_POLICY))


@pytest.mark.parametrize(("pattern", "apply_to"), [("(", "all"), (r"(a)\1", "all"), ("x", "everything")])
def test_bad_patterns_and_scopes_are_refused(pattern: str, apply_to: str) -> None:
    with pytest.raises(InvalidDeclaration):
        policy("p", pattern, apply_to=apply_to)


def journal_policy(
    pattern: str = "", apply_to: str = "streams", name: str = "p", priority: int = 0, **keys: object
) -> Policy:
    definition = Table({"journal": True} | {key.replace("_", "-"): value for key, value in keys.items()})  # type: ignore[misc]
    return Policy("/", name, pattern, definition, apply_to, priority)


def test_the_strongest_policy_of_streams_says_whether_a_stream_keeps_a_journal() -> None:
    policies = Policies(
        topology(
            journal_policy("^orders", max_age="14D", max_length_bytes=1 << 30),
            journal_policy("^orders\\.raw$", name="none", priority=1, journal=False),
            journal_policy("^orders\\.long$", name="long", priority=2),
            policy("everything", priority=9),
        )
    )
    assert policies.journal("/", "orders.eu") == JournalBounds(timedelta(days=14), 1 << 30)
    assert policies.journal("/", "orders.long") == JournalBounds(None, None)
    assert policies.journal("/", "orders.raw") is None
    assert policies.journal("/", "flights") is None
    assert policies.journal("v", "orders") is None


@pytest.mark.parametrize(
    ("text", "age"), [("1Y", 365), ("2M", 60), ("07D", 7), ("48h", 2), ("1440m", 1), ("86400s", 1)]
)
def test_ages_are_those_of_brokers_streams(text: str, age: int) -> None:
    assert journal_policy(max_age=text).journal == JournalBounds(timedelta(days=age), None)


@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ({"apply_to": "all"}, "journal"),
        ({"apply_to": "queues"}, "journal"),
        ({"journal": "yes"}, "journal"),
        ({"max_age": "7 days"}, "max-age"),
        ({"max_age": "59s"}, "max-age"),
        ({"max_age": 7}, "max-age"),
        ({"max_length_bytes": (64 << 20) - 1}, "max-length-bytes"),
        ({"max_length_bytes": True}, "max-length-bytes"),
    ],
)
def test_a_journal_that_cannot_be_kept_so_is_refused(keys: dict[str, object], where: str) -> None:
    with pytest.raises(InvalidDeclaration) as caught:
        journal_policy(**keys)  # type: ignore[arg-type]
    assert caught.value.where == f"policy 'p': {where}"
    assert caught.value.hint
