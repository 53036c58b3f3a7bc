"""Replay against the naive router: what a proposed topology would have done with recorded messages."""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.jobs.comparison import Comparison, Reporter
from bindery.jobs.replay_newest import Wanted, replay_newest
from bindery.jobs.replayer import Replayer, Span
from bindery.router.engine import Router
from bindery.router.errors import Stopped
from bindery.router.filters import parse
from bindery.router.message import Message
from bindery.router.model import Topology, Vhost, object_key
from bindery.router.proposal import propose
from bindery.router.reference import NaiveRouter
from bindery.router.values import Table
from bindery.store import routed_files, tables
from bindery.store.maintenance import maintain
from bindery.store.maintenance.policy import Policy
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.read import delete_matching, take
from bindery.store.redrive import Redriver
from bindery.store.routed_files import RoutedFile, batches_of, file_groups, group_of, group_text, identities_of
from bindery.store.topology import TopologyStore
from bindery.store.unroutable import Selection
from tests.examples import examples
from tests.unit.engine.topologies import messages as drawn_messages
from tests.unit.engine.topologies import topologies
from tests.unit.store.routed import route

DEFINITIONS: dict[str, Any] = {
    "exchanges": [{"name": "flights", "type": "topic"}],
    "queues": [{"name": "late"}, {"name": "jfk"}, {"name": "all"}],
    "bindings": [
        {"source": "flights", "destination": "late", "routing_key": "#",
         "arguments": {"x-filter-jms-selector": "delay >= 60 AND carrier = 'UA'"}},
        {"source": "flights", "destination": "jfk", "routing_key": "*.JFK.#"},
    ],
}  # fmt: skip
PROPOSAL: dict[str, Any] = {
    "delete": {"queues": ["jfk"]},
    "definitions": {
        "queues": [{"name": "west"}],
        "bindings": [
            {"source": "flights", "destination": "late", "routing_key": "#",
             "arguments": {"x-filter-jms-selector": "delay >= 90"}},
            {"source": "flights", "destination": "west", "routing_key": "*.*.LAX"},
        ],
    },
}  # fmt: skip


def flights(first: int, count: int) -> list[Message]:
    return [
        Message(
            "flights",
            f"{'UA' if n % 2 else 'DL'}.{'JFK' if n % 3 else 'EWR'}.{'LAX' if n % 5 else 'IAH'}",
            application_properties=Table({"n": n, "delay": n * 7 % 130, "carrier": "UA" if n % 2 else "DL"}),
        )
        for n in range(first, first + count)
    ]


@pytest.fixture
def recorded(data: DataDir, store: TopologyStore) -> TopologyStore:
    store.edit(lambda editor: editor.replay(_changes(propose(store.load(), "/", DEFINITIONS))), author="t")
    for batch in range(3):
        route(data, store, flights(batch * 40, 40), batch_id=batch, clock_ms=1_700_000_000_000 + batch * 1000)
    route(data, store, flights(500, 10), batch_id=0, stream="other")
    return store


def _changes(topology: Topology) -> dict[Any, Any]:
    return {object_key(item): item for item in topology.objects()}


def compare(
    data: DataDir,
    present: Topology,
    proposed: Topology,
    span: Span = Span("flights"),  # noqa: B008
) -> Comparison:
    replayer = Replayer(TopologyStore(data), "/", Router.compile(proposed, "/"), span)
    queues = sorted(name for _, name in present.queues)
    total = Comparison()
    for group in file_groups(data, "/", queues, stream=span.stream, since=span.since, until=span.until):
        total.merge(replayer.compare(group_of(group_text(group))).as_result())
    return total


def expected(messages: list[Message], present: Topology, proposed: Topology) -> Comparison:
    old, new = NaiveRouter(present, "/"), NaiveRouter(proposed, "/")
    found = Comparison(messages=len(messages))
    for message in messages:
        before, after = old.route(message), new.route(message)
        found.before.update(before.queues)
        found.after.update(after.queues)
        found.unchanged.update(before.queues & after.queues)
        found.gained.update(after.queues - before.queues)
        found.lost.update(before.queues - after.queues)
        found.unroutable_before.update([before.reason] if before.reason else [])
        found.unroutable_after.update([after.reason] if after.reason else [])
    return found


def counts(found: Comparison) -> dict[str, Any]:
    names = ("before", "after", "unchanged", "gained", "lost", "unroutable_before", "unroutable_after")
    return {"messages": found.messages} | {name: +Counter(getattr(found, name)) for name in names}


