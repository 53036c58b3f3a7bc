"""Hash exchanges against a real RabbitMQ with its plugins: the same queue for the same key."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any, Final

import pika
import pytest

from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.message import Message, to_batch
from bindery.router.model import DEFAULT_VHOST, Binding, Exchange, Queue, Topology
from bindery.router.reference import NaiveRouter
from bindery.router.values import Table, Timestamp
from tests.servers.rabbitmq import RabbitMQ

pytestmark = pytest.mark.service

PLUGINS: Final = ("rabbitmq_consistent_hash_exchange", "rabbitmq_sharding")
EXCHANGES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "consistent": ("x-consistent-hash", {}),
    "by-header": ("x-consistent-hash", {"hash-header": "h"}),
    "by-id": ("x-consistent-hash", {"hash-property": "message_id"}),
    "by-correlation": ("x-consistent-hash", {"hash-property": "correlation_id"}),
    "by-time": ("x-consistent-hash", {"hash-property": "timestamp"}),
    "modulus": ("x-modulus-hash", {}),
}
QUEUES: Final = [f"q{number}" for number in range(12)]
#: Messages for each exchange and round.
MESSAGES: Final = 250


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """A broker with the plugins of both exchange types."""
    with RabbitMQ(tmp_path_factory.mktemp("rabbitmq"), plugins=PLUGINS) as node:
        yield node


class Both:
    """A broker and a topology that get the same declarations and messages."""

    def __init__(self, node: RabbitMQ, seed: int) -> None:
        self.random = random.Random(seed)
        self.node = node
        self.connection = node.connect()
        self.channel = self.connection.channel()
        self.editor = TopologyEditor(Topology.empty())
        for name, (kind, arguments) in EXCHANGES.items():
            self.channel.exchange_declare(name, kind, durable=True, arguments=arguments)
            self.editor.declare_exchange(Exchange(DEFAULT_VHOST, name, kind, arguments=Table(arguments)))
        for name in QUEUES:
            self.channel.queue_declare(name, durable=True)
            self.editor.declare_queue(Queue(DEFAULT_VHOST, name))

    def bind(self, exchange: str, queue: str, key: str) -> None:
        self.channel.queue_bind(queue, exchange, key)
        self.editor.bind(Binding(0, DEFAULT_VHOST, exchange, queue, "queue", key))

    def unbind(self, binding: Binding) -> None:
        self.channel.queue_unbind(binding.destination, binding.source, binding.routing_key)
        self.editor.unbind(binding)

    def bound(self, exchange: str) -> list[Binding]:
        return self.editor.topology.bindings_from(DEFAULT_VHOST, exchange)

    def restart(self) -> None:
        self.connection.close()
        self.node.stop()
        self.node.start()
        self.connection = self.node.connect()
        self.channel = self.connection.channel()

    def message(self, exchange: str) -> Message:
        """A message with random parts; numbers and times are held as the client sends them."""
        words = ["order", "ž", "", "a.b", "x" * 30]
        text = self.random.choice(words) + str(self.random.randrange(10**6))
        header: Any = self.random.choice([text, text, text, 2**40 + self.random.randrange(1000), True, b"x"])
        properties: dict[str, Any] = {}
        if self.random.random() < 0.9:
            properties["message_id"] = self.random.choice([text, "a"])
            properties["correlation_id"] = text
            properties["creation_time"] = Timestamp(self.random.randrange(10**9) * 1000)
        cc = tuple(f"c{number}" for number in range(self.random.choice([0, 0, 0, 1, 3])))
        return Message(
            exchange=exchange,
            routing_key=self.random.choice([text, text, ""]),
            cc=(*cc, *cc[:1]),
            bcc=cc[:2],
            properties=properties,
            application_properties=Table({"h": header} if self.random.random() < 0.9 else {}),
        )

    def compare(self) -> int:
        """Send random messages to every exchange, and compare where they come to; gives how many there were."""
        sent = [self.message(exchange) for exchange in EXCHANGES for _ in range(MESSAGES)]
        for number, message in enumerate(sent):
            self._publish(number, message)
        there: dict[int, str] = {}
        for queue in QUEUES:
            while (got := self.channel.basic_get(queue, auto_ack=True))[0] is not None:
                number = int(got[2])
                assert number not in there, "a hash chooses one queue"
                there[number] = queue
        router = Router.compile(self.editor.topology, DEFAULT_VHOST)
        deliveries = router.route(to_batch(sent), clock_ms=0)
        here = {int(row): router.queues[queue] for queue in deliveries.queue for row in deliveries.rows_of(queue)}
        different = [(sent[n], there.get(n), here.get(n)) for n in range(len(sent)) if there.get(n) != here.get(n)]
        assert not different, (len(different), different[:5])
        naive = NaiveRouter(self.editor.topology, DEFAULT_VHOST)
        for number in range(0, len(sent), 7):
            assert naive.route(sent[number]).queues == ({here[number]} if number in here else set())
        return len(sent)

    def _publish(self, number: int, message: Message) -> None:
        headers = dict(message.application_properties)
        if message.cc:
            headers |= {"CC": list(message.cc), "BCC": list(message.bcc)}
        time: Any = message.properties.get("creation_time")
        properties = pika.BasicProperties(
            headers=headers or None,
            message_id=message.properties.get("message_id"),
            correlation_id=message.properties.get("correlation_id"),
            timestamp=None if time is None else time.ms // 1000,
        )
        self.channel.basic_publish(message.exchange, message.routing_key, str(number).encode(), properties)


def test_keys_come_to_the_queues_of_the_broker(node: RabbitMQ, capsys: pytest.CaptureFixture[str]) -> None:
    """rabbitmq_consistent_hash_exchange and rabbitmq_sharding, over random bindings that come and go."""
    both = Both(node, seed=7)
    compared = 0
    for _ in range(4):
        for exchange, (kind, _arguments) in EXCHANGES.items():
            bound = both.bound(exchange)
            # a destination that is bound twice loses its buckets on the broker with the first unbinding
            for binding in both.random.sample(bound, min(len(bound), both.random.randrange(3))):
                both.unbind(binding)
            taken = {binding.destination for binding in both.bound(exchange)}
            free = [queue for queue in QUEUES if queue not in taken]
            for queue in both.random.sample(free, min(len(free), both.random.randrange(1, 5))):
                weight = str(both.random.choice([1, 2, 3, 10, 100]))
                both.bind(exchange, queue, weight)
                if kind == "x-modulus-hash" and both.random.random() < 0.3:
                    both.bind(exchange, queue, "another")
        compared += both.compare()
    # the second binding to a destination changes nothing
    for exchange in EXCHANGES:
        both.bind(exchange, both.bound(exchange)[-1].destination, "50")
    compared += both.compare()
    # the broker of this version forgets the order: it takes that of its table, by key as text and by destination
    both.restart()
    for exchange in EXCHANGES:
        bound = sorted(both.bound(exchange), key=lambda one: (one.routing_key, one.destination))
        for binding in bound:
            both.editor.unbind(binding)
        for binding in bound:
            both.editor.bind(binding)
    compared += both.compare()
    both.connection.close()
    with capsys.disabled():
        sys.stdout.write(f"\n{compared:,} messages compared\n")
