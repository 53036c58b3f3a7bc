"""The demo's control plane: `bindery serve` for the length of a `with`, and what is asked of it over HTTP."""

from __future__ import annotations

import base64
import http.client
import json
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from bindery.api.bootstrap import put_administrator
from bindery.router.errors import BinderyError, InvalidInput
from bindery.store.access import AccessStore
from bindery.store.paths import DataDir

USER: Final = "demo"
#: Where the last lines of the demo expect a control plane that goes on running.
PORT: Final = 15672


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A running control plane and the credentials of its administrator."""

    port: int
    password: str

    def declare(self, definitions: Mapping[str, Any]) -> int:
        """Declare exchanges, queues and bindings one by one; gives how many were new."""
        new = 0
        for kind in ("exchanges", "queues"):
            for item in definitions[kind]:
                new += self._call("PUT", f"/api/{kind}/{_segment(item['vhost'])}/{_segment(item['name'])}", item) == 201
        for item in definitions["bindings"]:
            ends = (item["vhost"], "e", item["source"], item["destination_type"][0], item["destination"])
            self._call("POST", "/api/bindings/" + "/".join(map(_segment, ends)), item)
        return new

    def _call(self, method: str, path: str, body: Any) -> int:
        credentials = base64.b64encode(f"{USER}:{self.password}".encode()).decode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, json.dumps(body), {"authorization": f"Basic {credentials}"})
            response = connection.getresponse()
            answer = response.read().decode("utf-8", "replace")
        finally:
            connection.close()
        if response.status >= 300:
            raise InvalidInput(f"{method} {path} was answered {response.status}: {answer}", where="demo")
        return response.status


@contextmanager
def control_plane(data: str) -> Iterator[ControlPlane]:
    """A control plane over the data directory, on a free port of this machine, with a fresh password."""
    password = secrets.token_urlsafe(12)
    # also where an earlier demo has left the user with another password
    put_administrator(AccessStore(DataDir.open(data, create=True).access), USER, password)
    command = [sys.executable, "-m", "bindery.cli.main", "serve", "--data", data, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603  # our own
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            port = line.strip().rpartition(":")[2]
            if not port.isdecimal():
                raise BinderyError("the control plane did not start", where="demo", hint="its message stands above")
            yield ControlPlane(int(port), password)
        finally:
            process.terminate()


def next_steps(data: str, password: str) -> str:
    """What to go on with: a control plane that stays, its console, and calls to it."""
    at = f"http://127.0.0.1:{PORT}/api"
    message = {
        "routing_key": "UA.EWR.LAX",
        "properties": {"headers": {"dep_delay": 75, "carrier": "UA"}},
        "payload": "hello",
        "payload_encoding": "string",
    }
    get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    curl = f"curl -u {USER}:{password}"
    return "\n".join(
        (
            f"{Path(sys.executable).parent / 'bindery'} serve --data {data} --port {PORT}",
            "",
            f"Its console is at http://127.0.0.1:{PORT}/ (user {USER}, password {password}). In another terminal:",
            "",
            f"{curl} '{at}/queues/%2F?columns=name,messages'",
            f"{curl} {at}/exchanges/%2F/flights/publish -d '{json.dumps(message)}'",
            f"{curl} {at}/queues/%2F/west.coast/get -d '{json.dumps(get)}'",
        )
    )


def _segment(name: str) -> str:
    return quote(name, safe="")
