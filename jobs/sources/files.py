"""Files of a folder: JSON lines, CSV and Parquet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from jobs.config import FileSource, JobFile
from jobs.sources.records import CORRUPT, Records
from store.paths import DataDir

_FILE: Final = {"file": "_metadata.file_path"}
#: Spark forgets files that are older than this against the newest one, and reads none that are: never.
_NO_AGE: Final = {"maxFileAge": f"{2**63 - 1}ms"}
#: Stated, so that no setting of the session can hide a file that cannot be read.
_LOUD: Final = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}


def read_json(spark: SparkSession, data: DataDir, source: FileSource, file: JobFile) -> Records:
    """JSON lines by the given schema; without one each line is a whole message in its JSON form."""
    if source.schema_ is None:
        frame = _load(_reader(spark, source).format("text"), source, file)
        return Records(frame, ("value",), _FILE, text=True)
    return _read_with_schema(spark, source, file)


def read_csv(spark: SparkSession, data: DataDir, source: FileSource, file: JobFile) -> Records:
    """CSV by the given schema; Spark knows no row numbers here, only the file."""
    return _read_with_schema(spark, source, file)


def read_parquet(spark: SparkSession, data: DataDir, source: FileSource, file: JobFile) -> Records:
    """Parquet; the schema is that of the files that are there at the start."""
    try:
        schema = spark.read.options(**source.options | _LOUD).parquet(_absolute(source.path)).schema
    except AnalysisException as error:
        raise file.error(("source", "path"), f"no Parquet schema at {source.path!r}: {spark_reason(error)}") from None
    frame = _load(_reader(spark, source).format("parquet").schema(schema), source, file)
    return Records(frame, tuple(schema.names), _FILE | {"row_index": "_metadata.row_index"})


def _read_with_schema(spark: SparkSession, source: FileSource, file: JobFile) -> Records:
    schema = parse_schema(source.schema_ or "", file)
    names = tuple(schema.names)
    reader = _reader(spark, source).format(source.format).schema(schema.add(CORRUPT, "string"))
    reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", CORRUPT)
    return Records(_load(reader, source, file), names, _FILE)


def parse_schema(text: str, file: JobFile) -> StructType:
    """A schema in DDL form (`id BIGINT, name STRING`)."""
    try:
        parsed = StructType.fromDDL(text)
    except PySparkException as error:
        raise file.error(("source", "schema"), spark_reason(error)) from None
    if not isinstance(parsed, StructType):
        raise file.error(("source", "schema"), "one type, not a list of columns", hint="such as id BIGINT, name STRING")
    return parsed


def spark_reason(error: Any) -> str:
    """The first line of what Spark says, without its error class and SQL state."""
    text = str(getattr(error, "desc", None) or error).strip().partition("\n")[0]
    text = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", text)
    return re.sub(r"\s*SQLSTATE: \w+(; line \d+ pos \d+)?;?$", "", text)


def _reader(spark: SparkSession, source: FileSource) -> DataStreamReader:
    reader = spark.readStream.options(**source.options | _LOUD | _NO_AGE)
    if Path(source.path).is_file():
        # Spark streams folders: one file is its folder with a filter on the name
        name = re.sub(r"([\[\]{}*?\\])", r"\\\1", Path(source.path).name)
        reader = reader.option("pathGlobFilter", name)
    return reader


def _load(reader: DataStreamReader, source: FileSource, file: JobFile) -> DataFrame:
    path = Path(source.path)
    try:
        return reader.load(_absolute(str(path.parent) if path.is_file() else source.path))
    except AnalysisException as error:
        raise file.error(("source", "path"), spark_reason(error)) from None


def _absolute(path: str) -> str:
    """A relative path is one of this process, wherever the JVM was started; URLs are left alone."""
    return path if "://" in path else str(Path(path).absolute())
