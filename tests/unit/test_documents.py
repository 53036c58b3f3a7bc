"""Documents as text: JSON and YAML mean the same, nothing is guessed, and errors have a place."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bindery.router.declarations import TopologyEditor
from bindery.router.definitions import export
from bindery.router.documents import Source, read_source
from bindery.router.documents.yaml_text import MAX_ALIASED, MAX_DEPTH
from bindery.router.errors import DefinitionsRefused
from bindery.router.known_arguments import KNOWN
from bindery.router.model import Topology
from bindery.router.proposal import read_change
from tests.unit.test_definitions import topologies, without_ids


class Quoting(yaml.SafeDumper):
    """Writes every text in quotes."""


Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


def read(text: str) -> Source:
    return read_source("f", text.encode())


def problems_of(text: str) -> list[tuple[int, int, str]]:
    """Line, column and message of everything that is wrong with the text, or with the change that it asks for."""
    with pytest.raises(DefinitionsRefused) as refused:
        read_change([read(text)], "/").applied_to(Topology.empty())
    return [(one["line"], one["column"], one["message"]) for one in refused.value.problems]


# -- JSON and YAML --------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(topology=topologies(), flow=st.booleans())
def test_json_and_yaml_of_a_document_give_the_same_topology(topology: Topology, flow: bool) -> None:
    document = export(topology)
    # arguments that begin with x- must be known in files; others are anybody's
    assume("x-" not in json.dumps(document))
    as_yaml = yaml.dump(document, Dumper=Quoting, default_flow_style=flow, explicit_start=flow)
    made = [read_change([read(text)], "/").applied_to(Topology.empty()) for text in (json.dumps(document), as_yaml)]
    for one in made:
        assert [*one.queues.values(), *one.settings.values()] == [*made[0].queues.values(), *made[0].settings.values()]
        assert without_ids(one) == without_ids(topology)
        assert one.exchanges == topology.exchanges


@settings(max_examples=300, deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text("aeno1_.-:~# y'\"", max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("anoy1:", max_size=3), inner, max_size=3),
        max_leaves=8,
    )
)
def test_yaml_as_others_write_it_is_read_as_they_mean_it_or_refused_for_want_of_quotes(value: Any) -> None:
    text = yaml.safe_dump({"value": value})
    try:
        assert read(text).value == {"value": value}
    except DefinitionsRefused as error:
        assert all("write it in quotes" in one["hint"] for one in error.problems)


@pytest.mark.parametrize(
    "scalar",
    [
        "no",
        "NO",
        "on",
        "yes",
        "Off",
        "1e3",
        "1.5e3",
        "017",
        "0o17",
        "1_000",
        "12:30",
        "190:20:30",
        "2026-01-01",
        "0b11",
        "=",
        "<<",
    ],
)
def test_what_two_versions_of_yaml_read_differently_is_refused_with_its_place(scalar: str) -> None:
    for text, place in ((f"a:\n  b: {scalar}", (2, 6)), (f"a:\n  {scalar}: b", (2, 3))):
        ((line, column, message),) = problems_of(text)
        assert (line, column) == place
        assert repr(scalar) in message
    assert read(f"a: '{scalar}'").value == {"a": scalar}
    assert read(f"a: !!str {scalar}").value == {"a": scalar}


def test_plain_scalars_that_every_version_reads_alike_need_no_quotes() -> None:
    text = "a: [true, False, null, ~, 5, -5, 0x1F, 1.5, .5, 1.0e+3, nope, '#', 1.2.3, a.*.b, y]"
    expected = [True, False, None, None, 5, -5, 31, 1.5, 0.5, 1000.0, "nope", "#", "1.2.3", "a.*.b", "y"]
    assert read(text).value == {"a": expected}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('{"a": 1,\n "b": {"c": 1, "c": 2}}', 2, "'c' stands twice"),
        ("a: 1\nb:\n  c: 1\n  c: 2", 4, "'c' stands twice"),
        ('{"a":\n', 2, "not JSON"),
        ("a: [1", 1, "not YAML"),
        ("a: 1\n---\nb: 2", 2, "second document"),
        ("a: *b", 1, "no anchor"),
        ("a: &b [*b]", 1, "no anchor"),
        ("a: !!binary aGk=", 1, "tag"),
        ("a: !python/object:os.system x", 1, "tag"),
        ("a: .inf", 1, "no JSON number"),
        ("\n5: a", 2, "a key is no text"),
        ("? [a]\n: b", 1, "a key is no text"),
        ("", 1, "empty"),
        ("- a", 1, "no JSON object or YAML mapping"),
        ("a: \x07", 1, "not YAML"),
        ("[" * 100_000, 1, "not JSON"),
        ("a: " + "[" * 100_000, 1, f"deeper than {MAX_DEPTH}"),
    ],
)
def test_text_that_cannot_be_read_is_refused_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(DefinitionsRefused) as refused:
        read(text)
    (problem,) = refused.value.problems
    assert (problem["line"], says in problem["message"]) == (line, True), problem


def test_aliases_stand_for_what_they_name_and_no_more_than_is_bounded() -> None:
    assert read("a: &x {b: [1, &y 2]}\nc: *x\nd: *y").value == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}, "d": 2}
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(DefinitionsRefused, match=f"more than {MAX_ALIASED:,}"):
        read("\n".join(levels))


# -- places ---------------------------------------------------------------------------------------------

SELECTORS = """\
exchanges: [{name: x, type: topic}]
queues:
- name: "ÿ𝄞"   # wide
bindings:
- {source: x, destination: ÿ𝄞, arguments: {x-filter-jms-selector: a >= AND b}}
- {source: x, destination: ÿ𝄞, arguments: {x-filter-jms-selector: 'a >= AND c'}}
- source: x
  destination: ÿ𝄞
  arguments: {x-filter-jms-selector: "a = '\\u0031' AND AND"}