def test_counts_are_those_of_routing_every_message_twice(data: DataDir, recorded: TopologyStore) -> None:
    present = recorded.load()
    proposed = propose(present, "/", PROPOSAL)
    found = compare(data, present, proposed)
    assert counts(found) == counts(expected(flights(0, 120), present, proposed))
    assert found.unexplained == 0
    assert found.gained["west"] and found.gained["late"] and found.lost["jfk"]
    assert (found.files_before, found.files_after) == (6, 6)  # late and jfk, then late and west, for three batches


def test_against_the_same_topology_nothing_changes(data: DataDir, recorded: TopologyStore) -> None:
    found = compare(data, recorded.load(), recorded.load())
    assert not found.gained.total() and not found.lost.total()
    assert found.unroutable_before == found.unroutable_after
    assert found.examples == {}


def test_a_span_of_time_and_every_stream(data: DataDir, recorded: TopologyStore) -> None:
    present = recorded.load()
    second = datetime.fromtimestamp(1_700_000_001, UTC)
    third = datetime.fromtimestamp(1_700_000_002, UTC)
    assert compare(data, present, present, Span("flights", second, third)).messages == 40
    assert compare(data, present, present, Span("flights", second)).messages == 80
    assert compare(data, present, present, Span()).messages == 130
    assert compare(data, present, present, Span("nothing")).messages == 0


def test_consumed_and_compacted_rows_change_nothing_while_a_copy_is_left(
    data: DataDir,
    recorded: TopologyStore,
) -> None:
    present = recorded.load()
    proposed = propose(present, "/", PROPOSAL)
    full = compare(data, present, proposed)
    held = {message.application_properties["n"] for message in flights(0, 120) if _reaches(present, message, "jfk")}
    also = [m for m in flights(0, 120) if _reaches(present, m, "late") and m.application_properties["n"] in held]
    assert also
    take(data, "late", limit=5)  # rewrites files: their names say nothing any more
    _compact(data, "jfk")
    found = compare(data, present, proposed)
    gone = full.messages - found.messages
    assert gone <= 5  # only messages that stood in no other queue
    assert found.before["jfk"] == full.before["jfk"]


def _reaches(topology: Topology, message: Message, queue: str) -> bool:
    return queue in NaiveRouter(topology, "/").route(message).queues


def _compact(data: DataDir, queue: str) -> None:
    from deltalake import DeltaTable

    table = DeltaTable(data.queue("/", queue))
    before = len(table.files() if hasattr(table, "files") else table.file_uris())
    table.optimize.compact()
    assert before > 1


def test_files_of_one_message_stand_in_one_group(data: DataDir, recorded: TopologyStore) -> None:
    groups = file_groups(data, "/", ["late", "jfk", "all"], stream="flights")
    assert len(groups) == 3
    assert [group[0].queue for group in groups] == [None] * 3  # unroutable rows, which keep bcc, come first
    _compact(data, "jfk")
    (joined,) = file_groups(data, "/", ["late", "jfk", "all"], stream="flights")
    assert len(joined) == 7


