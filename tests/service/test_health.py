"""`/healthz`: asked by whoever starts and watches the service, without credentials."""

from __future__ import annotations

import http.client
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Server

pytestmark = pytest.mark.service


def ask(server: Server, path: str, method: str = "GET") -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        body = response.read()
        return response.status, json.loads(body) if body else None
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/healthz", "/healthz/live", "/healthz/ready", "/healthz/"])
def test_a_service_that_works_says_so(server: Server, path: str) -> None:
    assert ask(server, path) == (200, {"status": "ok"})
    assert ask(server, path, "HEAD") == (200, None)
    assert ask(server, path, "POST")[0] == 405


def test_a_service_without_its_data_lives_and_is_not_ready(tmp_path: Path) -> None:
    running = Server(tmp_path / "data").start()
    try:
        running.app.state.plane.topology()  # as `bindery serve` does at the start
        shutil.move(tmp_path / "data", tmp_path / "away")
        assert ask(running, "/healthz/ready") == (503, {"status": "unavailable"})
        assert ask(running, "/healthz") == (503, {"status": "unavailable"})
        assert ask(running, "/healthz/live") == (200, {"status": "ok"})
        assert not (tmp_path / "data" / "topology").exists(), "who asks changes nothing"
    finally:
        running.stop()
