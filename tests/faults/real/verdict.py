"""What the tables hold against what was sent: every copy that must be there, once, and no other.

The topology version of a message stands on its rows; the Router of exactly that version says which
queues must hold it. A queue that was deleted and declared again holds what was routed since.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from deltalake import DeltaTable

from bindery.router.engine import Router
from bindery.router.message import to_batch
from bindery.store.deferred import any_waiting
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.faults.real.flushed import Commits, Names, Noted, dataset, ids_of, names_in, noted
from tests.faults.real.ledger import Ledger
from tests.faults.real.traffic import STREAM, TRANSIENT

UNROUTABLE: Final = "(unroutable)"
_ID: Final = re.compile(r'"id": "(s[0-9-]+)"')
_EXAMPLES: Final = 5


Identity = tuple[str, int, int]
#: A table, and the batch of some rows in it: batch id, topology version, clock.
Part = tuple[str, int, int, Any]


@dataclass(frozen=True, slots=True)
class Copy:
    """One row of a table. `identity` is stream, batch and number, `broken` tells a record that is no message."""

    id: str
    table: str
    version: int
    identity: Identity
    part: Part
    publication: tuple[str, str]
    lineage: tuple[int, ...]
    broken: bool = False


@dataclass
class Books:
    """How one origin of messages fared; copies are counted, whole messages where nothing of them is there."""

    messages: int = 0
    copies: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0


@dataclass
class Verdict:
    """The result. Nothing may be lost, doubled or wrong, and `findings` must be empty.

    whole, torn, absent   messages without an answer: all of their copies are there, some, none
    commits               to queues, flushes among them
    """

    books: dict[str, Books] = field(
        default_factory=lambda: {name: Books() for name in ("stream", "stream, no JSON", "REST", "REST, no answer")}
    )
    whole: int = 0
    torn: int = 0
    absent: int = 0
    batches: Counter[str] = field(default_factory=Counter)
    versions: int = 0
    commits: Commits = field(default_factory=Commits)
    findings: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def lost(self) -> int:
        """Copies, and messages without any."""
        return sum(book.lost for book in self.books.values())

    @property
    def doubled(self) -> int:
        """Copies beyond the first of a message in a table."""
        return sum(book.doubled for book in self.books.values())

    @property
    def good(self) -> bool:
        """Whether everything is as it must be."""
        return not (self.lost or self.doubled or self.findings or any(book.wrong for book in self.books.values()))

    def find(self, what: str, example: object) -> None:
        """Take down something that must not be."""
        self.findings[what] += 1
        if len(self.examples[what]) < _EXAMPLES:
            self.examples[what].append(str(example)[:200])


def judge(data: DataDir, ledger: Ledger) -> Verdict:
    """Read every table and compare; the job must have routed its whole source, nothing may wait, and nobody write."""
    verdict = Verdict()
    topologies = TopologyStore(data)
    head = topologies.load()
    verdict.versions = head.version
    queues = {queue.name for queue in head.in_vhost("/")[1]}
    copies = [copy for name in sorted(queues) for copy in _read(data.queue("/", name), name)]
    copies += _read(data.unroutable("/"), UNROUTABLE)
    by_id: dict[str, list[Copy]] = defaultdict(list)
    for copy in copies:
        by_id[copy.id].append(copy)
    _check_identities(verdict, copies)
    names: Names = {}
    expected = _expected(topologies, ledger, by_id, names)
    born = _born(topologies, queues & set(TRANSIENT))
    _check_messages(verdict, ledger, by_id, expected, queues, born)
    journal = list(noted(data, topologies, STREAM, names))
    _check_journal(verdict, ledger, journal, expected)
    if any_waiting(data, STREAM):
        verdict.find("copies that wait in the journal", STREAM)
    _check_manifest(verdict, data, ledger, copies, journal, queues, born)
    verdict.commits = Commits.of(data, queues)
    return verdict


def _read(path: str, table: str) -> Iterator[Copy]:
    if not DeltaTable.is_deltatable(path):
        return
    lost = table == UNROUTABLE
    columns = ["exchange", "routing_key", "application_properties", "routing", "routed_at"]
    rows = dataset(path).to_table(columns=columns + ["raw", "reason"] * lost).combine_chunks()
    if not rows.num_rows:
        return
    ids = ids_of(rows)
    for number, row in enumerate(rows.drop_columns("application_properties").to_pylist()):
        routing = row["routing"]
        stamp = (routing["batch_id"], routing["topology_version"])
        broken = lost and row["reason"] == "invalid_record"
        name = ids[number]
        if broken and (found := _ID.search(row["raw"].decode())):
            name = found[1]
        yield Copy(
            id=name or "(none)",
            table=table,
            version=routing["topology_version"],
            identity=(routing["stream"], routing["batch_id"], routing["seq"]),
            part=(table, *stamp, row["routed_at"]),
            publication=(row["exchange"], row["routing_key"]),
            lineage=tuple(routing["bindings"] or ()),
            broken=broken,
        )


def _check_identities(verdict: Verdict, copies: Iterable[Copy]) -> None:
    """Stream, batch and number name one message, and a message has one of them, in whatever tables it is."""
    of_identity: dict[Identity, set[str]] = defaultdict(set)
    of_message: dict[str, set[Identity]] = defaultdict(set)
    for copy in copies:
        of_identity[copy.identity].add(copy.id)
        of_message[copy.id].add(copy.identity)
    for identity, names in of_identity.items():
        if len(names) > 1:
            verdict.find("an identity shared by several messages", (identity, sorted(names)))
    for name, identities in of_message.items():
        if len(identities) > 1:
            verdict.find("a message under several identities", (name, sorted(identities)))


def _expected(
    topologies: TopologyStore, ledger: Ledger, by_id: dict[str, list[Copy]], names_of: Names
) -> dict[str, tuple[set[str], tuple[int, ...]]]:
    """Message -> the queues of its version that must hold it, and its lineage; notes the names of each version."""
    by_version: dict[int, list[str]] = defaultdict(list)
    for name, copies in by_id.items():
        if ledger.sent(name) is not None:
            by_version[copies[0].version].append(name)
    expected = {}
    for version, names in sorted(by_version.items()):
        topology = topologies.load(version=version)
        names_of[version] = names_in(topology)
        router = Router.compile(topology, "/")
        sent = [one for name in names if (one := ledger.sent(name)) is not None]
        deliveries = router.route(to_batch(one.message for one in sent), clock_ms=0)
        lineages = deliveries.lineage.to_pylist()
        found: list[set[str]] = [set() for _ in sent]
        for queue in deliveries.queue.tolist():
            for row in deliveries.rows_of(queue).tolist():
                found[row].add(router.queues[queue])
        for one, queues, lineage in zip(sent, found, lineages, strict=True):
            expected[one.id] = (queues, tuple(lineage))
    return expected


def _born(topologies: TopologyStore, queues: set[str]) -> dict[str, int]:
    """Queue -> the version since which it has been there without a break."""
    born: dict[str, int] = {}
    version = topologies.load().version
    while queues and version > 0:
        there = {queue.name for queue in topologies.load(version=version).in_vhost("/")[1]}
        born |= dict.fromkeys(queues - there, version + 1)
        queues &= there
        version -= 1
    return born | dict.fromkeys(queues, 0)


def _check_messages(
    verdict: Verdict,
    ledger: Ledger,
    by_id: dict[str, list[Copy]],
    expected: dict[str, tuple[set[str], tuple[int, ...]]],
    queues: set[str],
    born: dict[str, int],
) -> None:
    books = verdict.books
    for name in ledger.broken:
        book = books["stream, no JSON"]
        refused = sum(copy.broken for copy in by_id.pop(name, []))
        book.messages += 1
        book.copies += refused
        book.lost += not refused
        book.doubled += max(0, refused - 1)
    for name, one in (ledger.streamed | ledger.published).items():
        copies = by_id.pop(name, [])
        unanswered = name in ledger.published and name not in ledger.routed
        book = books["REST, no answer" if unanswered else "REST" if name in ledger.published else "stream"]
        book.messages += 1
        book.copies += len(copies)
        if not copies:
            if unanswered:
                verdict.absent += 1
            else:
                book.lost += 1
                verdict.find("a message of which nothing is there", one)
            continue
        reached, lineage = expected[name]
        version = copies[0].version
        wanted = {queue for queue in reached if queue in queues and version >= born.get(queue, 0)}
        if not reached:
            wanted = {UNROUTABLE}
        held = Counter(copy.table for copy in copies)
        missing = wanted - held.keys()
        if unanswered:
            verdict.torn += bool(missing)
            verdict.whole += not missing
        else:
            book.lost += len(missing)
        book.doubled += held.total() - len(held)
        book.wrong += len(held.keys() - wanted)
        if (missing and not unanswered) or held.keys() - wanted or held.total() > len(held):
            verdict.find("a message whose copies are not those of its version", (one, version, wanted, dict(held)))
        if any(copy.version != version or copy.lineage != lineage for copy in copies):
            verdict.find("a message with rows of several versions or another lineage", (one, copies[:2]))
        if any(copy.publication != (one.exchange, one.key) or copy.broken for copy in copies):
            verdict.find("a message that is not what was sent", (one, copies[:2]))
        if ledger.routed.get(name, bool(reached)) != bool(reached):
            verdict.find("a message whose publisher was told something else", (one, ledger.routed[name], reached))
    for name in by_id:
        verdict.find("a row that nobody sent", (name, by_id[name][0]))


def _check_journal(
    verdict: Verdict, ledger: Ledger, journal: list[Noted], expected: dict[str, tuple[set[str], tuple[int, ...]]]
) -> None:
    """Each message of the stream is there once, with the queues that it reached."""
    times = Counter(one.id for one in journal)
    if journal:
        for name in ledger.streamed.keys() - times.keys():
            verdict.find("a message that is not in the journal", name)
    for name, number in times.items():
        if number > 1 or name not in ledger.streamed:
            verdict.find("a message that is not once in the journal", (name, number))
    for one in journal:
        if one.id in expected and one.queues != expected[one.id][0]:
            verdict.find("a message whose queues the journal does not know", (one, expected[one.id]))
        if not one.deferred <= one.queues:
            verdict.find("copies that waited for a queue which was not reached", one)


def _check_manifest(
    verdict: Verdict,
    data: DataDir,
    ledger: Ledger,
    copies: Iterable[Copy],
    journal: Iterable[Noted],
    queues: set[str],
    born: dict[str, int],
) -> None:
    """Each batch is ended once, and counts for each table what the table holds of it; the journal counts the rest."""
    rows = dataset(data.manifest).to_table().to_pylist()
    ended = Counter((row["app_id"], row["batch_id"]) for row in rows)
    verdict.batches.update(row["stream"] for row in rows)
    for batch, times in ended.items():
        if times > 1:
            verdict.find("a batch that was ended twice", batch)
    counted: Counter[Part] = Counter()
    records = 0
    for row in rows:
        records += row["records"] if row["stream"] != "api" else 0
        for table in row["tables"]:
            name = UNROUTABLE if table["kind"] == "unroutable" else table["name"]
            if name == UNROUTABLE or (name in queues and row["topology_version"] >= born.get(name, 0)):
                counted[name, row["batch_id"], row["topology_version"], row["clock"]] += table["rows"]
    for one in journal:
        for name in one.deferred:
            if name in queues and one.version >= born.get(name, 0):
                counted[name, one.identity[1], one.version, one.clock] += 1
    if records != len(ledger.streamed) + len(ledger.broken):
        verdict.find("records of the stream in the manifest", f"{records}, {len(ledger.streamed)} + broken were sent")
    unanswered = ledger.published.keys() - ledger.routed.keys()
    held = Counter(copy.part for copy in copies)
    answered = {copy.part for copy in copies if copy.id not in unanswered}
    for part, rows_held in held.items():
        # a batch of the service that was never ended has been answered to nobody
        if counted[part] != rows_held and (part in counted or part in answered):
            verdict.find("a batch whose counts are not those of a table", (part, counted[part], rows_held))
    for part in islice((part for part, rows_counted in counted.items() if rows_counted and part not in held), 100):
        verdict.find("a batch of which a table holds nothing", (part, counted[part]))
