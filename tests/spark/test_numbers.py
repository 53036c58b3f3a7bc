"""The number of a message depends neither on cores nor on settings, not even across a crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from bindery.router.message import Message, to_batch
from bindery.router.model import Exchange
from bindery.store import faults
from bindery.store.commit import BatchCommitter
from bindery.store.manifest import read_manifest
from tests.spark.installation import Installation
from tests.unit.store.conftest import Crash, at, crash

PARALLELISM = "spark.sql.leafNodeDefaultParallelism"
SIZE = "spark.sql.files.maxPartitionBytes"
OPEN = "spark.sql.files.openCostInBytes"
JSON = """
stream: s
source: {format: json, path: INBOX, schema: 'key STRING'}
message: {exchange: "'amq.topic'", routing_key: key}
trigger: available-now
"""
#: Messages per file: two files of one size, and others.
FILES = (40, 7, 40, 90, 3, 60)


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, whose settings are as before afterwards."""
    before = {name: spark.conf.get(name, None) for name in (PARALLELISM, SIZE, OPEN)}
    yield spark
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def keys() -> Iterator[list[str]]:
    """The routing keys of each file."""
    for number, count in enumerate(FILES):
        yield [f"{number}.{place:03}" for place in range(count)]


def messages(names: list[str]) -> list[Message]:
    return [Message(exchange="amq.topic", routing_key=name) for name in names]


def as_parquet(installation: Installation) -> str:
    for number, names in enumerate(keys()):
        installation.publish(messages(names), file=f"{number}.parquet")
    return "stream: s\nsource: {format: parquet, path: INBOX}\ntrigger: available-now\n"


def as_json(installation: Installation) -> str:
    for number, names in enumerate(keys()):
        installation.write_lines(*(json.dumps({"key": name}) for name in names), file=f"{number}.json")
    return JSON


def as_delta(installation: Installation) -> str:
    for names in keys():
        write_deltalake(str(installation.inbox), pa.Table.from_batches([to_batch(messages(names))]), mode="append")
    return "stream: s\nsource: {format: delta, path: INBOX}\ntrigger: available-now\n"


def as_queue(installation: Installation) -> str:
    installation.edit(lambda editor: editor.declare_exchange(Exchange("/", "feed", "fanout")))
    installation.queue("source", source="feed", key="")
    for number, names in enumerate(keys()):
        batch = [Message(exchange="feed", routing_key=name) for name in names]
        installation.publish(batch, file=f"{number}.parquet")
    source = "{format: parquet, path: INBOX, options: {maxFilesPerTrigger: 1}}"
    installation.route(f"stream: feed\nsource: {source}\ntrigger: available-now\n")
    return "stream: s\nsource: {format: queue, queue: source}\nmessage: {exchange: \"'amq.topic'\"}\n"


def crash_between_two_tables(
    installation: Installation, text: str, monkeypatch: pytest.MonkeyPatch, *, batch: int = 0
) -> None:
    """Route batches, the last one into queue "one" only."""
    for name in ("one", "two"):
        installation.queue(name)
    job = installation.job(text)
    monkeypatch.setattr(BatchCommitter.__init__, "__kwdefaults__", {"workers": 1, "claim": True})  # in order of name
    dies = faults.installed(at("batch.appending", crash, where=installation.data.queue("/", "two"), number=batch + 1))
    with dies, pytest.raises(Crash):
        job.run(available_now=True)
    monkeypatch.undo()


def numbers(installation: Installation, queue: str) -> dict[str, tuple[int, int]]:
    rows = installation.rows(queue)
    return {row["routing_key"]: (row["routing"]["batch_id"], row["routing"]["seq"]) for row in rows}


def assert_numbered_once(installation: Installation) -> None:
    one, two = numbers(installation, "one"), numbers(installation, "two")
    assert len(one) == len(set(one.values())) == sum(FILES)
    assert two == one


@pytest.mark.parametrize("source", [as_parquet, as_json, as_delta, as_queue])
def test_a_replay_with_other_cores_and_sizes_gives_every_message_its_number_again(
    installation: Installation, settings: SparkSession, monkeypatch: pytest.MonkeyPatch, source: object
) -> None:
    text = source(installation)  # type: ignore[operator]  # one of the functions above
    settings.conf.set(PARALLELISM, "5")
    settings.conf.set(OPEN, "100")
    crash_between_two_tables(installation, text, monkeypatch)
    split = {seq >> 40 for _, seq in numbers(installation, "one").values()}
    assert len(split) > 1

    settings.conf.set(PARALLELISM, "1")
    settings.conf.set(OPEN, "10000")
    settings.conf.set(SIZE, "1200")
    settings.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    (report,) = installation.route(text, available_now=True)

    assert report.records == sum(FILES)
    assert_numbered_once(installation)
    assert (settings.conf.get(PARALLELISM), settings.conf.get(SIZE)) == ("1", "1200")


def test_only_the_batch_that_was_begun_is_split_as_before(
    installation: Installation, settings: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = as_parquet(installation)
    settings.conf.set(PARALLELISM, "5")
    settings.conf.set(OPEN, "100")
    crash_between_two_tables(installation, text, monkeypatch)
    settings.conf.set(PARALLELISM, "1")
    installation.route(text)
    installation.publish(messages(["new.1"]), file="new1.parquet")
    installation.publish(messages(["new.2"]), file="new2.parquet")
    installation.route(text)

    found = numbers(installation, "one")
    assert {seq >> 40 for batch, seq in found.values() if batch == 1} == {0}


def test_small_batches_are_put_together_and_a_replay_of_one_is_too(
    installation: Installation, settings: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch of a run is split for the cores; what it has written says how many tasks are enough."""
    settings.conf.set(OPEN, "100")
    text = as_parquet(installation).replace("path: INBOX", "path: INBOX, options: {maxFilesPerTrigger: 3}")
    crash_between_two_tables(installation, text, monkeypatch, batch=1)
    tasks = {(batch, seq >> 40) for batch, seq in numbers(installation, "one").values()}
    assert tasks >= {(0, 0), (0, 1), (1, 0)}
    assert {task for batch, task in tasks if batch == 1} == {0}
    installation.route(text)
    assert_numbered_once(installation)


def test_a_replay_under_another_master_gives_every_message_its_number_again(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, settings: SparkSession
) -> None:
    text = as_parquet(installation)
    settings.conf.set(OPEN, "100")
    crash_between_two_tables(installation, text, monkeypatch)
    config = installation.root / "job.yaml"
    config.write_text(text.replace("INBOX", str(installation.inbox)))
    conf = installation.root / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(f"{SIZE} 1500\nspark.driver.memory 512m\n")
    command = [sys.executable, "-m", "bindery.cli.main", "route", "--config", str(config)]
    command += ["--data", installation.data.root, "--available-now", "--master", "local[5]"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK_"))}
    done = subprocess.run(
        command,
        env=environment | {"SPARK_CONF_DIR": str(conf)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert len(read_manifest(installation.data)) == 1
    assert_numbered_once(installation)
