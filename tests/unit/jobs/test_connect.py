"""Spark Connect is refused, wherever it is asked for, before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bindery.api.settings import Settings
from bindery.cli.main import app
from bindery.jobs.control.connect import refuse_connect
from bindery.jobs.control.launch import Launcher
from bindery.jobs.read import read_queue_df
from bindery.jobs.replay import replay
from bindery.jobs.replayer import Span
from bindery.jobs.session import build_session, configure
from bindery.router.errors import InvalidInput
from bindery.store.jobs import JobFolder, JobRecord
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        ({"master": "sc://host:15002"}, "master"),
        ({"conf": {"spark.remote": "local"}}, "spark.remote"),
        ({"conf": {"spark.api.mode": "Connect"}}, "spark.api.mode"),
        ({"environment": {"SPARK_REMOTE": "sc://host"}}, "SPARK_REMOTE"),
        ({"environment": {"SPARK_API_MODE": "connect"}}, "SPARK_API_MODE"),
        ({"environment": {"SPARK_REMOTE": ""}}, "SPARK_REMOTE"),
        ({"environment": {"SPARK_CONNECT_MODE_ENABLED": "1"}}, "SPARK_CONNECT_MODE_ENABLED"),
        ({"environment": {"SPARK_CONNECT_MODE": "1"}}, "SPARK_CONNECT_MODE"),
    ],
)
def test_it_is_refused_with_what_to_use_instead(asked: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidInput, match="Spark Connect cannot run jobs") as raised:
        refuse_connect(**asked)
    assert raised.value.where == where
    assert "spark-submit with --master" in (raised.value.hint or "")


def test_a_classic_session_is_not() -> None:
    environment = {"SPARK_API_MODE": "classic", "SPARK_CONNECT_MODE": "0"}
    refuse_connect(master="spark://host:7077", conf={"spark.api.mode": "classic"}, environment=environment)


def test_no_session_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="Spark Connect"):
        build_session("s", master="sc://host")
    with pytest.raises(InvalidInput, match="Spark Connect"):
        build_session("s", settings={"spark.remote": "sc://host"})
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with pytest.raises(InvalidInput, match="Spark Connect"):
        build_session("s")


def test_a_session_of_somebody_else_is_looked_at(tmp_path: Path) -> None:
    remote: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(InvalidInput, match="Spark Connect"):
        configure(remote)
    with pytest.raises(InvalidInput, match="Spark Connect"):
        read_queue_df(remote, str(tmp_path), "q")
    nothing: Any = None
    with pytest.raises(InvalidInput, match="Spark Connect"):
        replay(remote, nothing, nothing, nothing, vhost="/", span=Span())


@pytest.mark.parametrize("active", [None, object()])
def test_the_command_line_says_it_in_a_line_and_a_hint(
    active: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not a session is there that would be taken."""
    monkeypatch.setattr("bindery.cli.local.SparkSession.getActiveSession", lambda: active)
    (tmp_path / "job.yaml").write_text("stream: s\nsource: {format: parquet, path: /in}\n")
    TopologyStore(DataDir.open(tmp_path / "data", create=True)).create()
    options = ["route", "--config", str(tmp_path / "job.yaml"), "--data", str(tmp_path / "data"), "--master", "sc://h"]
    done = CliRunner().invoke(app, options)
    assert isinstance(done.exception, InvalidInput)
    assert done.exception.where == "master"


def test_the_control_plane_does_not_start_with_it(tmp_path: Path) -> None:
    for jobs in ({"master": "sc://host"}, {"conf": {"spark.api.mode": "connect"}}):
        with pytest.raises(InvalidInput, match="Spark Connect"):
            Settings.configured(data=tmp_path, jobs=jobs)


def test_submitted_jobs_do_not_start_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = JobRecord("s", {"stream": "s", "source": {"format": "json", "path": "/in"}}, "ann", 1.0)
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with pytest.raises(InvalidInput, match="Spark Connect"):
        Launcher(DataDir.open(tmp_path, create=True)).command(JobFolder(Path("/j")), record, "r1")
