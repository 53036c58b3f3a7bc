"""A broker of ActiveMQ Classic in a program of its own, for one configuration and some messages."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.servers.maven import Artifact, jars

_VERSION: Final = "5.18.3"
BROKER: Final = (
    Artifact(f"org.apache.activemq:activemq-broker:{_VERSION}"),
    Artifact(f"org.apache.activemq:activemq-spring:{_VERSION}"),
    Artifact("org.apache.xbean:xbean-spring:4.24"),
    Artifact("org.springframework:spring-context:5.3.30"),
    Artifact("org.slf4j:slf4j-simple:2.0.9"),
)
_PROGRAM: Final = Path(__file__).with_name("ActiveMqClassic.java")


def reached(configuration: Path, messages: Sequence[str]) -> list[set[str]]:
    """The queues that each message reaches; a message is a line as `ActiveMqClassic.java` reads it.

    Skips without Maven or a compiler of Java.
    """
    if shutil.which("javac") is None:
        pytest.skip("no compiler of Java for the broker's program")
    classes = f"{jars('activemq', BROKER)}/*"
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    done = subprocess.run(
        [
            "java",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            quiet,
            "-cp",
            classes,
            str(_PROGRAM),
            str(configuration),
        ],
        input="".join(f"{message}\n" for message in messages),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=configuration.parent,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [line.split("\t") for line in done.stdout.splitlines() if line.startswith("reached")]
    return [set(line[1:]) - {""} for line in lines]
