"""A standalone cluster over an object store: driver and executors share nothing but the store and the shipped code."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
import pytest

from bindery.jobs.control.connectors import DELTA, S3A
from bindery.router.definitions import apply, parse_definitions
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.places import at
from bindery.store.read import read_queue
from bindery.store.topology import TopologyStore
from tests.packages import PROJECT, own_packages
from tests.servers.ports import free_port

FILES, LINES = 24, 250
JOB = """
stream: s
source: {format: json, path: INBOX, schema: 'id BIGINT, name STRING', options: {maxFilesPerTrigger: 4}}
message:
  exchange: "'amq.topic'"
  routing_key: name
  application_properties: {id: id}
trigger: available-now
"""
TOPOLOGY = {
    "queues": [{"vhost": "/", "name": name, "durable": True, "arguments": {}} for name in ("odd", "all")],
    "bindings": [
        {
            "vhost": "/",
            "source": "amq.topic",
            "destination": queue,
            "destination_type": "queue",
            "routing_key": key,
            "arguments": {},
        }
        for queue, key in (("odd", "odd.#"), ("all", "#"))
    ],
}
#: How long anything may take on a busy machine.
PATIENCE = 400.0


@dataclass
class Machine:
    """A machine as far as Bindery can tell: a working directory and a home of its own, and nothing of the others'."""

    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a process here, in a group of its own."""
        self.folder.mkdir(exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_GATEWAY_PORT")}
        home = Path(pyspark.__file__).parent
        environment = kept | {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
            "PYSPARK_PYTHON": sys.executable,
            "NUMBA_CACHE_DIR": str(self.folder / "numba"),
            "TMPDIR": str(self.folder),
        }
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [str(home / "bin" / command[0]), *command[1:]],
                env=environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def fail(self) -> None:
        """End everything that runs here at once."""
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.processes = []


@dataclass
class Cluster:
    """A master, and workers that give one core each."""

    folder: Path
    port: int = field(default_factory=free_port)
    machines: dict[str, Machine] = field(default_factory=dict)

    def machine(self, name: str) -> Machine:
        return self.machines.setdefault(name, Machine(self.folder / name))

    def start(self, *workers: str) -> None:
        master = ("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(self.port))
        self.machine("master").start("spark-class", *master, "--webui-port", str(free_port()))
        for name in workers:
            self.machine(name).start(
                *("spark-class", "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"),
                *("--port", str(free_port()), "--webui-port", str(free_port())),
                *("-c", "1", "-m", "900m", "-d", str(self.folder / name / "work"), f"spark://127.0.0.1:{self.port}"),
            )
        for name in workers:
            until(lambda name=name: "Successfully registered with master" in self.machine(name).log)

    def submit(self, driver: str, data: DataDir, archive: Path) -> subprocess.Popen[bytes]:
        """The job of `JOB` from a machine, which gets the files that its user has there."""
        machine = self.machine(driver)
        machine.folder.mkdir(exist_ok=True)
        own_packages(machine.folder)
        shutil.copy(PROJECT / "jobs" / "route.py", machine.folder / "route.py")
        (machine.folder / "job.yaml").write_text(JOB.replace("INBOX", f"{data.root}-inbox"))
        shutil.copy(archive, machine.folder / "bindery.zip")
        return machine.start(
            *("spark-submit", "--master", f"spark://127.0.0.1:{self.port}", "--py-files", "bindery.zip"),
            *("--packages", ",".join((*DELTA.packages, *S3A.packages)), "--exclude-packages", ",".join(S3A.excludes)),
            *("--driver-memory", "512m", "--executor-memory", "600m", "--conf", "spark.executor.cores=1"),
            *("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"),
            *("--conf", "spark.driver.bindAddress=127.0.0.1"),
            *("route.py", "--config", "job.yaml", "--data", data.root),
        )


def until(there: Callable[[], object], *, alive: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until something is there, or the process that would bring it has ended."""
    end = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < end, "it took too long"
        if alive is not None and alive.poll() is not None:
            return
        time.sleep(0.2)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "cluster")
    cluster.folder.mkdir()
    yield cluster
    for machine in cluster.machines.values():
        machine.fail()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "bindery.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for folder, _, names in os.walk(PROJECT / "bindery", followlinks=True):
            for name in sorted(names):
                if name.endswith((".py", ".lark")):
                    file = Path(folder, name)
                    archive.write(file, file.relative_to(PROJECT))
    return path


@pytest.mark.nightly
def test_workers_and_drivers_fail_and_every_message_is_there_once(
    s3_root: str, cluster: Cluster, archive: Path
) -> None:
    data = DataDir.open(s3_root, create=True)
    definitions = parse_definitions(TOPOLOGY)
    TopologyStore(data).edit(lambda editor: apply(definitions, editor), author="test")
    inbox = at(f"{s3_root}-inbox")
    for part in range(FILES):
        ids = range(part * LINES, (part + 1) * LINES)
        lines = [json.dumps({"id": n, "name": f"{'odd' if n % 2 else 'even'}.x"}) for n in ids]
        (inbox / f"{part:02}.json").replace(("\n".join(lines) + "\n").encode())

    cluster.start("worker-1", "worker-2")
    driver = cluster.submit("driver-1", data, archive)
    until(lambda: read_manifest(data), alive=driver)
    assert driver.poll() is None, cluster.machine("driver-1").log[-4000:]
    cluster.machine("worker-1").fail()
    until(lambda: len(read_manifest(data)) >= 2, alive=driver)
    cluster.machine("driver-1").fail()
    before = len(read_manifest(data))
    assert 2 <= before < FILES // 4, cluster.machine("driver-1").log[-4000:]

    again = cluster.submit("driver-2", data, archive)
    assert again.wait(PATIENCE) == 0, cluster.machine("driver-2").log[-4000:]

    assert sum(row["records"] for row in read_manifest(data)) == FILES * LINES
    for queue, expected in (("all", range(FILES * LINES)), ("odd", range(1, FILES * LINES, 2))):
        properties = read_queue(data, queue)["application_properties"].to_pylist()
        assert Counter(dict(one)["id"]["int"] for one in properties) == Counter(expected)
