"""Kafka brokers that librdkafka plays itself, in this process: no Java, and topics come into being by being named."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition


class MockKafka:
    """One broker, as long as this object lives."""

    def __init__(self) -> None:
        # its own client is the broker
        self._broker = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
        (broker,) = self._broker.list_topics(timeout=30).brokers.values()
        self.address = f"{broker.host}:{broker.port}"

    def topic(self) -> str:
        """A new topic of four partitions; its name."""
        name = f"t-{uuid.uuid4().hex[:12]}"
        while self._broker.list_topics(name, timeout=30).topics[name].error is not None:
            time.sleep(0.05)
        return name

    def records(self, topic: str) -> Sequence[Any]:
        """Everything that is in a topic, partition by partition."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": uuid.uuid4().hex, "log_level": 0})
        try:
            found: list[Any] = []
            for partition in consumer.list_topics(topic, timeout=30).topics[topic].partitions:
                place = TopicPartition(topic, partition, OFFSET_BEGINNING)
                _, end = consumer.get_watermark_offsets(place, timeout=30)
                consumer.assign([place])
                read: list[Any] = []
                while len(read) < end:
                    read += consumer.consume(end - len(read), timeout=30)
                found += read
            return found
        finally:
            consumer.close()
