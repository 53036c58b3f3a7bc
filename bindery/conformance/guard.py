"""Results as values: what an evaluation gave, or how it ended.

A crash is thereby the result of one case, which fails, and never the end of the run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec

from bindery.router.errors import BinderyError

Arguments = ParamSpec("Arguments")


def evaluated(evaluation: Callable[Arguments, Any], *args: Arguments.args, **options: Arguments.kwargs) -> Any:
    """The result of an evaluation, or the text of whatever it raised."""
    try:
        return evaluation(*args, **options)
    except Exception as crash:  # whatever an implementation gets wrong is what the run is there to show
        return f"{type(crash).__name__}: {crash}"


def defined(definition: Callable[Arguments, Any], *args: Arguments.args, **options: Arguments.kwargs) -> Any:
    """The result of a definition, "error" when it is refused, or the text of anything else that it raised."""
    try:
        return definition(*args, **options)
    except BinderyError:
        return "error"
    except Exception as crash:  # as above
        return f"{type(crash).__name__}: {crash}"
