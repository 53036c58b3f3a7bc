from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.arguments import decode_arguments, encode_arguments
from bindery.router.declarations import TopologyEditor
from bindery.router.definitions import Report, apply, check, export, parse_definitions, read_definitions
from bindery.router.documents import read_source
from bindery.router.errors import DefinitionsRefused, InvalidInput
from bindery.router.model import NO_QUEUE_ID, Binding, Divert, Exchange, Queue, Setting, Topology, Vhost
from bindery.router.values import Table
from tests.unit.strategies import tables

CLUSTER: dict[str, Any] = {
    "rabbit_version": "4.2.0",
    "users": [{"name": "u", "password_hash": "h", "tags": "administrator,management"}],
    "vhosts": [{"name": "/"}, {"name": "v", "description": "d", "tags": "a, b", "metadata": {"tracing": True}}],
    "permissions": [{"user": "u", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
    "topic_permissions": [{"user": "u", "vhost": "/", "exchange": "x", "write": "", "read": ""}],
    "parameters": [
        {"component": "federation", "vhost": "/", "name": "f", "value": {"uri": "amqp://"}},
        {
            "component": "operator_policy",
            "vhost": "/",
            "name": "o",
            "value": {"pattern": "", "definition": {"max-length": 1}, "apply-to": "queues"},
        },
    ],
    "global_parameters": [{"name": "cluster_name", "value": "c"}],
    "policies": [
        {"vhost": "/", "name": "p", "pattern": "^x", "apply-to": "exchanges", "definition": {"a": 1}, "priority": 2}
    ],
    "queues": [{"vhost": "/", "name": "q", "durable": True, "auto_delete": False, "arguments": [], "ignored": 1}],
    "exchanges": [
        {
            "vhost": "/",
            "name": "x",
            "type": "topic",
            "durable": "true",
            "arguments": {"alternate-exchange": "amq.fanout"},
        },
        {"vhost": "v", "name": "y", "type": "headers", "internal": True, "durable": False},
    ],
    "bindings": [
        {"vhost": "/", "source": "x", "destination": "q", "destination_type": "queue", "routing_key": "a.#"},
        {"vhost": "/", "source": "x", "destination": "amq.topic", "destination_type": "exchange", "routing_key": None},
        {"vhost": "/", "source": "", "destination": "q", "destination_type": "queue", "routing_key": "q"},
    ],
    "bindery_diverts": [{"vhost": "/", "name": "d", "source": "x", "destination": "amq.fanout", "filter": "a = 1"}],
}


def loaded(document: Any, base: Topology | None = None, **options: Any) -> tuple[Topology, Report]:
    editor = TopologyEditor(base or Topology.empty())
    report = apply(parse_definitions(document), editor, **options)
    return editor.topology, report


def with_change(path: str, value: Any) -> dict[str, Any]:
    """The document with one value replaced; `path` is like bindings.0.source."""
    document = json.loads(json.dumps(CLUSTER))
    *steps, last = (int(step) if step.isdecimal() else step for step in path.split("."))
    place = document
    for step in steps:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return document


# -- reading --------------------------------------------------------------------------------------------


def test_a_cluster_document_declares_everything_in_it() -> None:
    topology, report = loaded(CLUSTER)
    assert topology.vhosts["v"] == Vhost("v", "d", ("a", "b"), tracing=True)
    assert topology.exchanges["/", "x"].arguments == Table({"alternate-exchange": "amq.fanout"})
    assert topology.exchanges["v", "y"] == Exchange("v", "y", "headers", durable=False, internal=True)
    assert topology.queues["/", "q"] == Queue("/", "q", id=1)
    assert [b.routing_key for b in topology.bindings.values()] == ["a.#", ""]
    assert topology.diverts["/", "d"].filter == "a = 1"
    assert topology.settings["policy", "/", "p"].value["priority"] == 2  # type: ignore[index, call-overload]
    assert topology.settings["global-parameter", "", "cluster_name"].value == "c"
    assert topology.settings["parameter:federation", "/", "f"].value == Table({"uri": "amqp://"})
    assert ("operator-policy", "/", "o") in topology.settings
    assert report.created == {
        "vhost": 1,
        "exchange": 2,
        "queue": 1,
        "binding": 2,
        "divert": 1,
        "policy": 1,
        "operator-policy": 1,
        "parameter": 1,
        "global-parameter": 1,
    }
    assert report.unchanged == {"vhost": 1, "binding": 1}


def test_users_and_permissions_are_handed_through() -> None:
    definitions = parse_definitions(CLUSTER)
    assert definitions.users[0]["tags"] == "administrator,management"
    assert definitions.permissions[0]["configure"] == ".*"
    assert definitions.topic_permissions[0]["exchange"] == "x"


def test_a_byte_order_mark_is_skipped_and_a_partial_or_empty_document_is_fine() -> None:
    raw = b"\xef\xbb\xbf" + json.dumps({"queues": CLUSTER["queues"]}).encode()
    assert loaded(read_source("f", raw).value)[0].queues.keys() == {("/", "q")}
    assert loaded(read_source("f", "\ufeff{}".encode()).value)[1].created == {}


def test_with_a_vhost_everything_goes_there_whatever_the_objects_state() -> None:
    document = {
        "rabbitmq_definition_format": "single_virtual_host",
        "queues": [{"name": "q"}],
        "bindings": [{"source": "amq.direct", "destination": "q", "vhost": "/"}],
    }
    with pytest.raises(InvalidInput, match="single vhost"):
        parse_definitions(document)
    editor = TopologyEditor(Topology.of([Vhost("v")]))
    apply(parse_definitions(document, vhost="v"), editor)
    assert [binding.vhost for binding in editor.topology.bindings.values()] == ["v"]


@pytest.mark.parametrize(
    ("arguments", "beside"),
    [
        ({"alternateBinding": {"destination": "q", "attributes": {}}, "unroutableMessageBehaviour": "REJECT"}, {}),
        ({}, {"alternateBinding": {"destination": "q"}, "unroutableMessageBehaviour": "REJECT"}),
        ({"alternate-binding": {"destination": "q"}, "unroutable-message-behaviour": "REJECT"}, {}),
    ],
)
def test_qpid_spellings_of_exchange_attributes_are_understood(
    arguments: dict[str, Any], beside: dict[str, Any]
) -> None:
    document = {"exchanges": [{"vhost": "/", "name": "x", "type": "direct", "arguments": arguments, **beside}]}
    exchange = loaded(document)[0].exchanges["/", "x"]
    assert exchange.alternate_binding == "q"
    assert exchange.rejects_unroutable
    assert len(exchange.arguments) == 2


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("bindings.1.source", ..., "bindings[1].source"),
        ("bindings.1.source", 5, "bindings[1].source"),
        ("bindings.0.destination_type", "topic", "bindings[0].destination_type"),
        ("bindings.0.arguments", "x", "bindings[0].arguments"),
        ("bindings.0.arguments", {"t": {"timestamp": "x"}}, "bindings[0].arguments.t"),
        ("queues.0.vhost", ..., "queues[0].vhost"),
        ("queues.0.name", None, "queues[0].name"),
        ("queues.0.durable", "maybe", "queues[0].durable"),
        ("exchanges.1.type", ..., "exchanges[1].type"),
        ("policies.0.name", ..., "policies[0].name"),
        ("policies.0.priority", "high", "policies[0].priority"),
        ("policies.0.apply-to", "nobody", "policies[0]"),
        ("parameters.0.value", ..., "parameters[0].value"),
        ("vhosts.1.tags", 7, "vhosts[1].tags"),
        ("queues", {"a": 1}, "queues"),
        ("queues.0", "q", "queues[0]"),
        ("bindery_diverts.0.exclusive", "x", "bindery_diverts[0].exclusive"),
    ],
)
def test_what_is_wrong_is_named_by_path_and_line(path: str, value: Any, where: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_definitions(with_change(path, value))
    assert str(refused.value.where).startswith(where)
    _, problems, _ = read_definitions(read_source("f", json.dumps(with_change(path, value), indent=1).encode()))
    assert any(problem["path"].startswith(where) and problem["line"] > 1 for problem in problems)


SELECTOR = {"x-filter-jms-selector": "price >"}


@pytest.mark.parametrize(
    ("section", "item", "messages"),
    [
        (
            "bindings",
            {"source": "amq.direct", "destination": "q", "ruoting_key": "k", "arguments": SELECTOR},
            ["unknown key 'ruoting_key'", "the filter ends too early"],
        ),
        (
            "bindings",
            {"soruce": "amq.direct", "destination": "q", "arguments": SELECTOR},
            ["source is missing", "unknown key 'soruce'", "the filter ends too early"],
        ),
        (
            "bindings",
            {"source": "nowhere", "destination": "q", "arguments": SELECTOR},
            ["no exchange 'nowhere' in vhost '/'", "the filter ends too early"],
        ),
        (
            "queues",
            {"nmae": "a", "arguments": {"x-queue-filter": "a ="}},
            ["name is missing", "unknown key", "the f"],
        ),
        ("bindery_diverts", {"nmae": "d", "filter": "a ="}, ["name is missing", "unknown key", "the filter ends"]),
        # what bodies are is said by an exchange that nobody knows
        (
            "bindings",
            {"soruce": "e", "destination": "q", "arguments": {"x-filter-jms-selector": "body.a = 1"}},
            ["source is missing", "unknown key 'soruce'"],
        ),
        (
            "bindings",
            {"soruce": "e", "destination": "q", "arguments": []},
            ["source is missing", "unknown key 'soruce'"],
        ),
    ],
)
def test_what_is_wrong_with_an_object_and_with_its_filter_is_told_at_once(
    section: str, item: dict[str, Any], messages: list[str]
) -> None:
    document = {"exchanges": [], "queues": [{"name": "q"}]}
    document[section] = [*document.get(section, []), item]
    source = read_source("f", json.dumps(document, indent=1).encode())
    definitions, problems, _ = read_definitions(source, default_vhost="/")
    with pytest.raises(DefinitionsRefused) as refused:
        apply(definitions, TopologyEditor(Topology.empty()), problems=problems)
    found = refused.value.problems
    assert [one["message"][: len(said)] for one, said in zip(found, messages, strict=True)] == messages
    for one in found:
        if "filter" in one:
            line = source.text_of(one["line"])
            assert line[one["column"] - 1 :].startswith('"'), "not at the end of the filter"


@pytest.mark.parametrize("text", ["{", "[]", "5", '{"a": 1,}', "[" * 100_000, b"\xff\xfe", '"x"'])
def test_what_is_no_json_object_is_refused(text: str | bytes) -> None:
    with pytest.raises(DefinitionsRefused):
        read_source("f", text.encode() if isinstance(text, str) else text)
    with pytest.raises(InvalidInput):
        parse_definitions(text)


def test_a_missing_durable_means_true_unless_it_is_required() -> None:
    document = {"queues": [{"vhost": "/", "name": "q"}]}
    assert loaded(document)[0].queues["/", "q"].durable
    with pytest.raises(InvalidInput, match="durable is missing"):
        parse_definitions(document, require_durable=True)


def test_a_null_argument_is_a_void_one() -> None:
    document = with_change("bindings.0.arguments", {"h": None})
    assert loaded(document)[0].bindings[2 - 1].arguments == Table({"h": None})


# -- filter sets among the arguments --------------------------------------------------------------------


def test_a_reference_map_with_one_key_that_names_a_type_stays_a_map() -> None:
    filters = {"f": {"descriptor": "amqp:application-properties-filter", "value": {"symbol": "IBM"}}}
    arguments = decode_arguments({"x-filters": filters, "s": {"symbol": "IBM"}})
    assert arguments["s"] == "IBM"
    assert encode_arguments(arguments) == {"x-filters": filters, "s": "IBM"}
    single = {"list": {"descriptor": "amqp:properties-filter", "value": {"to": {"symbol": "x"}}}}
    assert encode_arguments(decode_arguments({"x-queue-filter": single})) == {"x-queue-filter": single}


def test_a_malformed_filter_set_is_refused_when_it_is_bound() -> None:
    filters = {"f": {"descriptor": "amqp:properties-filter", "value": {"nope": "x"}}}
    report = check(parse_definitions(with_change("bindings.0.arguments", {"x-filters": filters})), Topology.empty())
    assert [(error["path"], error["code"]) for error in report.errors] == [("bindings[0]", "invalid_filter")]


# -- applying -------------------------------------------------------------------------------------------


def test_importing_twice_changes_nothing() -> None:
    topology, _ = loaded(CLUSTER)
    editor = TopologyEditor(topology)
    report = apply(parse_definitions(CLUSTER), editor)
    assert (report.created, report.updated, editor.changes) == ({}, {}, {})


def test_a_conflict_refuses_the_import_and_reports_both_values() -> None:
    topology, _ = loaded(CLUSTER)
    document = with_change("exchanges.0.type", "direct")
    document["queues"][0]["arguments"] = {"x-max-length": 5}
    document["queues"].append({"vhost": "/", "name": "new"})
    text = json.dumps(document, indent=1)
    definitions, _, _ = read_definitions(read_source("f", text.encode()))
    with pytest.raises(DefinitionsRefused, match="nothing was changed") as refused:
        apply(definitions, TopologyEditor(topology))
    conflicts = {one["path"]: one for one in refused.value.report["conflicts"]}  # type: ignore[attr-defined]
    assert conflicts["exchanges[0]"]["differences"] == {"type": {"current": "topic", "given": "direct"}}
    assert conflicts["queues[0]"]["differences"] == {"arguments.x-max-length": {"current": None, "given": 5}}
    assert text.splitlines()[conflicts["queues[0]"]["line"] - 1].strip() == '"x-max-length": 5'
    assert check(definitions, topology).as_data() == refused.value.report
    assert ("/", "new") not in topology.queues


def test_overwrite_replaces_what_exists_and_keeps_ids() -> None:
    topology, _ = loaded(CLUSTER)
    document = with_change("exchanges.0.type", "direct")
    document["bindery_diverts"][0]["exclusive"] = True
    document["queues"][0]["arguments"] = {"x-max-length": 5}
    after, report = loaded(document, topology, overwrite=True)
    assert report.updated == {"exchange": 1, "queue": 1, "divert": 1}
    assert after.exchanges["/", "x"].type == "direct"
    assert after.diverts["/", "d"] == Divert(
        topology.diverts["/", "d"].id, "/", "d", "x", "amq.fanout", "a = 1", exclusive=True
    )
    assert after.bindings == topology.bindings


def test_policies_parameters_and_vhost_metadata_are_replaced() -> None:
    topology, _ = loaded(CLUSTER)
    document = with_change("policies.0.priority", 9)
    document["vhosts"][1]["description"] = "other"
    after, report = loaded(document, topology)
    assert report.updated == {"vhost": 1, "policy": 1}
    assert after.vhosts["v"].description == "other"
    bare, report = loaded({"vhosts": [{"name": "v"}]}, after)
    assert (bare.vhosts["v"].description, report.updated) == ("other", {})


def test_every_error_is_reported_with_its_path() -> None:
    document = with_change("bindings.0.source", "none")
    document["exchanges"].append({"vhost": "/", "name": "z", "type": "nonsense"})
    document["queues"].append({"vhost": "none", "name": "z"})
    document["bindery_diverts"][0]["filter"] = "a ="
    report = check(parse_definitions(document), Topology.empty())
    assert [(error["path"], error["code"]) for error in report.errors] == [
        ("exchanges[2]", "precondition_failed"),
        ("queues[1]", "not_found"),
        ("bindings[0]", "not_found"),
        ("bindery_diverts[0]", "invalid_filter"),
    ]


def test_dangling_bindings_can_be_skipped() -> None:
    document = with_change("bindings.0.source", "none")
    topology, report = loaded(document, skip_dangling=True)
    assert [one["path"] for one in report.skipped] == ["bindings[0]"]
    assert [binding.destination for binding in topology.bindings.values()] == ["amq.topic"]


# -- exporting ------------------------------------------------------------------------------------------


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    editor = TopologyEditor(Topology.empty())
    editor.declare_vhost(Vhost("v", draw(st.text(max_size=3)), draw(st.sampled_from([(), ("t",)]))))
    for name in draw(st.lists(st.sampled_from("abc"), unique=True)):
        editor.declare_queue(Queue("v", name, draw(st.booleans()), draw(st.booleans()), draw(tables)))
        kind = draw(st.sampled_from(["direct", "fanout", "headers"]))
        flags = [draw(st.booleans()) for _ in range(3)]
        editor.declare_exchange(Exchange("v", name, kind, *flags, draw(tables)))
        for _ in range(draw(st.integers(0, 2))):
            editor.bind(Binding(0, "v", name, name, "queue", draw(st.text(max_size=2)), draw(tables)))
        editor.declare_divert(
            Divert(0, "v", name, name, "amq.topic", "", draw(st.booleans()), draw(st.none() | st.just("")))
        )
        editor.put_setting(Setting("parameter:c", "v", name, draw(tables)))
    return editor.topology


def without_ids(topology: Topology) -> set[Any]:
    return {
        (b.identity if isinstance(b, Binding) else (b.vhost, b.name, b.source, b.filter, b.exclusive, b.routing_key))
        for b in (*topology.bindings.values(), *topology.diverts.values())
    } | {topology.next_id}


def _plain(objects: dict[Any, Any]) -> dict[Any, Any]:
    """Objects, queues without the ids that are given in the order of declaration."""
    return {key: replace(item, id=NO_QUEUE_ID) if isinstance(item, Queue) else item for key, item in objects.items()}


@settings(max_examples=40, deadline=None)
@given(topology=topologies())
def test_an_exported_topology_imports_as_itself(topology: Topology) -> None:
    again, _ = loaded(json.loads(json.dumps(export(topology))))
    for part in ("vhosts", "exchanges", "queues", "settings"):
        assert _plain(getattr(again, part)) == _plain(getattr(topology, part))
    assert again.next_queue_id == topology.next_queue_id
    assert without_ids(again) == without_ids(topology)
    editor = TopologyEditor(Topology.of([topology.vhosts["v"]]))
    apply(parse_definitions(export(topology, vhost="v"), vhost="v"), editor)
    assert without_ids(editor.topology) == without_ids(topology)


def test_an_export_has_every_list_and_no_predeclared_object() -> None:
    document = export(loaded(CLUSTER)[0])
    assert [exchange["name"] for exchange in document["exchanges"]] == ["x", "y"]
    assert {"vhosts", "queues", "bindings", "policies", "parameters", "global_parameters"} <= document.keys()
    single = export(loaded(CLUSTER)[0], vhost="/")
    assert not any("vhost" in entry for key in ("queues", "exchanges", "bindings", "policies") for entry in single[key])
    assert "vhosts" not in single
