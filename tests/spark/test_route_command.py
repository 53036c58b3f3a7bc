"""`bindery route` says what it did, and what kept records from a queue."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import Result
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from bindery.cli.main import app
from bindery.router.errors import InvalidInput
from bindery.router.message import Message, to_batch
from tests.spark.installation import Installation

JOB = """stream: s
source: {format: csv, path: INBOX, schema: "id STRING, amount DOUBLE", options: {header: true}}
message: {exchange: "'EXCHANGE'", routing_key: id, application_properties: {amount: amount}}
trigger: available-now
"""


@pytest.fixture
def inbox(spark: SparkSession, installation: Installation) -> Installation:
    assert SparkSession.getActiveSession() is spark
    installation.queue("all", key="good")
    return installation


def run(installation: Installation, *options: str, exchange: str = "amq.topic") -> Result:
    config = installation.root / "job.yaml"
    config.write_text(JOB.replace("INBOX", str(installation.inbox)).replace("EXCHANGE", exchange))
    return CliRunner().invoke(app, ["route", "--config", str(config), "--data", installation.data.root, *options])


def said(done: Result) -> list[str]:
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_a_run_ends_with_a_line_that_says_what_became_of_its_records(inbox: Installation) -> None:
    bad = ["a,abc", "b,xyz", "c,1,2"]
    inbox.write_lines("id,amount", "good,1", "other,2", *bad, file="a.csv")

    done = run(inbox, "--fail-on-unroutable")

    assert said(done) == [
        "5 records → 1 copy, 3 invalid: amount 'abc' is not DOUBLE ×2, 3 fields, the schema has 2 columns ×1, "
        "1 unroutable: no_binding ×1"
    ]
    assert done.exit_code == 1

    done = run(inbox, "--fail-on-unroutable")
    assert (said(done), done.exit_code) == (["0 records → 0 copies"], 0)

    inbox.write_lines("id,amount", "good,8", "good,n", file="c.csv")
    done = run(inbox, "--json")
    assert json.loads(done.stdout) == {
        "batches": 1,
        "records": 2,
        "copies": 1,
        "unroutable": 1,
        "reasons": {"invalid_record": 1},
        "problems": {"amount 'n' is not DOUBLE": 1},
        "unparsable": [],
    }

    inbox.write_lines("id,amount", "x,y", file="b.csv")
    done = run(inbox)
    assert (said(done), done.exit_code) == (["1 record → 0 copies, 1 invalid: amount 'y' is not DOUBLE ×1"], 0)


def test_an_exchange_that_is_not_there_is_said_at_the_start(inbox: Installation) -> None:
    inbox.write_lines("id,amount", "good,1", file="a.csv")
    done = run(inbox, exchange="amq.topci")
    warning, summary = said(done)
    assert warning == (
        f"warning: {Path(inbox.root) / 'job.yaml'}, line 3: message.exchange: there is no exchange 'amq.topci' in "
        "vhost '/': did you mean 'amq.topic'?"
    )
    assert summary.startswith("1 record → 0 copies, 1 unroutable: ")


def everything_in(folder: Path) -> set[tuple[Path, float]]:
    return {(path, path.stat().st_mtime) for path in folder.rglob("*")}


def test_a_preview_shows_where_records_would_go_and_writes_nothing(inbox: Installation) -> None:
    inbox.write_lines("id,amount", file="a.csv")
    inbox.write_lines("id,amount", "good,1", "other,2", "a,abc", "good,4", file="b.csv")
    inbox.write_lines("id,amount", "good,5", file="c.csv")
    config = inbox.root / "job.yaml"
    config.write_text("")
    before = everything_in(inbox.root)

    done = run(inbox, "--preview", "3", "--json")

    assert (done.exit_code, done.stderr) == (0, "")
    good, other, bad = map(json.loads, done.stdout.splitlines())
    place = {"file": f"file:{inbox.inbox / 'b.csv'}"}
    assert good == {
        "number": 1,
        "source": place,
        "message": {"exchange": "amq.topic", "routing_key": "good", "application_properties": {"amount": 1.0}},
        "queues": ["all"],
        "unroutable": None,
    }
    assert (other["queues"], other["unroutable"]["reason"]) == ([], "no_binding")
    assert bad["refused"]["detail"] == "amount: 'abc' is not DOUBLE"
    assert (bad["number"], bad["source"], bad["refused"]["raw"]) == (3, place, "a,abc")

    lines = run(inbox, "--preview", "3").stdout.splitlines()
    assert lines[:4] == [
        f"record 1 ({place['file']})",
        "├── exchange amq.topic, key 'good'",
        '├── application_properties: {"amount": 1.0}',
        "└── queues: all",
    ]
    assert lines[-4:] == [
        f"record 3 ({place['file']})",
        "├── record: a,abc",
        "├── fix: correct the record and write it into the source again; or read amount as STRING",
        "└── no message: invalid_record, amount: 'abc' is not DOUBLE",
    ]
    written = everything_in(inbox.root) - before
    assert {path for path, _ in written} == {config}


@pytest.mark.parametrize("form", ["delta", "parquet", "messages", "queue"])
def test_every_source_has_a_preview(inbox: Installation, form: str) -> None:
    path, source = inbox.inbox, f"{{format: {form}, path: {inbox.inbox}}}"
    messages = [Message("amq.topic", "good", body=b"x"), Message("amq.topic", "other")]
    if form == "delta":
        path = inbox.root / "table"
        write_deltalake(path, pa.Table.from_batches([to_batch(messages)]))
        source = f"{{format: delta, path: {path}}}"
    elif form == "parquet":
        inbox.publish(messages, file="a.parquet")
    elif form == "messages":
        inbox.write_lines(*(json.dumps(message.as_json()) for message in messages), file="a.json")
        source = f"{{format: json, path: {path}}}"
    else:
        inbox.publish([Message("amq.topic", "good", body=b"x")], file="a.parquet")
        inbox.route()
        source = "{format: queue, queue: all}"
    config = inbox.root / "job.yaml"
    mapping = "message: {exchange: \"'amq.fanout'\"}\n" if form == "queue" else ""
    config.write_text(f"stream: t\nsource: {source}\n{mapping}")

    options = ["--config", str(config), "--data", inbox.data.root, "--preview", "5", "--json"]
    done = CliRunner().invoke(app, ["route", *options], catch_exceptions=False)

    first, *others = map(json.loads, done.stdout.splitlines())
    exchange = "amq.fanout" if form == "queue" else "amq.topic"
    assert first["message"] == {"exchange": exchange, "routing_key": "good", "body": {"binary": b"x".hex()}}
    assert first["queues"] == ([] if form == "queue" else ["all"])
    assert [one["unroutable"]["reason"] for one in others] == ([] if form == "queue" else ["no_binding"])
    assert not Path(inbox.data.checkpoint("t")).exists()


def test_a_source_without_files_has_no_preview(inbox: Installation) -> None:
    done = run(inbox, "--preview", "5")
    assert isinstance(done.exception, InvalidInput)
    assert "no file yet" in str(done.exception)
