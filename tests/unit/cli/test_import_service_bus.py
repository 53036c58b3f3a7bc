"""`bindery import --from service-bus`: topics, subscriptions and rules of Azure, and that they route as there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.errors import DefinitionsRefused
from bindery.router.filters import evaluate, parse
from bindery.router.importers import KINDS
from bindery.router.importers.arm import Template
from bindery.router.importers.arm_expressions import Hole, Scope, Text, is_known, segments
from bindery.router.importers.service_bus import milliseconds
from bindery.router.importers.settling import Settled, settle
from bindery.router.message import Message
from bindery.router.model import Topology
from bindery.router.reference import NaiveRouter
from bindery.router.values import Table

_SB = "Microsoft.ServiceBus/namespaces"


def carried(document: Any) -> Settled:
    return settle(KINDS["service-bus"].read("file.json", json.dumps(document).encode()), Topology.empty())


def template(*resources: dict[str, Any], **sections: Any) -> Settled:
    return carried({"resources": list(resources), **sections})


def resource(kind: str, name: str, *inside: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """A resource with flat type and name, or inside of another where the type begins in lower case."""
    kind = kind if kind[0].islower() else f"{_SB}/{kind.lower()}" if kind != "Namespace" else _SB
    return {"type": kind, "name": name, "properties": properties, "resources": list(inside)}


def topic(*inside: dict[str, Any], name: str = "ns/t", **properties: Any) -> dict[str, Any]:
    return resource("Topics", name, *inside, **properties)


def subscription(name: str, *rules: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return resource("subscriptions", name, *rules, **properties)


def sql(text: str, name: str = "r", action: str | None = None) -> dict[str, Any]:
    acts = {} if action is None else {"action": {"sqlExpression": action}}
    return resource("rules", name, filterType="SqlFilter", sqlFilter={"sqlExpression": text}, **acts)


def correlation(name: str = "c", **stated: Any) -> dict[str, Any]:
    return resource("rules", name, filterType="CorrelationFilter", correlationFilter=stated)


def outcomes(settled: Settled) -> dict[str, str]:
    return {f"{item.kind} {item.name}": item.outcome.value for item in settled.objects}


def notes(settled: Settled) -> dict[tuple[str, str], str]:
    return {(item.name, note.key): note.text for item in settled.objects for note in item.notes}


def examples(settled: Settled) -> list[tuple[list[str], list[str]]]:
    listed = [note["example"] for item in settled.as_data() for note in item["notes"] if "example" in note]
    return [(one["there"], one["here"]) for one in listed]


def queues(settled: Settled, exchange: str = "t", vhost: str = "/", *, properties: Any = None, **more: Any) -> set[str]:
    content = {"exchange": exchange, "application_properties": more, "properties": properties or {}}
    return set(NaiveRouter(settled.topology, vhost).route(Message.from_json(content)).queues)


def arguments(settled: Settled, queue: str) -> dict[str, Any]:
    return dict(settled.topology.queues["/", queue].arguments)


# -- rules


def test_a_subscription_without_rules_takes_everything() -> None:
    settled = template(topic(subscription("all")))
    assert settled.faithful
    assert queues(settled) == {"t/Subscriptions/all"}
    assert "$Default" in notes(settled)["t/Subscriptions/all", "rules"]


def test_rules_are_filters_and_the_boolean_ones_take_everything_and_nothing() -> None:
    settled = template(
        topic(
            subscription("red", sql("color = 'red'", "one"), sql("size > 5", "two")),
            subscription("label", correlation(label="x", properties={"Color": "red"})),
            subscription("all", sql(" 1 = 1 ", "$Default")),
            subscription("none", sql("1=0")),
        )
    )
    assert settled.faithful
    assert queues(settled, color="red") == {"t/Subscriptions/red", "t/Subscriptions/all"}
    assert queues(settled, size=6) == {"t/Subscriptions/red", "t/Subscriptions/all"}
    assert queues(settled, properties={"subject": "x"}, color="red") == {
        *("t/Subscriptions/red", "t/Subscriptions/all", "t/Subscriptions/label"),
    }
    assert queues(settled) == {"t/Subscriptions/all"}
    assert ("t/Subscriptions/all", "rules") not in notes(settled)


_FILTERS = st.sampled_from(["a = 1", "b = 'x'", "a > 1 AND b <> 'x'", "a IS NULL", "NOT (b = 'x')", "1=1", "1=0"])
_PROPERTIES = st.fixed_dictionaries(
    {}, optional={"a": st.sampled_from([1, 2, "1"]), "b": st.sampled_from(["x", "y", "X"])}
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(_FILTERS, max_size=3), min_size=1, max_size=4), st.lists(_PROPERTIES, min_size=1, max_size=5))
def test_a_subscription_gets_what_any_of_its_rules_lets_in(rules: list[list[str]], messages: list[Any]) -> None:
    settled = template(
        topic(
            *(subscription(f"s{n}", *(sql(one, f"r{m}") for m, one in enumerate(each))) for n, each in enumerate(rules))
        )
    )
    for properties in messages:
        message = Message.from_json({"application_properties": properties})
        wanted = {
            f"t/Subscriptions/s{n}"
            for n, each in enumerate(rules)
            if not each or any(evaluate(parse(one, "service-bus"), message) is True for one in each)
        }
        assert queues(settled, **properties) == wanted


def test_a_rule_with_an_action_makes_a_changed_copy_of_its_own() -> None:
    """By "Topic filters and actions" it has the rule's name as RuleName; rules without one make one copy together."""
    settled = template(
        topic(
            subscription(
                "s",
                sql("color = 'red'", "acting", "SET sys.Label = 'a;b'; REMOVE [x y];"),
                sql("color = 'red'", "it's", "SET size = size + 1"),
                sql("size > 5", "plain"),
                sql("size > 6", "other"),
            )
        )
    )
    assert settled.faithful
    message = Message("t", application_properties=Table({"color": "red", "size": 9, "x y": 1}))
    found = NaiveRouter(settled.topology, "/").route(message)
    copies = [found.forms[content] for queue, content in found.copies if queue == "t/Subscriptions/s"]
    told = {
        one.application_properties.get("RuleName"): (
            one.properties.get("subject"),
            one.application_properties.get("size"),
            one.application_properties.get("x y"),
        )
        for one in copies
    }
    assert len(copies) == 3
    assert told == {None: (None, 9, 1), "acting": ("a;b", 9, None), "it's": (None, 10, 1)}


