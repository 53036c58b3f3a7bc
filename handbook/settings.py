"""The page of the service's settings, made from the class that reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from bindery.api.settings import Settings

_HEAD: Final = """# Settings

Every setting of `bindery serve`, as the program reads it. A setting comes from the command line, else from the
environment, else from the YAML file that `--config` or `BINDERY_CONFIG` names, else it has its default.
An unknown name is refused.
[Operations](../operations.md#settings) says what they are for and which combinations are unsafe.

| setting | in the environment | default | what it says |
|---|---|---|---|
"""


def page() -> str:
    """The page, in Markdown: a row for each setting, members of `jobs` and `maintenance` by their dotted names."""
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in _rows(Settings, ()))


def _rows(model: type[BaseModel], above: tuple[str, ...]) -> Iterator[tuple[str, str, str, str]]:
    for name, field in model.model_fields.items():
        path = (*above, name)
        if isinstance(field.default, BaseModel):
            yield from _rows(type(field.default), path)
            continue
        variable = f"BINDERY_{'__'.join(path).upper()}"
        said = (field.description or "").replace("|", "\\|")
        yield f"`{'.'.join(path)}`", f"`{variable}`", _default(field), said


def _default(field: FieldInfo) -> str:
    default: Any = field.default
    if field.is_required() or default in (None, (), {}):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"
