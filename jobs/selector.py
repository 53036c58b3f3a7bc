"""A filter of a broker as an expression over the columns of any DataFrame, with the filter's three values.

It is an Arrow UDF over the columns that the filter names. Spark's own expressions would be faster and not the same:
they cast where a selector says unknown, and fail where it goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkContext
from pyspark.sql import Column, functions
from pyspark.sql.utils import is_remote

from bindery.jobs.control.connect import connect_refused
from bindery.jobs.fold import conformed, union
from bindery.jobs.shipping import shipped_column
from bindery.router import columns as typed
from bindery.router.errors import InvalidInput
from bindery.router.filters import parse
from bindery.router.filters.ast import FALSE, TRUE
from bindery.router.filters.columns import BODY, ColumnFilter
from bindery.router.filters.limits import DEFAULT_LIMITS
from bindery.router.filters.payload import payload_named
from bindery.router.message import VALUE
from bindery.router.spelling import did_you_mean, nearest


def selector(text: str, dialect: str, columns: Mapping[str, Column | str] | None, payload: str | None = None) -> Column:
    """The filter as a boolean column: true, false, or null where it is unknown.

    `columns` says what stands for a name, where that is not the column of that name. With `payload`, a format, `body`
    is the column of bodies, and what follows it looks into them. Raises FilterError for a bad filter, InvalidInput for
    a name in `columns` that the filter does not read, an unknown format, and without a classic session of Spark.
    """
    limits = DEFAULT_LIMITS
    if payload is not None:
        limits = replace(limits, payload=payload_named(payload, limits.bodies))
    condition = ColumnFilter.of(parse(text, dialect, limits=limits))
    stated = dict(columns or {})
    for name in stated:
        if name not in condition.names:
            near = nearest(name, condition.names)
            raise InvalidInput(
                f"columns: the selector does not read {name!r}",
                where="columns",
                hint=did_you_mean(near, then="it reads " + ", ".join(condition.names)),
            )
    if is_remote():
        raise connect_refused("session")
    if SparkContext._active_spark_context is None:
        raise InvalidInput("there is no session of Spark yet", where="selector", hint="bindery.spark() gives one")
    given = [stated.get(name, _quoted(name)) for name in condition.names]
    judged = shipped_column(_Judged(condition), "boolean")
    named: Column = judged(*given, functions.current_timestamp()).alias(text.strip() or "TRUE")
    return named


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class _Judged:
    """The function of the Arrow UDF: the columns that the filter names and a clock in, truths out."""

    condition: ColumnFilter

    def __call__(self, batches: Iterator[Sequence[pa.Array]]) -> Iterator[pa.Array]:
        for *arrays, clock in batches:
            rows = len(clock)
            clock_ms = pc.cast(clock, pa.int64())[0].as_py() // 1000 if rows else 0
            columns = [_column(name, array) for name, array in zip(self.condition.names, arrays, strict=True)]
            if self.condition.body_refs:
                _check_bodies(arrays[self.condition.names.index(BODY)].type)
            truths = self.condition.truths(columns, rows, clock_ms=clock_ms)
            yield pa.array(truths == TRUE, mask=(truths != TRUE) & (truths != FALSE))


def _check_bodies(kind: pa.DataType) -> None:
    """Raise InvalidInput for a column that holds no bodies."""
    if not pa.types.is_null(kind) and not any(
        fits(kind) for fits, member in _MEMBERS if member in ("string", "binary")
    ):
        raise InvalidInput(
            f"column {BODY!r} is {kind}: bodies are STRING or BINARY",
            where="selector",
            hint="name the column that holds them: columns={'body': …}",
        )


def _column(name: str, array: pa.Array) -> typed.Column:
    """The values of a column as those of a property; the types are those of a job's mapping.

    Raises InvalidInput for a type that no property has.
    """
    kind = array.type
    if pa.types.is_null(kind):
        return typed.empty_column(len(array))
    if pa.types.is_struct(kind) and {member.name for member in kind} == {member.name for member in VALUE}:
        return typed.column_from(conformed(array, VALUE))
    member = next((member for fits, member in _MEMBERS if fits(kind)), None)
    if member is None:
        raise InvalidInput(
            f"column {name!r} is {kind}, which no property of a message can be",
            where="selector",
            hint="a date has no counterpart there: CAST it to TIMESTAMP, or to STRING",
        )
    return typed.column_from(union(array, member))


#: What a type of Arrow is in a message; see the folding of jobs.mapping.
_MEMBERS: Final = (
    (pa.types.is_boolean, "bool"),
    (pa.types.is_integer, "int"),
    (lambda kind: pa.types.is_floating(kind) or pa.types.is_decimal(kind), "double"),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), "string"),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), "binary"),
    (pa.types.is_timestamp, "timestamp"),
)
