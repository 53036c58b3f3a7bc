"""Messages of a batch that repeat one, on their way to the tasks that leave them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.engine.result import DUPLICATE
from bindery.store.seen_keys import Verdict
from bindery.store.writer import SEQ

_DISCARDED: Final = "discarded"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Messages (BATCH_SCHEMA) that are not routed, and what an unroutable row says of each beside itself."""

    batch: pa.RecordBatch
    reason: pa.Array
    disposition: pa.Array
    detail: pa.Array
    raw: pa.Array


@dataclass(frozen=True, slots=True)
class Repeats:
    """What was judged of a batch of a stream; `keep` tells whether what is left out gets unroutable rows."""

    verdict: Verdict
    stream: str
    keep: bool

    def leave_out(self, messages: pa.RecordBatch) -> tuple[pa.RecordBatch, LeftOut | None]:
        """The messages (BATCH_SCHEMA) that repeat none, and those that do."""
        repeated = self.verdict.repeated
        seq = messages.column(SEQ).to_numpy()
        places = np.searchsorted(repeated, seq)
        is_repeat = np.zeros(len(seq), np.bool_)
        inside = places < len(repeated)
        is_repeat[inside] = repeated[places[inside]] == seq[inside]
        if not is_repeat.any():
            return messages, None
        places = places[is_repeat]
        rows = len(places)
        numbers = zip(self.verdict.batch[places].tolist(), self.verdict.seq[places].tolist(), strict=True)
        left_out = LeftOut(
            messages.filter(pa.array(is_repeat)),
            pa.array([DUPLICATE] * rows),
            pa.array([_DISCARDED] * rows),
            # an identity as `bindery explain --row` takes it
            pa.array([f"repeats {self.stream}:{batch}:{number}" for batch, number in numbers], pa.string()),
            pa.nulls(rows, pa.binary()),
        )
        return messages.filter(pc.invert(pa.array(is_repeat))), left_out