@pytest.mark.long
def test_maintenance_changes_no_result_and_groups_stay_small(
    data: DataDir, recorded: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in range(3, 40):
        route(data, recorded, flights(batch * 40, 40), batch_id=batch, clock_ms=1_700_000_000_000 + batch * 1000)
    present = recorded.load()
    proposed = propose(present, "/", PROPOSAL)
    take(data, "late", limit=5)
    since, until = (datetime.fromtimestamp(1_700_000_000 + second, UTC) for second in (7, 29))
    spans = [Span("flights"), Span(), Span("flights", since, until), Span("other")]
    before = [counts(compare(data, present, proposed, span)) for span in spans]
    maintain(data)
    assert len(file_groups(data, "/", ["late", "jfk"], stream="flights")) == 1
    assert [counts(compare(data, present, proposed, span)) for span in spans] == before
    # a few batches of each file, as it is with a thousand times as many rows
    monkeypatch.setattr(routed_files, "SLICE_ROWS", 200)
    groups = file_groups(data, "/", ["late", "jfk"], stream="flights")
    assert len(groups) > 8
    for group in groups:
        assert sum(int(identities_of(file).meant.sum()) for file in group) <= 200
    assert [counts(compare(data, present, proposed, span)) for span in spans] == before
    take(data, "late", limit=5)  # rewrites a compacted file
    route(data, recorded, flights(2_000, 40), batch_id=40)
    (found,) = [compare(data, present, proposed, Span("flights"))]
    assert found.messages in range(before[0]["messages"] + 35, before[0]["messages"] + 41)


def test_redriven_messages_are_replayed_once(data: DataDir, recorded: TopologyStore) -> None:
    recorded.edit(lambda editor: editor.replay(_changes(propose(recorded.load(), "/", PROPOSAL))), author="t")
    assert Redriver(data, recorded, "/").redrive(Selection()).redriven > 0
    present = recorded.load()
    assert compare(data, present, present, Span("flights")).messages == 120
    assert compare(data, present, present, Span()).messages == 130


def test_differences_come_with_examples_and_reasons(data: DataDir, recorded: TopologyStore) -> None:
    present = recorded.load()
    proposed = propose(present, "/", PROPOSAL)
    found = compare(data, present, proposed)
    report = Reporter("/", {present.version: present}, proposed).report(found)
    by_name = {entry["queue"]: entry for entry in report["queues"]}
    late = by_name["late"]["examples"][0]
    assert (late["direction"], late["row"].split(":")[0]) == ("gained", "flights")
    assert late["because"][0].startswith("binding ")
    assert late["not_because"][0].endswith('is "DL"') or "delay" in late["not_because"][0]
    assert by_name["jfk"]["examples"][0]["not_because"] == ["there is no queue 'jfk'"]
    assert by_name["west"]["examples"][0]["not_because"] == ["there is no queue 'west'"]
    assert len(by_name["late"]["examples"]) <= 6
    assert report["unroutable"]["change"] == (
        sum(report["unroutable"]["after"].values()) - sum(report["unroutable"]["before"].values())
    )
    assert report["changed"]["gained"] == sum(entry["gained"] for entry in report["queues"])


def test_nothing_is_written(data: DataDir, recorded: TopologyStore) -> None:
    before = place(data.root).within()
    compare(data, recorded.load(), propose(recorded.load(), "/", PROPOSAL))
    assert place(data.root).within() == before
    assert tables.exists(data.unroutable("/"))


@pytest.mark.parametrize("batches", [3, 40])
def test_the_newest_messages_are_compared_as_all_of_them_are(
    data: DataDir, recorded: TopologyStore, batches: int
) -> None:
    """In whatever queues they stand, and in whatever files: with many batches they are compacted."""
    for batch in range(3, batches):
        route(data, recorded, flights(batch * 40, 40), batch_id=batch, clock_ms=1_700_000_000_000 + batch * 1000)
    if batches > 3:
        maintain(data)
        assert len(file_groups(data, "/", ["late", "jfk"], stream="flights")) == 1
    present = recorded.load()
    proposed = propose(present, "/", PROPOSAL)
    last = batches * 40
    for wanted, messages, cut in (
        (Wanted(10_000), [*flights(500, 10), *flights(0, last)], None),
        (Wanted(30, "flights"), flights(last - 30, 30), "messages"),
        (Wanted(10_000, "flights", 1, 1), flights(40, 40), None),
        (Wanted(10_000, "flights", first=batches - 1), flights(last - 40, 40), None),
        (Wanted(60, "flights", last=1), flights(20, 60), "messages"),
    ):
        found = replay_newest(data, recorded, proposed, "/", wanted, may_read=lambda _: True)
        assert counts(found.comparison) == counts(expected(messages, present, proposed)), wanted
        assert (found.cut, found.unread) == (cut, 0), wanted
    assert found.streams == ["flights"]


def test_the_newest_are_compared_with_the_present_topology_where_it_is_asked(
    data: DataDir, recorded: TopologyStore
) -> None:
    then = recorded.load()
    now = propose(then, "/", PROPOSAL["definitions"])
    recorded.edit(lambda editor: editor.replay(_changes(now)), author="t")
    messages = [*flights(500, 10), *flights(0, 120)]
    for wanted, before in ((Wanted(1_000, present=True), now), (Wanted(1_000), then)):
        found = replay_newest(data, recorded, recorded.load(), "/", wanted, may_read=lambda _: True)
        assert counts(found.comparison) == counts(expected(messages, before, now))
    assert found.comparison.gained["west"]


def test_no_row_of_what_may_not_be_read_is_looked_at(data: DataDir, recorded: TopologyStore) -> None:
    present = recorded.load()
    found = replay_newest(data, recorded, present, "/", Wanted(1_000, "flights"), may_read=lambda name: name == "late")
    router = NaiveRouter(present, "/")
    seen = [message for message in flights(0, 120) if "late" in router.route(message).queues]
    assert (found.comparison.messages, found.unread) == (len(seen), 1)


def test_a_comparison_ends_when_nobody_waits_and_when_time_is_up(data: DataDir, recorded: TopologyStore) -> None:
    arguments = (data, recorded, recorded.load(), "/", Wanted(1_000))
    with pytest.raises(Stopped):
        replay_newest(*arguments, may_read=lambda _: True, gone=lambda: True)
    found = replay_newest(*arguments, may_read=lambda _: True, seconds=0)
    assert (found.cut, found.comparison.messages) == ("time", 0)


# -- journals ---------------------------------------------------------------------------------------------


@given(
    topologies(),
    topologies(),
    st.lists(drawn_messages, min_size=1, max_size=12),
    st.sets(st.integers(0, 4)),
    st.booleans(),
)
@examples(6)
def test_with_a_journal_everything_is_compared_whatever_is_left_of_it(
    present: Topology, proposed: Topology, sent: list[Message], emptied: set[int], compacted: bool
) -> None:
    """bcc included, what consumers have taken, and what was only counted."""
    with tempfile.TemporaryDirectory() as folder:
        data = DataDir.open(folder, create=True)
        store = TopologyStore(data)
        held = store.edit(lambda editor: editor.replay(_changes(present)), author="t").topology
        half = len(sent) // 2
        for number, part in enumerate((sent[:half], sent[half:])):
            if part:
                route(data, store, part, batch_id=number, clock_ms=1_700_000_000_000 + number, journal=True)
        for number, (_, name) in enumerate(sorted(held.queues)):
            if number in emptied:
                delete_matching(data, name, None)
        if compacted:
            maintain(data, Policy(fan_in=2), clock=lambda: 1_700_000_001_000)
        found = compare(data, held, proposed)
        assert counts(found) == counts(expected(sent, held, proposed))
        assert (found.journaled, found.unexplained) == (len(sent), 0)
        newest = replay_newest(data, store, proposed, "/", Wanted(len(sent) - half), may_read=lambda _: True)
        assert counts(newest.comparison) == counts(expected(sent[half:], held, proposed))


def test_what_a_journal_does_not_have_is_taken_from_the_tables(data: DataDir, recorded: TopologyStore) -> None:
    """A stream that began its journal late, and one that has none."""
    route(data, recorded, flights(120, 40), batch_id=3, clock_ms=1_700_000_003_000, journal=True)
    recorded.edit(lambda editor: editor.declare_vhost(Vhost("elsewhere")), author="t")
    route(data, recorded, [], batch_id=0, stream="another", vhost="elsewhere", journal=True)
    present = recorded.load()
    proposed = propose(present, "/", PROPOSAL)
    for name in ("late", "jfk"):
        delete_matching(data, name, parse("n >= 120", "jms"))
    found = compare(data, present, proposed)
    assert counts(found) == counts(expected(flights(0, 160), present, proposed))
    assert found.journaled == 40
    report = Reporter("/", {present.version: present}, proposed).report(found)
    assert (report["messages"], report["from_journals"]) == (160, 40)
    third = datetime.fromtimestamp(1_700_000_002, UTC)
    assert compare(data, present, present, Span("flights", third)).messages == 80
    assert compare(data, present, present, Span("flights", None, third)).journaled == 0


def test_whoever_may_not_read_the_exchange_sees_what_queues_have_and_not_the_journal(
    data: DataDir, recorded: TopologyStore
) -> None:
    route(data, recorded, flights(120, 40), batch_id=3, stream="kept", journal=True)
    present = recorded.load()
    proposed = propose(present, "/", PROPOSAL)
    router = NaiveRouter(present, "/")
    seen = [message for message in flights(120, 40) if "late" in router.route(message).queues]
    for most, compared in ((1_000, seen), (2, seen[-2:])):
        found = replay_newest(data, recorded, proposed, "/", Wanted(most, "kept"), may_read=lambda name: name == "late")
        assert counts(found.comparison) == counts(expected(compared, present, proposed))
        assert found.comparison.journaled == 0
    everything = replay_newest(
        data, recorded, proposed, "/", Wanted(1_000, "kept"), may_read=lambda name: name == "flights"
    )
    assert (everything.comparison.messages, everything.comparison.journaled) == (40, 40)


def test_row_groups_of_a_file_are_read_in_the_order_in_which_their_identities_are(tmp_path: Path) -> None:
    """Identities and rows of a slice go together by their places: Arrow alone would read group 8 before group 1."""
    path = str(tmp_path / "rows.parquet")
    bodies = pa.array([b"%d" % number for number in range(100)])
    pq.write_table(pa.table({"body": bodies}), path, row_group_size=10)
    found = list(batches_of(RoutedFile(path, "q", 100), [1, 8], pa.schema([("body", pa.binary())]), 1_000))
    assert [row["body"] for batch in found for row in batch.to_pylist()] == [
        b"%d" % number for number in (*range(10, 20), *range(80, 90))
    ]
