"""A bridge may not feed the queue that it reads, whatever leads there (seed 004, bridges)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bindery.jobs.control.bridge import bridge_filter, check_bridge
from bindery.jobs.control.config import JobFile, QueueSource, parse_job
from bindery.router.declarations import TopologyEditor
from bindery.router.errors import FilterError, InvalidInput, Refused
from bindery.router.filters import evaluate
from bindery.router.message import Message
from bindery.router.model import Exchange, Queue, Topology
from bindery.router.policies import Policy
from bindery.router.values import Table, Value
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    return DataDir.open(tmp_path / "data", create=True)


BRIDGE = """
stream: bridge
source: {format: queue, queue: orders}
message: {exchange: "'archive'"}
"""


@pytest.fixture
def file() -> JobFile:
    return parse_job(BRIDGE)


def topology(policy: Policy, **arguments: Value) -> Topology:
    editor = TopologyEditor(Topology.empty())
    editor.declare_queue(Queue("/", "orders"))
    editor.declare_exchange(
        Exchange("/", "rest", "fanout", arguments=Table({"alternate-binding": Table({"destination": "orders"})}))
    )
    editor.declare_exchange(Exchange("/", "archive", "topic", arguments=Table(arguments)))
    editor.put_setting(policy.setting())
    return editor.topology


def alternate(name: str, *, pattern: str = "^archive$") -> Policy:
    return Policy("/", "p", pattern, Table({"alternate-exchange": name}), "exchanges")


def test_an_alternate_exchange_of_a_policy_closes_a_loop(file: JobFile) -> None:
    with pytest.raises(Refused, match="leads to it"):
        check_bridge(file, topology(alternate("rest")))


def test_a_policy_that_does_not_apply_closes_none(file: JobFile) -> None:
    check_bridge(file, topology(alternate("rest", pattern="^other$")))
    check_bridge(file, topology(alternate("rest"), **{"alternate-exchange": "amq.fanout"}))


def test_an_empty_alternate_exchange_is_none(file: JobFile) -> None:
    check_bridge(file, topology(alternate("rest", pattern="^other$"), **{"alternate-exchange": ""}))


def test_of_an_exchange_and_a_queue_of_one_name_an_alternate_binding_feeds_the_exchange(file: JobFile) -> None:
    binding = {"alternate-binding": Table({"destination": "orders"})}
    editor = TopologyEditor(topology(alternate("rest", pattern="^other$"), **binding))
    with pytest.raises(Refused, match="leads to it"):
        check_bridge(file, editor.topology)
    editor.declare_exchange(Exchange("/", "orders", "fanout"))
    check_bridge(file, editor.topology)


def filtering(source: str) -> JobFile:
    return parse_job(BRIDGE.replace("queue: orders}", f"queue: orders, {source}}}"))


NO_LOCAL = "filter: {f: {descriptor: 'apache.org:jms-no-local-filter:list', value: []}}"


@pytest.mark.parametrize(
    ("source", "accepted"),
    [
        (f"{NO_LOCAL}, connection: me", [False, True, True]),
        (NO_LOCAL, [True, True, True]),
        ("filter: a IS NULL, connection: me", [True, True, True]),
    ],
)
def test_no_local_compares_with_the_connection_of_the_bridge(data: DataDir, source: str, accepted: list[bool]) -> None:
    job = filtering(source)
    assert isinstance(job.job.source, QueueSource)
    condition = bridge_filter(data, job.job.source, job)
    assert condition is not None
    messages = [Message(connection=name) for name in ("me", "you", None)]
    assert [evaluate(condition, message) for message in messages] == accepted


def test_a_bad_filter_names_its_line(data: DataDir) -> None:
    job = filtering("filter: 'a ='")
    assert isinstance(job.job.source, QueueSource)
    with pytest.raises(FilterError) as raised:
        bridge_filter(data, job.job.source, job)
    assert raised.value.where == "job.yaml, line 3: source.filter"


@pytest.mark.parametrize(
    ("declared", "source", "accepted"),
    [
        ("json", "filter: body.a = 5", [True, False]),
        ("json", "filter: body.a = 5, payload: json", [True, False]),
        (None, "filter: body.a = 5, payload: json", [True, False]),
        (None, "filter: body LIKE '%6%', payload: text", [False, True]),
        (None, "filter: body IS NULL", [True, True]),
    ],
)
def test_a_bridge_looks_into_the_bodies_of_its_queue(
    data: DataDir, declared: str | None, source: str, accepted: list[bool]
) -> None:
    arguments = Table({} if declared is None else {"x-payload": declared})
    TopologyStore(data).edit(lambda editor: editor.declare_queue(Queue("/", "orders", arguments=arguments)), author="t")
    job = filtering(source)
    assert isinstance(job.job.source, QueueSource)
    condition = bridge_filter(data, job.job.source, job)
    assert condition is not None
    messages = [Message(body=body) for body in (b'{"a": 5}', b'{"a": 6}')]
    assert [evaluate(condition, message) is True for message in messages] == accepted


@pytest.mark.parametrize(
    ("source", "where", "hint"),
    [
        ("filter: body.a = 5", "source.filter", "payload in REST, job files and Python"),
        ("filter: body.a = 5, payload: jsn", "source.payload", "did you mean json?"),
    ],
)
def test_a_bridge_that_cannot_look_into_bodies_says_where(data: DataDir, source: str, where: str, hint: str) -> None:
    TopologyStore(data).edit(lambda editor: editor.declare_queue(Queue("/", "orders")), author="t")
    job = filtering(source)
    assert isinstance(job.job.source, QueueSource)
    with pytest.raises(InvalidInput) as raised:
        bridge_filter(data, job.job.source, job)
    assert raised.value.where == f"job.yaml, line 3: {where}"
    assert hint in str(raised.value.hint)
