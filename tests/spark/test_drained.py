"""What was drained from a RabbitMQ is routed as any message, keeps what it had, and is explained."""

from __future__ import annotations

import json

import pika
import pytest
from typer.testing import CliRunner

from bindery.cli.main import app
from bindery.jobs.draining.address import read_address
from bindery.jobs.draining.broker import Broker
from bindery.jobs.draining.drain import Drain
from bindery.jobs.draining.options import DrainOptions
from bindery.router.model import Exchange
from tests.servers.rabbitmq import PASSWORD, RabbitMQ
from tests.spark.installation import Installation

JOB = "stream: s\nsource: {format: delta, path: INBOX}\ntrigger: available-now\n"


def test_a_message_of_a_broker_is_routed_replayed_and_explained(
    installation: Installation, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.edit(lambda editor: editor.declare_exchange(Exchange("/", "orders", "topic")))
    installation.queue("large", source="orders", key="eu.#", **{"x-filter-jms-selector": "amount > 100"})
    monkeypatch.setenv("PASSWORD", PASSWORD)
    with RabbitMQ(tmp_path_factory.mktemp("rabbitmq")) as broker:
        connection = broker.connect()
        channel = connection.channel()
        channel.exchange_declare("orders", "topic", durable=True)
        channel.queue_declare("app", durable=True)
        channel.queue_bind("app", "orders", "#")
        for key, amount in (("eu.paid", 250), ("eu.paid", 50), ("us.paid", 500)):
            properties = pika.BasicProperties(message_id=f"{key}-{amount}", headers={"amount": amount})
            channel.basic_publish("orders", key, b"body", properties)
        channel.queue_declare("app", passive=True)
        connection.close()
        options = DrainOptions(queue="app", name="d", until_empty=True)
        Drain(installation.data, Broker(read_address(broker.url, "env:PASSWORD")), options).run()

    job = JOB.replace("INBOX", installation.data.inbox("/"))
    (report,) = installation.route(job)
    assert (report.records, report.copies, report.unroutable) == (3, 1, 2)
    (row,) = installation.rows("large")
    assert (row["properties"]["message_id"]["string"], row["body"]) == ("eu.paid-250", b"body")

    # the batch is lost after it was begun, and routed again: the same rows
    installation.forget_last_batch()
    assert installation.route(job)[0].records == 0
    assert installation.rows("large") == [row]

    asked = ["explain", "--find", "amount = 50", "--queue", "large", "--data", installation.data.root, "--json"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "amount > 100" in done.output
    assert json.loads(done.output)
