"""Brokers of the JVM, driven by the program of benchmarks/peers/java; their libraries come by Maven."""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.servers.maven import Artifact, MavenFailed, is_here, jars

SOURCES: Final = Path(__file__).parent / "java" / "bench"
SHARED: Final = ("Workload.java", "Peer.java", "Main.java")
#: Peer -> its class, and what it needs.
PEERS: Final[Mapping[str, tuple[str, tuple[Artifact, ...]]]] = {
    "rabbitmq": ("RabbitMq.java", (Artifact("com.rabbitmq:amqp-client:5.26.0"),)),
    "artemis": ("Artemis.java", (Artifact("org.apache.activemq:artemis-server:2.44.0"),)),
    "broker-j": (
        "BrokerJ.java",
        (
            Artifact("org.apache.qpid:qpid-broker-core:9.2.1"),
            Artifact("org.apache.qpid:qpid-broker-plugins-memory-store:9.2.1"),
            Artifact("org.apache.qpid:qpid-broker-plugins-amqp-0-8-protocol:9.2.1"),
            # the version of je that it names is in a registry of its own alone; this one opens the same store
            Artifact("org.apache.qpid:qpid-bdbstore:9.2.1", without=("com.sleepycat:je",)),
            Artifact("com.sleepycat:je:18.3.12"),
        ),
    ),
}
#: Threads that publish.
THREADS: Final = 2
HEAP: Final = "-Xmx4g"


class Missing(Exception):
    """A peer that cannot be had here, and why."""


@dataclass(frozen=True)
class Published:
    """Seconds of one round, and queue -> copies in it."""

    seconds: float
    counts: dict[str, int]


@dataclass
class Driver:
    """A peer that is ready, with a topology declared and the messages read."""

    version: str
    _process: subprocess.Popen[str]
    _log: Path

    @property
    def process(self) -> int:
        """The id of its process."""
        return self._process.pid

    def publish(self, expected: int, limit: float) -> Published:
        """Publish all messages once, and wait for so many copies. Raises RuntimeError after `limit` seconds."""
        assert self._process.stdin is not None  # noqa: S101  # a pipe was asked for
        self._process.stdin.write(f"{expected}\n")
        self._process.stdin.flush()
        answer = _answer(self._process, self._log, limit)
        return Published(answer["seconds"], answer["counts"])


@contextmanager
def driver(peer: str, form: str, files: tuple[Path, Path], place: str, folder: Path) -> Iterator[Driver]:
    """A peer in that form ("durable", "volatile"); raises Missing where it cannot be had."""
    classpath = compiled(peer)
    log = folder / f"{peer}-{form}.log"
    command = ["java", HEAP, "-cp", classpath, "bench.Main", peer, form, *map(str, files), str(THREADS), place]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder
        ) as process,
    ):
        try:
            yield Driver(_answer(process, log, 180)["version"], process, log)
            if process.stdin is not None:
                process.stdin.close()
            process.wait(60)
        finally:
            process.kill()


def _answer(process: subprocess.Popen[str], log: Path, limit: float) -> dict[str, Any]:
    assert process.stdout is not None  # noqa: S101  # a pipe was asked for
    late = threading.Timer(limit, process.kill)
    late.start()
    try:
        line = process.stdout.readline()
    finally:
        late.cancel()
    if not line:
        raise RuntimeError(f"{log.stem} ended, or took over {limit:.0f} s:\n{log.read_text()[-2000:]}")
    answer: dict[str, Any] = json.loads(line)
    return answer


def compiled(peer: str) -> str:
    """The class path of the program with that peer, compiled once for its sources; raises Missing."""
    if not is_here():
        raise Missing("no Maven (mvn and java) to fetch its libraries with")
    source, artifacts = PEERS[peer]
    try:
        libraries = jars(peer, artifacts)
    except MavenFailed as problem:
        raise Missing(f"Maven could not fetch it: {str(problem)[:300]}") from None
    sources = [SOURCES / name for name in (*SHARED, source)]
    classes = libraries / f"classes-{_digest(sources)}"
    if not classes.is_dir():
        with TemporaryDirectory(dir=libraries) as made:
            command = ["javac", "-proc:none", "-d", made, "-cp", f"{libraries}/*", *map(str, sources)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
            if done.returncode:
                raise Missing(f"javac: {done.stderr[:300]}")
            Path(made).rename(classes)
            Path(made).mkdir()  # the context removes it
    return f"{classes}:{libraries}/*"


def _digest(sources: list[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
