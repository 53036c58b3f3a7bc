"""A real server on loopback for the tests of this folder."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from pydantic import SecretStr

from bindery.api.app import create_app
from bindery.api.bootstrap import ensure_administrator
from bindery.api.settings import Settings
from tests.service.http import Client

USER, PASSWORD = "guest", "guest"


class Server:
    """uvicorn in a thread, on a free port."""

    def __init__(self, data: Path, **settings: object) -> None:
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        self.settings = Settings(
            data=str(data),
            port=self.port,
            admin_user=USER,
            admin_password=SecretStr(PASSWORD),
            **settings,  # type: ignore[arg-type]
        )
        self.app = create_app(self.settings)
        ensure_administrator(self.app.state.plane.access, self.settings, generate=str)
        config = uvicorn.Config(self.app, log_level="warning", http="h11", server_header=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self.socket]}, daemon=True)

    def start(self) -> Server:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        return self

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)
        self.socket.close()

    def client(self, user: str | None = USER, password: str = PASSWORD) -> Client:
        return Client(self.port, user, password)


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside() -> None:
    for name in Settings.model_fields:
        os.environ.pop(f"BINDERY_{name.upper()}", None)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server that the tests share; each works in vhosts of its own."""
    running = Server(tmp_path_factory.mktemp("service") / "data").start()
    yield running
    running.stop()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Server]:
    """A server that one test has for itself."""
    running = Server(tmp_path / "data").start()
    yield running
    running.stop()


@pytest.fixture
def client(server: Server) -> Client:
    """The administrator's client of the shared server."""
    return server.client()
