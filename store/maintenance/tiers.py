"""Which files are merged: those of one order of size, once enough of them have gathered.

A file's order is the logarithm of its weight, to the base of the fan-in. Merging a fan-in of files of one
order gives a file of a higher one, so a row is rewritten once per order at most, and fewer files than a
fan-in stay in each: both grow with the logarithm of the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from bindery.store.actions import AddFile
from bindery.store.maintenance.policy import Policy

#: Bytes that weigh as much as a row: small files are nearly all footer, large rows are few.
_BYTES_PER_WEIGHT: Final = 8_192
#: Files of one merge at most; whatever is left comes with the next.
MOST_FILES: Final = 1_024
_ANY_ROWS: Final = 1 << 62


def order(file: AddFile, fan_in: int) -> int:
    """The order of size of a file: 0 below a fan-in of rows, 1 below its square …"""
    weight = max(file.rows or 1, file.size // _BYTES_PER_WEIGHT, 1)
    found = 0
    while weight >= fan_in:
        weight //= fan_in
        found += 1
    return found


def merges(
    files: Iterable[AddFile], policy: Policy, most_rows: int | None = None, *, apart_ms: int = 0
) -> list[list[AddFile]]:
    """Groups of files to merge now, each in the order of its rows; none when too few have gathered.

    A merged file has about the target size or `most_rows` at most; one of half of that is done with. With
    `apart_ms` no merged file has rows that were routed in different spans of so many milliseconds, counted from 1970 in
    UTC.
    """
    enough = _ANY_ROWS if most_rows is None else most_rows
    found: list[list[AddFile]] = []
    for _, held in sorted(_orders(files, policy, enough, apart_ms).items()):
        if len(held) >= policy.fan_in:
            found += _portions(sorted(held, key=row_order), policy.target_bytes, enough)
    return found


def gathered(files: Iterable[AddFile], policy: Policy, most_rows: int | None = None, *, apart_ms: int = 0) -> int:
    """How many files the order has that has most of them: at a fan-in there is something to merge."""
    orders = _orders(files, policy, _ANY_ROWS if most_rows is None else most_rows, apart_ms)
    return max(map(len, orders.values()), default=0)


def _orders(
    files: Iterable[AddFile], policy: Policy, most_rows: int, apart_ms: int
) -> dict[tuple[int, int], list[AddFile]]:
    """The files that are not done with, by their order and, where it matters, by their span."""
    found: dict[tuple[int, int], list[AddFile]] = {}
    for file in files:
        if file.size < policy.target_bytes // 2 and (file.rows or 0) < most_rows // 2:
            span = int(row_order(file)[0] // apart_ms) if apart_ms else 0
            found.setdefault((order(file, policy.fan_in), span), []).append(file)
    return found


def _portions(files: list[AddFile], target: int, most_rows: int) -> list[list[AddFile]]:
    """Files cut into groups of the target size; a single file is no group."""
    found: list[list[AddFile]] = []
    group: list[AddFile] = []
    size = rows = 0
    for file in files:
        number = file.rows or 0
        if group and (size + file.size > target or rows + number > most_rows or len(group) == MOST_FILES):
            found.append(group)
            group, size, rows = [], 0, 0
        group.append(file)
        size += file.size
        rows += number
    found.append(group)
    return [group for group in found if len(group) > 1]


def row_order(file: AddFile) -> tuple[float, int, int, str]:
    """Where the rows of a file stand among those of others: time, batch, number; then its path."""
    low = _least(file)
    routing = low.get("routing") or {}
    moment = low.get("routed_at") or low.get("committed_at")
    try:
        when = datetime.fromisoformat(moment).timestamp() * 1000 if moment else float(file.modified_ms)
        return when, int(routing.get("batch_id") or 0), int(routing.get("seq") or 0), file.path
    except (ValueError, TypeError):
        return float(file.modified_ms), 0, 0, file.path


def newest_row(file: AddFile) -> float | None:
    """When the newest row of a file was routed at the latest (ms); None for a file that does not say so."""
    stated = _stated(file, "maxValues").get("routed_at")
    try:
        return None if stated is None else datetime.fromisoformat(stated).timestamp() * 1000 + 1
    except (ValueError, TypeError):
        return None


def _least(file: AddFile) -> dict[str, Any]:
    return _stated(file, "minValues")


def _stated(file: AddFile, bound: str) -> dict[str, Any]:
    try:
        found = json.loads(file.stats or "{}").get(bound)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
