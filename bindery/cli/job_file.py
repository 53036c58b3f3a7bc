"""Job files as commands take them: the document as it is submitted, and errors at the line of their key."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bindery.cli.documents import STDIN
from bindery.jobs.control.config import read_document
from bindery.router.documents import refusal
from bindery.router.errors import InvalidInput

#: Characters of a job file; a service takes as many bytes.
_LIMIT: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class JobDocument:
    """A job document as JSON data, and the line and column of each of its keys."""

    name: str
    content: dict[str, Any]
    places: Mapping[tuple[str, ...], tuple[int, int]]

    def refuse(self, errors: Sequence[InvalidInput]) -> None:
        """Raise DefinitionsRefused with every error at its place; nothing when there is none."""
        if errors:
            raise refusal([self._problem(error) for error in errors])

    @contextmanager
    def placed(self) -> Iterator[None]:
        """An error that names a key, as a service's does, gets the place of that key."""
        try:
            yield
        except InvalidInput as error:
            if self._place(error.message) is None:
                raise
            raise refusal([self._problem(error)]) from None

    def _problem(self, error: InvalidInput) -> dict[str, Any]:
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


def read_job_file(path: Path, name: str | None = None) -> JobDocument:
    """A job file, or standard input; `name` is its stream. Raises InvalidInput."""
    shown = "<stdin>" if path == STDIN else str(path)
    try:
        raw = sys.stdin.buffer.read(_LIMIT + 1) if path == STDIN else path.read_bytes()
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput("a job file is UTF-8", where=shown) from None
    except OSError as error:
        raise InvalidInput(f"cannot read it: {error.strerror}", where=shown) from None
    if len(raw) > _LIMIT:
        raise InvalidInput(f"more than {_LIMIT:,} bytes", where=shown)
    content, places = read_document(text, shown)
    if name is not None:
        content["stream"] = name
    try:
        content = json.loads(json.dumps(content, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"a value that JSON does not have: {error}", where=shown, hint="quote dates") from None
    return JobDocument(shown, content, places)
