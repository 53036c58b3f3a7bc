"""Limits of a queue enforced: what it must not hold any more goes, beside whoever appends and takes.

Where the queue has no dead letter exchange the rows go in one commit. It holds only while the table has the files that
were judged: rows that somebody has taken meanwhile are judged anew, and what is appended meanwhile is for the next
pass.

Where there is one, rows go there as in a move (`bindery.store.carrying`): a durable plan, one commit that takes all of
its rows out of the queue or none, delivery under a stream of its own. Whatever dies in between is finished by the next
pass. If the exchange is not there the rows are deleted, as RabbitMQ does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from bindery.router.errors import BinderyError
from bindery.router.model import Queue
from bindery.router.queue_limits import QueueLimits
from bindery.store import effects, tables
from bindery.store.actions import AddFile
from bindery.store.carrying import Carrier
from bindery.store.dead_letters import DeadLetters
from bindery.store.deferred import Flushed, Waiting, materialise
from bindery.store.deferred.live import Tail
from bindery.store.destinations import ToExchange
from bindery.store.journal_files import journals
from bindery.store.limit_counts import DEAD, REASONS, Reason, counted
from bindery.store.limiting.expiring import delete_unused
from bindery.store.limiting.judging import Judged, judge
from bindery.store.log import TableLog
from bindery.store.paths import DataDir, encode_name
from bindery.store.places import at
from bindery.store.read import rewritten
from bindery.store.rewriting import UNCHANGED, Rewriting, Unchanged
from bindery.store.row_bag import Places
from bindery.store.row_order import first_rows
from bindery.store.statistics import stated_span
from bindery.store.topology import TopologyStore
from bindery.store.transfer_plans import DEAD_LETTERS
from bindery.store.transfers import queue_log

#: Rows of one plan of dead letters.
MAX_ROWS: Final = 100_000
#: Rounds of one pass without any row dead-lettered after which the rest is left to the next one.
IDLE_ROUNDS: Final = 10


@dataclass(slots=True)
class LimitsReport:
    """What the limits of a queue did, or would do.

    expired        rows whose time was over
    overflowed     rows that were too many
    replaced       rows of a last value queue that later ones replace
    dead_lettered  those of the first two that went to the dead letter exchange
    files          files that went as a whole without that
    bytes          bytes of those files
    next_ms        milliseconds since 1970 before which nothing else expires, as far as files tell; None for never
    missing        the dead letter exchange, if it is not there
    deleted        the queue was not used for so long that it is deleted; its rows are not counted
    unused_ms      its last use on record, milliseconds since 1970, where queues expire
    ends_ms        when it is deleted unless it is used, milliseconds since 1970
    left           somebody else is at the table
    error          why the limits could not be kept
    """

    vhost: str
    queue: str
    expired: int = 0
    overflowed: int = 0
    replaced: int = 0
    dead_lettered: int = 0
    files: int = 0
    bytes: int = 0
    next_ms: int | None = None
    missing: str | None = None
    deleted: bool = False
    unused_ms: int | None = None
    ends_ms: int | None = None
    left: bool = False
    error: str | None = None

    @property
    def name(self) -> str:
        """What to call the queue; without one the queues of a topology that cannot be read."""
        if not self.vhost:
            return "limits of queues"
        return f"queue {self.queue} in vhost {self.vhost}"

    @property
    def is_touched(self) -> bool:
        """Whether there is anything to say."""
        return bool(self.expired or self.overflowed or self.replaced or self.deleted or self.error)

    def add(self, files: Mapping[str, AddFile], judged: Judged) -> None:
        """Count what goes from files of the queue."""
        counts = judged.counts()
        self.expired += counts["expired"]
        self.overflowed += counts["maxlen"]
        self.replaced += counts["replaced"]
        whole = [file for name, file in files.items() if judged.whole(name)]
        self.files += len(whole)
        self.bytes += sum(file.size for file in whole)
        self.next_ms = None if judged.next_us is None else judged.next_us // 1_000


def keep_limits(
    store: TopologyStore,
    queue: Queue,
    limits: QueueLimits,
    clock: Callable[[], int],
    *,
    dry_run: bool = False,
    stop: Callable[[], bool] = lambda: False,
    late: Mapping[tuple[str, str], str] | None = None,
) -> LimitsReport:
    """Take out of a queue what its limits do not allow, or delete one that was not used; errors are in the report.

    `clock` gives milliseconds since 1970: that of whoever does it, against which `routed_at` is held. `stop` is asked
    between portions of dead letters. A limit that would act on what waits for a deferred queue has its table get it
    first; `late` is what `take_in` said, for whoever has called it for several queues.
    """
    report = LimitsReport(queue.vhost, queue.name)
    try:
        if limits.expires_ms is not None:
            disuse = delete_unused(store, queue, clock, dry_run=dry_run)
            report.deleted, report.unused_ms, report.ends_ms = disuse.deleted, disuse.since_ms, disuse.ends_ms
        if limits and not report.deleted:
            if not dry_run:
                failed = take_in(store, [(queue, limits)], clock) if late is None else late
                report.error = failed.get((queue.vhost, queue.name))
            log = queue_log(store.data, queue.vhost, queue.name)
            _keep(store, queue, limits, log, clock, report, dry_run, stop)
    except (BinderyError, OSError) as error:
        report.error = str(error)
    return report


def take_in(
    store: TopologyStore,
    bounded: Iterable[tuple[Queue, QueueLimits]],
    clock: Callable[[], int],
    *,
    stop: Callable[[], bool] = lambda: False,
    took: Callable[[Flushed], None] = lambda _: None,
) -> dict[tuple[str, str], str]:
    """Give the tables of queues what waits for them, where a limit may act on some of it; why not to which it failed.

    The journals of a vhost are read once for all of its queues. What is said of a queue, by vhost and name, is for its
    report: its limits then hold for what the table has. `stop` is asked between queues; `took` is told what each
    journal gave. Of a journal nothing is read that all of its queues have.
    """
    by_vhost: dict[str, list[tuple[Queue, QueueLimits]]] = {}
    for queue, limits in bounded:
        by_vhost.setdefault(queue.vhost, []).append((queue, limits))
    failed: dict[tuple[str, str], str] = {}
    for vhost, some in by_vhost.items():
        here: dict[str, str] = {}
        try:
            _take_in(store, vhost, some, here, clock, stop, took)
        except BinderyError as error:  # the journals cannot be looked at
            here = {queue.name: str(error) for queue, _ in some}
        failed.update({(vhost, name): why for name, why in here.items()})
    return failed


def _take_in(
    store: TopologyStore,
    vhost: str,
    bounded: Sequence[tuple[Queue, QueueLimits]],
    failed: dict[str, str],
    clock: Callable[[], int],
    stop: Callable[[], bool],
    took: Callable[[Flushed], None],
) -> None:
    """`take_in` for queues of one vhost; `failed` gets by name why not. Raises UnsupportedTable for a journal."""
    waiting = Waiting.look(store.data, vhost)
    wanted: dict[int, str] = {}  # id of a queue -> its name
    starts: dict[str, int] = {}  # path of a journal -> the batch up to which all of these have its copies
    for queue, limits in bounded if waiting.journals else ():
        if stop():
            return
        declared = waiting.queue_of(queue.name)
        if declared is None:
            continue
        try:
            tail = _acted_on(store.data, waiting, queue, limits, clock())
        except BinderyError as error:
            failed[queue.name] = str(error)
            continue
        if tail:
            wanted[declared.id] = queue.name
        for one in tail.values():
            starts[one.journal] = min(one.wanted.after, starts.get(one.journal, one.wanted.after))
    for journal in journals(store.data, vhost) if wanted else ():
        after = starts.get(journal.log.path)
        if after is None or stop():
            continue
        try:
            done = materialise(
                store.data, store, journal, only=wanted.keys(), after=after, between=lambda _: not stop()
            )
        except BinderyError as error:  # those of other streams get what they wait for
            failed.update(dict.fromkeys(wanted.values(), str(error)))
            continue
        took(done)
        failed.update({wanted[one]: why for one, why in done.failed.items()})


def _acted_on(data: DataDir, waiting: Waiting, queue: Queue, limits: QueueLimits, now_ms: int) -> Tail:
    """What waits for a queue, where a limit may take it out, or other rows because of it; else nothing."""
    live = waiting.queue(queue.name, queue_log(data, queue.vhost, queue.name))
    if not live.waiting:
        return {}
    oldest_us = min(stated_span(one.journal, one.file).first for one in live.tail.values())
    old = limits.ttl_ms is not None and oldest_us + limits.ttl_ms * 1_000 <= now_ms * 1_000
    many = limits.max_rows is not None and live.rows > limits.max_rows
    return live.tail if old or many or limits.max_bytes is not None else {}  # what bodies weigh is not known before


def _keep(
    store: TopologyStore,
    queue: Queue,
    limits: QueueLimits,
    log: TableLog,
    clock: Callable[[], int],
    report: LimitsReport,
    dry_run: bool,
    stop: Callable[[], bool],
) -> None:
    """Keep the limits of rows, and report it."""
    there = limits.exchange is not None and (queue.vhost, limits.exchange) in store.load().exchanges
    if limits.exchange is not None and not there:
        report.missing = limits.exchange
    if dry_run:
        report.add(tables.files_of(log), judge(log, limits, clock() * 1_000))
        report.dead_lettered = report.expired + report.overflowed if there else 0
    elif there:
        if limits.last_value_key is not None:
            _drop(log, limits, clock, report, only=("replaced",))
        _send(log, store, queue, limits, clock, report, stop)
    else:
        _drop(log, limits, clock, report)


def finish_dead_letters(store: TopologyStore) -> int:
    """Deliver what passes that were interrupted have taken out of queues; how many rows arrived."""
    with effects.looking(at(store.data.root)):
        folders = set(at(store.data.root, DEAD_LETTERS.folder).folders())
    vhosts = [vhost for vhost in store.load().vhosts if encode_name(vhost) in folders]
    return sum(Carrier(store.data, store, vhost, kind=DEAD_LETTERS).finish(stop=lambda: False) for vhost in vhosts)


def _drop(
    log: TableLog,
    limits: QueueLimits,
    clock: Callable[[], int],
    report: LimitsReport,
    *,
    only: Sequence[Reason] = REASONS,
) -> None:
    """Delete what goes for some reasons, and report it."""
    attempts = tables.attempts(log.path)
    while True:
        judged = judge(log, limits, clock() * 1_000).only(only)
        if not judged.marks:
            report.add({}, judged)
            return
        counts, places = judged.counts(), judged.places()

        def without(
            file: str, judged: Judged = judged, places: Mapping[str, Places] = places
        ) -> pa.Table | Unchanged | None:
            if file not in places:
                return UNCHANGED
            return None if judged.whole(file) else rewritten(log.path, file, places[file])

        info = {"bindery.change": "limits", **{f"bindery.{reason}": number for reason, number in counts.items()}}
        with Rewriting(log, without, prefix="limits") as rewriting:
            for _ in attempts:
                files = dict(tables.files_of(log))
                if not places.keys() <= files.keys():
                    break  # somebody has taken rows, or they stand in other files now
                if rewriting.commit(transactions=counted(log, counts), info=info) is not None:
                    report.add(files, judged)
                    return
                log.refresh()


def _send(
    log: TableLog,
    store: TopologyStore,
    queue: Queue,
    limits: QueueLimits,
    clock: Callable[[], int],
    report: LimitsReport,
    stop: Callable[[], bool],
) -> None:
    """Send what goes to the dead letter exchange, and report it; at most as many rows as go at the beginning."""
    assert limits.exchange is not None  # noqa: S101  # that is asked before
    carrier = Carrier(store.data, store, queue.vhost, kind=DEAD_LETTERS)
    most: int | None = None
    idle = 0
    while True:
        log.refresh()
        moment = clock()
        judged = judge(log, limits, moment * 1_000).only(DEAD)
        counts = judged.counts()
        most = counts.total() if most is None else most
        report.next_ms = None if judged.next_us is None else judged.next_us // 1_000
        if not counts or report.dead_lettered >= most or idle == IDLE_ROUNDS or stop():
            return
        reason = next(iter(counts))
        places = judged.places(reason)
        chosen = first_rows(
            log.path,
            {name: file for name, file in tables.files_of(log).items() if name in places},
            min(MAX_ROWS, most - report.dead_lettered),
            lambda batch: np.ones(batch.num_rows, np.bool_),
            without=judged.but(reason),
        )
        to = DeadLetters(ToExchange(limits.exchange, limits.routing_key), queue.name, reason)
        version = store.load().version
        carried = carrier.carry_out(carrier.plan(queue.name, to, chosen.rows(), version=version, clock_ms=moment))
        idle = 0 if carried.claimed else idle + 1
        report.dead_lettered += carried.rows
        if reason == "expired":
            report.expired += carried.rows
        else:
            report.overflowed += carried.rows
