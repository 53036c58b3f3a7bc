"""Messages that transformations change on their way (docs/transform.md): the engine against the naive router."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.declarations import TopologyEditor
from bindery.router.engine import REASONS, Deliveries, Router
from bindery.router.engine.forms import MOST_FORMS
from bindery.router.message import Message, from_batch, to_batch
from bindery.router.model import DEFAULT_VHOST, TRANSFORM, Binding, Divert, Exchange, Queue, Topology
from bindery.router.reference import MOST_FORMS as OF_REFERENCE
from bindery.router.reference import NaiveRouter
from bindery.router.transforms import content_of
from bindery.router.values import Table
from tests.examples import examples
from tests.unit.engine.topologies import maze_messages, mazes, messages, topologies

#: Statements that make filters behind them see something else, that end up in the same content, and that never do.
TRANSFORMS = (
    "SET h = 1",
    "SET h = 2",
    "REMOVE h",
    "SET h = 1; SET p.subject = 'seen'",
    "RENAME h TO g",
    "RENAME g TO h",
    "SET n = 1",
    "SET n = n + 1",
    "SET s = s + 'x'; SET m.[x-opt] = 1",
    "service-bus:SET H = 1",
    "SET p.subject = h",
)


@st.composite
def transforming(draw: st.DrawFn, base: st.SearchStrategy[Topology]) -> Topology:
    """A topology some of whose bindings and diverts change messages, beside or in place of what they were."""
    topology = draw(base)
    editor = TopologyEditor(Topology.empty())
    exchanges, queues, bindings, diverts = topology.in_vhost(DEFAULT_VHOST)
    for exchange in exchanges:
        if exchange.name and not exchange.name.startswith("amq."):
            editor.declare_exchange(exchange)
    for queue in queues:
        editor.declare_queue(queue)
    some = st.none() | st.sampled_from(TRANSFORMS)
    for binding in bindings:
        for text in draw(st.lists(some, min_size=1, max_size=2, unique=True)):
            more = {} if text is None else {TRANSFORM: text}
            editor.bind(replace(binding, arguments=Table({**binding.arguments, **more})))
    for divert in diverts:
        editor.declare_divert(replace(divert, transform=draw(some) or ""))
    return editor.topology


def copies_of(router: Router, found: Deliveries, batch: pa.RecordBatch) -> list[set[tuple[str, str]]]:
    """Per message its copies, as queue and content, from the rows that are written."""
    whole = batch if found.forms is None else found.forms.behind(batch)
    contents = [content_of(message) for message in from_batch(whole)]
    copies: list[set[tuple[str, str]]] = [set() for _ in range(batch.num_rows)]
    for place, queue in enumerate(found.queue.tolist()):
        part = slice(found.offsets[place], found.offsets[place + 1])
        rows, written = found.rows[part].tolist(), found.written[part].tolist()
        assert rows == sorted(rows)
        assert len(set(written)) == len(written)
        for row, copy in zip(rows, written, strict=True):
            assert row == (copy if copy < batch.num_rows else found.forms.message[copy - batch.num_rows])  # type: ignore[union-attr]  # such a row is one of forms
            one = (router.queues[queue], contents[copy])
            assert one not in copies[row], "one copy of each content"
            copies[row].add(one)
            assert queue in found.reached[copy].as_py()
    assert sum(map(len, found.reached.to_pylist())) == len(found.rows)
    return copies


def check(topology: Topology, batch: list[Message]) -> None:
    router, naive = Router.compile(topology, DEFAULT_VHOST), NaiveRouter(topology, DEFAULT_VHOST)
    whole = to_batch(batch)
    found = router.route(whole, clock_ms=0)
    copies = copies_of(router, found, whole)
    lost = {
        int(row): REASONS[reason] for row, reason in zip(found.unroutable.rows, found.unroutable.reason, strict=True)
    }
    for row, message in enumerate(batch):
        expected = naive.route(message)
        if expected.beyond:
            assert row in found.incomplete.rows or lost[row] == "filter_error"
            continue
        assert copies[row] == expected.copies
        assert lost.get(row) == expected.reason
        assert tuple(found.lineage[row].as_py()) == expected.lineage
        assert row not in found.incomplete.rows


@given(transforming(mazes()), st.lists(maze_messages, max_size=8))
@examples(150)
def test_forms_take_the_ways_of_the_rules_through_any_maze(topology: Topology, batch: list[Message]) -> None:
    check(topology, batch)


@given(transforming(topologies()), st.lists(messages, max_size=8))
@examples(60)
def test_forms_take_the_ways_of_the_rules(topology: Topology, batch: list[Message]) -> None:
    check(topology, batch)


@given(transforming(mazes()), st.lists(maze_messages, min_size=2, max_size=6))
@examples(60)
def test_what_becomes_of_a_message_does_not_depend_on_its_batch(topology: Topology, batch: list[Message]) -> None:
    """Numbers of forms too: a replay may cut batches otherwise."""
    router = Router.compile(topology, DEFAULT_VHOST)

    def told(rows: list[Message]) -> list[list[tuple[int, int, str]]]:
        whole = to_batch(rows)
        found = router.route(whole, clock_ms=0)
        out: list[list[tuple[int, int, str]]] = [[] for _ in rows]
        forms = found.forms
        contents = [content_of(one) for one in from_batch(whole if forms is None else forms.behind(whole))]
        queues = [queue for place, queue in enumerate(found.queue.tolist()) for _ in found.rows_of(queue)]
        for queue, row, copy in zip(queues, found.rows.tolist(), found.written.tolist(), strict=True):
            number = 0 if copy < len(rows) or forms is None else int(forms.number[copy - len(rows)])
            out[row].append((queue, number, contents[copy]))
        return [sorted(one) for one in out]

    assert told(batch) == [told([message])[0] for message in batch]
    assert told(batch[::-1]) == told(batch)[::-1]


# -- rules, one by one ------------------------------------------------------------------------------------


def declared(*links: Binding | Divert, exchanges: str = "ab", queues: str = "pq", **arguments: str) -> Router:
    editor = TopologyEditor(Topology.empty())
    for name in exchanges:
        editor.declare_exchange(Exchange(DEFAULT_VHOST, name, "fanout"))
    for name in queues:
        table = Table({"x-queue-filter": arguments[name]} if name in arguments else {})
        editor.declare_queue(Queue(DEFAULT_VHOST, name, arguments=table))
    for link in links:
        if isinstance(link, Divert):
            editor.declare_divert(link)
        else:
            editor.bind(link)
    return Router.compile(editor.topology, DEFAULT_VHOST)


def bound(source: str, destination: str, text: str | None = None, key: str = "") -> Binding:
    kind = "queue" if destination in "pq" else "exchange"
    arguments = Table({} if text is None else {TRANSFORM: text})
    return Binding(0, DEFAULT_VHOST, source, destination, kind, key, arguments)  # type: ignore[arg-type]  # one of the two


def sent(router: Router, **properties: object) -> tuple[dict[str, list[dict[str, object]]], Deliveries]:
    """The application properties of the copies in each queue, of one message."""
    batch = to_batch([Message.from_json({"exchange": "a", "application_properties": properties})])
    found = router.route(batch, clock_ms=0)
    rows = from_batch(batch if found.forms is None else found.forms.behind(batch))
    out: dict[str, list[dict[str, object]]] = {}
    queues = [queue for queue in found.queue.tolist() for _ in found.rows_of(queue)]
    for queue, copy in zip(queues, found.written.tolist(), strict=True):
        out.setdefault(router.queues[queue], []).append(dict(rows[copy].application_properties))
    return out, found


def test_a_queue_gets_one_copy_of_each_content() -> None:
    router = declared(bound("a", "p"), bound("a", "p", "SET x = 1"), bound("a", "p", "SET x = 0; SET x = x + 1", "k"))
    assert sent(router)[0] == {"p": [{}, {"x": 1}]}
    assert sent(router, x=1)[0] == {"p": [{"x": 1}]}, "a transformation that changes nothing adds nothing"


def test_filters_behind_see_the_changed_message() -> None:
    router = declared(bound("a", "b", "SET x = 1"), bound("a", "p"), bound("b", "q"), q="x = 1", p="x = 1")
    assert sent(router, x=7)[0] == {"q": [{"x": 1}]}


def test_the_filter_of_a_queue_behind_a_changing_binding_sees_the_changed_message() -> None:
    router = declared(bound("a", "p", "SET x = 1"), bound("a", "q", "SET x = 2"), p="x = 1", q="x = 1")
    assert sent(router, x=1)[0] == {"p": [{"x": 1}]}


def test_a_circle_in_which_nothing_new_comes_about_ends() -> None:
    router = declared(bound("a", "b", "SET x = 1"), bound("b", "a"), bound("b", "p"))
    found = sent(router)
    assert found[0] == {"p": [{"x": 1}]}
    assert not len(found[1].incomplete)


def test_a_circle_that_counts_ends_and_is_told_of() -> None:
    router = declared(bound("a", "b", "SET n = n + 1"), bound("b", "a"), bound("a", "p"))
    copies, found = sent(router, n=0)
    assert sorted(str(copy["n"]) for copy in copies["p"]) == sorted(map(str, range(MOST_FORMS + 1)))
    assert found.incomplete.rows.tolist() == [0]
    assert found.incomplete.detail[0] is not None
    assert "more than 15 forms" in found.incomplete.detail[0]
    assert OF_REFERENCE == MOST_FORMS


def test_trouble_leaves_the_field_and_is_counted() -> None:
    router = declared(bound("a", "p", "SET x = x - 'a'; SET y = 1"))
    copies, found = sent(router, x=5)
    assert copies == {"p": [{"x": 5, "y": 1}]}
    assert found.counts.trouble.tolist() == [1]
    assert found.counts.trouble_ids.tolist() == [1]


def test_lineage_and_hits_are_of_the_message_not_of_its_forms() -> None:
    divert = Divert(0, DEFAULT_VHOST, "d", "a", "b", transform="SET x = 1")
    router = declared(divert, bound("a", "p"), bound("b", "p"), bound("b", "q", "SET y = 2"))
    copies, found = sent(router)
    assert copies == {"p": [{}, {"x": 1}], "q": [{"x": 1, "y": 2}]}
    assert found.lineage.to_pylist() == [[1, 2, 3, 4]]
    assert found.counts.hits.tolist() == [1, 1, 1, 1]


def test_a_message_that_only_forms_of_reach_a_queue_is_routed() -> None:
    _, found = sent(declared(bound("a", "p", "SET x = 1")))
    assert not len(found.unroutable)
    assert found.reached.to_pylist() == [[], [0]]
    assert found.rows.tolist() == [0]
