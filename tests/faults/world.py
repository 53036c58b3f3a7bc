"""One data directory with its processes, and the model of what must be in it.

An operation ends in one of three ways. It succeeds: what it promises is done. It raises one of Bindery's errors, or
its process dies: what it would have done is done wholly or not at all, which is found out by looking,
and holds from then on. Anything else that is raised is a defect, and so is an error that only a rival gave
occasion to, but for a driver that lost its stream to another.

A message is named by its routing key. Messages of the stream go to every queue that their batch's topology has,
and one more of each batch finds no exchange: it waits in the unroutable table for a redrive.
"""

from __future__ import annotations

import copy
import itertools
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from bindery.api import inbox
from bindery.api.publisher import Publisher
from bindery.router.declarations import TopologyEditor
from bindery.router.errors import BinderyError, Fenced
from bindery.router.message import JOURNAL_SCHEMA, QUEUE_SCHEMA, UNROUTABLE_SCHEMA, Message, to_batch
from bindery.router.model import Binding, Exchange, Queue, Topology
from bindery.router.queue_limits import QueueLimits
from bindery.store import checkpoints, data_files, faults, read, tables
from bindery.store.access import User
from bindery.store.backfill import Backfiller
from bindery.store.batches import BatchDriver, Routed
from bindery.store.commit import BatchCommitter, WrittenFile
from bindery.store.consumer_filters import consumer_filter
from bindery.store.deduplication import SeenTable
from bindery.store.deferred import Flushed, flushing, materialise_now, waiting_rows
from bindery.store.jobs import JobRecord, JobRegistry
from bindery.store.journal_files import Journal
from bindery.store.limiting import finish_dead_letters, keep_limits
from bindery.store.log import TableLog
from bindery.store.maintenance import maintain
from bindery.store.maintenance.policy import Policy
from bindery.store.manifest import read_manifest
from bindery.store.moves import Mover
from bindery.store.paths import DataDir
from bindery.store.pins import Pin, Pins
from bindery.store.places import at, delta_options
from bindery.store.redrive import Redriver
from bindery.store.routed_counts import RoutedCounts
from bindery.store.streams import register
from bindery.store.topology import TopologyStore
from bindery.store.transfer_plans import Plans
from bindery.store.unroutable import Selection
from tests.faults import grounds
from tests.faults.batch import BATCHES_WITHIN, BOUND, MESSAGES, WINDOW_MS, Batch, firsts
from tests.faults.injection import Died, Injection, Met
from tests.faults.moving import Look, Moving, declare_targets, pending, target, transfer
from tests.faults.processes import STREAM, Contents, Process, driver_of

QUEUES = ("a", "b", "c")
# one thread, so that effects come in one order
setattr(flushing, "_WORKERS", 1)  # noqa: B010  # a constant for everybody else
#: Those of which the stream's copies wait in its journal until they are flushed, until `defer` says otherwise.
DEFERRED = frozenset({"a", "c"})
#: Everything is old enough at once: whatever is being written when it begins is written by somebody who died.
POLICY = Policy(retention=timedelta(0), shortest=timedelta(0), versions=2, fan_in=2, orphan_age=timedelta(0))


#: What a process does while another is in the middle of its work: it must let that finish.
RIVAL_POLICY = Policy(retention=timedelta(hours=1), fan_in=2)