def test_an_action_that_cannot_be_carried_out_is_told_with_the_copy_that_is_missing() -> None:
    settled = template(
        topic(
            subscription("s", sql("color = 'red'", "acting", "SET a = newid()"), sql("size > 5", "plain")),
            subscription("other", sql("color = 'blue'", "alone", "KEEP a")),
        )
    )
    said = notes(settled)
    assert "not carried out, it is refused: " in said["t/Subscriptions/s/acting", "action"]
    assert "a statement begins with SET" in said["t/Subscriptions/other/alone", "action"]
    assert examples(settled) == [(["t/Subscriptions/s"] * 2, ["t/Subscriptions/s"])]
    assert outcomes(settled)["rule t/Subscriptions/s/plain"] == "exact"


def test_rules_that_cannot_be_said_leave_nothing_in_their_place() -> None:
    settled = template(
        topic(
            subscription(
                "s",
                sql("a = @limit", "parameter"),
                resource("rules", "neither", filterType="SqlFilter"),
                correlation("empty"),
                sql("[parameters('unknown')]", "hole"),
            )
        )
    )
    lost = {name for name, outcome in outcomes(settled).items() if outcome == "not carried over"}
    assert lost == {f"rule t/Subscriptions/s/{name}" for name in ("parameter", "neither", "empty", "hole")}
    assert queues(settled, a=1) == set()
    assert "parameters('unknown')" in notes(settled)["t/Subscriptions/s/hole", "sqlFilter"]


