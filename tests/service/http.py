"""A client that sends paths and bodies byte for byte as it is told."""

from __future__ import annotations

import base64
import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw) if self.raw else None


class Client:
    """One user's calls; paths are relative to /api."""

    def __init__(self, port: int, user: str | None, password: str) -> None:
        self.port = port
        self.headers: dict[str, str] = {}
        if user is not None:
            credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
            self.headers["authorization"] = f"Basic {credentials}"

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            content = raw if raw is not None else None if body is None else json.dumps(body).encode()
            connection.request(method, "/api" + path, content, {**self.headers, **(headers or {})})
            response = connection.getresponse()
            return Answer(
                response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
            )
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        return self.call("GET", path)

    def put(self, path: str, body: Any = None) -> Answer:
        return self.call("PUT", path, body)

    def post(self, path: str, body: Any = None) -> Answer:
        return self.call("POST", path, body)

    def delete(self, path: str) -> Answer:
        return self.call("DELETE", path)


def segment(name: str) -> str:
    """A name as one path segment."""
    return quote(name, safe="")
