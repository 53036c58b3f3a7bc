"""The management API of a RabbitMQ: its definitions, with the credentials of a URL or of references."""

from __future__ import annotations

import base64
import http.client
import ssl
from typing import Final
from urllib.parse import quote, unquote

from bindery.cli.urls import leaves_this_machine, service_url
from bindery.jobs.draining.address import is_reference, resolved
from bindery.router.documents import MAX_BYTES
from bindery.router.errors import BinderyError, InvalidInput

_PATIENCE: Final = 60.0
_EXAMPLE: Final = "such as http://user@host:15672, with --password env:NAME"


class ManagementFailed(BinderyError):
    """A management API that cannot be reached, or does not answer as one does."""

    code = "management_failed"


class ManagementApi:
    """The API at a URL: `http://user:password@host:15672`, `https` with TLS, or `env:NAME` or `file:PATH` of it.

    `password` is a reference of the same form. Neither errors nor `name` show credentials. Raises InvalidInput.
    """

    def __init__(self, url: str, password: str | None = None) -> None:
        text = resolved(url, "URL") if is_reference(url) else url
        parts, host, port = service_url(text, what="a management API", where="URL", example=_EXAMPLE)
        if password is not None and not is_reference(password):
            raise InvalidInput("is no reference", where="--password", hint="env:NAME or file:PATH")
        stated = None if parts.password is None else unquote(parts.password)
        secret = stated if password is None else resolved(password, "--password")
        user = unquote(parts.username or "guest")
        if secret is None:
            if user != "guest":
                raise InvalidInput(f"there is no password of user {user!r}", where="URL", hint=_EXAMPLE)
            secret = "guest"  # noqa: S105  # what a new broker lets in on its own machine
        self._host, self._port, self._secure = host, port, parts.scheme == "https"
        self._path = f"{quote(parts.path.rstrip('/').removesuffix('/api'), safe='/%')}/api/definitions"
        self._user = user
        self._authorization = "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()
        shown = f"[{host}]" if ":" in host else host
        self.name = f"{parts.scheme}://{shown}" + ("" if port is None else f":{port}")

    @property
    def is_open(self) -> bool:
        """Whether the password travels unencrypted through a network."""
        return not self._secure and leaves_this_machine(self._host)

    def definitions(self) -> bytes:
        """The definitions of the cluster, as JSON; raises InvalidInput where the user may not, ManagementFailed."""
        connection = (
            http.client.HTTPSConnection(self._host, self._port, timeout=_PATIENCE, context=ssl.create_default_context())
            if self._secure
            else http.client.HTTPConnection(self._host, self._port, timeout=_PATIENCE)
        )
        try:
            connection.request("GET", self._path, headers={"authorization": self._authorization})
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
                where="URL",
                hint="definitions are for users with the tag administrator",
            )
        if response.status != 200:
            raise ManagementFailed(
                f"{self.name} does not answer as a management API does: it answers {response.status}"
            )
        return raw
