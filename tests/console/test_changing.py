"""Changing the topology in the console: edited in place with its plan, tried on messages, applied, rolled back."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Watched
from tests.service.conftest import Server

pytestmark = pytest.mark.service

CHANGE = {"definitions": {"queues": [{"name": "music"}], "bindings": [
    {"source": "orders", "destination": "music", "routing_key": "*.music"}]}}  # fmt: skip
PAGES = {
    "#/replay": "Replay",
    f"#/replay/%2F?change={quote(json.dumps(CHANGE))}": "Replay",
    "#/replay/%2F?version=1": "Replay",
    f"#/apply/%2F?change={quote(json.dumps(CHANGE))}": "Apply a document",
    "#/lint/%2F": "Findings",
    "#/diverts/%2F": "Diverts",
    "#/policies/%2F": "Policies",
    "#/vhosts": "Vhosts",
    "#/history?from=0&to=3": "Versions 0 and 3",
    "#/history?kind=queue&name=europe": "History",
}


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_page_of_changes_draws(opened: Callable[..., Watched], width: int, scheme: str) -> None:
    console = opened(width=width, scheme=scheme)
    console.log_in()
    for address, title in PAGES.items():
        page = console.open(address)
        expect(page).to_have_title(f"{title} · Bindery")
        assert page.locator("main h1").count() == 1
        assert page.locator(".notice.bad").count() == 0, address
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
    assert console.errors == []


def test_a_binding_is_changed_in_place_after_its_plan_and_its_effect(console: Watched, shop: Server) -> None:
    """From the exchange's page: the filter in another dialect, the plan beside it, messages first, then the change."""
    client = shop.client()
    client.put("/queues/%2F/dear", {})
    client.post(
        "/bindings/%2F/e/orders/q/dear", {"routing_key": "#", "arguments": {"x-filter-jms-selector": "price > 20"}}
    )
    page = console.open("#/queues/%2F/dear")
    page.locator("tr", has_text="price > 20").get_by_role("button", name="Change").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Selector").fill("price > AND")
    expect(dialog.locator(".planned")).to_contain_text("AND is a reserved word")
    dialog.get_by_label("Selector").fill("price > 10")
    dialog.get_by_label("Dialect of it").select_option("amqp-sql")
    expect(dialog.locator(".planned")).to_contain_text("1 to change")
    expect(dialog.locator(".planned del")).to_have_text("price > 20")
    dialog.get_by_text("What would it have done to the newest messages?").click()
    expect(page).to_have_title("Replay · Bindery")
    console.settle()
    row = page.get_by_role("row").filter(has_text="dear")
    expect(row).to_contain_text("+")
    expect(page.locator(".messages li").first).to_contain_text("price 12")
    page.locator(".messages summary").first.click()
    expect(page.locator(".messages details").first).to_contain_text("It would come by binding")
    page.get_by_role("button", name="Apply …").click()
    dialog.get_by_label("Why").fill("books, too")
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog).to_have_count(0)
    made = client.get("/topology/versions?limit=1").json["newest"]
    expect(page).to_have_title(f"Version {made} · Bindery")
    (bound,) = client.get("/bindings/%2F/e/orders/q/dear").json
    assert bound["arguments"] == {"x-filters": {"filter": {"descriptor": "amqp:sql-filter", "value": "price > 10"}}}
    assert client.get("/topology/versions?limit=1").json["versions"][0]["reason"] == "books, too"
    page.get_by_role("button", name="Undo this …").click()
    dialog.get_by_role("button", name="Roll back").click()
    expect(page).to_have_title(f"Version {made + 1} · Bindery")
    (bound,) = client.get("/bindings/%2F/e/orders/q/dear").json
    assert bound["arguments"] == {"x-filter-jms-selector": "price > 20"}
    console.errors.clear()  # the browser notes the refused plan


