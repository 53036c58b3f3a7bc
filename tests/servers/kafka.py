"""A Kafka broker of one node, and the jars by which Spark reads it."""

from __future__ import annotations

import socket
import subprocess
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.servers.certificates import Authority
from tests.servers.maven import Artifact, jars
from tests.servers.ports import free_ports

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

#: What it needs of the tools, none of it at run time, is not in every registry.
BROKER: Final = (
    Artifact("org.apache.kafka:kafka_2.13:4.4.0", without=("org.apache.kafka:kafka-tools-api",)),
    Artifact("org.slf4j:slf4j-simple:1.7.36"),
)
#: The token provider of Spark's own version is not in every registry, either; an earlier one does the same.
SPARK: Final = (
    Artifact(
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        without=("org.apache.spark:spark-token-provider-kafka-0-10_2.13", "org.scala-lang:scala-library"),
    ),
    Artifact("org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0", without=("*:*",)),
)
#: What of them Spark does not bring itself.
_FOR_SPARK: Final = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")

Header = tuple[str, bytes | None]

_JAVA: Final = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
_SECONDS: Final = 120
_SETTINGS: Final = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={listeners}
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:PLAINTEXT
log.dirs={data}
log.retention.ms=-1
auto.create.topics.enable=false
message.max.bytes=33554432
replica.fetch.max.bytes=33554432
num.network.threads=1
num.io.threads=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=2097152
log.segment.bytes=67108864
log.index.size.max.bytes=1048576
"""
#: A listener that asks for a password, and one that asks for a certificate. Who needs neither may do everything, the
#: others what no list keeps from them.
_SECURED: Final = """
ssl.keystore.type=PEM
ssl.keystore.location={certificate}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
listener.name.ssl.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config={plain} user_{user}="{password}";
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config={scram};
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={scram};
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
"""
USER: Final = "bindery"
PASSWORD: Final = "p@ss w/ord:1"
#: What Java's clients call those who log in.
LOGIN: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule required",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule required",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule required",
}


def spark_jars() -> list[str]:
    """The jars that a Spark session needs to read Kafka, by path."""
    found = [str(path) for path in jars("spark-kafka", SPARK).iterdir() if path.name.startswith(_FOR_SPARK)]
    assert len(found) == len(_FOR_SPARK), found
    return sorted(found)


class Broker:
    """One broker below `folder`: a context; it keeps its ports and its topics over `stop` and `start`.

    With an `authority` it has two more listeners: `sasl_ssl`, where USER logs in with PASSWORD, and `ssl`, where
    clients show a certificate of that authority, which has issued the broker's own.
    """

    def __init__(self, folder: Path, *, authority: Authority | None = None) -> None:
        self._folder = folder
        self._classpath = str(jars("kafka", BROKER) / "*")
        self._settings = folder / "server.properties"
        self._log = folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._admin: AdminClient | None = None
        self.authority = authority
        self.port = self._sasl_port = self._ssl_port = 0

    @property
    def address(self) -> str:
        """What a client names as bootstrap server."""
        return f"127.0.0.1:{self.port}"

    @property
    def sasl_ssl(self) -> str:
        return f"127.0.0.1:{self._sasl_port}"

    @property
    def ssl(self) -> str:
        return f"127.0.0.1:{self._ssl_port}"

    @property
    def admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        return self._admin

    def __enter__(self) -> Broker:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.port, self._sasl_port, self._ssl_port, controller = free_ports(4)
        listeners = f"PLAINTEXT://{self.address}"
        users: list[str] = []
        if self.authority is not None:
            listeners += f",SASL_SSL://{self.sasl_ssl},SSL://{self.ssl}"
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                users += ["--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]"]
        settings = _SETTINGS.format(listeners=listeners, controller=controller, data=self._folder / "data")
        self._settings.write_text(settings + self._secured())
        cluster = ("-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(self._settings))
        with self._log.open("ab") as log:
            subprocess.run(
                self._java("128m", "kafka.tools.StorageTool", "format", *cluster, *users),
                stdout=log,
                stderr=log,
                timeout=_SECONDS,
                check=True,
            )
        try:
            self.start()
        except BaseException:
            self.stop(kill=True)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(kill=True)

    def start(self) -> None:
        """Start it and wait until it answers."""
        from confluent_kafka import KafkaException

        with self._log.open("ab") as log:
            command = self._java("512m", "kafka.Kafka", str(self._settings))
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._admin = None  # one that has met a closed port waits before it tries again
        end = time.monotonic() + _SECONDS
        while True:
            assert self._process.poll() is None and time.monotonic() < end, self._log.read_text()[-4000:]
            try:
                # a client that met a closed port would report it
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                self.admin.list_topics(timeout=5)
                return
            except (OSError, KafkaException):
                time.sleep(0.1)

    def stop(self, *, kill: bool = False) -> None:
        """End it, by SIGKILL or in order; what was written stays."""
        process, self._process = self._process, None
        if process is None:
            return
        if not kill:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_SECONDS)
        process.kill()
        process.wait()

    def topic(self, prefix: str = "t", *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """A new topic of its own; its name."""
        from confluent_kafka.admin import NewTopic

        name = f"{prefix}-{uuid.uuid4().hex[:12]}"
        made = self.admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))], request_timeout=30)
        made[name].result()
        return name

    def add_partitions(self, topic: str, total: int) -> None:
        from confluent_kafka.admin import NewPartitions

        self.admin.create_partitions([NewPartitions(topic, total)], request_timeout=30)[topic].result()

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Lose the records of each partition below an offset, as retention does."""
        from confluent_kafka import TopicPartition

        below = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        for result in self.admin.delete_records(below, request_timeout=30).values():
            result.result()

    def delete_topic(self, topic: str) -> None:
        self.admin.delete_topics([topic], request_timeout=30)[topic].result()

    def produce(self, topic: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Write records in order: key, value, headers, partition, timestamp (milliseconds) of each, all optional."""
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": self.address,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "message.max.bytes": 33554432,
                "linger.ms": 5,
                "log_level": 3,
            }
        )
        failed: list[Any] = []
        for record in records:
            while True:
                try:
                    producer.produce(topic, **record, on_delivery=lambda error, _: error and failed.append(error))
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(_SECONDS) == 0, "not everything was written"
        assert not failed, failed[0]

    def consume(self, topic: str, count: int) -> Sequence[Any]:
        """The first `count` records of a topic, those of one partition in order."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.address, "group.id": uuid.uuid4().hex})
        try:
            partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
            found: list[Any] = []
            end = time.monotonic() + _SECONDS
            while len(found) < count and time.monotonic() < end:
                found += consumer.consume(count - len(found), timeout=1)
            assert len(found) == count, f"{len(found)} of {count} records after {_SECONDS} s"
            assert all(record.error() is None for record in found)
            return found
        finally:
            consumer.close()

    def restrict(self, topic: str, *operations: str) -> None:
        """Leave USER nothing but these: "describe", "read", "write"."""
        from confluent_kafka import admin

        literal = (admin.ResourceType.TOPIC, topic, admin.ResourcePatternType.LITERAL, f"User:{USER}", "*")
        for operation in operations:
            kinds = (admin.AclOperation[operation.upper()], admin.AclPermissionType.ALLOW)
            binding = admin.AclBinding(*literal, *kinds)
            self.admin.create_acls([binding], request_timeout=30)[binding].result()

    def _secured(self) -> str:
        """The settings of the two more listeners."""
        if self.authority is None:
            return ""
        return _SECURED.format(
            certificate=self.authority.issue("broker").together(),
            authority=self.authority.certificate,
            plain=LOGIN["PLAIN"],
            scram=LOGIN["SCRAM-SHA-256"],
            user=USER,
            password=PASSWORD,
        )

    def _java(self, memory: str, *command: str) -> list[str]:
        return [*_JAVA, f"-Xmx{memory}", "-cp", self._classpath, *command]
