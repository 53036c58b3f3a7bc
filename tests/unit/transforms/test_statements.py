"""The language of transformations (docs/transform.md): what its statements do, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.analysis import analyse
from bindery.router.declarations import TopologyEditor
from bindery.router.definitions import export, parse_definitions
from bindery.router.errors import BinderyError, FilterError, InequivalentArgument, InvalidDeclaration
from bindery.router.filters import Limits
from bindery.router.message import Message
from bindery.router.model import TRANSFORM, Binding, Divert, Exchange, Queue, Topology
from bindery.router.transforms import apply, content_of, of_rule_action, parse, setting_texts
from bindery.router.transforms.applying import LONGEST
from bindery.router.values import Table, Timestamp
from tests.examples import examples

PROPERTIES = {"price": 3, "quantity": 4, "old": "x", "Mixed": 1, "two words": 2}


def made(text: str, /, clock_ms: int = 0, **sections: Any) -> dict[str, Any]:
    message = Message.from_json({"application_properties": PROPERTIES, **sections})
    out = apply(parse(text), message, clock_ms=clock_ms).message.as_json()
    return {key: value for key, value in out.items() if key not in ("exchange", "routing_key")}


def properties(text: str, /, **options: Any) -> dict[str, Any]:
    """What differs of the application properties; None for what is gone."""
    found = made(text, **options).get("application_properties", {})
    return {
        name: found.get(name)
        for name in sorted({*found, *PROPERTIES})
        if name not in PROPERTIES or name not in found or found[name] != PROPERTIES[name]
    }


@pytest.mark.parametrize(
    ("text", "differs"),
    [
        ("SET a.total = price * quantity", {"total": 12}),
        ("set total = 1 remove old", {"total": 1, "old": None}),
        ("SET x = 1, SET x = x + 1; ;SET y = x", {"x": 2, "y": 2}),
        ("RENAME old TO new", {"old": None, "new": "x"}),
        ("RENAME old TO price", {"old": None, "price": "x"}),
        ("RENAME missing TO price", {}),
        ("SET price = NULL", {"price": None}),
        ("SET price = missing + 1", {"price": None}),
        ("SET missing = missing", {}),
        ("SET big = price > 2", {"big": True}),
        ("SET a.[two words] = a.[two words] + 1", {"two words": 3}),
        ("SET a.[]]x[[] = ';'", {"]x[": ";"}),
        ("SET set = 1; SET y = set SET z = 2", {"set": 1, "y": 1, "z": 2}),
        ("SET y = price = 3", {"y": True}),
        ("SET u = UPPER(old) + 'z'", {"u": "Xz"}),
        ("service-bus:SET MIXED = 5; REMOVE user.OLD; SET New = p('PRICE')", {"Mixed": 5, "old": None, "New": 3}),
        ("service-bus:RENAME mixed TO other", {"Mixed": None, "other": 1}),
    ],
)
def test_statements(text: str, differs: dict[str, Any]) -> None:
    assert properties(text) == differs


def test_sections_and_fields() -> None:
    text = (
        "SET p.subject = 'a'; SET properties.correlation_id = 7; SET h.priority = 9; SET header.durable = TRUE;"
        "SET m.[x-opt-a] = 1; SET d.b = 2; SET f.c = 3; REMOVE p.to; SET p.creation_time = UTC()"
    )
    assert made(text, clock_ms=5, properties={"to": "t"}) == {
        "application_properties": PROPERTIES,
        "properties": {"subject": "a", "correlation_id": 7, "creation_time": {"timestamp": 5}},
        "header": {"priority": 9, "durable": True},
        "message_annotations": {"x-opt-a": 1},
        "delivery_annotations": {"b": 2},
        "footer": {"c": 3},
    }
    assert made("service-bus:SET sys.Label = 'l'; SET sys.SessionId = 's'")["properties"] == {
        "subject": "l",
        "group_id": "s",
    }


@pytest.mark.parametrize(
    "text",
    [
        "SET price = price - old",
        "SET price = price % 0",
        "SET h.priority = price - 4",
        "SET h.priority = price * 100",
        "SET h.ttl = 0 - price",
        "SET p.subject = price",
        "SET p.creation_time = old",
    ],
)
def test_trouble_leaves_the_field_as_it_was_and_is_counted(text: str) -> None:
    message = Message.from_json({"application_properties": PROPERTIES, "header": {"priority": 5}})
    applied = apply(parse(text), message)
    assert (applied.message, applied.troubled) == (message, 1)


def test_a_text_that_doubles_ends() -> None:
    message = Message(application_properties=Table({"s": "x" * 1024}))
    applied = apply(parse("SET s = s + s;" * 60), message)
    assert applied.message.application_properties["s"] == "x" * LONGEST
    assert applied.troubled == 60 - 6


@pytest.mark.parametrize(
    ("text", "message", "found"),
    [
        ("", "the transformation is empty", ""),
        (" ; ", "the transformation is empty", ""),
        ("SETT a = 1", "a statement begins with SET", "SETT"),
        ("SET a", "needs `=`", "a"),
        ("SET a <> 1", "needs `=`", "<>"),
        ("SET = 1", "the field behind SET is missing", "SET"),
        ("SET a =", "the expression is missing", "="),
        ("SET a = 1 +", "ends too early", ""),
        ("SET p.subject = 5", "properties.subject is a string", "5"),
        ("SET p.subject = price * 2", "properties.subject is a string", "price * 2"),
        ("SET p.message_id = TRUE", "is a message id", "TRUE"),
        ("SET h.priority = 256", "header.priority is an integer", "256"),
        ("SET h.delivery_count = 1", "cannot be changed", "h.delivery_count"),
        ("SET amqp_value = 1", "cannot be changed", "amqp_value"),
        ("SET a.b.c = 1", "is no field", "a.b.c"),
        ("SET 5 = 5", "is no field", "5"),
        ("REMOVE", "the field behind REMOVE is missing", "REMOVE"),
        ("RENAME a", "needs TO", "a"),
        ("RENAME p.to TO p.subject", "cannot be renamed", "p.to"),
        ("RENAME x TO a.x", "its own name", "x"),
        ("service-bus:SET a = newid()", "differs in each evaluation", "newid"),
        ("service-bus:SET sys.Size = 1", "no counterpart", "sys.Size"),
    ],
)
def test_what_is_refused_and_where(text: str, message: str, found: str) -> None:
    with pytest.raises(FilterError, match=message) as caught:
        parse(text)
    error = caught.value
    assert error.text == text
    assert error.found.startswith(found)


def test_caps() -> None:
    parse("SET a = 1;" * 64)
    with pytest.raises(FilterError, match="more than 64 statements"):
        parse("SET a = 1;" * 65)
    with pytest.raises(FilterError, match="characters"):
        parse("SET a = 1" + " " * 5000)
    with pytest.raises(FilterError, match="levels"):
        parse("SET a = " + "(" * 200 + "1" + ")" * 200)
    with pytest.raises(FilterError, match="tokens"):
        parse("SET a = 1", limits=Limits(tokens=3))


@given(st.text(alphabet="SETREMOVNAT ab.=;,+'\"[]()1<>\n", max_size=60))
@examples(300)
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    try:
        found = parse(text)
    except FilterError as error:
        assert 0 <= error.offset <= len(text)
    else:
        assert found.statements
        apply(found, Message.from_json({"application_properties": PROPERTIES}))


@given(
    st.dictionaries(
        st.text("ab[]'.\x1f", min_size=1, max_size=6), st.text("a';]\n", max_size=6), min_size=1, max_size=4
    )
)
@examples(100)
def test_texts_that_set_headers_say_them_exactly(values: dict[str, str]) -> None:
    try:
        text = setting_texts(values)
    except FilterError:
        assert any("\x1f" in name for name in values)
    else:
        assert apply(parse(text), Message()).message.application_properties == Table(values)


def test_actions_of_rules() -> None:
    text = of_rule_action("SET a = 1; REMOVE B;", rule="it's")
    found = apply(parse(text), Message(application_properties=Table({"b": 1}))).message
    assert found.application_properties == Table({"a": 1, "RuleName": "it's"})
    assert of_rule_action("SET a = 1") == "service-bus:SET a = 1"


def test_equal_content_is_by_type_and_without_order() -> None:
    one, other = (
        Message(application_properties=Table(dict(items))) for items in ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)])
    )
    assert content_of(one) == content_of(other)
    assert content_of(Message(application_properties=Table({"a": 1}))) != content_of(
        Message(application_properties=Table({"a": 1.0}))
    )
    assert content_of(Message(properties={"creation_time": Timestamp(1)})) != content_of(
        Message(properties={"absolute_expiry_time": Timestamp(1)})
    )


# -- declarations -----------------------------------------------------------------------------------------


def editor() -> TopologyEditor:
    made = TopologyEditor(Topology.empty())
    for name in "ab":
        made.declare_exchange(Exchange("/", name, "fanout"))
    made.declare_queue(Queue("/", "q"))
    return made


@pytest.mark.parametrize("value", ["SET", 5, Table({})])
def test_a_binding_with_a_transformation_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises((FilterError, InvalidDeclaration)) as caught:
        editor().bind(Binding(0, "/", "a", "q", arguments=Table({TRANSFORM: value})))
    assert "binding of 'a' to 'q': x-transform" in str(caught.value.where)


def test_a_divert_with_another_transformation_is_another_divert() -> None:
    made = editor()
    divert = Divert(0, "/", "d", "a", "b", transform="SET x = 1")
    made.declare_divert(divert)
    assert made.declare_divert(divert)[1] is False
    with pytest.raises(InequivalentArgument, match="inequivalent arg 'transform'"):
        made.declare_divert(Divert(0, "/", "d", "a", "b", transform="SET x = 2"))
    with pytest.raises(BinderyError, match="empty"):
        made.declare_divert(Divert(0, "/", "e", "a", "b", transform=" "))


def test_definitions_carry_transformations() -> None:
    made = editor()
    made.bind(Binding(0, "/", "a", "q", arguments=Table({TRANSFORM: "SET x = 1"})))
    made.declare_divert(Divert(0, "/", "d", "a", "b", transform="SET x = 1"))
    document = export(made.topology)
    assert document["bindery_diverts"][0]["transform"] == "SET x = 1"
    assert document["bindings"][0]["arguments"] == {TRANSFORM: "SET x = 1"}
    again = [entry.item for entry in parse_definitions(document).entries]
    assert [one.transform for one in again if isinstance(one, Divert)] == ["SET x = 1"]


def test_lint_takes_no_changing_binding_for_superfluous() -> None:
    made = editor()
    for text in (None, "SET x = 1", "SET x = 2"):
        made.bind(Binding(0, "/", "a", "q", arguments=Table({} if text is None else {TRANSFORM: text})))
    made.bind(Binding(0, "/", "a", "q", "queue", "again", Table({TRANSFORM: "SET x = 1"})))
    found = [one.subject.id for one in analyse(made.topology).findings if one.code in ("BT101", "BT102")]
    assert found == [4]


def test_lint_does_not_judge_the_filter_of_a_queue_by_what_a_changing_binding_takes() -> None:
    made = editor()
    made.declare_queue(Queue("/", "r", arguments=Table({"x-queue-filter": "x = 2"})))
    selector = {"x-filter-jms-selector": "x = 1"}
    made.bind(Binding(0, "/", "a", "r", arguments=Table({**selector, TRANSFORM: "SET x = 2"})))
    assert "BT173" not in {one.code for one in analyse(made.topology).findings}
    made.bind(Binding(0, "/", "b", "r", arguments=Table(selector)))
    assert "BT173" in {one.code for one in analyse(made.topology).findings}
