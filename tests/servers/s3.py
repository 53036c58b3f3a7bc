"""An object store for tests, and a proxy before it that counts, refuses, delays and loses.

`s3_root` gives a test its own prefix of a store that speaks S3 and honours `If-None-Match: *`; the environment is set
so that clients of this process and of its children find it. `faulty_s3` puts a proxy before it:

    def test_something(s3_root, faulty_s3):
        with faulty_s3.counting() as requests:
            ...
        assert requests.by_kind() == {"list": 1, "get": 2}
        with faulty_s3.failing("SlowDown", chance=0.2, seed=7):
            ...
        with faulty_s3.losing_answers(kinds={"put"}, keys="*/_delta_log/*", nth=3):
            ...

The store is gofakes3 with its memory backend, or the one that `BINDERY_S3_SERVER` names: `minio` or `versitygw`. Not
every imitation will do: several accept two creators of one key. `tests/unit/store/test_s3_bed.py` asks the one that is
used.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.faulty_s3 import FaultyS3
from tests.servers.ports import free_port, wait_for

BUCKET = "bindery-tests"
_GOFAKES3 = "github.com/johannesboyne/gofakes3/cmd/gofakes3"
_VERSION = "v1.2.0"


@dataclass(frozen=True)
class S3Server:
    """Where the store listens, and the only key that it may know."""

    url: str
    access_key_id: str = "testkey"
    secret_access_key: str = "testsecret123"
    region: str = "us-east-1"

    def environment(self) -> dict[str, str]:
        """What obstore, deltalake and the SDKs read."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_REGION": self.region,
            "AWS_ALLOW_HTTP": "true",
        }


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The store of the run."""
    with served(tmp_path_factory.mktemp("s3")) as server:
        yield server


@contextmanager
def served(folder: Path) -> Iterator[S3Server]:
    """A store with the bucket `BUCKET`; what it holds is gone when it ends."""
    port = free_port()
    server = S3Server(f"http://127.0.0.1:{port}")
    second = second_opinion()
    command = _of_path(second, port, folder) if second else _gofakes3(port)
    credentials = {
        "MINIO_ROOT_USER": server.access_key_id,
        "MINIO_ROOT_PASSWORD": server.secret_access_key,
        "ROOT_ACCESS_KEY": server.access_key_id,
        "ROOT_SECRET_KEY": server.secret_access_key,
    }
    environment = {**os.environ, **credentials, "MINIO_UPDATE": "off", "MINIO_BROWSER": "off"}
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_for(port, process, log)
        if second:
            _make_bucket(server, port)
        yield server
    finally:
        process.kill()  # it keeps nothing that would want an orderly end
        process.wait()


@pytest.fixture
def s3_root(s3_server: S3Server) -> Iterator[str]:
    """`s3://bindery-tests/<unique>`: a prefix that no other test uses, and the environment to reach it."""
    with reached(s3_server):
        yield f"s3://{BUCKET}/{secrets.token_hex(8)}"


@contextmanager
def reached(server: S3Server) -> Iterator[None]:
    """The environment by which this process and its children reach a store, and no other."""
    with pytest.MonkeyPatch.context() as environment:  # of its own: tests undo what they have patched
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            environment.delenv(name)
        for name, value in server.environment().items():
            environment.setenv(name, value)
        yield


@pytest.fixture
def faulty_s3(s3_root: str, s3_server: S3Server) -> Iterator[FaultyS3]:
    """The proxy, to which the environment leads from now on; without a fault it only counts."""
    with FaultyS3(s3_server.url) as proxy, pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


def _gofakes3(port: int) -> list[str]:
    # the backends that keep files are of no use: `fs` hangs when conditional puts race
    address = f"127.0.0.1:{port}"
    return [str(_gofakes3_program()), "-host", address, "-backend", "memory", "-initialbucket", BUCKET, "-quiet"]


def second_opinion() -> str:
    """Another store than gofakes3, which checks signatures as it does not; "" for none."""
    named = os.environ.get("BINDERY_S3_SERVER", "gofakes3")
    return "" if named == "gofakes3" else named


def _of_path(name: str, port: int, folder: Path) -> list[str]:
    objects, address = folder / "objects", f"127.0.0.1:{port}"
    objects.mkdir()
    options = {
        "minio": ["server", "--address", address, str(objects)],
        "versitygw": ["--port", address, "--region", "us-east-1", "--keep-alive", "--quiet", "posix", str(objects)],
    }
    program = shutil.which(name)
    if name not in options or program is None:
        raise RuntimeError(f"BINDERY_S3_SERVER is {name}: no such program on the PATH: see CONTRIBUTING.md")
    return [program, *options[name]]


def _gofakes3_program() -> Path:
    """The program: `BINDERY_GOFAKES3`, that of the PATH, or one that is built once and kept in the user's cache."""
    named = os.environ.get("BINDERY_GOFAKES3") or shutil.which("gofakes3")
    if named:
        return Path(named)
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / f"bindery-tests/gofakes3-{_VERSION}"
    program = kept / "gofakes3"
    if not program.exists():
        go = shutil.which("go")
        if go is None:
            pytest.skip("no Go, and no gofakes3 on the PATH or in BINDERY_GOFAKES3")
        kept.mkdir(parents=True, exist_ok=True)
        command = [go, "install", "-ldflags=-s -w", f"{_GOFAKES3}@{_VERSION}"]
        environment = {**os.environ, "CGO_ENABLED": "0", "GOBIN": str(kept)}
        subprocess.run(command, env=environment, check=True, timeout=600)
    return program


def _make_bucket(server: S3Server, port: int) -> None:
    from pyarrow.fs import S3FileSystem

    S3FileSystem(
        access_key=server.access_key_id,
        secret_key=server.secret_access_key,
        region=server.region,
        endpoint_override=f"127.0.0.1:{port}",
        scheme="http",
        allow_bucket_creation=True,
    ).create_dir(BUCKET)
