"""Change documents: everything that can be declared can be deleted, alone, with others, or by not being named."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from bindery.router.declarations import TopologyEditor
from bindery.router.definitions import export, protection_key
from bindery.router.documents import read_source
from bindery.router.errors import DefinitionsRefused, InvalidInput, NotFound
from bindery.router.limits import LIMITS_KIND, LIMITS_NAME
from bindery.router.model import Setting, Topology
from bindery.router.model.objects import PREDECLARED
from bindery.router.proposal import Change, propose, read_change
from bindery.router.values import Table

DEFINITIONS: dict[str, Any] = {
    "vhosts": [{"name": "/"}, {"name": "v"}],
    "exchanges": [
        {"vhost": "/", "name": "x", "type": "topic"},
        {"vhost": "/", "name": "auto", "type": "fanout", "auto_delete": True},
        {"vhost": "v", "name": "x", "type": "topic"},
    ],
    "queues": [{"vhost": "/", "name": "q"}, {"vhost": "/", "name": "r"}, {"vhost": "v", "name": "q"}],
    "bindings": [
        {"vhost": "/", "source": "x", "destination": "q", "routing_key": "a"},
        {
            "vhost": "/",
            "source": "x",
            "destination": "q",
            "routing_key": "b",
            "arguments": {"x-filter-jms-selector": "c = 1"},
        },
        {"vhost": "/", "source": "auto", "destination": "r"},
        {"vhost": "v", "source": "x", "destination": "q", "routing_key": "a"},
    ],
    "bindery_diverts": [{"vhost": "/", "name": "d", "source": "x", "destination": "amq.fanout"}],
    "policies": [{"vhost": "/", "name": "p", "pattern": "", "definition": {"max-length": 5}}],
    "parameters": [
        {
            "vhost": "/",
            "component": "operator_policy",
            "name": "o",
            "value": {"pattern": "", "definition": {"expires": 5}},
        },
        {"vhost": "/", "component": "shovel", "name": "s", "value": {}},
        {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 9, "max-connections": 5}},
    ],
    "global_parameters": [{"name": "g", "value": 1}],
}


def change_of(*documents: Any, vhost: str = "/", **options: Any) -> Change:
    sources = [read_source(f"f{n}", json.dumps(document).encode()) for n, document in enumerate(documents)]
    return read_change(sources, vhost, **options)


@pytest.fixture
def base() -> Topology:
    return change_of(DEFINITIONS).applied_to(Topology.empty())


def keys(topology: Topology) -> set[tuple[str, ...]]:
    """What there is, bindings by their ends."""
    bindings = {("binding", b.vhost, b.source, b.destination, b.routing_key) for b in topology.bindings.values()}
    others = {
        *(("vhost", name) for name in topology.vhosts),
        *(("exchange", *key) for key in topology.exchanges),
        *(("queue", *key) for key in topology.queues),
        *(("divert", *key) for key in topology.diverts),
        *topology.settings,
    }
    return bindings | others


X_Q = {"source": "x", "destination": "q"}


@pytest.mark.parametrize(
    ("delete", "gone"),
    [
        ({"bindings": [1]}, {("binding", "/", "x", "q", "a")}),
        ({"bindings": [X_Q | {"routing_key": "a"}]}, {("binding", "/", "x", "q", "a")}),
        (
            {"bindings": [X_Q | {"routing_key": "b", "arguments": {"x-filter-jms-selector": "c = 1"}}]},
            {("binding", "/", "x", "q", "b")},
        ),
        ({"bindings": [X_Q | {"vhost": "v", "routing_key": "a"}]}, {("binding", "v", "x", "q", "a")}),
        ({"queues": ["q"]}, {("queue", "/", "q"), ("binding", "/", "x", "q", "a"), ("binding", "/", "x", "q", "b")}),
        ({"queues": [{"vhost": "v", "name": "q"}]}, {("queue", "v", "q"), ("binding", "v", "x", "q", "a")}),
        ({"queues": ["r"]}, {("queue", "/", "r"), ("exchange", "/", "auto"), ("binding", "/", "auto", "r", "")}),
        (
            {"queues": ["r"], "exchanges": ["auto"], "bindings": [3]},
            {("queue", "/", "r"), ("exchange", "/", "auto"), ("binding", "/", "auto", "r", "")},
        ),
        ({"exchanges": ["auto"]}, {("exchange", "/", "auto"), ("binding", "/", "auto", "r", "")}),
        ({"diverts": ["d"]}, {("divert", "/", "d")}),
        ({"policies": ["p"]}, {("policy", "/", "p")}),
        ({"operator_policies": ["o"]}, {("operator-policy", "/", "o")}),
        ({"parameters": [{"component": "shovel", "name": "s"}]}, {("parameter:shovel", "/", "s")}),
        ({"global_parameters": ["g"]}, {("global-parameter", "", "g")}),
        ({"vhosts": ["v"]}, {("vhost", "v"), ("queue", "v", "q"), ("binding", "v", "x", "q", "a")}),
    ],
)
@pytest.mark.parametrize("written", [json.dumps, yaml.safe_dump])
def test_every_kind_can_be_deleted(base: Topology, delete: dict[str, Any], gone: set[Any], written: Any) -> None:
    source = read_source("f", written({"delete": delete}).encode())
    for after in (
        read_change([source], "/").applied_to(base),
        propose(base, "/", {"delete": delete}),
    ):
        went = keys(base) - keys(after)
        if "vhosts" in delete:
            went = {key for key in went if key[0] != "exchange"}
        assert went == gone
        assert keys(after) <= keys(base)


def test_a_limit_can_be_deleted_and_the_others_stay(base: Topology) -> None:
    after = change_of({"delete": {"limits": ["max-connections"]}}).applied_to(base)
    assert after.settings[LIMITS_KIND, "/", LIMITS_NAME].value == Table({"max-queues": 9})


@pytest.mark.parametrize(
    ("delete", "says"),
    [
        ({"queues": ["none"]}, "no queue 'none' in vhost '/'"),
        ({"bindings": [4]}, "no binding with id 4"),
        ({"bindings": [X_Q]}, "no such binding of 'x' to queue 'q'"),
        ({"bindings": [{"source": "", "destination": "q", "routing_key": "q"}]}, "no such binding"),
        ({"bindings": ["x"]}, "expected an id or an object"),
        ({"queues": [5]}, "expected a name"),
        ({"queues": [{"nam": "q"}]}, "unknown key 'nam'"),
        ({"queue": ["q"]}, "unknown key 'queue'"),
        ({"queues": "q"}, "expected an array"),
        ({"exchanges": ["amq.topic"]}, "cannot be deleted"),
        ({"exchanges": [""]}, "cannot be deleted"),
        ({"parameters": ["s"]}, "expected an object"),
        ({"limits": ["max-channels"]}, "no limit 'max-channels'"),
        ({"vhosts": ["none"]}, "no vhost 'none'"),
        ({"policies": [{"vhost": "v", "name": "p"}]}, "no policy 'p' in vhost 'v'"),
    ],
)
def test_what_cannot_be_deleted_is_refused(base: Topology, delete: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionsRefused) as refused:
        change_of({"delete": delete}).applied_to(base)
    assert [says in one["message"] for one in refused.value.problems] == [True]
    with pytest.raises(Exception, match=says.replace("'", ".")) as plain:
        propose(base, "/", {"delete": delete})
    assert not isinstance(plain.value, DefinitionsRefused)


def test_a_protected_vhost_stays_unless_its_protection_goes_too(base: Topology) -> None:
    editor = TopologyEditor(base)
    editor.put_setting(Setting(*protection_key("v"), True))
    with pytest.raises(DefinitionsRefused, match="protected"):
        change_of({"delete": {"vhosts": ["v"]}}).applied_to(editor.topology)
    pruned = change_of({"vhosts": [{"name": "v"}]}, prune=True).applied_to(editor.topology)
    assert protection_key("v") in pruned.settings
    both = {"vhosts": ["v"], "parameters": [{"vhost": "v", "component": "vhost-protection", "name": "deletion"}]}
    assert "v" not in change_of({"delete": both}).applied_to(editor.topology).vhosts


def test_what_goes_and_what_comes_are_one_change(base: Topology) -> None:
    document = {
        "delete": {"exchanges": ["x"]},
        "definitions": {"exchanges": [{"name": "x", "type": "direct"}], "bindings": [X_Q]},
    }
    after = change_of(document).applied_to(base)
    assert after.exchanges["/", "x"].type == "direct"
    assert [b.routing_key for b in after.bindings_from("/", "x")] == [""]
    assert after.exchanges["v", "x"].type == "topic"


def test_what_is_added_was_not_there_and_what_is_changed_was(base: Topology) -> None:
    late = {"x-queue-filter": "c > 1"}
    document = {
        "delete": {"queues": ["r"]},
        "add": {"queues": [{"name": "n"}, {"name": "r"}], "bindings": [{"source": "x", "destination": "n"}]},
        "change": {"queues": [{"name": "q", "arguments": late}]},
        "definitions": {"queues": [{"name": "q2"}]},
    }
    for after in (change_of(document).applied_to(base), propose(base, "/", document)):
        assert {name for vhost, name in after.queues if vhost == "/"} == {"q", "r", "n", "q2"}
        assert after.queue("/", "q").arguments == Table(late)
        assert [one.destination for one in after.bindings_from("/", "x")].count("n") == 1


@pytest.mark.parametrize(
    ("document", "path", "says", "hint"),
    [
        ({"add": {"queues": [{"name": "n"}, {"name": "q"}]}}, "add.queues[1]", "queue 'q' is there already", "change"),
        ({"change": {"queues": [{"name": "Q"}]}}, "change.queues[0]", "queue 'Q' is not there", "add"),
        ({"change": {"vhosts": [{"name": "w"}]}}, "change.vhosts[0]", "vhost 'w' is not there", "add"),
        (
            {"add": {"bindings": [{"source": "x", "destination": "q", "routing_key": "a"}]}},
            "add.bindings[0]",
            "the binding of 'x' to 'q' is there already",
            "definitions",
        ),
        (
            {"change": {"bindings": [{"source": "x", "destination": "q", "routing_key": "a"}]}},
            "change.bindings[0]",
            "a binding cannot be changed",
            "delete it, and add another",
        ),
        (
            {"add": {"global_parameters": [{"name": "g", "value": 2}]}},
            "add.global_parameters[0]",
            "'g' is there already",
            "change",
        ),
        ({"change": {"queues": [{"vhost": "v", "name": "r"}]}}, "change.queues[0]", "queue 'r' is not there", "add"),
    ],
)
def test_what_is_there_is_not_added_and_what_is_not_is_not_changed(
    base: Topology, document: dict[str, Any], path: str, says: str, hint: str
) -> None:
    with pytest.raises(DefinitionsRefused) as refused:
        change_of(document).applied_to(base)
    (problem,) = refused.value.report["errors"]
    assert (problem["path"], says in problem["message"], hint in str(problem)) == (path, True, True), problem
    with pytest.raises((InvalidInput, NotFound)) as stopped:
        propose(base, "/", document)
    assert (stopped.value.where, says in stopped.value.message) == (f"proposal.{path}", True)


def test_several_documents_are_one_change_whatever_their_order(base: Topology) -> None:
    binding, queue = {"bindings": [X_Q | {"destination": "n"}]}, {"queues": [{"name": "n"}]}
    assert keys(change_of(binding, queue).applied_to(base)) - keys(base) == {
        ("queue", "/", "n"),
        ("binding", "/", "x", "n", ""),
    }
    with pytest.raises(DefinitionsRefused, match="otherwise than at f0:1:13"):
        change_of(queue, {"queues": [{"name": "n", "durable": False}]}).applied_to(base)
    assert change_of(queue, queue).applied_to(base).queues["/", "n"].durable


def test_prune_deletes_what_is_not_named_in_the_vhosts_that_are(base: Topology) -> None:
    kept = {
        "exchanges": [{"name": "x", "type": "topic"}],
        "queues": [{"name": "q"}],
        "bindings": [X_Q | {"routing_key": "a"}],
    }
    after = change_of(kept, prune=True).applied_to(base)
    left = {key for key in keys(after) if key[1] == "/" and key[0] != "vhost"}
    predeclared = {("exchange", "/", name) for name in PREDECLARED}
    assert left - predeclared == {("exchange", "/", "x"), ("queue", "/", "q"), ("binding", "/", "x", "q", "a")}
    assert predeclared < left
    assert {key for key in keys(base) if key[1] == "v"} <= keys(after)
    assert ("global-parameter", "", "g") in after.settings
    assert [b.id for b in after.bindings_from("/", "x")] == [1]  # what stays keeps its lineage
    assert keys(change_of(export(base), prune=True).applied_to(base)) == keys(base)
    assert keys(change_of({}, prune=True).applied_to(base)) == keys(base)


def test_an_auto_delete_exchange_that_is_named_outlives_the_prune_of_its_bindings(base: Topology) -> None:
    kept = {"exchanges": [{"name": "auto", "type": "fanout", "auto_delete": True}], "queues": [{"name": "q"}]}
    after = change_of(kept, prune=True).applied_to(base)
    assert ("/", "auto") in after.exchanges
    assert not after.bindings_from("/", "auto")


def test_replace_empties_the_vhosts_that_its_definitions_name_or_the_one_of_the_command(base: Topology) -> None:
    after = change_of({"replace": True}, vhost="v").applied_to(base)
    assert not [key for key in after.queues if key[0] == "v"]
    assert ("/", "q") in after.queues
    stated = {"replace": True, "definitions": {"queues": [{"vhost": "v", "name": "q"}]}}
    for after in (change_of(stated).applied_to(base), propose(base, "/", stated)):
        assert [key for key in after.queues if key[0] == "v"] == [("v", "q")]
        assert ("/", "r") in after.queues
        assert not after.bindings_to("v", "queue", "q")


def test_over_http_unknown_keys_of_definitions_are_kept_out_and_nothing_is_refused(base: Topology) -> None:
    document = {"queues": [{"name": "n", "colour": "red", "arguments": {"x-colour": 1}}], "exchange": []}
    assert propose(base, "/", document).queues["/", "n"].arguments == Table({"x-colour": 1})
    with pytest.raises(InvalidInput, match="unknown key 'queues'"):
        propose(base, "/", {"delete": {}, "queues": []})
    with pytest.raises(NotFound):
        propose(base, "none", {})
