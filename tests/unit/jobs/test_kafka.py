"""Kafka in the job file and in job documents, its headers as properties, and the numbers of its messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.jobs.control.config import JobFile, job_of, parse_job
from bindery.jobs.control.connectors import DELTA, DELTA_PACKAGE, KAFKA, KAFKA_JARS, jar_settings
from bindery.jobs.control.document_rules import DocumentRules
from bindery.jobs.control.kafka import KafkaSource
from bindery.jobs.control.launch import Launcher
from bindery.jobs.control.references import resolved
from bindery.jobs.fold import headers_map
from bindery.jobs.sources.offsets import OffsetNumbers
from bindery.jobs.sources.planned import planned_ends
from bindery.router.errors import InvalidInput, Refused
from bindery.router.message import SOURCE, VALUE_MAP, value_row
from bindery.store.jobs import JobFolder, JobRecord
from bindery.store.paths import DataDir

GOOD = """\
stream: orders
source:
  format: kafka
  bootstrap_servers: one:9092, [::1]:9093
  topics: [orders, returns]
  exchanges: {returns: amq.topic}
  starting_offsets: {orders: {0: 17, 1: earliest}, returns: {0: latest}}
  max_offsets_per_trigger: 100
  min_partitions: 4
  on_lost_offsets: continue
  options: {kafka.security.protocol: SASL_SSL, kafka.max.poll.records: 100}
message:
  routing_key: CAST(value AS STRING)
