"""Try a message: pasted, found, against a change, brought to a queue; its way as a picture and its filters as trees."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Watched
from tests.service.conftest import Server

pytestmark = pytest.mark.service

CHEAP = {"exchange": "orders", "key": "us.books", "headers": '{"region": "EU", "price": 9}', "queue": "expensive"}


def address(**state: str) -> str:
    return "#/try?" + urlencode(state)


def test_the_way_is_lit_and_leads_to_its_explanation(console: Watched) -> None:
    page = console.open(address(**CHEAP))
    picture = page.get_by_role("group", name="The way of the message, from left to right")
    expect(picture.locator(".edge.taken title")).to_have_text([re.compile("^orders to <img")])
    refused = picture.locator(".edge.refused")
    expect(refused).to_have_count(2)
    expect(picture.locator(".reason", has_text="price > 20 is false")).to_have_count(1)
    expect(picture.locator("a.faded", has_text="rest")).to_have_count(1)
    refused.filter(has_text="orders to europe: word 1 of key 'us.books' is 'us'").focus()
    page.keyboard.press("Enter")
    expect(page.locator("li:focus")).to_contain_text("'eu.#' wants 'eu'")
    picture.locator("a", has_text="rest").click()  # a queue that it does not reach is asked about
    console.settle()
    expect(page.locator(".why")).to_contain_text("led the message elsewhere")


def test_every_part_of_a_filter_is_a_tree_by_keyboard(console: Watched) -> None:
    page = console.open(address(**CHEAP))
    tree = page.locator(".cause .parts")
    tree.locator("summary").first.focus()
    page.keyboard.press("Enter")
    parts = tree.locator("li li")
    expect(tree.locator("li").filter(has_text="price > 20").locator("details[open]").first).to_be_visible()
    expect(parts.filter(has_text=re.compile("^price 9$"))).to_have_count(1)
    held = tree.locator("details:not([open])", has_text="region = 'EU'")  # what holds is closed
    held.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(parts.filter(has_text=re.compile("^region EU$"))).to_be_visible()


def test_a_suggestion_is_tried_and_made(console: Watched, shop: Server) -> None:
    """From "why not" over the smallest change to a queue that gets the message, and back."""
    client = shop.client()
    client.put("/queues/%2F/gifts", {})
    binding = {"routing_key": "gift.#", "arguments": {"x-filter-jms-selector": "price < 5"}}
    client.post("/bindings/%2F/e/orders/q/gifts", binding)
    page = console.open(address(exchange="orders", key="gift.card", headers='{"price": 8}', queue="gifts"))
    wanted = page.locator(".suggestions li", has_text="price <= 8 instead of price < 5")
    expect(wanted).to_contain_text("2 objects")
    page.locator(".suggestions li", has_text="price 4 instead of 8").get_by_role(
        "link", name="Try this message"
    ).click()
    console.settle()
    expect(page.locator(".why")).to_contain_text("It does reach")
    expect(page.get_by_label("Headers")).to_have_value('{"price":4}')
    page.go_back()
    console.settle()
    wanted.get_by_role("link", name="Try with this change").click()
    console.settle()
    expect(page.locator(".verdict + p")).to_contain_text("By the change it comes to gifts.")
    expect(page.locator(".planned")).to_contain_text("price <= 8")
    page.click("button:has-text('Make this change')")
    page.get_by_label("Why", exact=True).fill("gifts cost more")
    page.get_by_role("dialog").get_by_role("button", name="Apply").click()
    expect(page.locator(".why")).to_contain_text("It does reach")
    expect(page.locator("h2", has_text="The change")).to_have_count(0)
    (stored,) = [one for one in client.get("/queues/%2F/gifts/bindings").json if one["source"] == "orders"]
    assert stored["arguments"] == {"x-filter-jms-selector": "price <= 8"}
    assert client.get("/topology/versions?limit=1").json["versions"][0]["reason"] == "gifts cost more"
    client.delete("/queues/%2F/gifts")


def test_a_message_is_pasted_and_its_errors_are_placed(console: Watched) -> None:
    page = console.open(address(**CHEAP))
    page.get_by_role("button", name="JSON").click()
    text = page.get_by_label("Message", exact=True)
    assert json.loads(text.input_value())["application_properties"] == {"region": "EU", "price": 9}
    text.fill('{"exchange": "orders",\n "routing_kye": "a"}')
    page.click("button:has-text('Try')")
    console.settle()
    expect(page.locator("[role=alert]")).to_contain_text("line 2, column 2: routing_kye: unknown key")
    expect(page.locator("pre mark")).to_have_text('"routing_kye": "a"}')
    properties = {"headers": {"price": 30, "region": "EU"}}
    text.fill(json.dumps({"exchange": "orders", "routing_key": "eu.x", "payload": "", "properties": properties}))
    page.click("button:has-text('Try')")
    console.settle()
    expect(page.locator(".why")).to_contain_text("It does reach")
    console.errors.clear()  # the browser notes the refused request


def test_a_message_is_found_and_tried(console: Watched) -> None:
    page = console.open("#/try")
    page.get_by_role("button", name="On record").click()
    console.settle()
    page.get_by_label("Filter").fill("price > 20")
    page.get_by_label("Key pattern").fill("eu.#")
    page.click("button:has-text('Find')")
    console.settle()
    (found,) = page.locator(".found li").all()
    expect(found).to_contain_text("eu.music")
    expect(found).to_contain_text(re.compile("in (europe, expensive|expensive, europe)"))
    expect(page.locator(".foot")).to_contain_text("no older ones")
    found.get_by_role("link").first.click()
    console.settle()
    expect(page.locator(".verdict")).to_contain_text("Reaches 2 queues: europe, expensive")
    console.open("#/queues/%2F/europe")
    page.get_by_role("row", name="eu.music").get_by_role("link").first.click()
    console.settle()
    page.get_by_role("link", name="Try it again").click()
    console.settle()
    expect(page.locator(".verdict")).to_contain_text("Reaches 2 queues: europe, expensive")


def test_a_change_is_no_button_for_who_may_not_make_it(opened: Callable[..., Watched], shop: Server) -> None:
    client = shop.client()
    client.put("/users/reader", {"password": "pw", "tags": "management"})
    client.put("/permissions/%2F/reader", {"configure": "", "write": "", "read": ".*"})
    console = opened(width=390)
    console.log_in("reader", "pw")
    change = "add:\n  bindings:\n    - {source: orders, destination: expensive, routing_key: us.books}\n"
    page = console.open(address(**CHEAP, change=change))
    expect(page.locator("main")).to_contain_text("Your permissions do not allow to make it.")
    expect(page.locator("button:has-text('Make this change')")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    console.open(address(**CHEAP, change=change.replace("source", "sorce")))
    expect(page.locator("[role=alert]").first).to_contain_text("line 3, column 8")
