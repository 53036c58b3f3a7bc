"""`bindery import --from knative`: brokers and triggers of Knative Eventing, and that they route as there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bindery.router.errors import DefinitionsRefused, InvalidInput
from bindery.router.filters import evaluate, parse
from bindery.router.filters.sets import parse_filter_set
from bindery.router.importers import KINDS
from bindery.router.importers.knative_filters import filters_of, literal, mixes
from bindery.router.importers.settling import Settled, settle
from bindery.router.message import Message
from bindery.router.model import Topology
from bindery.router.reference import NaiveRouter
from tests.unit.filters import plain_events

_API = "eventing.knative.dev/v1"


def carried(*documents: Any, vhost: str | None = None) -> Settled:
    text = yaml.safe_dump_all(documents, sort_keys=False)
    return settle(KINDS["knative"].read("file.yaml", text.encode()), Topology.empty(), vhost=vhost)


def broker(name: str = "default", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": _API, "kind": "Broker", "metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def service(name: str, **more: Any) -> dict[str, Any]:
    return {"ref": {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": name}, **more}


def trigger(name: str, subscriber: Any = None, *, namespace: str | None = "shop", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    called = service(name) if subscriber is None else subscriber
    stated = {"broker": "default", "subscriber": called, **spec}
    return {"apiVersion": _API, "kind": "Trigger", "metadata": metadata, "spec": stated}


def event(attributes: dict[str, Any], exchange: str = "default") -> Message:
    return Message.from_json({"exchange": exchange, "application_properties": attributes})


def queues(settled: Settled, vhost: str = "shop", exchange: str = "default", **attributes: Any) -> set[str]:
    return set(NaiveRouter(settled.topology, vhost).route(event(attributes, exchange)).queues)


def outcomes(settled: Settled) -> dict[str, str]:
    return {f"{item.kind} {item.name}": item.outcome.value for item in settled.objects}


def notes(settled: Settled) -> dict[tuple[str, str], str]:
    return {(item.name, note.key): note.text for item in settled.objects for note in item.notes}


def examples(settled: Settled) -> list[tuple[list[str], list[str]]]:
    listed = [note["example"] for item in settled.as_data() for note in item["notes"] if "example" in note]
    return [(one["there"], one["here"]) for one in listed]


# -- filters, against the rules of Knative read a second time


def passes(spec: dict[str, Any], attributes: dict[str, str]) -> bool:
    """Whether an event passes the filter of a trigger, by the documentation of `Trigger`, test by test."""
    if spec.get("filters"):
        return all(_one(test, attributes) for test in spec["filters"] if _states(test))
    wanted = spec.get("filter", {}).get("attributes", {})
    return all(
        attributes.get(name, "") != "" if value == "" else attributes.get(name) == value
        for name, value in wanted.items()
    )


def _states(test: dict[str, Any]) -> bool:
    return any(value for kind, value in test.items() if kind not in ("exact", "prefix", "suffix")) or any(
        value and all(value.values()) for kind, value in test.items() if kind in ("exact", "prefix", "suffix")
    )


def _one(test: dict[str, Any], attributes: dict[str, str]) -> bool:
    ((kind, value),) = test.items()
    match kind:
        case "exact":
            return all(attributes.get(name) == text for name, text in value.items())
        case "prefix":
            return all(name in attributes and attributes[name].startswith(text) for name, text in value.items())
        case "suffix":
            return all(name in attributes and attributes[name].endswith(text) for name, text in value.items())
        case "all":
            return all(_one(inner, attributes) for inner in value)
        case "any":
            return any(_one(inner, attributes) for inner in value)
        case "not":
            return not _one(value, attributes)
    return plain_events.evaluate(value, event(attributes)) == (True, ())


_NAMES = st.sampled_from(["type", "source", "subject", "ext"])
#: Texts of few characters, those among them that mean something in patterns and literals.
_TEXTS = st.text(alphabet="ab%_\\'\"é😀", min_size=0, max_size=4)
_GIVEN = st.dictionaries(_NAMES, _TEXTS.filter(bool), min_size=1, max_size=2)
_LEAVES = st.one_of(
    *(st.fixed_dictionaries({kind: _GIVEN}) for kind in ("exact", "prefix", "suffix")),
    st.sampled_from(
        [{"cesql": text} for text in ("type = 'a'", "EXISTS ext", "ext = 'a' OR TRUE", "NOT (type = 'b')")]
    ),
)
_TESTS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"all": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=3)}),
    ),
    max_leaves=6,
)
_SPECS = st.one_of(
    st.fixed_dictionaries(
        {"filter": st.fixed_dictionaries({"attributes": st.dictionaries(_NAMES, _TEXTS, max_size=3)})}
    ),
    st.fixed_dictionaries({"filters": st.lists(_TESTS, max_size=3)}),
)


@settings(max_examples=250, deadline=None)
@given(_SPECS, st.lists(st.dictionaries(_NAMES, _TEXTS, max_size=4), min_size=1, max_size=6), st.data())
@example({"filters": [{"prefix": {"type": "a%"}}]}, [{"type": "a%b"}, {"type": "axb"}], None)
@example({"filters": [{"suffix": {"type": "\\_"}}]}, [{"type": "a\\_"}, {"type": "a\\b"}, {"type": "_"}], None)
@example({"filters": [{"not": {"exact": {"ext": "a"}}}]}, [{}, {"ext": "a"}, {"ext": ""}], None)
@example({"filters": [{"any": [{"exact": {"ext": "a"}}, {"prefix": {"type": "b"}}]}]}, [{"type": "b"}], None)
def test_a_filter_lets_pass_what_knative_does(
    spec: dict[str, Any], events: list[dict[str, str]], data: st.DataObject | None
) -> None:
    filters = filters_of(spec)
    tried = list(events)
    for _, values in _leaves(spec):
        tried += [
            {name: before + text + after for name, text in values.items()}
            for before in ("", "a")
            for after in ("", "a")
        ]
    for attributes in tried:
        here = not filters or evaluate(parse_filter_set(filters), event(attributes)) is True
        assert here == passes(spec, attributes), attributes


def _leaves(spec: Any) -> list[tuple[str, dict[str, str]]]:
    if isinstance(spec, list):
        return [leaf for one in spec for leaf in _leaves(one)]
    found = []
    for kind, value in spec.items() if isinstance(spec, dict) else ():
        if kind in ("exact", "prefix", "suffix", "attributes"):
            found.append((kind, value))
        else:
            found += _leaves(value)
    return found


@given(st.text(alphabet="a%_\\'\" é", max_size=8))
def test_any_text_can_be_said_in_cloudevents_sql(text: str) -> None:
    assert evaluate(parse(f"ext = {literal(text)}", "cesql"), event({"ext": text})) is True
    assert evaluate(parse(f"ext = {literal(text)}", "cesql"), event({"ext": text + "x"})) is False


@pytest.mark.parametrize(
    ("spec", "where", "says"),
    [
        ({"filters": [{"exakt": {"type": "a"}}]}, "filters[0]", "no filter is called 'exakt'"),
        ({"filters": [{"exact": {"type": "a"}, "prefix": {"type": "a"}}]}, "filters[0]", "in one filter"),
        ({"filters": [{"not": {}}]}, "filters[0].not", "lets everything pass"),
        ({"filters": [{"any": [{}, {"exact": {"type": "a"}}]}]}, "filters[0].any[0]", "lets everything pass"),
        ({"filters": [{"exact": {"Type": "a"}}]}, "filters[0].exact", "no name of an attribute"),
        ({"filters": [{"exact": {"datamediatype": "a"}}]}, "filters[0].exact", "no attribute datamediatype"),
        ({"filters": [{"exact": {"in": "a"}}]}, "filters[0].exact", "a word of CloudEvents SQL"),
        ({"filters": [{"exact": {"type": 5}}]}, "filters[0].exact", "no text"),
        ({"filters": [{"cesql": "type ="}]}, "filters[0].cesql", "refused"),
        ({"filters": {"exact": {}}}, "filters", "expected a list"),
        ({"filters": ["a"]}, "filters[0]", "expected an object"),
        ({"filter": {"all": []}}, "filter", "no filter of 'all'"),
    ],
)
def test_filters_that_knative_refuses_or_nobody_can_say_are_told(spec: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        filters_of(spec)
    assert caught.value.where == where
    assert says in caught.value.message
    settled = carried(broker(), trigger("t", **spec))
    assert outcomes(settled)["trigger t"] == "not carried over"


def test_a_filter_that_is_nested_without_end_is_refused() -> None:
    spec: dict[str, Any] = {"exact": {"type": "a"}}
    for _ in range(200):
        spec = {"not": spec}
    with pytest.raises(InvalidInput, match="levels"):
        filters_of({"filters": [spec]})


def test_filters_without_effect_let_everything_pass() -> None:
    for spec in ({}, {"filters": []}, {"filter": {}}, {"filters": [{}]}, {"filters": [{"exact": {"type": ""}}]}):
        assert filters_of(spec) == {}


@pytest.mark.parametrize(
    ("text", "mixed"),
    [
        ("a = 1 OR b = 2 AND c = 3", True),
        ("(a OR b) AND c", False),
        ("(a or b and c)", True),
        ("a = 'x OR y AND z'", False),
    ],
)
def test_operators_beside_each_other_are_told(text: str, mixed: bool) -> None:
    assert mixes(text) is mixed


# -- objects


def test_triggers_lead_to_the_queues_of_their_subscribers_in_the_vhost_of_their_namespace() -> None:
    settled = carried(
        broker(),
        trigger("a", filter={"attributes": {"type": "x"}}),
        trigger("b", filters=[{"prefix": {"type": "x"}}]),
        trigger("c", namespace="other"),
    )
    assert queues(settled, type="x") == {"a", "b"}
    assert queues(settled, type="xy") == {"b"}
    assert queues(settled, vhost="other", type="y") == {"c"}
    assert {name for name, outcome in outcomes(settled).items() if outcome == "different"} == {
        f"subscriber serving.knative.dev/Service/{name}" for name in "abc"
    }


def test_lists_and_json_are_read_as_documents_are() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [broker(), trigger("a")]}
    objects = KINDS["knative"].read("file.json", json.dumps(listed, indent=1).encode())
    settled = settle(objects, Topology.empty())
    assert queues(settled, type="x") == {"a"}
    assert outcomes(settled) == outcomes(carried(broker(), trigger("a")))
    assert [item.place for item in objects if item.kind == "broker"] == ["line 5"]


def test_what_names_no_namespace_goes_where_everything_else_does() -> None:
    document = trigger("a", namespace=None)
    assert queues(carried(document), vhost="/", type="x") == {"a"}
    assert queues(carried(trigger("a"), vhost="/"), vhost="/", type="x") == {"a"}


def test_filters_count_alone_beside_a_filter() -> None:
    settled = carried(trigger("a", filter={"attributes": {"type": "x"}}, filters=[{"exact": {"type": "y"}}]))
    assert queues(settled, type="y") == {"a"}
    assert queues(settled, type="x") == set()
    assert "counts alone" in notes(settled)["a", "filter"]


def test_a_broker_may_be_a_subscriber() -> None:
    second = {"ref": {"apiVersion": _API, "kind": "Broker", "name": "second"}}
    settled = carried(
        broker(),
        broker("second"),
        trigger("on", second, filter={"attributes": {"type": "x"}}),
        {**trigger("a"), "spec": {"broker": "second", "subscriber": service("a")}},
    )
    assert outcomes(settled)["trigger on"] == "exact"
    assert queues(settled, type="x") == {"a"}


def test_an_event_that_fits_two_triggers_of_one_subscriber_comes_once() -> None:
    settled = carried(
        broker(),
        trigger("a", service("s"), filter={"attributes": {"type": "x.y"}}),
        trigger("b", service("s"), filters=[{"prefix": {"type": "x."}}, {"suffix": {"source": "/1"}}]),
        trigger("c", service("s"), filter={"attributes": {"type": "z"}}),
    )
    assert examples(settled) == [(["s", "s"], ["s"])]
    assert outcomes(settled)["trigger c"] == "exact"


def test_subscribers_of_one_name_are_different_queues() -> None:
    other = {"ref": {"apiVersion": "v1", "kind": "Service", "name": "s"}}
    path = service("s", uri="/path")
    far = {"ref": {"apiVersion": "v1", "kind": "Service", "name": "s", "namespace": "far"}}
    address = {"uri": "https://user:secret@example.org/hook"}
    named = {"a": service("s"), "b": other, "c": path, "d": far, "e": address}
    settled = carried(broker(), *(trigger(name, one) for name, one in named.items()))
    assert queues(settled, type="x") == {
        "serving.knative.dev/Service/s",
        "Service/s",
        "s/path",
        "far/s",
        "example.org/hook",
    }
    assert "secret" not in json.dumps([item["notes"] for item in settled.as_data()])


def test_what_is_not_carried_over_says_why() -> None:
    settled = carried(
        broker(),
        trigger("none", broker=None),
        trigger("far", broker=None, brokerRef={"name": "b", "namespace": "far"}),
        trigger("nobody", {"ref": {"kind": "Service"}}),
        trigger("elsewhere", {"ref": {"apiVersion": _API, "kind": "Broker", "name": "b", "namespace": "far"}}),
        broker(),
        {"apiVersion": "sources.knative.dev/v1", "kind": "PingSource", "metadata": {"name": "p"}},
        {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "metadata": {"name": "ch"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {}},
    )
    lost = {item.name for item in settled.objects if item.outcome.value == "not carried over"}
    assert lost == {"none", "far", "nobody", "elsewhere", "default", "p", "ch"}
    assert outcomes(settled)["ConfigMap m"] == "exact"


def test_what_is_different_is_told() -> None:
    settled = carried(
        broker(delivery={"retry": 3, "wat": 1}, other=1),
        trigger("t", filter={"attributes": {"time": "2020-01-01T00:00:00Z"}}),
        trigger("u", filters=[{"cesql": "a = 1 OR b = 2 AND c = 3"}], delivery={"deadLetterSink": service("dead")}),
    )
    said = notes(settled)
    assert "nobody knows" in said["default", "delivery.wat"]
    assert "nobody knows" in said["default", "other"]
    assert "writes it anew" in said["t", "filters.time"]
    assert "left to right" in said["u", "filters.cesql"]
    assert "no delivery fails" in said["u", "delivery.deadLetterSink"]


@pytest.mark.parametrize(
    "text", ["", "a: 1", "- a", "apiVersion: v1\nkind: List\nitems: [1]", "{}", "a", "--- x\n--- y"]
)
def test_what_is_no_resource_is_refused(text: str) -> None:
    with pytest.raises(DefinitionsRefused):
        KINDS["knative"].read("file.yaml", text.encode())


def test_a_report_has_the_line_of_a_document_further_down(tmp_path: Path) -> None:
    text = yaml.safe_dump_all([broker(), {**trigger("t"), "metadata": 5}])
    with pytest.raises(DefinitionsRefused) as caught:
        KINDS["knative"].read("file.yaml", text.encode())
    (problem,) = caught.value.problems
    assert problem["path"] == "[1].metadata"
    assert text.splitlines()[problem["line"] - 1].startswith("metadata: 5")
