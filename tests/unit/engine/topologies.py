"""Hypothesis strategies for topologies and messages in which names, keys and headers often meet."""

from __future__ import annotations

from hypothesis import strategies as st

from bindery.router.compat import MODES, SPECIFICATION
from bindery.router.declarations import TopologyEditor
from bindery.router.errors import BinderyError
from bindery.router.message import Message
from bindery.router.model import DEFAULT_VHOST, EXCHANGE_TYPES, Binding, Divert, Exchange, Queue, Topology, Vhost
from bindery.router.values import Table, Timestamp

EXCHANGES = tuple("ABCDEF")
QUEUES = ("p", "q", "r", "s", "A")  # a queue may share its name with an exchange
PREDECLARED = ("", "amq.direct", "amq.fanout", "amq.topic", "amq.match")

words = st.sampled_from(["a", "b", "*", "#", "", "a#", "é"])
keys = st.lists(words, max_size=4).map(".".join) | st.sampled_from(["p", "q", "a", "a.b", ""])
scalars = st.sampled_from(
    [
        *[1, 2, 1.0, 0.0, -0.0, float("nan"), "1", "x", "", True, False, Timestamp(1), b"1", b"x", 2**53, 2**53 + 1],
        *[Timestamp(1000), 1000, 1.5, float(2**53)],
    ]
)
nested = st.sampled_from(
    [
        *[(), (1,), (1.0,), (None,), Table({"k": 1}), Table({"k": None}), Table(), (Table({"k": (1,)}),)],
        *[Table({"k": 1, "l": 2}), Table({"l": 2, "k": 1})],
        *[(Table({"k": (), "l": "x"}),), (Table({"l": "x", "k": ()}),)],
    ]
)
headers = st.sampled_from(["h", "i", "x-h", "ü"])
selectors = st.sampled_from(
    ["h = 1", "h = 'x' OR i > 1", "h IS NULL", "NOT (i = 1)", "h / 0 = 1", "JMSPriority > 4", ""]
)
filter_sets = st.sampled_from(
    [
        Table({"f": Table({"descriptor": "amqp:sql-filter", "value": "a.h = 1 OR a.i < 2"})}),
        Table({"f": Table({"descriptor": "apache.org:no-local-filter:list", "value": ()})}),
        Table({"f": Table({"descriptor": "amqp:application-properties-filter", "value": Table({"h": 1})})}),
    ]
)
artemis = st.sampled_from(["h = 1", "i IS NOT NULL", "AMQPriority > 4", "AMQAddress = 'A'", ""])

#: The mode of a vhost, one time in two, and now and then that of an exchange or queue.
modes = st.none() | st.sampled_from(sorted(MODES))
stated_modes = st.sampled_from([{}, {}, {}, *({"x-compat": name} for name in (*sorted(MODES), SPECIFICATION))])

weights = st.sampled_from(["1", "2", "+3", "007", "40"])
hashed = st.sampled_from(
    [{}, {"hash-header": "h"}, {"hash-header": "missing"}]
    + [{"hash-property": name} for name in ("message_id", "correlation_id", "timestamp")]
)


@st.composite
def exchange_arguments(draw: st.DrawFn) -> Table:
    arguments = {}
    if draw(st.integers(0, 2)) == 0:
        arguments["alternate-exchange"] = draw(st.sampled_from([*EXCHANGES, "missing", ""]))
    if draw(st.integers(0, 2)) == 0:
        arguments["alternate-binding"] = Table({"destination": draw(st.sampled_from([*EXCHANGES, *QUEUES, "missing"]))})
    if draw(st.integers(0, 3)) == 0:
        arguments["unroutable-message-behaviour"] = draw(st.sampled_from(["DISCARD", "REJECT"]))
        arguments["x-record-unroutable"] = draw(st.booleans())
    return Table(arguments)


