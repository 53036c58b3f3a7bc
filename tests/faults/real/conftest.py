from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.faults.real.programs import end_on_sigterm


@pytest.fixture(autouse=True, scope="package")
def _no_program_outlives_the_tests() -> Iterator[None]:
    kept = signal.getsignal(signal.SIGTERM)
    end_on_sigterm()
    yield
    signal.signal(signal.SIGTERM, kept)