def test_a_document_is_planned_mended_and_applied_by_keyboard(console: Watched, shop: Server) -> None:
    page = console.open("#/apply/%2F")
    area = page.get_by_role("textbox", name="Document")
    area.focus()
    page.keyboard.type("queues:\n- nam: typed\n")
    page.get_by_role("button", name="Plan").focus()
    page.keyboard.press("Enter")
    place = page.get_by_role("button", name="line 2, column 3").first
    expect(page.locator("main")).to_contain_text("did you mean 'name'?")
    place.focus()
    page.keyboard.press("Enter")
    expect(area).to_be_focused()
    assert area.evaluate("one => one.selectionStart") == 10
    area.fill("queues:\n- name: typed\n  arguments: {x-queue-filter: price > 10}\n")
    page.get_by_role("button", name="Plan").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".plan")).to_contain_text("queue typed")
    page.get_by_role("button", name="Apply …").focus()
    page.keyboard.press("Enter")
    # somebody is faster
    shop.client().put("/queues/%2F/faster", {})
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Why").press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("look at the plan again")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Plan").click()
    console.settle()
    page.get_by_role("button", name="Apply …").click()
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog).to_have_count(0)
    assert shop.client().get("/queues/%2F/typed").json["arguments"] == {"x-queue-filter": "price > 10"}
    console.errors.clear()  # the browser notes the refused requests


def test_lint_stands_beside_its_object_and_leads_there(console: Watched, shop: Server) -> None:
    client = shop.client()
    client.put("/queues/%2F/silent", {"arguments": {"x-queue-filter": "n > 5 AND n < 5"}})
    page = console.open("#/lint/%2F")
    page.locator(".lint summary", has_text="silent").first.click()
    page.locator(".lint details[open]").get_by_role("link", name="silent", exact=True).click()
    console.settle()
    part = page.locator(".findings")
    part.locator("summary", has_text="filter that is never true").click()
    expect(part).to_contain_text("What to do: Correct the filter.")
    page = console.open("#/queues?name=silent")
    expect(page.get_by_role("row").filter(has_text="silent").locator(".mark")).to_contain_text("1 error")
    page = console.open("#/topology/%2F?queue=silent")
    expect(page.get_by_role("link", name="queue silent, lint: error, open")).to_have_count(1)
    console.open("#/queues/%2F/europe")
    expect(page.locator(".findings")).to_be_hidden()


def test_diverts_and_policies_are_made_changed_and_deleted(console: Watched, shop: Server) -> None:
    client = shop.client()
    page = console.open("#/diverts/%2F")
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="New divert").click()
    for label, text in (
        ("Name", "copies"),
        ("From exchange", "orders"),
        ("To exchange", "others"),
        ("Filter", "price > 5"),
    ):
        dialog.get_by_label(label, exact=True).fill(text)
    dialog.get_by_role("button", name="Create").click()
    row = page.get_by_role("row").filter(has_text="copies")
    expect(row).to_contain_text("price > 5")
    row.get_by_role("button", name="Change").click()
    dialog.get_by_label("exclusive").check()
    dialog.get_by_role("button", name="Change").click()
    expect(row).to_contain_text("the message away")
    row.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    assert client.get("/diverts/%2F/copies").status == 404
    console.open("#/policies/%2F")
    page.get_by_role("button", name="New policy").click()
    dialog.get_by_label("Name", exact=True).fill("spare")
    dialog.get_by_label("Pattern").fill("^oth")
    expect(dialog.locator(".planned")).to_contain_text("1 exchange: others")
    dialog.get_by_label("value").fill("orders")
    dialog.get_by_role("button", name="Create").click()
    row = page.get_by_role("row").filter(has_text="spare")
    expect(row).to_contain_text("alternate-exchange orders")
    row.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)


def test_the_key_of_replay_leads_there(console: Watched) -> None:
    page = console.open("#/")
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page).to_have_title("Replay · Bindery")


def test_who_may_not_change_anything_sees_no_button_for_it(opened: Callable[..., Watched], shop: Server) -> None:
    client = shop.client()
    client.put("/users/looking", {"password": "looking", "tags": "management"})
    client.put("/permissions/%2F/looking", {"configure": "^$", "write": "^$", "read": ".*"})
    console = opened()
    console.log_in("looking", "looking")
    for address in ("#/exchanges/%2F/orders", "#/queues/%2F/europe", "#/policies/%2F", "#/diverts/%2F", "#/vhosts"):
        page = console.open(address)
        for name in ("Change", "Delete", "New policy", "New vhost", "Describe", "Unbind"):
            expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
    page = console.open(f"#/replay/%2F?change={quote(json.dumps(CHANGE))}")
    expect(page.get_by_role("row").filter(has_text="music")).to_contain_text("+")
    expect(page.get_by_role("button", name="Apply …")).to_have_count(0)
