"""URLs of services that commands talk to: what may stand in one, and whether credentials travel openly."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit

from bindery.router.errors import InvalidInput


def service_url(url: str, *, what: str, where: str, example: str) -> tuple[SplitResult, str, int | None]:
    """The parts of an HTTP URL, with its host and port; raises InvalidInput, naming `where`, for one that is none."""
    parts = urlsplit(url.strip())
    try:
        port = parts.port
    except ValueError:
        raise InvalidInput("the port of the URL is no number", where=where, hint=example) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidInput(f"no URL of {what}", where=where, hint=example)
    return parts, parts.hostname, port


def leaves_this_machine(host: str) -> bool:
    """Whether what is sent to a host travels through a network."""
    if host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True
