"""A record that is no message gets a row in the unroutable table, and the stream goes on."""

from __future__ import annotations

import json

import pytest

from bindery.router.message import Message
from bindery.router.values import Timestamp
from tests.spark.installation import Installation

MAPPED = """
stream: s
source:
  format: {format}
  path: INBOX
  schema: id STRING, amount STRING, note STRING, hot BOOLEAN
  options: {options}
message:
  exchange: "'amq.topic'"
  routing_key: id
  application_properties:
    amount: CAST(amount AS INT)
    share: 100 / CAST(amount AS INT)
    hot: hot
  body: note
trigger: available-now
max_record_bytes: 1000
"""
JSON = MAPPED.format(format="json", options="{}")
CSV = MAPPED.format(format="csv", options="{header: true}")


def test_json_lines_that_are_no_messages(installation: Installation) -> None:
    installation.queue("all")
    installation.write_lines(
        '{"id": "good", "amount": "5", "hot": true}',
        '{"id": "bad json", ',
        '{"id": "wrong type", "amount": "5", "hot": "maybe"}',
        '{"id": "bad cast", "amount": "five"}',
        '{"id": "division by zero", "amount": "0"}',
        json.dumps({"id": "oversized", "amount": "5", "note": "x" * 1500}),
        '{"id": "no amount"}',
        file="a.json",
    )

    (report,) = installation.route(JSON)

    assert sorted(row["routing_key"] for row in installation.rows("all")) == ["good", "no amount"]
    lost = {row["raw"].decode() if row["raw"] else row["routing_key"]: row for row in installation.unroutable()}
    reasons = {key: (row["reason"], row["disposition"]) for key, row in lost.items()}
    assert reasons == {
        '{"id": "bad json", ': ("invalid_record", "discarded"),
        '{"id": "wrong type", "amount": "5", "hot": "maybe"}': ("invalid_record", "discarded"),
        '{"id":"bad cast","amount":"five"}': ("invalid_record", "discarded"),
        '{"id":"division by zero","amount":"0"}': ("invalid_record", "discarded"),
        "oversized": ("too_large", "discarded"),
    }
    details = {row["detail"] for row in lost.values() if row["reason"] == "invalid_record"}
    assert {detail for detail in details if not detail.startswith("not JSON: ")} == {
        "hot: 'maybe' is not BOOLEAN",
        "amount: 'five' is not INT; message.application_properties.amount: `CAST(amount AS INT)`",
        "message.application_properties.share: `100 / CAST(amount AS INT)` failed, amount is '0'",
    }
    assert lost["oversized"]["detail"].startswith("a record of 15")
    assert (report.records, report.unroutable) == (7, 5)
    assert len({row["routing"]["seq"] for row in (*installation.rows("all"), *lost.values())}) == 7

    installation.write_lines('{"id": "later", "amount": "1"}', file="b.json")
    installation.route(JSON)
    assert installation.counts() == {"all": 3}


