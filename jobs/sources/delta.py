"""Delta tables as sources: an inbox, or a queue table of this installation (a bridge)."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from jobs.config import FileSource, JobFile
from jobs.sources.files import spark_reason
from jobs.sources.records import Records

_FILE = {"file": "_metadata.file_path"}


def read_delta(spark: SparkSession, source: FileSource, file: JobFile) -> Records:
    """What is appended to a Delta table; rows that are rewritten or deleted there are not seen again."""
    return _stream(spark, source.path, source.options, file, ("source", "path"))


def _stream(spark: SparkSession, path: str, options: dict[str, str], file: JobFile, key: tuple[str, ...]) -> Records:
    reader = spark.readStream.format("delta").options(**options).option("skipChangeCommits", "true")
    try:
        frame = reader.load(path)
    except AnalysisException as error:
        raise file.error(key, f"no Delta table to stream from at {path!r}: {spark_reason(error)}") from None
    return Records(frame, tuple(frame.columns), _FILE)
