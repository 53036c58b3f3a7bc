"""Results as values: what an evaluation gave, or how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec

from router.errors import BinderyError

Arguments = ParamSpec("Arguments")


def guarded(evaluation: Callable[Arguments, Any], *args: Arguments.args, **options: Arguments.kwargs) -> Any:
    """The result of an evaluation: "error" when it refuses its input, the text of any other exception.

    A crash is thereby the result of one case, which fails, and never the end of the run.
    """
    try:
        return evaluation(*args, **options)
    except BinderyError:
        return "error"
    except Exception as crash:  # whatever an implementation gets wrong is what the run is there to show
        return f"{type(crash).__name__}: {crash}"