"""


def source(file: JobFile) -> KafkaSource:
    assert isinstance(file.job.source, KafkaSource)
    return file.job.source


def test_every_key_reaches_spark() -> None:
    options = source(parse_job(GOOD)).reader_options
    assert json.loads(options.pop("startingOffsets")) == {"orders": {"0": 17, "1": -2}, "returns": {"0": -1}}
    assert options == {
        "kafka.bootstrap.servers": "one:9092,[::1]:9093",
        "subscribe": "orders,returns",
        "maxOffsetsPerTrigger": "100",
        "minPartitions": "4",
        "failOnDataLoss": "false",
        "includeHeaders": "true",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.max.poll.records": "100",
        "kafka.isolation.level": "read_committed",
    }


def test_what_is_left_out_loses_nothing() -> None:
    document = {"format": "kafka", "bootstrap_servers": ["a:1"], "pattern": "x.*"}
    options = source(job_of({"stream": "s", "source": document})).reader_options
    assert options == {
        "kafka.bootstrap.servers": "a:1",
        "subscribePattern": "x.*",
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
    }


def test_starting_offsets_may_be_json_as_spark_takes_it() -> None:
    text = GOOD.replace("{orders: {0: 17, 1: earliest}, returns: {0: latest}}", """'{"orders": {"0": -2}}'""")
    assert source(parse_job(text)).starting_offsets == {"orders": {0: -2}}


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("  topics:", "  topic:", "source.topic: unknown key", 5),
        ("  min_partitions: 4", "  pattern: o.*", "source: either topics or pattern says what is read, not both", 2),
        ("  topics: [orders, returns]\n", "", "source: either topics or pattern says what is read", 2),
        ("[orders, returns]", "[orders, 'a,b']", "source.topics: 'a,b' is no name of a topic", 5),
        ("[orders, returns]", "[]", "source.topics: Value should have at least 1 item", 5),
        ("[orders, returns]", "[orders]", "source: exchanges names 'returns', which is not among the topics", 2),
        ("one:9092,", "one,", "source.bootstrap_servers: 'one' is no address of a broker", 4),
        ("17", "soon", "source.starting_offsets: orders: 'soon' is neither a number nor earliest or latest", 7),
        ("17", "-3", "source.starting_offsets: orders: -3 is neither", 7),
        ("{0: latest}", "latest", "source.starting_offsets: returns: offsets by partition", 7),
        ("{orders: {0: 17, 1: earliest}, returns: {0: latest}}", "first", "source.starting_offsets: earliest, late", 7),
        ("{orders: {0: 17, 1: earliest}, returns: {0: latest}}", "'{x'", "source.starting_offsets: not JSON", 7),
        ("trigger: 100", "trigger: 0", "source.max_offsets_per_trigger: Input should be greater than", 8),
        ("on_lost_offsets: continue", "on_lost_offsets: ignore", "source.on_lost_offsets: Input should be", 10),
        (
            "kafka.max.poll.records",
            "failOnDataLoss",
            "source.options: option 'failOnDataLoss' is the key source.on_lost_offsets",
            11,
        ),
        ("kafka.max.poll.records", "subscribe", "source.options: option 'subscribe' is the key source.topics", 11),
        ("kafka.max.poll.records", "includeHeaders", "source.options: option 'includeHeaders' is set by the job", 11),
        ("kafka.max.poll.records", "max.poll.records", "source.options: option 'max.poll.records' is none of a Ka", 11),
        ("  routing_key: ", "  exchange: ", "message: either source.exchanges or message.exchange", 12),
    ],
)
def test_an_error_names_key_and_line(old: str, new: str, message: str, line: int) -> None:
    assert old in GOOD
    with pytest.raises(InvalidInput) as caught:
        parse_job(GOOD.replace(old, new))
    assert caught.value.message.startswith(message)
    assert caught.value.where == f"job.yaml, line {line}"


def test_a_near_miss_is_suggested() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_job(GOOD.replace("  topics:", "  topic:"))
    assert (caught.value.hint or "").startswith("did you mean 'topics'? known keys: format, bootstrap_servers, topics")


# -- secrets -------------------------------------------------------------------------------------------


def test_a_job_file_refers_to_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    text = GOOD.replace("kafka.max.poll.records: 100", "kafka.sasl.jaas.config: {secret: JAAS}")
    with pytest.raises(InvalidInput, match="there is no secret JAAS") as caught:
        parse_job(text)
    assert caught.value.where == "job.yaml, line 11"
    monkeypatch.setenv("BINDERY_SECRET_JAAS", "the login")
    assert source(parse_job(text)).options["kafka.sasl.jaas.config"] == "the login"


def test_a_credential_in_clear_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidInput, match="a credential in clear") as caught:
        parse_job(GOOD.replace("kafka.max.poll.records: 100", "kafka.SSL.key.password: hunter2"))
    assert "hunter2" not in str(caught.value.as_data())


# -- documents from the network ------------------------------------------------------------------------


@pytest.fixture
def rules(tmp_path: Path) -> DocumentRules:
    return DocumentRules(DataDir.open(tmp_path / "data", create=True), ("/in", "kafka://one:9092"))


def document(**more: Any) -> dict[str, Any]:
    return {"stream": "s", "source": {"format": "kafka", "bootstrap_servers": "one:9092", "topics": "orders"} | more}


def test_a_document_reads_brokers_that_the_operator_allows(rules: DocumentRules) -> None:
    options = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.jaas.config": {"secret": "JAAS"}}
    asked = document(options=options)
    assert source(rules.check(asked)).bootstrap_servers == ("one:9092",)
    assert asked == document(options=options)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"bootstrap_servers": "one:9092,two:9092"}, "source.bootstrap_servers: two:9092 is not among the brokers"),
        ({"bootstrap_servers": "one:90921"}, "source.bootstrap_servers: one:90921 is not among the brokers"),
        ({"options": {"kafka.sasl.jaas.config": "x"}}, "source.options.kafka.sasl.jaas.config: a credential in clear"),
        ({"options": {"kafka.client.id": {"secret": "A"}}}, "source.options.kafka.client.id: takes no secret"),
        ({"options": {"kafka.ssl.keystore.location": "/etc/x"}}, "source.options.kafka.ssl.keystore.location: not an"),
        ({"options": {"kafka.sasl.login.class": "x"}}, "source.options.kafka.sasl.login.class: not an option"),
        ({"options": {"kafka.bootstrap.servers": "two:1"}}, "source.options.kafka.bootstrap.servers: not an option"),
        ({"options": {"failOnDataLoss": "false"}}, "source.options: option 'failOnDataLoss' is the key"),
    ],
)
def test_a_document_reaches_nothing_else(rules: DocumentRules, more: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        rules.check(document(**more))
    assert caught.value.message.startswith(message)


def test_a_driver_resolves_the_secrets_of_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINDERY_SECRET_JAAS", "the login")
    found, secrets = resolved(document(options={"kafka.sasl.jaas.config": {"secret": "JAAS"}}))
    assert source(job_of(found)).reader_options["kafka.sasl.jaas.config"] == "the login"
    assert secrets == ["the login"]


# -- jars ----------------------------------------------------------------------------------------------


def test_the_package_is_fetched_unless_jars_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KAFKA_JARS, raising=False)
    assert jar_settings([DELTA]) == {"spark.jars.packages": DELTA_PACKAGE}
    assert jar_settings([DELTA, KAFKA]) == {"spark.jars.packages": f"{DELTA_PACKAGE},{KAFKA.packages[0]}"}
    monkeypatch.setenv(KAFKA_JARS, "/a.jar,/b.jar")
    assert jar_settings([DELTA]) == {"spark.jars.packages": DELTA_PACKAGE}
    assert jar_settings([KAFKA]) == {"spark.jars": "/a.jar,/b.jar"}
    assert jar_settings([DELTA, KAFKA]) == {
        "spark.jars.packages": DELTA_PACKAGE,
        "spark.jars": "/a.jar,/b.jar",
    }


def test_a_submitted_job_gets_them_too(rules: DocumentRules, monkeypatch: pytest.MonkeyPatch) -> None:
    def command(conf: dict[str, str]) -> list[str]:
        record = JobRecord("s", document(), "ann", 1.0)
        return Launcher(rules.data, conf=conf).command(JobFolder(Path("/j")), record, "r1")

    monkeypatch.delenv(KAFKA_JARS, raising=False)
    assert f"spark.jars.packages={KAFKA.packages[0]}" in command({})
    assert not any("spark.sql.extensions" in word for word in command({}))
    monkeypatch.setenv(KAFKA_JARS, "/a.jar")
    assert "spark.jars=/a.jar" in command({})
    assert not any("spark.jars.packages" in word for word in command({}))
    assert [word for word in command({"spark.jars": "/own.jar"}) if "jar" in word] == ["spark.jars=/own.jar"]


# -- headers -------------------------------------------------------------------------------------------

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
VALUES = st.sampled_from([None, b"", b"text", "é".encode(), b"\xff", b"\xc3"]) | st.binary(max_size=3)
RECORDS = st.lists(
    st.none() | st.lists(st.tuples(st.sampled_from(["", "a", "b", "é"]), VALUES), max_size=5), max_size=6
)


def properties(headers: list[tuple[str, bytes | None]]) -> list[tuple[str, dict[str, Any]]]:
    """One record's headers, slowly: of one name the last, at its place."""
    kept = [(name, value) for n, (name, value) in enumerate(headers) if name not in dict(headers[n + 1 :])]
    empty = dict.fromkeys(member.name for member in VALUE_MAP.item_type)
    return [(name, empty | value_row(text_or_bytes(value))) for name, value in kept]


