"""From the records of a source to the columns that a worker folds into messages.

Each expression of the job file is checked against the schema of the source before anything runs: its
syntax, its columns and its type. At run time an expression that fails (a bad CAST under ANSI rules, an
overflow, a missing array element) makes its record invalid and nothing else: it is evaluated inside
Spark's try, within a struct, so that a failure (a null struct) and a null result differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession, functions, types
from pyspark.sql.types import DataType

from bindery.jobs.control.config import JobFile
from bindery.jobs.determinism import HINT, variation
from bindery.jobs.fold import (
    CORRUPT_COLUMN,
    HEADERS,
    MARKS_COLUMN,
    RAW_COLUMN,
    SOURCE_COLUMN,
    Fold,
    MappedColumn,
)
from bindery.jobs.reread import Layout
from bindery.jobs.sources.files import spark_reason
from bindery.jobs.sources.records import CORRUPT, Records
from bindery.router.errors import InvalidInput
from bindery.router.message import MAP_SECTIONS, SENT_SCHEMA

#: The name under which expressions find the time of the micro-batch, unless the source has such a column.
BATCH_TIME: Final = "batch_time"
_CLOCK_NAME: Final = re.compile(rf"\b{BATCH_TIME}\b", re.IGNORECASE)
#: An expression that cannot fail: a column or a member of one, or a text without escapes.
_CANNOT_FAIL: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]*(\.[A-Za-z_][A-Za-z_0-9]*)*|`[^`]+`|'[^'\\]*'")


@dataclass(frozen=True, slots=True)
class Projection:
    """What the workers get of each record, over any DataFrame with the columns of the source.

    raw      the raw form of a record that failed, over the selected columns; `dropped` are needed for it only
    clocked  expressions refer to BATCH_TIME
    """

    selected: tuple[Column, ...]
    raw: Column | None = None
    dropped: tuple[str, ...] = ()
    clocked: bool = False

    def __call__(self, frame: DataFrame, clock: Column) -> DataFrame:
        """The mapped records of a frame; `clock` is the time of the batch."""
        found = (frame.withColumn(BATCH_TIME, clock) if self.clocked else frame).select(*self.selected)
        return found if self.raw is None else found.withColumn(RAW_COLUMN, self.raw).drop(*self.dropped)


def mapped(records: Records, file: JobFile) -> tuple[Projection, Fold]:
    """What to select for the workers and how they fold it; raises InvalidInput naming key and line."""
    job = file.job
    if records.text:
        if job.message:
            raise file.error(("source", "schema"), "missing", hint="expressions need the columns that a schema names")
        selected = (functions.col("value"), *_place(records))
        return Projection(selected), Fold((), True, job.max_record_bytes)
    plan = _Plan(records, file)
    for column, content in job.message.items():
        if isinstance(content, dict):
            for name, expression in content.items():
                plan.add((column, name), expression)
        else:
            plan.add((column,), content)
    for key, default in records.defaults.items():
        if key[0] not in job.message:
            plan.add_default(key, default)
    own = _message_columns(records, file) if records.is_queue or not plan.columns else []
    projection = plan.projection(own)
    if own:
        fold = Fold(tuple(own), False, job.max_record_bytes, records.consumer, tuple(plan.columns), plan.layout())
    else:
        fold = Fold(tuple(plan.columns), False, job.max_record_bytes, layout=plan.layout())
    return projection, fold


def _place(records: Records) -> list[Column]:
    """Where each record came from; a stream of a Delta table does not tell."""
    members = ", ".join(f"{expression} AS `{name}`" for name, expression in records.place.items())
    return [functions.expr(f"struct({members})").alias(SOURCE_COLUMN)] if members else []


def _sent(own: MappedColumn) -> Column:
    """A message column on its way to a worker; see MappedColumn for boxes."""
    column = functions.col(own.column)
    if not own.boxed:
        return column
    return functions.when(column.isNotNull(), functions.array(column)).alias(own.arrow)


def _message_columns(records: Records, file: JobFile) -> list[MappedColumn]:
    """A source whose columns already are those of a message; other columns are not read."""
    present = [name for name in SENT_SCHEMA.names if name in records.columns]
    if not present:
        raise file.error(
            ("message",),
            "missing, and the source has none of the message columns",
            hint="columns of the source: " + ", ".join(records.columns[:20]),
        )
    columns = []
    for name in present:
        found = records.frame.schema[name].dataType
        if isinstance(found, types.NullType):
            continue
        if shape(found) != shape_of_arrow(SENT_SCHEMA.field(name).type):
            raise file.error(
                ("source",),
                f"column {name!r} is {found.simpleString()}, which is not the type of that message column",
                hint=f"give an expression for it under `message`: {name}: …",
            )
        columns.append(MappedColumn(name, name, boxed=isinstance(found, types.StructType)))
    return columns


class _Plan:
    """Collects the expressions of a mapping, each checked as it comes."""

    def __init__(self, records: Records, file: JobFile) -> None:
        self.records = records
        self.file = file
        self.columns: list[MappedColumn] = []
        self._selected: list[Column] = []
        self._uses: set[str] = set()
        self._clocked = _names_clock(records, file)
        self._frame = records.frame
        if self._clocked:
            self._frame = records.frame.withColumn(BATCH_TIME, functions.lit(datetime.fromtimestamp(0, UTC)))

    def add(self, key: tuple[str, ...], expression: str) -> None:
        path = ("message", *key)
        arrow = f"m{len(self.columns)}"
        try:
            parsed = functions.expr(expression)
            chosen = self._frame.select(parsed.alias(arrow))
            kind = chosen.schema[arrow].dataType
            reason = variation(self._frame, expression)
        except (AnalysisException, ParseException) as error:
            raise self.file.error(
                path,
                f"bad expression {_shown(expression)}: {spark_reason(error)}",
                hint="columns of the source: " + ", ".join(self.records.columns[:20]),
            ) from None
        if reason is not None:
            raise self.file.error(path, f"{_shown(expression)}: {reason}", hint=HINT)
        column, name = key[0], key[1] if len(key) > 1 else ""
        try:
            cast, member = _accepted(column, name, kind)
        except InvalidInput as error:
            raise self.file.error(path, f"{_shown(expression)} {error}", hint=error.hint) from None
        if cast is not None:
            parsed = cast(parsed)
        guarded = not _CANNOT_FAIL.fullmatch(expression.strip())
        self._selected.append((_attempted(parsed) if guarded else parsed).alias(arrow))
        uses, plain_cast = _read_by(chosen, self.records)
        self._uses.update(name for name, _ in uses)
        self.columns.append(
            MappedColumn(arrow, column, name, guarded, _shown(expression), member, uses=uses, cast=plain_cast)
        )

    def add_default(self, key: tuple[str, ...], column: Column) -> None:
        """What the source itself puts in a place; it cannot fail."""
        arrow = f"m{len(self.columns)}"
        kind = self._frame.select(column.alias(arrow)).schema[arrow].dataType
        name = key[1] if len(key) > 1 else ""
        cast, member = _accepted(key[0], name, kind)
        self._selected.append((column if cast is None else cast(column)).alias(arrow))
        self.columns.append(MappedColumn(arrow, key[0], name, member=member))

    def projection(self, own: Sequence[MappedColumn]) -> Projection:
        """One projection, then the raw form of just those records that failed in it."""
        records = self.records
        self._uses.update(column.column for column in own)
        failed = [f"{column.arrow} IS NULL" for column in self.columns if column.guarded]
        inner = [*map(_sent, own), *self._selected, *_place(records)]
        raw = None
        if records.may_be_corrupt:
            inner.append(functions.col(CORRUPT).alias(CORRUPT_COLUMN))
            raw = functions.col(CORRUPT_COLUMN)
            inner.append(self._marks().alias(MARKS_COLUMN))
        if not failed:
            return Projection(tuple(inner), raw, clocked=self._clocked)
        record = ", ".join(map(_quoted, records.columns))
        inner.append(functions.expr(f"struct({record})").alias("__record"))
        as_json = _attempted(functions.expr("to_json(__record)"))
        chosen = functions.when(functions.expr(" OR ".join(failed)), as_json.getField("v"))
        raw = chosen if raw is None else functions.coalesce(raw, chosen)
        return Projection(tuple(inner), raw, ("__record",), self._clocked)

    def layout(self) -> Layout | None:
        """How records are read again that Spark could not parse; None where it parses none."""
        files = self.records.files
        if files is None or not self.records.may_be_corrupt:
            return None
        fields = [field for field in files.schema.fields if field.name in self.records.columns]
        return Layout(
            "csv" if files.name == "csv" else "json",
            tuple((field.name, field.dataType.simpleString().upper()) for field in fields),
            tuple(place for place, field in enumerate(fields) if field.name in self._read),
            **files.quoting,
        )

    @property
    def _read(self) -> set[str]:
        """The columns that the job reads; more would refuse records for what nobody asks for."""
        return set(self.records.columns) if any(column.guarded for column in self.columns) else self._uses

    def _marks(self) -> Column:
        """See Layout.read; null for what was parsed."""
        read = [functions.col(_quoted(name)) for name in self.records.columns if name in self._read]
        marks = [functions.when(column.isNull(), "1").otherwise("0") for column in read]
        return functions.when(functions.col(CORRUPT).isNotNull(), functions.concat(functions.lit(""), *marks))


def _read_by(chosen: DataFrame, records: Records) -> tuple[tuple[tuple[str, bool], ...], str]:
    """The columns of the source that an expression reads, and the type in SQL if all that it does is cast one.

    See MappedColumn.
    """
    plan: Any = chosen._jdf.queryExecution().analyzed()
    found, names = plan.references().toSeq(), set()
    for place in range(found.size()):
        names.add(str(found.apply(place).name()))
    binary = {field.name for field in records.frame.schema.fields if isinstance(field.dataType, types.BinaryType)}
    uses = tuple((name, name in binary) for name in records.columns if name in names)
    top = plan.expressions().apply(0).child()
    casts = str(top.getClass().getSimpleName()) == "Cast" and len(uses) == 1 and not uses[0][1]
    plain = casts and str(top.child().getClass().getSimpleName()) == "AttributeReference"
    return uses, str(top.dataType().sql()) if plain else ""


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _names_clock(records: Records, file: JobFile) -> bool:
    """Whether an expression names BATCH_TIME and the source has no column of that name."""
    if BATCH_TIME in map(str.lower, records.columns):
        return False
    contents = file.job.message.values()
    texts = [text for content in contents for text in (content.values() if isinstance(content, dict) else [content])]
    return any(_CLOCK_NAME.search(text) for text in texts)


def _shown(expression: str) -> str:
    text = " ".join(expression.split())
    return f"`{text if len(text) <= 120 else text[:117] + '…'}`"


def _attempted(column: Column) -> Column:
    """`struct(column AS v)`, or null when the column's expression fails."""
    jvm: Any = SparkSession.active()._jvm
    convert = jvm.org.apache.spark.sql.classic.ExpressionUtils
    inner = convert.expression(functions.struct(column.alias("v"))._jc)
    return Column(convert.column(jvm.org.apache.spark.sql.catalyst.expressions.TryEval(inner)))


