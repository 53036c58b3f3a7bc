"""`bindery import --from rabbitmq URL`: from the management API of a RabbitMQ that runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from bindery.cli.main import app
from bindery.cli.management_api import ManagementApi, ManagementFailed
from bindery.router.errors import InvalidInput
from bindery.router.message import Message
from bindery.router.reference import NaiveRouter
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.servers.rabbitmq import PASSWORD, USER, RabbitMQ


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    with RabbitMQ(tmp_path_factory.mktemp("rabbitmq"), management=True) as node:
        connection = node.connect()
        channel = connection.channel()
        channel.exchange_declare("orders", "topic", durable=True, arguments={"alternate-exchange": "rest"})
        channel.exchange_declare("rest", "fanout", durable=True)
        for name, arguments in (("europe", {"x-max-priority": 5}), ("late", {})):
            channel.queue_declare(name, durable=True, arguments=arguments)
        channel.queue_bind("europe", "orders", "eu.#")
        channel.queue_bind("late", "rest")
        connection.close()
        yield node


def _definitions(api: ManagementApi) -> bytes:
    """The management listener starts after that of AMQP."""
    end = time.monotonic() + 60
    while True:
        try:
            return api.definitions()
        except ManagementFailed:
            assert time.monotonic() < end
            time.sleep(0.2)


def test_the_topology_of_a_running_broker_is_carried_over_and_routes_as_there(
    broker: RabbitMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"127.0.0.1:{broker.management_port}"
    monkeypatch.setenv("BROKER_PASSWORD", PASSWORD)
    monkeypatch.setenv("BROKER_URL", f"http://{USER}:{quote(PASSWORD, safe='')}@{address}")
    _definitions(ManagementApi("env:BROKER_URL"))
    said = []
    for arguments in ([f"http://{USER}@{address}", "--password", "env:BROKER_PASSWORD"], ["env:BROKER_URL"]):
        data = tmp_path / str(len(said))
        done = CliRunner().invoke(app, ["import", "--from", "rabbitmq", *arguments, "--data", str(data), "--json"])
        assert done.exit_code == 0, done.output
        said.append(json.loads(done.output))
        assert PASSWORD not in done.output and quote(PASSWORD, safe="") not in done.output
    outcomes = {f"{item['kind']} {item['name']}": item["outcome"] for item in said[0]["fidelity"]["objects"]}
    assert said[0]["fidelity"] == said[1]["fidelity"]
    assert outcomes["queue late"] == outcomes["exchange orders"] == "exact"
    assert (outcomes["queue europe"], outcomes[f"user {USER}"]) == ("different", "not carried over")

    router = NaiveRouter(TopologyStore(DataDir.open(data)).load(), "/")
    connection = broker.connect()
    channel = connection.channel()
    for key in ("eu.de", "us"):
        channel.basic_publish("orders", key, b"")
        there = {name for name in ("europe", "late") if _takes(channel, name)}
        assert router.route(Message("orders", key)).queues == there
    connection.close()


def _takes(channel: object, queue: str) -> bool:
    end = time.monotonic() + 1
    while time.monotonic() < end:
        if channel.basic_get(queue, auto_ack=True)[0] is not None:
            return True
    return False


def test_who_may_not_and_what_is_no_management_api_is_told_without_credentials(broker: RabbitMQ) -> None:
    address = f"127.0.0.1:{broker.management_port}"
    _definitions(ManagementApi(f"http://{USER}:{quote(PASSWORD, safe='')}@{address}"))
    with pytest.raises(InvalidInput, match="refuses user") as refused:
        ManagementApi(f"http://{USER}:wrong-secret@{address}").definitions()
    assert "wrong-secret" not in str(refused.value) + str(refused.value.where)
    with pytest.raises(ManagementFailed) as failed:
        ManagementApi(f"http://{USER}:wrong-secret@127.0.0.1:{broker.port}").definitions()
    assert "wrong-secret" not in str(failed.value)
