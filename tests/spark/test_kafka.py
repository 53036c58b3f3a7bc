"""A job over a real Kafka broker: each record once, whatever happens, and one clear line for what is wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bindery.jobs.control.config import parse_job
from bindery.jobs.control.connectors import KAFKA_JARS
from bindery.jobs.preview import preview
from bindery.jobs.report import BatchReport
from bindery.jobs.sources.kafka import SourceUnavailable
from bindery.router.errors import BinderyError, InvalidInput, Refused
from bindery.router.model import Exchange
from bindery.store import faults
from bindery.store.commit import BatchCommitter
from tests.servers.kafka import Broker, spark_jars
from tests.spark.installation import Installation
from tests.unit.store.conftest import Crash, at, crash

TO_TOPIC_EXCHANGE = "message: {exchange: \"'amq.topic'\"}\n"


class Jobs:
    """Jobs over topics of the broker, into the queue "all"."""

    def __init__(self, installation: Installation, broker: Broker) -> None:
        self.installation = installation
        self.broker = broker

    def text(self, topics: str, *keys: str, message: str = TO_TOPIC_EXCHANGE) -> str:
        source = [f"bootstrap_servers: {self.broker.address}", *([f"topics: {topics}"] if topics else []), *keys]
        lines = "".join(f"  {line}\n" for line in ["format: kafka", *source])
        return f"stream: s\ntrigger: available-now\nsource:\n{lines}{message}"

    def route(self, topics: str, *keys: str, **more: str) -> list[BatchReport]:
        return self.installation.route(self.text(topics, *keys, **more))

    def rows(self, queue: str = "all") -> list[dict[str, Any]]:
        """Rows in the order of their topics, partitions and offsets."""
        place = ("topic", "partition", "offset")
        return sorted(self.installation.rows(queue), key=lambda row: [row["source"][name] for name in place])

    def bodies(self) -> list[bytes]:
        return [row["body"] for row in self.rows()]

    def fails(self, topics: str, *keys: str) -> BinderyError:
        """The error of a job that changes nothing."""
        before = (self.installation.counts(), self.installation.manifest())
        with pytest.raises(BinderyError) as caught:
            self.route(topics, *keys)
        assert "\n" not in caught.value.message
        assert (self.installation.counts(), self.installation.manifest()) == before
        return caught.value


@pytest.fixture
def jobs(installation: Installation, kafka: Broker) -> Jobs:
    installation.queue("all")
    return Jobs(installation, kafka)


def numbered(count: int, start: int = 0) -> Iterator[dict[str, Any]]:
    return ({"value": b"%d" % number} for number in range(start, start + count))


def test_a_record_is_a_message(jobs: Jobs) -> None:
    topic = jobs.broker.topic(partitions=2)
    headers = [("b", b"1"), ("a", "é".encode()), ("b", b"2"), ("null", None), ("raw", b"\xff"), ("empty", b"")]
    jobs.broker.produce(
        topic,
        [
            {"key": "é.x".encode(), "value": b"\x00\xff", "headers": headers, "timestamp": 86_400_001, "partition": 0},
            {"key": None, "value": b"", "partition": 1},
            {"key": b"tombstone", "value": None, "headers": [], "partition": 1},
            {"key": b"\xc3", "value": b"body", "partition": 1},
        ],
    )
    (report,) = jobs.route(topic)
    assert (report.records, report.copies, report.unroutable) == (4, 3, 1)

    first, second, third = jobs.rows()
    assert (first["exchange"], first["routing_key"], first["body"]) == ("amq.topic", "é.x", b"\x00\xff")
    assert first["properties"]["creation_time"].timestamp() == 86_400.001
    found = [
        (name, {kind: value for kind, value in union.items() if value is not None})
        for name, union in first["application_properties"]
    ]
    texts = [("a", {"string": "é"}), ("b", {"string": "2"}), ("empty", {"string": ""})]
    assert sorted(found) == sorted([*texts, ("null", {}), ("raw", {"binary": b"\xff"})])
    assert first["source"] == {"file": None, "topic": topic, "partition": 0, "offset": 0, "row_index": None}
    assert (second["routing_key"], second["body"], second.get("application_properties")) == ("", b"", None)
    assert (third["routing_key"], third["body"], third["application_properties"]) == ("tombstone", None, None)
    assert (third["source"]["partition"], third["source"]["offset"]) == (1, 1)

    (bad,) = jobs.installation.unroutable()
    assert (bad["reason"], bad["detail"]) == ("invalid_record", "message.routing_key: text that is not UTF-8")
    assert (bad["source"]["topic"], bad["source"]["partition"], bad["source"]["offset"]) == (topic, 1, 2)
    assert bad["body"] == b"body"


def test_a_preview_reads_what_is_there(jobs: Jobs) -> None:
    topic = jobs.broker.topic(partitions=1)
    jobs.broker.produce(topic, [{"key": b"a", "value": b"x"}, {"key": b"\xc3", "value": b"5"}, *numbered(9)])
    installation = jobs.installation
    file = parse_job(jobs.text(topic, "starting_offsets: latest", "max_offsets_per_trigger: 1"))

    first, second, third = preview(installation.spark, installation.data, file, 3)

    assert first["source"] == {"topic": topic, "partition": 0, "offset": 0}
    assert (first["message"]["routing_key"], first["message"]["body"]) == ("a", {"binary": b"x".hex()})
    assert (first["queues"], first["unroutable"]) == (["all"], None)
    assert second["refused"]["detail"] == "message.routing_key: text that is not UTF-8"
    assert third["message"]["body"] == {"binary": b"0".hex()}
    assert not installation.checkpoint.exists()


def test_the_exchange_is_the_topic_s_unless_another_is_named(jobs: Jobs) -> None:
    plain, named = jobs.broker.topic("p"), jobs.broker.topic("p")
    jobs.installation.edit(lambda editor: editor.declare_exchange(Exchange("/", plain, "fanout")))
    jobs.installation.queue("plain", source=plain, key="")
    jobs.broker.produce(plain, numbered(2))
    jobs.broker.produce(named, [{"value": b"1", "key": b"x' OR \\"}])
    jobs.route("", f"pattern: '{plain}|{named}'", f"exchanges: {{{named}: amq.topic}}", message="")
    assert jobs.installation.counts() == {"all": 1, "plain": 2}
    assert jobs.rows()[0]["routing_key"] == "x' OR \\"


def test_partitions_are_put_together_where_their_files_would_be_small(jobs: Jobs) -> None:
    topic = jobs.broker.topic(partitions=6)

    def produce(count: int) -> None:
        jobs.broker.produce(topic, ({"value": b"v", "partition": number % 6} for number in range(count)))

    produce(120)
    jobs.route(topic, "max_offsets_per_trigger: 60")
    tasks = [(row["routing"]["batch_id"], row["source"]["partition"]) for row in jobs.rows()]
    assert Counter(tasks) == {(batch, partition): 10 for batch in (0, 1) for partition in range(6)}
    files = jobs.installation.files("all")
    assert [files[0], files[1]] == [6, 1], "files of each batch"
    produce(120)
    jobs.route(topic, "max_offsets_per_trigger: 60", "min_partitions: 6")
    assert jobs.installation.files("all") == {0: 6, 1: 1, 2: 6, 3: 6}


def test_every_column_can_be_an_expression(jobs: Jobs) -> None:
    topic = jobs.broker.topic()
    jobs.broker.produce(topic, [{"key": b"k", "value": b'{"a": 5}', "headers": [("h", b"1"), ("h", b"2")]}])
    jobs.route(
        topic,
        message="""message:
  exchange: "'amq.topic'"
  routing_key: concat(topic, '.', partition)
  body: encode('x', 'utf-8')
  message_annotations: headers
  application_properties:
    a: CAST(get_json_object(CAST(value AS STRING), '$.a') AS INT)
    h: CAST(element_at(filter(headers, h -> h.key = 'h'), 1).value AS STRING)
  properties: {message_id: offset}
