"""Machine-code kernels: how they are compiled, cached and loaded.

A module of kernels imports numba, which takes a good part of a second, so such modules are loaded at the
first use (`kernels("router.exchanges.kernels")`), never at import. What numba compiles is cached on disk:
beside the source, else in the user's cache folder, else in a private folder below the temporary one (a
package inside a zip file, a read-only installation without a home). So a machine compiles once, however
many worker processes it starts. NUMBA_CACHE_DIR overrides the place.
"""

from __future__ import annotations

import importlib
import os
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from router.errors import Refused


@cache
def kernels(module: str) -> Any:
    """The module of that name, imported at the first call."""
    return importlib.import_module(module)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function of flat arrays to machine code; it runs without the interpreter lock."""
    import numba  # noqa: PLC0415  # only modules of kernels come here

    decorate = numba.njit(cache=True, nogil=True)
    try:
        return decorate(function)
    except RuntimeError:  # numba has found no folder to cache in
        numba.config.CACHE_DIR = str(_private_folder())  # type: ignore[attr-defined]  # set from the environment
        return decorate(function)


def _private_folder() -> Path:
    """A folder of this user alone: cached code is loaded and run, so nobody else may write to it."""
    folder = Path(tempfile.gettempdir()) / f"bindery-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise Refused(f"{folder} can be written by others", where=str(folder), hint="remove it, or set NUMBA_CACHE_DIR")
    return folder