# -- entities and what they state


def test_limits_are_arguments_and_the_shorter_time_to_live_counts() -> None:
    settled = template(
        topic(
            subscription("short", defaultMessageTimeToLive="PT1M", autoDeleteOnIdle="P2D", lockDuration="PT1M"),
            subscription("long", defaultMessageTimeToLive="P10D"),
            subscription("never", defaultMessageTimeToLive="P10675199DT2H48M5.4775807S"),
            defaultMessageTimeToLive="P1D",
        ),
        resource("Queues", "ns/q", defaultMessageTimeToLive="P10675199DT2H48M5.4775807S", maxDeliveryCount=10),
    )
    assert arguments(settled, "t/Subscriptions/short") == {"x-message-ttl": 60_000, "x-expires": 172_800_000}
    assert arguments(settled, "t/Subscriptions/long") == {"x-message-ttl": 86_400_000}
    assert arguments(settled, "t/Subscriptions/never") == {"x-message-ttl": 86_400_000}
    assert arguments(settled, "q") == {}
    assert outcomes(settled)["queue q"] == "exact"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("PT0.5S", 500), ("P1DT1H", 90_000_000), ("P1W", 604_800_000), ("1.02:03:04", 93_784_000), ("00:01:00", 60_000),
        ("P", None), ("PT", None), ("P1DT", None), ("1D", None), (5, None), (None, None), ("P9999999999D", None),
    ],
)  # fmt: skip
def test_durations_are_those_of_iso_8601_and_of_dotnet(text: Any, wanted: int | None) -> None:
    assert milliseconds(text) == wanted


