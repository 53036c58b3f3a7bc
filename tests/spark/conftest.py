from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.installation import Installation


@pytest.fixture
def installation(spark: SparkSession, tmp_path: Path) -> Installation:
    return Installation(spark, tmp_path)
