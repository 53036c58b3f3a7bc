"""A real server of Spark Connect: whoever comes with a session of it, or its address, is refused in one line."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.packages import PROJECT
from tests.servers.ports import free_port

pytest.importorskip("grpc", reason="clients of Spark Connect need grpcio (extra `test`)")

#: How long anything may take on a busy machine.
PATIENCE = 600.0
SPARK = Path(pyspark.__file__).parent
#: What a notebook does that has a session of Spark Connect: calls each entrance, and the command line.
NOTEBOOK = """
    import json, subprocess, sys
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    assert spark.range(3).count() == 3

    from bindery.cli.local import run_local
    from bindery.jobs.control.config import load_job
    from bindery.jobs.read import read_queue_df
    from bindery.jobs.replay import replay
    from bindery.jobs.replayer import Span
    from bindery.jobs.route import RouteJob
    from bindery.jobs.session import build_session
    from bindery.router.errors import InvalidInput
    from bindery.store.paths import DataDir
    from bindery.store.topology import TopologyStore

    file, data = load_job("job.yaml"), DataDir.open("data")
    topology = TopologyStore(data).load()
    for entrance in (
        lambda: RouteJob(spark, data, file),
        lambda: run_local(file, data),
        lambda: read_queue_df(spark, "data", "q"),
        lambda: replay(spark, data, topology, topology, vhost="/", span=Span()),
        lambda: build_session("own"),
    ):
        try:
            entrance()
        except InvalidInput as error:
            print(json.dumps([error.where, str(error)]))
    sys.stdout.flush()
    sys.exit(subprocess.run(sys.argv[2:]).returncode)
"""
ROUTE = (sys.executable, "-m", "bindery.cli.main", "route", "--config", "job.yaml", "--data", "data", "--available-now")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the user is: a job file and a data directory."""
    folder = tmp_path_factory.mktemp("connect")
    (folder / "job.yaml").write_text("stream: s\nsource: {format: parquet, path: /in}\n")
    TopologyStore(DataDir.open(folder / "data", create=True)).create()
    return folder


@pytest.fixture(scope="module")
def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    own = {"SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder / "local")}
    return kept | own | {"PYTHONPATH": str(PROJECT), "PYTHONWARNINGS": "ignore"}


@pytest.fixture(scope="module")
def address(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """A server."""
    port = free_port()
    own = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    own |= {"spark.ui.enabled": "false"}
    command = [str(SPARK / "bin" / "spark-submit"), "--master", "local[1]"]
    command += [option for name, value in own.items() for option in ("--conf", f"{name}={value}")]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + PATIENCE
        while True:
            assert server.poll() is None and time.monotonic() < end, (folder / "log").read_text()
            try:
                socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def run(folder: Path, environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def refused(done: subprocess.CompletedProcess[str], where: str) -> None:
    """One line and its hint, nothing else, and no start of Spark."""
    error, hint = done.stderr.splitlines()
    assert error == f"error: {where}: Spark Connect cannot run jobs, which need the JVM of the driver"
    assert hint.startswith("hint: use `bindery route`, or spark-submit with --master")
    assert done.returncode == 2


def test_a_notebook_is_refused_at_each_entrance_and_so_are_its_commands(
    folder: Path, environment: dict[str, str], address: str
) -> None:
    done = run(folder, environment, sys.executable, "-c", textwrap.dedent(NOTEBOOK), address, *ROUTE)
    where = [json.loads(line)[0] for line in done.stdout.splitlines()]
    # its last act is a command, which inherits what PySpark has set in the notebook
    assert where == ["session"] * 4 + ["SPARK_CONNECT_MODE_ENABLED"], done.stderr
    refused(done, "SPARK_CONNECT_MODE_ENABLED")


def test_so_is_the_address_of_a_server(folder: Path, environment: dict[str, str], address: str) -> None:
    refused(run(folder, environment, *ROUTE, "--master", address), "master")
    refused(run(folder, environment | {"SPARK_REMOTE": address}, *ROUTE), "SPARK_REMOTE")


def test_what_spark_submit_was_told_is_refused(folder: Path, environment: dict[str, str], address: str) -> None:
    """Only its JVM knows it, which prints what the job says."""
    submit = (str(SPARK / "bin" / "spark-submit"), "--remote", address, str(PROJECT / "jobs" / "route.py"))
    done = run(folder, environment | {"PYSPARK_PYTHON": sys.executable}, *submit, *ROUTE[4:])
    said = done.stdout + done.stderr
    assert "error: spark.remote: Spark Connect cannot run jobs, which need the JVM of the driver\n" in said
    assert "Traceback" not in said
    assert done.returncode == 2
