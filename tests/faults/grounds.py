"""Where worlds are: folders of this machine, or prefixes of an object store."""

from __future__ import annotations

import atexit
import functools
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import obstore
import pytest
from obstore.store import from_url

from bindery.store import log
from bindery.store.places import at, stores
from tests.servers.faulty_s3 import FaultyS3
from tests.servers.s3 import BUCKET, reached, served

Ground = Literal["local", "s3"]
GROUNDS: Final[tuple[Ground, ...]] = ("local", "s3")
_ROOT: Final = f"s3://{BUCKET}"
_TRUST: Final = pytest.MonkeyPatch()


@contextmanager
def prepared(ground: Ground) -> Iterator[None]:
    """What worlds there need, for this process and its children: a server of their own, and the way to it."""
    if ground == "local":
        yield
        return
    with ExitStack() as end:
        folder = _scratch()
        end.callback(shutil.rmtree, folder, ignore_errors=True)
        end.enter_context(reached(end.enter_context(served(folder))))
        environment = end.enter_context(pytest.MonkeyPatch.context())
        environment.setenv("BINDERY_STATE", str(folder / "state"))
        yield


def new(ground: Ground) -> str:
    """A new folder, in memory where there is some, or a prefix that nobody uses."""
    return str(_scratch()) if ground == "local" else f"{_ROOT}/faults-{secrets.token_hex(8)}"


def copy(source: str, target: str) -> None:
    """Copy everything below an address."""
    if not at(source).is_remote:
        shutil.copytree(source, target)
        return
    client, skipped = _client(), len(_ROOT) + 1

    def copy_one(name: str) -> None:
        obstore.copy(client, f"{source[skipped:]}/{name}", f"{target[skipped:]}/{name}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(copy_one, at(source).within()))


def remove(root: str) -> None:
    """Remove everything below an address."""
    at(root).remove_folder()


def forget_stores() -> None:
    """What a new process does not know: that a store heeds conditions, and connections to it."""
    stores._stores.clear()


def trust_logs(trusted: bool) -> None:
    """Whether a log on an object store is trusted for a while, as it may be where entries are kept for longer."""
    _TRUST.undo()
    if not trusted:
        _TRUST.setattr(log, "TRUSTED_SECONDS", 0.0)


@contextmanager
def by_wire() -> Iterator[FaultyS3]:
    """Have this process reach the object store by way of a proxy, as long as the block runs."""
    proxy = _proxy()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", proxy.url)
        stores.store_of(_ROOT).prove("faults")
        yield proxy


@functools.cache
def _proxy() -> FaultyS3:
    proxy = FaultyS3(os.environ["AWS_ENDPOINT_URL"])
    proxy.__enter__()
    atexit.register(proxy.__exit__, None, None, None)
    return proxy


@functools.cache
def _client() -> Any:
    return from_url(_ROOT)


def _scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="bindery-faults-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
