"""Executors with another Bindery than the driver: the job stops before anything is committed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bindery.jobs.read import read_queue_df
from bindery.jobs.replay import replay
from bindery.jobs.replayer import Span
from bindery.jobs.shipping import OtherCode, fingerprint
from bindery.router.message import Message
from tests.packages import PROJECT
from tests.spark.installation import Installation


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A Bindery with a change, in a folder of its own."""
    folder = tmp_path / "other"
    shutil.copytree(PROJECT / "bindery", folder / "bindery", ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "bindery" / "router" / "engine" / "walk.py").open("a") as source:
        source.write("\n# a change\n")
    return folder


def workers_find(monkeypatch: pytest.MonkeyPatch, spark: SparkSession, folder: Path) -> None:
    """Workers started from now on import from that folder first."""
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", str(folder))
    # not from the working directory, which is the project
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONSAFEPATH", "1")


def test_a_job_stops_at_executors_with_another_bindery_and_goes_on_with_its_own(
    installation: Installation, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.queue("all")
    installation.publish([Message("amq.topic", "k")] * 10, file="a.parquet")
    with monkeypatch.context() as changed:
        workers_find(changed, installation.spark, other)
        with pytest.raises(OtherCode, match=r"the executor on .* has Bindery .*, the driver has Bindery ") as raised:
            installation.route()
        assert raised.value.message.endswith(fingerprint())
        assert raised.value.message.count(fingerprint()) == 1
        assert (installation.counts(), installation.manifest()) == ({"all": 0}, [])
    installation.route()
    assert (installation.counts(), len(installation.manifest())) == ({"all": 10}, 1)


def test_a_job_stops_at_executors_without_bindery(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = tmp_path / "none"
    none.mkdir()
    (none / "bindery.py").write_text("raise ModuleNotFoundError('none', name='bindery')")
    installation.queue("all")
    installation.publish([Message("amq.topic", "k")], file="a.parquet")
    workers_find(monkeypatch, installation.spark, none)
    with pytest.raises(OtherCode, match="has no Bindery, the driver has"):
        installation.route()
    assert (installation.counts(), installation.manifest()) == ({"all": 0}, [])


def test_replays_and_queues_as_dataframes_say_so_too(
    spark: SparkSession, installation: Installation, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.queue("all")
    installation.publish([Message("amq.topic", "k")] * 10, file="a.parquet")
    installation.route()
    topology: Any = installation.topology.load()
    queue = read_queue_df(spark, installation.data, "all", filter="TRUE")
    assert queue.count() == 10
    workers_find(monkeypatch, spark, other)
    with pytest.raises(OtherCode):
        replay(spark, installation.data, topology, topology, vhost="/", span=Span())
    with pytest.raises((PySparkException, Py4JError), match=r"RuntimeError: the executor on .* has Bindery"):
        read_queue_df(spark, installation.data, "all", filter="TRUE").count()
