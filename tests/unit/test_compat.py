"""Compatibility modes: where one is stated, and the rule of each switch with its source (docs/compat.md)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.compat import MODES, SWITCHES, mode_named, switches_of
from bindery.router.declarations import TopologyEditor
from bindery.router.definitions import export, parse_definitions
from bindery.router.engine import Router
from bindery.router.equality import equality_under
from bindery.router.errors import FilterError, InvalidDeclaration
from bindery.router.filters import Filter, evaluate
from bindery.router.filters import parse as parse_filter
from bindery.router.filters.limits import DEFAULT_LIMITS
from bindery.router.filters.sets import DEFAULT_SET_LIMITS, parse_filter_set
from bindery.router.message import Message, to_batch
from bindery.router.model import DEFAULT_VHOST, Binding, Exchange, Queue, Topology, Vhost
from bindery.router.reference import NaiveRouter
from bindery.router.values import Table, Timestamp, Value
from bindery.store.objects import from_rows, to_rows
from tests.unit.engine.topologies import nested, scalars
from tests.unit.filters.judging import judge

ONE = Timestamp(1000)


def met(wanted: Value, held: Value, mode: str | None, *, form: str = "all") -> bool:
    """Whether a headers exchange under a mode takes a header for an argument."""
    editor = TopologyEditor(Topology.empty())
    editor.declare_vhost(Vhost(DEFAULT_VHOST, compat=mode))
    editor.declare_queue(Queue(DEFAULT_VHOST, "q"))
    editor.bind(Binding(0, DEFAULT_VHOST, "amq.headers", "q", "queue", "", Table({"x-match": form, "h": wanted})))
    return reached(editor.topology, Message(exchange="amq.headers", application_properties=Table({"h": held})))


def reached(topology: Topology, message: Message) -> bool:
    """Whether a message reaches a queue; engine and reference agree."""
    found = bool(Router.compile(topology, DEFAULT_VHOST).route(to_batch([message]), clock_ms=0).queue.size)
    assert found == bool(NaiveRouter(topology, DEFAULT_VHOST).route(message).queues)
    return found


# -- the switches of headers exchanges --------------------------------------------------------------------


@pytest.mark.parametrize("form", ["all", "any"])
@pytest.mark.parametrize(
    ("wanted", "held"),
    [(5, 5.0), (5.0, 5), (-0.0, 0), (1, ONE), (ONE, 1), (1.0, ONE), (ONE, ONE), (2**53, float(2**53))],
)
def test_rabbitmq_3_compares_numbers_by_value(wanted: Value, held: Value, form: str) -> None:
    """`PV == DV` in rabbit_exchange_type_headers of 3.8 to 3.12: Erlang's == takes 5 for 5.0."""
    assert met(wanted, held, "rabbitmq-3", form=form)
    if type(wanted) is not type(held):
        assert not met(wanted, held, None, form=form)


@pytest.mark.parametrize(
    ("wanted", "held"), [(2**53 + 1, float(2**53)), (1, True), (1, "1"), (1, 1.5), (1, Timestamp(1)), ((1,), (1.0,))]
)
def test_rabbitmq_3_compares_them_exactly_and_nothing_else_with_them(wanted: Value, held: Value) -> None:
    assert not met(wanted, held, "rabbitmq-3")


def test_rabbitmq_4_takes_the_timestamp_of_a_message_for_its_milliseconds() -> None:
    """mc_amqpl:routing_value/2 of 3.13 and later multiplies by 1000, the argument of a binding stays in seconds."""
    assert met(1000, ONE, "rabbitmq-4")
    assert met(ONE, 1, "rabbitmq-4")
    assert met(ONE, Timestamp(1), "rabbitmq-4")
    assert not met(ONE, ONE, "rabbitmq-4")
    assert not met(1, ONE, "rabbitmq-4")
    assert not met(1000.0, ONE, "rabbitmq-4")
    assert met(ONE, ONE, None)
    assert not met(1000, ONE, None)


