"""An expression whose value is not the record's alone is refused; the time of the batch can be had instead."""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from bindery.jobs.determinism import variation
from bindery.jobs.session import configure
from bindery.router.errors import InvalidInput
from bindery.router.message import Message
from bindery.store.commit import BatchCommitter
from tests.spark.installation import Installation, as_json

#: Built-in functions that are refused whatever their arguments, by what they depend on.
REFUSED = {
    "chance": "rand randn random uuid shuffle uniform randstr",
    "the reading": "input_file_name input_file_block_start input_file_block_length monotonically_increasing_id "
    "spark_partition_id",
    "the clock": "now current_timestamp current_date curdate localtimestamp current_time",
    "the session": "current_user user session_user current_database current_schema current_catalog version",
    "Java": "reflect java_method try_reflect",
}
ARGUMENTS = ("", "n", "1", "a", "l", "m", "a, a", "n, n", "1, 2", "l, n", "'java.lang.Math', 'random'")


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    configure(spark)
    return spark.createDataFrame([], "a string, n int, l array<int>, m map<string, int>, at timestamp")


def test_every_built_in_function_that_varies_is_refused(spark: SparkSession, frame: DataFrame) -> None:
    # every job runs in UTC
    names = set(built_in(spark)) - {"current_timezone", "convert_timezone"}
    varying = sorted(name for name in names if name.isidentifier() and varies(spark, name))
    assert len(varying) > 25
    assert set(" ".join(REFUSED.values()).split()) - {"user", "current_schema", "version"} <= set(varying)
    for name in sorted({*varying, *" ".join(REFUSED.values()).split()}):
        verdicts = []
        for arguments in ARGUMENTS:
            with contextlib.suppress(AnalysisException, ParseException):
                verdicts.append(variation(frame, f"{name}({arguments})"))
        assert verdicts, name
        # unix_timestamp of an argument is a conversion
        assert all(verdicts) or (name == "unix_timestamp" and verdicts[0]), (name, verdicts)


def built_in(spark: SparkSession) -> list[str]:
    jvm: Any = spark._jvm
    listed = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin().listFunction()
    return [str(listed.apply(index).funcName()) for index in range(listed.size())]


def varies(spark: SparkSession, name: str) -> bool:
    """Whether Spark itself says of some call of a function that it is not deterministic, or that it asks a clock."""
    jvm: Any = spark._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    builder = catalyst.analysis.FunctionRegistry.builtin().lookupFunctionBuilder(catalyst.FunctionIdentifier(name))
    current = catalyst.trees.TreePattern.CURRENT_LIKE()
    parser = spark._jsparkSession.sessionState().sqlParser()
    for arguments in ((), ("1",), ("'a'",), ("array(1)",), ("1", "1"), ("1", "1", "1")):
        given = jvm.java.util.ArrayList()
        for text in arguments:
            given.add(parser.parseExpression(text))
        try:
            call = builder.get().apply(jvm.scala.jdk.javaapi.CollectionConverters.asScala(given).toSeq())
            if not call.deterministic() or call.containsPattern(current):
                return True
        except (Py4JJavaError, PySparkException):
            continue
    return False


@pytest.mark.parametrize(
    "expression",
    [
        "concat(a, '-', uuid())",
        "transform(l, x -> x + rand())",
        "coalesce(a, CAST(now() AS STRING))",
        "rand(7)",
        "date_diff(current_date, at)",
        "unix_timestamp()",
        "TIMESTAMP 'now'",
        'date_add(DATE "today", n)',
        "CAST('tomorrow' AS DATE)",
        "CAST(concat('n', 'ow') AS TIMESTAMP)",
        "to_timestamp(' Yesterday')",
        "to_date('today')",
        "(SELECT 1)",
        "n IN (SELECT id FROM range(3))",
        "sum(n)",
        "count(*) OVER ()",
        "explode(l)",
    ],
)
def test_what_is_not_the_records_alone_is_refused(frame: DataFrame, expression: str) -> None:
    assert variation(frame, expression) is not None


@pytest.mark.parametrize(
    "expression",
    [
        "a",
        "upper(a) || 'now'",
        "concat('date ', 'today')",
        "CAST(a AS TIMESTAMP)",
        "CAST('2026-01-01' AS DATE)",
        "TIMESTAMP '2026-01-01 00:00:00'",
        "to_timestamp(a, 'yyyy')",
        "unix_timestamp(a)",
        "unix_timestamp(at)",
        "transform(l, x -> x + n)",
        "CAST(n AS STRING)",
        "from_json(a, 'x INT').x",
        "md5(a)",
        "current_timezone()",
    ],
)
def test_what_is_the_records_alone_may_be_used(frame: DataFrame, expression: str) -> None:
    assert variation(frame, expression) is None


JOB = """stream: s
source: {format: json, path: INBOX, schema: "id STRING"}
message:
  exchange: "'amq.topic'"
  routing_key: id
  properties:
    message_id: id || date_format(batch_time, ' HH:mm:ss.SSS')
    creation_time: BATCH_TIME
  application_properties: {file: _metadata.file_name}
trigger: available-now
"""


def test_the_key_and_the_function_are_named_and_what_to_use_instead(installation: Installation) -> None:
    installation.write_lines(as_json(id="a"), file="a.json")
    with pytest.raises(InvalidInput) as caught:
        installation.route(JOB.replace("_metadata.file_name", "upper(uuid())"))
    assert caught.value.message.startswith("message.application_properties.file: `upper(uuid())`: `uuid()` gives")
    assert "batch_time" in str(caught.value.hint)
    assert not installation.checkpoint.exists()


def test_batch_time_is_the_same_at_every_attempt(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    installation.queue("all")
    installation.write_lines(as_json(id="a"), as_json(id="b"), file="a.json")

    def fails(*_: object, **__: object) -> None:
        raise ConnectionError("the driver dies before it commits")

    with monkeypatch.context() as patch:
        patch.setattr(BatchCommitter, "commit", fails)
        with pytest.raises(ConnectionError):
            installation.route(JOB)
    died = dt.datetime.now(dt.UTC)
    installation.route(JOB)

    rows = installation.rows("all")
    assert len(rows) == 2
    for row in rows:
        at = row["routed_at"]
        assert at < died
        assert row["properties"]["creation_time"] == at
        assert row["properties"]["message_id"]["string"] == f"{row['routing_key']} {at:%H:%M:%S.%f}"[:-3]
        assert dict(row["application_properties"])["file"]["string"] == "a.json"


def test_batch_time_of_a_bridge_is_the_time_at_which_its_rows_were_routed(installation: Installation) -> None:
    installation.queue("orders")
    installation.queue("archived", source="amq.fanout", key="")
    installation.publish([Message(exchange="amq.topic", routing_key="a")], file="a.parquet")
    installation.route()
    installation.route(
        "stream: bridge\nsource: {format: queue, queue: orders}\ntrigger: available-now\n"
        "message: {exchange: \"'amq.fanout'\", properties: {creation_time: batch_time}}\n"
    )
    (row,) = installation.rows("archived")
    assert row["properties"]["creation_time"] == row["routed_at"]


def test_a_column_of_the_source_goes_before_the_time_of_the_batch(installation: Installation) -> None:
    installation.queue("all")
    installation.write_lines(as_json(batch_time="mine"), file="a.json")
    installation.route(
        'stream: s\nsource: {format: json, path: INBOX, schema: "batch_time STRING"}\ntrigger: available-now\n'
        "message: {exchange: \"'amq.topic'\", routing_key: batch_time}\n"
    )
    assert [row["routing_key"] for row in installation.rows("all")] == ["mine"]
