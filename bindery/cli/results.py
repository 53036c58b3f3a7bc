"""Results of queries as a table, CSV, JSON or Parquet; on standard output or whole in a file."""

from __future__ import annotations

import base64
import csv
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from bindery.cli.render import console
from bindery.router.error_text import counted, visible
from bindery.router.errors import InvalidInput, StorageFailed

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS: Final = ("table", "csv", "json", "parquet")
#: Rows that a terminal shows of a result.
SHOWN: Final = 1_000


class Results:
    """Where results go, and how. Raises InvalidInput for a format that there is not, or not there."""

    def __init__(self, form: str | None, output: Path | None) -> None:
        is_terminal = output is None and console().is_terminal
        suffix = "" if output is None else output.suffix.removeprefix(".").lower()
        self._form = form or (suffix if suffix in FORMATS else "table" if is_terminal else "csv")
        if self._form not in FORMATS:
            raise InvalidInput(f"there is no format {self._form!r}", where="--format", hint=", ".join(FORMATS))
        if self._form == "parquet" and is_terminal:
            raise InvalidInput("Parquet is nothing for a terminal", where="--format", hint="add --output FILE")
        self._limit = SHOWN if is_terminal else None
        self._output = output
        self._number = 0

    def take(self, rows: pa.RecordBatchReader) -> None:
        """Show or write one result. A file takes one; Parquet and JSON on standard output do so, too."""
        self._number += 1
        alone = self._output is not None or self._form in ("json", "parquet")
        if self._number > 1 and alone:
            raise InvalidInput("there is room for one result, and this is another", where="sql", hint="one query alone")
        if self._output is not None:
            with _whole(self._output) as draft:
                self._write(rows, draft)
            return
        if self._number > 1:
            typer.echo()
        if self._form == "table":
            self._table(rows)
        else:
            self._write(rows, None)

    def _write(self, rows: pa.RecordBatchReader, draft: Path | None) -> None:
        if self._form == "parquet":
            _parquet(rows, draft)
            return
        write: Callable[[pa.RecordBatchReader, IO[str]], None] = {"csv": _csv, "json": _json}.get(self._form, _text)
        if draft is None:
            write(rows, sys.stdout)
        else:
            with draft.open("w", encoding="utf-8", newline="") as file:
                write(rows, file)

    def _table(self, rows: pa.RecordBatchReader) -> None:
        console().print(_table_of(rows, self._limit))


@contextmanager
def _whole(output: Path) -> Iterator[Path]:
    """Another name for a file until it is whole."""
    draft = output.with_name(f".{output.name}.part")
    try:
        try:
            yield draft
            draft.replace(output)
        finally:
            draft.unlink(missing_ok=True)
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise InvalidInput(f"cannot write it: {error.strerror}", where=str(output)) from None
    except OSError as error:
        raise StorageFailed(f"cannot write {output}: {error.strerror or error}", where=str(output)) from None


def _parquet(rows: pa.RecordBatchReader, draft: Path | None) -> None:
    import pyarrow as pa  # noqa: PLC0415  # not for `bindery --help`
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetWriter(sys.stdout.buffer if draft is None else draft, rows.schema, compression="zstd") as file:
            for batch in rows:
                file.write_batch(batch)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise InvalidInput(f"Parquet cannot hold the result: {error}", where="sql", hint="cast the column") from None


def _csv(rows: pa.RecordBatchReader, file: IO[str]) -> None:
    out = csv.writer(file, lineterminator="\n")
    out.writerow(rows.schema.names)
    for row in _rows(rows):
        out.writerow([shown(value) for value in row])


def _json(rows: pa.RecordBatchReader, file: IO[str]) -> None:
    names = rows.schema.names
    before = "["
    for row in _rows(rows):
        line = dict(zip(names, map(as_json, row), strict=True))
        file.write(f"{before}\n{json.dumps(line, ensure_ascii=False)}")
        before = ","
    file.write("[]\n" if before == "[" else "\n]\n")


def _text(rows: pa.RecordBatchReader, file: IO[str]) -> None:
    from rich.console import Console  # noqa: PLC0415

    Console(file=file, highlight=False, width=4096).print(_table_of(rows, None))


def _table_of(rows: pa.RecordBatchReader, limit: int | None) -> Table:
    import pyarrow as pa  # noqa: PLC0415

    table = Table(box=None, header_style="bold", pad_edge=False)
    for field in rows.schema:
        is_number = (
            pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        )
        table.add_column(Text(visible(field.name)), justify="right" if is_number else "left")
    found = _rows(rows)
    for row in itertools.islice(found, limit):
        table.add_row(*(Text(visible(shown(value))) for value in row))
    if limit is not None and next(found, None) is not None:
        table.caption = f"the first {counted(limit, 'row')}; --output FILE or a pipe takes all"
    return table


def _rows(rows: pa.RecordBatchReader) -> Iterator[tuple[Any, ...]]:
    for batch in rows:
        columns = [_values(column) for column in batch.columns]
        yield from zip(*columns, strict=True)


def _values(column: pa.Array) -> list[Any]:
    """The values of a column; times that Python's cannot hold as ISO text of Arrow's."""
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        import pyarrow as pa  # noqa: PLC0415

        return list(column.cast(pa.string()).to_pylist())


def shown(value: Any) -> str:
    """A value as text; null is empty."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | float() | Decimal():
            return str(value)
        case list() | dict():
            return json.dumps(as_json(value), ensure_ascii=False)
    found = as_json(value)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def as_json(value: Any) -> Any:
    """A value of a result as JSON: bytes in Base64, times in ISO 8601, what is no number as null."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case dict():
            return {str(name): as_json(one) for name, one in value.items()}
        case list():
            return [as_json(one) for one in value]
        case tuple():
            return [as_json(one) for one in value]
        case None | bool() | int() | str():
            return value
    return str(value)
