"""What journals have for a queue: copies that wait for it, messages of the past, its table made again, the consumed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect

from bindery.router.message import Message
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.console.conftest import Watched
from tests.service.conftest import Server
from tests.unit.store.routed import route

pytestmark = pytest.mark.service

AT = "#/queues/past/"


@pytest.fixture(scope="module")
def past(shop: Server) -> DataDir:
    """A vhost with a queue for which three messages wait, one whose first was taken, and one declared later."""
    client = shop.client()
    data = DataDir.open(shop.settings.data)
    assert client.put("/vhosts/past").status == 201
    client.put("/queues/past/slow", {"arguments": {"x-freshness": 3_600}})
    for name in ("slow", "fast"):
        client.put(f"/queues/past/{name}", {})
        client.post(f"/bindings/past/e/amq.topic/q/{name}", {"routing_key": "#"})
    sent = [Message("amq.topic", f"eu.{n}", properties={"message_id": f"m{n}"}) for n in range(3)]
    route(data, TopologyStore(data), sent, stream="past", vhost="past")
    client.post("/queues/past/fast/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"})
    client.put("/queues/past/later", {})
    client.post("/bindings/past/e/amq.topic/q/later", {"routing_key": "*.2"})
    return data


def test_what_waits_stands_beside_the_messages(console: Watched, past: DataDir) -> None:
    page = console.open("#/queues?name=slow")
    expect(page.get_by_role("row", name="slow")).to_contain_text("3 waiting 3")
    page.get_by_role("link", name="slow").click()
    expect(page.locator("dl.facts")).to_contain_text("Waiting3 in journals")


def test_a_backfill_says_before_what_would_come(console: Watched, past: DataDir) -> None:
    page = console.open(f"{AT}later")
    page.get_by_role("button", name="Backfill …").press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".told")).to_contain_text("1 message would come, routed at")
    expect(dialog.locator(".told")).to_contain_text("past: 1 of 3 messages")
    dialog.get_by_label("Filter").fill("no = 1")
    expect(dialog.locator(".told")).to_contain_text("No message would come")
    dialog.get_by_label("Filter").fill("")
    expect(dialog.locator(".told")).to_contain_text("1 message would come")
    dialog.get_by_role("button", name="Backfill").click()
    expect(dialog).to_have_count(0)
    expect(page.locator("dl.facts")).to_contain_text("Messages1")


def test_a_table_that_is_lost_is_made_again(console: Watched, past: DataDir) -> None:
    page = console.open(f"{AT}fast?show=table")
    page.get_by_role("button", name="Rebuild …").click()
    expect(page.get_by_role("dialog")).to_contain_text("The table is whole: there is nothing to rebuild.")
    page.keyboard.press("Escape")
    shutil.rmtree(Path(past.queue("past", "fast")))
    page.get_by_role("button", name="Rebuild …").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".told")).to_contain_text("The table is lost. 3 messages would be made again, routed at")
    dialog.get_by_role("button", name="Rebuild").click()
    expect(dialog).to_have_count(0)
    expect(page.locator("dl.facts").first).to_contain_text("Messages3")


def test_a_consumed_message_is_found_in_the_journal(console: Watched, shop: Server, past: DataDir) -> None:
    assert shop.client().delete("/queues/past/fast/contents").status == 204
    page = console.open("#/try?as=row&vhost=past&in=fast&id=m0")
    expect(page.locator(".messages.found li")).to_contain_text(
        "not there any more, in the journal of past; it had reached fast, slow"
    )
    page.locator(".messages.found a.entry").click()
    expect(page.locator(".answers").first).to_contain_text("eu.0")
