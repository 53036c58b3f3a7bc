"""Reading conformance cases from files and folders."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bindery.router.capabilities import PLACES
from bindery.router.compat import MODES
from bindery.router.errors import InvalidInput

#: The family under which the cases of a dialect are counted; any other dialect is a family of its own.
#: The second name of JMS selectors over AMQP (Apache AMQP filters) belongs to the JMS family.
DIALECT_FAMILIES: Final[Mapping[str, str]] = {"apache-selector": "jms"}
#: Kinds of cases that publish messages.
PUBLISHING: Final = ("route", "bridge")
#: What may become of a message that reaches no queue (docs/routing.md).
DISPOSITIONS: Final = ("returned", "rejected", "discarded")


@dataclass(frozen=True, slots=True)
class Case:
    """One case: its id, kind and family, the whole JSON object, and the file and line it stands on."""

    id: str
    kind: str
    family: str
    content: Mapping[str, Any]
    where: str

    @property
    def expect(self) -> Any:
        """The expected result, in the form in which evaluators report theirs.

        true, false or "error" for filters, "ok" or "error" for declarations, names for capabilities; for a
        case with messages, `became` of each.
        """
        if self.kind in PUBLISHING:
            return [
                became(item, item["expect"], item.get("disposition"), item.get("copies"))
                for item in self.content["messages"]
            ]
        return self.content["expect"]


def became(
    item: Mapping[str, Any], queues: list[str], disposition: str | None, copies: Mapping[str, Any] | None = None
) -> Any:
    """What became of a message of a case: its sorted queues, with the disposition and copies where it states them.

    `copies` are by queue, each what transformations may change of a message (docs/transform.md); order plays no part.
    """
    found: dict[str, Any] = {"queues": queues}
    if "disposition" in item:
        found["disposition"] = disposition
    if "copies" in item:
        found["copies"] = {queue: sorted(each, key=_in_order) for queue, each in (copies or {}).items()}
    return found if len(found) > 1 else queues


def _in_order(copy: Any) -> str:
    return json.dumps(copy, sort_keys=True)


def read_cases(paths: Iterable[Path]) -> list[Case]:
    """The cases of files and of all `*.jsonl` files below folders, in a stable order, each file once.

    Raises InvalidInput, naming file and line, for anything that cannot be read as a case.
    """
    files: dict[Path, None] = {}
    for path in paths:
        files |= dict.fromkeys(_files(path))
    return [case for file in files for case in _read_file(file)]


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(path.rglob("*.jsonl"))
        if not found:
            raise InvalidInput("no *.jsonl file below this folder", where=str(path))
        return found
    if not path.is_file():
        raise InvalidInput("no file or folder of this name", where=str(path))
    return [path]


def _read_file(file: Path) -> Iterator[Case]:
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(file)) from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _read_line(line, f"{file}:{number}")


def _read_line(line: bytes, where: str) -> Case:
    try:
        content = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"not a line of JSON: {error}", where=where) from None
    if not isinstance(content, dict):
        raise InvalidInput("a case is a JSON object", where=where)
    for key in ("id", "kind"):
        _require(content, key, _is_text, where)
    kind = content["kind"]
    for key, accepts in _REQUIRED.get(kind, {}).items():
        _require(content, key, accepts, where)
    if "compat" in content:
        _require(content, "compat", lambda value: value in MODES, where)
    if kind == "capabilities" and content["place"] == "exchange":
        _require(content, "exchange", _is_text, where)
    return Case(content["id"], kind, _family(content), content, where)


def _family(content: Mapping[str, Any]) -> str:
    if content["kind"] != "filter":
        return str(content["kind"])
    return DIALECT_FAMILIES.get(content["dialect"], content["dialect"])


def _require(content: Mapping[str, Any], key: str, accepts: Callable[[Any], bool], where: str) -> None:
    if key not in content:
        raise InvalidInput(f"the case has no {key!r}", where=where)
    if not accepts(content[key]):
        raise InvalidInput(f"{key!r} cannot be {json.dumps(content[key])[:60]}", where=where)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_verdict(value: Any) -> bool:
    return isinstance(value, bool) or value == "error"


def _is_acceptance(value: Any) -> bool:
    return value in ("ok", "error")


def _is_topology(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(items, list) and all(isinstance(item, dict) for item in items) for items in value.values()
    )


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_published(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(message, dict)
        and _is_names(message.get("expect"))
        and message.get("disposition") in (None, *DISPOSITIONS)
        for message in value
    )


def _is_bridges(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(bridge, dict) and _is_text(bridge.get("queue")) and _is_text(bridge.get("exchange"))
        for bridge in value
    )


#: What each known kind must carry; a kind that is not listed is reported as not supported.
_REQUIRED: Final[Mapping[str, Mapping[str, Callable[[Any], bool]]]] = {
    "filter": {"dialect": _is_text, "filter": _is_text, "message": _is_object, "expect": _is_verdict},
    "filter-set": {"filters": _is_object, "message": _is_object, "expect": _is_verdict},
    "route": {"topology": _is_topology, "messages": _is_published},
    "bridge": {"topology": _is_topology, "bridges": _is_bridges, "messages": _is_published},
    "capabilities": {"place": lambda value: value in PLACES, "descriptors": _is_names, "expect": _is_names},
    "declare": {"topology": _is_topology, "expect": _is_acceptance},
}