- source: x
  destination: ÿ𝄞
  arguments:
    x-filters: {f: {descriptor: "apache.org:selector-filter:string", value: a >= AND d}}
- source: x
  destination: elsewhere
bindery_diverts:
- {name: d, source: x, destination: x, filter: a >=}
"""


def test_an_error_inside_a_selector_has_the_place_in_the_document_where_it_stands_there_as_it_is() -> None:
    found = [(line, column) for line, column, _ in problems_of(SELECTORS)]
    lines = SELECTORS.splitlines()
    assert found[0] == (5, lines[4].index("AND") + 1)
    assert found[1] == (6, lines[5].index("AND") + 1)
    assert found[2] == (9, lines[8].index('"a =') + 1)  # written with an escape: the value
    assert found[3] == (13, lines[12].index("AND") + 1)
    assert found[4] == (15, lines[14].index("elsewhere") + 1)
    assert found[5] == (17, lines[16].index(">=") + 3)


def test_every_error_of_a_document_is_told_at_once() -> None:
    text = json.dumps(
        {
            "exchange": [],
            "queues": [
                {"name": 5, "durable": "maybe"},
                {"name": "q", "arguments": {"x-queue-fliter": "a"}},
                {"name": "q"},
            ],
            "policies": [{"name": "p", "pattern": "", "definition": {"alternate-exchagne": "x"}}],
            "vhosts": [{"name": "/", "metadata": {"tag": []}}],
        },
        indent=0,
    )
    said = [message for _, _, message in problems_of(text)]
    assert said == [
        "unknown key 'exchange'",
        "name is no string: 5",
        'durable is "maybe"',
        "unknown argument 'x-queue-fliter'",
        said[4],
        "unknown key 'alternate-exchagne'",
        "unknown key 'tag'",
    ]
    assert said[4].startswith("queue 'q' stands here otherwise than at f:")


# -- names ----------------------------------------------------------------------------------------------

WHOLE: dict[str, Any] = {
    "vhosts": [{"name": "/", "metadata": {"description": "d"}}],
    "global_parameters": [{"name": "cluster_name", "value": "c"}],
    "exchanges": [
        {
            "vhost": "/",
            "name": "x",
            "type": "headers",
            "durable": True,
            "arguments": {"alternate-exchange": "amq.fanout"},
        },
        {"vhost": "/", "name": "t", "type": "topic", "alternateBinding": {"destination": "q"}},
    ],
    "queues": [
        {"vhost": "/", "name": "q", "auto_delete": False, "arguments": {"x-queue-filter": "a = 1", "x-max-priority": 5}}
    ],
    "bindings": [
        {
            "vhost": "/",
            "source": source,
            "destination": "q",
            "destination_type": "queue",
            "routing_key": "",
            "arguments": {**match, **arguments},
        }
        for source in "xt"
        for match in ({}, {"x-match": "any"}, {"x-match": "any-with-x"})
        for arguments in (
            {"x-filter-jms-selector": "a = 1"},
            {"x-replacement-routing-key": "k"},
            {"x-filters": {"f": {"descriptor": "apache.org:selector-filter:string", "value": "a = 1"}}},
        )
    ],
    "bindery_diverts": [
        {"vhost": "/", "name": "d", "source": "x", "destination": "t", "filter": "a = 1", "exclusive": True}
    ],
    "policies": [
        {
            "vhost": "/",
            "name": "p",
            "pattern": "",
            "apply-to": "exchanges",
            "priority": 1,
            "definition": {"alternate-exchange": "x"},
        }
    ],
    "parameters": [
        {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 5}},
        {
            "vhost": "/",
            "component": "operator_policy",
            "name": "o",
            "value": {"pattern": "", "definition": {"max-length": 1}},
        },
    ],
}


def keys_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all keys but those of a filter set and of typed values, which have rules of their own."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for key, content in inner:
        found += [(*path, key)] if isinstance(value, dict) else []
        if key not in ("x-filters", "alternateBinding") and path[:1] != ("global_parameters",):
            found += keys_of(content, (*path, key))
    return found


def test_the_document_that_is_misspelt_is_right_as_it_is() -> None:
    read_change([read(json.dumps(WHOLE))], "/").applied_to(Topology.empty())


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(keys_of(WHOLE)), st.randoms(use_true_random=False))
def test_a_key_that_is_misspelt_by_one_letter_is_refused(path: tuple[Any, ...], chance: random.Random) -> None:
    document = copy.deepcopy(WHOLE)
    inner: Any = document
    for step in path[:-1]:
        inner = inner[step]
    key, at = path[-1], chance.randrange(len(path[-1]))
    letter = chance.choice("abcxyz-_")
    wrong = chance.choice(
        [
            key[:at] + letter + key[at:],
            key[:at] + key[at + 1 :],
            key[:at] + letter + key[at + 1 :],
            key[:at] + key[at:][1::-1] + key[at + 2 :],
        ]
    )
    assume(wrong not in inner and wrong not in {name for _, name in KNOWN})
    inner[wrong] = inner.pop(key)
    if key == "x-match":
        assume(inner.get(wrong) != "any-with-x" or not wrong.startswith("x-") or "x-match" not in inner)
    with pytest.raises(DefinitionsRefused) as refused:
        read_change([read(json.dumps(document))], "/").applied_to(Topology.empty())
    assert any(wrong in one["message"] for one in refused.value.problems)


def test_headers_of_any_name_are_criteria_of_a_headers_exchange() -> None:
    def bound(source: str, arguments: dict[str, Any]) -> Topology:
        binding = {"source": source, "destination": "q", "arguments": arguments}
        text = json.dumps({"queues": [{"name": "q"}], "bindings": [binding]})
        return read_change([read(text)], "/").applied_to(Topology.empty())

    for arguments in (
        {"x-match": "all-with-x", "x-device": "d", "x-filter": "f", "x-matc": 1},
        {"x-match": "any-with-x", "x-stream-partition-order": 1},
        {"x-match": "any", "match": "m", "filters": 1, "filter-jms": "s"},
    ):
        assert bound("amq.headers", arguments).bindings
    for source, arguments in (
        ("amq.headers", {"x-match": "any", "x-device": "d"}),
        ("amq.headers", {"x-device": "d"}),
        ("amq.headers", {"x-match": "all-with-x", "x-filter-jms-selectr": "a = 1"}),
        ("amq.headers", {"x-match": "all-with-x", "x-filter": {"f": {"descriptor": "d", "value": 1}}}),
        ("amq.headers", {"filter-jms-selector": "a = 1"}),
        ("amq.topic", {"x-device": "d"}),
    ):
        with pytest.raises(DefinitionsRefused, match="unknown argument"):
            bound(source, arguments)


# -- what brokers export --------------------------------------------------------------------------------

RABBITMQ = {
    "rabbit_version": "4.1.0",
    "rabbitmq_version": "4.1.0",
    "product_name": "RabbitMQ",
    "product_version": "4.1.0",
    "rabbitmq_definition_format": "cluster",
    "original_cluster_name": "rabbit@h",
    "explanation": "Definitions of cluster",
    "users": [
        {
            "name": "guest",
            "password_hash": "h",
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["administrator"],
            "limits": {},
        }
    ],
    "vhosts": [
        {
            "name": "/",
            "description": "Default virtual host",
            "metadata": {
                "description": "Default virtual host",
                "tags": [],
                "default_queue_type": "classic",
                "protected_from_deletion": True,
            },
            "tags": [],
            "default_queue_type": "classic",
            "limits": {"max-queues": 5},
        }
    ],
    "permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
    "topic_permissions": [],
    "parameters": [],
    "global_parameters": [{"name": "cluster_tags", "value": []}, {"name": "internal_cluster_id", "value": "i"}],
    "policies": [
        {
            "vhost": "/",
            "name": "p",
            "pattern": "",
            "apply-to": "queues",
            "definition": {"max-length": 5, "delayed-retry-max": 5},
            "priority": 0,
        }
    ],
    "queues": [
        {
            "name": "q",
            "vhost": "/",
            "type": "quorum",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": "quorum", "x-max-priority": 5},
        }
    ],
    "exchanges": [
        {
            "name": "s",
            "vhost": "/",
            "type": "direct",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {"x-super-stream": True},
        }
    ],
    "bindings": [
        {
            "source": "s",
            "vhost": "/",
            "destination": "q",
            "destination_type": "queue",
            "routing_key": "0",
            "arguments": {"x-stream-partition-order": 0},
            "properties_key": "0~",
        }
    ],
}


def test_what_rabbitmq_exports_is_accepted_and_what_comes_of_nothing_is_said() -> None:
    change = read_change([read(json.dumps(RABBITMQ))], "/")
    report = change.carry_out(TopologyEditor(Topology.empty()))
    assert {one["path"] for one in change.ignored} == {
        "rabbit_version",
        "rabbitmq_version",
        "product_name",
        "product_version",
        "original_cluster_name",
        "explanation",
        "users",
        "permissions",
        "vhosts[0].limits",
        "vhosts[0].metadata.protected_from_deletion",
        "queues[0].type",
        "bindings[0].properties_key",
    }
    idle = {name for one in report.without_effect for name in one["names"]}
    assert idle >= {"x-queue-type", "x-max-priority", "x-super-stream", "x-stream-partition-order", "delayed-retry-max"}


# -- anything -------------------------------------------------------------------------------------------

CHANGE: dict[str, Any] = {
    "delete": {
        "queues": ["q"],
        "bindings": [1, {"source": "x", "destination": "q", "arguments": {"a": 1}}],
        "vhosts": [],
    },
    "definitions": WHOLE,
    "replace": False,
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["", "x", "vhosts", "/"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "vhost", "x"]), inner),
    max_leaves=4,
)


def places_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(one for key, content in inner for one in places_of(content, (*path, key)))]


@settings(max_examples=300, deadline=None)
@given(st.data(), ANYTHING, st.sampled_from([json.dumps, yaml.safe_dump]))
def test_whatever_stands_in_a_document_it_is_applied_or_refused_with_a_place(
    data: st.DataObject, content: Any, written: Any
) -> None:
    document = copy.deepcopy({"top": data.draw(st.sampled_from([WHOLE, CHANGE]))})
    path = ("top", *data.draw(st.sampled_from(places_of(document["top"]))))
    inner: Any = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = content
    try:
        read_change([read(written(document["top"]))], "/").applied_to(Topology.empty())
    except DefinitionsRefused as error:
        assert all(one["line"] >= 1 and one["column"] >= 1 and one["message"] for one in error.problems)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=30) | st.text("a:- \n[]{}&*!'\"#,?|>%@`\\", max_size=30).map(str.encode))
def test_whatever_the_bytes_are_they_are_read_or_refused(raw: bytes) -> None:
    try:
        assert isinstance(read_source("f", raw).value, dict)
    except DefinitionsRefused as error:
        assert error.problems