@pytest.mark.parametrize("mode", ["rabbitmq-3", "rabbitmq-4"])
@pytest.mark.parametrize(("wanted", "held"), [("é", "é".encode()), (b"a", "a"), ("", b"")])
def test_rabbitmq_takes_a_string_for_the_binary_of_its_bytes(mode: str, wanted: Value, held: Value) -> None:
    """Both are binaries of Erlang."""
    assert met(wanted, held, mode)
    assert not met(wanted, held, None)
    assert not met((wanted,), (held,), mode), "inside lists and maps types count"


@pytest.mark.parametrize("mode", ["rabbitmq-3", "rabbitmq-4"])
def test_rabbitmq_compares_lists_and_maps_as_lists(mode: str) -> None:
    """A table is a list of its fields in order; an empty one is an empty list."""
    assert met((), Table(), mode)
    assert met(Table(), (), mode)
    assert not met((), Table(), None)
    assert not met(((),), (Table(),), mode), "inside lists and maps types count"
    one, other = Table({"a": 1, "b": 2}), Table({"b": 2, "a": 1})
    assert met(one, Table({"a": 1, "b": 2}), mode)
    assert not met(one, other, mode)
    assert met(one, other, None)


def bound(mode: str | None, key: str, arguments: dict[str, Value], sent: Message) -> bool:
    """Whether an exchange under a mode, that of the message, takes it along a binding."""
    editor = TopologyEditor(Topology.empty())
    editor.declare_vhost(Vhost(DEFAULT_VHOST, compat=mode))
    editor.declare_queue(Queue(DEFAULT_VHOST, "q"))
    editor.bind(Binding(0, DEFAULT_VHOST, sent.exchange, "q", "queue", key, Table(arguments)))
    return reached(editor.topology, sent)


def headers(**held: Value) -> Message:
    return Message(exchange="amq.headers", application_properties=Table(held))


def test_broker_j_matches_everything_with_any_of_nothing() -> None:
    """HeadersBinding.or(): `required.isEmpty()` and `matches.isEmpty()`."""
    for arguments in ({"x-match": "any"}, {"x-match": "any", "x-other": 1}):
        assert bound("broker-j-9", "", arguments, headers())
        assert not bound(None, "", arguments, headers())


def test_broker_j_takes_an_empty_text_for_presence() -> None:
    """HeadersBinding.initMappings(): `value == null || value.equals("")` is required."""
    assert bound("broker-j-9", "", {"h": ""}, headers(h=5))
    assert not bound("broker-j-9", "", {"h": ""}, headers())
    assert not bound(None, "", {"h": ""}, headers(h=5))


def test_broker_j_knows_no_forms_with_x() -> None:
    """HeadersBinding.isSpecial() and isAny(): every other form is all, names with x- or X- are no criteria."""
    assert bound("broker-j-9", "", {"x-match": "any-with-x", "x-a": 1}, headers())
    assert not bound("broker-j-9", "", {"x-match": "any-with-x", "a": 1, "b": 2}, headers(a=1))
    assert bound(None, "", {"x-match": "any-with-x", "a": 1, "b": 2}, headers(a=1))
    assert bound("broker-j-9", "", {"X-a": 1, "b": 2}, headers(b=2))
    assert not bound(None, "", {"X-a": 1, "b": 2}, headers(b=2))


@pytest.mark.parametrize(
    ("pattern", "key", "there", "here"),
    [
        ("a", "a.", True, False),
        ("a.", "a", True, False),
        ("a.*", "a.", False, True),
        ("a.b", "a.b...", True, False),
        ("*", "", True, False),
        ("", "", True, True),
        ("", ".", False, False),
        ("#", ".", True, True),
        (".a", ".a", True, True),
        ("*.a", ".a.", True, False),
        ("a..b", "a.*.b", False, False),
    ],
)
def test_broker_j_drops_empty_words_at_the_end(pattern: str, key: str, there: bool, here: bool) -> None:
    """TopicParser splits with Java's String.split, which drops empty texts at the end; of "" it makes one."""
    sent = Message(exchange="amq.topic", routing_key=key)
    assert bound("broker-j-9", pattern, {}, sent) is there
    assert bound(None, pattern, {}, sent) is here


