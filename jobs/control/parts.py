"""What the models of the job file's parts share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _text(value: object) -> object:
    """YAML numbers and booleans are texts too: SQL literals, values of options."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Text = Annotated[str, BeforeValidator(_text)]
Name = Annotated[str, Field(min_length=1)]


class Part(BaseModel):
    """A part of a job file: no other keys, never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)
