"""What a caller needs for a change of many objects: for each what its own operation needs."""

from __future__ import annotations

from typing import Final

from bindery.api.auth import Identity
from bindery.router.definitions import protection_key
from bindery.router.limits import LIMITS_KIND
from bindery.router.model import (
    ALTERNATE_BINDING,
    ALTERNATE_EXCHANGE,
    Binding,
    Divert,
    Exchange,
    ObjectKey,
    Queue,
    Setting,
    Topology,
    Vhost,
)
from bindery.router.model.objects import GLOBAL_PARAMETER
from bindery.router.values import Table
from bindery.store.history import ObjectChange
from bindery.store.plans import Plan

#: Kinds of settings that only administrators set: the protection of a vhost among them.
_OF_ADMINISTRATORS: Final = frozenset({GLOBAL_PARAMETER, LIMITS_KIND, protection_key("")[0]})


def check_declare(user: Identity, exchange: Exchange) -> None:
    """AMQP 0-9-1 access: configure the exchange; with an alternate, read it and write the alternate."""
    user.check("configure", exchange.vhost, exchange.name)
    binding = exchange.arguments.get(ALTERNATE_BINDING)
    alternates = (
        exchange.arguments.get(ALTERNATE_EXCHANGE),
        binding.get("destination") if isinstance(binding, Table) else None,
    )
    for alternate in alternates:
        if isinstance(alternate, str):
            user.check("read", exchange.vhost, exchange.name)
            user.check("write", exchange.vhost, alternate)


def check_divert(user: Identity, divert: Divert) -> None:
    """A divert acts like a binding of the destination that also alters the source."""
    user.check("configure", divert.vhost, divert.source)
    user.check("read", divert.vhost, divert.source)
    user.check("write", divert.vhost, divert.destination)


def check_binding_key(user: Identity, topology: Topology, binding: Binding) -> None:
    """Refuse a caller whose topic permissions do not let them read that key from a topic exchange."""
    source = topology.exchanges.get((binding.vhost, binding.source))
    if source is not None and source.type == "topic":
        user.check_topic("read", binding.vhost, binding.source, binding.routing_key)


def check_plan(user: Identity, plan: Plan) -> None:
    """Refuse a caller who might not make every change of a plan by the operation of its own (401)."""
    gone = {one.key for one in plan.changes if one.after is None}
    for vhost, name in plan.emptied:
        user.check("configure", vhost, name)
    for one in plan.changes:
        _check(user, one, gone, plan.editor.topology)


def _check(user: Identity, one: ObjectChange, gone: set[ObjectKey], after: Topology) -> None:
    item = one.before if one.after is None else one.after
    match item:
        case Vhost():
            user.require("administrator")
        case Setting():
            user.require("administrator" if item.kind in _OF_ADMINISTRATORS else "policymaker")
        case _ if ("vhost", one.key[1], "") in gone:
            return  # what is in a vhost goes with it
        case Queue():
            user.check("configure", item.vhost, item.name)
        case Exchange() if one.after is None:
            user.check("configure", item.vhost, item.name)
        case Exchange():
            check_declare(user, item)
        case Binding() | Divert() if one.after is None and _goes_with_an_end(item, gone):
            return
        case Binding():
            user.check("write", item.vhost, item.destination)
            user.check("read", item.vhost, item.source)
            if one.after is not None:
                check_binding_key(user, after, item)
        case Divert() if one.after is None:
            user.check("configure", item.vhost, item.source)
        case Divert():
            check_divert(user, item)


def _goes_with_an_end(link: Binding | Divert, gone: set[ObjectKey]) -> bool:
    kind = link.destination_type if isinstance(link, Binding) else "exchange"
    return ("exchange", link.vhost, link.source) in gone or (kind, link.vhost, link.destination) in gone
