"""`bindery import --from eventbridge` and `--from sns`, and that it routes as there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.errors import DefinitionsRefused
from bindery.router.importers import KINDS
from bindery.router.importers.events_of_patterns import BODIES, event_of
from bindery.router.importers.settling import Settled, settle
from bindery.router.message import Message
from bindery.router.model import Topology
from bindery.router.reference import NaiveRouter
from tests.unit.filters.plain_patterns import fits

PUBLIC = Path(__file__).parents[3] / "docs" / "migration" / "public"
_SQS = "arn:aws:sqs:eu-central-1:123456789012:"
_LAMBDA = "arn:aws:lambda:eu-central-1:123456789012:function:"


def carried(kind: str, document: dict[str, Any]) -> Settled:
    return settle(KINDS[kind].read("file.json", json.dumps(document).encode()), Topology.empty())


def template(kind: str, **resources: Any) -> Settled:
    return carried(kind, {"Resources": resources})


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{kind}", "Properties": properties}


def rule(name: str, pattern: Any, *targets: str, **more: Any) -> dict[str, Any]:
    listed = [{"Id": str(number), "Arn": arn} for number, arn in enumerate(targets)]
    text = {} if pattern is None else {"EventPattern": json.dumps(pattern)}
    return {"Name": name, "EventBusName": "bus", **text, "Targets": listed, **more}


def subscription(policy: Any = None, queue: str = "q", **more: Any) -> dict[str, Any]:
    stated = {} if policy is None else {"FilterPolicy": json.dumps(policy)}
    topic = "arn:aws:sns:eu-central-1:123456789012:t"
    endpoint = {"Endpoint": _SQS + queue, "Protocol": "sqs", "RawMessageDelivery": "true"}
    return {"SubscriptionArn": f"{topic}:{queue}", "TopicArn": topic, **endpoint, **stated, **more}


def outcomes(settled: Settled) -> dict[str, str]:
    return {f"{item.kind} {item.name}": item.outcome.value for item in settled.objects}


def notes(settled: Settled) -> dict[tuple[str, str], str]:
    return {(item.name, note.key): note.text for item in settled.objects for note in item.notes}


def examples(settled: Settled) -> list[tuple[list[str], list[str]]]:
    listed = [note["example"] for item in settled.as_data() for note in item["notes"] if "example" in note]
    return [(one["there"], one["here"]) for one in listed]


def queues(settled: Settled, exchange: str, body: Any = None, **properties: Any) -> set[str]:
    content = {"exchange": exchange, "application_properties": properties}
    if body is not None:
        content["body"] = json.dumps(body)
    return set(NaiveRouter(settled.topology, "/").route(Message.from_json(content)).queues)


# -- EventBridge ------------------------------------------------------------------------------------------


def test_each_target_of_a_rule_gets_the_events_that_fit_its_pattern() -> None:
    settled = carried(
        "eventbridge",
        {"Rules": [rule("a", {"source": ["a"]}, _SQS + "one", _SQS + "two"), rule("b", {"n": [1]}, _SQS + "three")]},
    )
    assert settled.faithful
    assert queues(settled, "bus", {"source": "a"}) == {"one", "two"}
    assert queues(settled, "bus", {"source": "a", "n": 1}) == {"one", "two", "three"}
    assert queues(settled, "bus", {"source": ["b", "a"]}) == {"one", "two"}
    assert queues(settled, "bus", {}) == set()


_PATTERNS = st.sampled_from(
    [
        {"source": ["a", "b"]},
        {"source": [{"prefix": "a"}], "n": [{"numeric": [">", 1]}]},
        {"n": [1, 1.5]},
        {"n": [{"exists": False}]},
        {"detail": {"x": [{"anything-but": ["a"]}]}},
        {"$or": [{"n": [2]}, {"detail": {"x": ["a"]}}]},
    ]
)
_EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "source": st.sampled_from(["a", "b", "ab", ["c", "a"]]),
        "n": st.sampled_from([1, 1.0, 1.5, 2, [2, 3]]),
        "detail": st.sampled_from([{"x": "a"}, {"x": ["a", "b"]}, [{"x": "c"}, {}]]),
    },
)


@settings(max_examples=60)
@given(st.lists(_PATTERNS, min_size=1, max_size=5), st.lists(_EVENTS, min_size=1, max_size=5))
def test_a_bus_routes_as_its_patterns_say(patterns: list[Any], events: list[Any]) -> None:
    rules = [rule(f"r{n}", pattern, f"{_SQS}q{n}") for n, pattern in enumerate(patterns)]
    settled = carried("eventbridge", {"Rules": rules})
    for event in events:
        wanted = {f"q{n}" for n, pattern in enumerate(patterns) if fits(json.dumps(pattern), event)}
        assert queues(settled, "bus", event) == wanted


def test_what_is_not_carried_over_says_why() -> None:
    settled = carried(
        "eventbridge",
        {
            "Rules": [
                rule("off", {"a": [1]}, _SQS + "q", State="DISABLED"),
                rule("clock", None, _SQS + "q", ScheduleExpression="rate(1 day)"),
                rule("wrong", {"a": "x"}, _SQS + "q"),
                rule("nothing", None, _SQS + "q"),
                rule("idle", {"a": [1]}),
                rule("both", {"a": [1]}, _SQS + "q", ScheduleExpression="rate(1 day)", Wat=1),
                rule("bus", {"a": [1]}, _SQS + "q", EventBusName={"Fn::ImportValue": "x"}),
            ]
        },
    )
    lost = {name for name, outcome in outcomes(settled).items() if outcome == "not carried over"}
    assert lost == {
        *(f"rule {name}" for name in ("off", "clock", "wrong", "nothing", "bus")),
        *(f"target 0 of {name}" for name in ("off", "clock", "wrong", "nothing", "bus")),
    }
    said = notes(settled)
    assert said["off", "State"].startswith("it is disabled")
    assert "what 'a' may hold is a list" in said["wrong", "EventPattern"]
    assert said["both", "Wat"].startswith("nobody knows this key")
    assert outcomes(settled)["rule idle"] == "exact"
    assert queues(settled, "bus", {"a": 1}) == {"q"}


def test_what_targets_do_with_events_is_a_difference() -> None:
    targets = [
        {"Id": "l", "Arn": _LAMBDA + "f:live", "InputTransformer": {}, "RetryPolicy": {}, "SqsParameters": {}},
        {"Id": "q", "Arn": _SQS + "q", "DeadLetterConfig": {"Arn": _SQS + "dead"}, "RoleArn": "x"},
        {"Id": "w", "Arn": _SQS + "w", "Wat": 1},
        {"Id": "n", "Arn": {"Fn::ImportValue": "x"}},
    ]
    settled = carried("eventbridge", {"Rules": [rule("r", {"a": [1]}) | {"Targets": targets}]})
    assert outcomes(settled) == {
        "event bus bus": "exact",
        "rule r": "exact",
        "target l of r": "different",
        "target q of r": "exact",
        "target w of r": "different",
        "target n of r": "not carried over",
    }
    assert queues(settled, "bus", {"a": 1}) == {"f", "q", "w"}


def test_an_event_that_fits_two_rules_of_one_queue_is_there_once() -> None:
    wide, narrow = {"a": [1, 2]}, {"a": [1], "b": [{"prefix": "x"}]}
    rules = [
        rule("w", wide, _SQS + "q", _SQS + "other"),
        rule("n", narrow, _SQS + "q"),
        rule("c", {"a": [3]}, _SQS + "q"),
    ]
    settled = carried("eventbridge", {"Rules": rules})
    assert examples(settled) == [(["other", "q", "q"], ["other", "q"])]


def test_a_number_with_a_fraction_is_compared_as_a_number() -> None:
    settled = carried(
        "eventbridge",
        {"Rules": [rule("r", {"a": [0.5]}, _SQS + "q"), rule("e", {"a": [{"exists": True}]}, _SQS + "e")]},
    )
    assert examples(settled) == [(["e"], ["e", "q"])]
    assert carried("eventbridge", {"Rules": [rule("r", {"a": [{"numeric": ["=", 0.5]}]}, _SQS + "q")]}).faithful


def test_a_name_with_a_dot_is_one_name() -> None:
    settled = carried("eventbridge", {"Rules": [rule("r", {"a.b": [1], "c": {"d.e.f": [2]}}, _SQS + "q")]})
    assert examples(settled) == [(["q"], [])]
    assert queues(settled, "bus", {"a.b": 1, "c": {"d.e.f": 2}}) == {"q"}


def test_a_rule_may_lead_to_another_bus() -> None:
    other = "arn:aws:events:eu-central-1:123456789012:event-bus/other"
    rules = [rule("on", {"a": [1]}, other), rule("r", {"b": [1]}, _SQS + "q", EventBusName=other)]
    settled = carried("eventbridge", {"Rules": rules})
    assert settled.faithful
    assert queues(settled, "bus", {"a": 1, "b": 1}) == {"q"}
    assert queues(settled, "bus", {"b": 1}) == set()


def test_references_of_a_template_are_worked_out() -> None:
    settled = carried(
        "eventbridge",
        {
            "Parameters": {"Source": {"Type": "String", "Default": "shop"}, "Open": {"Type": "String"}},
            "Resources": {
                "Bus": resource("Events::EventBus", Name="orders"),
                "Queue": resource("SQS::Queue", QueueName="paid", MessageRetentionPeriod=60, Wat=1),
                "Plain": resource("SQS::Queue"),
                "Rule": resource(
                    "Events::Rule",
                    EventBusName={"Fn::GetAtt": ["Bus", "Name"]},
                    EventPattern={"source": [{"Ref": "Source"}], "kind": [{"Fn::Sub": "${Source}.paid"}]},
                    Targets=[
                        {"Id": "a", "Arn": {"Fn::GetAtt": ["Queue", "Arn"]}},
                        {"Id": "b", "Arn": {"Fn::Sub": "arn:${AWS::Partition}:sqs:x:${AWS::AccountId}:far"}},
                        {"Id": "c", "Arn": {"Fn::Join": [":", ["arn:aws:sqs:x:1", {"Ref": "Source"}]]}},
                        {"Id": "d", "Arn": {"Fn::GetAtt": "Plain.Arn"}},
                    ],
                ),
                "Account": resource("Events::Rule", EventPattern={"account": [{"Ref": "AWS::AccountId"}]}),
                "Unknown": resource("Events::Rule", EventPattern={"a": [{"Ref": "Open"}]}),
                "Sometimes": resource("Events::Rule", EventPattern={"a": [1]}) | {"Condition": "If"},
                "Archive": resource("Events::Archive"),
                "Sam": resource("Serverless::Function"),
                "Topic": resource("SNS::Topic"),
                "Key": resource("KMS::Key"),
                "Bucket": resource("S3::Bucket", NotificationConfiguration={}),
            },
        },
    )
    said = outcomes(settled)
    assert queues(settled, "orders", {"source": "shop", "kind": "shop.paid"}) == {"paid", "far", "shop", "Plain"}
    assert settled.topology.queues["/", "paid"].arguments["x-message-ttl"] == 60_000
    assert (said["rule Account"], said["rule Unknown"]) == ("not carried over", "not carried over")
    assert "nobody says what" in notes(settled)["Account", "EventPattern"]
    assert said["rule Sometimes"] == said["AWS::S3::Bucket Bucket"] == said["queue paid"] == "different"
    assert said["AWS::KMS::Key Key"] == "exact"
    for lost in ("AWS::Events::Archive Archive", "AWS::Serverless::Function Sam", "AWS::SNS::Topic Topic"):
        assert said[lost] == "not carried over"


@settings(max_examples=60)
@given(_PATTERNS)
def test_examples_are_made_of_events_that_fit(pattern: Any) -> None:
    event = event_of(json.dumps(pattern))
    assert event is None or fits(json.dumps(pattern), event)
    assert BODIES.payload is not None


# -- SNS --------------------------------------------------------------------------------------------------


def test_each_subscription_gets_the_messages_that_its_policy_takes() -> None:
    body = {"FilterPolicyScope": "MessageBody"}
    settled = carried(
        "sns",
        {
            "Subscriptions": [
                {"Attributes": subscription({"store": ["a"]}, "one")},
                subscription({"order": {"n": [1]}}, "two", **body),
                subscription(None, "all"),
            ]
        },
    )
    assert settled.faithful
    assert queues(settled, "t", store="a") == {"one", "all"}
    assert queues(settled, "t", {"order": {"n": 1}}, store="b") == {"two", "all"}
    assert settled.topology.exchanges["/", "t"].arguments["x-payload"] == "json"


def test_attributes_of_one_subscription_are_read_as_the_command_line_shows_them() -> None:
    """An answer to `get-subscription-attributes` in the examples of the AWS CLI, with its other attributes."""
    stated = {
        "Endpoint": "my-email@example.com",
        "Protocol": "email",
        "RawMessageDelivery": "false",
        "ConfirmationWasAuthenticated": "false",
        "Owner": "123456789012",
        "SubscriptionArn": "arn:aws:sns:us-west-2:123456789012:my-topic:8a21d249-4329-4871-acc6-7be709c6ea7f",
        "TopicArn": "arn:aws:sns:us-west-2:123456789012:my-topic",
    }
    settled = carried("sns", {"Attributes": stated})
    name = "8a21d249-4329-4871-acc6-7be709c6ea7f"
    assert outcomes(settled) == {"topic my-topic": "exact", f"subscription {name}": "different"}
    assert queues(settled, "my-topic") == {name}
    pending = carried("sns", {"Attributes": stated | {"PendingConfirmation": "true"}})
    assert outcomes(pending)[f"subscription {name}"] == "not carried over"


def test_a_list_without_policies_is_not_taken_for_one_without_filters() -> None:
    stated = {key: value for key, value in subscription().items() if key != "RawMessageDelivery"}
    settled = carried("sns", {"Subscriptions": [stated]})
    assert outcomes(settled)["subscription q"] == "not carried over"
    assert notes(settled)["q", ""] == "the list says no filter policies"


def test_an_envelope_an_absent_attribute_and_a_second_subscription_are_differences() -> None:
    settled = carried(
        "sns",
        {
            "Subscriptions": [
                subscription(None, "wrapped", RawMessageDelivery="false", RedrivePolicy="{}", Wat="1"),
                subscription({"a": [{"exists": False}]}, "absent"),
                subscription({"b": [1]}, "absent"),
                subscription({"b": "x"}, "wrong"),
            ]
        },
    )
    said = notes(settled)
    assert "JSON around it" in said["wrapped", "RawMessageDelivery"]
    assert said["wrapped", "Wat"].startswith("nobody knows")
    assert examples(settled) == [(["wrapped"], ["absent", "wrapped"])]
    assert "once" in said["absent", "Endpoint"]
    assert outcomes(settled)["subscription wrong"] == "not carried over"


def test_topics_and_subscriptions_of_a_template() -> None:
    settled = template(
        "sns",
        T=resource(
            "SNS::Topic", TopicName="t.fifo", FifoTopic=True, Subscription=[{"Endpoint": _SQS + "i", "Protocol": "sqs"}]
        ),
        Q=resource("SQS::Queue", FifoQueue=True, DelaySeconds=5, RedrivePolicy={}),
        S=resource(
            "SNS::Subscription",
            TopicArn={"Ref": "T"},
            Endpoint={"Fn::GetAtt": ["Q", "Arn"]},
            Protocol="sqs",
            RawMessageDelivery=True,
            FilterPolicy={"x": ["a"]},
        ),
        H=resource("SNS::Subscription", TopicArn={"Ref": "T"}, Endpoint="https://example.org/a/b", Protocol="https"),
        N=resource("SNS::Subscription", TopicArn={"Fn::ImportValue": "x"}, Protocol="sqs"),
        R=resource("Events::Rule", EventPattern={}),
    )
    assert queues(settled, "t.fifo", x="a") == {"Q", "i", "H"}
    assert queues(settled, "t.fifo", x="b") == {"i", "H"}
    assert outcomes(settled) == {
        "topic t.fifo": "different",
        "queue Q": "different",
        "subscription 1 of T": "different",
        "subscription S": "exact",
        "subscription H": "different",
        "subscription N": "not carried over",
        "AWS::Events::Rule R": "not carried over",
    }


def test_a_function_of_the_template_waits_in_a_queue_of_its_name() -> None:
    settled = template(
        "sns",
        Fn=resource("Lambda::Function", FunctionName="notify"),
        T=resource("SNS::Topic"),
        S=resource(
            "SNS::Subscription",
            TopicArn={"Ref": "T"},
            Protocol="lambda",
            Endpoint={"Fn::GetAtt": ["Fn", "Arn"]},
        ),
    )
    assert queues(settled, "T") == {"notify"}


def test_endpoints_of_one_name_in_two_regions_are_told() -> None:
    far = subscription(
        None, "q", Endpoint="arn:aws:sqs:us-east-1:123456789012:q", SubscriptionArn="arn:aws:sns:x:1:t:far"
    )
    settled = carried("sns", {"Subscriptions": [subscription(), far]})
    assert "another queue called 'q'" in notes(settled)["far", ""]


@pytest.mark.parametrize("kind", ["eventbridge", "sns"])
@pytest.mark.parametrize(
    "raw", [b"{}", b'{"Resources": []}', b'{"Rules": [1], "Subscriptions": [1]}', b"[]", b"x", b"\xff"]
)
def test_what_is_no_such_document_is_refused(kind: str, raw: bytes) -> None:
    with pytest.raises(DefinitionsRefused):
        KINDS[kind].read("file.json", raw)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("eventbridge", "evtsqs-exist-bus.template.json"), ("sns", "snssqs-rawMessageDelivery.template.json")],
)
def test_public_templates_are_carried_over_exactly(kind: str, name: str) -> None:
    settled = settle(KINDS[kind].read(name, (PUBLIC / name).read_bytes()), Topology.empty())
    assert settled.faithful
    assert settled.topology.bindings


@settings(max_examples=80)
@given(
    st.sampled_from(["eventbridge", "sns"]),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-3, 3)
        | st.sampled_from(["", "a", "arn:aws:sqs:x:1:q", "AWS::SNS::Topic"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        *(
                            "Resources",
                            "Type",
                            "Properties",
                            "Ref",
                            "Fn::GetAtt",
                            "Fn::Sub",
                            "Fn::Join",
                            "Rules",
                            "Targets",
                        ),
                        *(
                            "EventPattern",
                            "Arn",
                            "Id",
                            "State",
                            "Attributes",
                            "Subscriptions",
                            "TopicArn",
                            "FilterPolicy",
                        ),
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
)
def test_any_document_is_read_or_refused(kind: str, document: Any) -> None:
    try:
        objects = KINDS[kind].read("file.json", json.dumps(document).encode())
        settle(objects, Topology.empty())
    except DefinitionsRefused:
        pass
