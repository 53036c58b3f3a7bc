"""A defect in the evaluation of a filter concerns the messages that meet it, and no batch outlives its evaluation."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from bindery.router.columns import BatchView
from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.filters import FilterGroups, Selection, isolation, parse, scalar
from bindery.router.filters.sets import nodes, parse_filter_set, vectors
from bindery.router.message import Message, to_batch
from bindery.router.model import Binding, Exchange, Queue, Topology
from bindery.router.values import Table

ROWS = 2_000


def selected(groups: FilterGroups, *values: object) -> Selection:
    view = BatchView(to_batch(Message(application_properties=Table({"s": value})) for value in values))
    return groups.select(view, np.arange(len(values)), np.zeros(len(values), np.int32))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """LOWER raises for texts that begin with BAD; gives every call."""
    made: list[str] = []

    def lower(value: str) -> str:
        made.append(value)
        return str(1 // 0) if value.startswith("BAD") else value.lower()

    monkeypatch.setitem(scalar.FUNCTIONS, "LOWER", lower)
    return made


def test_one_bad_message_costs_a_few_evaluations_and_no_other_message(calls: list[str]) -> None:
    groups = FilterGroups([[parse("LOWER(s) LIKE 't%'", "amqp-sql"), parse("s = 'T7'", "jms")]])
    values = [f"T{n}" for n in range(ROWS)]
    values[ROWS // 3] = "BAD"
    found = selected(groups, *values)
    assert found.failed_pair.tolist() == [ROWS // 3]
    assert found.failed_member.tolist() == [0]
    assert found.failed_error == ["ZeroDivisionError: integer division or modulo by zero"]
    assert len(found.pair) == ROWS - 1 + 1
    assert len(calls) <= 3 * ROWS + 100, "each half is evaluated once more, and the half that fails again"


def test_messages_that_nobody_asked_about_do_no_harm(calls: list[str]) -> None:
    """Functions are worked out for every row when many ask: what fails there may be the fault of another message."""
    groups = FilterGroups([[parse("n = 1 AND LOWER(s) = 'a'", "amqp-sql")]])
    rows = [{"n": n % 2, "s": "A" if n % 2 else "BAD"} for n in range(64)]
    view = BatchView(to_batch(Message(application_properties=Table(row)) for row in rows))
    found = groups.select(view, np.arange(64), np.zeros(64, np.int32))
    assert found.pair.tolist() == list(range(1, 64, 2))
    assert not len(found.failed_pair)
    assert calls


def test_a_defect_in_the_columns_behind_keys_concerns_only_its_message(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The keys of filters are looked up before any filter is evaluated: then every filter of the group has failed."""

    def reverse(text: str) -> str:
        return str(1 // 0) if text.startswith("BAD") else text[::-1]

    monkeypatch.setitem(nodes.FORMS, "reversed", reverse)
    ending = {"f": {"descriptor": "amqp:application-properties-filter", "value": {"s": "&S:x"}}}
    groups = FilterGroups([[parse_filter_set(ending), parse("s = 'BADx'", "jms")]])
    found = selected(groups, "ax", "BADx", "b", "cx", "BADx")
    assert found.pair.tolist() == [0, 3]
    assert list(zip(found.failed_pair.tolist(), found.failed_member.tolist(), strict=True)) == [
        *[(1, 0), (1, 1), (4, 0), (4, 1)]
    ]
    assert len(caplog.records) == 2, "once per filter and batch"
    assert vectors.in_forms is nodes.in_forms


def test_a_defect_that_meets_everything_is_given_up_in_parts(
    monkeypatch: pytest.MonkeyPatch, calls: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(isolation, "ATTEMPTS", 50)
    groups = FilterGroups([[parse("LOWER(s) = 'x'", "amqp-sql")]])
    with caplog.at_level(logging.ERROR):
        found = selected(groups, *(f"BAD{n}" for n in range(ROWS)))
    assert found.failed_pair.tolist() == list(range(ROWS))
    assert len(caplog.records) == 1
    assert len(calls) < 200


@pytest.fixture
def _no_collector() -> Iterator[None]:
    """Cycles would wait for the collector: whatever goes must go by itself."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


FILTERS = [
    *(parse(text, "amqp-sql") for text in ("LOWER(s) = 'a'", "s LIKE '%b%'", "s = 'A'", "s[0] = 1", "s > m.t")),
    *(parse(text, "artemis") for text in ("XPATH '//a'", "s = AMQAddress", "AMQSize > 1")),
    parse_filter_set({"f": {"descriptor": "amqp:application-properties-filter", "value": {"s": "&i:A"}}}),
    parse_filter_set({"f": {"descriptor": "amqp:application-properties-filter", "value": {"s": "&S:A"}}}),
    parse_filter_set({"f": {"descriptor": "amqp:footer-filter", "value": {"l": [1]}}}),
    parse_filter_set({"f": {"descriptor": "apache.org:legacy-amqp-topic-binding:string", "value": "a.#"}}),
]
MESSAGE = Message(
    exchange="x", application_properties=Table({"s": "A"}), footer=Table({"l": (1,)}), properties={"subject": "a.b"},
    body=b"<a/>",
)  # fmt: skip


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("spoilt", [False, True], ids=["sound", "with a defect"])
def test_nothing_keeps_a_batch_alive_after_its_filters_were_asked(
    calls: list[str], monkeypatch: pytest.MonkeyPatch, spoilt: bool
) -> None:
    monkeypatch.setattr(isolation.log, "disabled", True)  # pytest keeps log records, and with them every frame
    groups = FilterGroups([FILTERS])
    seen = []
    for n in range(3):
        odd = Message(application_properties=Table({"s": "BAD" if spoilt else str(n)}))
        view = BatchView(to_batch([MESSAGE, odd]))
        found = groups.select(view, np.arange(2), np.zeros(2, np.int32))
        assert len(found.pair)
        assert bool(found.failed_error) is spoilt
        seen += [weakref.ref(view), weakref.ref(view.batch)]
        del view, found
    assert [item() for item in seen] == [None] * 6


@pytest.mark.usefixtures("_no_collector")
def test_nothing_keeps_a_batch_alive_after_it_was_routed() -> None:
    editor = TopologyEditor(Topology.empty())
    editor.declare_exchange(Exchange("/", "x", "headers"))
    for number, item in enumerate(FILTERS):
        editor.declare_queue(Queue("/", f"q{number}"))
        arguments: dict[str, object] = {"s": "A"}
        if item.dialect == "artemis":
            arguments["x-filter-jms-selector"] = "s LIKE 'A%' AND JMSPriority = 4"
        editor.bind(Binding(0, "/", "x", f"q{number}", "queue", "", Table(arguments)))
    editor.declare_queue(Queue("/", "picky", arguments=Table({"x-queue-filter": "XPATH '//a'"})))
    editor.bind(Binding(0, "/", "x", "picky"))
    router = Router.compile(editor.topology, "/")
    batch = to_batch([MESSAGE] * 4)
    walk, _, _ = router.walk(batch, clock_ms=0)
    view, held = weakref.ref(walk.view), weakref.ref(batch)
    del walk, _
    deliveries = router.route(batch, clock_ms=0)
    assert len(deliveries.queue) == len(FILTERS) + 1
    del batch
    assert (view(), held()) == (None, None)
