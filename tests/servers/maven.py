"""Jars by Maven, kept from one run to the next."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


class MavenFailed(Exception):
    """Maven is here and has not fetched what it was asked for."""


@dataclass(frozen=True)
class Artifact:
    """`group:artifact:version`, without what it depends on where `without` (`group:artifact`, or *:*) says so."""

    name: str
    without: tuple[str, ...] = ()

    def xml(self) -> str:
        pairs = [exclusion.split(":") for exclusion in self.without]
        exclusions = "".join(
            f"<exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>"
            for group, artifact in pairs
        )
        group, artifact, version = self.name.split(":")
        return (
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
            f"<exclusions>{exclusions}</exclusions></dependency>"
        )


def is_here() -> bool:
    """Whether jars can be fetched."""
    return shutil.which("mvn") is not None and shutil.which("java") is not None


def jars(name: str, artifacts: Sequence[Artifact]) -> Path:
    """A folder with the jars of the artifacts and of what they need to run; fetched once. Skips without Maven."""
    project = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>bindery.tests</groupId><artifactId>{name}</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{''.join(artifact.xml() for artifact in artifacts)}</dependencies></project>"
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bindery-tests"
    kept = cache / f"{name}-{hashlib.sha256(project.encode()).hexdigest()[:16]}"
    if kept.is_dir():
        return kept
    if not is_here():
        pytest.skip("no Maven (mvn and java) to fetch jars with")
    cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=cache) as folder:
        (Path(folder) / "pom.xml").write_text(project)
        goal = ["dependency:copy-dependencies", "-DoutputDirectory=jars", "-DincludeScope=runtime"]
        done = subprocess.run(
            ["mvn", "--quiet", "--batch-mode", *goal],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode:
            raise MavenFailed(f"{name}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
        try:
            (Path(folder) / "jars").rename(kept)
        except OSError:
            if not kept.is_dir():  # else another run was first
                raise
    return kept