def test_the_word_of_the_empty_key_is_no_word_that_anybody_can_write() -> None:
    assert not bound("broker-j-9", "", {}, Message(exchange="amq.topic", routing_key="\0" * 256))


# -- the switches of filters ------------------------------------------------------------------------------


def truth(text: str, mode: str | None, *, dialect: str = "jms", **held: Value) -> bool | None:
    """What a filter says of a message with these properties, under a mode."""
    one = read(text, mode, dialect)
    sent = Message(application_properties=Table(held))
    found = evaluate(one, sent)
    judge([[one]], [sent])
    return found


def read(text: str, mode: str | None, dialect: str) -> Filter:
    return parse_filter(text, dialect, limits=replace(DEFAULT_LIMITS, compat=mode))


SELECTORS = [
    # ComparisonExpression.createEqual of Broker-J: null = null is true, null = 1 false, <> is NOT of it
    ("broker-j-9", "jms", "a <> 1", {}, True, None),
    ("broker-j-9", "jms", "NOT a = 1", {}, True, None),
    ("broker-j-9", "jms", "a = b", {}, True, None),
    ("broker-j-9", "jms", "a <> 1", {"a": "x"}, True, False),
    ("broker-j-9", "jms", "a < 1", {}, None, None),
    # LogicExpression of Broker-J: from left to right
    ("broker-j-9", "jms", "NOT (a < 1 AND b = 1)", {"b": 2}, None, True),
    ("broker-j-9", "jms", "NOT (b = 1 AND a < 1)", {"b": 2}, True, True),
    ("broker-j-9", "jms", "NOT (a < 1 OR b = 1)", {"b": 2}, True, None),
    ("broker-j-9", "jms", "NOT (b = 1 OR a < 1)", {"b": 2}, None, None),
    ("broker-j-9", "jms", "NOT (a BETWEEN b AND 3)", {"a": 5}, None, True),
    # ArithmeticExpression.divide of both: doubles
    ("broker-j-9", "jms", "a / 4 = 4.25", {"a": 17}, True, False),
    ("artemis-2", "artemis", "a / 2 = 3.5", {"a": 7}, True, False),
    # UnaryExpression.createBooleanCast of both: what is no boolean is false
    ("broker-j-9", "apache-selector", "NOT a", {"a": "x"}, True, None),
    ("artemis-2", "artemis", "NOT a", {"a": 5}, True, None),
    ("artemis-2", "artemis", "NOT a", {}, None, None),
    # UnaryExpression.createInExpression of both: null for what is no String
    ("broker-j-9", "jms", "a NOT IN ('x')", {"a": 5}, None, True),
    ("artemis-2", "artemis", "a NOT IN ('x')", {"a": 5}, None, True),
    # ComparisonExpression.createEqual of Artemis: null = null is true; null on the right alone is false
    ("artemis-2", "artemis", "a = b", {}, True, None),
    ("artemis-2", "artemis", "a <> b", {"a": 1}, True, None),
    ("artemis-2", "artemis", "a <> b", {"b": 1}, None, None),
    ("artemis-2", "artemis", "a <> 1", {"a": "x"}, True, False),
    # unaryExpr of Artemis's StrictParser.jj: NOT before comparison
    ("artemis-2", "artemis", "NOT a = TRUE", {"a": 5}, True, True),
    ("artemis-2", "artemis", "NOT a = 1", {"a": True}, False, True),
    ("artemis-2", "artemis", "NOT a = 1", {"a": 2}, False, True),
    ("artemis-2", "artemis", "NOT (a = 1)", {"a": 2}, True, True),
    ("artemis-2", "artemis", "NOT a LIKE 'x'", {"a": "y"}, False, True),
    ("artemis-2", "artemis", "NOT a IS NULL", {"a": True}, False, True),
    ("artemis-2", "artemis", "a NOT LIKE 'x'", {"a": "y"}, True, True),
    # compare/3 of rabbit_amqp_filter_sql: `/=` of whatever is there
    ("rabbitmq-4", "amqp-sql", "a <> 1", {"a": "x"}, True, False),
    ("rabbitmq-4", "amqp-sql", "a <> 1", {}, None, None),
    ("rabbitmq-4", "amqp-sql", "a = 0x78", {"a": "x"}, True, False),
    ("rabbitmq-4", "amqp-sql", "a = 1.0", {"a": 1}, True, True),
    # is_in/3: undefined == Value is false
    ("rabbitmq-4", "amqp-sql", "a NOT IN (1, b)", {"a": 2}, True, None),
    ("rabbitmq-4", "amqp-sql", "a NOT IN (1, NULL)", {"a": 1}, False, False),
    ("rabbitmq-4", "amqp-sql", "a IN ('x')", {"a": b"x"}, True, False),
    ("rabbitmq-4", "amqp-sql", "a NOT IN (1)", {}, None, None),
    # eval0({'like', …}): undefined for what is no binary
    ("rabbitmq-4", "amqp-sql", "a NOT LIKE 'x%'", {"a": 5}, None, True),
    ("rabbitmq-4", "amqp-sql", "a LIKE 'x%'", {"a": "xy"}, True, True),
]


