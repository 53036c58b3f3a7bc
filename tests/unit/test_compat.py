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
from bindery.router.errors import InvalidDeclaration
from bindery.router.message import Message, to_batch
from bindery.router.model import DEFAULT_VHOST, Binding, Exchange, Queue, Topology, Vhost
from bindery.router.reference import NaiveRouter
from bindery.router.values import Table, Timestamp, Value
from bindery.store.objects import from_rows, to_rows
from tests.unit.engine.topologies import nested, scalars

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


@given(scalars | nested, scalars | nested, st.sampled_from(sorted(MODES)))
def test_keys_and_equal_values_say_the_same(wanted: Value, held: Value, mode: str) -> None:
    equality = equality_under(switches_of(mode))
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
