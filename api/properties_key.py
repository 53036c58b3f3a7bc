"""The last segment of a binding's address: its routing key and, with arguments, a hash of them.

"~" for the empty key without arguments, else the key form-encoded with "~" as %7E; with arguments "~" and
six characters follow, the same ones as the broker's.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from urllib.parse import quote, quote_plus, unquote_plus

from api.erlang_hash import arguments_hash
from api.errors import bad_request, object_not_found
from router.model import Binding
from router.values import Table


def properties_key(routing_key: str, arguments: Table) -> str:
    """The key of a binding among those of one source and destination."""
    quoted = quote_plus(routing_key, safe="").replace("~", "%7E")
    if not arguments:
        return quoted or "~"
    digest = arguments_hash(arguments).to_bytes(4)
    return f"{quoted}~{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def location(destination: str, key: str) -> str:
    """The address of a new binding, relative to the one it was posted to."""
    return f"{quote(destination, safe='')}/{quote_plus(key, safe='~')}"


def find(bindings: Iterable[Binding], segment: str) -> Binding:
    """The binding that a (decoded) path segment names; raises Refusal when there is none.

    The segment is the properties key, but a client that did not encode it once more names the same
    binding: the server decodes twice, as the broker does. A "~" is never guessed at: it is what tells
    the empty key and arguments from the text of a routing key.
    """
    keyed = [(properties_key(item.routing_key, item.arguments), item) for item in bindings]
    found = [item for key, item in keyed if key == segment]
    if not found and "~" not in segment:
        found = [item for key, item in keyed if unquote_plus(key) == unquote_plus(segment)]
    if not found:
        raise object_not_found()
    if len(found) > 1:
        raise bad_request("several bindings share this properties_key; percent-encode it")
    return found[0]
