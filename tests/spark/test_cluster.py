"""The documented spark-submit line, on executors of their own that get the code as a zip."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from bindery.router.definitions import apply, parse_definitions
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.tables import count_rows
from bindery.store.topology import TopologyStore
from tests.packages import PROJECT, own_packages

VERSION = r"Bindery \d+\.\d+\.\d+ \([0-9a-f]{12}\)"
JOB = """
stream: s
source: {format: json, path: INBOX, schema: 'id BIGINT, name STRING'}
message:
  exchange: "'amq.topic'"
  routing_key: name
  application_properties: {id: id, name: name}
trigger: available-now
"""
TOPOLOGY = {
    "queues": [{"vhost": "/", "name": "odd", "durable": True, "arguments": {}}],
    "bindings": [
        {
            "vhost": "/",
            "source": "amq.topic",
            "destination": "odd",
            "destination_type": "queue",
            "routing_key": "#.x.#",
            "arguments": {"x-filter-jms-selector": "id >= 500 AND name LIKE 'a%'"},
        }
    ],
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """The packages as a user ships them: sources and grammar files in one zip; who loads a task is noted."""
    code = tmp_path / "code"
    shutil.copytree(PROJECT / "bindery", code / "bindery")
    with (code / "bindery" / "jobs" / "task.py").open("a") as task:
        task.write(f"\nwith open({str(tmp_path / 'loaded')!r}, 'a') as _loaded:\n    _loaded.write(__file__ + '\\n')\n")
    path = tmp_path / "bindery.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(code.rglob("*")):
            if file.suffix in (".py", ".lark"):
                archive.write(file, file.relative_to(code))
    return path


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """Links to the installed Spark: a local cluster writes its work folder into SPARK_HOME."""
    home = tmp_path / "spark-home"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    return home


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    """A topology, 1,000 records to route, a job for them, and packages that nobody may import by mistake."""
    data = DataDir.open(tmp_path / "data", create=True)
    definitions = parse_definitions(TOPOLOGY)
    TopologyStore(data).edit(lambda editor: apply(definitions, editor), author="test")
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for part in range(4):
        lines = [json.dumps({"id": n, "name": f"a{n}.x.y"}) for n in range(part, 1000, 4)]
        (inbox / f"{part}.json").write_text("\n".join(lines) + "\n")
    (tmp_path / "job.yaml").write_text(JOB.replace("INBOX", str(inbox)))
    own_packages(tmp_path)
    shutil.copy(PROJECT / "jobs" / "route.py", tmp_path / "route.py")
    return data


def submitted(
    folder: Path, spark_home: Path, data: DataDir, *options: str, asked: tuple[str, ...] = (), **more: str
) -> subprocess.CompletedProcess[str]:
    """The job under spark-submit, on two executors of their own."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_GATEWAY_PORT")
    } | {
        "SPARK_HOME": str(spark_home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYSPARK_PYTHON": sys.executable,
        "NUMBA_CACHE_DIR": str(folder / "numba"),
    }
    command = [
        str(spark_home / "bin" / "spark-submit"),
        *("--master", "local-cluster[2,1,1024]", *options),
        *("--conf", "spark.executor.memory=700m", "--conf", "spark.ui.enabled=false"),
        *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"),
        *(str(folder / "route.py"), "--config", str(folder / "job.yaml"), "--data", data.root, *asked),
    ]
    return subprocess.run(
        command, env=environment | more, cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )


def test_spark_submit_routes_on_executors_that_got_the_code_as_a_zip(
    tmp_path: Path, archive: Path, spark_home: Path, data: DataDir
) -> None:
    done = submitted(tmp_path, spark_home, data, "--py-files", str(archive), asked=("--fail-on-unroutable",))

    assert done.returncode == 1, done.stderr[-4000:]
    assert "1,000 records → 500 copies, 500 unroutable: filtered ×500" in (done.stdout + done.stderr).splitlines()
    assert count_rows(data, "/", "odd") == 500
    (row,) = read_manifest(data)
    loaded = (tmp_path / "loaded").read_text().splitlines()
    assert len(loaded) >= 2
    assert all("bindery.zip/bindery/jobs/task.py" in file for file in loaded)
    assert (row["records"], dict(row["unroutable"])) == (1000, {"filtered": 500})


@pytest.mark.nightly
def test_spark_submit_stops_at_executors_whose_image_has_another_bindery(
    tmp_path: Path, archive: Path, spark_home: Path, data: DataDir
) -> None:
    image = ("--conf", f"spark.executorEnv.PYTHONPATH={archive}")

    done = submitted(tmp_path, spark_home, data, *image, PYTHONPATH=str(PROJECT))

    assert done.returncode == 3, done.stderr[-4000:]
    # Spark joins what a driver in Python prints
    error, hint = done.stdout.splitlines()
    assert re.fullmatch(f"error: executors: the executor on .+ has {VERSION}, the driver has {VERSION}", error)
    assert "--py-files" in hint
    assert (count_rows(data, "/", "odd"), read_manifest(data)) == (0, [])
