"""Machine-code kernels: how they are compiled, cached and loaded.

A module of kernels imports numba, which takes a good part of a second, so such modules are loaded at the
first use (`kernels("bindery.router.matching.kernels")`), never at import. What numba compiles is cached on disk:
beside the source, else in the user's cache folder (always for a package inside a zip file), else in a private
folder below the temporary one (read-only installation, no home). So a machine compiles once, however many
worker processes it starts. NUMBA_CACHE_DIR overrides the place for a package that is not inside a zip file.
"""

from __future__ import annotations

import importlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from bindery.router.errors import Refused

_CACHE_HOME: Final = "XDG_CACHE_HOME"


@cache
def kernels(module: str) -> Any:
    """The module of that name, imported at the first call."""
    return importlib.import_module(module)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function of flat arrays to machine code; it runs without the interpreter lock."""
    import numba  # noqa: PLC0415  # only modules of kernels come here

    decorate = numba.njit(cache=True, nogil=True)
    if not Path(function.__code__.co_filename).exists():  # inside a zip file
        with _usable_cache_home():
            return decorate(function)
    try:
        return decorate(function)
    except RuntimeError:  # numba has found no folder to cache in
        numba.config.CACHE_DIR = str(_private_folder())  # type: ignore[attr-defined]  # set from the environment
        return decorate(function)


@contextmanager
def _usable_cache_home() -> Iterator[None]:
    """While a function of a zipped module is decorated, point numba to a cache folder that can be written.

    It takes the user's cache folder for such modules without looking, and fails at the first call.
    """
    before = os.environ.get(_CACHE_HOME)
    if not _writable(Path(before) if before else Path("~/.cache").expanduser()):
        os.environ[_CACHE_HOME] = str(_private_folder())
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_CACHE_HOME, None)
        else:
            os.environ[_CACHE_HOME] = before


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _private_folder() -> Path:
    """A folder of this user alone: cached code is loaded and run, so nobody else may write to it."""
    folder = Path(tempfile.gettempdir()) / f"bindery-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise Refused(f"{folder} can be written by others", where=str(folder), hint="remove it")
    return folder
