"""Expressions of a job file: typed by Spark, checked before anything is written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from bindery.router.errors import InvalidInput
from tests.spark.installation import Installation

AT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
COLUMNS = {
    "flag": pa.array([True], pa.bool_()),
    "small": pa.array([7], pa.int8()),
    "big": pa.array([2**62], pa.int64()),
    "half": pa.array([0.5], pa.float32()),
    "money": pa.array([1], pa.decimal128(10, 2)),
    "text": pa.array(["é"], pa.string()),
    "blob": pa.array([b"\x00\xff"], pa.binary()),
    "at": pa.array([AT], pa.timestamp("us", tz="UTC")),
    "day": pa.array([AT.date()], pa.date32()),
    "list": pa.array([[1, None, 3]], pa.list_(pa.int64())),
    "times": pa.array([[AT]], pa.list_(pa.timestamp("us", tz="UTC"))),
    "nothing": pa.array([None], pa.string()),
}
JOB = """stream: s
source: {format: parquet, path: INBOX}
trigger: available-now
message:
  exchange: "'amq.fanout'"
"""


@pytest.fixture
def table(installation: Installation) -> Iterator[Installation]:
    installation.queue("all", source="amq.fanout", key="")
    installation.write_parquet(pa.table(COLUMNS), file="a.parquet")
    return installation


def test_properties_take_the_type_of_their_expression(table: Installation) -> None:
    names = ("flag", "small", "big", "half", "money", "text", "blob", "at", "list", "nothing")
    entries = "".join(f"    {name}: {name}\n" for name in names)

    table.route(JOB + "  application_properties:\n" + entries)

    (row,) = table.rows("all")
    held = {
        name: next((kind, content) for kind, content in value.items() if content is not None)
        for name, value in row["application_properties"]
    }
    assert held == {
        "flag": ("bool", True),
        "small": ("int", 7),
        "big": ("int", 2**62),
        "half": ("double", 0.5),
        "money": ("double", 1.0),
        "text": ("string", "é"),
        "blob": ("binary", b"\x00\xff"),
        "at": ("timestamp", AT),
        "list": ("nested", "[1,null,3]"),
    }


def test_sections_with_fixed_fields_take_an_expression_per_field(table: Installation) -> None:
    table.route(
        JOB
        + "  header: {priority: CAST(small AS INT), durable: flag}\n"
        + "  properties: {message_id: big, subject: text, creation_time: at}\n"
        + "  cc: array(text)\n  body: text\n  amqp_value: half\n  mandatory: true\n"
    )

    (row,) = table.rows("all")
    assert (row["header"]["priority"], row["header"]["durable"], row["header"]["ttl"]) == (7, True, None)
    assert row["properties"]["message_id"]["int"] == 2**62
    assert (row["properties"]["subject"], row["properties"]["creation_time"]) == ("é", AT)
    assert (row["cc"], row["body"], row["amqp_value"]["double"], row["mandatory"]) == (["é"], "é".encode(), 0.5, True)


def test_a_sender_may_ask_for_rejection(table: Installation) -> None:
    table.route(JOB.replace("'amq.fanout'", "'amq.direct'") + "  routing_key: text\n  reject_unroutable: flag\n")

    (row,) = table.unroutable()
    assert (row["reason"], row["disposition"]) == ("no_binding", "rejected")


@pytest.mark.parametrize(
    ("lines", "line", "said"),
    [
        ("  routing_key: nope\n", 6, "cannot be resolved"),
        ("  routing_key: concat(text\n", 6, "yntax error"),
        ("  routing_key: big\n", 6, "is of type bigint, expected string"),
        ("  application_properties:\n    a: text\n    d: day\n", 8, "is of type date"),
        ("  application_properties:\n    t: times\n", 7, "holds timestamp inside a list"),
        ("  header: {priority: text}\n", 6, "expected int"),
    ],
)
def test_a_bad_expression_names_its_key_and_line_and_nothing_is_written(
    table: Installation, lines: str, line: int, said: str
) -> None:
    before = sorted(path for path in Path(table.data.root).rglob("*"))

    with pytest.raises(InvalidInput) as caught:
        table.route(JOB + lines)

    assert said in caught.value.message
    assert caught.value.message.startswith("message.")
    assert caught.value.where is not None
    assert caught.value.where.endswith(f"line {line}")
    assert sorted(path for path in Path(table.data.root).rglob("*")) == before


def test_a_source_without_message_columns_needs_a_mapping(table: Installation) -> None:
    with pytest.raises(InvalidInput, match="none of the message columns"):
        table.route()


def test_a_message_column_of_another_type_is_refused(installation: Installation) -> None:
    installation.write_parquet(pa.table({"exchange": pa.array([5])}), file="a.parquet")
    with pytest.raises(InvalidInput, match="column 'exchange' is bigint"):
        installation.route()


def test_an_inbox_without_files_has_no_schema(installation: Installation) -> None:
    with pytest.raises(InvalidInput) as caught:
        installation.route()
    assert caught.value.where is not None
    assert "line 2" in caught.value.where


def test_one_file_can_be_the_source(table: Installation) -> None:
    (table.inbox / "b[1].csv").write_text("id\nx\n")
    (table.inbox / "c.csv").write_text("id\ny\n")
    table.route(
        "stream: s\nsource: {format: csv, path: 'INBOX/b[1].csv', schema: id STRING, options: {header: true}}\n"
        "message: {exchange: \"'amq.fanout'\", routing_key: id}\ntrigger: available-now\n"
    )
    assert [row["routing_key"] for row in table.rows("all")] == ["x"]
