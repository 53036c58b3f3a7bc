"""Frames of messages: what a mapping makes of records, as a DataFrame of its own, and how such a frame is read again.

They are the columns of a message and one more: `refused` says of a record that is no message why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, functions
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import NullType, StructType

from bindery.jobs.control.config import job_of_mapping
from bindery.jobs.fold import Fold, MappedColumn, Refused
from bindery.jobs.mapping import mapped, shape, shape_of_arrow
from bindery.jobs.session import guard, require_classic
from bindery.jobs.shipping import shipped
from bindery.jobs.sources.records import Records
from bindery.router.errors import InvalidInput
from bindery.router.message import SENT_SCHEMA
from bindery.router.spelling import did_you_mean, nearest
from bindery.store.problems import Problem

REFUSED: Final = pa.field(
    "refused",
    pa.struct([("reason", pa.string()), ("detail", pa.string()), ("raw", pa.binary()), ("kind", pa.string())]),
)
#: The columns of a frame of messages.
MESSAGES: Final = pa.schema([*SENT_SCHEMA, REFUSED])


def messages(frame: DataFrame, message: Mapping[str, Any]) -> DataFrame:
    """The records of a frame as messages, row by row. Raises as `bindery.jobs.frames.routed` does."""
    require_classic(frame.sparkSession)
    projection, fold = mapped(Records(frame, tuple(frame.columns), {}), job_of_mapping(message))
    guard(frame.sparkSession)
    inputs = projection(frame, functions.current_timestamp())
    return inputs.mapInArrow(shipped(_Folded(fold), gives_results=False), from_arrow_schema(MESSAGES))


@dataclass(frozen=True, slots=True)
class _Folded:
    """The function of `mapInArrow`."""

    fold: Fold

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found, refused = self.fold(batch, pa.array(np.arange(batch.num_rows)))
            whole = [*found.select(SENT_SCHEMA.names).columns, pa.nulls(found.num_rows, REFUSED.type)]
            parts = [pa.RecordBatch.from_arrays(whole, schema=MESSAGES)]
            order = found.column("seq").to_numpy()
            if refused is not None:
                parts.append(_as_rows(refused))
                order = np.concatenate([order, refused.batch.column("seq").to_numpy()])
            yield pa.concat_batches(parts).take(pa.array(np.argsort(order)))


def _as_rows(refused: Refused) -> pa.RecordBatch:
    # of the refused, the invalid ones alone have a problem, in their order
    kinds = iter(refused.problems)
    of_row = [next(kinds).kind if reason == "invalid_record" else None for reason in refused.reason.to_pylist()]
    why = [refused.reason, refused.detail, refused.raw, pa.array(of_row, pa.string())]
    struct = pa.StructArray.from_arrays(why, fields=list(REFUSED.type))
    return pa.RecordBatch.from_arrays([*refused.batch.select(SENT_SCHEMA.names).columns, struct], schema=MESSAGES)


@dataclass(frozen=True, slots=True)
class MessageFold:
    """How rows of a frame of messages become messages, and refused records again; see `bindery.jobs.fold.Fold`."""

    fold: Fold
    may_be_refused: bool

    def __call__(
        self, batch: pa.RecordBatch, seq: pa.Array, *, clock_ms: int = 0
    ) -> tuple[pa.RecordBatch, Refused | None]:
        """The messages of a batch, and the refused records; together they are all rows."""
        if not self.may_be_refused or batch.column(REFUSED.name).null_count == batch.num_rows:
            return self.fold(batch, seq, clock_ms=clock_ms)
        why = batch.column(REFUSED.name)
        mask = np.asarray(why.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        bad, good = (pa.array(np.flatnonzero(rows)) for rows in (mask, ~mask))
        found, too_large = self.fold(batch.take(good), seq.take(good), clock_ms=clock_ms)
        # what was refused once is not judged again
        records, _ = replace(self.fold, max_record_bytes=2**62)(batch.take(bad), seq.take(bad))
        reason, detail, raw, kind = why.take(bad).flatten()
        kinds = zip(kind.to_pylist(), detail.to_pylist(), strict=True)
        refused = Refused(records, reason, detail, raw, [Problem(one, said) for one, said in kinds if one is not None])
        return found, refused if too_large is None else _joined(refused, too_large)


def _joined(one: Refused, other: Refused) -> Refused:
    return Refused(
        pa.concat_batches([one.batch, other.batch]),
        pa.concat_arrays([one.reason, other.reason]),
        pa.concat_arrays([one.detail, other.detail]),
        pa.concat_arrays([one.raw, other.raw]),
        [*one.problems, *other.problems],
    )


def message_fold(schema: StructType, max_record_bytes: int) -> MessageFold:
    """How the rows of a frame with that schema are read; raises InvalidInput for one that is no frame of messages."""
    columns, fields = [], {field.name: field for field in MESSAGES}
    hint = "bindery.spark.messages(df, mapping) makes the columns of a message"
    for field in schema.fields:
        if field.name not in fields:
            near = nearest(field.name, fields)
            raise InvalidInput(
                f"column {field.name!r} is none of a message",
                where=field.name,
                hint=did_you_mean(near, then=hint),
            )
        if isinstance(field.dataType, NullType):
            continue
        wanted = shape_of_arrow(fields[field.name].type)
        if shape(field.dataType) != wanted:
            raise InvalidInput(
                f"column {field.name!r} is {shape(field.dataType)}, and in a message {wanted}",
                where=field.name,
                hint=hint,
            )
        columns.append(MappedColumn(field.name, field.name))
    may_be_refused = any(one.column == REFUSED.name for one in columns)
    own = tuple(one for one in columns if one.column != REFUSED.name)
    if not own:
        raise InvalidInput("there is no column of a message", where="columns", hint=hint)
    return MessageFold(Fold(own, False, max_record_bytes), may_be_refused)
