"""Headers exchanges (seed 003 §4.6.3.2; AMQP 0-9-1 §3.1.3.4; typed equality as from RabbitMQ 3.13 on)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.compat import switches_of
from bindery.router.message import Message
from bindery.router.reference import headers_match
from bindery.router.values import Opaque, Table, Timestamp
from tests.unit.engine.topologies import headers, modes, nested, scalars
from tests.unit.exchanges.matching import exchange_router, matched, visits

values = scalars | nested | st.none()
forms = st.sampled_from(["all", "any", "all-with-x", "any-with-x"])
arguments = st.dictionaries(headers, values, max_size=4).flatmap(
    lambda table: st.just(table) | forms.map(lambda form: {**table, "x-match": form})
)


def publish(**properties: object) -> Message:
    return Message(exchange="x", application_properties=Table({k.replace("_", "-"): v for k, v in properties.items()}))


@given(st.lists(arguments, max_size=8), st.lists(st.dictionaries(headers, values, max_size=4), max_size=6), modes)
@settings(deadline=None)
def test_bindings_match_what_their_definition_says(
    tables: list[dict[str, object]], sent: list[dict[str, object]], mode: str | None
) -> None:
    router = exchange_router("headers", [("", table) for table in tables], mode)
    messages = [Message(exchange="x", application_properties=Table(properties)) for properties in sent]
    switches = switches_of(mode)
    expected = [
        {n for n, table in enumerate(tables) if headers_match(Table(table), Table(properties), switches)}
        for properties in sent
    ]
    assert matched(router, messages) == expected


EVERY_VALUE = [
    1, 1.0, "1", b"1", True, Timestamp(1), (1,), (1.0,), ("1",), Table({"a": 1}), Table({"a": 1.0}), 2**53, 2**53 + 1,
    float(2**53), "", b"", (), Table(), (None,), Table({"a": None}), math.inf,
]  # fmt: skip


@pytest.mark.parametrize("form", ["all", "any"])
def test_nested_text_that_is_no_list_or_map_is_present_and_equals_nothing(form: str) -> None:
    wanted = [None, 2**64, (2**64,), Table(), (), "{"]
    router = exchange_router("headers", [("", {"k": value, "x-match": form}) for value in wanted])
    texts = ["{", "", "18446744073709551616", "[18446744073709551616]", "null", '"{"']
    rows = [publish(k=Opaque(text)) for text in texts]
    assert matched(router, [*rows, publish(k=(2**64,)), publish(k=())]) == [
        *[{0}, {0}, {0}, {0, 2}, {0}, {0}],
        *[{0, 2}, {0, 4}],
    ]


def test_only_the_same_value_of_the_same_family_is_equal() -> None:
    router = exchange_router("headers", [("", {"k": value}) for value in EVERY_VALUE])
    assert matched(router, [publish(k=value) for value in EVERY_VALUE]) == [{n} for n in range(len(EVERY_VALUE))]


def test_zeros_are_equal_and_nan_is_equal_to_nothing() -> None:
    router = exchange_router("headers", [("", {"k": 0.0}), ("", {"k": math.nan}), ("", {"k": (math.nan,)})])
    assert matched(router, [publish(k=-0.0), publish(k=math.nan), publish(k=(math.nan,))]) == [{0}, set(), set()]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("all", [{0}, {0}, set(), set()]),
        ("any", [{0}, {0}, {0}, {0}]),
    ],
)
def test_void_asks_for_presence_with_any_value(form: str, expected: list[set[int]]) -> None:
    router = exchange_router("headers", [("", {"x-match": form, "a": None, "b": None})])
    sent = [publish(a=1, b="x"), publish(a=None, b=()), publish(a=1), publish(b=None)]
    assert matched(router, sent) == expected


def test_a_null_is_present_and_equal_to_no_value() -> None:
    router = exchange_router("headers", [("", {"a": 1}), ("", {"a": None}), ("", {"a": ""})])
    assert matched(router, [publish(a=None)]) == [{1}]


def test_without_arguments_all_matches_everything_and_any_nothing() -> None:
    bare = [{}, {"x-match": "all"}, {"x-match": "all-with-x"}, {"x-match": "any"}, {"x-match": "any-with-x"}]
    router = exchange_router("headers", [("", table) for table in bare])
    assert matched(router, [publish(), publish(a=1)]) == [{0, 1, 2}] * 2


def test_names_that_begin_with_x_count_only_with_x() -> None:
    criteria = {"x-a": 1, "b": 2}
    router = exchange_router(
        "headers", [("", {**criteria, "x-match": form}) for form in ("all", "any", "all-with-x", "any-with-x")]
    )
    sent = [publish(x_a=1, b=2), publish(x_a=1), publish(b=2), publish(x_a=2, b=3)]
    assert matched(router, sent) == [{0, 1, 2, 3}, {3}, {0, 1, 3}, set()]


def test_the_routing_key_plays_no_part() -> None:
    router = exchange_router("headers", [("k", {"a": 1})])
    assert matched(router, [Message(exchange="x", routing_key="z", application_properties=Table({"a": 1}))]) == [{0}]


def test_bindings_that_cannot_match_cost_nothing() -> None:
    sent = [publish(kind="order", customer=n) for n in range(50)]

    def bindings(count: int) -> list[tuple[str, dict[str, object]]]:
        return [
            ("", {"kind": "order", "customer": n} if n % 2 else {"x-match": "any", "customer": n, "absent": None})
            for n in range(count)
        ]

    few, many = exchange_router("headers", bindings(50)), exchange_router("headers", bindings(2_000))
    assert matched(few, sent) == matched(many, sent)
    assert visits(many, sent) == visits(few, sent)


def test_pairs_of_popular_values_need_one_probe() -> None:
    router = exchange_router("headers", [("", {"a": n % 40, "b": n // 40}) for n in range(1_600)])
    sent = [publish(a=n % 40, b=n // 40) for n in range(1_600)]
    assert matched(router, sent) == [{n} for n in range(1_600)]
    assert visits(router, sent) <= 4 * 1_600
