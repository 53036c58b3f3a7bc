"""explain, lint, unroutable and redrive on the command line: data for programs, exit codes, errors in words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from bindery.cli.main import app
from bindery.router.errors import BinderyError, InvalidInput, NotFound
from bindery.router.message import Message
from bindery.router.model import Binding, Exchange, Queue
from bindery.router.values import Table
from bindery.store.paths import DataDir
from bindery.store.read import take
from bindery.store.topology import TopologyStore
from tests.unit.store.routed import refuse, route

pytestmark = pytest.mark.service


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    found = DataDir.open(tmp_path / "data", create=True)
    store = TopologyStore(found)

    def declare(editor: Any) -> None:
        editor.declare_exchange(Exchange("/", "x", "topic"))
        editor.declare_queue(Queue("/", "q"))
        editor.declare_queue(Queue("/", "copy"))
        for queue in ("q", "copy"):
            editor.bind(Binding(0, "/", "x", queue, routing_key="a.#"))

    store.edit(declare, author="t")
    messages = [Message("x", f"{'a' if n % 3 else 'b'}.{n}", application_properties=Table({"n": n})) for n in range(90)]
    route(found, store, messages, stream="s:t", clock_ms=1_700_000_000_000)
    return found


def run(data: DataDir, *arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(app, [*arguments, "--data", data.root], **options)


def data_of(data: DataDir, *arguments: str, **options: Any) -> Any:
    done = run(data, *arguments, "--json", catch_exceptions=False, **options)
    return json.loads(done.stdout)


def test_a_message_from_standard_input(data: DataDir) -> None:
    message = json.dumps({"exchange": "x", "routing_key": "b.c"})
    found = data_of(data, "explain", "--message", "-", "--queue", "q", input=message)
    assert found["why_not"][0]["causes"][0]["message"] == "word 1 of key 'b.c' is 'b', 'a.#' wants 'a'"
    assert found["topology_version"] == TopologyStore(data).load().version


def test_what_concerns_a_queue_and_the_rest_when_asked_for(data: DataDir) -> None:
    def chain(editor: Any) -> None:
        for name in ("y", "z"):
            editor.declare_exchange(Exchange("/", name, "fanout"))
        editor.declare_queue(Queue("/", "end"))
        editor.bind(Binding(0, "/", "x", "y", "exchange", "a.#"))
        editor.bind(Binding(0, "/", "y", "z", "exchange"))
        editor.bind(Binding(0, "/", "z", "y", "exchange"))  # a circle, which each message goes round once
        editor.bind(Binding(0, "/", "z", "end"))
        editor.bind(Binding(0, "/", "y", "copy"))

    TopologyStore(data).edit(chain, author="t")
    asked = ("explain", "--message", "-", "--queue", "end")
    message = json.dumps({"exchange": "x", "routing_key": "a.b"})
    narrow = run(data, *asked, input=message).stdout
    assert [line for line in narrow.splitlines() if re.search("→|✓|--all", line)] == [
        "│   └── → binding 3 from x to exchange y, key 'a.#': led on 2",
        "│   └── → binding 4 from y to exchange z, key '': led on 3",
        "│   ├── → binding 5 from z to exchange y, key '': led on 2",
        "│   └── ✓ binding 6 from z to queue end, key '': delivered",
        "└── and 3 further steps (--all)",
    ]
    whole = run(data, *asked, "--all", input=message).stdout
    assert "binding 1 from x to queue q" in whole
    assert "--all" not in whole
    missed = run(data, *asked, input=json.dumps({"exchange": "y", "routing_key": "a.b"}), catch_exceptions=False)
    assert "1. fanout exchange y" in missed.stdout
    unreached = run(data, "explain", "--message", "-", "--queue", "q", input=json.dumps({"exchange": "y"})).stdout
    assert "from which nothing leads to exchange" in unreached
    assert "fanout exchange" not in unreached
    assert "and 4 further steps (--all)" in unreached


def test_a_row_on_record_by_its_identity(data: DataDir) -> None:
    delivered = data_of(data, "explain", "--row", "s:t:0:1")
    assert (delivered["on_record"]["queue"], delivered["queues"]) == ("copy", ["copy", "q"])
    lost = data_of(data, "explain", "--row", "s:t:0:3")
    assert (lost["on_record"]["queue"], lost["on_record"]["reason"]) == (None, "no_binding")


def test_a_row_as_it_was_routed_and_as_it_would_be_now(data: DataDir) -> None:
    store = TopologyStore(data)
    store.edit(lambda editor: editor.bind(Binding(0, "/", "x", "q", routing_key="b.#")), author="t")
    assert data_of(data, "explain", "--row", "s:t:0:3")["queues"] == ["q"]
    assert data_of(data, "explain", "--row", "s:t:0:3", "--as-routed")["queues"] == []
    for option in ("--version", "--against"):
        assert data_of(data, "explain", "--row", "s:t:0:3", option, "2")["queues"] == []


def test_messages_found_by_a_filter(data: DataDir) -> None:
    done = run(data, "explain", "--find", "n BETWEEN 4 AND 6", "--limit", "5", "--json", catch_exceptions=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(one["on_record"]["row"] for one in found) == ["s:t:0:4", "s:t:0:5", "s:t:0:6"]


def test_lint_of_a_data_directory_and_of_a_document(data: DataDir, tmp_path: Path) -> None:
    found = data_of(data, "lint")
    assert found["totals"] == {"BT151": 1}  # q and copy hold the same messages
    assert data_of(data, "lint", "--no-overlap")["totals"] == {}
    take(data, "q", limit=55)
    assert data_of(data, "lint")["totals"] == {}  # five messages say nothing
    document = tmp_path / "bad.json"
    binding = {"source": "x", "destination": "q", "arguments": {"x-match": "any"}}
    content = {"exchanges": [{"name": "x", "type": "headers"}], "queues": [{"name": "q"}], "bindings": [binding]}
    document.write_text(json.dumps(content))
    done = CliRunner().invoke(app, ["lint", str(document)])
    assert done.exit_code == 1
    assert "BT112 headers binding that matches nothing (error)" in done.stdout
    assert CliRunner().invoke(app, ["lint", str(document), "--fail-on", "never"]).exit_code == 0


def test_properties_of_filters_that_no_message_has(data: DataDir) -> None:
    store = TopologyStore(data)
    named = {"x-filter-jms-selector": "numbr > 3 AND n > 2 AND nothing_like_it IS NULL"}

    def bind(editor: Any) -> None:
        editor.declare_exchange(Exchange("/", "y", "topic"))
        editor.declare_exchange(Exchange("/", "other", "topic"))
        editor.bind(Binding(0, "/", "x", "y", "exchange", "#"))
        for source in ("y", "other"):  # nothing is published to the other
            editor.bind(Binding(0, "/", source, "q", routing_key="#", arguments=Table(named)))

    store.edit(bind, author="t")
    more = [Message("x", "b", application_properties=Table({"number": n, "n": n})) for n in range(25)]
    route(data, store, more, stream="t", clock_ms=1_700_000_001_000)
    report = data_of(data, "lint", "--select", "BT175")
    (found,) = report["findings"]
    assert found["subject"]["name"] == "y -> q [#]"
    assert found["message"].startswith("none of ")
    assert "sampled rows has numbr: did you mean number (" in found["message"]
    assert data_of(data, "lint", "--no-overlap", "--select", "BT175")["totals"] == {}


def test_unroutable_and_redrive_as_data(data: DataDir) -> None:
    assert data_of(data, "unroutable", "--key", "b.*", "--top", "1")["distinct_keys"] == 30
    assert data_of(data, "unroutable", "--from", "2023-11-15")["rows"] == 0
    assert data_of(data, "redrive", "--dry-run")["still_unroutable"] == {"no_binding": 30}
    store = TopologyStore(data)
    store.edit(lambda editor: editor.bind(Binding(0, "/", "x", "q", routing_key="b.#")), author="t")
    outcome = data_of(data, "redrive", "--filter", "n < 10", "--to", "2030-01-01T00:00:00Z")
    assert (outcome["redriven"], outcome["queues"]) == (4, {"q": 4})
    assert data_of(data, "unroutable")["redriven"] == 4


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (["explain"], InvalidInput, "one of --message, --row and --find"),
        (["explain", "--message", "nowhere.json"], InvalidInput, "cannot read a message"),
        (["explain", "--row", "nonsense"], InvalidInput, "names no row"),
        (["explain", "--row", "s:t:9:9"], NotFound, "no queue and no unroutable row"),
        (["explain", "--find", "n = 1000"], InvalidInput, "no message on record passes"),
        (["explain", "--row", "s:t:0:1", "--queue", "missing"], NotFound, "no queue 'missing'"),
        (["explain", "--row", "s:t:0:1", "--all"], InvalidInput, "--all goes with --queue"),
        (["explain", "--row", "s:t:0:1", "--version", "99"], NotFound, "no topology version 99"),
        (["explain", "--row", "s:t:0:1", "--against", "99"], NotFound, "no topology version 99"),
        (["explain", "--row", "s:t:0:1", "--against", "2", "--as-routed"], InvalidInput, "exclude each other"),
        (["explain", "--row", "s:t:0:1", "--against", "nowhere.json"], InvalidInput, "cannot read it"),
        (["lint", "--vhost", "missing"], NotFound, "no vhost"),
        (["unroutable", "--vhost", "missing"], NotFound, "no vhost"),
        (["redrive", "--reason", "bored"], InvalidInput, "unknown reason"),
        (["redrive", "--from", "yesterday"], InvalidInput, "is no time"),
    ],
)
def test_what_cannot_be_done_is_said(data: DataDir, arguments: list[str], error: type[BinderyError], says: str) -> None:
    done = run(data, *arguments)
    assert isinstance(done.exception, error), done.output
    assert says in str(done.exception)


BAD = {
    "detail": "amount: 'NA' is not DOUBLE; set nullValue",
    "raw": b"a,NA,\x1b[2J",
    "source": {"file": "file:/inbox/a.csv", "offset": 17},
}


def test_a_row_that_never_was_a_message_says_what_is_wrong_with_it(data: DataDir) -> None:
    refuse(data, TopologyStore(data), [BAD, {"detail": "a line of 9999 bytes; the cap is 5", "reason": "too_large"}])

    done = run(data, "explain", "--row", "s:0:0", "--queue", "q")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "The record is no message: invalid_record",
        "├── on record as s:0:0: discarded, routed at 2027-01-15T08:00:00.000Z",
        "├── amount: 'NA' is not DOUBLE; set nullValue",
        "├── record: a,NA,\ufffd[2J",
        "├── source: file:/inbox/a.csv, offset 17",
        "└── fix: source.options: {nullValue: NA}, if that stands for no value",
    ]
    found = data_of(data, "explain", "--row", "s:0:0")
    assert found["on_record"]["reason"] == "invalid_record"
    assert "queues" not in found
    assert found["refused"] == {
        "row": "s:0:0",
        "routed_at": "2027-01-15T08:00:00.000Z",
        "reason": "invalid_record",
        "disposition": "discarded",
        "detail": BAD["detail"],
        "exchange": None,
        "routing_key": None,
        "raw": "a,NA,\x1b[2J",
        "source": BAD["source"],
        "column": "amount",
        "value": "NA",
        "type": "DOUBLE",
        "fix": "source.options: {nullValue: NA}, if that stands for no value",
    }
    assert "raise max_record_bytes" in run(data, "explain", "--row", "s:0:1").stdout


def test_the_newest_unroutable_rows_are_shown_whole(data: DataDir) -> None:
    store = TopologyStore(data)
    for batch_id in range(3):
        refuse(data, store, [{**BAD, "raw": f"{batch_id},{n}".encode() * 2000} for n in range(2)], batch_id=batch_id)
    route(data, store, [Message("xx", "k")], stream="lost", clock_ms=1_900_000_000_000)

    found = data_of(data, "unroutable", "--show", "4")
    assert [row["row"] for row in found["newest"]] == ["lost:0:0", "s:2:1", "s:2:0", "s:1:1"]
    assert found["rows"] == 37
    lost, bad = found["newest"][:2]
    assert (lost["reason"], lost["exchange"], lost["routing_key"], lost["fix"]) == (
        "no_exchange",
        "xx",
        "k",
        "did you mean exchange 'x'?",
    )
    assert (bad["column"], bad["value"], bad["type"], len(bad["raw"])) == ("amount", "NA", "DOUBLE", 2000)
    assert [row["row"] for row in data_of(data, "unroutable", "--show", "9", "--key", "b.#")["newest"]][:1] == [
        "s:t:0:87"
    ]

    lines = run(data, "unroutable", "--show", "1").stdout.splitlines()
    assert lines == [
        "37 unroutable rows, 0 of them redriven since",
        "unroutable: no_exchange",
        "├── on record as lost:0:0: discarded, routed at 2030-03-17T17:46:40.000Z",
        "├── there is no exchange 'xx'",
        "├── exchange xx, key 'k'",
        "├── source: flights.csv, row_index 0",
        "└── fix: did you mean exchange 'x'?",
    ]
    assert "newest" not in data_of(data, "unroutable")
