"""Which headers the files of a table hold, and of what types: each file is looked at once.

Neither the log nor the footers of Parquet files say which keys a map has. A file never changes, so what was found in it
is kept in a small file of the user's own, `BINDERY_CACHE` (`~/.cache/bindery`), one for each table by its id: nothing
is written into the data directory, and opening a table costs what is new in it. Without that file, or with one that is
damaged or of files that are gone, the table's files are looked at again.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

from bindery.analytics.flat import Kinds, kinds_in
from bindery.analytics.point import TableAt
from bindery.router.columns import Ref

_FORMAT: Final = 1
_COLUMNS: Final = ("application_properties", "properties")
Seen = dict[Ref, Kinds]


def seen_in(table: TableAt, schema: pa.Schema) -> Seen:
    """Everything that the files of a table hold. Raises UnsupportedTable for a file that is missing or damaged."""
    place = cache_folder() / f"{table.table_id}.json"
    known = _read(place)
    names = [file.path for file in table.files if file.path not in table.tail]
    missing = [name for name in names if name not in known]
    for name in missing:
        known[name] = _look(table, name, schema)
    if missing:
        _write(place, known)
    found: Seen = {}
    # which rows of a journal's file wait for a queue changes
    waiting = [_look(table, name, schema) for name in table.tail]
    for seen in (*(known[name] for name in names), *waiting):
        for ref, kinds in seen.items():
            found[ref] = found.get(ref, 0) | kinds
    return found


def cache_folder() -> Path:
    """Where what was seen is kept."""
    return Path(os.environ.get("BINDERY_CACHE") or "~/.cache/bindery").expanduser()


def _look(table: TableAt, name: str, schema: pa.Schema) -> Seen:
    found: Seen = {}
    for batch in table.batches(name, schema, columns=_COLUMNS):
        for ref, kinds in kinds_in(batch).items():
            found[ref] = found.get(ref, 0) | kinds
    return found


def _read(place: Path) -> dict[str, Seen]:
    """What is known by file; many files hold the same, which is written once."""
    try:
        content = json.loads(place.read_text("utf-8"))
        if content["format"] != _FORMAT:
            return {}
        held = [{Ref(section, name): int(kinds) for section, name, kinds in one} for one in content["held"]]
        return {str(name): held[number] for name, number in content["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return {}


def _write(place: Path, known: Mapping[str, Seen]) -> None:
    """Replace what is kept; a folder that cannot be written to costs another look next time."""
    numbers: dict[frozenset[tuple[Ref, Kinds]], int] = {}
    files = {name: numbers.setdefault(frozenset(seen.items()), len(numbers)) for name, seen in known.items()}
    held = [[[ref.section, ref.name, kinds] for ref, kinds in sorted(one)] for one in numbers]
    draft = place.with_name(f".{uuid.uuid4().hex}.tmp")
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            draft.write_text(json.dumps({"format": _FORMAT, "held": held, "files": files}), "utf-8")
            draft.replace(place)
        finally:
            draft.unlink(missing_ok=True)
