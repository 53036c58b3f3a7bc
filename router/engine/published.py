"""Reading the publish fields of a batch: exchange numbers and sets of routing keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.matching.matcher import KeySets
from bindery.router.matching.texts import Int32s, Int64s, Texts, TextTable


def exchange_numbers(batch: pa.RecordBatch, names: TextTable) -> Int32s:
    """The number of the exchange that each message was published to, -1 for an unknown one."""
    encoded = _texts(batch.column("exchange")).dictionary_encode()
    codes = encoded.indices.to_numpy()
    known = names.find(Texts.of(encoded.dictionary), np.arange(len(encoded.dictionary), dtype=np.int64))
    return known[codes] if len(known) else np.zeros(0, np.int32)


def read_key_sets(batch: pa.RecordBatch, replacements: Sequence[str]) -> tuple[KeySets, Int32s, Int32s]:
    """The distinct key sets, the set of each message, and the set of each replacement key.

    A message's keys are its routing key, cc and bcc (AMQP 0-9-1 sender-selected distribution); order and
    repetition play no part.
    """
    routing_keys = _texts(batch.column("routing_key"))
    further = [_members(batch.column(name)) for name in ("cc", "bcc")]
    encoded = pa.concat_arrays(
        [routing_keys, *(values for values, _ in further), pa.array(list(replacements), pa.string())]
    ).dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int32)
    keys = Texts.of(encoded.dictionary)
    rows = len(routing_keys)
    of_message = codes[:rows].copy()
    of_replacement = codes[len(codes) - len(replacements) :]
    owners = np.concatenate([owner for _, owner in further])
    offsets = np.arange(len(keys) + 1, dtype=np.int64)
    members = np.arange(len(keys), dtype=np.int32)
    if len(owners):
        extra = codes[rows : len(codes) - len(replacements)]
        offsets, members = _add_sets(of_message, owners, extra, offsets, members)
    return KeySets(keys, offsets, members), of_message, of_replacement


def _add_sets(
    of_message: Int32s, owners: Int64s, extra: Int32s, offsets: Int64s, members: Int32s
) -> tuple[Int64s, Int32s]:
    """Number the sets of messages that carry further keys, writing them to `of_message`."""
    base = len(offsets) - 1
    rows, place = np.unique(owners, return_inverse=True)
    pairs = np.unique(
        np.concatenate([place, np.arange(len(rows))]) * base
        + np.concatenate([extra, of_message[rows]]).astype(np.int64)
    )
    owner, key = np.divmod(pairs, base)
    bounds = np.searchsorted(owner, np.arange(len(rows) + 1))
    lengths = np.diff(bounds)
    all_offsets, all_members, count = [offsets], [members], base
    for length in np.unique(lengths):
        chosen = np.flatnonzero(lengths == length)
        table = key[bounds[chosen][:, None] + np.arange(length)]
        if length == 1:  # the further keys only repeat the routing key
            of_message[rows[chosen]] = table[:, 0]
            continue
        distinct, number = np.unique(table, axis=0, return_inverse=True)
        of_message[rows[chosen]] = count + number.reshape(-1)
        all_members.append(distinct.reshape(-1).astype(np.int32))
        all_offsets.append(all_offsets[-1][-1] + length * np.arange(1, len(distinct) + 1))
        count += len(distinct)
    return np.concatenate(all_offsets).astype(np.int64), np.concatenate(all_members)


def _texts(array: pa.Array) -> pa.Array:
    if array.type != pa.string():
        array = array.cast(pa.string())
    return pc.fill_null(array, "") if array.null_count else array


def _members(array: pa.Array) -> tuple[pa.Array, Int64s]:
    """The non-null members of a list column and the row of each."""
    if array.null_count == len(array):
        return pa.array([], pa.string()), np.zeros(0, np.int64)
    values = pc.list_flatten(array)
    owners = pc.list_parent_indices(array)
    if values.null_count:
        held = pc.is_valid(values)
        values, owners = values.filter(held), owners.filter(held)
    return _texts(values), owners.to_numpy().astype(np.int64)
