"""Journals: every message of a stream once, as it was published, with the ids of the queues that it reached.

How much of a journal is kept stands in its table, where whoever maintains it finds it: the stream's own job, the
service or `bindery maintain`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from bindery.router.errors import InvalidInput, UnsupportedTable
from bindery.store import tables
from bindery.store.actions import AddFile, Transaction
from bindery.store.journal_files import FRESHNESS_PROPERTY, TRIMMED, Journal, JournalFile, freshness_of, trimmed_through
from bindery.store.log import TableLog
from bindery.store.maintenance.policy import as_interval, bytes_of, duration, retention_of
from bindery.store.maintenance.tiers import newest_row, row_order
from bindery.store.paths import DataDir

#: How long the rows of a journal are kept where nothing else is said.
DEFAULT_AGE: Final = timedelta(days=7)
_AGE: Final = "bindery.journal.retention"
_BYTES: Final = "bindery.journal.bytes"


class JournalOptions(BaseModel):
    """How much of a journal is kept (docs/jobs.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    retention: str = Field(default="7 days", description="how long rows are kept, such as '7 days'")
    size: str | None = Field(default=None, description="bytes of its files above which the oldest go, such as '10 GiB'")

    @field_validator("retention", "size")
    @classmethod
    def _readable(cls, text: str | None, info: ValidationInfo) -> str | None:
        if text is not None:
            try:
                (retention_of if info.field_name == "retention" else bytes_of)(text)
            except InvalidInput as error:
                raise ValueError(f"{error.message}: {error.hint}") from None
        return text

    @property
    def kept(self) -> Kept:
        """What that means."""
        return Kept(retention_of(self.retention), None if self.size is None else bytes_of(self.size))


@dataclass(frozen=True, slots=True)
class Kept:
    """How much of a journal is kept: rows not older than `age`, in files of `bytes` at most (None: however many).

    Copies that wait in it are kept in any case; `freshness` is how many seconds they may where no queue or policy says.
    """

    age: timedelta = DEFAULT_AGE
    bytes: int | None = None
    freshness: int = 0

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Kept:
        """What the properties of a table state; what they do not, or not readably, is the default."""
        stated = properties.get(_BYTES, "")
        try:
            age = duration(properties.get(_AGE, ""))
        except InvalidInput:
            age = DEFAULT_AGE
        return cls(age, int(stated) if stated.isdecimal() else None, freshness_of(properties))

    @property
    def properties(self) -> Mapping[str, str]:
        """What a table states."""
        stated = {_AGE: as_interval(self.age), _BYTES: "" if self.bytes is None else str(self.bytes)}
        return {**stated, FRESHNESS_PROPERTY: str(self.freshness)}


def keep_journal(data: DataDir, stream: str, vhost: str, kept: Kept) -> None:
    """Make the journal of a stream exist, and say how much of it is kept.

    Raises UnsupportedTable for a stream that has kept one for another vhost: rows name its exchanges.
    """
    try:
        log = tables.ensure_journal_table(data, stream, vhost)
    except UnsupportedTable as error:
        error.hint = "a journal is of one vhost: route the other one by a stream of another name, or without `journal`"
        raise
    for _ in tables.attempts(log.path):
        log.refresh()
        if kept.properties.items() <= log.state.configuration.items():
            return
        state = replace(log.state, configuration={**log.state.configuration, **kept.properties})
        if log.commit((), state=state, info={"operation": "SET TBLPROPERTIES"}) is not None:
            return


def past_keeping(log: TableLog, now_ms: int) -> list[AddFile]:
    """The files of a journal that are not to be kept: those of old rows alone, and the oldest above the size.

    Files with copies that deferred queues have not got yet are kept, whatever their age.
    """
    waiting = {file.path for file in Journal.of(log).waiting()}
    kept = Kept.of(log.state.configuration)
    oldest_ms = now_ms - kept.age.total_seconds() * 1000
    files = sorted(tables.files_of(log).values(), key=row_order)
    held = sum(file.size for file in files)
    found = []
    for file in files:
        newest = newest_row(file)
        old = newest is not None and newest < oldest_ms
        if (old or (kept.bytes is not None and held > kept.bytes)) and file.path not in waiting:
            found.append(file)
            held -= file.size
    return found


def trimmed_mark(log: TableLog, gone: Sequence[AddFile]) -> list[Transaction]:
    """What a journal records when files go: of which batch, and those before, it may lack messages."""
    return [Transaction(TRIMMED, max(trimmed_through(log), *(JournalFile.of(file).last for file in gone)))]
