"""Secrets by reference: `{"secret": "NAME"}` in the options of a source or forwarder stands for a text kept elsewhere.

It is looked for in the environment as BINDERY_SECRET_NAME, then as the file NAME of the secrets folder. Only
the process that reads the source or forwards resolves it: documents, answers and logs hold the reference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bindery.router.errors import InvalidInput

ENVIRONMENT_PREFIX: Final = "BINDERY_SECRET_"
_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_MAX_BYTES: Final = 65_536
#: What stands for a secret while a document is only checked.
_UNRESOLVED: Final = "secret"


def is_reference(value: object) -> bool:
    """Whether an option refers to a secret."""
    return isinstance(value, Mapping) and value.keys() == {"secret"}


def options_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of a document's source or forwarder, as far as it states any."""
    stated = document.get(_part(document))
    options = stated.get("options") if isinstance(stated, Mapping) else None
    return options if isinstance(options, Mapping) else {}


def references(document: Mapping[str, Any]) -> list[str]:
    """The names of the secrets that a job document refers to; raises InvalidInput for one that is no name."""
    part = _part(document)
    return [
        _name(f"{part}.options.{option}", value)
        for option, value in options_of(document).items()
        if is_reference(value)
    ]


def without_secrets(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document as it can be checked without knowing any secret."""
    unresolved = {option: _UNRESOLVED for option, value in options_of(document).items() if is_reference(value)}
    return _replaced(document, unresolved)


def resolved(document: Mapping[str, Any], *, folder: Path | None = None) -> tuple[dict[str, Any], list[str]]:
    """The document with its secrets, and the secrets alone; raises InvalidInput for one that is missing."""
    found = {
        option: _look_up(_name(place, value), place, folder)
        for option, value in options_of(document).items()
        if is_reference(value) and (place := f"{_part(document)}.options.{option}")
    }
    return _replaced(document, found), list(found.values())


def check_present(document: Mapping[str, Any], *, folder: Path | None = None) -> None:
    """Raise InvalidInput for a reference to a secret that is not there."""
    resolved(document, folder=folder)


def present_values(document: Mapping[str, Any], *, folder: Path | None = None) -> list[str]:
    """The secrets of a document that can be found, for masking."""
    found = []
    for name in references(document):
        with suppress(InvalidInput):
            found.append(_look_up(name, name, folder))
    return found


def masked(text: str, values: Iterable[str]) -> str:
    """A text in which those secrets are replaced, for whoever shows or keeps it."""
    for value in sorted(values, key=len, reverse=True):
        if value:
            text = text.replace(value, "***")
    return text


def _part(document: Mapping[str, Any]) -> str:
    """The part of a document that has options."""
    return "forward" if "forward" in document else "source"


def _replaced(document: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    changed = dict(document)
    if values:
        part = _part(document)
        changed[part] = {**changed[part], "options": {**options_of(document), **values}}
    return changed


def _name(place: str, reference: Mapping[str, Any]) -> str:
    name = reference["secret"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{place}: no name of a secret",
            where=place.partition(".options.")[0] + ".options",
            hint="capital letters, digits and _, at most 64",
        )
    return name


def _look_up(name: str, place: str, folder: Path | None) -> str:
    value = os.environ.get(ENVIRONMENT_PREFIX + name)
    if value is None and folder is not None:
        try:
            with (folder / name).open("rb") as file:
                value = file.read(_MAX_BYTES).decode("utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError):
            value = None
    if value is None:
        raise InvalidInput(
            f"{place}: there is no secret {name}",
            where=place.partition(".options.")[0] + ".options",
            hint=f"set {ENVIRONMENT_PREFIX}{name}, or put a file {name} into the secrets folder",
        )
    return value
