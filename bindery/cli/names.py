"""Names of properties that a filter asks for in vain: why nothing passes it, perhaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from bindery.router.error_text import visible

if TYPE_CHECKING:
    from bindery.router.filters import Filter
    from bindery.store.paths import DataDir


def misspelt_names(data: DataDir, vhost: str, condition: Filter) -> str | None:
    """What the properties of a filter were meant to be, as recent rows of the vhost have them; None for no guess."""
    from bindery.router.analysis import observed  # noqa: PLC0415  # `bindery --help` does not wait for Delta
    from bindery.store.samples import recent_names  # noqa: PLC0415

    seen = observed.SeenNames.of(recent_names(data, vhost).values())
    return "; ".join(observed.misspelt_names([condition.expression], seen)) or None


def note_misspelt(data: DataDir, vhost: str, condition: Filter | None) -> None:
    """Say on standard error what a filter that nothing passed was meant to ask for, if that can be guessed."""
    guess = None if condition is None else misspelt_names(data, vhost, condition)
    if guess is not None:
        typer.echo(f"note: {visible(guess)}", err=True)
