"""Deferred queues: their copies wait in the journals of streams until they are materialised.

A copy of a deferred queue is durable with its batch: the row of the message in the journal names the queue in
`routing.deferred`. It is in the queue's table once that has recorded a batch of the stream, or a later one, as the
transaction `flush_id(stream)`. So a copy is in exactly one of two places at every moment, whoever looks, and each
commit of a queue's table moves some from the one to the other.

`waiting` finds what has not been moved, `flushing` moves it, `pacing` does so while a stream runs, `live` reads a queue
with what waits for it, and `following` keeps an eye on all journals.
"""

from bindery.store.deferred.flushing import Flushed, materialise, materialise_queue
from bindery.store.deferred.live import LiveQueue, Waiting
from bindery.store.deferred.overdue import Lag, allowed_ms, lag_of, materialise_now, materialise_overdue
from bindery.store.deferred.pacing import Flushing
from bindery.store.deferred.waiting import any_waiting, flush_id, waiting_rows

__all__ = [
    "Flushed",
    "Flushing",
    "Lag",
    "LiveQueue",
    "Waiting",
    "allowed_ms",
    "any_waiting",
    "flush_id",
    "lag_of",
    "materialise",
    "materialise_now",
    "materialise_overdue",
    "materialise_queue",
    "waiting_rows",
]
