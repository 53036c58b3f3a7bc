"""Changes of the topology that a request states: read, and held to what the caller may see and do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from bindery.api.auth import Identity
from bindery.api.errors import Refusal, bad_request
from bindery.api.scope import check_declare_exchange
from bindery.router.documents import Source, read_source
from bindery.router.errors import DefinitionsRefused
from bindery.router.model import Binding, Divert, Exchange, Queue, Topology
from bindery.router.proposal import DEFINITIONS_KEYS, Change, read_change
from bindery.store.history import ObjectChange

#: Characters of a change; larger documents are imported, or applied at the command line.
MAX_CHANGE: Final = 1_000_000
#: What errors call the document.
_NAME: Final = "change"
ChangeDocument = Annotated[
    dict[str, Any] | str,
    Field(
        description="a change as `bindery apply` takes it, as an object or as text (JSON or YAML): definitions, or "
        "delete, add, change, definitions and replace"
    ),
]


def change_of(stated: dict[str, Any] | str, user: Identity, vhost: str) -> Change:
    """The change that a request states, of vhosts that the caller sees; `vhost` is that of objects that state none.

    Raises Refusal: 400 with every problem and its place, 404 for a vhost that the caller may not see.
    """
    text = stated if isinstance(stated, str) else json.dumps(stated, ensure_ascii=False)
    if len(text) > MAX_CHANGE:
        raise bad_request(f"the change has more than {MAX_CHANGE:,} characters: import it, or use bindery apply")
    try:
        source = read_source(_NAME, text.encode("utf-8", "surrogatepass"))
    except DefinitionsRefused as error:
        raise refusal_of(error, placed=True) from None
    for named in _vhosts(source):
        user.require_sight(named)
    change = read_change([source], vhost)
    if change.problems:
        raise _refusal(change.problems, placed=isinstance(stated, str))
    return change


def refusal_of(error: DefinitionsRefused, *, placed: bool) -> Refusal:
    """400 for a change that cannot be made; `placed` with line and column, of a text."""
    return _refusal(error.problems, placed=placed)


def _refusal(problems: list[dict[str, Any]], *, placed: bool) -> Refusal:
    first = problems[0]
    where = f"line {first['line']}, column {first['column']}" if placed and "line" in first else first.get("path", "")
    hint = f" ({first['hint']})" if first.get("hint") else ""
    more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
    said = f"{where}: {first['message']}" if where else first["message"]
    listed = [{key: value for key, value in one.items() if key != "file"} for one in problems]
    return bad_request(f"{said}{hint}{more}", problems=listed)


def _vhosts(source: Source) -> Iterator[str]:
    """The vhosts that a change names: what is refused in them would tell what they hold."""
    change = source.value
    for stated in (change, *(change.get(key) for key in ("delete", *DEFINITIONS_KEYS))):
        for section, listed in stated.items() if isinstance(stated, Mapping) else ():
            for item in listed if isinstance(listed, list) else ():
                stands_in = item.get("name" if section == "vhosts" else "vhost") if isinstance(item, Mapping) else None
                name = item if section == "vhosts" and isinstance(item, str) else stands_in
                if isinstance(name, str):
                    yield name


def check_rights(user: Identity, change: ObjectChange, present: Topology) -> None:
    """Refuse (401) a caller who may not do this one thing by the routes of its object."""
    vhost = change.key[1]
    for state in (change.before, change.after):
        match state:
            case None:
                pass
            case Exchange():
                check_declare_exchange(user, state)
            case Queue():
                user.check("configure", vhost, state.name)
            case Binding():
                user.check("write", vhost, state.destination)
                user.check("read", vhost, state.source)
                source = present.exchanges.get((vhost, state.source))
                if source is not None and source.type == "topic":
                    user.check_topic("read", vhost, state.source, state.routing_key)
            case Divert():
                user.check("configure", vhost, state.source)
                user.check("read", vhost, state.source)
                user.check("write", vhost, state.destination)
            case _:
                user.require("administrator")
