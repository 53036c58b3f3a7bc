"""Sources by format: each reads its part of the job file and gives `Records`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jobs.sources.delta import read_delta
from jobs.sources.files import read_csv, read_json, read_parquet
from jobs.sources.records import CORRUPT, Records

Reader = Callable[[Any, Any, Any], Records]

SOURCES: Final[Mapping[str, Reader]] = {
    "json": read_json,
    "csv": read_csv,
    "parquet": read_parquet,
    "delta": read_delta,
}

__all__ = ["CORRUPT", "SOURCES", "Records"]
