"""How many examples the random tests run: few in the default run, many when BINDERY_EXAMPLES is a larger factor.

`@examples(60)` below `@given` takes the place of `@settings(max_examples=60)`; what ran is counted, and
printed at the end of a run with a factor (`make random`).
"""

from __future__ import annotations

import functools
import inspect
import os
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from hypothesis import HealthCheck, settings

#: Times the default number of examples.
FACTOR: Final = float(os.environ.get("BINDERY_EXAMPLES", "1"))
#: Examples by test, this run.
RAN: Final[Counter[str]] = Counter()


def examples(count: int, **options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test on about so many examples, times the factor of the run."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def counted(*arguments: Any, **named: Any) -> None:
            RAN[f"{test.__module__.removeprefix('tests.unit.')}.{test.__name__}"] += 1
            test(*arguments, **named)

        counted.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]  # what hypothesis fills in
        return settings(
            max_examples=max(1, round(count * FACTOR)),
            deadline=None,
            suppress_health_check=list(HealthCheck),
            **options,
        )(counted)

    return decorate