@dataclass
class Ended:
    """How an operation ended: with a result, or with an error after which only looking tells."""

    result: Any = None
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether the operation says that it is done."""
        return self.error is None


class World:
    """The model, and the processes that work on the data directory.

    `must` holds, by queue, the messages that must be there; `gone`, by queue and incarnation, those that a
    consumer has removed; `perhaps` those that may have got there: of an operation that ended in an error. `journal`
    holds those that the journal of the stream must have: the messages of batches since the last maintenance. A queue
    that was `backfilled` may hold any message that the stream has ever had.
    """

    def __init__(self, root: str, met: Met) -> None:
        self.data = DataDir.open(f"{root}/data", create=True)
        grounds.trust_logs(True)
        self.met = met
        self.batch: Batch | None = None
        self.deferred = DEFERRED
        self.next_batch = 0
        self.incarnations: dict[str, int] = {}
        self.versions: dict[int, dict[str, int]] = {}
        self.must: dict[str, set[str]] = {}
        self.gone: dict[tuple[str, int], set[str]] = {}
        self.perhaps: set[str] = set()
        self.unroutable: set[str] = set()
        self.journal: set[str] = set()
        self.backfilled: set[tuple[str, int]] = set()
        self.ever: set[str] = set()
        self.ended: list[int] = []
        self.inbox: Counter[str] = Counter()
        self.inbox_perhaps: Counter[str] = Counter()
        self.users: dict[str, str] = {}
        self.jobs: set[str] = set()
        self.moving = Moving()
        self._ran: Counter[str] = Counter()
        self._seen_versions: list[tuple[int, set[str]]] = []
        self._counter = itertools.count(1)
        self._names = itertools.count()
        self._process = Process(self.data)
        self._contents = Contents()
        if not tables.exists(self.data.topology):
            self._begin()

    def _begin(self) -> None:
        """What every schedule starts from: a queue with messages, and an unroutable one."""
        self._process.store.create()
        self._note_version(0)
        self._process.store.edit(lambda editor: declare_targets(editor, QUEUES), author="t")
        self.declare("a", None)
        self.route(None)
        self._process.restart()

    def copy(self, root: str) -> World:
        """The same world, which has no processes, in another folder."""
        grounds.copy(self.data.root, f"{root}/data")
        other = World(root, self.met)
        own = {"data", "met", "_process", "_contents", "_ran"}
        for name in vars(self).keys() - own:
            setattr(other, name, copy.deepcopy(getattr(self, name)))
        return other

    def restart(self) -> None:
        """A new process: nothing is remembered but what is on the disk."""
        self._process.restart()

    def run(self, operation: str, action: Callable[[], Any], injection: Injection | None) -> Ended:
        """Run an operation under a fault; raises what no operation may raise."""
        self.met.operations[operation] += 1
        self._ran[operation] += 1
        if injection is not None:
            injection.remote = at(self.data.root).is_remote
            if injection.rival:
                injection.meanwhile = getattr(self, f"_meanwhile_{injection.rival}")
        with _injected(injection):
            try:
                ended = Ended(action())
            except Died as died:
                ended = Ended(error=died)
            except BinderyError as error:
                fenced = isinstance(error, Fenced) and injection is not None and injection.rival == "takeover"
                if injection is None or injection.hit is None or (injection.is_for_others and not fenced):
                    raise AssertionError(f"{operation} failed without a fault") from error
                ended = Ended(error=error)
        if injection is not None and injection.hit is not None:
            self.met.faults[operation, *injection.hit, injection.kind] += 1
            if injection.is_dead or injection.rival == "takeover":
                self._process.restart()  # a driver that has lost its stream ends, at once or with its next batch
        return ended

    # -- messages -----------------------------------------------------------------------------------

    def route(self, injection: Injection | None) -> None:
        """Route the next batch, or the one that has not ended yet, as Spark does."""
        batch = self.batch or Batch(self.next_batch, 1_000_000 + self.next_batch * 1_000, self.deferred)
        self.batch = batch
        if self.run("stream", lambda: self._drive(self._process.driver, self._process.seen, batch), injection).done:
            self.ended.append(batch.number)
            self.unroutable.add(batch.lost)
            self.ever |= {*batch.messages, batch.lost}
            if not batch.trimmed:
                self.journal |= {*batch.messages, batch.lost}
            self.next_batch = batch.number + 1
            self.batch = None
            self.met.batches[_how_many(batch.targets.keys() & batch.deferred, batch.targets)] += 1
            self._arrived(batch.messages, batch.targets)

    def _drive(self, driver: BatchDriver[Topology], seen: SeenTable, batch: Batch) -> None:
        begun = driver.begin(batch.number, self._process.store.load(), batch.clock_ms)
        version = begun.pin.topology_version
        assert batch.version in (None, version), "a replay got another pin"
        batch.version = version
        batch.targets = self._queues_at(version)
        if begun.router is not None:
            files = [self._queue_file(batch, name) for name in sorted(batch.targets.keys() - batch.deferred)]
            counts = RoutedCounts()
            counts.records, counts.copies = MESSAGES + 1, MESSAGES * len(batch.targets)
            files += [self._unroutable_file(batch), self._journal_file(batch, begun.topology)]
            verdict = seen.judge(begun.stamp, WINDOW_MS, batch.keys)
            assert verdict.repeated.tolist() == batch.repeats, "judged otherwise"
            driver.commit(begun, Routed([*files, *seen.write(begun.stamp)], counts))
            seen.committed(begun.stamp)

    def _queue_file(self, batch: Batch, name: str) -> WrittenFile:
        assert batch.version is not None
        rows = batch.rows(list(enumerate(batch.messages)), batch.version)
        added = data_files.write_file(self.data.queue("/", name), pa.Table.from_pylist(rows, schema=QUEUE_SCHEMA))
        return WrittenFile("queue", "/", name, added.path, added.size, MESSAGES, added.stats)

    def _unroutable_file(self, batch: Batch) -> WrittenFile:
        assert batch.version is not None
        (row,) = batch.rows([(MESSAGES, batch.lost)], batch.version)
        row |= {"reason": "no_binding", "disposition": "discarded"}
        path = self.data.unroutable("/")
        at(path).make_folder()
        added = data_files.write_file(path, pa.Table.from_pylist([row], schema=UNROUTABLE_SCHEMA))
        return WrittenFile("unroutable", "/", "", added.path, added.size, 1, added.stats)

    def _journal_file(self, batch: Batch, topology: Topology) -> WrittenFile:
        assert batch.version is not None
        rows = batch.rows(list(enumerate([*batch.messages, batch.lost])), batch.version)
        ids = sorted(topology.queues["/", name].id for name in batch.targets)
        waiting = sorted(topology.queues["/", name].id for name in batch.targets.keys() & batch.deferred) or None
        for row in rows:
            row["routing"]["queues"] = [] if row["routing_key"] == batch.lost else ids
            row["routing"]["deferred"] = None if row["routing_key"] == batch.lost else waiting
        path = self.data.journal(STREAM)
        at(path).make_folder()
        added = data_files.write_file(path, pa.Table.from_pylist(rows, schema=JOURNAL_SCHEMA))
        return WrittenFile("journal", "/", STREAM, added.path, added.size, len(rows), added.stats)

    def _arrived(self, messages: list[str], targets: dict[str, int]) -> None:
        """Messages are in queues: those that are still what they were, but for what a consumer took already."""
        for name, incarnation in targets.items():
            if self.incarnations.get(name) == incarnation:
                self.must[name] |= set(messages) - self.removed(name)

    def defer(self, names: frozenset[str]) -> None:
        """From the next batch on these queues are deferred, and no others; one that has begun is as it is pinned."""
        self.deferred = names

    def flush(self, injection: Injection | None) -> None:
        """Materialise the deferred queues."""

        def action() -> Flushed:
            done = materialise_now(self._process.store, Journal.open(self.data.journal(STREAM)))
            if done.failed:
                raise BinderyError("; ".join(done.failed.values()))
            return done

        if tables.exists(self.data.journal(STREAM)):
            before = {name: self.rows(name) for name in self.incarnations}
            ended = self.run("flush", action, injection)
            if ended.done:
                self.met.flushed += ended.result.copies
            brought = self.batch is not None or (injection is not None and injection.rival is not None)
            assert brought or before == {name: self.rows(name) for name in self.incarnations}, "a flush changed a queue"
            if ended.done and not brought:
                assert not Journal.open(self.data.journal(STREAM)).waiting(), "a flush that is done left copies waiting"

    def backfill(self, name: str, injection: Injection | None) -> None:
        """Bring a queue, if it is there, what the journal has for it; also what was unroutable then."""
        if name not in self.incarnations or not tables.exists(self.data.journal(STREAM)):
            return
        self.backfilled.add((name, self.incarnations[name]))
        ended = self.run("backfill", lambda: self._backfill(self._process.store, name), injection)
        if ended.done:
            self.must[name] |= {*self.journal} - self.unroutable - self.removed(name)

    def _backfill(self, store: TopologyStore, name: str) -> int:
        return Backfiller(self.data, store, "/").backfill(name).rows

    def publish(self, injection: Injection | None) -> None:
        """Publish a message over the service's publisher; every queue is bound."""
        key = f"p{next(self._names)}"

        def action() -> tuple[str, ...]:
            return self._process.publisher.publish("/", Message(exchange=BOUND, routing_key=key)).result(timeout=120)

        there = dict(self.incarnations)
        ended = self.run("publish", action, injection)
        if not ended.done:
            self.perhaps.add(key)
        elif there:
            assert sorted(ended.result) == sorted(there)
            self._arrived([key], there)
        else:
            assert ended.result == ()
            self.perhaps.add(key)  # it is unroutable; a redrive may bring it to a queue

    def redrive(self, injection: Injection | None) -> None:
        """Route unroutable messages again."""
        self.run("redrive", lambda: Redriver(self.data, self._process.store, "/").redrive(Selection()), injection)

    def append(self, injection: Injection | None) -> None:
        """Append records to the inbox, in one commit."""
        key = f"i{next(self._names)}"
        records = pa.Table.from_batches([to_batch([Message(exchange=BOUND, routing_key=key)])])
        ended = self.run("inbox", lambda: inbox.append(self.data, "/", records, author="t"), injection)
        (self.inbox if ended.done else self.inbox_perhaps)[key] += 1

    def take(self, name: str, limit: int, requeue: bool, injection: Injection | None) -> None:
        """Get messages from a queue, if it is there, with or without leaving them in it."""
        if name not in self.incarnations:
            return
        before = self.rows(name)
        first = before[:limit]
        operation = "requeue" if requeue else "get"
        ended = self.run(operation, lambda: read.take(self.data, name, limit=limit, requeue=requeue), injection)
        after = self.rows(name)
        if ended.done:
            assert ended.result.rows["routing_key"].to_pylist() == first, "a get gave other rows than the first"
        if requeue:
            assert after == before
            return
        assert after == before[len(first) :] or (not ended.done and after == before), "half a get"
        if after != before:
            self._remove(name, first)

    def remove(self, name: str, purge: bool, injection: Injection | None) -> None:
        """Purge a queue, if it is there, or delete the messages that a filter accepts."""
        if name not in self.incarnations:
            return
        condition = None if purge else consumer_filter("JMSPriority = 4")
        before = self.rows(name)
        operation = "purge" if purge else "delete rows"
        ended = self.run(operation, lambda: read.delete_matching(self.data, name, condition), injection)
        after = self.rows(name)
        assert after == [] or (not ended.done and after == before), "half a purge"
        if after != before:
            self._remove(name, before)

    def removed(self, name: str) -> set[str]:
        """Messages that a consumer has removed from the queue."""
        return self.gone.setdefault((name, self.incarnations[name]), set())

    def _remove(self, name: str, messages: list[str]) -> None:
        self.removed(name).update(messages)
        self.must[name] -= set(messages)

    def move(self, name: str, limit: int, through_exchange: bool, injection: Injection | None) -> None:
        """Move the first messages of a queue, if it is there; what earlier moves have begun ends first."""
        if name not in self.incarnations:
            return
        chosen = transfer(name, limit, through_exchange=through_exchange)
        with self._moves() as before:
            ended = self.run("move", lambda: Mover(self.data, self._process.store, "/").move(chosen), injection)
        if ended.done:
            assert not Plans(self.data, "/").pending(), "a move that has ended left a plan"
            assert not any(self.moving.flying.values()), "a move that has ended left rows in the air"
            if not before.planned:
                assert self.rows(name) == before.source[name][limit:], "a move of other rows than the first"
                assert ended.result.messages == min(limit, len(before.source[name])), "messages moved"

    def limit(self, name: str, most: int, dead_letters: bool, injection: Injection | None) -> None:
        """Keep a queue, if it is there, at so many messages: the oldest are deleted, or sent to its exchange."""
        if name not in self.incarnations:
            return

        def action() -> None:
            store = self._process.store
            if dead_letters:
                finish_dead_letters(store)
            limits = QueueLimits(max_rows=most, exchange=target(name) if dead_letters else None)
            report = keep_limits(store, Queue("/", name), limits, lambda: time.time_ns() // 1_000_000)
            if report.error is not None:
                raise BinderyError(report.error)

        before = self.rows(name)
        if not dead_letters:
            ended = self.run("drop head", action, injection)
            after = self.rows(name)
            allowed = before[: max(0, len(before) - most)]
            gone = [message for message in before if message not in after]
            assert after == [message for message in before if message in after], "other rows in a queue with a limit"
            # where what waits could not be brought the limit holds for what the table has
            assert gone == allowed if ended.done else {*gone} <= {*allowed}, "half a limit"
            self._remove(name, gone)
            return
        with self._moves() as look:
            ended = self.run("dead letters", action, injection)
        if ended.done and not look.planned:
            assert not pending(self.data), "limits that are kept left a plan"
            assert self.rows(name) == before[max(0, len(before) - most) :], "dead letters of other rows than the first"

    def _finish_dead_letters(self) -> None:
        """What maintenance begins with, as moves of its own."""
        with self._moves():
            finish_dead_letters(TopologyStore(self.data))

    @contextmanager
    def _moves(self) -> Iterator[Look]:
        """Whatever is done meanwhile moves messages, and brings none to a queue from elsewhere."""
        before = self._look()
        yield before
        for name, left in self.moving.settle(before, self._look()).items():
            if name in self.incarnations:
                self._remove(name, left)

    def _look(self) -> Look:
        return self.moving.look(self.data, {name: self.rows(name) for name in self.incarnations}, self.rows)

    # -- topology, users, jobs ------------------------------------------------------------------------

    def declare(self, name: str, injection: Injection | None) -> None:
        """Declare and bind a queue; again when it is there."""
        self._edit("declare", lambda editor: _declare(editor, name), injection, declared=(name,))

    def delete(self, name: str, injection: Injection | None) -> None:
        """Delete a queue, if it is there."""
        if name not in self.incarnations:
            return
        self._edit("delete", lambda editor: editor.delete_queue("/", name), injection, deleted=(name,))

    def import_all(self, injection: Injection | None) -> None:
        """Declare every queue in one change."""
        self._edit("import", lambda editor: [_declare(editor, name) for name in QUEUES], injection, declared=QUEUES)

    def _edit(
        self,
        operation: str,
        change: Callable[[TopologyEditor], Any],
        injection: Injection | None,
        *,
        declared: tuple[str, ...] = (),
        deleted: tuple[str, ...] = (),
    ) -> None:
        before = dict(self.incarnations)
        self._seen_versions.clear()
        wanted = {name: before.get(name) or next(self._counter) for name in declared}
        wanted = {name: at for name, at in {**before, **wanted}.items() if name not in deleted}
        ended = self.run(operation, lambda: self._process.store.edit(change, author="t"), injection)
        topology = self._process.store.load()
        there = _bound_in(topology)
        assert there == set(wanted) or (not ended.done and there == set(before)), "half an edit"
        if there == set(wanted):
            self.incarnations = wanted
        self.must = {name: self.must.get(name, set()) for name in self.incarnations}
        for version, names in self._seen_versions:
            self.versions[version] = wanted if names == set(wanted) else before
        self._seen_versions.clear()
        self._note_version(topology.version)

    def _note_version(self, version: int) -> None:
        self.versions.setdefault(version, dict(self.incarnations))

    def _queues_at(self, version: int) -> dict[str, int]:
        """The queues of a version; maintenance makes some that change nothing."""
        return self.versions[max(known for known in self.versions if known <= version)]

    def change_user(self, name: str, injection: Injection | None) -> None:
        """Give a user other tags."""
        tag = f"t{next(self._names)}"
        before = self.users.get(name)
        user = User(name, tags=(tag,))
        ended = self.run(
            "access", lambda: self._process.access.edit(lambda e: e.put_user(user), author="t", action=tag), injection
        )
        found = self._process.access.load().users.get(name)
        assert found == user or (not ended.done and (None if found is None else found.tags[0]) == before), "half a user"
        if found is not None:
            self.users[name] = found.tags[0]

    def save_job(self, name: str, injection: Injection | None) -> None:
        """Put a job on record, or replace it."""
        record = JobRecord(name, {"number": next(self._names)}, "t", 0.0)
        folder = JobRegistry(self.data).folder(name)
        folder.place.parent.make_folder()
        before = folder.record()
        ended = self.run("jobs", lambda: folder.save(record), injection)
        found = folder.record()
        assert found == record or (not ended.done and found == before), "half a job"
        self.jobs |= {name} if found is not None else set()

    def forget_job(self, name: str, injection: Injection | None) -> None:
        """Forget a job, if it is on record."""
        if name not in self.jobs:
            return
        registry = JobRegistry(self.data)
        ended = self.run("forget", lambda: registry.forget(name), injection)
        found = registry.folder(name).record()
        assert found is None or not ended.done, "a job that was not forgotten"
        self.jobs -= {name} if found is None else set()

    # -- maintenance ----------------------------------------------------------------------------------

    def maintain(self, injection: Injection | None) -> None:
        """One pass over everything, as if all of it were old."""
        self._trimmed()
        grounds.trust_logs(False)  # from here on nothing is kept for as long as processes trust in
        self._finish_dead_letters()

        def action() -> None:
            report = maintain(self.data, POLICY)
            if injection is None or injection.hit is None:
                assert not report.failed, report.failed

        self.run("maintain", action, injection)
        self._trimmed()  # what another process has brought meanwhile is old as well

    def _trimmed(self) -> None:
        """Maintenance takes old rows out of the journal, and all of them are."""
        self.journal.clear()
        if self.batch is not None:
            self.batch.trimmed = True

    def checkpoint(self, number: int, injection: Injection | None) -> None:
        """Write a checkpoint of one of the tables; that it fails harms nothing."""
        paths = self._tables()
        self.run("checkpoint", lambda: checkpoints.write_checkpoint(paths[number % len(paths)]), injection)

    def leave_behind(self) -> None:
        """What processes that died left: a file that no commit names, and pins of a stream that is no more."""
        data_files.write_file(self.data.queue("/", "a"), pa.Table.from_pylist([], schema=QUEUE_SCHEMA))
        pins = Pins(self.data, stream="gone", app_id="gone:1")
        for number in range(3):
            pins.write(number, Pin(0, 0))

    # -- what another process does meanwhile -----------------------------------------------------------

    def _meanwhile_takeover(self) -> None:
        """Another driver takes the stream over and ends the batch."""
        assert self.batch is not None
        epoch = register(self.data, STREAM, "c1")
        with BatchCommitter(self.data, stream=STREAM, app_id=epoch.app_id, workers=1) as committer:
            seen = SeenTable(self.data, STREAM, "/")
            self._drive(driver_of(committer, TopologyStore(self.data)), seen, self.batch)

    def _meanwhile_route(self) -> None:
        self.route(None)

    def _meanwhile_flush(self) -> None:
        if tables.exists(self.data.journal(STREAM)):
            materialise_now(TopologyStore(self.data), Journal.open(self.data.journal(STREAM)))

    def _meanwhile_publish(self) -> None:
        key = f"p{next(self._names)}"
        with closing(Publisher(self.data, TopologyStore(self.data).load, app_id=f"api:{key}")) as publisher:
            reached = publisher.publish("/", Message(exchange=BOUND, routing_key=key)).result(timeout=120)
        assert sorted(reached) == sorted(self.incarnations)
        self.perhaps.add(key)
        self._arrived([key], self.incarnations)

    def _meanwhile_redrive(self) -> None:
        self._ran["redrive"] += 1
        Redriver(self.data, TopologyStore(self.data), "/").redrive(Selection())

    def _meanwhile_backfill(self) -> None:
        """Another process backfills every queue."""
        self._ran["backfill"] += 1
        for name, incarnation in self.incarnations.items():
            self.backfilled.add((name, incarnation))
            self._backfill(TopologyStore(self.data), name)

    def _meanwhile_move(self) -> None:
        """Another process finishes the moves that it finds."""
        with self._moves():
            Mover(self.data, TopologyStore(self.data), "/").finish()

    def _meanwhile_append(self) -> None:
        self.append(None)

    def _meanwhile_edit(self) -> None:
        """Declare an exchange; which queues there are by then depends on how far the other edit has come."""
        name = f"x{next(self._names)}"
        topology = TopologyStore(self.data).edit(
            lambda editor: editor.declare_exchange(Exchange("/", name, "fanout")), author="rival"
        )
        self._seen_versions.append((topology.version, _bound_in(topology.topology)))
        self.versions[topology.version] = dict(self.incarnations)

    def _meanwhile_maintain(self) -> None:
        self._finish_dead_letters()
        self._trimmed()
        report = maintain(self.data, RIVAL_POLICY)
        assert not report.failed, report.failed

    # -- looking ------------------------------------------------------------------------------------

    def _tables(self) -> list[str]:
        fixed = [self.data.topology, self.data.streams, self.data.manifest, self.data.unroutable("/")]
        fixed += [self.data.journal(STREAM), self.data.dedup(STREAM)]
        return [path for path in fixed if tables.exists(path)] + [
            self.data.queue("/", name) for name in (*self.must, *map(target, QUEUES))
        ]

    def rows(self, name: str) -> list[str]:
        """The messages of a queue in row order."""
        return [row[4] for row in self._held(name)]

    def _held(self, name: str) -> list[tuple[Any, ...]]:
        """The rows of a queue in row order: those of its table, and those that wait for it in the journal."""
        path = self.data.queue("/", name)
        found = list(self._contents.of(path))
        if tables.exists(self.data.journal(STREAM)) and name in self.incarnations:
            journal, log = Journal.open(self.data.journal(STREAM)), TableLog(path)
            number = TopologyStore(self.data).load().queue("/", name).id
            for batch in waiting_rows(journal, log, number, columns=["routing_key", "routing", "routed_at"]):
                for row in batch.to_pylist():
                    ids = [row["routing"][member] for member in ("stream", "batch_id", "seq")]
                    found.append((row["routed_at"], *ids, row["routing_key"], None))
        return sorted(found, key=lambda row: row[:4])

    def check(self) -> None:
        """Nothing is lost, nothing is doubled."""
        allowed = self.perhaps | self.unroutable
        if self.batch is not None:
            allowed = allowed | {*self.batch.messages, self.batch.lost}
        for name, incarnation in self.incarnations.items():
            contents = self._held(name)
            there = [row[4] for row in contents]
            assert len(there) == len(set(there)), f"doubled in {name}: {there}"
            assert len({row[1:4] for row in contents}) == len(there), f"one identity twice in {name}"
            missing = self.must[name] - set(there)
            assert not missing, f"lost from {name}: {missing}"
            extra = set(there) - self.must[name]
            if (name, incarnation) in self.backfilled:
                extra -= self.ever
            assert extra <= allowed, f"{name} holds what it must not: {extra - allowed}"
            back = set(there) & self.removed(name)
            assert not back, f"{name} holds again what was taken from it: {back}"
        self.moving.check(self.rows)
        self._check_journal()
        self._check_keys()

    def _check_journal(self) -> None:
        """Each message of the stream is there once, unless it is old."""
        path = self.data.journal(STREAM)
        contents = self._contents.of(path) if tables.exists(path) else []
        there = [row[4] for row in contents]
        assert len(there) == len(set(there)), f"doubled in the journal: {there}"
        assert self.journal <= set(there), f"lost from the journal: {self.journal - set(there)}"
        begun = set() if self.batch is None else {*self.batch.messages, self.batch.lost}
        assert set(there) <= self.ever | begun, "the journal holds what nobody sent"

    def _check_keys(self) -> None:
        """The first messages of batches that have ended have their keys on record once, as long as the window is."""
        path = self.data.dedup(STREAM)
        files = tables.files_of(TableLog(path, files=True)) if tables.exists(path) else ()
        rows = [row["routing"] for file in files for row in at(path, file).read_parquet().to_pylist()]
        there = [(row["batch_id"], row["seq"]) for row in rows]
        assert len(there) == len(set(there)), f"doubled among the keys: {there}"
        within = max((number for number, _ in there), default=0) - BATCHES_WITHIN
        missing = {(number, seq) for number in self.ended if number > within for seq in firsts(number)} - set(there)
        assert not missing, f"lost from the keys: {missing}"
        begun = [] if self.batch is None else [self.batch.number]
        assert {number for number, _ in there} <= {*self.ended, *begun}, "keys of what nobody sent"

    def finish(self) -> None:
        """End what has not ended, in a new process without faults, and look at everything from outside."""
        self._process.restart()
        if self.batch is not None:
            self.route(None)
        self.route(None)
        if self._ran["backfill"]:
            for name in self.incarnations:
                self.backfill(name, None)
        redriven = self._ran["redrive"] > 0
        if redriven:
            self.redrive(None)
        if self._ran["move"] or self._ran["dead letters"]:
            with self._moves():
                Mover(self.data, self._process.store, "/").finish()
            assert not any(self.moving.flying.values()), "rows in the air"
        if self._ran["maintain"]:
            self.maintain(None)
        if self._ran["flush"]:
            self.flush(None)
        self.check()
        self._check_unroutable(redriven=redriven)
        batches = sum(row.get("batches") or 1 for row in read_manifest(self.data) if row["stream"] == STREAM)
        assert batches == len(self.ended), "manifest rows"
        self._check_inbox()
        assert {user.name: user.tags[0] for user in self._process.access.load().users.values()} == self.users
        assert {found.record.stream for found in JobRegistry(self.data).all()} == self.jobs
        for path in self._tables():
            log, table = TableLog(path, files=True), DeltaTable(path, storage_options=delta_options(path))
            files = {uri.rpartition("/")[2] for uri in table.file_uris()}
            assert (log.version, set(tables.files_of(log))) == (table.version(), files), path
            assert files <= at(path).files().keys(), path
        self._process.restart()

    def _check_unroutable(self, *, redriven: bool) -> None:
        """Each unroutable message is there once; a redriven one is in every queue of the version that took it."""
        rows = self._contents.of(self.data.unroutable("/"))
        known = [row for row in rows if row[4] in self.unroutable]
        assert sorted(row[4] for row in known) == sorted(self.unroutable), "unroutable rows"
        for *_, key, version in rows:
            if version is None:
                assert not (redriven and self.incarnations), f"{key} was not redriven"
                continue
            for name, incarnation in self._queues_at(version).items():
                if self.incarnations.get(name) == incarnation:
                    assert key in self.rows(name) or key in self.removed(name), f"{key} was lost by its redrive"

    def _check_inbox(self) -> None:
        path = self.data.inbox("/")
        files = tables.files_of(TableLog(path, files=True)) if tables.exists(path) else {}
        rows = [at(path, file).read_parquet() for file in files]
        found = Counter(key for table in rows for key in table["routing_key"].to_pylist())
        assert self.inbox <= found <= self.inbox + self.inbox_perhaps, "inbox"


def _how_many(chosen: Collection[str], every: Collection[str]) -> str:
    return "no queue" if not chosen else "some queues" if len(chosen) < len(every) else "every queue"


def _bound_in(topology: Topology) -> set[str]:
    """The queues that the messages of the stream go to."""
    return {name for _, name in topology.queues if name in QUEUES}


def _declare(editor: TopologyEditor, name: str) -> None:
    editor.declare_queue(Queue("/", name))
    editor.bind(Binding(0, "/", BOUND, name))


@contextmanager
def _injected(injection: Injection | None) -> Iterator[None]:
    if injection is None:
        yield
        return
    with ExitStack() as end:
        if injection.is_on_the_wire:
            injection.wire = end.enter_context(grounds.by_wire())
            end.callback(injection.close)
        with faults.installed(injection.hook):
            yield
