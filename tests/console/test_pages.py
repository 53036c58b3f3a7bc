"""The pages of the console in a real browser: they draw, they lead on, they show names and payloads as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.console.conftest import ORDERS, SCRIPT_NAME, TURNING_NAME, Watched
from tests.service.conftest import Server

pytestmark = pytest.mark.service

MESSAGE = "exchange=orders&key=us.books&headers=" + quote('{"region": "US", "price": 9}')
PAGES = {
    "#/": "Overview",
    "#/topology/%2F": "Topology",
    "#/topology/%2F?queue=europe": "Topology",
    "#/exchanges": "Exchanges",
    "#/exchanges/%2F/orders": "orders",
    "#/exchanges/%2F/amq.default": "default exchange",
    "#/queues": "Queues",
    "#/queues/%2F/europe": "europe",
    "#/queues/%2F/europe?version=1&filter=price+%3E+1": "europe",
    "#/queues/%2F/europe?show=table": "europe",
    "#/queues/%2F/europe?show=read": "europe",
    "#/queues/%2F/europe/rows/api%3A0%3A0": "api:0:0 · europe",
    f"#/queues/%2F/{quote(SCRIPT_NAME, safe='')}": SCRIPT_NAME,
    f"#/try?vhost=%2F&{MESSAGE}&queue=expensive": "Try a message",
    "#/filters": "Filters",
    "#/filters?filter=price+%3E+20&vhost=%2F&queue=europe": "Filters",
    "#/unroutable/%2F": "Unroutable",
    "#/diverts/%2F": "Diverts",
    "#/policies/%2F": "Policies",
    "#/lint/%2F": "Findings",
    "#/apply/%2F": "Apply a document",
    "#/vhosts": "Vhosts",
    "#/replay": "Replay",
    "#/jobs": "Jobs",
    "#/jobs?new=files": "Submit a job",
    "#/jobs?new=kafka": "Submit a job",
    "#/jobs?new=text": "Submit a job",
    "#/history": "History",
    "#/history/1": "Version 1",
    "#/access": "Access",
    "#/access/guest": "guest",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_draws_without_an_error_or_a_request_elsewhere(
    opened: Callable[..., Watched], width: int, scheme: str
) -> None:
    console = opened(width=width, scheme=scheme)
    expect(console.page).to_have_title("Log in · Bindery")
    console.log_in()
    for address, title in PAGES.items():
        page = console.open(address)
        expect(page).to_have_title(f"{title} · Bindery")
        assert page.locator("main h1").count() == 1
        assert page.locator(".notice").count() == 0, address
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
            f"{address} is wider than the screen"
        )
    assert console.errors == []


def test_names_and_payloads_are_text_whatever_they_hold(console: Watched) -> None:
    page = console.open("#/queues")
    expect(page.locator("td", has_text=SCRIPT_NAME)).to_have_count(1)
    expect(page.locator("td", has_text=TURNING_NAME).locator("[dir=auto]")).to_have_count(1)
    page.click(f"text={SCRIPT_NAME}")
    expect(page.locator(".rows tbody")).to_contain_text(ORDERS[2][2][:60])
    assert page.title() == f"{SCRIPT_NAME} · Bindery"
    assert page.locator("main img, main script").count() == 0


def test_a_message_that_missed_a_queue_is_asked_about_and_its_binding_is_mended(console: Watched, shop: Server) -> None:
    """Only by clicks: from a queue to why, to the exchange, to a binding that takes it."""
    shop.client().put("/queues/%2F/books", {})
    page = console.open("#/queues/%2F/books")
    expect(page.locator("main")).to_contain_text("The queue is empty.")
    page.click("text=Why not here?")
    page.get_by_label("Exchange").fill("orders")
    page.get_by_label("Routing key").fill("us.books")
    page.get_by_label("Headers").fill('{"region": "US"')
    page.click("button:has-text('Try')")
    expect(page.locator("[role=alert]")).to_contain_text("This is no JSON")
    page.get_by_label("Headers").fill('{"region": "US"}')
    page.click("button:has-text('Try')")
    console.settle()
    expect(page.locator(".why")).to_contain_text("nothing leads to queue 'books' but the default exchange")
    page.go_back()
    page.go_back()
    console.settle()
    page.click("text=Bind to an exchange")
    dialog = page.locator("dialog")
    dialog.get_by_label("From exchange").fill("ordres")
    dialog.get_by_label("Routing key").fill("*.books")
    dialog.locator("button:has-text('Bind')").click()
    expect(dialog.locator("[role=alert]")).to_contain_text("ordres")
    dialog.get_by_label("From exchange").fill("orders")
    dialog.get_by_label("Selector").fill("region = 'US'")
    dialog.locator("button:has-text('Bind')").click()
    expect(dialog).to_have_count(0)
    expect(page.locator("table")).to_contain_text("region = 'US'")
    page.go_forward()
    page.go_forward()
    console.settle()
    expect(page.locator(".why")).to_contain_text("It does reach")
    console.errors.clear()  # the browser notes the refused request


def test_a_message_that_reached_nothing_is_found_understood_and_redriven(console: Watched, shop: Server) -> None:
    """Only by what is on the screen: from the overview to the reason, to a binding, to the message in its queue."""
    client = shop.client()
    client.put("/exchanges/%2F/returns", {"type": "topic"})
    client.put("/queues/%2F/refunds", {})
    message = {
        "routing_key": "eu.refund",
        "properties": {"headers": {"sum": 20}},
        "payload": "",
        "payload_encoding": "string",
    }
    assert client.post("/exchanges/%2F/returns/publish", message).json == {"routed": False}
    page = console.open("#/")
    page.locator("tr", has_text="api").locator("a[href*=unroutable]").click()
    console.settle()
    page.locator("a", has_text="eu.refund").click()
    console.settle()
    page.locator("summary", has_text="eu.refund").click()
    page.click("text=Why?")
    console.settle()
    expect(page.locator(".verdict")).to_contain_text("Reaches no queue.")
    page.locator(".way a", has_text="returns").click()
    console.settle()
    page.click("text=Bind to …")
    page.locator("dialog").get_by_label("Name").fill("refunds")
    page.locator("dialog").get_by_label("Routing key").fill("*.refund")
    page.locator("dialog button:has-text('Bind')").click()
    expect(page.locator("table")).to_contain_text("refunds")
    page.click("nav >> text=Unroutable")
    page.locator("a", has_text="eu.refund").click()
    console.settle()
    page.click("button:has-text('Redrive …')")
    expect(page.locator("dialog")).to_contain_text("1 of 1 row would reach a queue:")
    page.locator("dialog button:has-text('Redrive')").click()
    expect(page.locator(".health")).to_contain_text("All of them were redriven.")
    console.open("#/queues/%2F/refunds")
    expect(page.locator(".rows tbody tr")).to_have_count(1)


def test_a_change_is_seen_in_the_history_and_rolled_back(console: Watched, shop: Server) -> None:
    client = shop.client()
    client.put("/queues/%2F/mistaken", {})
    page = console.open("#/history")
    page.locator("li", has_text="queue mistaken created").locator("a").click()
    console.settle()
    page.locator("summary", has_text="mistaken").click()
    expect(page.locator(".change .code")).to_contain_text('"name": "mistaken"')
    expect(page.locator("button:has-text('Roll back')")).to_have_count(0)  # it is the newest
    newest = int(page.url.rpartition("/")[2])
    console.open(f"#/history/{newest - 1}")
    page.click("button:has-text('Roll back to this')")
    expect(page.locator("dialog")).to_contain_text("deleted queue mistaken")
    page.locator("dialog button:has-text('Roll back')").click()
    expect(page).to_have_title(f"Version {newest + 1} · Bindery")
    assert client.get("/queues/%2F/mistaken").status == 404


def test_the_failing_part_of_a_filter_is_marked(console: Watched) -> None:
    page = console.open(f"#/try?vhost=%2F&{MESSAGE}&queue=expensive")
    marked = page.locator(".cause mark")
    assert marked.all_inner_texts() == ["price > 20"]
    expect(page.locator(".cause").first).to_contain_text("price is 9")


def test_a_filter_is_tried_on_the_messages_of_a_queue(console: Watched) -> None:
    page = console.open("#/filters")
    page.get_by_label("Filter", exact=True).fill("price > ")
    page.get_by_label("Queue").fill("europe")
    page.click("button:has-text('Try')")
    console.settle()
    expect(page.locator("[role=alert]")).to_contain_text("a value is missing after '>'")
    page.get_by_label("Filter", exact=True).fill("price > 20 AND regon = 'EU'")
    page.click("button:has-text('Try')")
    console.settle()
    expect(page.locator(".verdict")).to_contain_text("Accepts 0 of 2 messages")
    expect(page.locator(".wrong")).to_contain_text("region")
    page.get_by_label("Filter", exact=True).fill("price > 20 AND ")
    page.locator(".chips button", has_text="region").click()
    page.keyboard.type(" = 'EU'")
    page.click("button:has-text('Try')")
    console.settle()
    expect(page.locator(".verdict")).to_contain_text("Accepts 1 of 2 messages")
    refused = page.locator(".messages li", has_text="does not accept")
    refused.locator("summary").click()
    expect(refused.locator(".trace").first).to_contain_text("price > 20 is")
    console.errors.clear()  # the browser notes the refused request


def test_a_queue_is_filtered_as_a_consumer_would(console: Watched) -> None:
    page = console.open("#/queues/%2F/europe")
    expect(page.locator(".rows tbody tr")).to_have_count(2)
    page.get_by_label("Only messages that a filter accepts").fill("price > 20")
    page.keyboard.press("Enter")
    console.settle()
    expect(page.locator(".rows tbody tr")).to_have_count(1)
    assert "filter=price+%3E+20" in page.url
    page.get_by_label("Only messages that a filter accepts").fill("price >")
    page.keyboard.press("Enter")
    console.settle()
    expect(page.locator("[role=alert]")).to_contain_text("a value is missing after '>'")
    console.errors.clear()  # the browser notes the refused request


def test_the_keyboard_is_enough(opened: Callable[..., Watched]) -> None:
    console = opened()
    page = console.page
    expect(page.locator("input[name=username]")).to_be_focused()
    page.keyboard.type("guest")
    page.keyboard.press("Tab")
    page.keyboard.type("guest")
    page.keyboard.press("Enter")
    page.wait_for_selector("header.top")
    page.keyboard.type("gq")
    expect(page).to_have_title("Queues · Bindery")
    page.keyboard.press("/")
    page.keyboard.type("euro")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("input[type=search]")).to_be_focused()
    page.keyboard.press("Tab")  # new queue
    page.keyboard.press("Enter")
    expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    expect(page.locator("button:has-text('New queue')")).to_be_focused()
    page.keyboard.type("ge")
    expect(page).to_have_title("Exchanges · Bindery")
    assert console.errors == []


def test_the_picture_leads_around_and_into_objects(console: Watched) -> None:
    page = console.open("#/topology/%2F")
    texts = page.locator(".graph title").all_text_contents()
    assert "orders → expensive: binding #, 1 with a filter" in texts
    assert "orders → others: alternate-exchange" in texts
    page.locator(".graph a", has_text="europe").click()
    expect(page).to_have_url(re.compile("[?]queue=europe$"))
    console.settle()
    expect(page.locator(".graph .node.chosen")).to_have_count(1)
    page.locator(".graph a", has_text="europe").click()
    expect(page).to_have_title("europe · Bindery")
    console.open("#/topology/%2F")
    page.get_by_label("Show what lies around an exchange or queue").fill("others")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("[?]exchange=others$"))
    console.settle()
    expect(page.locator(".graph a", has_text="rest")).to_have_count(1)


def test_lists_are_sorted_and_found_by_the_service_and_their_state_is_in_the_address(console: Watched) -> None:
    page = console.open("#/queues")
    page.click("th button:has-text('Messages')")
    console.settle()
    assert "sort=messages&reverse=true" in page.url
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("Messages")
    expect(page.locator("tbody tr").first).to_contain_text("europe")
    page.go_back()
    expect(page.locator("th[aria-sort=descending]")).to_have_count(0)
    page = console.open("#/queues?name=nothing-like-it")
    expect(page.locator(".empty")).to_have_text('No queue has "nothing-like-it" in its name.')


def test_nobody_sees_a_button_that_would_fail(opened: Callable[..., Watched], shop: Server) -> None:
    client = shop.client()
    client.put("/users/onlooker", {"password": "pw", "tags": "management"})
    client.put("/permissions/%2F/onlooker", {"configure": "", "write": "", "read": ".*"})
    console = opened()
    console.log_in("onlooker", "pw")
    for address, present in (
        ("#/queues/%2F/europe", {"Filter", "Get messages …", "Move or copy …", "Purge"}),
        ("#/exchanges/%2F/orders", {"Bind to …"}),  # to unbind takes a queue that one may write to
    ):
        page = console.open(address)
        shown = {text for text in page.locator("main button").all_inner_texts() if text}
        assert shown == present, address
    page = console.open("#/")
    assert page.locator(".panel").count() == 1, "streams and changes are for those who monitor"


def test_an_ended_session_leads_to_the_login_and_back(opened: Callable[..., Watched], shop: Server) -> None:
    console = opened()
    console.log_in()
    page = console.open("#/queues/%2F/europe")
    shop.app.state.plane.sessions._sessions.clear()
    page.evaluate("location.hash = '#/exchanges'")
    expect(page.locator("form.login")).to_contain_text("The session has ended")
    console.log_in()
    expect(page).to_have_title("Exchanges · Bindery")
    page.click("button:has-text('Log out')")
    expect(page.locator("form.login")).to_be_visible()
    page.reload()
    expect(page.locator("form.login")).to_be_visible()


def test_a_wrong_password_is_said(opened: Callable[..., Watched]) -> None:
    page = opened().page
    page.fill("input[name=username]", "guest")
    page.fill("input[name=password]", "wrong")
    page.keyboard.press("Enter")
    expect(page.locator("[role=alert]")).to_have_text("Name or password is wrong.")


def test_deleting_asks_for_the_name(console: Watched, shop: Server) -> None:
    shop.client().put("/queues/%2F/short-lived", {})
    page = console.open("#/queues/%2F/short-lived")
    page.click("button:has-text('Delete')")
    page.get_by_label("Type its name").fill("short")
    page.locator("dialog button:has-text('Delete')").click()
    expect(page.locator("dialog [role=alert]")).to_have_text("That is another name.")
    page.get_by_label("Type its name").fill("short-lived")
    page.locator("dialog button:has-text('Delete')").click()
    expect(page).to_have_title("Queues · Bindery")
    assert shop.client().get("/queues/%2F/short-lived").status == 404


def test_a_live_page_goes_on_and_what_is_open_stays_open(console: Watched, shop: Server) -> None:
    client = shop.client()
    client.put("/queues/%2F/filling", {})
    page = console.open("#/queues/%2F/filling")
    expect(page.locator(".facts").first).to_contain_text(re.compile("Messages\\s*0"))
    message = {"routing_key": "filling", "properties": {}, "payload": "p", "payload_encoding": "string"}
    assert client.post("/exchanges/%2F/amq.default/publish", message).json == {"routed": True}
    expect(page.locator(".facts").first).to_contain_text(re.compile("Messages\\s*1"))