@pytest.mark.parametrize(("mode", "dialect", "text", "held", "there", "here"), SELECTORS)
def test_a_filter_says_what_the_broker_says(
    mode: str, dialect: str, text: str, held: dict[str, Value], there: bool | None, here: bool | None
) -> None:
    assert truth(text, mode, dialect=dialect, **held) is there
    assert truth(text, None, dialect=dialect, **held) is here


@pytest.mark.parametrize("text", ["NOT a > 1", "NOT a BETWEEN 1 AND 2", "NOT a IN ('x')"])
def test_what_artemis_refuses_since_not_binds_so_tightly_is_refused_in_its_mode(text: str) -> None:
    read(text, None, "artemis")
    with pytest.raises(FilterError):
        read(text, "artemis-2", "artemis")


def test_the_modes_of_one_language_leave_the_others_alone() -> None:
    for mode in MODES:
        for dialect in ("cesql", "service-bus"):
            assert read("a = 1", mode, dialect).expression == read("a = 1", None, dialect).expression
    assert read("a <> 1", "rabbitmq-4", "jms").expression == read("a <> 1", None, "jms").expression
    assert read("a <> 1", "rabbitmq-3", "amqp-sql").expression == read("a <> 1", None, "amqp-sql").expression


def accepts(mode: str | None, reference: object, held: Value) -> bool:
    """Whether an application-properties filter takes a property under a mode."""
    raw = {"f": {"descriptor": "amqp:application-properties-filter", "value": {"a": reference}}}
    limits = replace(DEFAULT_SET_LIMITS, text=replace(DEFAULT_LIMITS, compat=mode))
    one, sent = parse_filter_set(raw, limits=limits), Message(application_properties=Table({"a": held}))
    judge([[one]], [sent])
    return evaluate(one, sent) is True


@pytest.mark.parametrize(
    ("reference", "held"),
    [(10, 10.0), (10.0, 10), ({"timestamp": 10}, 10), (10, Timestamp(10)), ({"binary": "61"}, "a"), ("a", b"a")],
)
def test_property_filters_of_rabbitmq_4_compare_values(reference: object, held: Value) -> None:
    """match_simple_type/2 of rabbit_amqp_filter_prop: `RefVal == Val` of values without their types."""
    assert accepts("rabbitmq-4", reference, held)
    assert not accepts(None, reference, held)
    assert not accepts("rabbitmq-3", reference, held)


def test_modifiers_of_rabbitmq_4_look_at_case() -> None:
    """parse_string_modifier_prefix/1 of rabbit_amqp_filter_prop, after working draft 9."""
    assert accepts("rabbitmq-4", "&p:ab", "abc")
    assert not accepts("rabbitmq-4", "&p:AB", "abc")
    assert accepts(None, "&p:AB", "abc")
    assert not accepts("rabbitmq-4", "&s:BC", "abc")
    assert accepts("rabbitmq-4", "&&p:x", "&p:x")


