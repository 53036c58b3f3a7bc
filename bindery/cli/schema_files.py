"""Schemas of bodies that stand in files, as `x-payload-schema` states them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bindery.router.errors import InvalidInput
from bindery.router.filters.schemas import MAX_SCHEMA


def schema_of_file(format: str, path: Path) -> Any:
    """The schema of a file, as JSON data; raises InvalidInput, without a place, when it is unreadable."""
    try:
        with path.open("rb") as file:
            content = file.read(4 * MAX_SCHEMA + 1)
        return json.loads(content.decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"the file is no schema of {format}: {said}") from None