# -- types --------------------------------------------------------------------------------------------

Cast = Callable[[Any], Any] | None


def _accepted(column: str, name: str, kind: DataType) -> tuple[Cast, str]:
    """How an expression of that type fills a place: a cast in Spark, and the union member it folds to.

    Raises InvalidInput for a type that does not fit.
    """
    target = SENT_SCHEMA.field(column).type
    if name and pa.types.is_struct(target):
        target = target.field(name).type
    elif name:
        target = target.item_type
    if shape(kind) == shape_of_arrow(target):
        return None, ""
    if column in MAP_SECTIONS and not name and shape(kind) == _HEADERS:
        return None, HEADERS
    if target == _VALUE:
        return _folded(kind)
    return _cast_to(target, kind), ""


#: The headers of a record of Kafka; they fold to a map.
_HEADERS: Final = "array<struct<key:string,value:binary>>"
_VALUE: Final = SENT_SCHEMA.field("amqp_value").type


def _folded(kind: DataType) -> tuple[Cast, str]:
    """The member of the VALUE union for a Spark type (AMQP 1.0 part 3, §3.2)."""
    name = kind.typeName()
    if name.startswith(("array", "map", "struct")):
        return _as_json(kind), "nested"
    if name not in _FOLDING:
        raise InvalidInput(
            f"is of type {kind.simpleString()}, which no message property can hold",
            hint="a date has no counterpart in AMQP: CAST it to TIMESTAMP, or to STRING",
        )
    member, target = _FOLDING[name]
    return (None if target is None else lambda column: column.cast(target)), member