# -- keys of headers --------------------------------------------------------------------------------------


@given(scalars | nested, scalars | nested, st.sampled_from(sorted(MODES)))
def test_keys_and_equal_values_say_the_same(wanted: Value, held: Value, mode: str) -> None:
    equality = equality_under(switches_of(mode))
    if wanted == "" and mode == "broker-j-9":
        return  # asks for presence, not for equality
    equal = equality.equal(wanted, held)
    assert equal == met(wanted, held, mode)
    assert all(equality.equal(wanted, one) for one in equality.alike(wanted) if one == one)  # noqa: PLR0124  # NaN


# -- where a mode is stated -------------------------------------------------------------------------------


def test_every_switch_is_in_a_mode_and_every_mode_names_switches() -> None:
    assert set(SWITCHES) == {name for mode in MODES.values() for name in mode.switches}
    assert all(mode.switches for mode in MODES.values())


def test_an_exchange_may_state_another_mode_than_its_vhost() -> None:
    editor = TopologyEditor(Topology.empty())
    editor.declare_vhost(Vhost(DEFAULT_VHOST, compat="rabbitmq-3"))
    for name, stated in (("own", "specification"), ("same", None), ("other", "rabbitmq-4")):
        arguments = Table() if stated is None else Table({"x-compat": stated})
        editor.declare_exchange(Exchange(DEFAULT_VHOST, name, "headers", arguments=arguments))
        editor.declare_queue(Queue(DEFAULT_VHOST, name))
        editor.bind(Binding(0, DEFAULT_VHOST, name, name, "queue", "", Table({"h": 5})))
    sent = {name: Message(exchange=name, application_properties=Table({"h": 5.0})) for name in ("own", "same", "other")}
    assert {name: reached(editor.topology, message) for name, message in sent.items()} == {
        "own": False,
        "same": True,
        "other": False,
    }


@pytest.mark.parametrize("stated", ["rabbitmq-33", "rabbit", "", 3])
def test_a_mode_that_is_none_is_refused_with_a_hint(stated: object) -> None:
    editor = TopologyEditor(Topology.empty())
    with pytest.raises(InvalidDeclaration) as refused:
        editor.declare_exchange(Exchange(DEFAULT_VHOST, "x", "headers", arguments=Table({"x-compat": stated})))
    assert "x-compat" in str(refused.value.where)
    if isinstance(stated, str):
        with pytest.raises(InvalidDeclaration):
            editor.declare_vhost(Vhost("v", compat=stated))
    with pytest.raises(InvalidDeclaration) as unknown:
        mode_named("rabbitmq-33")
    assert unknown.value.hint == "did you mean 'rabbitmq-3'?"


def test_a_vhost_keeps_its_mode_until_another_or_none_is_stated() -> None:
    editor = TopologyEditor(Topology.empty())
    editor.declare_vhost(Vhost(DEFAULT_VHOST, compat="rabbitmq-3"))
    editor.declare_vhost(Vhost(DEFAULT_VHOST, description="an import that knows no modes"))
    assert editor.topology.vhosts[DEFAULT_VHOST].compat == "rabbitmq-3"
    editor.declare_vhost(Vhost(DEFAULT_VHOST, compat="specification"))
    assert editor.topology.vhosts[DEFAULT_VHOST].compat is None


def test_a_mode_is_stored_exported_and_imported() -> None:
    vhost = Vhost("v", description="d", compat="rabbitmq-3")
    assert from_rows(to_rows([vhost])) == [vhost]
    old = to_rows([replace(vhost, compat=None)]).drop_columns(["compat"])
    assert from_rows(old) == [replace(vhost, compat=None)]
    document = export(Topology.of([Vhost(DEFAULT_VHOST), vhost]))
    assert [entry.get("compat") for entry in document["vhosts"]] == [None, "rabbitmq-3"]
    assert vhost in [entry.item for entry in parse_definitions(document).entries]


