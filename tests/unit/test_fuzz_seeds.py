"""The fuzzing targets accept their own seeds, and inputs that fuzzing once found."""

from __future__ import annotations

import pytest

from tests.fuzz.targets import SEEDS, TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_seeds(target: str) -> None:
    for seed in SEEDS[target]:
        TARGETS[target](seed)
        TARGETS[target](seed[: len(seed) // 2])
        TARGETS[target](seed[::-1])
    TARGETS[target](b"")
