# ruff: noqa: D102  # the methods of the builder are named after the grammar rules that they serve
"""Properties and functions in SQL filters of Azure Service Bus.

Source: "Subscription rule SQL filter syntax" of the documentation of Service Bus. Names are compared in any case
("Considerations": property names are case-insensitive); without a scope they are user's ("Arguments"). A system
property that does not exist is an error ("Property evaluation semantics"): all are known when a filter is defined,
so that it is one of its definition.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from lark import Token, Transformer
from lark.visitors import v_args

from bindery.router.errors import FilterError
from bindery.router.filters.ast import Field, Literal, Node
from bindery.router.filters.dialect import Dialect
from bindery.router.filters.fields import SERVICE_BUS_NAMES, in_any_case
from bindery.router.filters.parts import Part
from bindery.router.spelling import did_you_mean, nearest

#: How the name of a system property is written in a filter.
SYSTEM: Final = "sys."
_SYSTEM_FIELDS: Final = {name.removeprefix(SYSTEM).lower(): ref for name, ref in SERVICE_BUS_NAMES.items()}
#: System properties that the broker sets or keeps for itself, and what to do instead.
_NO_COUNTERPART: Final = {
    "timetolive": "it is a span of time in Service Bus; the time to live of a queue is its argument x-message-ttl",
    "expiresatutc": "it follows from the time to live and the broker's clock",
    "deliverycount": "a message that is routed has not been delivered yet",
    "locktoken": "it belongs to a delivery, not to a message",
    "lockeduntilutc": "it belongs to a delivery, not to a message",
    "size": "a filter does not see how large a message is",
    "state": "messages have no states here",
}
_PROPERTY: Final = ("property", "p")


@v_args(inline=True)
class ServiceBusRules(Transformer[Token, Node]):
    """The rules of `service_bus.lark`, for the builder of all languages."""

    text: str
    dialect: Dialect

    def user_property(self, token: Any) -> Part:
        return Part(Field(in_any_case(_name(token))), token.start_pos, token.end_pos)

    def scoped_property(self, scope: Token, token: Any) -> Part:
        start, end = scope.start_pos or 0, token.end_pos
        name = _name(token)
        if scope.lower() == "user":
            return Part(Field(in_any_case(name)), start, end)
        if scope.lower() != "sys":
            hint = f"scopes are sys and user; a property with a dot in its name is written [{scope}.{name}]"
            self._refused(f"{str(scope)!r} is no scope", start, end, hint)
        ref = _SYSTEM_FIELDS.get(name.lower())
        if ref is None:
            self._no_system_property(name, start, end)
        return Part(Field(ref), start, end)

    def service_bus_call(self, function: Token, argument: Part | None = None) -> Part:
        start = function.start_pos or 0
        end = (function.end_pos or 0) if argument is None else argument.end + 1
        name = function.lower()
        if name == "newid" and argument is None:
            self._refused("newid() differs in each evaluation", start, end, "compare a property of the message instead")
        if name not in _PROPERTY:
            self._refused(f"no function is called {str(function)!r}", start, end, "functions: property(name), p(name)")
        node = None if argument is None else argument.node
        if not isinstance(node, Literal) or not isinstance(node.value, str):
            self._refused(f"{function} takes the name of a property, a string", start, end, "write property('name')")
        return Part(Field(in_any_case(node.value)), start, end)

    def _no_system_property(self, name: str, start: int, end: int) -> NoReturn:
        reason = _NO_COUNTERPART.get(name.lower())
        if reason is not None:
            self._refused(f"the system property {name} has no counterpart", start, end, reason)
        known = [one.removeprefix(SYSTEM) for one in SERVICE_BUS_NAMES]
        hint = did_you_mean(nearest(name, known), "system properties: " + ", ".join(known), quoted=False)
        self._refused(f"no system property is called {name!r}", start, end, hint)

    def _refused(self, message: str, start: int, end: int, hint: str | None) -> NoReturn:
        raise FilterError(message, text=self.text, offset=start, length=end - start, hint=hint)


def _name(token: Any) -> str:
    return str(token) if token.type == "NAME" else token.constant
