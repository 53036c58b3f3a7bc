"""Texts that are not UTF-8: Arrow carries any bytes in a string column, Python's strings do not.

Spark casts binaries to strings without a look, and so may whoever writes a Parquet file. One such text must not
stop the batch that it stands in.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def rows_not_utf8(array: pa.Array) -> npt.NDArray[np.int64]:
    """The rows with a text that is not UTF-8, at any depth; ascending."""
    found: list[int] = []
    pending = [] if _is_utf8(array) else [(0, len(array))]
    while pending:
        first, last = pending.pop()
        if first == last or _is_utf8(array.take(pa.array(np.arange(first, last)))):
            continue
        if last - first == 1:
            found.append(first)
            continue
        middle = (first + last) // 2
        pending += [(middle, last), (first, middle)]
    return np.array(found, np.int64)


def repaired(array: pa.Array) -> pa.Array:
    """The array with U+FFFD in place of bytes that are not UTF-8."""
    kind = array.type
    mask = array.is_null() if array.null_count else None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = array.cast(pa.large_binary()).to_pylist()
        return pa.array([None if text is None else text.decode("utf-8", "replace") for text in texts], kind)
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([repaired(part) for part in array.flatten()], fields=list(kind), mask=mask)
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        offsets = pa.array(np.asarray(array.offsets.to_numpy()))  # a sliced array takes no mask
        if pa.types.is_list(kind):
            return pa.ListArray.from_arrays(offsets, repaired(array.values), type=kind, mask=mask)
        return pa.MapArray.from_arrays(offsets, repaired(array.keys), repaired(array.items), type=kind, mask=mask)
    return array


def repaired_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with U+FFFD in place of bytes that are not UTF-8."""
    return pa.RecordBatch.from_arrays([repaired(column) for column in batch.columns], schema=batch.schema)


def _is_utf8(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
