"""Where benchmarks put their data."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch(*, in_memory: bool = True) -> Iterator[Path]:
    """A folder, in memory where there is some: disks differ more than what is compared. It is removed afterwards.

    One on a disk is for what counts memory.
    """
    place = Path("/dev/shm" if in_memory else "/var/tmp")  # noqa: S108
    folder = Path(tempfile.mkdtemp(prefix="bindery-bench-", dir=place if place.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
