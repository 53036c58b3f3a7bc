"""How many examples the random tests run: few in the default run, many when BINDERY_EXAMPLES is a larger factor.

`@examples(60)` below `@given` takes the place of `@settings(max_examples=60)`; what ran is counted, and
printed at the end of a run with a factor (`make random`).
"""

from __future__ import annotations

import functools
import inspect
import os
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, Phase, seed, settings

T = TypeVar("T")

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


#: Examples for tests of what generators bring: none is kept, and none is looked for beyond the generator's own.
GENERATED: Final = settings(
    derandomize=True, deadline=None, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck)
)
_ROUNDS: Final = 8


def missing_after(draw: Callable[[], None], missing: Callable[[], Collection[T]]) -> Collection[T]:
    """What a generator has not brought after a few rounds; the first round mostly brings everything.

    Hypothesis puts constants of the modules that were imported among its examples, so those of one seed are
    others when other tests ran before.
    """
    for number in range(_ROUNDS):
        seed(number)(draw)()
        if not missing():
            break
    return missing()
