"""The slow, obvious way of hash exchanges: a table of buckets, straight from the rules of docs/routing.md.

It is a part of `bindery.router.reference` and shares nothing with the exchange types but Erlang's hash of one value.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bindery.router.erlang_hash import atom_hash, field_hash, keys_hash, text_hash
from bindery.router.jump_hash import jump
from bindery.router.message import Message
from bindery.router.model import HASH_HEADER, HASH_PROPERTY, Binding, Exchange
from bindery.router.values import Timestamp

HASHING = ("x-consistent-hash", "x-modulus-hash")


def hashed_binding(
    exchange: Exchange, bindings: Sequence[Binding], keys: Collection[str], message: Message
) -> Binding | None:
    """The one binding of a hash exchange that a message with these keys takes; None when there is no binding."""
    published = [message.routing_key, *message.cc, *message.bcc]
    listed = published if set(published) == set(keys) else list(keys)
    if exchange.type == "x-modulus-hash":
        in_order = sorted(bindings, key=lambda b: (b.routing_key.encode(), b.destination_type, b.destination.encode()))
        return in_order[keys_hash(listed) % 2**27 % len(in_order)] if in_order else None
    buckets: list[Binding] = []
    for binding in sorted(bindings, key=lambda one: one.id):
        if all((one.destination_type, one.destination) != (binding.destination_type, binding.destination)
               for one in buckets):  # fmt: skip
            buckets += [binding] * int(binding.routing_key)
    return buckets[jump(_hash(exchange, listed[0], message), len(buckets))] if buckets else None


def _hash(exchange: Exchange, key: str, message: Message) -> int:
    header, stated = exchange.arguments.get(HASH_HEADER), exchange.arguments.get(HASH_PROPERTY)
    if isinstance(header, str):
        held = message.application_properties
        return field_hash(held[header]) if header in held else atom_hash("undefined")
    if not isinstance(stated, str):
        return text_hash(key)
    value = message.properties.get("creation_time" if stated == "timestamp" else stated)
    if isinstance(value, Timestamp):
        return text_hash(str(value.ms // 1000))
    if value is None:
        return atom_hash("undefined")
    return text_hash(value if isinstance(value, bytes) else str(value))
