"""Arguments of exchanges, queues and bindings: from JSON to typed values and back.

Arguments are typed values like any others, but for filter sets and schemas: their objects are plain ones
(`{"symbol": "x"}` is a map with one key there, not a typed value), so they are kept as they were
written, and only `bindery.router.filters.sets` and `.schemas` interpret them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bindery.router.errors import InvalidInput
from bindery.router.values import MAX_DEPTH, Table, Value, decode, encode

#: Arguments that hold a filter set or a schema when they hold an object or array.
PLAIN_ARGUMENTS: Final = frozenset({"x-filters", "x-queue-filter", "x-payload-schema"})
#: A nested value may take two levels of JSON for one of its own: `{"list": […]}`.
_PLAIN_DEPTH: Final = 2 * MAX_DEPTH + 10


def decode_arguments(raw: Any, *, where: str = "arguments") -> Table:
    """The arguments that a JSON object states; null stands for a void argument.

    Raises InvalidInput naming the argument for what is no argument.
    """
    if not isinstance(raw, Mapping):
        raise InvalidInput("arguments are an object", where=where)
    return Table(
        {
            key: (
                decode_plain(value, where=f"{where}.{key}")
                if key in PLAIN_ARGUMENTS and isinstance(value, Mapping | list)
                else decode(value, where=f"{where}.{key}")
            )
            for key, value in raw.items()
        }
    )


def encode_arguments(arguments: Table) -> dict[str, Any]:
    """The JSON object of arguments; `decode_arguments` gives them back."""
    return {key: encode_plain(value) if key in PLAIN_ARGUMENTS else encode(value) for key, value in arguments.items()}


def decode_plain(raw: Any, *, where: str = "value", depth: int = 0) -> Value:
    """A JSON value taken as it stands: every object becomes a table, whatever its keys."""
    if depth > _PLAIN_DEPTH:
        raise InvalidInput(f"nested deeper than {_PLAIN_DEPTH} levels", where=where)
    match raw:
        case None | bool() | int() | float() | str():
            return raw
        case list():
            return tuple(decode_plain(item, where=f"{where}[{n}]", depth=depth + 1) for n, item in enumerate(raw))
        case dict():
            return Table(
                {key: decode_plain(item, where=f"{where}.{key}", depth=depth + 1) for key, item in raw.items()}
            )
    raise InvalidInput(f"a {type(raw).__name__} is not a JSON value", where=where)


def encode_plain(value: Value) -> Any:
    """The JSON value that `decode_plain` has read."""
    match value:
        case tuple():
            return [encode_plain(item) for item in value]
        case Table():
            return {key: encode_plain(item) for key, item in value.items()}
    return encode(value)
