"""Changing a topology: declarations, bindings and deletions over a copy, each whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast

from bindery.router.compat import SPECIFICATION, mode_named
from bindery.router.declarations.filter_limits import check_filter_limits, filter_limits, stored_limits
from bindery.router.declarations.payloads import at, check_header_criteria, check_header_meaning, check_policy_payload
from bindery.router.declarations.rules import (
    binding_filters,
    check_binding_arguments,
    check_declarable,
    check_deletable,
    check_equivalent,
    check_exchange_arguments,
    check_name,
    check_queue_arguments,
    divert_filter,
    queue_filter,
    transformation,
)
from bindery.router.errors import AccessRefused, InUse, InvalidDeclaration, NotFound
from bindery.router.exchanges import EXCHANGE_TYPES as MEANINGS
from bindery.router.freshness import check_freshness
from bindery.router.model.objects import (
    EXCHANGE_TYPES,
    MAX_ID,
    MAX_NAME_BYTES,
    NO_QUEUE_ID,
    TRANSFORM,
    Binding,
    Divert,
    Exchange,
    Object,
    ObjectKey,
    Queue,
    Sequence,
    Setting,
    Vhost,
    is_predeclared,
    object_key,
    predeclared_exchanges,
)
from bindery.router.model.topology import Topology, binding_end
from bindery.router.policies import POLICY, Policies
from bindery.router.queue_limits import check_limits
from bindery.router.values import Value

#: What two declarations of a divert must have in common.
_OF_DIVERTS: Final = ("source", "destination", "filter", "exclusive", "routing_key", "transform")


class TopologyEditor:
    """Applies operations to a copy of a topology; `topology` is the state so far.

    Each operation is atomic: it raises an error of router.errors before anything has changed, or
    it is done whole, cascades included.
    """

    def __init__(self, base: Topology) -> None:
        self.topology = replace(base)
        self.changes: dict[ObjectKey, Object | None] = {}
        #: Keys dropped on the way, also of objects that were declared again later.
        self.dropped: set[ObjectKey] = set()
        self._owned: set[str] = set()
        self._owned_ends: set[tuple[str, ...]] = set()
        self._known_policies: Policies | None = None

    # -- vhosts and settings ------------------------------------------------------------------------

    def declare_vhost(self, vhost: Vhost) -> bool:
        """Create or update a vhost; True when it is new.

        A compatibility mode that is not stated stays as it is; `specification` takes it away.
        """
        check_name(vhost.name, "vhost")
        created = vhost.name not in self.topology.vhosts
        self._put("vhosts", vhost.name, self._with_mode(vhost))
        if created:
            for key, exchange in predeclared_exchanges(vhost.name).items():
                self._own("exchanges")[key] = exchange
        return created

    def _with_mode(self, vhost: Vhost) -> Vhost:
        """A vhost with the mode that it is to have; raises InvalidDeclaration, FilterError for one it cannot have."""
        present = self.topology.vhosts.get(vhost.name)
        before = None if present is None else present.compat
        mode = before if vhost.compat is None else None if vhost.compat == SPECIFICATION else vhost.compat
        if mode is not None:
            mode_named(mode, where=f"vhost {vhost.name!r}: compat")
        changed = replace(vhost, compat=mode)
        if mode != before and present is not None:
            after = Policies(replace(self.topology, vhosts={**self.topology.vhosts, vhost.name: changed}))
            self._check_reading(vhost.name, self._policies, after)
        return changed

    def delete_vhost(self, name: str) -> None:
        """Delete a vhost with everything in it."""
        self.topology.vhost(name)
        exchanges, queues, bindings, diverts = self.topology.in_vhost(name)
        for divert in diverts:
            self._drop("diverts", (name, divert.name), divert)
        for binding in bindings:
            self._remove_binding(binding)
        for queue in queues:
            self._drop("queues", (name, queue.name), queue)
        for exchange in exchanges:
            # auto-delete may have taken it with its last binding
            self._own("exchanges").pop((name, exchange.name), None)
            if not is_predeclared(exchange.name):
                self.changes[object_key(exchange)] = None
        for key, setting in list(self.topology.settings.items()):
            if setting.vhost == name:
                self._drop("settings", key, setting)
        self._drop("vhosts", name, self.topology.vhosts[name])

    def put_setting(self, setting: Setting) -> bool:
        """Create or replace a setting; True when it is new."""
        if setting.vhost:
            self.topology.vhost(setting.vhost)
        check_filter_limits(setting)
        check_policy_payload(setting)
        self._check_payloads(object_key(setting), setting)
        created = object_key(setting) not in self.topology.settings
        self._put("settings", object_key(setting), setting)
        return created

    def delete_setting(self, kind: str, vhost: str, name: str) -> None:
        """Delete a setting; raises NotFound."""
        try:
            setting = self.topology.settings[kind, vhost, name]
        except KeyError:
            raise NotFound(f"no {kind} {name!r} in vhost {vhost!r}", where=kind) from None
        self._check_payloads((kind, vhost, name), None)
        self._drop("settings", (kind, vhost, name), setting)

    @property
    def _policies(self) -> Policies:
        """The policies so far, which most operations leave alone."""
        if self._known_policies is None:
            self._known_policies = Policies(self.topology)
        return self._known_policies

    def _check_payloads(self, key: ObjectKey, setting: Setting | None) -> None:
        """Refuse a change of a policy under which a filter could not be read any more, or a key means something else.

        Raises FilterError, InvalidDeclaration.
        """
        kind, vhost, _ = key
        if kind != POLICY:
            return
        settings = {name: item for name, item in self.topology.settings.items() if name != key}
        if setting is not None:
            settings[key] = setting
        before, after = self._policies, Policies(replace(self.topology, settings=settings))
        if vhost in before.declaring | after.declaring:
            self._check_reading(vhost, before, after)

    def _check_reading(self, vhost: str, before: Policies, after: Policies) -> None:
        """Refuse what changes how filters of a vhost are read when one could not be read any more.

        Raises FilterError, InvalidDeclaration.
        """
        exchanges, queues, *_ = self.topology.in_vhost(vhost)
        for exchange in exchanges:
            if before.reading(exchange) != after.reading(exchange):
                self._check_filters_of(exchange, before.payload(exchange), after)
        for queue in queues:
            if before.reading(queue) != after.reading(queue):
                queue_filter(queue, at(stored_limits(self.topology), queue, after))

    # -- exchanges and queues -----------------------------------------------------------------------

    def declare_exchange(
        self, exchange: Exchange, *, overwrite: bool = False, max_name_bytes: int = MAX_NAME_BYTES
    ) -> bool:
        """Declare an exchange; True when it is new, False when it was there with equal properties.

        With `overwrite` other properties replace those that are there (import with overwrite only).
        Brokers accept longer names over HTTP than in AMQP frames: `max_name_bytes`.
        """
        self.topology.vhost(exchange.vhost)
        if exchange.name == "" or not is_predeclared(exchange.name):
            check_declarable(exchange.name, "exchange", max_bytes=max_name_bytes)
        if exchange.type not in EXCHANGE_TYPES:
            raise InvalidDeclaration(
                f"unknown exchange type {exchange.type!r}",
                where=f"exchange {exchange.name!r}: type",
                hint="types: " + ", ".join(EXCHANGE_TYPES),
            )
        check_exchange_arguments(exchange)
        present = self.topology.exchanges.get((exchange.vhost, exchange.name))
        if present is not None and (not overwrite or is_predeclared(exchange.name)):
            check_equivalent("exchange", present, exchange, ("type", "durable", "auto_delete", "internal"))
            return False
        if present is not None:
            if present.type != exchange.type:
                for binding in self.topology.bindings_from(exchange.vhost, exchange.name):
                    MEANINGS[exchange.type].check_binding(binding)
            if self._policies.reading(present) != self._policies.reading(exchange):
                self._check_filters_of(exchange, self._policies.payload(present), self._policies)
        self._put("exchanges", (exchange.vhost, exchange.name), exchange)
        return present is None

    def _check_filters_of(self, exchange: Exchange, before: Value, policies: Policies) -> None:
        """Refuse an exchange that does not go with what leads away from it; raises FilterError, InvalidDeclaration.

        `before` is what it said of bodies, `policies` are those under which it says something else.
        """
        limits = at(stored_limits(self.topology), exchange, policies)
        for binding in self.topology.bindings_from(exchange.vhost, exchange.name):
            check_header_meaning(binding, exchange, before=before, after=policies.payload(exchange))
            check_header_criteria(binding, exchange, limits.text.payload)
            binding_filters(binding, owner=None, limits=limits)
            if TRANSFORM in binding.arguments:
                transformation(binding, limits)
        for divert in self.topology.diverts_of(exchange.vhost, exchange.name):
            if divert.source == exchange.name:
                divert_filter(divert, limits)
                if divert.transform:
                    transformation(divert, limits)

    def declare_queue(self, queue: Queue, *, overwrite: bool = False) -> bool:
        """Declare a queue; True when it is new. See declare_exchange for `overwrite`.

        The id of the argument is ignored: the queue that is there keeps its own, and a new one is given one.
        """
        self.topology.vhost(queue.vhost)
        check_declarable(queue.name, "queue")
        check_queue_arguments(queue, filter_limits(self.topology), self._policies)
        present = self.topology.queues.get((queue.vhost, queue.name))
        if present is not None and not overwrite:
            check_equivalent("queue", present, queue, ("durable", "auto_delete"))
            return False
        check_limits(queue)
        check_freshness(queue)
        self._put_queue(replace(queue, id=NO_QUEUE_ID if present is None else present.id))
        return present is None

    def give_queue_ids(self) -> None:
        """Give an id to each queue that has none: an older version declared it."""
        for key in sorted(key for key, queue in self.topology.queues.items() if queue.id == NO_QUEUE_ID):
            self._put_queue(self.topology.queues[key])

    def delete_exchange(self, vhost: str, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange with every binding and divert from and to it."""
        check_deletable(name, "exchange")
        exchange = self.topology.exchange(vhost, name)
        if if_unused and self.topology._from.get((vhost, name)):
            raise InUse(f"exchange {name!r} in vhost {vhost!r} in use", where="exchange")
        self._remove_exchange(exchange)

    def delete_queue(self, vhost: str, name: str) -> None:
        """Delete a queue with every binding to it; auto-delete exchanges may follow."""
        check_deletable(name, "queue")
        queue = self.topology.queue(vhost, name)
        self._drop("queues", (vhost, name), queue)
        for binding in self.topology.bindings_to(vhost, "queue", name):
            self._remove_binding(binding)

    # -- bindings and diverts -----------------------------------------------------------------------

    def bind(self, binding: Binding, *, max_key_bytes: int = MAX_NAME_BYTES) -> tuple[Binding, bool]:
        """Bind; gives the stored binding and whether it is new. The id of the argument is ignored.

        Binding twice is idempotent. Brokers accept longer keys over HTTP than in AMQP frames: `max_key_bytes`.
        """
        self.topology.vhost(binding.vhost)
        if binding.source == "":
            raise AccessRefused(
                "the default exchange cannot be bound",
                where="source",
                hint="each queue is already bound to it under its own name",
            )
        source = self.topology.exchange(binding.vhost, binding.source)
        if binding.destination_type == "queue":
            self.topology.queue(binding.vhost, binding.destination)
        elif binding.destination_type == "exchange":
            if binding.destination == "":
                raise AccessRefused("the default exchange cannot be bound to", where="destination")
            self.topology.exchange(binding.vhost, binding.destination)
        else:
            raise InvalidDeclaration(
                f"destination_type is {binding.destination_type!r}", where="destination_type", hint="queue or exchange"
            )
        check_name(binding.routing_key, "routing_key", empty=True, max_bytes=max_key_bytes)
        check_binding_arguments(binding, source, filter_limits(self.topology), self._policies)
        present = self.topology.find_binding(binding)
        if present is not None:
            return present, False
        stored = replace(binding, id=self._new_id())
        self._put("bindings", stored.id, stored)
        self._own("_ids")[stored.identity] = stored.id
        self._own_end("_from", (stored.vhost, stored.source))[stored.id] = None
        self._own_end("_to", binding_end(stored))[stored.id] = None
        return stored, True

    def unbind(self, binding: Binding) -> bool:
        """Remove the binding of that identity; False when there is none. Auto-delete may follow."""
        if binding.source == "":
            raise AccessRefused("the default exchange cannot be unbound", where="source")
        present = self.topology.find_binding(binding)
        if present is None:
            return False
        self._remove_binding(present)
        return True

    def declare_divert(self, divert: Divert, *, overwrite: bool = False) -> tuple[Divert, bool]:
        """Declare a divert; gives the stored divert and whether it is new. The argument's id is ignored."""
        self.topology.vhost(divert.vhost)
        check_name(divert.name, "divert")
        for end in ("source", "destination"):
            name = getattr(divert, end)
            if name == "":
                raise AccessRefused(f"the default exchange cannot be the {end} of a divert", where=end)
            self.topology.exchange(divert.vhost, name)
        if divert.routing_key is not None:
            check_name(divert.routing_key, "routing_key", empty=True)
        source = self.topology.exchange(divert.vhost, divert.source)
        there = at(filter_limits(self.topology), source, self._policies)
        divert_filter(divert, there)
        if divert.transform:
            transformation(divert, there)
        present = self.topology.diverts.get((divert.vhost, divert.name))
        if present is not None and replace(divert, id=present.id) == present:
            return present, False
        if present is not None and not overwrite:
            check_equivalent("divert", present, divert, _OF_DIVERTS)
        stored = replace(divert, id=self._new_id() if present is None else present.id)
        self._put("diverts", (divert.vhost, divert.name), stored)
        return stored, present is None

    def delete_divert(self, vhost: str, name: str) -> None:
        """Delete a divert; raises NotFound."""
        self._drop("diverts", (vhost, name), self.topology.divert(vhost, name))

    # -- states that were validated before -----------------------------------------------------------

    def replay(self, changes: Mapping[ObjectKey, Object | None]) -> None:
        """Take over changes that an editor has validated before, unchecked: they lead to a whole state.

        None deletes. Of a sequence only an advance is taken over: no lineage id is ever reused.
        """
        for key, item in changes.items():
            present = self.topology.get(key)
            if isinstance(present, Binding):
                self._own("_ids").pop(present.identity)
                self._own_end("_from", (present.vhost, present.source)).pop(present.id)
                self._own_end("_to", binding_end(present)).pop(present.id)
            match item:
                case None:
                    if present is not None:
                        self._drop(*_place(present), present)
                    if isinstance(present, Vhost):
                        for predeclared in predeclared_exchanges(present.name):
                            self._own("exchanges").pop(predeclared, None)
                case Sequence():
                    self._advance(item)
                case _:
                    self._put(*_place(item), item)
            if isinstance(item, Binding):
                self._own("_ids")[item.identity] = item.id
                self._own_end("_from", (item.vhost, item.source))[item.id] = None
                self._own_end("_to", binding_end(item))[item.id] = None
            elif isinstance(item, Vhost):
                for predeclared, exchange in predeclared_exchanges(item.name).items():
                    self._own("exchanges").setdefault(predeclared, exchange)

    # -- cascades and copy on write -----------------------------------------------------------------

    def _remove_exchange(self, exchange: Exchange) -> None:
        vhost, name = exchange.vhost, exchange.name
        self._drop("exchanges", (vhost, name), exchange)
        for divert in self.topology.diverts_of(vhost, name):
            self._drop("diverts", (vhost, divert.name), divert)
        for binding in self.topology.bindings_from(vhost, name):
            self._remove_binding(binding)
        for binding in self.topology.bindings_to(vhost, "exchange", name):
            self._remove_binding(binding)

    def _remove_binding(self, binding: Binding) -> None:
        if binding.id not in self.topology.bindings:
            return  # a cascade came by here already
        self._drop("bindings", binding.id, binding)
        self._own("_ids").pop(binding.identity)
        self._own_end("_to", binding_end(binding)).pop(binding.id)
        remaining = self._own_end("_from", (binding.vhost, binding.source))
        remaining.pop(binding.id)
        source = self.topology.exchanges.get((binding.vhost, binding.source))
        if source is not None and source.auto_delete and not remaining:
            self._remove_exchange(source)

    def _put_queue(self, queue: Queue) -> None:
        """Put a queue, with a new id unless it has one."""
        if queue.id == NO_QUEUE_ID:
            number = _checked(self.topology.next_queue_id, "queue")
            self._advance(replace(self.topology.sequence, next_queue_id=number + 1))
            queue = replace(queue, id=number)
        self._put("queues", (queue.vhost, queue.name), queue)

    def _new_id(self) -> int:
        number = _checked(self.topology.next_id, "binding")
        self._advance(replace(self.topology.sequence, next_id=number + 1))
        return number

    def _advance(self, to: Sequence) -> None:
        """Go on with the ids after those that have been given out; never back."""
        before, topology = self.topology.sequence, self.topology
        topology.next_id = max(before.next_id, to.next_id)
        topology.next_queue_id = max(before.next_queue_id, to.next_queue_id)
        if topology.sequence != before:
            self.changes[object_key(before)] = topology.sequence

    def _own(self, attribute: str) -> dict[Any, Any]:
        if attribute not in self._owned:
            setattr(self.topology, attribute, dict(getattr(self.topology, attribute)))
            self._owned.add(attribute)
        return cast(dict[Any, Any], getattr(self.topology, attribute))

    def _own_end(self, attribute: str, end: tuple[str, ...]) -> dict[int, None]:
        ends = self._own(attribute)
        if (attribute, *end) not in self._owned_ends:
            ends[end] = dict(ends.get(end, ()))
            self._owned_ends.add((attribute, *end))
        return cast(dict[int, None], ends[end])

    def _put(self, attribute: str, key: Any, item: Object) -> None:
        if attribute in ("settings", "vhosts"):
            self._known_policies = None
        self._own(attribute)[key] = item
        self.changes[object_key(item)] = item

    def _drop(self, attribute: str, key: Any, item: Object) -> None:
        if attribute in ("settings", "vhosts"):
            self._known_policies = None
        self._own(attribute).pop(key)
        self.changes[object_key(item)] = None
        self.dropped.add(object_key(item))


def _checked(number: int, where: str) -> int:
    """A lineage id, unless there are no more."""
    if number > MAX_ID:
        raise InvalidDeclaration("all lineage ids of this installation have been given out", where=where)
    return number


def _place(item: Object) -> tuple[str, Any]:
    """The attribute of a topology that holds an object, and its key there."""
    match item:
        case Vhost():
            return "vhosts", item.name
        case Exchange():
            return "exchanges", (item.vhost, item.name)
        case Queue():
            return "queues", (item.vhost, item.name)
        case Binding():
            return "bindings", item.id
        case Divert():
            return "diverts", (item.vhost, item.name)
        case Setting():
            return "settings", object_key(item)
    raise TypeError(f"{type(item).__name__} has no place of its own")
