"""Azure's blob storage for tests: Azurite, with its data in memory.

`azure_root` gives a test its own prefix of a container; the environment is set so that clients of this process and of
its children find it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import pytest

from tests.servers.ports import free_port, wait_for

#: The account that every Azurite has, and its key, which is no secret.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CONTAINER = "bindery-tests"
_VERSION = "3.35.0"


@pytest.fixture(scope="session")
def azure_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Where the store of the run listens, which has the container `CONTAINER`."""
    port, log = free_port(), tmp_path_factory.mktemp("azure") / "server.log"
    options = ["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence"]
    command = [str(_program()), "--blobHost", "127.0.0.1", "--blobPort", str(port), *options]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent)
    try:
        wait_for(port, process, log)
        _make_container(port)
        yield port
    finally:
        process.kill()  # it keeps nothing that would want an orderly end
        process.wait()


@pytest.fixture
def azure_root(azure_port: int) -> Iterator[str]:
    """`abfss://…/<unique>`: a prefix that no other test uses, and the environment to reach it."""
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith("AZURE_")]:
            environment.delenv(name)
        for name, value in {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_ENDPOINT": f"http://127.0.0.1:{azure_port}/{ACCOUNT}",
            "AZURE_ALLOW_HTTP": "true",
        }.items():
            environment.setenv(name, value)
        yield f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/{secrets.token_hex(8)}"


def _program() -> Path:
    """The program: that of the PATH, or one that is installed once and kept in the user's cache."""
    named = shutil.which("azurite-blob")
    if named:
        return Path(named)
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / f"bindery-tests/azurite-{_VERSION}"
    program = kept / "node_modules/.bin/azurite-blob"
    if not program.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("no npm, and no azurite-blob on the PATH")
        draft = kept.with_name(f"{kept.name}.{secrets.token_hex(4)}")  # of its own: another run may install it, too
        draft.mkdir(parents=True)
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(draft), f"azurite@{_VERSION}"]
        try:
            subprocess.run(command, check=True, timeout=600, capture_output=True)
            if not program.exists():
                draft.rename(kept)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return program


def _make_container(port: int) -> None:
    """Ask for the container, signed by the account's key (Azure Storage, "Authorize with Shared Key")."""
    headers = {"x-ms-date": format_datetime(datetime.now(UTC), usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "PUT" + "\n" * 12 + "".join(f"{name}:{value}\n" for name, value in headers.items())
    signed += f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        path = f"/{ACCOUNT}/{CONTAINER}?restype=container"
        connection.request("PUT", path, headers={**headers, "Content-Length": "0"})
        answer = connection.getresponse()
        said = answer.read()
    if answer.status != 201:
        raise RuntimeError(f"Azurite makes no container: {answer.status} {said[:300]!r}")
