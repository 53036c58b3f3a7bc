"""Files of a folder: JSON lines, CSV and Parquet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from bindery.jobs.control.config import FileSource, JobFile
from bindery.jobs.sources.format import FileFormat
from bindery.jobs.sources.lines import LINE_ENDS
from bindery.jobs.sources.records import CORRUPT, Records
from bindery.store.paths import DataDir
from bindery.store.places import hadoop_address

#: A line may have so many times the bytes of the largest record: JSON writes a byte of a binary as two.
LINE_FACTOR: Final = 2
_GLOB: Final = re.compile(r"[*?\[\]{}\\]")
_FILE: Final = {"file": "_metadata.file_path"}
#: Spark forgets files that are older than this against the newest one, and reads none that are: never.
_NO_AGE: Final = {"maxFileAge": f"{2**63 - 1}ms"}
#: Stated, so that no setting of the session can hide a file that cannot be read.
_LOUD: Final = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}


def read_json(spark: SparkSession, data: DataDir, source: FileSource, file: JobFile) -> Records:
    """JSON lines by the given schema; without one each line is a whole message in its JSON form."""
    if source.schema_ is None:
        frame = _load(_reader(spark, source).format("text"), source, file)
        return Records(frame, ("value",), _FILE, _format("text", frame, source, file), text=True)
    return _read_with_schema(spark, source, file)


def read_csv(spark: SparkSession, data: DataDir, source: FileSource, file: JobFile) -> Records:
    """CSV by the given schema; Spark knows no row numbers here, only the file."""
    return _read_with_schema(spark, source, file)


def read_parquet(spark: SparkSession, data: DataDir, source: FileSource, file: JobFile) -> Records:
    """Parquet; the schema is that of a file that is there at the start and can be read."""
    schema = _parquet_schema(spark, source, file)
    frame = _load(_reader(spark, source).format("parquet").schema(schema), source, file)
    place = _FILE | {"row_index": "_metadata.row_index"}
    return Records(frame, tuple(schema.names), place, _format("parquet", frame, source, file))


def _parquet_schema(spark: SparkSession, source: FileSource, file: JobFile) -> StructType:
    reader = spark.read.options(**source.options | _LOUD)
    path = absolute(source.path)
    try:
        return reader.parquet(path).schema
    except (PySparkException, Py4JError) as error:
        reason = spark_reason(error)
    try:
        # the file that Spark has chosen may be damaged: any other does
        names = spark.read.options(**source.options | _LOUD).format("binaryFile").load(path).select("path")
        for name in sorted(row.path for row in names.collect()):
            with suppress(PySparkException, Py4JError):
                return reader.option("basePath", path).parquet(name).schema
    except (PySparkException, Py4JError) as error:
        reason = spark_reason(error)
    raise file.error(("source", "path"), f"no Parquet schema at {source.path!r}: {reason}")


def _read_with_schema(spark: SparkSession, source: FileSource, file: JobFile) -> Records:
    schema = parse_schema(source.schema_ or "", file)
    names = tuple(schema.names)
    reader = _reader(spark, source).format(source.format).schema(schema.add(CORRUPT, "string"))
    frame = _load(reader, source, file)
    return Records(frame, names, _FILE, _format(source.format, frame, source, file))


def _format(name: str, frame: DataFrame, source: FileSource, file: JobFile) -> FileFormat:
    """How a batch of the files is read that the stream finds."""
    # which files there are has been decided: a copy of one has another name
    options = {option: value for option, value in source.options.items() if option.lower() != "pathglobfilter"} | _LOUD
    path = absolute(source.path)
    if not _GLOB.search(path):
        # partitions are folders below this one
        options.setdefault("basePath", str(Path(path).parent) if Path(path).is_file() else path)
    if name == "parquet":
        return FileFormat(name, frame.schema, options)
    stated = {option.lower(): value for option, value in source.options.items()}
    limit = LINE_FACTOR * file.job.max_record_bytes
    whole = "true" in (stated.get("multiline", "").lower(), stated.get("wholetext", "").lower())
    if name != "text":
        options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    if name == "csv":
        options.setdefault("maxCharsPerColumn", str(limit))
        options |= {option: value for option, value in _csv_defaults(stated).items() if option.lower() not in stated}
        if whole:
            # fields may hold line ends: what is bounded is the field
            return FileFormat(name, frame.schema, options)
    return FileFormat(
        name,
        frame.schema,
        options,
        line_limit=limit,
        line_ends=_line_ends(stated, file),
        whole=whole,
        header=stated.get("header", "").lower() == "true",
    )


def _csv_defaults(stated: Mapping[str, str]) -> dict[str, str]:
    """What a job reads CSV by unless it says otherwise: its header is the schema, and RFC 4180, §2.7.

    Spark alone would take columns by their position whatever the header says, and a backslash for the escape.
    """
    quote = stated.get("quote", '"')
    return {"enforceSchema": "false"} | ({"escape": quote} if quote else {})


def _line_ends(stated: dict[str, str], file: JobFile) -> tuple[bytes, ...]:
    separator = stated.get("linesep")
    if separator is None:
        return LINE_ENDS
    encoding = stated.get("encoding") or stated.get("charset") or "utf-8"
    try:
        return (separator.encode(encoding),)
    except (LookupError, UnicodeError):
        raise file.error(("source", "options"), f"lineSep cannot be written in {encoding!r}") from None


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
        return reader.load(absolute(str(path.parent) if path.is_file() else source.path))
    except AnalysisException as error:
        raise file.error(("source", "path"), spark_reason(error)) from None


def first_files(spark: SparkSession, source: FileSource) -> list[str]:
    """The files of a source that are there now, those that were modified first before the others."""
    reader = spark.read.options(**source.options | _LOUD).format("binaryFile")
    found = reader.load(absolute(source.path)).select("path", "modificationTime").collect()
    return [row.path for row in sorted(found, key=lambda row: (row.modificationTime, row.path))]


def absolute(path: str) -> str:
    """A relative path is one of this process, wherever the JVM was started; URLs are left alone."""
    return hadoop_address(path) if "://" in path else str(Path(path).absolute())
