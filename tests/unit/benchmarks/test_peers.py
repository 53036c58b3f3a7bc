"""Peers of benchmarks get what Bindery gets: the same bindings and messages, and the same copies come out."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pytest

from benchmarks.broker import is_here, node
from benchmarks.peers import cases, engines, practice
from benchmarks.peers.asked import Options, differences, in_turns
from benchmarks.peers.java import Missing, driver
from benchmarks.peers.settling import processor_seconds, settle
from benchmarks.results import read

_ROWS = 200


@pytest.mark.parametrize("engine", engines.ENGINES)
def test_an_engine_finds_the_rows_of_every_filter(engine: str) -> None:
    case = cases.filters()
    messages = case.messages(5 * _ROWS)
    filters = {one.destination: str(one.arguments[cases.SELECTOR]) for one in case.bindings()}
    found = engines.ENGINES[engine](engines.columns(messages), filters)()
    assert sum(found.values()) > _ROWS
    assert differences(case.counts(messages), found) == []


def test_conditions_of_sql_are_the_bindings() -> None:
    """What Spark is asked without a router, by another engine: the rows of every queue."""
    case = cases.whole()
    messages = case.messages(_ROWS)
    columns = ", ".join(
        f"application_properties['{name}'].\"{kind}\" AS {name}" for name, kind in practice.PROPERTIES.items()
    )
    connection = duckdb.connect()
    connection.register("messages", messages)
    connection.execute(f"CREATE TABLE flat AS SELECT exchange, routing_key, {columns} FROM messages")  # noqa: S608  # the workload's own
    found = {
        queue: connection.execute(f"SELECT count(*) FROM flat WHERE {text}").fetchall()[0][0]  # noqa: S608  # the workload's own
        for queue, text in practice.conditions(case).items()
    }
    assert differences(case.counts(messages), found) == []


def test_what_a_peer_cannot_express_is_left_out() -> None:
    whole, plain, apart, each = cases.whole(), cases.without_selectors(), cases.keys_apart(), cases.queue_each()
    assert not any(cases.SELECTOR in one.arguments for one in plain.bindings())
    known = [(one.source, one.destination, one.routing_key) for one in apart.bindings()]
    assert len(known) == len(set(known)) > 0.99 * len(whole.bindings())
    assert len(each.queues()) == len(each.bindings()) == len(whole.bindings())
    messages = whole.messages(_ROWS)
    copies = {case.name: sum(case.counts(messages).values()) for case in (whole, plain, apart, each)}
    assert copies["without-selectors"] > copies["queue-each"] > copies["whole"] >= copies["keys-apart"]


def test_queues_that_differ_are_told() -> None:
    assert differences({"a": 1, "b": 2}, {"a": 1, "b": 2}) == []
    assert differences({"a": 1, "b": 2}, {"a": 1, "b": 3}) == [
        "1 of 2 queues differ: 4 copies, Bindery 3; b has 3, Bindery 2"
    ]
    assert differences({"a": 1}, {"a": 1, "b": 0}) == [
        "1 of 1 queues differ: 1 copies, Bindery 1; b has 0, Bindery None"
    ]


def test_rounds_count_after_one_that_warms_up_until_the_time_is_over() -> None:
    asked: list[bool] = []

    def measure(warm_up: bool) -> dict[str, float]:
        asked.append(warm_up)
        return {"one": float(len(asked)), "other": 0.5}

    assert in_turns("peer", Options(rounds=2), measure) == {"one": [2.0, 3.0], "other": [0.5, 0.5]}
    assert asked == [True, False, False]
    asked.clear()
    assert in_turns("peer", Options(rounds=9, minutes=0), measure)["one"] == [2.0]


def test_the_recorded_peers_made_the_same_copies() -> None:
    recorded = {name: one for name, one in read().questions.items() if name.startswith("peers-")}
    assert {name: said for name, one in recorded.items() if "the same" not in (said := one.settings["copies"])} == {}


@pytest.mark.parametrize(
    ("peer", "make"),
    [
        ("rabbitmq", cases.without_selectors),
        pytest.param("broker-j", cases.keys_apart, marks=pytest.mark.nightly),
        pytest.param("artemis", cases.queue_each, marks=pytest.mark.nightly),
    ],
)
def test_a_broker_makes_the_same_copies(peer: str, make, tmp_path: Path) -> None:
    case = make()
    messages = case.messages(_ROWS)
    expected = case.counts(messages)
    with ExitStack() as stack:
        place = str(tmp_path)
        if peer == "rabbitmq":
            if not is_here():
                pytest.skip("rabbitmq-server is not installed")
            service = stack.enter_context(node(tmp_path))
            place = f"amqp://{service.user}:{service.password}@127.0.0.1:{service.amqp}"
        try:
            files = case.write(tmp_path, messages)
            broker = stack.enter_context(driver(peer, "volatile", files, place, tmp_path))
        except Missing as reason:
            pytest.skip(f"{peer}: {reason}")
        found = broker.publish(sum(expected.values()), 120)
    assert differences(expected, found.counts) == []


def test_a_peer_is_waited_for_until_it_rests(tmp_path: Path) -> None:
    """It burns processor time in a process of its own, as a broker's wrapper starts one."""
    done = tmp_path / "done"
    burn = f"import time\nwhile time.process_time() < 2.5: pass\nopen({str(done)!r}, 'w').close(); time.sleep(60)"
    with subprocess.Popen(["sh", "-c", '"$0" -c "$1" & wait', sys.executable, burn]) as process:
        try:
            settle(process.pid)
            assert done.exists()
            assert processor_seconds(process.pid) > 2
        finally:
            subprocess.run(["pkill", "-P", str(process.pid)], check=False)
            process.kill()
