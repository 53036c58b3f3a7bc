"""Rules of declarations (AMQP 0-9-1 §3.1, seeds 003 and 004; how RabbitMQ refuses)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bindery.router.declarations import TopologyEditor
from bindery.router.definitions import as_entry
from bindery.router.errors import (
    AccessRefused,
    BinderyError,
    FilterError,
    InequivalentArgument,
    InUse,
    InvalidDeclaration,
    NotFound,
)
from bindery.router.model import (
    DEFAULT_VHOST,
    PREDECLARED,
    Binding,
    Divert,
    Exchange,
    Queue,
    Sequence,
    Topology,
    Vhost,
    object_key,
)
from bindery.router.values import Table, Timestamp


def exchange(name: str, kind: str = "fanout", **properties: object) -> Exchange:
    arguments = properties.pop("arguments", {})
    return Exchange(DEFAULT_VHOST, name, kind, arguments=Table(arguments), **properties)


def queue(name: str, **arguments: object) -> Queue:
    return Queue(DEFAULT_VHOST, name, arguments=Table({key.replace("_", "-"): v for key, v in arguments.items()}))


def binding(source: str, destination: str, key: str = "", kind: str = "queue", **arguments: object) -> Binding:
    table = Table({name.replace("_", "-"): value for name, value in arguments.items()})
    return Binding(0, DEFAULT_VHOST, source, destination, kind, key, table)


def divert(name: str, source: str, destination: str, **properties: object) -> Divert:
    return Divert(0, DEFAULT_VHOST, name, source, destination, **properties)


@pytest.fixture
def editor() -> TopologyEditor:
    """Exchanges x and y of type fanout, h of type headers, queues q and r, nothing bound."""
    editor = TopologyEditor(Topology.empty())
    for name in ("x", "y"):
        editor.declare_exchange(exchange(name))
    editor.declare_exchange(exchange("h", "headers"))
    for name in ("q", "r"):
        editor.declare_queue(queue(name))
    return editor


def names(editor: TopologyEditor, what: str) -> set[str]:
    return {key[-1] for key in getattr(editor.topology, what)}


def ends(editor: TopologyEditor) -> set[tuple[str, str]]:
    return {(b.source, b.destination) for b in editor.topology.bindings.values()}


# -- predeclared, default and reserved ---------------------------------------------------------------------


def test_every_vhost_starts_with_the_predeclared_exchanges() -> None:
    editor = TopologyEditor(Topology.empty())
    editor.declare_vhost(Vhost("v"))
    for vhost in ("/", "v"):
        found = {e.name: e.type for e in editor.topology.exchanges.values() if e.vhost == vhost}
        assert found == dict(PREDECLARED)
    assert all(e.durable and not e.auto_delete for e in editor.topology.exchanges.values())


@pytest.mark.parametrize("name", ["amq.direct", "amq.topic", "amq.fanout", "amq.match", "amq.headers"])
def test_a_predeclared_exchange_may_be_declared_again_as_it_is(editor: TopologyEditor, name: str) -> None:
    assert editor.declare_exchange(exchange(name, PREDECLARED[name])) is False
    with pytest.raises(InequivalentArgument):
        editor.declare_exchange(exchange(name, PREDECLARED[name], durable=False))
    with pytest.raises(InequivalentArgument):
        editor.declare_exchange(exchange(name, "direct" if name != "amq.direct" else "topic"), overwrite=True)


REFUSED: dict[str, tuple[type[BinderyError], Callable[[TopologyEditor], object]]] = {
    "declare the default exchange": (AccessRefused, lambda e: e.declare_exchange(exchange("", "direct"))),
    "declare a reserved exchange": (AccessRefused, lambda e: e.declare_exchange(exchange("amq.mine"))),
    "declare a reserved queue": (AccessRefused, lambda e: e.declare_queue(queue("amq.mine"))),
    "delete a reserved exchange": (AccessRefused, lambda e: e.delete_exchange("/", "amq.topic")),
    "delete the default exchange": (AccessRefused, lambda e: e.delete_exchange("/", "")),
    "bind the default exchange": (AccessRefused, lambda e: e.bind(binding("", "q", "q"))),
    "bind to the default exchange": (AccessRefused, lambda e: e.bind(binding("x", "", kind="exchange"))),
    "unbind the default exchange": (AccessRefused, lambda e: e.unbind(binding("", "q", "q"))),
    "divert from the default exchange": (AccessRefused, lambda e: e.declare_divert(divert("d", "", "x"))),
    "divert to the default exchange": (AccessRefused, lambda e: e.declare_divert(divert("d", "x", ""))),
    "bind from a missing exchange": (NotFound, lambda e: e.bind(binding("none", "q"))),
    "bind to a missing queue": (NotFound, lambda e: e.bind(binding("x", "none"))),
    "bind to a missing exchange": (NotFound, lambda e: e.bind(binding("x", "q", kind="exchange"))),
    "divert to a missing exchange": (NotFound, lambda e: e.declare_divert(divert("d", "x", "none"))),
    "delete a missing queue": (NotFound, lambda e: e.delete_queue("/", "none")),
    "use a missing vhost": (NotFound, lambda e: e.declare_queue(Queue("none", "q"))),
    "declare an unknown type": (InvalidDeclaration, lambda e: e.declare_exchange(exchange("z", "x-unknown"))),
    "declare an empty queue name": (InvalidDeclaration, lambda e: e.declare_queue(queue(""))),
    "a name of 256 bytes": (InvalidDeclaration, lambda e: e.declare_queue(queue("é" * 128))),
    "a key of 256 bytes": (InvalidDeclaration, lambda e: e.bind(binding("x", "q", "k" * 256))),
    "a lone surrogate": (InvalidDeclaration, lambda e: e.declare_queue(queue("\ud800"))),
    "an unknown x-match": (InvalidDeclaration, lambda e: e.bind(binding("h", "q", x_match="ALL"))),
    "a void x-match": (InvalidDeclaration, lambda e: e.bind(binding("h", "q", x_match=None))),
    "a malformed selector": (FilterError, lambda e: e.bind(binding("x", "q", x_filter_jms_selector="a ="))),
    "a selector that is no text": (InvalidDeclaration, lambda e: e.bind(binding("x", "q", x_filter_jms_selector=1))),
    "a malformed filter set": (
        FilterError,
        lambda e: e.bind(binding("x", "q", x_filters=Table({"f": Table({"descriptor": "none", "value": 1})}))),
    ),
    "a malformed queue filter": (FilterError, lambda e: e.declare_queue(queue("z", x_queue_filter="a ="))),
    "a malformed divert": (FilterError, lambda e: e.declare_divert(divert("d", "x", "y", filter="a ="))),
    "a replacement key that is no text": (
        InvalidDeclaration,
        lambda e: e.bind(binding("x", "y", kind="exchange", x_replacement_routing_key=1)),
    ),
    "an unknown unroutable behaviour": (
        InvalidDeclaration,
        lambda e: e.declare_exchange(exchange("z", arguments={"unroutable-message-behaviour": "reject"})),
    ),
    "an alternate exchange that is no name": (
        InvalidDeclaration,
        lambda e: e.declare_exchange(exchange("z", arguments={"alternate-exchange": 1})),
    ),
    "an alternate binding without destination": (
        InvalidDeclaration,
        lambda e: e.declare_exchange(exchange("z", arguments={"alternate-binding": Table()})),
    ),
    "another type": (InequivalentArgument, lambda e: e.declare_exchange(exchange("x", "direct"))),
    "another durability": (InequivalentArgument, lambda e: e.declare_queue(Queue("/", "q", durable=False))),
    "another argument": (InequivalentArgument, lambda e: e.declare_queue(queue("q", a=1))),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_declaration_changes_nothing(editor: TopologyEditor, what: str) -> None:
    error, declare = REFUSED[what]
    before = set(map(repr, editor.topology.objects()))
    with pytest.raises(error):
        declare(editor)
    assert set(map(repr, editor.topology.objects())) == before


@pytest.mark.parametrize("name", ["Amq.x", "abc.amq.x", "amq", "k" * 255])
def test_only_names_that_start_with_the_prefix_are_reserved(editor: TopologyEditor, name: str) -> None:
    assert editor.declare_exchange(exchange(name))
    assert editor.declare_queue(queue(name))


def test_an_alternate_may_be_declared_later(editor: TopologyEditor) -> None:
    assert editor.declare_exchange(exchange("z", arguments={"alternate-exchange": "later"}))


# -- identity ----------------------------------------------------------------------------------------------


def test_declaring_and_binding_again_is_idempotent(editor: TopologyEditor) -> None:
    first, new = editor.bind(binding("x", "q", "k", a=1, b=Table({"c": 1, "d": 2})))
    again, newer = editor.bind(binding("x", "q", "k", b=Table({"d": 2, "c": 1}), a=1))
    assert (new, newer) == (True, False)
    assert first == again
    assert editor.declare_queue(queue("q")) is False
    assert editor.declare_exchange(exchange("x")) is False


@pytest.mark.parametrize("other", [1.0, "1", True, Timestamp(1), b"1", None, (1,), Table({"a": 1})])
def test_arguments_of_another_type_make_another_binding(editor: TopologyEditor, other: object) -> None:
    editor.bind(binding("x", "q", a=1))
    assert editor.bind(binding("x", "q", a=other))[1]
    assert len(editor.topology.bindings) == 2


def test_queue_and_exchange_of_one_name_are_two_destinations(editor: TopologyEditor) -> None:
    editor.declare_queue(queue("y"))
    assert editor.bind(binding("x", "y"))[1]
    assert editor.bind(binding("x", "y", kind="exchange"))[1]


def test_ids_are_never_given_twice(editor: TopologyEditor) -> None:
    first, _ = editor.bind(binding("x", "q"))
    editor.unbind(first)
    second, _ = editor.bind(binding("x", "q"))
    third, _ = editor.declare_divert(divert("d", "x", "y"))
    assert first.id < second.id < third.id
    sequence = editor.changes[object_key(Sequence(0))]
    assert isinstance(sequence, Sequence)
    assert sequence.next_id == third.id + 1
    later = TopologyEditor(Topology.of(editor.topology.objects()))
    assert later.bind(binding("x", "r"))[0].id == third.id + 1


def test_queues_have_ids_of_their_own_and_a_queue_that_is_declared_again_gets_another(editor: TopologyEditor) -> None:
    queues = editor.topology.queues
    first = queues["/", "q"].id
    editor.bind(binding("x", "q"))
    editor.declare_queue(Queue("/", "q"))
    editor.declare_queue(Queue("/", "q", durable=False, id=77), overwrite=True)
    assert queues["/", "q"].id == editor.topology.queues["/", "q"].id == first, "it is the same queue"
    editor.delete_queue("/", "q")
    editor.declare_queue(Queue("/", "q"))
    again = editor.topology.queues["/", "q"].id
    assert again == max(queue.id for queue in editor.topology.queues.values()) > first
    assert editor.topology.next_queue_id == again + 1
    assert "id" in as_entry(editor.topology.queues["/", "q"]) and "id" not in as_entry(Queue("/", "q"))


def test_unbinding_needs_the_exact_identity(editor: TopologyEditor) -> None:
    editor.bind(binding("x", "q", "k", a=1))
    assert not editor.unbind(binding("x", "q", "k"))
    assert not editor.unbind(binding("x", "q", "k", a=1.0))
    assert editor.unbind(binding("x", "q", "k", a=1))
    assert editor.topology.bindings == {}


# -- deletion ----------------------------------------------------------------------------------------------


def test_deleting_an_exchange_takes_bindings_and_diverts_from_and_to_it(editor: TopologyEditor) -> None:
    editor.bind(binding("x", "q"))
    editor.bind(binding("y", "x", kind="exchange"))
    editor.bind(binding("y", "r"))
    editor.declare_divert(divert("from", "x", "y"))
    editor.declare_divert(divert("to", "y", "x"))
    editor.declare_divert(divert("other", "y", "h"))
    editor.delete_exchange("/", "x")
    assert ends(editor) == {("y", "r")}
    assert names(editor, "diverts") == {"other"}
    assert "x" not in names(editor, "exchanges")


def test_alternates_that_name_a_deleted_exchange_stay(editor: TopologyEditor) -> None:
    editor.declare_exchange(exchange("z", arguments={"alternate-exchange": "x"}))
    editor.delete_exchange("/", "x")
    assert editor.topology.exchange("/", "z").arguments["alternate-exchange"] == "x"


def test_an_exchange_in_use_can_be_kept(editor: TopologyEditor) -> None:
    editor.bind(binding("y", "x", kind="exchange"))
    editor.bind(binding("x", "q"))
    with pytest.raises(InUse):
        editor.delete_exchange("/", "x", if_unused=True)
    editor.unbind(binding("x", "q"))
    editor.delete_exchange("/", "x", if_unused=True)
    assert ends(editor) == set()


def test_auto_delete_follows_the_last_binding_from_the_exchange(editor: TopologyEditor) -> None:
    editor.declare_exchange(exchange("auto", auto_delete=True))
    editor.bind(binding("y", "auto", kind="exchange"))
    editor.unbind(binding("y", "auto", kind="exchange"))
    assert "auto" in names(editor, "exchanges"), "bindings to it play no part"
    editor.bind(binding("auto", "q"))
    editor.bind(binding("auto", "r"))
    editor.delete_queue("/", "q")
    assert "auto" in names(editor, "exchanges")
    editor.unbind(binding("auto", "r"))
    assert "auto" not in names(editor, "exchanges")


def test_auto_delete_cascades_through_a_cycle(editor: TopologyEditor) -> None:
    for name in ("a", "b", "c"):
        editor.declare_exchange(exchange(name, auto_delete=True))
    for source, destination in (("a", "b"), ("b", "c"), ("c", "a")):
        editor.bind(binding(source, destination, kind="exchange"))
    editor.delete_exchange("/", "b")
    assert names(editor, "exchanges") & {"a", "b", "c"} == set()
    assert editor.topology.bindings == {}


def test_deleting_a_vhost_takes_everything_in_it(editor: TopologyEditor) -> None:
    editor.declare_vhost(Vhost("v"))
    editor.declare_exchange(Exchange("v", "auto", "fanout", auto_delete=True))
    editor.declare_queue(Queue("v", "q"))
    editor.bind(Binding(0, "v", "auto", "q"))
    editor.declare_divert(Divert(0, "v", "d", "auto", "amq.fanout"))
    kept = {object_key(item) for item in editor.topology.objects() if getattr(item, "vhost", "/") == "/"}
    editor.delete_vhost("v")
    left = {object_key(item) for item in editor.topology.objects()}
    assert left == kept - {("vhost", "v", "")}
    assert editor.changes["exchange", "v", "auto"] is None


# -- editing -----------------------------------------------------------------------------------------------


def test_the_base_of_an_edit_never_changes(editor: TopologyEditor) -> None:
    base = editor.topology
    before = set(map(repr, base.objects()))
    later = TopologyEditor(base)
    later.bind(binding("x", "q"))
    later.declare_divert(divert("d", "x", "y"))
    later.delete_exchange("/", "x")
    later.delete_queue("/", "r")
    assert set(map(repr, base.objects())) == before
    assert base.bindings_from("/", "x") == []


def test_a_topology_is_its_objects(editor: TopologyEditor) -> None:
    editor.bind(binding("x", "q", a=None))
    editor.declare_divert(divert("d", "x", "y", exclusive=True, routing_key=""))
    rebuilt = Topology.of(reversed(list(editor.topology.objects())))
    assert set(map(repr, rebuilt.objects())) == set(map(repr, editor.topology.objects()))
    assert rebuilt.exchanges == editor.topology.exchanges
    assert not TopologyEditor(rebuilt).bind(binding("x", "q", a=None))[1]


def test_a_divert_declared_again_with_other_properties_is_refused(editor: TopologyEditor) -> None:
    stored, new = editor.declare_divert(divert("d", "x", "y", filter="a = 1"))
    assert new
    assert editor.declare_divert(divert("d", "x", "y", filter="a = 1")) == (stored, False)
    with pytest.raises(InequivalentArgument):
        editor.declare_divert(divert("d", "x", "y", filter="a = 2"))
    assert editor.declare_divert(divert("d", "x", "y", filter="a = 2"), overwrite=True)[0].id == stored.id