def test_a_mode_under_which_a_filter_could_not_be_read_is_refused() -> None:
    editor = TopologyEditor(Topology.empty())
    editor.declare_queue(Queue(DEFAULT_VHOST, "q", arguments=Table({"x-queue-filter": "NOT a > 1"})))
    with pytest.raises(FilterError) as refused:
        editor.declare_vhost(Vhost(DEFAULT_VHOST, compat="artemis-2"))
    assert "queue 'q'" in str(refused.value.where)
    assert editor.topology.vhosts[DEFAULT_VHOST].compat is None
    editor.declare_vhost(Vhost(DEFAULT_VHOST, compat="broker-j-9"))


def test_filters_of_a_vhost_follow_its_mode() -> None:
    editor = TopologyEditor(Topology.empty())
    editor.declare_vhost(Vhost(DEFAULT_VHOST, compat="broker-j-9"))
    editor.declare_queue(Queue(DEFAULT_VHOST, "filtered", arguments=Table({"x-queue-filter": "a <> 1"})))
    editor.declare_queue(
        Queue(DEFAULT_VHOST, "not", arguments=Table({"x-queue-filter": "a <> 1", "x-compat": "specification"}))
    )
    editor.declare_queue(Queue(DEFAULT_VHOST, "bound"))
    for name, arguments in (("filtered", {}), ("not", {}), ("bound", {"x-filter-jms-selector": "a <> 1"})):
        editor.bind(Binding(0, DEFAULT_VHOST, "amq.fanout", name, "queue", "", Table(arguments)))
    router = Router.compile(editor.topology, DEFAULT_VHOST)
    found = router.route(to_batch([Message(exchange="amq.fanout")]), clock_ms=0)
    assert {router.queues[number] for number in found.queue.tolist()} == {"filtered", "bound"}


@pytest.mark.parametrize("selector", [True, False])
@pytest.mark.parametrize(
    ("vhost", "exchange", "binding", "there"),
    [
        (None, None, "artemis-2", True),
        ("artemis-2", None, "specification", False),
        ("artemis-2", "specification", "artemis-2", True),
        (None, "artemis-2", "specification", False),
        (None, "broker-j-9", None, True),
        (None, None, None, False),
    ],
)
def test_a_binding_may_state_the_mode_of_its_filters(
    vhost: str | None, exchange: str | None, binding: str | None, there: bool, selector: bool
) -> None:
    """`7 / 2 > 3` truncates in JMS (Java's promotion, JMS 2.0 §3.8.1.3), and does not in Artemis and Broker-J."""
    text = "a / 2 > 3"
    stated: dict[str, Value] = {} if binding is None else {"x-compat": binding}
    if selector:
        stated["x-filter-jms-selector"] = text
    else:
        filters = Table({"descriptor": "apache.org:selector-filter:string", "value": text})
        stated["x-filters"] = Table({"f": filters})
    editor = TopologyEditor(Topology.empty())
    editor.declare_vhost(Vhost(DEFAULT_VHOST, compat=vhost))
    arguments = Table({} if exchange is None else {"x-compat": exchange})
    editor.declare_exchange(Exchange(DEFAULT_VHOST, "e", "fanout", arguments=arguments))
    editor.declare_queue(Queue(DEFAULT_VHOST, "q"))
    editor.bind(Binding(0, DEFAULT_VHOST, "e", "q", "queue", "", Table(stated)))
    assert reached(editor.topology, Message(exchange="e", application_properties=Table({"a": 7}))) is there


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"x-compat": "artemis-2"}, "of a binding without a filter"),
        ({"x-compat": "artemis2", "x-filter-jms-selector": "a = 1"}, "no compatibility mode 'artemis2'"),
        ({"x-compat": 2, "x-filter-jms-selector": "a = 1"}, "argument 'x-compat' is 2"),
    ],
)
def test_a_mode_of_a_binding_that_nothing_follows_is_refused(stated: dict[str, Value], said: str) -> None:
    editor = TopologyEditor(Topology.empty())
    editor.declare_queue(Queue(DEFAULT_VHOST, "q"))
    with pytest.raises(InvalidDeclaration, match=said):
        editor.bind(Binding(0, DEFAULT_VHOST, "amq.headers", "q", "queue", "", Table(stated)))
