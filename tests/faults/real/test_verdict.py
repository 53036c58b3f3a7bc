"""The judge of the real runs: it says what is missing, what is there twice, and what should not be there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from bindery.store.paths import DataDir
from tests.faults.real.ledger import Ledger, Sent
from tests.faults.real.verdict import Verdict, judge
from tests.service.conftest import Server

pytestmark = pytest.mark.service

Books = tuple[DataDir, Ledger]


@pytest.fixture(scope="module")
def routed(tmp_path_factory: pytest.TempPathFactory) -> Books:
    """Twenty messages to three queues; "t0" was declared again half way, "p1" bound."""
    folder = tmp_path_factory.mktemp("routed") / "data"
    server = Server(folder).start()
    client = server.client()
    ledger = Ledger()

    def publish(first: int, last: int) -> None:
        for number in range(first, last):
            one = Sent(f"r{number}", "flow", "a.b" if number % 2 else "c", number, "red")
            ledger.published[one.id] = one
            ledger.routed[one.id] = client.post("/exchanges/%2F/flow/publish", one.publication).json["routed"]

    def declare(queue: str, key: str) -> None:
        assert client.put(f"/queues/%2F/{queue}").status in (201, 204)
        assert client.post(f"/bindings/%2F/e/flow/q/{queue}", {"routing_key": key}).status == 201

    try:
        client.put("/exchanges/%2F/flow", {"type": "topic"})
        declare("all", "#")
        declare("t0", "#")
        publish(0, 10)
        client.delete("/queues/%2F/t0")
        publish(10, 12)
        declare("t0", "a.*")
        declare("p1", "c")
        publish(12, 20)
    finally:
        server.stop()
    return DataDir.open(folder), ledger


@pytest.fixture
def books(routed: Books, tmp_path: Path) -> Books:
    """The same, to be damaged."""
    data, ledger = routed
    copied = DataDir.open(shutil.copytree(data.root, tmp_path / "data"))
    return copied, Ledger(published=dict(ledger.published), routed=dict(ledger.routed))


def table(books: Books, queue: str) -> DeltaTable:
    return DeltaTable(books[0].queue("/", queue))


def rows(books: Books, queue: str) -> pa.Table:
    return table(books, queue).to_pyarrow_table()


def test_what_was_routed_by_a_live_topology_is_as_it_must_be(books: Books) -> None:
    verdict = judge(*books)
    assert verdict.good, verdict
    assert {queue: rows(books, queue).num_rows for queue in ("all", "t0", "p1")} == {"all": 20, "t0": 4, "p1": 4}
    assert verdict.books["REST"].copies == 28


# rows are taken, not sliced: a slice of nested columns can abort the process that hands it to deltalake
def _lose(books: Books) -> None:
    table(books, "p1").delete()


def _double(books: Books) -> None:
    write_deltalake(table(books, "all"), rows(books, "all").take([3, 4]), mode="append")


def _stray(books: Books) -> None:
    write_deltalake(table(books, "p1"), rows(books, "t0").take([0]), mode="append")


def _revive(books: Books) -> None:
    old = rows(books, "all").filter(pa.compute.field("routing", "seq") >= 0).slice(0, 20)
    first = min(old["routing"].to_pylist(), key=lambda routing: routing["topology_version"])["topology_version"]
    write_deltalake(
        table(books, "t0"),
        old.filter(pa.compute.field("routing", "topology_version") == first).take([0]),
        mode="append",
    )


@pytest.mark.parametrize(
    ("damage", "lost", "doubled", "wrong"),
    [(_lose, 4, 0, 0), (_double, 0, 2, 0), (_stray, 0, 0, 1), (_revive, 0, 0, 1)],
)
def test_damage_is_found(books: Books, damage: Callable[[Books], None], lost: int, doubled: int, wrong: int) -> None:
    damage(books)
    verdict = judge(*books)
    assert (verdict.lost, verdict.doubled, verdict.books["REST"].wrong) == (lost, doubled, wrong)
    assert not verdict.good


def test_a_message_without_an_answer_may_be_there_in_part_but_never_twice(books: Books) -> None:
    data, ledger = books
    ledger.routed.clear()
    _lose(books)
    verdict = judge(data, ledger)
    assert (verdict.lost, verdict.torn, verdict.whole) == (0, 4, 16)
    _double(books)
    assert judge(data, ledger).doubled == 2


@pytest.mark.parametrize("answered", [True, False])
def test_a_message_of_which_nothing_is_there_is_lost_when_it_was_answered(books: Books, answered: bool) -> None:
    data, ledger = books
    ledger.published["r99"] = Sent("r99", "flow", "a", 1, "red")
    if answered:
        ledger.routed["r99"] = True
    verdict: Verdict = judge(data, ledger)
    assert (verdict.lost, verdict.absent, verdict.good) == (int(answered), int(not answered), not answered)


def test_a_row_that_nobody_sent_and_an_answer_that_was_none_are_found(books: Books) -> None:
    data, ledger = books
    del ledger.published["r3"]
    ledger.routed["r4"] = False
    assert set(judge(data, ledger).findings) == {
        "a row that nobody sent",
        "a message whose publisher was told something else",
    }
