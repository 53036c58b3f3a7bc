from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from bindery.demo import __main__ as demo
from bindery.store.paths import DataDir
from tests.spark.installation import Installation

CONFIGS = Path(__file__).parents[2] / "configs" / "demo"


class DemoRun(NamedTuple):
    """The data of one run of the demo, what it printed, and a copy of the data for whoever changes it."""

    data: DataDir
    text: str
    copy: Path


@pytest.fixture
def installation(spark: SparkSession, tmp_path: Path) -> Installation:
    return Installation(spark, tmp_path)


@pytest.fixture(scope="session")
def demo_run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DemoRun:
    folder = tmp_path_factory.mktemp("demo")
    text = io.StringIO()
    demo.run(CONFIGS, str(folder), Console(file=text, width=200))
    copy = tmp_path_factory.mktemp("demo-copy") / "data"
    shutil.copytree(folder, copy)
    return DemoRun(DataDir.open(folder), text.getvalue(), copy)
