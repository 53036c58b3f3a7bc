"""Addresses of bindings: the broker's own keys, and lists -> GET -> DELETE that always come round."""

from __future__ import annotations

from urllib.parse import unquote, unquote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.api.errors import Refusal
from bindery.api.properties_key import find, location, properties_key
from bindery.router.model import Binding
from bindery.router.values import Table

KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ARGUMENTS = st.dictionaries(st.sampled_from(["a", "b", "x-match"]), st.integers(-(2**40), 2**40), max_size=2).map(Table)


def binding(routing_key: str, arguments: Table | None = None) -> Binding:
    return Binding(1, "/", "x", "q", "queue", routing_key, arguments or Table())


@pytest.mark.parametrize(
    ("routing_key", "key"),
    [("", "~"), ("k", "k"), ("a/b c~%+é", "a%2Fb+c%7E%25%2B%C3%A9"), ("a.*.#", "a.%2A.%23")],
)
def test_without_arguments_the_key_is_the_quoted_routing_key(routing_key: str, key: str) -> None:
    assert properties_key(routing_key, Table()) == key


@pytest.mark.parametrize(
    ("arguments", "digest"),
    [
        ({"x-match": "all"}, "3ujGfg"),
        ({"x-match": "all", "n": 5}, "wv0SvA"),
        ({"x-match": "any", "n": 5, "s": "v", "b": True, "f": 1.5, "l": (1,), "t": Table({"a": 1})}, "4QrVgA"),
    ],
)
def test_arguments_hash_as_brokers_do(arguments: dict[str, object], digest: str) -> None:
    """Keys that real brokers gave."""
    assert properties_key("r", Table(arguments)) == f"r~{digest}"  # type: ignore[arg-type]


def test_locations_are_quoted_twice() -> None:
    assert location("q", "~") == "q/~"
    assert location("q", properties_key("a/b", Table())) == "q/a%252Fb"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(KEYS, ARGUMENTS), min_size=1, max_size=6, unique_by=lambda pair: (pair[0], pair[1].identity)))
def test_every_listed_key_finds_its_binding(pairs: list[tuple[str, Table]]) -> None:
    bindings = [binding(*pair) for pair in pairs]
    for one in bindings:
        key = properties_key(one.routing_key, one.arguments)
        assert find(bindings, key) is one
        segment = location("q", key).partition("/")[2]
        assert find(bindings, unquote(segment.replace("+", " "))) is one or "+" in segment


def test_a_client_that_forgot_to_encode_once_more_is_understood() -> None:
    one = binding("a/b c")
    assert find([one, binding("other")], "a/b c") is one


@pytest.mark.parametrize("segment", ["#~{}", "%23~{}"])
def test_a_key_with_arguments_is_found_as_listed_and_encoded_once_more(segment: str) -> None:
    arguments = Table({"x": 1})
    one, others = binding("#", arguments), [binding("#"), binding("%23", arguments), binding("#", Table({"x": 2}))]
    digest = properties_key("", arguments).removeprefix("~")
    assert find([*others, one], segment.format(digest)) is one


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_segments_are_read_as_the_broker_reads_them(data: st.DataObject) -> None:
    """rabbit_mgmt_wm_binding: split at every "~", decode the parts, compare the key and the hash."""
    pairs = data.draw(
        st.lists(st.tuples(KEYS, ARGUMENTS), min_size=1, max_size=6, unique_by=lambda pair: (pair[0], pair[1].identity))
    )
    bindings = [Binding(at, "/", "x", "q", "queue", *pair) for at, pair in enumerate(pairs)]
    listed = properties_key(*data.draw(st.sampled_from(pairs)))
    segment = data.draw(
        st.sampled_from([listed, unquote(listed), unquote_plus(listed)])
        | KEYS.filter(lambda text: not text.endswith("~"))
    )
    parts = [unquote_plus(part) for part in (segment.split("~") if segment != "~" else [""])]
    expected = [
        one
        for one in bindings
        if parts == [one.routing_key, *properties_key("", one.arguments).split("~")[1:]][: 1 + bool(one.arguments)]
    ]
    if expected:
        assert find(bindings, segment) is expected[0]
    else:
        with pytest.raises(Refusal):
            find(bindings, segment)


def test_the_empty_key_is_never_guessed() -> None:
    """v1 sends "~" by default: a binding whose key is the text "~" is another one."""
    with pytest.raises(Refusal) as refused:
        find([binding("~")], "~")
    assert refused.value.status == 404
