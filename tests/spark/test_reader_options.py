"""The names of reader options against those of the Spark that is installed."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from bindery.jobs.control.config import _REFUSED_OPTIONS
from bindery.jobs.control.reader_options import OPTIONS

#: What writers take, and what Spark has for itself.
_WRITERS = {
    *("codec", "compression", "escapequotes", "extension", "ignorenullfields", "parquet.compression", "pretty"),
    *("quoteall", "sortkeys", "useunsaferow", "writenonasciicharacterascodepoint"),
}


def test_every_option_of_the_readers_is_known(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    sql = jvm.org.apache.spark.sql
    parts = sql.execution.datasources
    readers = {
        "csv": (sql.catalyst.csv.CSVOptions, parts.FileIndexOptions),
        "json": (sql.catalyst.json.JSONOptions, parts.FileIndexOptions),
        "parquet": (parts.parquet.ParquetOptions, parts.FileIndexOptions),
    }
    for form, classes in readers.items():
        names = jvm.scala.jdk.javaapi.CollectionConverters
        there = {str(name).lower() for one in classes for name in names.asJava(one.getAllOptions())}
        assert there - _WRITERS - _REFUSED_OPTIONS.keys() <= {name.lower() for name in OPTIONS[form]}, form
