"""Event patterns and filter policies: the product's readings against the plain one, and what is refused where."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.columns import BatchView
from bindery.router.errors import FilterError
from bindery.router.filters import Filter, FilterGroups, Limits, evaluate, is_troubled, parse
from bindery.router.filters.description import describe
from bindery.router.filters.limits import Payload
from bindery.router.filters.lint import lint
from bindery.router.filters.patterns import reading
from bindery.router.filters.patterns.nodes import AnyElement
from bindery.router.filters.sets import parse_filter_set
from bindery.router.filters.sets.reading import FilterSetLimits
from bindery.router.filters.trace import trace
from bindery.router.message import Message, to_batch
from tests.unit.filters.plain_patterns import fits

BODIES = Limits(payload=Payload("json"))
_NAMES = ("a", "b", "c")
_TEXTS = ("", "x", "xy", "X", "yX", "x*y", "x\\y", "é", "É", "10.0.0.1", "10.0.1.1", "::1", "a%b_", "axby")
_NUMBERS = (0, 1, 1.0, 2, -1.5, 3e2, 300, 2**53 + 1, float(2**53), 10**30)
_VALUES = st.sampled_from((*_TEXTS, *_NUMBERS, None, True, False))
_strings = st.sampled_from(_TEXTS)
_numbers = st.sampled_from(_NUMBERS)
_wildcards = st.sampled_from(("x*", "*y", "*", "x\\*y", "x\\\\y", "*x*y", "a%b_", "", "xy"))
_some = st.sampled_from(_TEXTS[1:])


def _range(low: float, high: float) -> dict[str, Any]:
    least, most = sorted((low, high))
    return {"numeric": [">=", least, "<", most if most > least else least + 1]}


def _one_or_list(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return strategy | st.lists(strategy, min_size=1, max_size=3)


_ENTRIES = st.one_of(
    _VALUES,
    _strings.map(lambda text: {"prefix": text}),
    _strings.map(lambda text: {"suffix": text}),
    _strings.map(lambda text: {"equals-ignore-case": text}),
    _strings.map(lambda text: {"prefix": {"equals-ignore-case": text}}),
    _strings.map(lambda text: {"suffix": {"equals-ignore-case": text}}),
    _wildcards.map(lambda text: {"wildcard": text}),
    st.sampled_from(("10.0.0.0/24", "10.0.0.0/8", "::/64", "10.0.0.1/32")).map(lambda net: {"cidr": net}),
    st.builds(lambda op, n: {"numeric": [op, n]}, st.sampled_from(("=", "<", "<=", ">", ">=")), _numbers),
    st.builds(_range, st.sampled_from((0, 1, 2.5)), st.sampled_from((1, 2, 300))),
    st.booleans().map(lambda flag: {"exists": flag}),
    st.just({"exists": False}),
    (_one_or_list(_strings) | _one_or_list(_numbers)).map(lambda left: {"anything-but": left}),
    st.builds(
        lambda name, left: {"anything-but": {name: left}},
        st.sampled_from(("prefix", "suffix", "equals-ignore-case")),
        _one_or_list(_some),
    ),
    _one_or_list(_wildcards).map(lambda left: {"anything-but": {"wildcard": left}}),
)
_LEAVES = st.lists(_ENTRIES, min_size=1, max_size=3)


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.dictionaries(st.sampled_from(_NAMES), inner | _LEAVES, min_size=1, max_size=3)
    ors = st.lists(
        st.dictionaries(st.sampled_from(_NAMES), inner | _LEAVES, min_size=1, max_size=2), min_size=2, max_size=3
    )
    return objects | st.builds(lambda item, alternatives: {**item, "$or": alternatives}, objects, ors)


_PATTERNS = st.recursive(
    st.dictionaries(st.sampled_from(_NAMES), _LEAVES, min_size=1, max_size=3), _grown, max_leaves=4
)
#: Values that entries of patterns are likely to ask about, alone and in lists.
_HELD = st.sampled_from(("x", "xy", "X", 1, 2, 300, 1.0, None, True, "10.0.0.1")) | _VALUES
_LISTED = st.lists(_HELD | st.lists(_HELD, max_size=2), max_size=3)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(_NAMES), inner, max_size=3)


def _nested(depth: int) -> st.SearchStrategy[Any]:
    """Objects in objects, and lists of them, with lists in lists here and there."""
    if depth == 0:
        return _HELD | _LISTED
    inside = _objects(_nested(depth - 1))
    return st.one_of(_HELD, _LISTED, inside, st.lists(inside | _HELD | st.lists(inside, max_size=2), max_size=3))


_EVENTS = _objects(_nested(2)) | _HELD
#: What is nested two levels deep and usually asks about values that are there.
_DEEP = st.dictionaries(
    st.sampled_from(_NAMES),
    st.dictionaries(
        st.sampled_from(_NAMES), st.lists(_HELD | _ENTRIES, min_size=1, max_size=3), min_size=1, max_size=2
    ),
    min_size=1,
    max_size=2,
)
_POLICIES = st.dictionaries(st.sampled_from(_NAMES), _LEAVES, min_size=1, max_size=3) | st.builds(
    lambda item, ors: {**item, "$or": ors},
    st.dictionaries(st.sampled_from(("a", "b")), _LEAVES, max_size=1),
    st.lists(st.dictionaries(st.just("c"), _LEAVES, min_size=1, max_size=1), min_size=2, max_size=3),
)


def _read(patterns: list[Any], dialect: str, limits: Limits) -> list[Filter]:
    """The filters that are legal; a member that is asked about twice is not."""
    found = []
    for pattern in patterns:
        try:
            found.append(parse(json.dumps(pattern), dialect, limits=limits))
        except FilterError as error:
            assert "asked about twice" in error.message or "combinations" in error.message
    return found


def _judge(filters: list[Filter], messages: list[Message], wanted: list[list[bool]]) -> None:
    """Both evaluators, alone and in one group, on a pickled copy, say what the plain reading does."""
    for item, row in zip(filters, wanted, strict=True):
        for message, expected in zip(messages, row, strict=True):
            assert evaluate(item, message) is expected, (item, message)
            assert trace(item, message).value is expected
    compiled = pickle.loads(pickle.dumps(FilterGroups([filters, filters[:1]])))  # noqa: S301  # our own
    rows = np.repeat(np.arange(len(messages)), 2)
    groups = np.tile(np.array([0, 1], np.int32), len(messages))
    selection = compiled.select(BatchView(to_batch(messages)), rows, groups)
    assert not selection.failed_error and not len(selection.troubled_pair)
    found = set(zip(selection.pair.tolist(), selection.member.tolist(), strict=True))
    expected = {
        (2 * row + group, member)
        for row in range(len(messages))
        for group, members in ((0, len(filters)), (1, 1))
        for member in range(members)
        if wanted[member][row]
    }
    assert found == expected
    assert len(selection.pair) == len(found)


@settings(max_examples=300)
@given(st.lists(_PATTERNS | _DEEP, min_size=1, max_size=6), st.lists(_EVENTS, min_size=1, max_size=5))
def test_patterns_fit_the_events_that_the_plain_reading_says(patterns: list[Any], events: list[Any]) -> None:
    filters = _read(patterns, "eventbridge", BODIES)
    messages = [Message.from_json({"body": json.dumps(event)}) for event in events]
    wanted = [[fits(_plain(item.text), _as_read(event)) for event in events] for item in filters]
    if filters:
        _judge(filters, messages, wanted)


@settings(max_examples=150)
@given(st.lists(_PATTERNS | _DEEP, min_size=1, max_size=4), st.lists(_EVENTS, min_size=1, max_size=5))
def test_policies_about_bodies_fit_what_the_plain_reading_says(policies: list[Any], events: list[Any]) -> None:
    stated = [{"FilterPolicyScope": "MessageBody", "FilterPolicy": policy} for policy in policies]
    filters = _read(stated, "sns", BODIES)
    messages = [Message.from_json({"body": json.dumps(event)}) for event in events]
    texts = [_plain(json.dumps(json.loads(item.text)["FilterPolicy"])) for item in filters]
    wanted = [[fits(text, _as_read(event), strict=False, empty=False) for event in events] for text in texts]
    if filters:
        _judge(filters, messages, wanted)


_PROPERTIES = st.dictionaries(
    st.sampled_from(_NAMES),
    st.sampled_from((*_TEXTS, *_NUMBERS[:-1], True))
    | st.lists(st.sampled_from((*_TEXTS, *_NUMBERS[:-1], True, None)), max_size=3).map(lambda items: {"list": items}),
)


@settings(max_examples=200)
@given(st.lists(_POLICIES, min_size=1, max_size=5), st.lists(_PROPERTIES, min_size=1, max_size=5))
def test_policies_about_properties_fit_what_the_plain_reading_says(policies: list[Any], headers: list[Any]) -> None:
    filters = _read(policies, "sns", Limits())
    messages = [Message.from_json({"application_properties": one}) for one in headers]
    plain = [
        {name: value["list"] if isinstance(value, dict) else value for name, value in one.items()} for one in headers
    ]
    wanted = [[fits(_plain(item.text), one, strict=False, empty=False) for one in plain] for item in filters]
    if filters:
        _judge(filters, messages, wanted)


def _plain(text: str) -> str:
    return json.dumps(_as_read(json.loads(text)))


def _as_read(event: Any) -> Any:
    """An integer beyond 64 bits is the nearest double (docs/filters.md, "The body")."""
    if isinstance(event, list):
        return [_as_read(item) for item in event]
    if isinstance(event, dict):
        return {name: _as_read(item) for name, item in event.items()}
    return float(event) if type(event) is int and abs(event) >= 2**63 else event


# -- rules of the sources ---------------------------------------------------------------------------------

#: aws/event-ruler, README, "Ruler by Example".
EVENT = {
    "version": "0",
    "detail-type": "EC2 Instance State-change Notification",
    "source": "aws.ec2",
    "time": "2017-10-02T16:24:49Z",
    "resources": ["arn:aws:ec2:us-east-1:123456789012:instance/i-000000aaaaaa00000"],
    "detail": {
        "c-count": 5,
        "d-count": 3,
        "x-limit": 301.8,
        "source-ip": "10.0.0.33",
        "instance-id": "i-000000aaaaaa00000",
        "state": "running",
    },
}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ({"detail-type": [EVENT["detail-type"]], "detail": {"state": ["initializing", "running"]}}, True),
        ({"resources": EVENT["resources"]}, True),
        ({"time": [{"prefix": "2017-10-02"}]}, True),
        ({"source": [{"suffix": "ec2"}]}, True),
        ({"source": [{"equals-ignore-case": "AWS.EC2"}]}, True),
        ({"source": [{"wildcard": "aws*2"}]}, True),
        ({"detail": {"state": [{"anything-but": "initializing"}]}}, True),
        ({"detail": {"state": [{"anything-but": ["running", "stopped"]}]}}, False),
        ({"detail": {"x-limit": [{"anything-but": [100, 200, 300]}]}}, True),
        ({"detail": {"c-count": [{"numeric": [">", 0, "<=", 5]}], "x-limit": [{"numeric": ["=", 3.018e2]}]}}, True),
        ({"detail": {"source-ip": [{"cidr": "10.0.0.0/24"}]}}, True),
        ({"detail": {"c-count": [{"exists": True}]}}, True),
        ({"detail": {"e-count": [{"exists": False}]}}, True),
        # `exists` looks at leaves alone
        ({"detail": [{"exists": True}]}, False),
        ({"detail": [{"exists": False}]}, True),
        # "$or": "source" && ("metricName" || ("metricType" && "namespace") || "scope")
        ({"source": ["aws.ec2"], "$or": [{"version": ["0"]}, {"scope": ["Service"]}]}, True),
        ({"source": ["aws.ec2"], "$or": [{"version": ["0"], "scope": ["Service"]}, {"scope": ["x"]}]}, False),
        # user guide, "Event patterns": numbers are compared as they are written
        ({"detail": {"c-count": [5]}}, True),
        ({"detail": {"c-count": [5.0]}}, False),
        ({"detail": {"c-count": [{"numeric": ["=", 5.0]}]}}, True),
        ({"detail": {"c-count": ["5"]}}, False),
    ],
)
def test_examples_of_the_sources(pattern: dict[str, Any], expected: bool) -> None:
    (item,) = _read([pattern], "eventbridge", BODIES)
    assert fits(item.text, EVENT) is expected
    _judge([item], [Message.from_json({"body": json.dumps(EVENT)})], [[expected]])


def test_members_of_an_element_are_asked_of_one_element() -> None:
    """aws/event-ruler, README, "JSON Array Matching"."""
    event = {"employees": [{"firstName": "Anna", "lastName": "Smith"}, {"firstName": "Peter", "lastName": "Jones"}]}
    message = Message.from_json({"body": json.dumps(event)})
    one = {"employees": {"firstName": ["Anna"], "lastName": ["Jones"]}}
    other = {"employees": {"firstName": ["Anna"], "lastName": ["Smith"]}}
    _judge(_read([one, other], "eventbridge", BODIES), [message], [[False], [True]])


def test_absence_is_asked_of_the_chosen_element_else_of_all() -> None:
    message = Message.from_json({"body": '{"a": [{"b": 1}, {"c": 1}]}'})
    chosen, alone = {"a": {"b": [1], "c": [{"exists": False}]}}, {"a": {"c": [{"exists": False}]}}
    _judge(_read([chosen, alone], "eventbridge", BODIES), [message], [[True], [False]])


def test_an_element_without_any_of_the_members_is_none_that_was_chosen() -> None:
    """Where no other part chooses an element, absence is asked of all of them."""
    pattern = {"a": {"x": [1, {"exists": False}], "y": [1, {"exists": False}]}}
    bodies = ('{"a": [{}, {"x": 2}]}', '{"a": [{}, {"z": 2}]}', '{"a": [{"x": 2}, {"x": 1}]}')
    (item,) = _read([pattern], "eventbridge", BODIES)
    _judge([item], [Message.from_json({"body": body}) for body in bodies], [[False, True, True]])


def test_elements_of_many_messages_are_kept_apart() -> None:
    """Each message has elements of its own, and they have members of their own."""
    pattern = {"a": {"b": {"c": ["x"], "d": [1]}}}
    fitting, other = {"b": [{"c": "x", "d": 2}, {"c": "x", "d": 1}]}, {"b": [{"c": "x"}, {"d": 1}]}
    events = [{"a": other}, {"a": [other, fitting]}, {}, {"a": [fitting, other]}, {"a": other}, {"a": [[fitting]]}]
    messages = [Message.from_json({"body": json.dumps(event)}) for event in events]
    _judge(_read([pattern], "eventbridge", BODIES), messages, [[False, True, False, True, False, True]])


def test_two_patterns_of_a_set_may_be_met_by_two_elements() -> None:
    """Ranges of one field are one interval where a message holds one value there, and not where it may hold many."""
    parts = [{"n": [{"numeric": ["<", 5]}]}, {"n": [{"numeric": [">", 3]}]}]
    raw = {str(n): {"descriptor": "aws:eventbridge-filter", "value": json.dumps(part)} for n, part in enumerate(parts)}
    item = parse_filter_set(raw, limits=FilterSetLimits(text=BODIES))
    bodies = ('{"n": [1, 9]}', '{"n": [1, 2]}', '{"n": 4}')
    _judge([item], [Message.from_json({"body": body}) for body in bodies], [[True, False, True]])


def test_a_body_that_cannot_be_read_is_trouble_whatever_is_asked() -> None:
    texts = ('{"a": [1]}', '{"a": [{"exists": false}]}', '{"a": {"b": [{"prefix": ""}]}}')
    filters = [parse(text, "eventbridge", limits=BODIES) for text in texts]
    messages = [Message.from_json({"body": "{"}), Message.from_json({"body": '{"a": 1}'}), Message()]
    for item in filters:
        assert evaluate(item, messages[0]) is None
        assert is_troubled(item, messages[0])
        assert trace(item, messages[0]).value is None
    selection = FilterGroups([filters]).select(BatchView(to_batch(messages)), np.arange(3), np.zeros(3, np.int32))
    assert list(zip(selection.pair.tolist(), selection.member.tolist(), strict=True)) == [(1, 0), (2, 1)]
    assert selection.troubled_pair.tolist() == [0, 0, 0]


def test_an_equality_leads_by_an_index_through_lists() -> None:
    filters = [parse(json.dumps({"a": [f"v{n}"]}), "eventbridge", limits=BODIES) for n in range(50)]
    ranges = [parse(json.dumps({"a": [{"prefix": f"p{n}"}]}), "eventbridge", limits=BODIES) for n in range(10, 60)]
    messages = [Message.from_json({"body": f'{{"a": ["v{n}", "p{n + 10}", "v{n}"]}}'}) for n in range(50)]
    compiled = FilterGroups([filters + ranges])
    rows, groups = np.arange(50), np.zeros(50, np.int32)
    view = BatchView(to_batch(messages))
    assert compiled.select(view, rows, groups).pair.tolist() == [n for n in range(50) for _ in range(2)]
    assert compiled.candidates(view, rows, groups) == 100


@pytest.mark.parametrize("prefix", ["", "p", "pz", "\U0010ffff", "p\U0010ffff"])
def test_a_prefix_leads_to_all_texts_that_begin_with_it(prefix: str) -> None:
    texts = [
        "",
        "o",
        "o\U0010ffff",
        "p",
        "pa",
        "pz",
        "pzz",
        "p\U0010ffff",
        "p\U0010ffffa",
        "q",
        "\U0010ffff",
        "\U0010ffffz",
    ]
    messages = [Message.from_json({"body": json.dumps({"a": [5, text]})}) for text in texts]
    pattern = {"a": [{"prefix": prefix}]}
    _judge(_read([pattern], "eventbridge", BODIES), messages, [[text.startswith(prefix) for text in texts]])


def test_a_list_of_very_many_elements_is_looked_at_in_portions() -> None:
    body = json.dumps({"a": [*range(60_000), "x"], "b": [1] * 30_000})
    message = Message.from_json({"body": body})
    texts = [json.dumps({"a": [{"suffix": f"{n}x"}, {"suffix": "x"}], "b": [{"anything-but": n}]}) for n in range(12)]
    filters = [parse(text, "eventbridge", limits=BODIES) for text in texts]
    compiled = FilterGroups([filters])
    found = compiled.select(BatchView(to_batch([message])), np.zeros(1, np.int64), np.zeros(1, np.int32))
    assert found.member.tolist() == [n for n in range(12) if n != 1]


@pytest.mark.parametrize("dialect", ["eventbridge", "sns"])
def test_descriptions_and_lint_take_patterns(dialect: str) -> None:
    item = parse('{"a": ["x", {"cidr": "10.0.0.0/8"}], "b-c": [{"exists": true}]}', dialect, limits=BODIES)
    shown = describe(item)
    place = "body." if dialect == "eventbridge" else ""
    assert shown["normal_form"].startswith(f"({place}a = 'x' OR {place}a IN NETWORK '10.0.0.0/8') AND ")
    assert len(shown["properties"]) == 2
    assert lint(item) == []


# -- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found", "message"),
    [
        ("", "", "ends too early"),
        ("[1]", "[1]", "a pattern is an object"),
        ("{}", "{}", "an empty object"),
        ('{"a": {}}', "{}", "an empty object"),
        ('{"a": []}', "[]", "an empty list"),
        ('{"a": [1], "a": [2]}', '"a"', "stands twice"),
        ('{"a": "x"}', '"x"', "is a list"),
        ('{"a": [[1]]}', "[1]", "a list in a list"),
        ('{"a": [{"prefx": "x"}]}', '"prefx"', "unknown operator 'prefx'"),
        ('{"a": [{"prefix": "x", "suffix": "y"}]}', '{"prefix": "x", "suffix": "y"}', "one name"),
        ('{"a": [{"prefix": 1}]}', "1", "takes a string"),
        ('{"a": [{"prefix": {"wildcard": "x"}}]}', '"wildcard"', "equals-ignore-case"),
        ('{"a": [{"exists": "yes"}]}', '"yes"', "true or false"),
        ('{"a": [{"numeric": [">"]}]}', '[">"]', "an operator and a number"),
        ('{"a": [{"numeric": ["<>", 1]}]}', '"<>"', "compares by"),
        ('{"a": [{"numeric": [">", "1"]}]}', '"1"', "a number behind"),
        ('{"a": [{"numeric": ["<", 1, ">", 0]}]}', '["<", 1, ">", 0]', "of two bounds"),
        ('{"a": [{"numeric": [">", 5, "<", 5]}]}', '[">", 5, "<", 5]', "no number"),
        ('{"a": [{"cidr": "10.0.0.0"}]}', '"10.0.0.0"', "no network"),
        ('{"a": [{"cidr": "10.0.0.0/33"}]}', '"10.0.0.0/33"', "no network"),
        ('{"a": [{"wildcard": "a**"}]}', '"a**"', "two wildcards"),
        ('{"a": [{"wildcard": "a\\\\b"}]}', '"a\\\\b"', "a backslash before 'b'"),
        ('{"a": [{"wildcard": "a\\\\"}]}', '"a\\\\"', "ends with a backslash"),
        ('{"a": [{"anything-but": []}]}', "[]", "an empty list"),
        ('{"a": [{"anything-but": [1, "x"]}]}', '[1, "x"]', "not both"),
        ('{"a": [{"anything-but": null}]}', "null", "strings or numbers"),
        ('{"a": [{"anything-but": {"prefix": ""}}]}', '""', "leaves nothing"),
        ('{"a": [{"anything-but": {"cidr": "::/0"}}]}', '"cidr"', "takes no 'cidr'"),
        ('{"$or": [{"a": [1]}]}', '[{"a": [1]}]', "two objects"),
        ('{"$or": [{"a": [1]}, 2]}', "2", "is an object"),
        ('{"$or": [{"prefix": [1]}, {"a": [1]}]}', '"prefix"', "reserved"),
        ('{"a": [1], "$or": [{"a": [2]}, {"b": [1]}]}', '"a"', "asked about twice"),
        ('{"a": [1e400]}', "1e400", "beyond the range"),
        ('{"a": [NaN]}', "NaN", "unexpected"),
        ('{"a": [01]}', "01", "unexpected"),
        ("{'a': [1]}", "'", "unexpected"),
        ('{"a": [1],}', "}", "unexpected"),
        ('{"a": [1]} x', "x", "unexpected"),
        ('{"a": ["\\ud800"]}', '"\\ud800"', "surrogate"),
        ('{"a": [' + "[" * 200, "[", "nested deeper"),
        ('{"a": [1', "", "ends too early"),
    ],
)
def test_what_is_no_pattern_is_refused_with_its_place(text: str, found: str, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text, "eventbridge", limits=BODIES)
    assert message in caught.value.message
    assert caught.value.found == found


def test_alternatives_are_bounded() -> None:
    three = [{name: [1]} for name in ("x", "y", "z")]
    most = {"$or": [{f"a{n}": [1]} for n in range(reading.COMBINATIONS)]}
    wide = Limits(payload=Payload("json"), tokens=20_000, characters=100_000)
    assert parse(json.dumps(most), "eventbridge", limits=wide)
    nested: dict[str, Any] = {f"m{n}": {"$or": three} for n in range(7)}
    with pytest.raises(FilterError, match="combinations of alternatives"):
        parse(json.dumps(nested), "eventbridge", limits=wide)


def test_members_that_may_be_absent_inside_each_other_are_bounded() -> None:
    pattern: dict[str, Any] = {"z": [1, {"exists": False}]}
    for _ in range(30):
        pattern = {"n": pattern, "x": [1, {"exists": False}]}
    with pytest.raises(FilterError, match=r"too many combinations|nested deeper"):
        parse(json.dumps(pattern), "eventbridge", limits=BODIES)


@given(st.text(alphabet='{}[]:,"abx$or exists1.-e\\tnul', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for dialect in ("eventbridge", "sns"):
        try:
            item = parse(text, dialect, limits=BODIES)
        except FilterError as error:
            assert 0 <= error.offset <= len(text)
        else:
            assert isinstance(json.loads(text), dict)
            assert evaluate(item, Message()) in (True, False)


def test_a_pattern_needs_bodies_with_members() -> None:
    with pytest.raises(FilterError, match="nobody says what bodies are"):
        parse('{"a": [1]}', "eventbridge")
    with pytest.raises(FilterError, match="has no members"):
        parse('{"a": [1]}', "eventbridge", limits=Limits(payload=Payload("text")))
    assert parse('{"a": [1]}', "sns")


@pytest.mark.parametrize(
    ("text", "found", "message"),
    [
        ('{"a": {"b": [1]}}', '{"b": [1]}', "properties have no members"),
        ('{"FilterPolicyScope": "Body", "FilterPolicy": {"a": [1]}}', '"Body"', "the scope is one of"),
        ('{"FilterPolicyScope": "MessageBody"}', '{"FilterPolicyScope": "MessageBody"}', "FilterPolicy is missing"),
        ('{"FilterPolicyScope": "MessageBody", "a": [1]}', '"a"', "unknown name"),
        ('{"FilterPolicyScope": "MessageBody", "FilterPolicy": {"a": [1]}}', "", "nobody says what bodies are"),
    ],
)
def test_a_policy_says_what_it_is_about(text: str, found: str, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text, "sns")
    assert message in caught.value.message
    assert caught.value.found == (found or text)


def test_the_scope_may_be_stated_for_attributes_too() -> None:
    item = parse('{"FilterPolicyScope": "MessageAttributes", "FilterPolicy": {"a": [1]}}', "sns")
    assert isinstance(item.expression, AnyElement)
    assert evaluate(item, Message.from_json({"application_properties": {"a": 1}})) is True
    # a member of this name that is asked about, as any other
    assert parse('{"FilterPolicyScope": ["x"]}', "sns")
