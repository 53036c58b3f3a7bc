"""`bindery messages`: a queue as a consumer with a filter sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bindery.router.declarations import TopologyEditor
from bindery.router.message import Message
from bindery.router.model import Binding, Exchange, Queue
from bindery.router.values import Table
from bindery.store import faults
from bindery.store.commit import BatchCommitter
from bindery.store.destinations import ToQueue
from bindery.store.moves import Mover
from bindery.store.paths import DataDir
from bindery.store.read import read_queue
from bindery.store.topology import TopologyStore
from bindery.store.transfers import Transfer
from tests.unit.cli.conftest import Run
from tests.unit.store.conftest import Crash, crash, declare_queues, deliver
from tests.unit.store.conftest import at as at_point
from tests.unit.store.routed import route


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    """A queue of six messages whose priorities are 0 to 5, in two batches."""
    data = DataDir.open(tmp_path / "data", create=True)
    store = TopologyStore(data)
    store.create()
    version = store.edit(declare_queues("a"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        for batch in range(2):
            deliver(
                data,
                committer,
                batch,
                version,
                "a",
                at=batch,
                header=lambda seq, first=3 * batch: {"priority": first + seq},
                body=lambda seq: b"\x00\xff" if seq else "größe\n".encode(),
            )
    return data


def keys(run: Run, *arguments: object) -> list[int]:
    code, out, err = run("messages", *arguments, "--json")
    assert code == 0, err
    return [int(Message.from_json(json.loads(line)).header.get("priority", 0)) for line in out.splitlines()]


def test_a_filter_chooses_what_is_counted_shown_taken_and_deleted(run: Run, data: DataDir) -> None:
    at = ("a", "--data", data.root)
    high = (*at, "--filter", "JMSPriority >= 2")
    assert run("messages", "count", *at)[1] == "6\n"
    assert json.loads(run("messages", "count", *high, "--json")[1]) == {"messages": 4, "waiting": 0}
    assert keys(run, "browse", *high) == [2, 3, 4, 5]
    assert keys(run, "browse", *high, "--limit", 3) == [2, 3, 4]
    assert keys(run, "get", *high) == [2]
    assert keys(run, "browse", *high) == [3, 4, 5]
    assert run("messages", "delete", *at, "--filter", "JMSPriority = 4")[1] == "1 message deleted\n"
    assert keys(run, "browse", *at) == [0, 1, 3, 5]


def test_what_is_put_back_counts_as_delivered(run: Run, data: DataDir) -> None:
    at = ("a", "--data", data.root)
    assert keys(run, "get", *at, "--limit", 2, "--requeue") == [0, 1]
    header = read_queue(data, "a")["header"].to_pylist()
    assert [one["delivery_count"] for one in header] == [1, 1, None, None, None, None]


def test_everything_is_deleted_only_when_that_is_said(run: Run, data: DataDir) -> None:
    at = ("a", "--data", data.root)
    for arguments in ((), ("--all", "--filter", "TRUE")):
        code, _, err = run("messages", "delete", *at, *arguments)
        assert (code, "--all" in err) == (2, True)
    assert read_queue(data, "a").num_rows == 6
    assert json.loads(run("messages", "delete", *at, "--all", "--json")[1]) == {"deleted": 6}
    assert read_queue(data, "a").num_rows == 0


def test_a_list_names_the_row_and_shows_the_body(run: Run, data: DataDir) -> None:
    lines = [line.split("\t") for line in run("messages", "browse", "a", "--data", data.root)[1].splitlines()]
    assert lines[0] == ["row", "routed at", "exchange", "routing key", "body"]
    assert lines[1] == ["s:0:0", "2026-01-01T00:00:00Z", "x", "k0", "größe\ufffd"]
    assert lines[2] == ["s:0:1", "2026-01-01T00:00:00Z", "x", "k1", "0x00ff"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("browse", "b"), "no queue 'b'"),
        (("browse", "a", "--filter", "priority >"), "^"),
        (("count", "a", "--filter", "x", "--dialect", "sql"), "sql"),
    ],
)
def test_bad_input_is_refused(run: Run, data: DataDir, arguments: tuple[str, ...], said: str) -> None:
    code, _, err = run("messages", *arguments, "--data", data.root)
    assert (code, said in err) == (2, True), err


def test_chosen_messages_are_moved_and_copied(run: Run, data: DataDir) -> None:
    TopologyStore(data).edit(declare_queues("b"), author="t")
    at = ("a", "--data", data.root, "--to", "b")
    high = (*at, "--filter", "JMSPriority >= 2")
    assert run("messages", "move", *high, "--limit", 1, "--dry-run")[1] == "1 message would be moved to b\n"
    assert run("messages", "copy", *high, "--dry-run")[1] == "4 messages would be copied to b\n"
    assert keys(run, "browse", "b", "--data", data.root) == []
    assert run("messages", "copy", *high, "--limit", 1)[1] == "1 message copied to b\n"
    found = json.loads(run("messages", "move", *high, "--json")[1])
    assert (found["moved"], found["refused"], found["finished"], len(found["batches"])) == (4, 0, 0, 1)
    assert keys(run, "browse", "b", "--data", data.root) == [2, 2, 3, 4, 5]
    assert keys(run, "browse", "a", "--data", data.root) == [0, 1]
    assert json.loads(run("messages", "copy", *at, "--json")[1])["copied"] == 2


def test_what_the_other_queue_refuses_and_what_was_interrupted_is_said(run: Run, data: DataDir) -> None:
    def declare(editor: TopologyEditor) -> None:
        editor.declare_queue(Queue("/", "low", arguments=Table({"x-queue-filter": "AMQPriority < 2"})))
        editor.declare_queue(Queue("/", "b"))

    store = TopologyStore(data)
    store.edit(declare, author="t")
    with faults.installed(at_point("move.claimed", crash)), pytest.raises(Crash):
        Mover(data, store, "/").move(Transfer("/", "a", ToQueue("b"), limit=1))
    out = run("messages", "move", "a", "--to", "low", "--data", data.root)[1]
    assert out.splitlines() == [
        "1 message of an interrupted move or copy arrived first",
        "1 message moved to low",
        "4 messages refused by the filter of low",
    ]


@pytest.mark.parametrize("verb", ["move", "copy"])
def test_a_transfer_that_cannot_be_is_one_line(run: Run, data: DataDir, verb: str) -> None:
    for to, said in (("a", "both source and target"), ("nowhere", "nowhere")):
        code, _, err = run("messages", verb, "a", "--to", to, "--data", data.root)
        assert code
        assert said in err
        assert "Traceback" not in err
    code, _, err = run("messages", verb, "a", "--to", "b", "--filter", "x >", "--data", data.root)
    assert code == 2
    assert "^" in err


@pytest.fixture
def bodies(data: DataDir) -> DataDir:
    """Beside queue a, which says nothing of its bodies, queue j, whose bodies are JSON: n is 0, 1, 2; one is broken."""
    queue = Queue("/", "j", arguments=Table({"x-payload": "json"}))
    version = TopologyStore(data).edit(lambda editor: editor.declare_queue(queue), author="t").version
    with BatchCommitter(data, stream="j", app_id="j:1") as committer:
        texts = (b'{"n": 0}', b'{"n": 1}', b'{"n": 2}', b"{")
        deliver(data, committer, 0, version, "j", rows=4, body=lambda seq: texts[seq])
    return data


def test_filters_look_into_the_bodies_that_the_queue_declares(run: Run, bodies: DataDir) -> None:
    at = ("j", "--data", bodies.root)
    assert run("messages", "count", *at, "--filter", "body.n >= 1")[1] == "2\n"
    assert run("messages", "count", *at, "--filter", "body.n >= 1", "--payload", "json")[1] == "2\n"
    assert run("messages", "count", *at, "--filter", "body.n IS NULL")[1] == "1\n"
    sql = {"f": {"descriptor": "amqp:sql-filter", "value": "body.n = 2"}}
    assert run("messages", "count", *at, "--filter", json.dumps(sql), "--dialect", "filter-set")[1] == "1\n"
    code, _, err = run("messages", "count", *at, "--filter", "body LIKE '%1%'", "--payload", "text")
    assert code == 2
    assert "the bodies of queue 'j' are json, not text" in err
    assert run("messages", "delete", *at, "--filter", "body.n = 1")[1] == "1 message deleted\n"
    assert run("messages", "move", *at, "--to", "a", "--filter", "body.n = 0")[1] == "1 message moved to a\n"
    taken = run("messages", "get", *at, "--filter", "body.n = 2", "--json")[1]
    assert Message.from_json(json.loads(taken)).body == b'{"n": 2}'


def test_the_filter_of_another_queue_looks_into_what_is_moved_there(run: Run, bodies: DataDir) -> None:
    taking = Queue("/", "k", arguments=Table({"x-payload": "json", "x-queue-filter": "body.n > 0"}))
    TopologyStore(bodies).edit(lambda editor: editor.declare_queue(taking), author="t")
    done = json.loads(run("messages", "move", "j", "--data", bodies.root, "--to", "k", "--json")[1])
    assert (done["moved"], done["refused"]) == (2, 2)


def test_bodies_of_other_queues_are_what_the_reader_says(run: Run, bodies: DataDir) -> None:
    at = ("a", "--data", bodies.root)
    assert run("messages", "count", *at, "--filter", "body LIKE 'gr%'", "--payload", "text")[1] == "2\n"
    assert run("messages", "count", *at, "--filter", "body = 'x'")[1] == "0\n"  # a property, as nothing else is said
    code, _, err = run("messages", "count", *at, "--filter", "body.n = 1")
    assert code == 2
    assert "--payload json" in err
    code, _, err = run("messages", "count", *at, "--filter", "body.n = 1", "--payload", "jsn")
    assert code == 2
    assert "did you mean json?" in err


def test_unroutable_rows_are_chosen_by_their_bodies(run: Run, data: DataDir) -> None:
    orders = Exchange("/", "orders", "topic", arguments=Table({"x-payload": "json"}))
    store = TopologyStore(data)
    store.edit(lambda editor: editor.declare_exchange(orders), author="t")
    messages = [Message(exchange=name, body=b'{"n": %d}' % n) for n in range(3) for name in ("orders", "amq.topic")]
    route(data, store, messages, stream="lost")
    rows = ("--data", data.root, "--json", "--filter", "body.n >= 1")

    def chosen(*options: str, command: str = "unroutable") -> int:
        code, out, err = run(command, *rows, *options)
        assert code == 0, err
        return int(json.loads(out)["rows" if command == "unroutable" else "chosen"])

    assert chosen("--exchange", "orders") == 2
    assert chosen("--payload", "json") == 4
    assert chosen("--exchange", "orders", "--dry-run", command="redrive") == 2
    code, _, err = run("redrive", *rows, "--exchange", "amq.topic")
    assert code == 2
    assert "--payload json" in err
    code, out, err = run("explain", "--data", data.root, "--find", "body.n = 2", "--payload", "json", "--json")
    assert (code, json.loads(out)["on_record"]["reason"]) == (0, "no_binding"), err
    assert run("explain", "--data", data.root, "--row", "lost:0:1", "--payload", "json")[0] == 2


def test_messages_go_to_an_exchange(run: Run, data: DataDir) -> None:
    def declare(editor: TopologyEditor) -> None:
        editor.declare_queue(Queue("/", "b"))
        editor.bind(Binding(0, "/", "amq.direct", "b", routing_key="k0"))

    TopologyStore(data).edit(declare, author="t")
    at = ("a", "--data", data.root, "--to-exchange", "amq.direct")
    said = [
        "2 messages would be moved to amq.direct",
        "  b: 2 copies",
        "4 messages left where they are, since they reach no queue: no_binding",
    ]
    assert run("messages", "move", *at, "--dry-run")[1].splitlines() == said
    found = json.loads(run("messages", "copy", *at, "--routing-key", "k0", "--limit", 1, "--json")[1])
    assert (found["copied"], found["queues"], found["unroutable"]) == (1, {"b": 1}, {})
    assert run("messages", "move", *at)[1].splitlines() == [said[0].replace("would be moved", "moved"), *said[1:]]
    assert run("messages", "move", "a", "--data", data.root, "--to-exchange", "", "--routing-key", "b")[1] == (
        "4 messages moved to the default exchange\n  b: 4 copies\n"
    )


@pytest.mark.parametrize(
    "options", [(), ("--to", "b", "--to-exchange", "x"), ("--to", "b", "--routing-key", "k"), ("--routing-key", "k")]
)
def test_one_place_is_said(run: Run, data: DataDir, options: tuple[str, ...]) -> None:
    code, _, err = run("messages", "move", "a", "--data", data.root, *options)
    assert (code, "--to-exchange" in err) == (2, True)
