"""Comparing Arrow arrays whose values Python cannot hold or compare."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def shown(array: pa.Array) -> Any:
    """Every value as text: NaN is NaN, and times out of Python's range are there too."""
    valid = array.is_valid().to_pylist()
    if pa.types.is_struct(array.type):
        members = zip((member.name for member in array.type), array.flatten(), strict=True)
        return valid, {name: shown(child) for name, child in members}
    if pa.types.is_map(array.type) or pa.types.is_list(array.type):
        return valid, [shown(row.values) for row in array if row.is_valid]
    return str(array.type), array.to_string(window=10_000)
