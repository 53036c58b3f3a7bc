"""One document: its value, and errors with the line and column of what they are about."""

from __future__ import annotations

import bisect
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from bindery.router.documents.json_text import places_of_json, read_json
from bindery.router.documents.places import Fault, Places, Unreadable
from bindery.router.documents.yaml_text import read_yaml
from bindery.router.errors import BinderyError, DefinitionsRefused, FilterError

#: Bytes of a document.
MAX_BYTES: Final = 256 * 2**20


class Source:
    """A document that has been read: `name` is said in errors, `value` is JSON data."""

    def __init__(self, name: str, text: str, value: Any, *, is_json: bool, several: bool = False) -> None:
        self.name = name
        self.value = value
        self._text = text
        self._is_json = is_json
        self._several = several

    def problem(self, error: BinderyError, path: str, *nearer: str, key: bool = False) -> dict[str, Any]:
        """The error as data, with `file`, `line` and `column` of what is at the path.

        `nearer` are paths inside it: the first of which a part exists is where the error is; with `key` its key,
        not its value. A filter that stands in the document as it is read, on one line, gives the place inside it.
        """
        places = self._places
        found = next((inner for one in nearer if len(inner := places.nearest(one)) > len(path)), path)
        start, end = places.value(found)
        offset = places.key(found) if key else start
        data = error.as_data() | {"path": path}
        if isinstance(error, FilterError) and error.text:
            offset = self._inside(error, start, end)
            data["filter"] = error.text
        return data | self._place(offset)

    @property
    def is_json(self) -> bool:
        """Whether the text is JSON, which has no comments; YAML otherwise."""
        return self._is_json

    def text_of(self, line: int) -> str:
        """The text of a line, from 1; nothing for one that there is not."""
        if not 1 <= line <= len(self._lines):
            return ""
        return self._text[self._lines[line - 1] :].partition("\n")[0]

    def line(self, path: str) -> int:
        """The line, from 1, on which what is at the path begins."""
        line: int = self._place(self._places.value(path)[0])["line"]
        return line

    def fault(self, fault: Fault) -> dict[str, Any]:
        """What is wrong with the text itself, as data."""
        data: dict[str, Any] = {"code": "invalid_input", "message": fault.message, "path": ""}
        return data | ({} if fault.hint is None else {"hint": fault.hint}) | self._place(fault.offset)

    @cached_property
    def _places(self) -> Places:
        if self._is_json:
            return places_of_json(self._text)[0]
        places = Places()
        read_yaml(self._text, places=places, several=self._several)
        return places

    @cached_property
    def _lines(self) -> list[int]:
        """The offset of each line."""
        starts, found = [0], self._text.find("\n")
        while found >= 0:
            starts.append(found + 1)
            found = self._text.find("\n", found + 1)
        return starts

    def _place(self, offset: int) -> dict[str, Any]:
        line = bisect.bisect_right(self._lines, offset)
        return {"file": self.name, "line": line, "column": offset - self._lines[line - 1] + 1}

    def _inside(self, error: FilterError, start: int, end: int) -> int:
        """Where in the document a filter's error is, or where the value begins that holds the filter."""
        part = self._text[start:end]
        forms = [f'"{error.text}"'] if json.dumps(error.text, ensure_ascii=False)[1:-1] == error.text else []
        if not self._is_json and "\n" not in error.text:
            forms += [error.text] if part == error.text else []
            forms += [] if "'" in error.text else [f"'{error.text}'"]
        for form in forms:
            if part.count(form) == 1:
                return start + part.index(form) + (form != error.text) + error.offset
        return start


def read_source(name: str, raw: bytes, *, several: bool = False) -> Source:
    """A document of UTF-8 text: JSON when it begins with `{` or `[`, YAML otherwise.

    With `several` it may be more than one document of YAML: the value is a list of them then, of one for JSON.
    Raises DefinitionsRefused, with every place, for text that is neither, and for keys that stand twice.
    """
    if len(raw) > MAX_BYTES:
        raise refusal([_unplaced(name, f"the document has more than {MAX_BYTES:,} bytes")])
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refusal([_unplaced(name, f"the document is not UTF-8: {error.reason}")]) from None
    is_json = text.lstrip(" \t\r\n")[:1] in ("{", "[")
    source = Source(name, text, None, is_json=is_json, several=several and not is_json)
    try:
        if is_json:
            source.value, twice = read_json(text)
            faults = places_of_json(text)[1] if twice else []
        else:
            source.value, faults = read_yaml(text, several=several)
    except Unreadable as unreadable:
        faults = [unreadable.fault]
    if several and is_json:
        source.value = [source.value]
    if not faults and not isinstance(source.value, list if several else dict):
        said = "the document is empty" if source.value is None else "the document is no JSON object or YAML mapping"
        faults = [Fault(0, said)]
    if faults:
        raise refusal([source.fault(fault) for fault in faults])
    return source


def _unplaced(name: str, message: str) -> dict[str, Any]:
    return {"code": "invalid_input", "message": message, "path": "", "file": name, "line": 1, "column": 1}


def refusal(
    errors: Sequence[dict[str, Any]], conflicts: Sequence[dict[str, Any]] = (), **report: Any
) -> DefinitionsRefused:
    """The error that refuses documents, for everything that is wrong with them; nothing was changed."""
    problems = [*errors, *conflicts]
    first = problems[0]
    line = f" (line {first['line']})" if "line" in first and "file" not in first else ""
    where = f"{first['file']}:{first['line']}:{first['column']}" if "file" in first else first["path"]
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    message = first["message"] if "file" in first else f"{first['path']}: {first['message']}"
    return DefinitionsRefused(
        f"{message}{line}{more}; nothing was changed",
        report={**report, "conflicts": list(conflicts), "errors": list(errors)},
        where=where,
        hint=first.get("hint"),
    )
