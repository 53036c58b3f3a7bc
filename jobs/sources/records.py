"""What every source gives to the mapping: a stream of records and where each came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame

from bindery.jobs.consume import Consumer
from bindery.jobs.sources.format import FileFormat
from bindery.router.errors import BinderyError

#: The column in which Spark keeps the text of a record that it could not parse.
CORRUPT: Final = "_corrupt_record"


@dataclass(frozen=True, slots=True)
class Records:
    """Records as they arrive.

    frame    the streaming DataFrame: the columns of the records and, where a format can fail, CORRUPT
    files    how the files behind it are read, a batch at a time; None when Spark reads the stream itself
    columns  the names of the records' own columns
    place    SQL expressions for the members of the `source` column that this format can give
    text     the one column holds whole messages in JSON, still to be parsed
    is_queue the columns are those of a queue table, whatever the mapping adds; `consumer` selects its rows
    defaults what fills a column of the message that the mapping does not name, by column, or column and field
    by_offset messages are numbered by topic, partition and offset, which `place` gives
    table    the records that are there now, where the source is no folder of files
    explained what an error means that reading has ended with, where the source knows it
    """

    frame: DataFrame
    columns: tuple[str, ...]
    place: dict[str, str]
    files: FileFormat | None = None
    text: bool = False
    is_queue: bool = False
    consumer: Consumer | None = None
    defaults: Mapping[tuple[str, ...], Column] = field(default_factory=dict)
    by_offset: bool = False
    table: Callable[[], DataFrame] | None = None
    explained: Callable[[str], BinderyError | None] = lambda _text: None

    @property
    def may_be_corrupt(self) -> bool:
        """Whether Spark marks records of this source that it could not parse."""
        return self.files is not None and CORRUPT in self.frame.columns
