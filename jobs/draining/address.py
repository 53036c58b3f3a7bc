"""Where a broker is and who asks: an AMQP URI whose secrets are references.

`amqp://user@host:port/vhost`, `amqps` with TLS, names percent-encoded; the password comes from `env:NAME` or
`file:PATH`, or the whole URI does.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from bindery.router.errors import InvalidInput

_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_FORM: Final = "amqp://user@host:port/vhost, or amqps://… with TLS; names percent-encoded"
_MAX_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Address:
    """A vhost of a broker, and whom to be there."""

    host: str
    port: int
    vhost: str
    user: str
    password: str = field(repr=False)
    tls: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def read_address(url: str, password: str | None = None, *, option: str = "--url") -> Address:
    """The address that the option of that name states, with the password that `--password` refers to.

    Raises InvalidInput, which never shows the URL that a reference stands for, nor any password.
    """
    text = resolved(url, option) if is_reference(url) else url
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise InvalidInput("is no AMQP URI: its host or port cannot be read", where=option, hint=_FORM) from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise InvalidInput("is no AMQP URI", where=option, hint=_FORM)
    if parts.query or parts.fragment:
        raise InvalidInput(
            "takes no parameters", where=option, hint="--ca-file and --heartbeat are options of the command"
        )
    if parts.path.count("/") > 1:
        raise InvalidInput("its vhost has a slash that is not %2F", where=option, hint=_FORM)
    stated = None if parts.password is None else unquote(parts.password)
    if stated is not None and text is url:
        raise InvalidInput(
            "holds a password, which everybody on this machine can read",
            where=option,
            hint=f"put the URL into the environment ({option} env:RABBITMQ_URL), or the password (--password env:NAME)",
        )
    if password is not None:
        if not is_reference(password):
            raise InvalidInput("is no reference", where="--password", hint="env:NAME or file:PATH")
        stated = resolved(password, "--password")
    user = unquote(parts.username or "guest")
    if stated is None:
        if user != "guest":
            raise InvalidInput("there is no password", where=option, hint="--password env:NAME or file:PATH")
        stated = "guest"
    return Address(
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        vhost=unquote(parts.path[1:]) or "/",
        user=user,
        password=stated,
        tls=parts.scheme == "amqps",
    )


def is_reference(text: str) -> bool:
    """Whether a text names where a secret is kept: `env:NAME` or `file:PATH`."""
    return text.startswith(("env:", "file:"))


def resolved(reference: str, where: str) -> str:
    """The secret that is kept there; raises InvalidInput, which names `where` and never the secret."""
    kind, _, name = reference.partition(":")
    if kind == "env":
        value = os.environ.get(name)
        if value is None:
            raise InvalidInput(f"the environment has no {name}", where=where)
        return value
    try:
        with Path(name).open("rb") as file:
            return file.read(_MAX_BYTES).decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput(f"cannot read {name}: {reason}", where=where) from None