#: Spark type name -> union member and the Spark type to send.
_FOLDING: Final[Mapping[str, tuple[str, str | None]]] = {
    "boolean": ("bool", None),
    "byte": ("int", "bigint"),
    "short": ("int", "bigint"),
    "integer": ("int", "bigint"),
    "long": ("int", None),
    "float": ("double", "double"),
    "double": ("double", None),
    "decimal": ("double", "double"),
    "string": ("string", None),
    "varchar": ("string", "string"),
    "char": ("string", "string"),
    "binary": ("binary", None),
    "timestamp": ("timestamp", None),
    "timestamp_ntz": ("timestamp", "timestamp"),
}
#: What to_json writes as the JSON form of values has it.
_PLAIN_IN_JSON: Final = ("boolean", "byte", "short", "integer", "long", "float", "double", "string")


def _as_json(kind: DataType) -> Cast:
    plain = _jsonable(kind)
    return lambda column: functions.to_json(column.cast(plain), {"ignoreNullFields": "false"})


def _jsonable(kind: DataType) -> DataType:
    """The type with decimals as doubles; raises InvalidInput where JSON would lose a type."""
    match kind:
        case types.ArrayType():
            return types.ArrayType(_jsonable(kind.elementType), kind.containsNull)
        case types.MapType() if isinstance(kind.keyType, types.StringType):
            return types.MapType(kind.keyType, _jsonable(kind.valueType), kind.valueContainsNull)
        case types.StructType():
            return types.StructType(
                [types.StructField(field.name, _jsonable(field.dataType), field.nullable) for field in kind.fields]
            )
        case types.DecimalType():
            return types.DoubleType()
    if kind.typeName() not in _PLAIN_IN_JSON:
        raise InvalidInput(
            f"holds {kind.simpleString()} inside a list or map, where only booleans, numbers and strings are folded",
            hint="CAST the members to STRING or BIGINT",
        )
    return kind


