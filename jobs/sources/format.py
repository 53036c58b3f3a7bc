"""How the files of a source are read, a batch of them at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from bindery.jobs.sources.lines import LINE_ENDS


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format with everything that decides how its files are read.

    schema      of the records, with the columns that Spark adds
    options     of Spark's reader
    line_limit  bytes of a line, or with `whole` of a file after decompression; None for formats without lines
    header      the first line of each file is no record
    """

    name: str
    schema: StructType
    options: Mapping[str, str]
    line_limit: int | None = None
    line_ends: tuple[bytes, ...] = LINE_ENDS
    whole: bool = False
    header: bool = False

    @property
    def quoting(self) -> dict[str, Any]:
        """What of the options says how a line of CSV is read again (jobs.reread.Layout)."""
        stated = {option.lower(): value for option, value in self.options.items()}
        return {
            "separator": stated.get("sep") or stated.get("delimiter") or ",",
            "quote": stated.get("quote", '"'),
            "escape": stated.get("escape", ""),
            "null": stated.get("nullvalue"),
        }

    def frame(self, spark: SparkSession, paths: Sequence[str], *, base: str | None = None) -> DataFrame:
        """The records of those files; each path names one file, whatever characters it has.

        `base` is the folder below which the names of folders may be partitions, if not that of the options.
        """
        options = dict(self.options) if base is None else {**self.options, "basePath": base}
        reader = spark.read.format(self.name).schema(self.schema).options(**options)
        return reader.option("__globPaths__", "false").load(list(paths))
