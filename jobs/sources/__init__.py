"""Sources by format: each reads its part of the job file and gives `Records`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from bindery.jobs.control.config import JobFile
from bindery.jobs.sources.delta import read_delta, read_queue
from bindery.jobs.sources.files import read_csv, read_json, read_parquet
from bindery.jobs.sources.kafka import read_kafka
from bindery.jobs.sources.records import CORRUPT, Records
from bindery.store.paths import DataDir

Reader = Callable[[SparkSession, DataDir, Any, JobFile], Records]

SOURCES: Final[Mapping[str, Reader]] = {
    "json": read_json,
    "csv": read_csv,
    "parquet": read_parquet,
    "delta": read_delta,
    "queue": read_queue,
    "kafka": read_kafka,
}

__all__ = ["CORRUPT", "SOURCES", "Records"]
