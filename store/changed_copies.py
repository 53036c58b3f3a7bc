"""Copies that transformations have changed, among the rows of tables: how they are numbered.

The copies of a message carry its number in `routing.seq`. A copy in another form has a number of its own below zero,
from which that of the message follows: so every row of a queue has an identity of its own, the same after a replay,
and a row tells by itself whether it is a message as it was published.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindery.router.engine import Deliveries

#: The numbers of messages in a batch are below it.
_NUMBERS: Final = 1 << 53

Numbers = npt.NDArray[np.int64]


def copy_numbers(seq: Numbers, form: npt.NDArray[np.integer]) -> Numbers:
    """The numbers of copies in other forms: of messages with these numbers, the forms counted from 1."""
    found: Numbers = -1 - seq - (form.astype(np.int64) - 1) * _NUMBERS
    return found


def message_number(seq: int) -> int:
    """The number of the message that a row is a copy of."""
    return seq if seq >= 0 else (-1 - seq) % _NUMBERS


def as_published(seq: Numbers) -> npt.NDArray[np.bool_]:
    """Which rows hold the message as it was published."""
    return seq >= 0


def with_forms(batch: pa.RecordBatch, deliveries: Deliveries, *, number: str) -> tuple[pa.RecordBatch, pa.ListArray]:
    """A batch with the forms of its messages behind it, numbered in a column `number`, and the lineage of its rows."""
    forms = deliveries.forms
    if forms is None:
        return batch, deliveries.lineage
    whole = forms.behind(batch)
    seq = batch.column(number).to_numpy()
    numbers = np.concatenate([seq, copy_numbers(seq[forms.message], forms.number)])
    place = whole.schema.get_field_index(number)
    whole = whole.set_column(place, whole.schema.field(place), pa.array(numbers))
    lineage = pa.concat_arrays([deliveries.lineage, deliveries.lineage.take(pa.array(forms.message))])
    return whole, lineage