def test_what_expires_goes_where_dead_letters_do() -> None:
    settled = template(
        topic(
            subscription("own", deadLetteringOnMessageExpiration=True, defaultMessageTimeToLive="PT1M"),
            subscription("away", deadLetteringOnMessageExpiration=True, forwardDeadLetteredMessagesTo="dead"),
            subscription("on", deadLetteringOnMessageExpiration=True, forwardDeadLetteredMessagesTo="T2"),
            subscription("not", forwardDeadLetteredMessagesTo="dead"),
        ),
        topic(name="ns/t2"),
        resource("Queues", "ns/dead"),
    )
    own = arguments(settled, "t/Subscriptions/own")
    assert (own["x-dead-letter-exchange"], own["x-dead-letter-routing-key"]) == (
        "",
        "t/Subscriptions/own/$DeadLetterQueue",
    )
    assert ("/", "t/Subscriptions/own/$DeadLetterQueue") in settled.topology.queues
    assert arguments(settled, "t/Subscriptions/away") == {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    assert arguments(settled, "t/Subscriptions/on") == {"x-dead-letter-exchange": "t2"}
    assert arguments(settled, "t/Subscriptions/not") == {}


def test_what_is_handed_on_goes_there_at_once_and_once() -> None:
    settled = template(
        topic(
            subscription("a", sql("n = 1"), forwardTo="Q"),
            subscription("b", sql("n = 1 AND m = 2"), forwardTo="q"),
            subscription("c", forwardTo="t2"),
            subscription("d", sql("n = 3"), forwardTo="relay"),
        ),
        topic(subscription("end"), name="ns/t2"),
        resource("Queues", "ns/q"),
        resource("Queues", "ns/relay", forwardTo="t2"),
    )
    assert queues(settled, n=1) == {"q", "t2/Subscriptions/end"}
    assert queues(settled, n=3) == {"t2/Subscriptions/end"}
    assert queues(settled, exchange="relay") == {"t2/Subscriptions/end"}
    there, here = examples(settled)[0]
    assert (there, here) == (["q", "q", "t2/Subscriptions/end"], ["q", "t2/Subscriptions/end"])
    assert outcomes(settled)["queue relay"] == "different"
    assert ("/", "t/Subscriptions/a") not in settled.topology.queues


def test_queues_that_lead_to_each_other_end() -> None:
    settled = template(
        topic(subscription("s", forwardTo="a"), subscription("s2", forwardTo="a")),
        resource("Queues", "ns/a", forwardTo="b"),
        resource("Queues", "ns/b", forwardTo="a"),
    )
    assert queues(settled) == set()
    assert examples(settled) == [([], []), ([], [])]


def test_what_nobody_does_here_is_told() -> None:
    settled = template(
        resource("Namespace", "ns"),
        topic(
            subscription(
                "s", requiresSession=True, isClientAffine=True, deadLetteringOnFilterEvaluationExceptions=True,
                status="ReceiveDisabled", defaultMessageTimeToLive="soon", wat=1, forwardTo={"a": 1},
            ),
            requiresDuplicateDetection=True, autoDeleteOnIdle="PT5M", enablePartitioning=True, maxSizeInMegabytes=1024,
            status="Active",
        ),
        {"type": f"{_SB}/disasterRecoveryConfigs", "name": "ns/d"},
        {"type": "Microsoft.Web/sites", "name": "w"},
        {"type": "Microsoft.Resources/deployments", "name": "d", "properties": {"templateLink": {"uri": "x"}}},
    )  # fmt: skip
    said = {key for name, key in notes(settled) if name == "t/Subscriptions/s"}
    assert said >= {
        *("requiresSession", "isClientAffine", "deadLetteringOnFilterEvaluationExceptions", "status"),
        *("defaultMessageTimeToLive", "wat", "forwardTo"),
    }
    topic_said = {key: note for (name, key), note in notes(settled).items() if name == "t"}
    assert topic_said.keys() == {
        *("requiresDuplicateDetection", "autoDeleteOnIdle", "enablePartitioning", "maxSizeInMegabytes"),
    }
    lost = {name for name, outcome in outcomes(settled).items() if outcome == "not carried over"}
    assert lost == {"microsoft.servicebus/namespaces/disasterrecoveryconfigs ns/d", "microsoft.resources/deployments d"}
    assert outcomes(settled)["microsoft.web/sites w"] == "exact"


# -- templates


def test_flat_names_symbolic_names_and_children_are_one_topology() -> None:
    nested = [topic(subscription("s", sql("a = 1")))]
    parts = {"p": resource("Topics", "ns/t"), "s": resource("Topics/Subscriptions", "ns/t/s")}
    rule = resource("Topics/Subscriptions/Rules", "ns/t/s/r", **sql("a = 1")["properties"])
    flat = [*parts.values(), rule]
    symbolic = {**parts, "r": rule}
    given = [carried({"resources": one}) for one in (nested, flat, symbolic)]
    for settled in given:
        assert settled.faithful
        assert queues(settled, a=1) == {"t/Subscriptions/s"}
        assert queues(settled, a=2) == set()
    assert outcomes(given[0]) == outcomes(given[1]) == outcomes(given[2])


def test_names_are_worked_out_and_what_nobody_knows_is_left_out() -> None:
    settled = template(
        topic(
            subscription("[variables('sub')]"),
            name="[concat(parameters('namespace'), '/', toLower(parameters('Topic')))]",
        ),
        topic(name="[format('{0}/{1}', parameters('namespace'), parameters('secret'))]"),
        parameters={
            "namespace": {"type": "string"},
            "topic": {"defaultValue": "ORDERS"},
            "secret": {"type": "string"},
        },
        variables={"sub": "[format('{0}-{1}', 'all', string(1))]"},
    )
    assert queues(settled, exchange="orders") == {"orders/Subscriptions/all-1"}
    assert outcomes(settled)["topic [parameters('secret')]"] == "not carried over"
    assert notes(settled)["[parameters('secret')]", "name"] == "nobody says what [parameters('secret')] is"


def test_loops_conditions_and_templates_in_templates() -> None:
    copied = {**resource("Queues", "[format('ns/q{0}', copyIndex(1))]"), "copy": {"name": "loop", "count": 2}}
    open_ = {**resource("Queues", "ns/o"), "copy": {"name": "loop", "count": "[length(parameters('list'))]"}}
    inner = {
        "type": "Microsoft.Resources/deployments",
        "name": "module",
        "properties": {
            "expressionEvaluationOptions": {"scope": "inner"},
            "parameters": {"name": {"value": "[parameters('topic')]"}},
            "template": {
                "parameters": {"name": {"type": "string"}},
                "resources": [topic(subscription("s"), name="[concat('ns/', parameters('name'))]")],
            },
        },
    }
    settled = template(
        copied,
        open_,
        inner,
        {**resource("Queues", "ns/no"), "condition": "[equals(parameters('topic'), 'other')]"},
        {**resource("Queues", "ns/maybe"), "condition": "[parameters('unknown')]"},
        parameters={"list": {"type": "array"}, "topic": {"defaultValue": "orders"}},
    )
    assert queues(settled, exchange="orders") == {"orders/Subscriptions/s"}
    assert {name for _, name in settled.topology.queues} == {"q1", "q2", "maybe", "orders/Subscriptions/s"}
    found = outcomes(settled)
    assert (found["queue o"], found["queue no"], found["queue maybe"]) == ("not carried over", "exact", "different")
    assert "parameters('list')" in notes(settled)["o", "copy"]


def test_what_the_file_only_refers_to_is_declared_and_told() -> None:
    existing = {**topic(name="ns/t"), "existing": True}
    settled = carried(
        {
            "resources": {
                "t": existing,
                "r": resource("Topics/Subscriptions/Rules", "ns/t/s/r", **sql("a = 1")["properties"]),
            }
        }
    )
    assert queues(settled, a=1) == {"t/Subscriptions/s"}
    assert queues(settled, a=2) == set()
    assert {name for (name, key) in notes(settled) if key == ""} == {"t", "t/Subscriptions/s"}


def test_several_namespaces_are_vhosts() -> None:
    settled = template(topic(subscription("s"), name="one/t"), topic(subscription("u"), name="two/t"))
    assert queues(settled, vhost="one") == {"t/Subscriptions/s"}
    assert queues(settled, vhost="two") == {"t/Subscriptions/u"}
    unknown = template(topic(name="one/t"), topic(name="[concat(parameters('n'), '/t')]"))
    assert list(outcomes(unknown).values()).count("not carried over") == 1


def test_a_name_that_stands_twice_and_one_of_too_few_parts_are_left_out() -> None:
    settled = template(resource("Queues", "ns/q"), resource("Queues", "ns/Q"), resource("Queues", "q"))
    assert [item.outcome.value for item in settled.objects] == ["exact", "not carried over", "not carried over"]


def test_slashes_in_names_are_tildes_in_resource_manager() -> None:
    assert queues(template(topic(subscription("s"), name="ns/a~b")), exchange="a/b") == {"a/b/Subscriptions/s"}


def test_lists_are_read_as_az_and_the_rest_api_print_them() -> None:
    path = "/subscriptions/0/resourceGroups/g/providers/Microsoft.ServiceBus/namespaces/ns/topics/t"
    listed = [
        {"id": path, "name": "t", "type": f"{_SB}/topics", "status": "Active", "sizeInBytes": 5, "userMetadata": None},
        {"id": f"{path}/subscriptions/s", "name": "s", "properties": {"status": "Active"}},
        {"id": f"{path}/subscriptions/s/rules/r", "filterType": "SqlFilter", "sqlFilter": {"sqlExpression": "a = 1"}},
        {"id": f"{path}/subscriptions/open", "name": "open", "properties": {}},
    ]
    for document in (listed, {"value": listed}):
        settled = carried(document)
        assert queues(settled, a=1) == {"t/Subscriptions/s"}
        assert queues(settled, a=2) == set()
        assert outcomes(settled)["subscription t/Subscriptions/open"] == "not carried over"


@pytest.mark.parametrize(
    "document",
    [{}, {"resources": 5}, {"resources": [5]}, {"resources": [{"name": "x"}]}, [{"id": "x"}], {"value": [5]}, [5]],
)
def test_what_is_no_template_is_refused(document: Any) -> None:
    with pytest.raises(DefinitionsRefused):
        Template("file.json", json.dumps(document).encode())


# -- expressions


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain", "plain"), ("[[x]", "[x]"), ("['it''s']", "it's"), ("[CONCAT('a', 1, true())]", "a1True"),
        ("[format('{0}{{{1}}}', 'a', 2)]", "a{2}"), ("[parameters('LIST')[1]]", "b"), ("[variables('o').In.x]", 5),
        ("[if(equals(1, 1), 'yes', 'no')]", "yes"), ("[and(true(), not(false()))]", True),
        ("[last(parameters('list'))]", "b"),
        ("[replace('a-b', '-', '')]", "ab"), ("[join(split('a,b', ','), '/')]", "a/b"),
        ("[substring('abc', 1, 1)]", "b"),
        ("[coalesce(null(), 'a')]", "a"), ("[createArray(1, 'a')]", [1, "a"]), ("[createObject('a', 1)]", {"a": 1}),
        ("[length('abc')]", 3), ("[empty('')]", True), ("[range(1, 3)]", [1, 2, 3]), ("[add(1, sub(5, 2))]", 4),
        ("[bool('TRUE')]", True), ("[int('5')]", 5), ("[contains('abc', 'b')]", True), ("[trim(' a ')]", "a"),
    ],
)  # fmt: skip
def test_expressions_are_worked_out(text: str, wanted: Any) -> None:
    scope = Scope({"list": {"defaultValue": ["a", "b"]}}, {"o": {"in": {"X": 5}}})
    assert scope.value(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "[uniqueString('a')]", "[parameters('p')]", "[variables('loop')]", "[format('{0:N}', 1)]", "[format('{1}', 1)]",
        "[1 + 1]", "[concat('a']", "[concat('a'))]", "[f(]", "[]", "['a]", "[my.own('x')]", "[int('x')]", "[first('')]",
        "[copyIndex()]", "[add('a', 'b')]", "[range(0, 99999999)]", "[" + "concat(" * 500 + ")" * 500 + "]",
        "[variables('big')]", "[" + "a" * 30_000 + "]", "[replace('aaaa', 'a', variables('long'))]", "[if(1, 2, 3)]",
        "[toLower(parameters('p'))]", "[parameters('p').x]",
    ],
)  # fmt: skip
def test_what_nobody_knows_or_is_beyond_the_bounds_is_a_hole(text: str) -> None:
    doubled = {f"v{n}": f"[concat(variables('v{n - 1}'), variables('v{n - 1}'))]" for n in range(1, 60)}
    scope = Scope(
        {"p": {"type": "string"}},
        {"loop": "[variables('LOOP')]", "v0": "x" * 100, "big": "[variables('v59')]", "long": "x" * 90_000, **doubled},
    )
    assert not is_known(scope.value(text))


def test_lists_in_lists_without_end_are_not_walked() -> None:
    twice = {f"v{n}": f"[createArray(variables('v{n - 1}'), variables('v{n - 1}'))]" for n in range(1, 50)}
    assert not is_known(Scope({}, {"v0": 1, **twice}).value("[variables('v49')]"))


def test_texts_keep_what_is_known_around_a_hole() -> None:
    found = Scope({"p": {"type": "string"}}, {}).value("[format('{0}/a{1}/b', parameters('p'), parameters('p'))]")
    hole = Hole("parameters('p')")
    assert segments(found) == [hole, Text(("a", hole)), "b"]
    assert str(found) == "[parameters('p')]/a[parameters('p')]/b"


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="[](){}.,'0a parmetsvibl-\\\"", max_size=60))
def test_whatever_an_expression_is_it_has_a_value_or_is_a_hole(text: str) -> None:
    Scope({"a": {"defaultValue": "[parameters('a')]"}}, {"a": f"[{text}]"}).value(f"[{text}]")
