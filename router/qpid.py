"""Attributes of exchanges as Qpid Broker-J names them (§4.6.4), under the names used here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bindery.router.arguments import decode_arguments
from bindery.router.model import ALTERNATE_BINDING, UNROUTABLE_BEHAVIOUR
from bindery.router.values import Table

#: Qpid's attribute -> the argument that means the same.
ATTRIBUTES: Final[Mapping[str, str]] = {
    "alternateBinding": ALTERNATE_BINDING,
    "unroutableMessageBehaviour": UNROUTABLE_BEHAVIOUR,
}


def exchange_arguments(raw: Any, beside: Mapping[str, Any], *, where: str, arguments_at: str) -> Table:
    """The arguments of an exchange from its JSON; attributes of Qpid may stand among them or `beside` them.

    Where an attribute is stated under both names, ours counts; of an alternate binding only the destination
    does. Raises InvalidInput naming the place: `where` is that of the exchange, `arguments_at` of its arguments.
    """
    arguments = dict(decode_arguments(raw, where=arguments_at))
    stated = {name: beside[name] for name in ATTRIBUTES if beside.get(name) is not None}
    arguments |= decode_arguments(stated, where=where)
    for attribute, name in ATTRIBUTES.items():
        if attribute not in arguments:
            continue
        value = arguments.pop(attribute)
        if name == ALTERNATE_BINDING and isinstance(value, Table) and "destination" in value:
            value = Table({"destination": value["destination"]})
        arguments.setdefault(name, value)
    return Table(arguments)
