"""Topics of a Kafka cluster, by Spark's reader; asked about before anything is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession, functions

from bindery.jobs.checkpoint import Checkpoint
from bindery.jobs.control.config import JobFile
from bindery.jobs.control.connectors import KAFKA, KAFKA_JARS
from bindery.jobs.control.kafka import KafkaSource
from bindery.jobs.sources.files import spark_reason
from bindery.jobs.sources.records import Records
from bindery.router.errors import BinderyError, Refused
from bindery.store.paths import DataDir

#: Milliseconds in which the cluster answers a question, and in which one of its brokers does.
_PATIENCE: Final = {"default.api.timeout.ms": "20000", "request.timeout.ms": "10000"}
#: How Spark says that records are gone, and how it says which: pattern -> the same for users.
_LOST: Final = "Some data may have been lost because they are not available in Kafka any more"
_LOSSES: Final = {
    re.compile(
        r"Could not read records in offset (\[\d+, \d+\)) for topic partition (\S+)"
    ): "of partition {1} the batch is to read offsets {0}, and the cluster no longer has all of these (retention)",
    re.compile(
        r"Partition (\S+) offset was changed from (\d+) to (\d+)"
    ): "partition {0} ends at offset {2} and the stream is to go on at {1}: its topic was deleted and made again, "
    "or starting_offsets are beyond its end",
    re.compile(
        r"Partitions Set\((.*?)\) have been deleted"
    ): "partitions {0}: their topic was deleted, or is no longer among those that the job reads",
}
_TIMEOUT: Final = re.compile(r"Timed out waiting for a node assignment|(?<=errors\.TimeoutException: )[^\n]*")
#: Errors of Kafka's that say that a client is not let in, or a topic not read; what to do, by how their names end.
_NOT_LET_IN: Final = {
    "SslAuthenticationException": "kafka.ssl.truststore.location or .certificates says whose certificates are trusted; "
    "kafka.ssl.keystore.… is the certificate that the brokers may ask for",
    "AuthenticationException": "see kafka.sasl.mechanism, and the user and password of kafka.sasl.jaas.config",
    "AuthorizationException": "the user of the source needs Describe and Read on its topics",
}
_REFUSAL: Final = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+): (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
#: A client that could not be made in a running query, which asks for new ones; and what Java says why.
_NO_CLIENT: Final = re.compile(r"Failed to (?:create new KafkaAdminClient|construct kafka consumer)")
_CAUSE: Final = re.compile(r"^Caused by: (.*)", re.MULTILINE)
_STORE_HINT: Final = "stores are JKS unless kafka.ssl.truststore.type or kafka.ssl.keystore.type says PEM or PKCS12"
_NO_LOGIN: Final = re.compile(r"JAAS config(?!uration\.)|^No LoginModule found")
_LOGIN_HINT: Final = (
    'such as: org.apache.kafka.common.security.scram.ScramLoginModule required username="…" password="…";'
)
#: What a batch read of topics takes in: all that is there.
_WHOLE: Final = {"startingOffsets": "earliest", "endingOffsets": "latest"}
_PLACE: Final = {name: name for name in ("topic", "partition", "offset")}


class SourceUnavailable(BinderyError):
    """The cluster behind a source does not answer, or no longer lets the job in."""

    code = "source_unavailable"


def read_kafka(spark: SparkSession, data: DataDir, source: KafkaSource, file: JobFile) -> Records:
    """Records of topics; key, value and headers are a message where the mapping does not say otherwise."""
    options = source.reader_options
    try:
        frame = spark.readStream.format("kafka").options(**options).load()
    except PySparkException as error:
        if "ind data source" in str(error):
            raise file.error(
                ("source", "format"),
                "this Spark session has no classes that read Kafka",
                hint=f"spark-submit --packages {KAFKA.packages[0]} (or --jars); without spark-submit, {KAFKA_JARS}",
            ) from None
        raise file.error(("source", "options"), spark_reason(error)) from None
    fresh = Checkpoint(data.checkpoint(file.job.stream)).progress().planned < 0
    _Cluster(spark, source, file).check(starting=fresh)
    return Records(
        frame,
        tuple(frame.columns),
        _PLACE,
        defaults=_defaults(source),
        by_offset=True,
        table=lambda: spark.read.format("kafka").options(**options | _WHOLE).load(),
        explained=lambda text: _explained(text, source),
    )


def _defaults(source: KafkaSource) -> Mapping[tuple[str, ...], Column]:
    exchange = topic = functions.col("topic")
    for name, named in source.exchanges.items():
        exchange = functions.when(topic == name, functions.lit(named)).otherwise(exchange)
    stated = functions.col("timestampType") >= 0
    return {
        ("exchange",): exchange,
        # bytes that are no UTF-8 are found where all texts are looked at (jobs/fold.py)
        ("routing_key",): functions.coalesce(functions.col("key").cast("string"), functions.lit("")),
        ("properties", "creation_time"): functions.when(stated, functions.col("timestamp")),
        ("application_properties",): functions.col("headers"),
        ("body",): functions.col("value"),
    }


class _Cluster:
    """The cluster that a source names, as an administrator's client sees it."""

    def __init__(self, spark: SparkSession, source: KafkaSource, file: JobFile) -> None:
        self._jvm: Any = spark._jvm
        self._source = source
        self._file = file

    def check(self, *, starting: bool) -> None:
        """Raise what keeps the source from being read; offsets to start at count for a first start only."""
        offsets = self._source.starting_offsets
        with self._client() as client:
            described = self._described(client, self._topics(client))
            if starting and isinstance(offsets, Mapping):
                there = {topic: {info.partition() for info in found.partitions()} for topic, found in described.items()}
                self._check_partitions(offsets, there)
                for topic, stated in offsets.items():
                    self._check_offsets(client, topic, stated)

    def _topics(self, client: Any) -> list[str]:
        if self._source.topics is not None:
            return list(self._source.topics)
        try:
            pattern = self._jvm.java.util.regex.Pattern.compile(self._source.pattern)
        except PySparkException as error:
            raise self._file.error(("source", "pattern"), f"no regular expression: {spark_reason(error)}") from None
        return [name for name in client.listTopics().names().get() if pattern.matcher(name).matches()]

    def _described(self, client: Any, topics: list[str]) -> dict[str, Any]:
        asked = client.describeTopics(topics).topicNameValues()
        found = {}
        for topic in topics:
            try:
                found[topic] = asked[topic].get()
            except Py4JJavaError as error:
                if "UnknownTopicOrPartition" not in str(error.java_exception.getCause()):
                    raise
                raise self._file.error(
                    ("source", "topics"),
                    f"there is no topic {topic!r} at {', '.join(self._source.bootstrap_servers)}",
                    hint="make it, or name another",
                ) from None
        return found

    def _check_offsets(self, client: Any, topic: str, offsets: Mapping[int, int]) -> None:
        """Spark would keep an offset that is out of range, whatever the job file says afterwards."""
        kinds = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
        for partition, offset in offsets.items():
            place = self._jvm.org.apache.kafka.common.TopicPartition(topic, partition)
            first, end = (
                client.listOffsets({place: kind}).partitionResult(place).get().offset()
                for kind in (kinds.earliest(), kinds.latest())
            )
            if offset >= 0 and not first <= offset <= end:
                raise self._file.error(
                    ("source", "starting_offsets"),
                    f"partition {topic} {partition} begins at {first} and ends before {end}: it has no offset {offset}",
                )

    def _check_partitions(self, offsets: Mapping[str, Mapping[int, int]], partitions: Mapping[str, set[int]]) -> None:
        wanted = {(topic, partition) for topic, numbers in offsets.items() for partition in numbers}
        there = {(topic, partition) for topic, numbers in partitions.items() for partition in numbers}
        for found, what in ((wanted - there, "there is no"), (there - wanted, "it does not say where to start in")):
            if found:
                shown = ", ".join(f"{topic} {partition}" for topic, partition in sorted(found)[:10])
                raise self._file.error(
                    ("source", "starting_offsets"),
                    f"{what} partition {shown}",
                    hint="name every partition of every topic, with an offset, earliest or latest",
                )

    @contextmanager
    def _client(self) -> Iterator[Any]:
        """A client of the cluster; what it raises is told as an error of the job."""
        settings = self._jvm.java.util.Properties()
        options = _PATIENCE | {
            name[len("kafka.") :]: value
            for name, value in self._source.reader_options.items()
            if name.lower().startswith("kafka.")
        }
        for name, value in options.items():
            settings.setProperty(name, value)
        try:
            client = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
            try:
                yield client
            finally:
                client.close(self._jvm.java.time.Duration.ZERO)
        except Py4JJavaError as error:
            raise self._told(error.java_exception) from None

    def _told(self, error: Any) -> BinderyError:
        causes = [error]
        while causes[-1].getCause() is not None:
            causes.append(causes[-1].getCause())
        kind, reason = str(causes[-1].getClass().getSimpleName()), _said(causes[-1])
        if kind == "TimeoutException" or "resolvable" in reason:
            return _unavailable(self._source, reason)
        if _NO_LOGIN.search(reason):
            # what Kafka says may quote parts of the secret
            told, hint = "kafka.sasl.jaas.config is not in the form of a login", _LOGIN_HINT
        else:
            told, hint = _reason(causes), None
            for cause in causes:
                hint = hint or _remedy(str(cause.getClass().getSimpleName()))
            if "keystore" in told:
                hint = _STORE_HINT
            elif kind.endswith(tuple(_NOT_LET_IN)):
                told = f"the cluster refuses the connection: {told}"
        return self._file.error(("source", "options"), told, hint=hint)


