"""Transformations in a job on Spark: tables hold the changed rows, and a batch that is lost comes again as it was."""

from __future__ import annotations

from typing import Any

from bindery.router.declarations import TopologyEditor
from bindery.router.message import Message
from bindery.router.model import TRANSFORM, Binding, Divert, Exchange, Queue
from bindery.router.values import Table
from bindery.store.redrive import Redriver
from bindery.store.unroutable import Selection
from tests.spark.installation import Installation

TEXT = "stream: s\nsource: {format: parquet, path: INBOX}\ntrigger: available-now\n"


def declare(editor: TopologyEditor) -> None:
    for name in ("orders", "audit"):
        editor.declare_exchange(Exchange("/", name, "direct" if name == "orders" else "fanout"))
    for name in ("eu", "audit"):
        editor.declare_queue(Queue("/", name))
    editor.bind(Binding(0, "/", "orders", "eu", "queue", "new"))
    changing = Table({TRANSFORM: "SET total = price * quantity; RENAME price TO unit_price"})
    editor.bind(Binding(0, "/", "orders", "eu", "queue", "new", changing))
    editor.declare_divert(
        Divert(0, "/", "d", "orders", "audit", "price > 1", transform="SET p.subject = 'audit'; REMOVE card")
    )
    editor.bind(Binding(0, "/", "audit", "audit"))


def rows(installation: Installation, queue: str) -> list[dict[str, Any]]:
    return sorted(installation.rows(queue), key=lambda row: row["routing"]["seq"])


def properties(row: dict[str, Any]) -> dict[str, Any]:
    held = {name: [v for v in value.values() if v is not None] for name, value in row["application_properties"]}
    return {name: found[0] for name, found in held.items()}


def test_a_job_writes_changed_copies_and_again_the_same(installation: Installation) -> None:
    installation.edit(declare)
    orders = [Table({"price": 2, "quantity": 3, "card": "4711"}), Table({"price": 1, "quantity": 1})]
    sent = [Message("orders", "new", application_properties=order) for order in orders]
    installation.publish([*sent, Message("orders", "lost", application_properties=orders[1])], file="a.parquet")
    (report,) = installation.route(TEXT)
    assert (report.records, report.copies, report.unroutable) == (3, 5, 1)
    assert sorted(map(sorted, map(properties, rows(installation, "eu")))) == [
        ["card", "price", "quantity"],
        ["card", "quantity", "total", "unit_price"],
        ["price", "quantity"],
        ["quantity", "total", "unit_price"],
    ]
    (audited,) = rows(installation, "audit")
    assert properties(audited) == {"price": 2, "quantity": 3}
    assert audited["properties"]["subject"] == "audit"
    (lost,) = installation.unroutable()
    assert properties(lost) == {"price": 1, "quantity": 1}, "as published"

    before = {name: rows(installation, name) for name in ("eu", "audit")}
    installation.forget_last_batch()
    installation.route(TEXT)
    assert {name: rows(installation, name) for name in ("eu", "audit")} == before

    bind = Binding(0, "/", "orders", "eu", "queue", "lost", Table({TRANSFORM: "SET price = price + 1"}))
    installation.edit(lambda editor: editor.bind(bind))
    assert Redriver(installation.data, installation.topology, "/").redrive(Selection()).copies == 1
    assert [properties(row)["price"] for row in rows(installation, "eu") if row["routing_key"] == "lost"] == [2]