@st.composite
def binding_arguments(draw: st.DrawFn) -> Table:
    arguments = {}
    if draw(st.booleans()):
        arguments["x-match"] = draw(st.sampled_from(["all", "any", "all-with-x", "any-with-x"]))
    arguments |= draw(st.dictionaries(headers, scalars | nested | st.none(), max_size=3))
    if draw(st.integers(0, 3)) == 0:
        arguments["x-filter-jms-selector"] = draw(selectors)
    if draw(st.integers(0, 4)) == 0:
        arguments["x-filters"] = draw(filter_sets)
    if draw(st.integers(0, 3)) == 0:
        arguments["x-replacement-routing-key"] = draw(keys)
    return Table(arguments)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """A topology of a few exchanges and queues with many ways between them, under any compatibility mode."""
    editor = TopologyEditor(Topology.empty())
    editor.declare_vhost(Vhost(DEFAULT_VHOST, compat=draw(modes)))
    exchanges = list(PREDECLARED[1:])
    for name in EXCHANGES[: draw(st.integers(1, len(EXCHANGES)))]:
        kind = draw(st.sampled_from(EXCHANGE_TYPES))
        internal = draw(st.integers(0, 5)) == 0
        arguments = Table({**draw(exchange_arguments()), **draw(stated_modes)})
        if kind == "x-consistent-hash":
            arguments = Table({**arguments, **draw(hashed)})
        editor.declare_exchange(Exchange(DEFAULT_VHOST, name, kind, internal=internal, arguments=arguments))
        exchanges += [name] * 3
    for name in QUEUES[: draw(st.integers(1, len(QUEUES)))]:
        arguments = draw(stated_modes)
        if draw(st.integers(0, 3)) == 0:
            arguments = {**arguments, "x-queue-filter": draw(artemis)}
        if draw(st.integers(0, 3)) == 0:
            arguments = {**arguments, "x-owner-connection": "c1"}
        editor.declare_queue(Queue(DEFAULT_VHOST, name, arguments=Table(arguments)))
    queues = [name for _, name in editor.topology.queues]
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["queue", "queue", "exchange"]))
        destination = draw(st.sampled_from(queues if kind == "queue" else exchanges))
        source = draw(st.sampled_from(exchanges))
        weighed = editor.topology.exchange(DEFAULT_VHOST, source).type == "x-consistent-hash"
        editor.bind(
            Binding(
                0,
                DEFAULT_VHOST,
                source,
                destination,
                kind,
                draw(weights if weighed else keys),
                draw(binding_arguments()),
            )
        )
    for number in range(draw(st.sampled_from([0, 0, 1, 3]))):
        editor.declare_divert(
            Divert(
                0,
                DEFAULT_VHOST,
                f"d{number}",
                draw(st.sampled_from(exchanges)),
                draw(st.sampled_from(exchanges)),
                draw(artemis),
                draw(st.booleans()),
                draw(st.none() | keys),
            )
        )
    if draw(st.integers(0, 5)) == 0 and len(exchanges) > len(PREDECLARED):
        try:
            editor.delete_exchange(DEFAULT_VHOST, exchanges[-1])
        except BinderyError as error:
            raise AssertionError("a declared exchange can be deleted") from error
    return editor.topology


messages = st.builds(
    Message,
    exchange=st.sampled_from([*EXCHANGES[:3], *EXCHANGES, *PREDECLARED, "missing"]),
    routing_key=keys,
    cc=st.just(()) | st.lists(keys, max_size=2).map(tuple),
    bcc=st.just(()) | st.lists(keys, max_size=1).map(tuple),
    mandatory=st.booleans(),
    reject_unroutable=st.booleans(),
    connection=st.sampled_from([None, "c1", "c2"]),
    header=st.fixed_dictionaries({}, optional={"priority": st.integers(0, 9)}),
    properties=st.fixed_dictionaries(
        {},
        optional={
            "message_id": st.sampled_from(["m", "", "é", 5, b"m"]),
            "correlation_id": st.sampled_from(["c", "d"]),
            "creation_time": st.sampled_from([Timestamp(1), Timestamp(1999), Timestamp(-1)]),
        },
    ),
    application_properties=st.dictionaries(headers, scalars | nested | st.none(), max_size=4).map(Table),
)


@st.composite
def mazes(draw: st.DrawFn) -> Topology:
    """A topology with many ways between exchanges, alternates above all, and few that end in a queue."""
    editor = TopologyEditor(Topology.empty())
    names = EXCHANGES[: draw(st.integers(2, len(EXCHANGES)))]
    targets = st.sampled_from([*names, "p", "q"])
    for name in names:
        arguments = {}
        if draw(st.integers(0, 2)):
            arguments["alternate-binding"] = Table({"destination": draw(targets)})
        if draw(st.integers(0, 3)) == 0:
            arguments["alternate-exchange"] = draw(st.sampled_from(names))
        kind = draw(st.sampled_from(["fanout", "direct"]))
        editor.declare_exchange(Exchange(DEFAULT_VHOST, name, kind, arguments=Table(arguments)))
    for name in ("p", "q"):
        arguments = {"x-queue-filter": "h = 1"} if draw(st.integers(0, 2)) == 0 else {}
        editor.declare_queue(Queue(DEFAULT_VHOST, name, arguments=Table(arguments)))
    exchanges, maze_keys = st.sampled_from(names), st.sampled_from(["a", "b"])
    for _ in range(draw(st.integers(1, 8))):
        new_key = draw(st.none() | maze_keys)
        arguments = {} if new_key is None else {"x-replacement-routing-key": new_key}
        editor.bind(
            Binding(0, DEFAULT_VHOST, draw(exchanges), draw(exchanges), "exchange", draw(maze_keys), Table(arguments))
        )
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        editor.bind(Binding(0, DEFAULT_VHOST, draw(exchanges), draw(st.sampled_from("pq")), "queue", draw(maze_keys)))
    if draw(st.integers(0, 3)) == 0:
        source, destination = draw(exchanges), draw(exchanges)
        editor.declare_divert(Divert(0, DEFAULT_VHOST, "d", source, destination, "h = 1", draw(st.booleans())))
    return editor.topology


maze_messages = st.builds(
    Message,
    exchange=st.sampled_from(EXCHANGES),
    routing_key=st.sampled_from(["a", "b"]),
    cc=st.sampled_from([(), ("a",), ("b",)]),
    application_properties=st.sampled_from([Table(), Table({"h": 1})]),
)
