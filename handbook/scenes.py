"""Pictures that are drawn by hand: what leads to what, in words of the product."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

from handbook.drawing import Drawing


def overview() -> Drawing:
    """From records to queue tables."""
    drawn = Drawing(
        "From records to queue tables",
        "Sources feed a streaming job, which routes each micro-batch through exchanges under a pinned topology "
        "version, into one Delta table per queue, a table of unroutable messages and a manifest; engines read them.",
        860,
        330,
    )
    files = drawn.box(4, 40, 150, ["files, Delta, Kafka", "records"])
    inbox = drawn.box(4, 120, 150, ["bulk inbox", "NDJSON, Arrow"])
    queue = drawn.box(4, 200, 150, ["another queue", "a bridge"])
    job = drawn.box(250, 104, 180, ["streaming job", "records become messages,", "exchanges route them"], kind="lit")
    topology = drawn.box(250, 258, 180, ["topology", "a version per change"])
    first = drawn.box(530, 8, 140, ["queue europe", "a Delta table"])
    second = drawn.box(530, 82, 140, ["queue large", "a Delta table"])
    lost = drawn.box(530, 166, 140, ["unroutable", "with the reason"])
    manifest = drawn.box(530, 240, 140, ["manifest", "a row per batch"])
    readers = drawn.box(750, 22, 106, ["readers", "Spark", "polars", "DuckDB", "REST"])
    for source in (files, inbox, queue):
        drawn.arrow(source.right, job.left)
    drawn.arrow(topology.top, (topology.top[0], job.bottom[1]), labels=[("pinned version", "small quiet")])
    for table in (first, second):
        drawn.arrow(job.right, table.left, kind="lit")
        drawn.arrow(table.right, readers.left)
    for table in (lost, manifest):
        drawn.arrow(job.right, table.left)
    drawn.words(4, 290, ["definitions files, REST, rabbitmqadmin"])
    drawn.arrow((228, 286), topology.left)
    return drawn


def one_message() -> Drawing:
    """The steps that a message takes at an exchange."""
    drawn = Drawing(
        "What happens to a message at an exchange",
        "A message is evaluated at an exchange with its keys. Exclusive diverts that match take it away. Otherwise "
        "bindings and diverts that match fire; queue filters decide who gets a copy. If nothing matched, the alternate "
        "exchange is next; if no queue was reached in the end, the alternate binding.",
        860,
        400,
    )
    published = drawn.box(4, 20, 150, ["published", "exchange and keys"], kind="lit")
    unknown = drawn.box(4, 140, 150, ["unroutable", "no_exchange or", "internal_exchange"], kind="lost")
    state = drawn.box(250, 20, 160, ["exchange and keys", "each pair once"], kind="lit")
    exclusive = drawn.box(500, 20, 190, ["exclusive diverts match", "all of them fire,", "nothing else does"])
    bindings = drawn.box(250, 140, 160, ["bindings, diverts", "by key or headers,", "then by filter"])
    queue = drawn.box(510, 140, 170, ["queue filter", "true: enters"])
    copy = drawn.box(740, 140, 110, ["queue", "one copy"], kind="lit")
    alternate = drawn.box(250, 264, 160, ["alternate-exchange", "nothing matched"])
    binding = drawn.box(510, 264, 170, ["alternate-binding", "no queue was reached", "through the exchange"])
    drawn.arrow(published.right, state.left, kind="lit")
    drawn.arrow(published.bottom, unknown.top, kind="lost")
    drawn.arrow(state.right, exclusive.left)
    drawn.arrow(state.bottom, bindings.top, kind="lit", labels=[("no exclusive one", "small quiet")])
    drawn.arrow(bindings.right, queue.left, kind="lit", labels=[("to a queue", "small quiet")])
    drawn.arrow(queue.right, copy.left, kind="lit")
    drawn.arrow(bindings.bottom, alternate.top, labels=[("no match", "small quiet")])
    drawn.arrow(queue.bottom, binding.top, kind="soft", labels=[("in the end", "small quiet")])
    drawn.words(
        4,
        366,
        [
            "Diverts, alternates and bindings to exchanges lead to another exchange, where it begins anew.",
            "A message that reaches no queue at all is unroutable: it is kept, with the reason.",
        ],
    )
    return drawn


def batch() -> Drawing:
    """The stages of a micro-batch."""
    drawn = Drawing(
        "The way of a micro-batch",
        "Intake, pin, tasks that fold, route and write, one commit per table, the row of the manifest, in this order.",
        860,
        190,
    )
    boxes = [
        drawn.box(4, 50, 120, ["intake", "which records", "can be read"]),
        drawn.box(168, 50, 128, ["pin", "topology version", "and clock, durably"], kind="lit"),
        drawn.box(340, 50, 152, ["tasks", "fold, route, write", "a file per queue"]),
        drawn.box(536, 50, 140, ["commit", "one Delta commit", "per table"], kind="lit"),
        drawn.box(720, 50, 136, ["manifest", "one row:", "the batch is whole"], kind="lit"),
    ]
    for left, right in pairwise(boxes):
        drawn.arrow(left.right, right.left)
    drawn.words(4, 28, ["Spark plans the batch"])
    drawn.words(340, 28, ["workers"])
    drawn.words(536, 28, ["driver"])
    drawn.words(
        4,
        150,
        [
            "Files that no commit names are part of no table.",
            "A batch without its row in the manifest is completed, with the same pin.",
        ],
    )
    return drawn


def versions() -> Drawing:
    """Topology versions, and batches pinned to them."""
    drawn = Drawing(
        "Topology versions and the batches that they route",
        "Three versions of the topology on a line of time: declared, filter widened, rolled back. Batches 0 and 1 are "
        "pinned to version 2, batch 2 to version 3, batch 3 to version 4.",
        860,
        240,
    )
    names = (["version 2", "declared"], ["version 3", "filter widened"], ["version 4", "rolled back to 2"])
    tops = [drawn.box(x, 24, 190, words, kind="lit") for x, words in zip((40, 330, 620), names, strict=True)]
    for left, right in pairwise(tops):
        drawn.arrow(left.right, right.left)
    for x, number, version in ((4, 0, 0), (144, 1, 0), (360, 2, 1), (650, 3, 2)):
        low = drawn.box(x, 150, 130, [f"batch {number}", f"rows say version {version + 2}"])
        drawn.arrow(low.top, (low.top[0], tops[version].bottom[1]), kind="soft")
    drawn.words(
        4,
        226,
        ["A batch keeps its version, also when it is repeated after a crash. A change takes effect at the next batch."],
    )
    return drawn


def lineage() -> Drawing:
    """What a row says about how it came about."""
    drawn = Drawing(
        "What a row of a queue says about how it came about",
        "The column routing of a row holds the topology version, the stream, batch and number, and the ids of the "
        "bindings that matched. They lead to the version's author and time, to the batch's row in the manifest, to the "
        "copies in other queues and to the bindings.",
        860,
        270,
    )
    row = drawn.box(
        4,
        40,
        250,
        [
            "a row of queue late",
            "topology_version 3",
            "stream flights",
            "batch_id 7",
            "seq 412",
            "bindings [2, 5]",
        ],
        kind="lit",
        code=True,
    )
    for y, words in (
        (8, ["topology version 3", "who changed what, when, why"]),
        (74, ["manifest: flights, batch 7", "records, copies, times, clock"]),
        (140, ["flights:7:412 in every queue", "the same message, every copy of it"]),
        (206, ["bindings 2 and 5", "the ways by which it came"]),
    ):
        drawn.arrow(row.right, drawn.box(470, y, 270, words).left)
    drawn.words(4, 190, ["source says where the record stood:", "file and row, or topic, partition, offset"])
    return drawn


def exactly_once() -> Drawing:
    """A batch that is killed half way, and completed."""
    drawn = Drawing(
        "A batch that is killed in the middle of its commits",
        "The first attempt of batch 7 commits queue a and dies. The second attempt gets the same pin, and so the same "
        "copies; it finds batch 7 in the log of queue a and skips it, commits queue b, and writes the manifest.",
        860,
        250,
    )
    drawn.words(4, 50, ["first attempt"], "name")
    drawn.words(4, 166, ["second attempt"], "name")
    pin = drawn.box(130, 20, 130, ["pin batch 7", "version 3, clock"], kind="lit")
    first = drawn.box(330, 20, 140, ["queue a", "commit, batch 7"], kind="lit")
    dead = drawn.box(540, 20, 140, ["killed", "queue b has nothing"], kind="lost")
    same = drawn.box(130, 136, 130, ["the same pin", "version 3, clock"], kind="lit")
    skip = drawn.box(330, 136, 140, ["queue a", "has batch 7: skipped"], kind="soft")
    second = drawn.box(540, 136, 140, ["queue b", "commit, batch 7"], kind="lit")
    whole = drawn.box(740, 136, 116, ["manifest", "batch 7 is whole"], kind="lit")
    drawn.arrow(pin.right, first.left)
    drawn.arrow(first.right, dead.left, kind="lost")
    for left, right in ((same, skip), (skip, second), (second, whole)):
        drawn.arrow(left.right, right.left)
    drawn.arrow(pin.bottom, same.top, kind="soft", labels=[("on record", "small quiet")])
    drawn.words(
        130,
        222,
        ["The same pin gives the same copies with the same numbers, so a queue has the batch once or not yet."],
    )
    return drawn


#: Name of a picture -> who draws it.
SCENES: Final[Mapping[str, Callable[[], Drawing]]] = {
    "overview": overview,
    "one-message": one_message,
    "batch": batch,
    "versions": versions,
    "lineage": lineage,
    "exactly-once": exactly_once,
}
