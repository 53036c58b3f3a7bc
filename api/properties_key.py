"""The last segment of a binding's address: its routing key and, with arguments, a hash of them.

"~" for the empty key without arguments, else the key form-encoded with "~" as %7E; with arguments "~" and
six characters follow, the same ones as the broker's.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from urllib.parse import quote, quote_plus, unquote_plus, unquote_to_bytes

from bindery.api.errors import bad_request, object_not_found
from bindery.router.erlang_hash import arguments_hash
from bindery.router.model import Binding
from bindery.router.values import Table


def properties_key(routing_key: str, arguments: Table) -> str:
    """The key of a binding among those of one source and destination."""
    quoted = quote_plus(routing_key, safe="").replace("~", "%7E")
    if not arguments:
        return quoted or "~"
    return f"{quoted}~{_digest(arguments)}"


def location(destination: str, key: str) -> str:
    """The address of a new binding, relative to the one it was posted to."""
    return f"{quote(destination, safe='')}/{quote_plus(key, safe='~')}"


def find(bindings: Iterable[Binding], segment: str) -> Binding:
    """The binding that a (decoded) path segment names; raises Refusal when there is none.

    The parts around "~" are decoded once more, as the broker does: a client that put the listed key into
    its address as it stands and one that encoded it name the same binding. A "~" itself is never guessed
    at: it is what tells the empty key and arguments from the text of a routing key.
    """
    quoted, _, digest = segment.partition("~")
    routing_key, digest = unquote_to_bytes(quoted.replace("+", " ")), unquote_plus(digest)
    found = [
        item for item in bindings if item.routing_key.encode() == routing_key and _digest(item.arguments) == digest
    ]
    if not found:
        raise object_not_found()
    if len(found) > 1:
        raise bad_request("several bindings share this properties_key, as their arguments have the same hash")
    return found[0]


def _digest(arguments: Table) -> str:
    """The hash of arguments in six characters; none for no arguments."""
    if not arguments:
        return ""
    return base64.urlsafe_b64encode(arguments_hash(arguments).to_bytes(4)).decode().rstrip("=")