def _remedy(kind: str) -> str | None:
    """What to do about an error of Kafka's of that class that says that a client is not let in."""
    return next((text for end, text in _NOT_LET_IN.items() if kind.endswith(end)), None)


def _said(error: Any) -> str:
    return " ".join(str(error.getMessage() or "").split())


def _reason(causes: list[Any]) -> str:
    """What the innermost of several errors says, after what Kafka itself says of it."""
    kind, said = str(causes[-1].getClass().getSimpleName()), _said(causes[-1])
    of_kafka = [_said(cause) for cause in causes if cause.getClass().getName().startswith("org.apache.kafka.")]
    outer = next((text for text in reversed(of_kafka) if not text.startswith("Failed to create new ")), "")
    if not outer or not said or outer.endswith(said):
        return said or outer or kind
    return f"{outer}: {kind if said in outer else said}"


def _unavailable(source: KafkaSource, reason: str) -> SourceUnavailable:
    return SourceUnavailable(
        f"no broker answers: {reason}",
        where=", ".join(source.bootstrap_servers),
        hint="see whether they run and can be reached from here, and whether kafka.security.protocol in source.options "
        "(PLAINTEXT unless stated) is theirs",
    )


def _explained(text: str, source: KafkaSource) -> BinderyError | None:
    """What an error of a running query says, where it is the cluster's."""
    if _LOST in text:
        return Refused(
            f"records were gone before they were read: {_loss(text)}",
            where="source",
            hint="nothing was committed in this attempt; source.on_lost_offsets: continue goes on without them",
        )
    found = _TIMEOUT.search(text)
    if found is not None:
        return _unavailable(source, found[0])
    where = ", ".join(source.bootstrap_servers)
    for kind, said in _REFUSAL.findall(text):
        hint = _remedy(kind)
        if hint is not None:
            return SourceUnavailable(f"the cluster refuses the connection: {said}", where=where, hint=hint)
    if _NO_CLIENT.search(text):
        reason = next(reversed(_CAUSE.findall(text)), "Spark's log says why")
        hint = "files that source.options name must be on every node"
        return SourceUnavailable(f"no client of the cluster can be made: {reason}", where=where, hint=hint)
    return None


def _loss(text: str) -> str:
    reason = " ".join(text.partition("Reason: ")[2].partition("\n\tat ")[0].partition("SQLSTATE")[0].split())
    for pattern, told in _LOSSES.items():
        found = pattern.search(reason)
        if found is not None:
            return told.format(*found.groups())
    return reason[:500]