def _cast_to(target: pa.DataType, kind: DataType) -> Cast:
    """A widening that loses nothing, for the columns with a type of their own."""
    wanted = shape_of_arrow(target)
    if kind.typeName() in _WIDENED.get(wanted, ()):
        return lambda column: column.cast(wanted)
    raise InvalidInput(
        f"is of type {kind.simpleString()}, expected {wanted}",
        hint=f"CAST(… AS {wanted.upper()})" if "<" not in wanted else f"the type is {wanted}",
    )


#: Spark type of a place -> type names that fit it as they are, once cast.
_WIDENED: Final[Mapping[str, tuple[str, ...]]] = {
    "string": ("varchar", "char"),
    "binary": ("string", "varchar", "char"),
    "bigint": ("byte", "short", "integer"),
    "int": ("byte", "short"),
    "timestamp": ("timestamp_ntz",),
}


def shape(kind: DataType) -> str:
    """A Spark type without nullability."""
    return kind.simpleString()


def shape_of_arrow(kind: pa.DataType) -> str:
    """The same, of the type of Spark that a type of Arrow becomes."""
    if pa.types.is_map(kind):
        return f"map<{shape_of_arrow(kind.key_type)},{shape_of_arrow(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{shape_of_arrow(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"{member.name}:{shape_of_arrow(member.type)}" for member in kind) + ">"
    return _SPARK_NAMES[str(kind)]


_SPARK_NAMES: Final = {
    "string": "string",
    "bool": "boolean",
    "binary": "binary",
    "int32": "int",
    "int64": "bigint",
    "double": "double",
    "timestamp[us, tz=UTC]": "timestamp",
}
