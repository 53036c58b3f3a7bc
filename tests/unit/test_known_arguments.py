"""Arguments and policy keys: what has no effect is said, and the documentation is the description in code."""

from __future__ import annotations

from pathlib import Path

import pytest

from bindery.api.arguments import QUEUE_ARGUMENTS
from bindery.router.analysis import analyse
from bindery.router.declarations import TopologyEditor
from bindery.router.definitions import check, parse_definitions
from bindery.router.known_arguments import KINDS, KNOWN, without_effect
from bindery.router.model import Exchange, Object, Queue, Setting, Topology, Vhost
from bindery.router.policies import OPERATOR_POLICY, Policy
from bindery.router.values import Table

PAGE = Path(__file__).parents[2] / "docs" / "arguments.md"


def queue(**arguments: object) -> Queue:
    return Queue("/", "q", arguments=Table({name.replace("_", "-"): value for name, value in arguments.items()}))  # type: ignore[misc]


def policy(apply_to: str = "all", *, kind: str = "policy", **definition: object) -> Setting:
    keys = Table({name.replace("_", "-"): value for name, value in definition.items()})  # type: ignore[misc]
    return Policy("/", "p", "", keys, apply_to).setting(kind)


@pytest.mark.parametrize(
    ("item", "names"),
    [
        (queue(x_message_ttl=60_000, x_queue_filter="a = 1", x_max_length=10), []),
        (queue(x_overflow="reject-publish", x_max_length=1), ["x-overflow", "x-max-length"]),
        (queue(x_owner_connection="c"), []),
        (queue(x_queue_type="classic", x_queue_mode="lazy", x_single_active_consumer=False), []),
        (queue(x_queue_type="stream"), ["x-queue-type"]),
        (queue(x_queue_type="quorum", x_single_active_consumer=True), ["x-queue-type", "x-single-active-consumer"]),
        (queue(x_queue_fliter="a = 1"), ["x-queue-fliter"]),
        (Exchange("/", "x", "direct", arguments=Table({"alternate-exchange": "y", "hash-header": 1})), ["hash-header"]),
        (Exchange("/", "x", "x-consistent-hash", arguments=Table({"hash-header": "h"})), []),
        (policy(message_ttl=1, delivery_limit=1, alternate_exchange="y"), ["delivery-limit"]),
        (policy("exchanges", max_length=1, alternate_exchange="y"), ["max-length"]),
        (policy("streams", max_length=1, payload="text"), ["max-length", "payload"]),
        (policy("streams", journal=True, max_age="7D", max_length_bytes=1 << 30, max_length=1), ["max-length"]),
        (policy("streams", journal=False, max_age="7D"), ["max-age"]),
        (policy("streams", kind=OPERATOR_POLICY, journal=True, max_age="7D"), ["journal", "max-age"]),
        (policy("queues", max_age="7D", max_length_bytes=1 << 30), ["max-age"]),
        (policy("queues", max_length=1, alternate_exchange="y"), ["alternate-exchange"]),
        (policy("exchanges", alternate_exchange="y"), []),
        (policy(kind=OPERATOR_POLICY, max_length=1, alternate_exchange="y"), ["alternate-exchange"]),
        (policy(ha_mode="all", no_such_key=1), ["ha-mode", "no-such-key"]),
        (Setting("parameter:shovel", "/", "s", Table()), ["shovel"]),
        (Setting("parameter:federation-upstream", "/", "s", Table({"uri": "amqp://"})), ["federation-upstream"]),
        (Setting("parameter:of-no-plugin", "/", "s", 5), ["of-no-plugin"]),
        (Setting("parameter:vhost-protection", "/", "deletion", True), []),
        (Setting("parameter:vhost-limits", "/", "limits", Table({"max-queues": 1})), []),
        (Setting("parameter:vhost-limits", "/", "limits", Table({"max-connections": 1})), ["max-connections"]),
        (Setting("parameter:vhost-limits", "/", "limits", Table({"max-connections": -1})), []),
        (Setting("global-parameter", "", "cluster_name", "c"), []),
        (Vhost("v", "text", ("tag",)), []),
        (Vhost("v", default_queue_type="classic"), []),
        (Vhost("v", default_queue_type="quorum", tracing=True), ["default_queue_type", "tracing"]),
    ],
)  # fmt: skip
def test_what_nothing_acts_on_is_named(item: Object, names: list[str]) -> None:
    assert list(without_effect(item)) == names


