"""A schema registry with Confluent's REST API: the versions of a subject, and what they refer to."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from bindery.cli.urls import leaves_this_machine, service_url
from bindery.router.errors import BinderyError, InvalidInput, NotFound

USER_VARIABLE: Final = "BINDERY_REGISTRY_USER"
PASSWORD_VARIABLE: Final = "BINDERY_REGISTRY_PASSWORD"  # noqa: S105  # the variable's name
_PATIENCE: Final = 30.0
_ANSWER_LIMIT: Final = 16 * 2**20
#: Requests of one pull: versions, and schemas that they refer to.
_REQUESTS: Final = 2_000
_EXAMPLE: Final = "such as https://registry:8081"
#: What a registry calls the formats; it leaves the first one out.
_FORMATS: Final = {"AVRO": "avro", "PROTOBUF": "protobuf"}


class RegistryFailed(BinderyError):
    """A schema registry that cannot be reached, or does not answer as one does."""

    code = "registry_failed"


@dataclass(frozen=True, slots=True)
class Registered:
    """One version of a subject: its id, its format, its text, and by the name in the text what it refers to."""

    id: int
    format: str
    text: str
    references: tuple[tuple[str, Registered], ...]


class Registry:
    """The registry at a URL, with the user of the environment; raises InvalidInput for a URL that is none."""

    def __init__(self, url: str) -> None:
        parts, host, port = service_url(url, what="a schema registry", where="--registry", example=_EXAMPLE)
        if parts.username is not None:
            hint = f"set {USER_VARIABLE} and {PASSWORD_VARIABLE}"
            raise InvalidInput("credentials do not stand in the URL", where="--registry", hint=hint)
        self._host, self._port, self._secure = host, port, parts.scheme == "https"
        self._prefix = quote(parts.path.rstrip("/"), safe="/%")
        self.name = f"{parts.scheme}://{parts.netloc}{self._prefix}"
        self._headers = {"accept": "application/vnd.schemaregistry.v1+json, application/json", **_credentials()}
        self._asked: dict[tuple[str, int], Registered] = {}
        self._requests = 0

    @property
    def is_open(self) -> bool:
        """Whether credentials travel unencrypted through a network."""
        return not self._secure and "authorization" in self._headers and leaves_this_machine(self._host)

    def versions(self, subject: str) -> Iterator[Registered]:
        """All versions of a subject, oldest first; raises NotFound, InvalidInput, RegistryFailed."""
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions", subject)
        if not isinstance(found, list) or not all(type(number) is int for number in found):
            raise self._stranger("its answer lists no versions")
        for number in found:
            yield self._version(subject, number, ())

    def _version(self, subject: str, number: int, within: tuple[tuple[str, int], ...]) -> Registered:
        """One version, with what it refers to; `within` are those that led to it."""
        key = subject, number
        if key in within:
            raise self._stranger(f"version {number} of {subject!r} refers to itself")
        if key not in self._asked:
            found = self._get(f"/subjects/{quote(subject, safe='')}/versions/{number}", subject)
            try:
                said = found.get("schemaType") or "AVRO"
                named = [(one["name"], one["subject"], one["version"]) for one in found.get("references") or ()]
                id, text = found["id"], found["schema"]
            except (AttributeError, KeyError, TypeError):
                raise self._stranger(f"version {number} of {subject!r} is no schema") from None
            if type(id) is not int or not all(isinstance(one, str) for one in (said, text)):
                raise self._stranger(f"version {number} of {subject!r} is no schema")
            if said not in _FORMATS:
                raise InvalidInput(
                    f"version {number} of {subject!r} is {said}, which bodies are not read as",
                    where="--subject",
                    hint="read are " + " and ".join(_FORMATS),
                )
            further = [(name, self._version(str(of), int(at), (*within, key))) for name, of, at in named]
            self._asked[key] = Registered(id, _FORMATS[said], text, tuple(further))
        return self._asked[key]

    def _get(self, path: str, subject: str) -> Any:
        self._requests += 1
        if self._requests > _REQUESTS:
            raise RegistryFailed(f"{self.name}: more than {_REQUESTS:,} versions and references", where="--subject")
        connection = (
            http.client.HTTPSConnection(self._host, self._port, timeout=_PATIENCE, context=ssl.create_default_context())
            if self._secure
            else http.client.HTTPConnection(self._host, self._port, timeout=_PATIENCE)
        )
        try:
            connection.request("GET", f"{self._prefix}{path}", headers=self._headers)
            response = connection.getresponse()
            raw = response.read(_ANSWER_LIMIT)
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise RegistryFailed(f"{self.name} did not answer: {why}", hint="is that its address?") from None
        finally:
            connection.close()
        if response.status == 404:
            raise NotFound(f"{self.name} has no subject {subject!r}", where="--subject")
        if response.status in (401, 403):
            hint = f"set {USER_VARIABLE} and {PASSWORD_VARIABLE}"
            raise InvalidInput(f"{self.name} refuses the user ({response.status})", where=USER_VARIABLE, hint=hint)
        if response.status != 200:
            raise self._stranger(f"it answers {response.status}")
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            raise self._stranger("its answer is no JSON") from None

    def _stranger(self, why: str) -> RegistryFailed:
        return RegistryFailed(f"{self.name} does not answer as a schema registry does: {why}", where="--registry")


def _credentials() -> dict[str, str]:
    user, password = os.environ.get(USER_VARIABLE) or None, os.environ.get(PASSWORD_VARIABLE)
    if user is None and password is None:
        return {}
    if user is None or password is None:
        unset = USER_VARIABLE if user is None else PASSWORD_VARIABLE
        raise InvalidInput("a user without a password, or a password without a user", where=unset, hint="set both")
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}
