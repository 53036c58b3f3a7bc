"""Documents that change the topology, as requests state them: read, and refused with every error and its place."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from pydantic import Field

from bindery.api.auth import Identity
from bindery.api.errors import Refusal, bad_request
from bindery.api.scope import vhosts_named
from bindery.router.documents import read_source
from bindery.router.error_text import counted
from bindery.router.errors import DefinitionsRefused
from bindery.router.proposal import Change, read_change

#: What errors call the document.
_NAME: Final = "document"
ChangeDocument = Annotated[
    dict[str, Any] | str,
    Field(
        description="a change as `bindery apply` takes it, as an object or as text (JSON or YAML): definitions, or "
        "delete, add, change, definitions and replace"
    ),
]


def read_document(user: Identity, vhost: str, stated: bytes | str | dict[str, Any], *, prune: bool = False) -> Change:
    """The change that a request states, in vhosts that the caller sees; `vhost` is that of objects that state none.

    Raises Refusal: 400 for one that cannot be read, 404 for a vhost that the caller may not see.
    """
    text = stated if isinstance(stated, bytes | str) else json.dumps(stated, ensure_ascii=False)
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    try:
        source = read_source(_NAME, raw)
        for named in vhosts_named(source.value):
            user.require_sight(named)
        return read_change([source], vhost, prune=prune)
    except DefinitionsRefused as error:
        raise refused(error, placed=not isinstance(stated, dict)) from None


def refused(error: DefinitionsRefused, *, placed: bool = True) -> Refusal:
    """400 for a change that cannot be made: how many errors it has, and every one; of a text with line and column."""
    # what a misspelt key leaves missing is said after it
    misspelt = (one for one in error.problems if str(one.get("message", "")).startswith("unknown key"))
    first = next(misspelt, error.problems[0])
    where = f"line {first['line']}, column {first['column']}: " if placed and "line" in first else ""
    more = "" if len(error.problems) == 1 else f" ({counted(len(error.problems) - 1, 'more error')})"
    hint = f" ({first['hint']})" if first.get("hint") else ""
    said = f"{where}{first['message']}{hint}" if "message" in first else error.message
    return bad_request(f"{said}{more}; nothing was changed", report=error.report)
