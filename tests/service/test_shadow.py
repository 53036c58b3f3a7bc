"""`bindery shadow` against a real RabbitMQ: it finds where the broker puts messages, and leaves nothing behind."""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pika
import pytest

from bindery.cli.management_api import ManagementApi, ManagementFailed
from bindery.cli.shadow_report import as_report
from bindery.jobs.draining.address import read_address
from bindery.jobs.draining.broker import Broker
from bindery.jobs.shadowing.look import OWN
from bindery.jobs.shadowing.shadow import Shadow
from bindery.jobs.shadowing.tap import LENGTH, SIZE, ShadowFailed
from bindery.router.errors import BinderyError
from tests import amqp
from tests.amqp import Field, encoded
from tests.documents import ROOT
from tests.servers.rabbitmq import PASSWORD, USER, RabbitMQ

pytestmark = pytest.mark.service

PLUGINS: Final = ("rabbitmq_consistent_hash_exchange", "rabbitmq_random_exchange")
ENVIRONMENT: Final = {name: value for name, value in os.environ.items() if not name.startswith("BINDERY_")} | {
    "PASSWORD": PASSWORD
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    os.environ["PASSWORD"] = PASSWORD
    with RabbitMQ(tmp_path_factory.mktemp("rabbitmq"), management=True, plugins=PLUGINS) as node:
        until(lambda: bool(answers(node)), "management API")
        yield node


def answers(node: RabbitMQ) -> bool:
    with suppress(ManagementFailed):  # its listener starts after that of AMQP
        return bool(api(node).nodes())
    return False


@pytest.fixture
def vhost(node: RabbitMQ, request: pytest.FixtureRequest) -> Iterator[str]:
    """A vhost of the test's own, with a description and tags that must stay."""
    name = request.node.name.replace("[", ".").replace("]", "")[:60]
    ask(node, "PUT", f"/vhosts/{quote(name, safe='')}", {"description": "of a test", "tags": "a,b"})
    yield name
    ask(node, "DELETE", f"/vhosts/{quote(name, safe='')}")


def api(node: RabbitMQ, user: str = USER) -> ManagementApi:
    return ManagementApi(f"http://{user}@127.0.0.1:{node.management_port}", "env:PASSWORD")


def ask(node: RabbitMQ, method: str, path: str, body: Any = None) -> Any:
    """What the management API answers, beside what the product asks of it."""
    connection = http.client.HTTPConnection("127.0.0.1", node.management_port, timeout=60)
    authorization = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    headers = {"authorization": authorization, "content-type": "application/json"}
    connection.request(method, f"/api{path}", None if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    raw = response.read()
    connection.close()
    assert response.status < 300, (method, path, response.status, raw)
    return json.loads(raw) if raw else None


def until(holds: Callable[[], bool], what: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"no {what}"
        time.sleep(0.1)


@contextmanager
def channel(node: RabbitMQ, vhost: str) -> Iterator[Any]:
    connection = node.connect(virtual_host=vhost)
    try:
        yield connection.channel()
    finally:
        connection.close()


def url(node: RabbitMQ, vhost: str, user: str = USER) -> str:
    return f"amqp://{user}@127.0.0.1:{node.port}/{quote(vhost, safe='')}"


class Running:
    """A shadow in a thread."""

    def __init__(self, node: RabbitMQ, vhost: str, user: str = USER, **options: Any) -> None:
        broker = Broker(read_address(url(node, vhost, user), "env:PASSWORD"))
        self.work = Shadow(broker, api(node, user), **options)
        self.error: BinderyError | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        until(lambda: self.work.tap.is_laid or not self.thread.is_alive(), "tap")
        assert self.error is None, self.error

    def _run(self) -> None:
        try:
            self.work.run()
        except BinderyError as error:
            self.error = error

    def end(self) -> dict[str, Any]:
        """Stop it; what it has found."""
        self.work.stop()
        self.thread.join(120)
        assert not self.thread.is_alive()
        return as_report(self.work, self.error)


@contextmanager
def shadowing(node: RabbitMQ, vhost: str, **options: Any) -> Iterator[Running]:
    running = Running(node, vhost, **options)
    try:
        yield running
    finally:
        running.end()


def state(node: RabbitMQ, vhost: str) -> Any:
    """All of a vhost that a shadow might leave something in."""
    where = quote(vhost, safe="")
    described = ask(node, "GET", f"/vhosts/{where}")
    return (
        {name: described[name] for name in ("description", "tags", "tracing")},
        ask(node, "GET", f"/definitions/{where}"),
        sorted(ask(node, "GET", f"/bindings/{where}"), key=json.dumps),
        sorted(one["name"] for one in ask(node, "GET", f"/exchanges/{where}?disable_stats=true&columns=name")),
    )


def own(node: RabbitMQ, vhost: str) -> list[str]:
    """What shadows have declared."""
    found = json.dumps(state(node, vhost)[1:])
    return sorted({word for word in found.split('"') if word.startswith(OWN)})


# -- what it finds ----------------------------------------------------------------------------------------

WORDS: Final = ("eu", "us", "order", "", "paid")


def declare_all_kinds(open_channel: Any, node: RabbitMQ, vhost: str) -> list[str]:
    """Exchanges of every kind and ways between them; the names of the queues."""
    queues = [f"q{number}" for number in range(10)]
    for name in queues:
        open_channel.queue_declare(name, durable=True)
    for name, kind, arguments in (
        ("topic", "topic", {"alternate-exchange": "rest"}),
        ("direct", "direct", {}),
        ("fanout", "fanout", {}),
        ("headers", "headers", {}),
        ("rest", "fanout", {}),
        ("by-policy", "direct", {}),
        ("ring", "x-consistent-hash", {}),
    ):
        open_channel.exchange_declare(name, kind, durable=True, arguments=arguments)
    open_channel.exchange_declare("inner", "topic", internal=True, auto_delete=False)
    policy = {"pattern": "^by-", "definition": {"alternate-exchange": "rest"}, "apply-to": "exchanges"}
    ask(node, "PUT", f"/policies/{quote(vhost, safe='')}/alternate", policy)
    for exchange, queue, key, arguments in (
        ("topic", "q0", "eu.#", {}),
        ("topic", "q1", "*.order", {}),
        ("topic", "q1", "#", {}),
        ("direct", "q2", "order", {}),
        ("by-policy", "q2", "order", {}),
        ("fanout", "q3", "whatever", {}),
        ("headers", "q4", "", {"x-match": "all", "a": "x", "n": 5}),
        ("headers", "q5", "", {"x-match": "any", "a": "y", "b": True}),
        ("inner", "q6", "#.paid", {}),
        ("rest", "q7", "", {}),
        ("ring", "q8", "1", {}),  # in the order in which the API tells them, from which the ring follows
        ("ring", "q9", "2", {}),
    ):
        open_channel.queue_bind(queue, exchange, key, arguments=arguments)
    open_channel.queue_unbind("q1", "topic", "#")
    open_channel.exchange_bind("inner", "topic", "*.*")
    open_channel.exchange_bind("topic", "direct", "paid")
    return queues


def test_every_kind_of_exchange_is_found_equal(node: RabbitMQ, vhost: str) -> None:
    """Each message is compared, and the copies are those that are in the broker's queues in the end."""
    chance = random.Random(5)
    with channel(node, vhost) as open_channel:
        queues = declare_all_kinds(open_channel, node, vhost)
        mine = open_channel.queue_declare("", exclusive=True).method.queue
        open_channel.queue_bind(mine, "topic", "us.#")
        with shadowing(node, vhost, messages=600) as running:
            for number in range(600):
                exchange = chance.choice(["topic", "direct", "fanout", "headers", "by-policy", "ring", "", "amq.topic"])
                key = ".".join(chance.choices(WORDS, k=chance.randint(0, 3)))
                if exchange == "":
                    key = chance.choice(["q0", mine, "nowhere"])
                headers: dict[str, Any] = {"a": chance.choice("xyz"), "n": chance.choice([5, 6]), "b": True}
                headers = {name: value for name, value in headers.items() if chance.random() < 0.6}
                if chance.random() < 0.3:
                    headers |= {"CC": [chance.choice(WORDS), "order"], "BCC": ["eu.paid"]}
                sent = pika.BasicProperties(headers=headers or None, message_id=str(number))
                open_channel.basic_publish(exchange, key, b"x" * chance.randint(0, 300), sent)
            running.thread.join(120)
            report = running.end()
        counted = Counter({name: ready(open_channel, name) for name in (*queues, mine)})
    assert report["failure"] is None
    assert (report["equal"], report["differing"], report["classes"]) == (600, 0, [])
    assert report["topology_moved"] == 0 and not report["not_comparable"]
    assert {one["queue"]: one["both"] for one in report["queues"]} == dict(+counted)
    assert set(counted) == set(+counted)  # every way was taken
    assert report["tap"]["messages"] == 600 and report["tap"]["bytes"] > 600 * 100
    assert report["topology"]["objects"]["not carried over"] == 0


def ready(open_channel: Any, queue: str) -> int:
    return int(open_channel.queue_declare(queue, passive=True).method.message_count)


def test_what_goes_elsewhere_is_found_and_explained(node: RabbitMQ, vhost: str) -> None:
    """RabbitMQ 3 holds 5 and 5.0 to be equal in headers, and chooses by chance where that is asked for."""
    double = Field(b"d" + struct.pack(">d", 5.0), 5.0)
    with channel(node, vhost) as open_channel:
        open_channel.exchange_declare("h", "headers")
        open_channel.exchange_declare("any", "x-random")
        for queue in ("five", "chance"):
            open_channel.queue_declare(queue)
        open_channel.queue_bind("five", "h", arguments={"n": 5})
        open_channel.queue_bind("chance", "any")
        with shadowing(node, vhost) as running:
            for number in range(30):
                open_channel.basic_publish("h", "", b"", pika.BasicProperties(headers={"n": 5}))
                if number < 20:
                    open_channel.basic_publish("h", "", b"", amqp.Raw(encoded({}, {"n": double})))
                if number < 10:
                    open_channel.basic_publish("any", "", b"")
            until(lambda: running.work.tap.messages == 60, "message")
            report = running.end()
    assert (report["compared"], report["equal"], report["differing"]) == (60, 30, 30)
    numbers, by_chance = report["classes"]
    assert {name: numbers[name] for name in ("exchange", "messages", "only_there", "only_here")} == {
        "exchange": "h",
        "messages": 20,
        "only_there": ["five"],
        "only_here": [],
    }
    assert numbers["example"]["application_properties"] == {"n": 5.0}
    said, known = numbers["reasons"]["five"]
    assert said.startswith("header 'n' is the double 5.0, the integer 5 is wanted: unlike types are never equal")
    assert known.startswith("RabbitMQ 3 compares numbers whatever their type")
    assert (by_chance["messages"], by_chance["only_there"]) == (10, ["chance"])
    assert by_chance["reasons"]["chance"][0] == (
        "exchange 'any' is not carried over: there is no exchange type 'x-random' here"
    )


def test_under_the_mode_of_the_broker_nothing_is_different(node: RabbitMQ, vhost: str) -> None:
    double = Field(b"d" + struct.pack(">d", 5.0), 5.0)
    with channel(node, vhost) as open_channel:
        open_channel.exchange_declare("h", "headers")
        open_channel.queue_declare("five")
        open_channel.queue_bind("five", "h", arguments={"n": 5})
        with shadowing(node, vhost, compat="rabbitmq-3") as running:
            for _ in range(20):
                open_channel.basic_publish("h", "", b"", amqp.Raw(encoded({}, {"n": double})))
            until(lambda: running.work.tap.messages == 20, "message")
            report = running.end()
    assert (report["compared"], report["equal"], report["compat"]) == (20, 20, "rabbitmq-3")


def test_a_ring_that_was_made_in_another_order_is_named(node: RabbitMQ, vhost: str) -> None:
    with channel(node, vhost) as open_channel:
        open_channel.exchange_declare("ring", "x-consistent-hash")
        for queue, weight in (("first", "2"), ("second", "1")):
            open_channel.queue_declare(queue)
            open_channel.queue_bind(queue, "ring", weight)
        with shadowing(node, vhost, messages=50) as running:
            for number in range(50):
                open_channel.basic_publish("ring", str(number), b"")
            running.thread.join(120)
            report = running.end()
    assert report["compared"] == 50 and report["differing"] > 0
    for one in report["classes"]:
        for queue in (*one["only_there"], *one["only_here"]):
            assert one["reasons"][queue][-1].startswith("the ring of the broker follows from the order")


def test_a_topology_that_moves_makes_no_differences(node: RabbitMQ, vhost: str) -> None:
    """Queues and bindings come while messages do: each message is equal, or counted apart."""
    with channel(node, vhost) as open_channel:
        open_channel.exchange_declare("t", "topic")
        with shadowing(node, vhost) as running:
            for number in range(60):
                name = f"q{number}"
                open_channel.queue_declare(name, exclusive=number % 2 == 0)
                open_channel.queue_bind(name, "t", "#")
                open_channel.basic_publish("t", "k", b"")
                open_channel.basic_publish("", name, b"")
                time.sleep(0.1)
            until(lambda: running.work.tap.messages == 120, "message")
            report = running.end()
    assert report["differing"] == 0, report["classes"]
    assert report["equal"] + report["topology_moved"] == 120
    assert report["topology_moved"] > 0
    assert report["topology"]["changes"] > 0


def test_the_tap_is_bounded_and_does_not_feed_on_itself(node: RabbitMQ, vhost: str) -> None:
    with channel(node, vhost) as open_channel, shadowing(node, vhost) as first, shadowing(node, vhost) as second:
        (queue,) = (
            one for one in ask(node, "GET", f"/queues/{quote(vhost, safe='')}") if one["name"] == first.work.tap.name
        )
        assert queue["exclusive"]
        bounds = {name: queue["arguments"][name] for name in ("x-max-length", "x-max-length-bytes", "x-overflow")}
        assert bounds == {"x-max-length": LENGTH, "x-max-length-bytes": SIZE, "x-overflow": "drop-head"}
        until(lambda: min(one.work.tap.marks for one in (first, second)) >= 3, "third mark")
        open_channel.basic_publish("amq.fanout", "", b"")
        until(lambda: first.work.tap.messages >= 1, "message")
        reports = [one.end() for one in (first, second)]
    assert [one["tap"]["messages"] for one in reports] == [1, 1]
    assert [one["equal"] for one in reports] == [1, 1]


# -- what it leaves behind --------------------------------------------------------------------------------


def test_nothing_is_left(node: RabbitMQ, vhost: str) -> None:
    with channel(node, vhost) as open_channel:
        open_channel.queue_declare("q", durable=True)
        before = state(node, vhost)
        assert (before[0]["description"], before[0]["tags"]) == ("of a test", ["a", "b"])
        with shadowing(node, vhost) as running:
            during = state(node, vhost)
            assert during[0] == before[0] | {"tracing": True}
            open_channel.basic_publish("", "q", b"")
            report = running.end()
        assert state(node, vhost) == before
    assert report["tap"]["firehose"] == "turned on for the time"
    assert report["tap"]["left"] == ""


def test_a_firehose_that_was_on_stays_on(node: RabbitMQ, vhost: str) -> None:
    described = api(node).vhost(vhost)
    assert described is not None
    api(node).trace(described, on=True)
    before = state(node, vhost)
    with channel(node, vhost) as open_channel, shadowing(node, vhost, messages=1) as running:
        open_channel.basic_publish("amq.fanout", "", b"")
        running.thread.join(120)
        report = running.end()
    assert report["equal"] == 1
    assert report["tap"]["firehose"] == "was on, and stays on"
    assert state(node, vhost) == before


def test_the_last_of_several_turns_the_firehose_off(node: RabbitMQ, vhost: str) -> None:
    before = state(node, vhost)
    with channel(node, vhost) as open_channel, shadowing(node, vhost) as second:
        with shadowing(node, vhost) as first:
            first.end()
        assert state(node, vhost)[0]["tracing"] is True
        open_channel.basic_publish("amq.fanout", "", b"")
        until(lambda: second.work.tap.messages == 1, "message")
        assert second.end()["equal"] == 1
    assert state(node, vhost) == before


def test_one_that_turns_the_firehose_off_ends_it(node: RabbitMQ, vhost: str) -> None:
    before = state(node, vhost)
    with shadowing(node, vhost) as running:
        described = api(node).vhost(vhost)
        assert described is not None
        api(node).trace(described, on=False)
        running.thread.join(120)
        report = running.end()
    assert isinstance(running.error, ShadowFailed)
    assert report["failure"] == "somebody turned the firehose off"
    assert state(node, vhost) == before


def test_a_broker_that_goes_away_ends_it(node: RabbitMQ, vhost: str) -> None:
    before = state(node, vhost)
    with shadowing(node, vhost) as running:
        until(lambda: closed(node, vhost), "connection")  # they are listed after some seconds
        running.thread.join(120)
        report = running.end()
    assert report["failure"].startswith(f"lost 127.0.0.1:{node.port}: ")
    assert running.error is not None and running.error.exit_code == 2
    until(lambda: state(node, vhost) == before, "end of the tap")


def closed(node: RabbitMQ, vhost: str) -> bool:
    """Whether there was a connection to the vhost to close."""
    found = [one["name"] for one in ask(node, "GET", "/connections") if one.get("vhost") == vhost]
    for name in found:
        ask(node, "DELETE", f"/connections/{quote(name, safe='')}")
    return bool(found)


def test_the_rights_that_are_documented_are_enough(node: RabbitMQ, vhost: str) -> None:
    rows = re.findall(r"^\| (configure|write|read) \| `(.+)` \|$", (ROOT / "docs/shadow.md").read_text(), re.MULTILINE)
    rights = {name: pattern.replace("\\|", "|") for name, pattern in rows}
    ask(node, "PUT", "/users/shadower", {"password": PASSWORD, "tags": "administrator"})
    ask(node, "PUT", f"/permissions/{quote(vhost, safe='')}/shadower", rights)
    before = state(node, vhost)
    with channel(node, vhost) as open_channel, shadowing(node, vhost, user="shadower", messages=1) as running:
        open_channel.basic_publish("amq.fanout", "", b"")
        running.thread.join(120)
        report = running.end()
    assert (report["failure"], report["equal"], report["tap"]["left"]) == (None, 1, "")
    assert state(node, vhost) == before


# -- the command ------------------------------------------------------------------------------------------


def command(node: RabbitMQ, vhost: str, *options: str) -> list[str]:
    return [
        *(sys.executable, "-m", "bindery.cli.main", "shadow", "--password", "env:PASSWORD"),
        *("--rabbitmq", url(node, vhost), "--management", f"http://{USER}@127.0.0.1:{node.management_port}"),
        *options,
    ]


@contextmanager
def started(node: RabbitMQ, vhost: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The command, once it traces."""
    process = subprocess.Popen(
        command(node, vhost, *options),
        env=ENVIRONMENT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        until(lambda: state(node, vhost)[0]["tracing"] is True or process.poll() is not None, "firehose")
        assert process.poll() is None, process.communicate()
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_its_report(node: RabbitMQ, vhost: str, tmp_path: Path, number: int) -> None:
    before = state(node, vhost)
    path = tmp_path / "shadow.html"
    with channel(node, vhost) as open_channel, started(node, vhost, "--report", str(path), "--json") as process:
        open_channel.exchange_declare("<x>", "fanout")
        open_channel.queue_declare("<q>&")
        open_channel.queue_bind("<q>&", "<x>")
        time.sleep(1)
        open_channel.basic_publish("<x>", "k", b"")
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
        open_channel.exchange_delete("<x>")
        open_channel.queue_delete("<q>&")
    assert process.returncode in (0, 1), err
    report = json.loads(out)
    assert report["differing"] == 0
    assert report["tap"]["left"] == ""
    page = path.read_text()
    assert "<svg " in page and "<q>" not in page
    assert state(node, vhost) == before


def test_what_a_killed_one_leaves_the_next_one_removes(node: RabbitMQ, vhost: str) -> None:
    before = state(node, vhost)
    with started(node, vhost) as process:
        process.kill()
        process.wait()
        until(lambda: len(own(node, vhost)) == 1 and not queues_of(node, vhost), "end of its connection")
        assert state(node, vhost)[0]["tracing"] is True
    with shadowing(node, vhost) as running:
        assert own(node, vhost) == [running.work.tap.name]
    assert state(node, vhost) == before


def queues_of(node: RabbitMQ, vhost: str) -> list[str]:
    return [one["destination"] for one in ask(node, "GET", f"/bindings/{quote(vhost, safe='')}")]


def test_exit_codes_and_what_is_said(node: RabbitMQ, vhost: str, tmp_path: Path) -> None:
    done = run(node, vhost, "--seconds", "0")
    assert done.returncode == 1
    assert done.stdout.splitlines()[:2] == [
        "0 messages compared: 0 equal, 0 different",
        "no message was compared: nothing is known of how messages are routed",
    ]
    done = run(node, vhost, "--report", str(tmp_path / "x.pdf"))
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        "error: --report: 'x.pdf' does not say the form of the report",
    )
    for options, line in (
        (("--password", "env:HOME"), "error: --management: http://127.0.0.1:"),
        (("--management", "http://guest@127.0.0.1:1"), "error: http://127.0.0.1:1 did not answer: "),
        (("--rabbitmq", f"amqp://{USER}@127.0.0.1:1"), "error: --rabbitmq: cannot reach 127.0.0.1:1: "),
        (("--rabbitmq", f"amqp://{USER}@127.0.0.1:{node.port}/nope"), "error: "),
        (("--rabbitmq", f"amqp://{USER}:pass@127.0.0.1"), "error: --rabbitmq: holds a password"),
    ):
        done = run(node, vhost, *options)
        assert (done.returncode, done.stdout) == (2, ""), done
        assert done.stderr.startswith(line), done.stderr
        assert PASSWORD not in done.stderr and "Traceback" not in done.stderr
    assert own(node, vhost) == []


def run(node: RabbitMQ, vhost: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(node, vhost, *options), env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
    )
