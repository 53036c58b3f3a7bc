"""The management API of a RabbitMQ, asked with the credentials of a URL or of references."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from bindery.cli.urls import leaves_this_machine, service_url
from bindery.jobs.draining.address import is_reference, resolved
from bindery.router.documents import MAX_BYTES
from bindery.router.errors import BinderyError, InvalidInput

_PATIENCE: Final = 60.0


class ManagementFailed(BinderyError):
    """A management API that cannot be reached, or does not answer as one does."""

    code = "management_failed"


class ManagementApi:
    """The API at a URL: `http://user:password@host:15672`, `https` with TLS, or `env:NAME` or `file:PATH` of it.

    `password` is a reference of the same form; `where` and `option` are what errors call the two. Neither
    errors nor `name` show credentials. Raises InvalidInput.
    """

    def __init__(
        self, url: str, password: str | None = None, *, where: str = "URL", option: str = "--password"
    ) -> None:
        text = resolved(url, where) if is_reference(url) else url
        example = f"such as http://user@host:15672, with {option} env:NAME"
        parts, host, port = service_url(text, what="a management API", where=where, example=example)
        if password is not None and not is_reference(password):
            raise InvalidInput("is no reference", where=option, hint="env:NAME or file:PATH")
        stated = None if parts.password is None else unquote(parts.password)
        secret = stated if password is None else resolved(password, option)
        user = unquote(parts.username or "guest")
        if secret is None:
            if user != "guest":
                raise InvalidInput(f"there is no password of user {user!r}", where=where, hint=example)
            secret = "guest"  # noqa: S105  # what a new broker lets in on its own machine
        self._where = where
        self._host, self._port, self._secure = host, port, parts.scheme == "https"
        self._path = f"{quote(parts.path.rstrip('/').removesuffix('/api'), safe='/%')}/api"
        self._user = user
        self._authorization = "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()
        shown = f"[{host}]" if ":" in host else host
        self.name = f"{parts.scheme}://{shown}" + ("" if port is None else f":{port}")

    @property
    def is_open(self) -> bool:
        """Whether the password travels unencrypted through a network."""
        return not self._secure and leaves_this_machine(self._host)

    def definitions(self, vhost: str | None = None) -> bytes:
        """The definitions of the cluster or of one vhost, as JSON; raises InvalidInput, ManagementFailed."""
        path = "/definitions" if vhost is None else f"/definitions/{quote(vhost, safe='')}"
        return self._expect(200, "GET", path)

    def bindings(self, vhost: str) -> list[Mapping[str, Any]]:
        """Every binding of a vhost, those of the default exchange and of exclusive queues too."""
        found = self._read(f"/bindings/{quote(vhost, safe='')}")
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self._unlike("its bindings are no list of objects")
        return found

    def nodes(self) -> list[str]:
        """The names of the nodes that run."""
        found = self._read("/nodes?columns=name,running")
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self._unlike("its nodes are no list of objects")
        return sorted(str(one.get("name")) for one in found if one.get("running") is True)

    def vhost(self, name: str) -> Mapping[str, Any] | None:
        """A vhost; None where there is none of that name."""
        status, raw = self._ask("GET", f"/vhosts/{quote(name, safe='')}")
        if status == 404:
            return None
        found = self._decoded(status, raw)
        if not isinstance(found, dict):
            raise self._unlike("its vhost is no object")
        return found

    def trace(self, vhost: Mapping[str, Any], *, on: bool) -> None:
        """Turn the firehose of a vhost on or off; the rest of the vhost stays as `vhost` says.

        RabbitMQ 3.11 and later take what is left out for its being cleared.
        """
        tags, queue_type = vhost.get("tags"), vhost.get("default_queue_type")
        told: dict[str, Any] = {"tracing": on, "description": vhost.get("description", "")}
        told["tags"] = ",".join(map(str, tags)) if isinstance(tags, list) else tags or ""
        if isinstance(queue_type, str) and queue_type != "undefined":
            told["default_queue_type"] = queue_type
        self._expect(204, "PUT", f"/vhosts/{quote(str(vhost['name']), safe='')}", told)

    def delete_exchange(self, vhost: str, name: str) -> None:
        """Delete an exchange, if it is there."""
        path = f"/exchanges/{quote(vhost, safe='')}/{quote(name, safe='')}"
        status, _ = self._ask("DELETE", path)
        if status not in (204, 404):
            raise self._unlike(f"it answers {status}")

    def _read(self, path: str) -> Any:
        return self._decoded(*self._ask("GET", path))

    def _decoded(self, status: int, raw: bytes) -> Any:
        if status != 200:
            raise self._unlike(f"it answers {status}")
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            raise self._unlike("it answers no JSON") from None

    def _expect(self, expected: int, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        status, raw = self._ask(method, path, body)
        if status != expected:
            raise self._unlike(f"it answers {status}")
        return raw

    def _unlike(self, why: str) -> ManagementFailed:
        return ManagementFailed(f"{self.name} does not answer as a management API does: {why}")

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, bytes]:
        """The status and content of an answer; raises InvalidInput where the user may not, ManagementFailed."""
        connection = (
            http.client.HTTPSConnection(self._host, self._port, timeout=_PATIENCE, context=ssl.create_default_context())
            if self._secure
            else http.client.HTTPConnection(self._host, self._port, timeout=_PATIENCE)
        )
        headers = {"authorization": self._authorization}
        try:
            if body is None:
                connection.request(method, f"{self._path}{path}", headers=headers)
            else:
                headers["content-type"] = "application/json"
                connection.request(method, f"{self._path}{path}", json.dumps(body).encode(), headers)
            response = connection.getresponse()
            raw = response.read(MAX_BYTES + 1)
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            hint = "is that the address of its management API, and is the plugin rabbitmq_management enabled?"
            raise ManagementFailed(f"{self.name} did not answer: {why}", hint=hint) from None
        finally:
            connection.close()
        if response.status in (401, 403):
            raise InvalidInput(
                f"{self.name} refuses user {self._user!r} ({response.status})",
                where=self._where,
                hint="definitions are for users with the tag administrator",
            )
        return response.status, raw