DOCUMENT = {
    "vhosts": [{"name": "/", "default_queue_type": "stream"}],
    "exchanges": [{"vhost": "/", "name": "x", "type": "fanout", "arguments": {"hash-header": "h"}}],
    "queues": [
        {"vhost": "/", "name": "plain", "arguments": {"x-queue-type": "classic"}},
        {"vhost": "/", "name": "q", "arguments": {"x-max-priority": 5, "x-queue-filter": "a = 1"}},
    ],
    "policies": [
        {"vhost": "/", "name": "ttl", "pattern": "", "apply-to": "queues", "definition": {"delivery-limit": 1}}
    ],
    "parameters": [
        {
            "vhost": "/",
            "component": "operator_policy",
            "name": "limit",
            "value": {"pattern": "", "definition": {"delivery-limit": 1}},
        },
        {"vhost": "/", "component": "shovel", "name": "s", "value": {"src-uri": "amqp://"}},
        {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 9, "max-connections": 1}},
    ],
}


def test_the_report_of_an_import_names_what_has_no_effect() -> None:
    report = check(parse_definitions(DOCUMENT), Topology.empty()).as_data()
    found = [(entry["path"], entry["kind"], entry["name"], list(entry["names"])) for entry in report["without_effect"]]
    assert found == [
        ("vhosts[0]", "vhost", "", ["default_queue_type"]),
        ("policies[0]", "policy", "ttl", ["delivery-limit"]),
        ("exchanges[0]", "exchange", "x", ["hash-header"]),
        ("queues[1]", "queue", "q", ["x-max-priority"]),
        ("parameters[0]", "operator-policy", "limit", ["delivery-limit"]),
        ("parameters[1]", "parameter", "s", ["shovel"]),
        ("parameters[2]", "parameter", "limits", ["max-connections"]),
    ]
    assert not report["errors"]


def test_what_is_refused_is_not_reported_as_without_effect() -> None:
    document = {"queues": [{"vhost": "/", "name": "amq.q", "arguments": {"x-max-priority": 1}}]}
    assert check(parse_definitions(document), Topology.empty()).without_effect == []


def test_topology_lint_finds_what_has_no_effect() -> None:
    editor = TopologyEditor(Topology.empty())
    for entry in parse_definitions(DOCUMENT).entries:
        item = entry.item
        if isinstance(item, Exchange):
            editor.declare_exchange(item)
        elif isinstance(item, Queue):
            editor.declare_queue(item)
        elif isinstance(item, Setting):
            editor.put_setting(item)
        elif isinstance(item, Vhost):
            editor.declare_vhost(item)
    found = [item for item in analyse(editor.topology).findings if item.code in ("BT180", "BT181")]
    assert {(item.code, item.subject.kind, item.subject.name) for item in found} == {
        ("BT180", "exchange", "x"),
        ("BT180", "queue", "q"),
        ("BT181", "policy", "ttl"),
        ("BT181", "operator-policy", "limit"),
        ("BT181", "parameter:shovel", "s"),
        ("BT181", "parameter:vhost-limits", "limits"),
        ("BT181", "vhost", "/"),
    }
    assert any("'x-max-priority': messages are kept" in item.message for item in found)


def test_every_queue_argument_whose_type_is_checked_is_described() -> None:
    assert {("queue", name) for name in QUEUE_ARGUMENTS} <= KNOWN.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_the_documentation_is_the_description_in_code(kind: str) -> None:
    section = PAGE.read_text("utf-8").split(f'<a id="{kind}"></a>')[1].split("<a id=")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows == [item.as_row() for item in KNOWN.values() if item.kind == kind]