def text_or_bytes(value: bytes | None) -> str | bytes | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value


@given(RECORDS, st.integers(0, 3))
def test_headers_are_properties(records: list[list[tuple[str, bytes | None]] | None], skipped: int) -> None:
    rows = [
        None if headers is None else [{"key": name, "value": value} for name, value in headers] for headers in records
    ]
    found = headers_map(pa.array(rows, HEADERS)[skipped:])
    found.validate(full=True)
    assert found.type == VALUE_MAP
    assert found.to_pylist() == [properties(headers) if headers else None for headers in records[skipped:]]


# -- numbers -------------------------------------------------------------------------------------------

ENDS = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.dictionaries(st.integers(0, 40), st.integers(0, 2**62), min_size=1), min_size=1
)


@given(ENDS, st.data())
def test_numbers_are_those_of_places_in_their_order(ends: dict[str, dict[int, int]], data: st.DataObject) -> None:
    places = [
        (topic, partition, offset)
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
        for offset in {0, 1, end // 2, end - 1}
        if end - 2**40 <= offset < end and offset >= 0
    ]
    numbers = OffsetNumbers.of(ends)
    drawn = data.draw(st.permutations(places))
    found = dict(zip(drawn, numbered(numbers, drawn), strict=True))
    assert all(0 <= number < 2**52 for number in found.values())
    assert [place for place, _ in sorted(found.items(), key=lambda item: item[1])] == sorted(places)
    # a partition's records share a range of the kind that tasks have, which is how files are grouped
    assert len({(place[:2], number >> 40) for place, number in found.items()}) == len({place[:2] for place in places})


def numbered(numbers: OffsetNumbers, places: list[tuple[str, int, int]]) -> list[int]:
    rows = [{"topic": topic, "partition": partition, "offset": offset} for topic, partition, offset in places]
    return list(numbers(pa.array(rows, SOURCE)).to_pylist())


def test_a_range_that_is_too_small_is_refused() -> None:
    numbers = OffsetNumbers.of({"a": dict.fromkeys(range(10_000), 2**40)})
    assert numbered(numbers, [("a", 0, 2**40 - numbers.width)]) == [0]
    with pytest.raises(Refused, match="more than 274877906944 offsets of one partition"):
        numbered(numbers, [("a", 0, 2**40 - numbers.width - 1)])


def test_where_a_batch_ends_stands_in_the_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_text('v1\n{"batchTimestampMs":5}\n{"b":{"0":7,"11":9},"a":{"2":0}}')
    assert planned_ends(str(tmp_path), 3) == {"b": {0: 7, 11: 9}, "a": {2: 0}}
