"""One data directory with its processes, and the model of what must be in it.

An operation ends in one of three ways. It succeeds: what it promises is done. It raises one of Bindery's errors, or
its process dies: what it would have done is done wholly or not at all, which is found out by looking,
and holds from then on. Anything else that is raised is a defect.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from router.errors import BinderyError
from router.model import Queue, TopologyEditor
from store import faults, read, tables
from store.commit import BatchCommitter, BatchCounts
from store.log import TableLog
from store.manifest import read_manifest
from store.paths import DataDir
from store.streams import register
from store.topology import TopologyStore
from tests.faults.injection import Died, Injection, Met
from tests.unit.store.conftest import queue_rows, written

STREAM = "s"
QUEUES = ("a", "b", "c")
#: Messages of a batch; each is named by its batch and number.
MESSAGES = 3

Message = tuple[int, int]


@dataclass
class Batch:
    """A batch of the stream until it has ended: the queues, with their incarnations, that it is for."""

    number: int
    clock_ms: int
    pinned: bool = False
    version: int = -1
    targets: dict[str, int] = field(default_factory=dict)

    @property
    def messages(self) -> list[Message]:
        """Its messages, in order."""
        return [(self.number, seq) for seq in range(MESSAGES)]


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
    """The model: `must` holds, by queue, the messages that must be there; `taken` those that were removed."""

    def __init__(self, root: Path, met: Met) -> None:
        self.data = DataDir.open(root / "data", create=True)
        self.met = met
        self.batch: Batch | None = None
        self.next_batch = 0
        self.incarnations: dict[str, int] = {}
        self.versions: dict[int, dict[str, int]] = {}
        self.must: dict[str, list[Message]] = {}
        self.ended: list[int] = []
        self._counter = itertools.count(1)
        self._files: dict[str, list[Message]] = {}
        self._removed: dict[tuple[str, int], set[Message]] = {}
        self._store: TopologyStore | None = None
        self._committer: BatchCommitter | None = None
        self.store.create()
        self._note_version(0)
        self.declare("a", None)

    # -- processes ----------------------------------------------------------------------------------

    @property
    def store(self) -> TopologyStore:
        """The topology store of the process that lives now."""
        if self._store is None:
            self._store = TopologyStore(self.data)
        return self._store

    def restart(self) -> None:
        """A new process: nothing is remembered but what is on the disk."""
        self._store = None
        if self._committer is not None:
            self._committer.close()
            self._committer = None

    def driver(self) -> BatchCommitter:
        """The driver of the stream; a new one registers and claims."""
        if self._committer is None:
            epoch = register(self.data, STREAM, "c1")
            # one thread, so that effects come in one order
            self._committer = BatchCommitter(self.data, stream=STREAM, app_id=epoch.app_id, workers=1)
        return self._committer

    def run(self, operation: str, action: Callable[[], Any], injection: Injection | None) -> Ended:
        """Run an operation under a fault; raises what no operation may raise."""
        self.met.operations[operation] += 1
        with _injected(injection):
            try:
                ended = Ended(action())
            except Died as died:
                ended = Ended(error=died)
            except BinderyError as error:
                assert injection is not None, f"{operation} failed without a fault: {error!r}"
                assert injection.hit is not None, f"{operation} failed without a fault: {error!r}"
                ended = Ended(error=error)
        if injection is not None and injection.hit is not None:
            self.met.faults[operation, *injection.hit, injection.kind] += 1
        if isinstance(ended.error, Died):
            self.restart()
        return ended

    # -- operations ---------------------------------------------------------------------------------

    def route(self, injection: Injection | None) -> None:
        """Route the next batch, or the one that has not ended yet, as Spark does."""
        batch = self.batch or Batch(self.next_batch, 1_000_000 + self.next_batch * 1_000)
        self.batch = batch

        def action() -> None:
            driver = self.driver()
            pin = driver.pin(batch.number, self.store.load().version, batch.clock_ms)
            if batch.pinned:
                assert pin.topology_version == batch.version, "a replay got another pin"
            batch.pinned, batch.version = True, pin.topology_version
            batch.targets = self.versions[pin.topology_version]
            if pin.done:
                return
            rows = queue_rows(batch.number, range(MESSAGES), version=pin.topology_version, stream=STREAM)
            files = [written(self.data, name, rows) for name in sorted(batch.targets)]
            driver.commit(batch.number, pin, files, BatchCounts(records=MESSAGES, copies=MESSAGES * len(files)))

        ended = self.run("stream", action, injection)
        if ended.done:
            self.ended.append(batch.number)
            self.next_batch = batch.number + 1
            self.batch = None
            for name, incarnation in batch.targets.items():
                if self.incarnations.get(name) == incarnation:
                    self.must[name] += [one for one in batch.messages if one not in self.must_not(name)]

    def must_not(self, name: str) -> set[Message]:
        """Messages that were removed from the queue by a consumer."""
        return self._removed.setdefault((name, self.incarnations[name]), set())

    def declare(self, name: str, injection: Injection | None) -> None:
        """Declare a queue; again when it is there."""
        self._edit("declare", lambda editor: editor.declare_queue(Queue("/", name)), injection, declared=(name,))

    def delete(self, name: str, injection: Injection | None) -> None:
        """Delete a queue that is there."""
        self._edit("delete", lambda editor: editor.delete_queue("/", name), injection, deleted=(name,))

    def import_all(self, injection: Injection | None) -> None:
        """Declare every queue in one change."""
        self._edit(
            "import",
            lambda editor: [editor.declare_queue(Queue("/", name)) for name in QUEUES],
            injection,
            declared=QUEUES,
        )

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
        wanted = {name: before.get(name) or next(self._counter) for name in declared}
        wanted = {name: at for name, at in {**before, **wanted}.items() if name not in deleted}
        ended = self.run(operation, lambda: self.store.edit(change, author="t"), injection)
        if ended.error is None:
            self._note_version(ended.result.version)
        topology = self.store.load()
        there = {name for _, name in topology.queues}
        assert there in ((set(wanted),) if ended.done else (set(before), set(wanted))), "half an edit"
        if there == set(wanted):
            self.incarnations = wanted
        for name in set(self.must) - set(self.incarnations):
            del self.must[name]
        for name in self.incarnations:
            self.must.setdefault(name, [])
        self._note_version(topology.version)

    def _note_version(self, version: int) -> None:
        self.versions.setdefault(version, dict(self.incarnations))

    def take(self, name: str, limit: int, requeue: bool, injection: Injection | None) -> None:
        """Get messages from a queue, with or without leaving them there."""
        before = self.rows(name)
        first = before[:limit]
        operation = "requeue" if requeue else "get"
        ended = self.run(operation, lambda: read.take(self.data, name, limit=limit, requeue=requeue), injection)
        after = self.rows(name)
        if ended.done:
            assert _messages(ended.result.rows) == first, "a get gave other rows than the first"
        if requeue:
            assert after == before
        else:
            assert after == before[len(first) :] or (not ended.done and after == before), "half a get"
            if after != before or ended.done:
                self._remove(name, first)

    def remove(self, name: str, even: bool, injection: Injection | None) -> None:
        """Purge a queue, or delete the messages of even batches from it."""
        condition = read.consumer_filter("JMSPriority = 4") if even else None
        before = self.rows(name)
        operation = "delete rows" if even else "purge"
        ended = self.run(operation, lambda: read.delete_matching(self.data, name, condition), injection)
        after = self.rows(name)
        assert after == [] or (not ended.done and after == before), "half a purge"
        if after != before:
            self._remove(name, before)

    def _remove(self, name: str, messages: list[Message]) -> None:
        self.must_not(name).update(messages)
        self.must[name] = [one for one in self.must[name] if one not in self.must_not(name)]

    # -- looking ------------------------------------------------------------------------------------

    def rows(self, name: str) -> list[Message]:
        """The messages of a queue in row order (all of one clock a batch); a file is read once, it never changes."""
        path = self.data.queue("/", name)
        found: list[Message] = []
        for file in tables.files_of(TableLog(path, files=True)):
            full = f"{path}/{file}"
            if full not in self._files:
                self._files[full] = _messages(pq.read_table(full, columns=["routing"], partitioning=None))
            found += self._files[full]
        return sorted(found)

    def check(self) -> None:
        """Nothing is lost, nothing is doubled, and no version refers to what is not there."""
        for name in self.incarnations:
            there = self.rows(name)
            assert len(there) == len(set(there)), f"doubled in {name}: {there}"
            missing = set(self.must[name]) - set(there)
            assert not missing, f"lost from {name}: {missing}"
            extra = set(there) - set(self.must[name])
            allowed = set(self.batch.messages) if self.batch is not None else set()
            assert extra <= allowed, f"{name} holds what it must not: {extra}"

    def finish(self) -> None:
        """End what has not ended, in a new process without faults, and look at everything from outside."""
        self.restart()
        if self.batch is not None:
            self.route(None)
        self.route(None)
        self.check()
        manifest = read_manifest(self.data)
        assert sorted(row["batch_id"] for row in manifest) == sorted(self.ended), "manifest rows"
        tables_of = [self.data.topology, self.data.streams, self.data.manifest]
        tables_of += [self.data.queue("/", name) for name in self.incarnations]
        for path in tables_of:
            log, table = TableLog(path, files=True), DeltaTable(path)
            files = {Path(uri).name for uri in table.file_uris()}
            assert (log.version, set(tables.files_of(log))) == (table.version(), files), path
            for file in files:
                pq.read_metadata(Path(path, file))
        self.restart()


def _messages(rows: pa.Table) -> list[Message]:
    routing = rows["routing"].combine_chunks()
    columns = [pc.struct_field(routing, name).to_pylist() for name in ("batch_id", "seq")]
    return list(zip(*columns, strict=True))


@contextmanager
def _injected(injection: Injection | None) -> Iterator[None]:
    if injection is None:
        yield
    else:
        with faults.installed(injection.hook):
            yield