""",
    )
    (row,) = jobs.rows()
    assert (row["routing_key"], row["body"]) == (f"{topic}.0", b"x")
    found = {name: value["int"] or value["string"] for name, value in row["application_properties"]}
    assert found == {"a": 5, "h": "1"}
    assert [(name, value["string"]) for name, value in row["message_annotations"]] == [("h", "2")]
    assert (row["properties"]["message_id"]["int"], row["properties"]["creation_time"]) == (0, None)


def test_a_record_of_ten_megabytes(jobs: Jobs) -> None:
    topic = jobs.broker.topic(config={"max.message.bytes": "33554432"})
    body = os.urandom(10 * 1024 * 1024)
    jobs.broker.produce(topic, [{"value": body}, {"value": b"small"}, {"value": body + body}])
    (report,) = jobs.route(topic)
    assert (report.copies, report.unroutable) == (2, 1)
    assert jobs.bodies() == [body, b"small"]
    (bad,) = jobs.installation.unroutable()
    assert (bad["reason"], bad["source"]["offset"]) == ("too_large", 2)


def test_a_limit_makes_several_batches_and_a_restart_goes_on(jobs: Jobs) -> None:
    topic = jobs.broker.topic(partitions=2)
    jobs.broker.produce(topic, numbered(25))
    reports = jobs.route(topic, "max_offsets_per_trigger: 10")
    assert sum(report.records for report in reports) == 25
    assert len(reports) >= 3 and max(report.records for report in reports) <= 10
    jobs.broker.produce(topic, numbered(5, start=25))
    jobs.broker.add_partitions(topic, 4)
    jobs.broker.produce(topic, [{**record, "partition": 3} for record in numbered(3, start=30)])
    assert sum(report.records for report in jobs.route(topic)) == 8
    assert jobs.route(topic) == []
    assert sorted(map(int, jobs.bodies())) == list(range(33))
    identities = {(row["routing"]["batch_id"], row["routing"]["seq"]) for row in jobs.rows()}
    assert len(identities) == 33


def test_where_to_start(jobs: Jobs) -> None:
    topic = jobs.broker.topic(partitions=3)
    for partition in range(3):
        jobs.broker.produce(topic, [{**record, "partition": partition} for record in numbered(3, start=10 * partition)])
    jobs.route(topic, f"starting_offsets: {{{topic}: {{0: 2, 1: earliest, 2: latest}}}}")
    assert sorted(map(int, jobs.bodies())) == [2, 10, 11, 12]
    # it counts for the first start only
    jobs.broker.add_partitions(topic, 4)
    reports = jobs.route(topic, f"starting_offsets: {{{topic}: {{0: 2, 1: earliest, 2: latest}}}}")
    assert sum(report.records for report in reports) == 0


def test_what_a_transaction_gave_up_is_not_read(jobs: Jobs) -> None:
    from confluent_kafka import Producer

    topic = jobs.broker.topic()
    producer = Producer({"bootstrap.servers": jobs.broker.address, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(4):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        producer.flush(30)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(30)
    jobs.route(topic)
    assert jobs.bodies() == [b"0", b"2"]
    assert jobs.route(topic) == []


# -- identity ------------------------------------------------------------------------------------------


def test_a_replay_under_other_settings_gives_every_message_its_number_again(
    jobs: Jobs, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = jobs.broker.topic(partitions=3)
    for partition in range(3):
        jobs.broker.produce(topic, [{**record, "partition": partition} for record in numbered(40 * partition + 20)])
    for name in ("one", "two"):
        jobs.installation.queue(name)
    job = jobs.installation.job(jobs.text(topic, "min_partitions: 7"))
    monkeypatch.setattr(BatchCommitter.__init__, "__kwdefaults__", {"workers": 1, "claim": True})  # in order of name
    dies = faults.installed(at("batch.appending", crash, where=jobs.installation.data.queue("/", "two")))
    with dies, pytest.raises(Crash):
        job.run(available_now=True)
    monkeypatch.undo()
    assert jobs.installation.counts() == {"all": 180, "one": 180, "two": 0}

    spark.conf.set("spark.sql.leafNodeDefaultParallelism", "5")
    try:
        jobs.route(topic, "min_partitions: 1")
    finally:
        spark.conf.unset("spark.sql.leafNodeDefaultParallelism")
    one, two = (
        [(row["source"]["partition"], row["source"]["offset"], row["routing"]["seq"]) for row in jobs.rows(queue)]
        for queue in ("one", "two")
    )
    assert one == two
    assert len({seq for *_, seq in one}) == 180
    assert [seq for *_, seq in one] == sorted(seq for *_, seq in one)


#: A job that kills itself, with Spark, when it is about to commit its second batch to a queue.
KILLED = """
import os, signal, sys
from pathlib import Path
from bindery.cli.local import run_local
from bindery.jobs.control.config import load_job
from bindery.store import faults
from bindery.store.paths import DataDir
from tests.unit.store.conftest import at

