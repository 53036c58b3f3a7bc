"""A job document as text: the document as it is submitted, and errors at the line and column of their key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import yaml

from bindery.jobs.control.config import read_document
from bindery.router.documents import refusal
from bindery.router.errors import InvalidInput

#: Characters of a job document as text; a service takes as many bytes.
TEXT_LIMIT: Final = 256 * 1024
_LINE: Final = re.compile(r", line (\d+)$")


@dataclass(frozen=True, slots=True)
class JobText:
    """A job document as JSON data, and the line and column of each of its keys."""

    name: str
    content: dict[str, Any]
    places: Mapping[tuple[str, ...], tuple[int, int]]

    def refuse(self, errors: Sequence[InvalidInput]) -> None:
        """Raise DefinitionsRefused with every error at its place; nothing when there is none."""
        if errors:
            raise refusal([self.problem(error) for error in errors])

    @contextmanager
    def placed(self) -> Iterator[None]:
        """An error that names a key, as a service's does, gets the place of that key."""
        try:
            yield
        except InvalidInput as error:
            if self._place(error.message) is None:
                raise
            raise refusal([self.problem(error)]) from None

    def problem(self, error: InvalidInput) -> dict[str, Any]:
        """An error as JSON data, with `file`, `line` and `column`."""
        line, column = self._place(error.message) or (1, 1)
        found: dict[str, Any] = {"code": error.code, "message": error.message, "path": ""}
        if error.hint is not None:
            found["hint"] = error.hint
        return found | {"file": self.name, "line": line, "column": column}

    def _place(self, message: str) -> tuple[int, int] | None:
        """Where the key stands with which a message begins, `source.path: …`, or the nearest that is there."""
        named = {".".join(path): place for path, place in self.places.items() if path}
        key = message.partition(": ")[0]
        while key and key not in named:
            key = key.rpartition(".")[0]
        return named.get(key)


def parse_job_text(text: str, name: str, *, stream: str | None = None) -> JobText:
    """A job document, YAML or JSON; `stream` takes the place of the one in it. Raises InvalidInput."""
    content, places = read_document(text, name)
    if stream is not None:
        content["stream"] = stream
    try:
        content = json.loads(json.dumps(content, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"a value that JSON does not have: {error}", where=name, hint="quote dates") from None
    return JobText(name, content, places)


def refuse_aliases(text: str, name: str) -> None:
    """Raise InvalidInput for an alias of YAML: few bytes may stand for more than a service has room for."""
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                where = name if event.start_mark is None else f"{name}, line {event.start_mark.line + 1}"
                raise InvalidInput("an alias: write out what it stands for", where=where)
    except (yaml.YAMLError, RecursionError, ValueError):
        return  # whoever reads the document says what is wrong with it


def line_of(error: InvalidInput) -> int:
    """The line of a text that is no document; 1 where none is told."""
    found = _LINE.search(error.where or "")
    return 1 if found is None else int(found[1])