def test_csv_rows_that_are_no_messages(installation: Installation) -> None:
    installation.queue("all")
    installation.write_lines(
        "id,amount,note,hot",
        "good,5,,true",
        "wrong type,5,,maybe",
        "too many,5,,true,extra",
        "bad cast,five,,",
        file="a.csv",
    )

    installation.route(CSV)

    (good,) = installation.rows("all")
    assert good["routing_key"] == "good"
    assert dict(good["application_properties"]).keys() == {"amount", "share", "hot"}
    assert sorted(row["raw"].decode() for row in installation.unroutable()) == [
        "too many,5,,true,extra",
        "wrong type,5,,maybe",
        '{"id":"bad cast","amount":"five"}',
    ]
    assert {row["reason"] for row in installation.unroutable()} == {"invalid_record"}
    assert {row["detail"].partition(";")[0] for row in installation.unroutable()} == {
        "5 fields, the schema has 4 columns",
        "hot: 'maybe' is not BOOLEAN",
        "amount: 'five' is not INT",
    }
    assert dict(installation.manifest()[0]["invalid"]) == {"fields": 1, "not-a-boolean": 1, "not-a-number": 1}
    assert all(row["source"]["file"].endswith("a.csv") for row in installation.unroutable())


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_value_of_another_type_is_named_with_its_column(installation: Installation, kind: str) -> None:
    installation.queue("all")
    rows = [
        {"id": "good", "n": "1", "x": "2.5", "at": "2026-01-02 03:04:05", "price": "1.25", "unread": "abc"},
        {"id": "a", "n": "NA", "x": "2.5", "at": "2026-01-02 03:04:05", "price": "1.25", "unread": "0"},
        {"id": "b", "n": "1", "x": "abc", "at": "2026-01-02 03:04:05", "price": "1.25", "unread": "0"},
        {"id": "c", "n": "1", "x": "2.5", "at": "soon", "price": "1.25", "unread": "0"},
        {"id": "d", "n": "1", "x": "2.5", "at": "2026-01-02 03:04:05", "price": "much", "unread": "0"},
        {"id": "e", "n": "99999999999", "x": "2.5", "at": "2026-01-02 03:04:05", "price": "1.25", "unread": "0"},
    ]
    if kind == "csv":
        lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    else:
        numbers = {"1": 1, "2.5": 2.5, "99999999999": 99999999999}
        lines = [json.dumps({name: numbers.get(value, value) for name, value in row.items()}) for row in rows]
    installation.write_lines(*lines, file=f"a.{kind}")
    installation.write_lines(*lines, file=f"again.{kind}")

    installation.route(f"""
stream: s
source:
  format: {kind}
  path: INBOX
  schema: id STRING, n INT, x DOUBLE, at TIMESTAMP, price DECIMAL(10,2), unread INT
  options: {{{"header: true" if kind == "csv" else ""}}}
message:
  exchange: "'amq.topic'"
  routing_key: id
  application_properties: {{n: n, x: x, at: at, price: price}}
trigger: available-now
""")

    assert sorted(row["routing_key"] for row in installation.rows("all")) == ["good", "good"]
    details = [row["detail"] for row in installation.unroutable()]
    assert len(details) == 10
    assert set(details) == {
        "n: 'NA' is not INT" + "; set nullValue" * (kind == "csv"),
        "x: 'abc' is not DOUBLE",
        "at: 'soon' is not TIMESTAMP",
        "price: 'much' is not DECIMAL(10,2)",
        "n: '99999999999' is not INT",
    }


def test_an_expression_that_fails_twice_in_a_row_stops_nothing(installation: Installation) -> None:
    """A common part of two guarded expressions must not be computed outside of their guards."""
    installation.queue("all")
    installation.write_lines('{"id": "a", "amount": "x"}', '{"id": "b", "amount": "2"}', file="a.json")

    installation.route(JSON)

    assert installation.counts() == {"all": 1}


def test_json_without_a_schema_holds_whole_messages(installation: Installation) -> None:
    installation.queue("all", source="amq.headers", key="", at=Timestamp(5), **{"x-match": "all"})
    message = {"exchange": "amq.headers", "application_properties": {"at": {"timestamp": 5}, "n": 2**53 + 1}}
    too_big = {"exchange": "amq.headers", "application_properties": {"n": {"ulong": 2**64 - 1}}}
    lines = [json.dumps(message), json.dumps(too_big), "nonsense", '{"exchange": 5}', '{"colour": "red"}']
    installation.write_lines(*lines, file="a.json")

    installation.route("stream: s\nsource: {format: json, path: INBOX}\ntrigger: available-now\n")

    (row,) = installation.rows("all")
    assert dict(row["application_properties"])["n"]["int"] == 2**53 + 1
    lost = {row["raw"].decode(): row for row in installation.unroutable()}
    assert lost.keys() == set(lines[1:])
    assert {row["reason"] for row in lost.values()} == {"invalid_record"}
    assert "64 bits" in lost[lines[1]]["detail"]


def test_a_mandatory_record_that_is_too_large_is_returned(installation: Installation) -> None:
    installation.publish([Message(exchange="amq.topic", mandatory=True, body=b"x" * 5000)], file="a.parquet")

    installation.route(
        "stream: s\nsource: {format: parquet, path: INBOX}\ntrigger: available-now\nmax_record_bytes: 4000\n"
    )

    (row,) = installation.unroutable()
    assert (row["reason"], row["disposition"], row["body"]) == ("too_large", "returned", b"x" * 5000)
