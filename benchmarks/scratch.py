"""Where benchmarks put their data."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder, in memory where there is some: disks differ more than what is compared. It is removed afterwards."""
    shm = Path("/dev/shm")  # noqa: S108
    folder = Path(tempfile.mkdtemp(prefix="bindery-bench-", dir=shm if shm.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
