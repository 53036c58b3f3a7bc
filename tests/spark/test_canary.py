"""A canary over a streaming job: begun, seen while it runs, promoted or rolled back, and lost on the way."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from bindery.jobs.canary_report import report
from bindery.router.canary import Canary, Choice
from bindery.router.message import Message, to_batch
from bindery.router.model import Exchange
from bindery.store import canaries, faults
from bindery.store.canaries import Request
from bindery.store.totals import ManifestTotals
from tests.spark.installation import Installation
from tests.unit.store.conftest import Crash, at, crash

#: Every third key goes to `new` and no longer to `old`.
CHANGE: dict[str, Any] = {
    "delete": {"bindings": [{"source": "orders", "destination": "old", "routing_key": "k2"}]},
    "definitions": {
        "queues": [{"name": "new"}],
        "bindings": [{"source": "orders", "destination": "new", "destination_type": "queue", "routing_key": "k2"}],
    },
}
JOURNAL = "stream: s\nsource: {format: parquet, path: INBOX}\njournal: true\ntrigger: available-now\n"


def orders(first: int, count: int) -> list[Message]:
    return [
        Message("orders", f"k{n % 3}", properties={"message_id": f"m{n}"}, body=f"b{n}".encode())
        for n in range(first, first + count)
    ]


def prepared(installation: Installation) -> Installation:
    installation.edit(lambda editor: editor.declare_exchange(Exchange("/", "orders", "direct")))
    for key in ("k0", "k1", "k2"):
        installation.queue("old", source="orders", key=key)
    return installation


def begin(installation: Installation, **stated: Any) -> Canary:
    request = Request.of({"change": CHANGE, "share": 0.5} | stated)
    return canaries.put(installation.topology, "/", request, author="ada").canary


def placed(installation: Installation, queue: str) -> dict[str, int]:
    """The topology version that brought each message to a queue, by message id."""
    rows = installation.rows(queue)
    found = {row["properties"]["message_id"]["string"]: row["routing"]["topology_version"] for row in rows}
    assert len(found) == len(rows), "a message came twice"
    return found


def expected(canary: Canary, present: int, sent: list[Message]) -> tuple[dict[str, int], dict[str, int]]:
    """What `old` and `new` are to hold."""
    old, new = {}, {}
    for message, is_in in zip(sent, Choice(canary)(to_batch(sent), clock_ms=0).tolist(), strict=True):
        version = canary.version if is_in and canary.deliver else present
        moved = is_in and canary.deliver and message.routing_key == "k2"
        (new if moved else old)[message.properties["message_id"]] = version
    return old, new


def test_a_canary_runs_beside_the_present_and_is_promoted(installation: Installation) -> None:
    prepared(installation)
    canary = begin(installation)
    present = installation.topology.load().version
    sent = orders(0, 300)
    for part in range(2):
        installation.publish(sent[part * 150 : part * 150 + 150], file=f"{part}.parquet")
        installation.route(JOURNAL)
    old, new = expected(canary, present, sent)
    assert (placed(installation, "old"), placed(installation, "new")) == (old, new)
    assert new and set(new.values()) == {canary.version}
    assert set(old.values()) == {canary.version, present}
    by_journal = {row["properties"]["message_id"]["string"]: row["routing"] for row in installation.journal()}
    assert {name: one["topology_version"] for name, one in by_journal.items()} == old | new

    found = report(installation.data, installation.topology, ManifestTotals(installation.data.manifest).totals(), "/")
    chosen = sum(version == canary.version for version in (old | new).values())
    compared = found["comparison"]
    assert (compared["messages"], compared["differing"]) == (chosen, len(new))
    assert compared["equal"] == chosen - len(new)
    assert {one["queue"]: (one["gained"], one["lost"]) for one in compared["queues"]} == {
        "old": (0, len(new)),
        "new": (len(new), 0),
    }
    for one in compared["queues"]:
        (example,) = one["examples"]
        assert example["row"].startswith("s:")
        assert example["because"] and example["not_because"]

    # a batch that Spark runs again is left alone
    installation.forget_last_batch()
    installation.route(JOURNAL)
    assert (placed(installation, "old"), placed(installation, "new")) == (old, new)

    canaries.promote(installation.topology, "/", author="ada")
    installation.publish(orders(300, 30), file="2.parquet")
    installation.route(JOURNAL)
    newest = installation.topology.load().version
    later = {name: version for name, version in placed(installation, "new").items() if name not in new}
    assert later == {f"m{n}": newest for n in range(300, 330) if n % 3 == 2}
    # the ids by which the candidate is known in rows stay
    assert len({tuple(row["routing"]["bindings"]) for row in installation.rows("new")}) == 1


def test_compared_only_everything_goes_by_the_present(installation: Installation) -> None:
    prepared(installation)
    canary = begin(installation, share=1, deliver=False)
    installation.publish(orders(0, 30), file="0.parquet")
    installation.route()
    assert installation.counts() == {"old": 30, "new": 0}
    (row,) = installation.manifest()
    counted = {(one["what"], one["name"]): one["messages"] for one in row["canary"]}
    assert counted == {("messages", ""): 30, ("differing", ""): 10, ("gained", "new"): 10, ("lost", "old"): 10}
    assert {one["started"] for one in row["canary"]} == {canary.started}
    canaries.roll_back(installation.topology, "/", author="ada")
    installation.publish(orders(30, 3), file="1.parquet")
    installation.route()
    assert not installation.manifest()[-1]["canary"]


@pytest.mark.parametrize("point", ["batch.pinned", "batch.appended"])
def test_a_batch_that_was_lost_goes_as_it_was_begun_whatever_became_of_the_canary(
    installation: Installation, point: str
) -> None:
    prepared(installation)
    canary = begin(installation)
    present = installation.topology.load().version
    sent = orders(0, 60)
    installation.publish(sent, file="0.parquet")
    with faults.installed(at(point, crash)), pytest.raises(Crash):
        installation.route()
    canaries.roll_back(installation.topology, "/", author="ada")
    installation.route()
    assert (placed(installation, "old"), placed(installation, "new")) == expected(canary, present, sent)
    (row,) = installation.manifest()
    counted = Counter({one["what"]: one["messages"] for one in row["canary"] if not one["name"]})
    assert counted["messages"] == sum(Choice(canary)(to_batch(sent), clock_ms=0).tolist())
    installation.publish(orders(60, 3), file="1.parquet")
    installation.route()
    assert placed(installation, "old")["m62"] == installation.topology.load().version
