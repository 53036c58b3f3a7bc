"""Exchanges that a job names and the topology does not have."""

from __future__ import annotations

import pytest

from bindery.jobs.control.config import parse_job
from bindery.jobs.control.exchanges import missing_exchanges
from bindery.router.declarations import TopologyEditor
from bindery.router.model import Exchange, Topology

FILES = "stream: s\nsource: {format: json, path: x, schema: a STRING}\nmessage: {exchange: EXCHANGE}\n"
KAFKA = "stream: s\nsource: {format: kafka, bootstrap_servers: 'a:1', topics: [orders, amq.topic], EXCHANGES}\n"


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        (FILES.replace("EXCHANGE", "\"'amq.topic'\""), []),
        (FILES.replace("EXCHANGE", "\"''\""), []),
        (FILES.replace("EXCHANGE", "a"), []),
        (FILES.replace("EXCHANGE", "upper('flihgts')"), []),
        (
            FILES.replace("EXCHANGE", "\"'flihgts'\""),
            [
                "warning: job.yaml, line 3: message.exchange: there is no exchange 'flihgts' in vhost '/': "
                "did you mean 'flights'?"
            ],
        ),
        (
            FILES.replace("EXCHANGE", "\"'zzzzzzz'\""),
            ["warning: job.yaml, line 3: message.exchange: there is no exchange 'zzzzzzz' in vhost '/'"],
        ),
        (
            KAFKA.replace("EXCHANGES", "exchanges: {}"),
            ["warning: job.yaml, line 2: source.topics: there is no exchange 'orders' in vhost '/'"],
        ),
        (KAFKA.replace("EXCHANGES", "exchanges: {orders: flights}"), []),
        (
            KAFKA.replace("EXCHANGES", "exchanges: {orders: flight}"),
            [
                "warning: job.yaml, line 2: source.exchanges.orders: there is no exchange 'flight' in vhost '/': "
                "did you mean 'flights'?"
            ],
        ),
    ],
)
def test_each_is_named_with_its_key(text: str, warnings: list[str], topology: Topology) -> None:
    assert missing_exchanges(parse_job(text), topology) == warnings


@pytest.fixture
def topology() -> Topology:
    editor = TopologyEditor(Topology.empty())
    editor.declare_exchange(Exchange("/", "flights", "topic"))
    return editor.topology
