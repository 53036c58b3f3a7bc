"""Publishing in the console: a message arrives as it was written, and the form says whether it reached a queue."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser import Watched
from tests.service.conftest import Server


def test_a_message_is_published_from_the_page_of_its_exchange(console: Watched, shop: Server) -> None:
    client = shop.client()
    client.put("/exchanges/%2F/news", {"type": "topic"})
    client.put("/queues/%2F/readers", {})
    client.post("/bindings/%2F/e/news/q/readers", {"routing_key": "eu.#"})
    page = console.open("#/exchanges/%2F/news")
    page.get_by_role("button", name="Publish …").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Routing key").fill("us.sports")
    form.get_by_label("Headers").fill('{"edition": 7, "urgent": true}')
    form.get_by_label("Properties").fill('{"content_type": "text/plain"}')
    form.get_by_label("Body", exact=True).fill("<b>goal</b>")
    form.get_by_role("button", name="Publish").click()
    expect(form.get_by_text("reached no queue")).to_be_visible()
    form.get_by_label("Routing key").fill("eu.sports")
    form.get_by_role("button", name="Publish").click()
    expect(form.get_by_text("it is in a queue")).to_be_visible()
    asked = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
    (got,) = client.post("/queues/%2F/readers/get", asked).json
    assert got["payload"] == "<b>goal</b>"
    assert got["properties"]["content_type"] == "text/plain"
    assert got["properties"]["headers"].items() >= {"edition": 7, "urgent": True}.items()
    form.get_by_label("Headers").fill("{edition}")
    form.get_by_role("button", name="Publish").click()
    expect(form.get_by_role("alert")).to_contain_text("no JSON")
    page.keyboard.press("Escape")
    expect(form).to_have_count(0)


def test_an_exchange_of_exchanges_takes_no_messages_from_a_form(console: Watched, shop: Server) -> None:
    shop.client().put("/exchanges/%2F/inner", {"type": "fanout", "internal": True})
    page = console.open("#/exchanges/%2F/inner")
    expect(page.get_by_text("fanout, internal")).to_be_visible()
    expect(page.get_by_role("button", name="Publish …")).to_have_count(0)