config, data, queue, log = sys.argv[1:]
with faults.installed(at("batch.appending", lambda: os.killpg(0, signal.SIGKILL), where=queue, number=2)):
    run_local(load_job(config), DataDir.open(data), master="local[2]", log=Path(log))
"""


@pytest.mark.nightly
def test_a_job_that_is_killed_in_the_midst_of_a_batch(jobs: Jobs, tmp_path: Path) -> None:
    topic = jobs.broker.topic(partitions=2)
    for number in range(20):
        jobs.installation.queue(f"q{number:02}")
    jobs.broker.produce(topic, numbered(20_000))
    config, log = tmp_path / "job.yaml", tmp_path / "log"
    config.write_text(jobs.text(topic, "max_offsets_per_trigger: 5000"))
    data = jobs.installation.data
    with log.open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(config), data.root, data.queue("/", "q10"), str(log)],
            env=environment(),
            cwd=Path(__file__).parents[2],
            stdout=out,
            stderr=out,
            start_new_session=True,
            timeout=900,
            check=False,
        )
    assert done.returncode == -signal.SIGKILL, log.read_text()[-4000:]
    first = jobs.installation.manifest()
    assert [batch["records"] for batch in first] == [jobs.installation.counts()["q10"]]

    jobs.route(topic, "max_offsets_per_trigger: 7000")
    assert set(jobs.installation.counts().values()) == {20_000}
    for queue in ("all", "q00", "q10", "q19"):
        bodies = jobs.installation.table(queue)["body"].to_pylist()
        assert Counter(bodies) == Counter(b"%d" % number for number in range(20_000))


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK_"))}
    return kept | {KAFKA_JARS: ",".join(spark_jars())}


@pytest.mark.nightly
def test_a_hundred_thousand_messages_once_into_twenty_queues(jobs: Jobs) -> None:
    topic = jobs.broker.topic(partitions=4)
    for number in range(20):
        jobs.installation.queue(f"q{number:02}", key=f"{number % 10}.#")
    jobs.broker.produce(
        topic,
        (
            {"key": b"%d.x" % (number % 10), "value": b"%d" % number, "headers": [("n", b"%d" % number), ("a", b"b")]}
            for number in range(100_000)
        ),
    )
    reports = jobs.route(topic, "max_offsets_per_trigger: 40000")
    assert len(reports) >= 3
    assert sum(report.records for report in reports) == 100_000
    assert jobs.installation.counts() == {"all": 100_000, **{f"q{number:02}": 10_000 for number in range(20)}}
    for number in range(20):
        table = jobs.installation.table(f"q{number:02}")
        assert sorted(map(int, table["body"].to_pylist())) == list(range(number % 10, 100_000, 10))
    headers = jobs.installation.table("q07")["application_properties"].to_pylist()
    assert {dict(row)["n"]["string"] for row in headers} == {str(number) for number in range(7, 100_000, 10)}


# -- what is wrong -------------------------------------------------------------------------------------


def test_a_topic_that_is_not_there(jobs: Jobs) -> None:
    error = jobs.fails("nowhere")
    assert isinstance(error, InvalidInput)
    assert error.message == f"source.topics: there is no topic 'nowhere' at {jobs.broker.address}"


def test_partitions_that_are_not_there(jobs: Jobs) -> None:
    topic = jobs.broker.topic(partitions=2)
    error = jobs.fails(topic, f"starting_offsets: {{{topic}: {{0: 0, 1: 0, 7: 1}}}}")
    assert error.message == f"source.starting_offsets: there is no partition {topic} 7"
    error = jobs.fails(topic, f"starting_offsets: {{{topic}: {{0: 0}}}}")
    assert error.message == f"source.starting_offsets: it does not say where to start in partition {topic} 1"
    error = jobs.fails(topic, f"starting_offsets: {{{topic}: {{0: 50, 1: 0}}}}")
    assert error.message == (
        f"source.starting_offsets: partition {topic} 0 begins at 0 and ends before 0: it has no offset 50"
    )
    jobs.broker.produce(topic, numbered(2))
    assert sum(report.records for report in jobs.route(topic)) == 2


def test_a_broker_that_does_not_answer(jobs: Jobs) -> None:
    topic = jobs.broker.topic()
    for address in ("127.0.0.1:9", "nowhere.invalid:9092"):
        with pytest.raises(SourceUnavailable, match="no broker answers: ") as caught:
            jobs.installation.job(jobs.text(topic).replace(jobs.broker.address, address))
        assert caught.value.where == address
    assert not jobs.installation.checkpoint.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("{kafka.auto.offset.reset: earliest}", "source.options: Kafka option 'auto.offset.reset' is not supported."),
        ("{kafka.security.protocol: NIX}", "source.options: Invalid value NIX for configuration security.protocol"),
        ("{kafka.security.protocol: SASL_PLAINTEXT}", "source.options: Could not find a 'KafkaClient' entry in the JA"),
    ],
)
def test_options_that_kafka_refuses(jobs: Jobs, options: str, message: str) -> None:
    error = jobs.fails(jobs.broker.topic(), f"options: {options}")
    assert error.message.startswith(message)


def test_a_pattern_that_is_none(jobs: Jobs) -> None:
    assert jobs.fails("", "pattern: '['").message.startswith("source.pattern: no regular expression: Unclosed")


def test_secrets_do_not_show_in_plans(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINDERY_SECRET_JAAS", "hunter2")
    topic = jobs.broker.topic()
    job = jobs.installation.job(jobs.text(topic, "options: {kafka.sasl.jaas.config: {secret: JAAS}}"))
    plan = job._intake.stream._jdf.queryExecution().toString()
    assert "kafka.sasl.jaas.config" in plan
    assert "hunter2" not in plan


# -- lost offsets --------------------------------------------------------------------------------------


def test_lost_offsets_stop_the_job_unless_told_otherwise(jobs: Jobs) -> None:
    topic = jobs.broker.topic()
    jobs.broker.produce(topic, numbered(10))
    jobs.route(topic)
    jobs.broker.produce(topic, numbered(10, start=10))
    jobs.broker.delete_records(topic, {0: 15})
    for _ in range(2):
        error = jobs.fails(topic)
        assert isinstance(error, Refused)
        assert error.message == (
            f"records were gone before they were read: of partition {topic}-0 the batch is to read offsets [10, 20), "
            "and the cluster no longer has all of these (retention)"
        )
        assert "source.on_lost_offsets: continue" in (error.hint or "")
    (report,) = jobs.route(topic, "on_lost_offsets: continue")
    assert report.records == 5
    assert sorted(map(int, jobs.bodies())) == [*range(10), *range(15, 20)]


def test_a_topic_that_the_job_no_longer_names(jobs: Jobs) -> None:
    one, two = jobs.broker.topic(), jobs.broker.topic()
    for topic in (one, two):
        jobs.broker.produce(topic, numbered(2))
    jobs.route(f"[{one}, {two}]")
    assert f"partitions {two}-0: their topic was deleted, or is no longer" in jobs.fails(one).message
    jobs.broker.produce(one, numbered(1))
    assert sum(report.records for report in jobs.route(one, "on_lost_offsets: continue")) == 1


def test_a_topic_that_was_deleted_and_made_again(jobs: Jobs) -> None:
    from confluent_kafka.admin import NewTopic

    topic = jobs.broker.topic()
    jobs.broker.produce(topic, numbered(5))
    jobs.route(topic)
    jobs.broker.delete_topic(topic)
    until(lambda: topic not in jobs.broker.admin.list_topics(timeout=30).topics)
    assert "there is no topic" in jobs.fails(topic).message
    jobs.broker.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    jobs.broker.produce(topic, numbered(3))
    assert f"partition {topic}-0 ends at offset 3 and the stream is to go on at 5" in jobs.fails(topic).message


@pytest.mark.nightly
def test_a_broker_that_goes_away(jobs: Jobs, tmp_path: Path) -> None:
    with Broker(tmp_path / "kafka") as broker:
        own = Jobs(jobs.installation, broker)
        topic = broker.topic()
        broker.produce(topic, numbered(5))
        patience = "{kafka.default.api.timeout.ms: 3000, kafka.request.timeout.ms: 2000, fetchOffset.numRetries: 1}"
        text = own.text(topic, f"options: {patience}").replace("available-now", "100 milliseconds")
        job = jobs.installation.job(text, report=lambda _: broker.stop(kill=True))
        with pytest.raises(SourceUnavailable, match="no broker answers: "):
            job.run()
        broker.start()
        broker.produce(topic, numbered(5, start=5))
        own.route(topic)
    assert sorted(map(int, jobs.bodies())) == list(range(10))


def until(fine: Any) -> None:
    end = time.monotonic() + 60
    while not fine():
        assert time.monotonic() < end
        time.sleep(0.1)
