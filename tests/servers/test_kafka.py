"""The broker that other tests rely on."""

from __future__ import annotations

from pathlib import Path

from tests.servers.kafka import Broker


def test_records_survive_a_broker_that_is_killed(kafka: Broker, tmp_path: Path) -> None:
    headers = [("a", b"1"), ("b", None), ("a", b"\xff")]
    with Broker(tmp_path / "kafka") as broker:
        assert broker.port != kafka.port
        topic = broker.topic(partitions=2)
        broker.produce(
            topic, [{"key": b"k", "value": None, "headers": headers, "partition": 1, "timestamp": 86_400_000}]
        )
        broker.stop(kill=True)
        broker.start()
        (record,) = broker.consume(topic, 1)
        assert (record.key(), record.value(), record.headers()) == (b"k", None, headers)
        assert (record.partition(), record.offset(), record.timestamp()[1]) == (1, 0, 86_400_000)
