"""The page of a queue: its rows, the past, one row, its table, how it is read elsewhere, what is done with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.console.conftest import SCRIPT_NAME, TURNING_NAME, Watched
from tests.service.conftest import Server
from tests.service.http import segment

pytestmark = pytest.mark.service

#: Ten megabytes that would run, were they ever taken for markup.
LARGE = "<script>document.title='run'</script>" * 270_000


def _publish(shop: Server, queue: str, payload: str = "p", **headers: Any) -> None:
    message = {
        "routing_key": queue,
        "properties": {"headers": headers},
        "payload": payload,
        "payload_encoding": "string",
    }
    assert shop.client().post("/exchanges/%2F/amq.default/publish", message).json == {"routed": True}


@pytest.fixture(scope="module")
def filled(shop: Server) -> Iterator[str]:
    """A queue of five messages, each of its own batch and version, of which the first was taken."""
    name = "rows"
    shop.client().put(f"/queues/%2F/{name}", {})
    for n in range(5):
        _publish(
            shop, name, f"body {n}", price=n * 10, region="EU" if n % 2 else "US", **({"odd": True} if n % 2 else {})
        )
    shop.client().post(f"/queues/%2F/{name}/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"})
    yield name


def test_columns_are_typed_and_chosen_and_stand_in_the_address(console: Watched, filled: str) -> None:
    page = console.open(f"#/queues/%2F/{filled}")
    heads = page.locator(".rows thead th")
    expect(heads).to_contain_text(
        ["Row", "Routed", "Routing key", "priceinteger", "regionstring", "oddboolean", "Body", "Size"]
    )
    assert page.locator(".rows tbody tr").first.inner_text().split("\t")[3:6] == ["40", "US", "–"]
    page.locator("summary", has_text="Columns").click()
    page.get_by_label("region string").uncheck()
    page.get_by_label("Bindings", exact=True).check()
    console.settle()
    expect(heads).to_contain_text(
        ["Row", "Routed", "Routing key", "priceinteger", "oddboolean", "Body", "Size", "Bindings"]
    )
    page.reload()
    console.settle()
    expect(heads).to_have_count(8)
    assert "columns=" in page.url
    page.click("text=oldest first")
    console.settle()
    assert page.locator(".rows tbody tr").first.inner_text().split("\t")[3] == "10"


def test_the_past_is_chosen_said_and_never_changed(console: Watched, filled: str) -> None:
    page = console.open(f"#/queues/%2F/{filled}")
    expect(page.locator(".rows tbody tr")).to_have_count(4)
    page.locator("summary", has_text="See the past").click()
    slider = page.get_by_label("Version of the table")
    expect(page.locator(".travel output")).to_contain_text("version 6 of 6")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".past")).to_contain_text("as it was at version 5 of its table")
    expect(page.locator(".rows tbody tr")).to_have_count(5)
    expect(page.locator(".travel output")).to_contain_text("version 5 of 6")
    shown = {text for text in page.locator("main button").all_inner_texts() if text}
    assert shown == {"Filter", "Go"}, "nothing that changes"
    batch = page.locator("#batches-of-queue option").last.get_attribute("value")
    page.get_by_label("End of a batch").fill(str(batch))
    page.locator(".travel-by button").first.click()
    expect(page.locator(".past")).to_contain_text(f"at the end of the batch {batch}")
    expect(page.locator(".rows tbody tr")).to_have_count(1)
    page.locator(".rows tbody a").first.click()
    expect(page.locator(".past")).to_be_visible()
    page.go_back()
    page.click("text=Back to now")
    expect(page.locator(".rows tbody tr")).to_have_count(4)
    page = console.open(f"#/queues/%2F/{filled}?version=99")
    expect(page.locator(".rows [role=alert]")).to_contain_text("versions 0 to 6 are there")
    console.errors.clear()  # the browser notes the refused request


def test_a_row_shows_everything_and_where_it_came_from(console: Watched, shop: Server) -> None:
    """From the list by the keyboard alone, and on to its other queue."""
    page = console.open("#/queues/%2F/europe?filter=price+%3D+30")
    page.locator(".rows tbody a").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_title(re.compile("^api:[0-9]+:0 · europe · Bindery$"))
    expect(page.locator(".code")).to_have_text('{"sku": 7}')
    expect(page.get_by_role("region", name="Headers")).to_contain_text(re.compile("price\\s*integer\\s*30"))
    bindings = page.get_by_role("region", name="Bindings that matched")
    expect(bindings).to_contain_text("price > 20 AND region = 'EU'")
    page.locator("main p a", has_text="expensive").click()
    expect(page).to_have_title(re.compile("expensive"))
    page.click("text=Try it again")
    console.settle()
    expect(page.locator(".verdict")).to_contain_text("Reaches 2 queues")


def test_large_and_hostile_payloads_are_cut_text_and_files(console: Watched, shop: Server) -> None:
    name = "hostile"
    shop.client().put(f"/queues/%2F/{name}", {})
    _publish(shop, name, LARGE, **{SCRIPT_NAME: TURNING_NAME, "long": "z" * 5_000})
    page = console.open(f"#/queues/%2F/{name}")
    expect(page.locator(".rows thead")).to_contain_text("<img src=x")
    row = page.locator(".rows tbody tr")
    expect(row.locator("[dir=auto]", has_text=TURNING_NAME)).to_have_count(1)
    expect(row).to_contain_text("of 5,000 characters")
    assert len(row.inner_text()) < 1_000
    row.locator("a").first.click()
    console.settle()
    expect(page.locator("main")).to_contain_text(f"The first 20 kB of {len(LARGE) / 1e6:.0f} MB")
    with page.expect_download() as started:
        page.click("button:has-text('Download the body')")
    assert Path(started.value.path()).read_text() == LARGE
    assert page.title().startswith("api:")
    assert page.locator("main img, main script").count() == 0


def test_names_are_completed_and_mistakes_marked_by_the_keyboard(console: Watched, filled: str) -> None:
    page = console.open(f"#/queues/%2F/{filled}")
    page.keyboard.press("/")
    page.keyboard.type("pri")
    names = page.locator(".filter-names li")
    expect(names).to_contain_text(["pricenumber"])
    page.keyboard.press("ArrowDown")
    expect(names.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(names).to_have_count(0)
    page.keyboard.type(" >> 10")
    page.keyboard.press("Enter")
    field = page.get_by_label("Only messages that a filter accepts")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".filter-trouble")).to_contain_text("unexpected '>>'")
    expect(page.locator(".part-wrong")).to_have_text(">>")
    assert field.evaluate("element => element.selectionStart") == len("price ")
    page.keyboard.press("Delete")
    expect(field).not_to_have_attribute("aria-invalid", "true")
    page.keyboard.press("Enter")
    expect(page.locator(".rows tbody tr")).to_have_count(3)
    console.errors.clear()  # the browser notes the refused request


def test_the_table_tells_arrivals_files_and_versions(console: Watched, filled: str) -> None:
    page = console.open(f"#/queues/%2F/{filled}?show=table")
    expect(page.get_by_role("img")).to_have_attribute(
        "aria-label", "Arrivals: 5 messages in 5 batches, at most 1 at a time"
    )
    page.locator("summary", has_text="The same as a table").click()
    expect(page.get_by_role("region", name="Arrivals").locator("tbody tr")).to_have_count(5)
    expect(page.locator("main")).to_contain_text(f"/queues/~2F/{filled}")
    expect(page.get_by_role("region", name="Columns")).to_contain_text("The routing key as published.")
    page.get_by_role("region", name="Versions of the table").get_by_role("link", name="5", exact=True).click()
    expect(page.locator(".past")).to_contain_text("version 5")


def test_how_it_is_read_has_the_filter_and_is_copied(console: Watched, filled: str) -> None:
    page = console.open(f"#/queues/%2F/{filled}?show=read&filter={quote('price > 10')}&version=5")
    expect(page.locator("nav[aria-label=languages] a")).to_have_text(
        ["Spark SQL", "PySpark", "polars", "DuckDB", "Python", "bindery sql", "curl"]
    )
    page.click("nav[aria-label=languages] >> text=Python")
    expect(page.locator(".code")).to_contain_text(f"'{filled}', filter='price > 10', version=5")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("button:has-text('Copy')")
    expect(page.locator("#said")).to_have_text("copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator(".code").inner_text()


def test_messages_are_got_moved_and_deleted_with_numbers_before(console: Watched, shop: Server) -> None:
    for name in ("worked", "other end"):
        shop.client().put(f"/queues/%2F/{segment(name)}", {})
    for n in range(6):
        _publish(shop, "worked", f"m{n}", n=n)
    page = console.open("#/queues/%2F/worked?filter=n+%3E+1")
    page.click("button:has-text('Get messages …')")
    dialog = page.locator("dialog")
    dialog.get_by_label("How many").fill("2")
    dialog.get_by_label("What becomes of them").select_option("ack_requeue_false")
    dialog.locator("button:has-text('Get')").click()
    expect(page.locator(".got")).to_contain_text("2 messages taken out of the queue")
    expect(page.locator(".got .messages li")).to_have_count(2)
    page.click("button:has-text('Move or copy …')")
    dialog.get_by_label("Its name").fill("other")
    expect(dialog.locator("[role=alert]")).to_contain_text("other")
    dialog.get_by_label("Its name").fill("other end")
    expect(dialog).to_contain_text("2 messages would be moved")
    dialog.get_by_label("How many at most").fill("1")
    expect(dialog).to_contain_text("1 message would be moved")
    dialog.locator("button.primary").click()
    expect(page.locator(".rows tbody tr")).to_have_count(1)
    page.click("button:has-text('Delete these …')")
    expect(dialog).to_contain_text("1 message will leave the queue")
    dialog.locator("button:has-text('Delete them')").click()
    expect(page.locator(".rows")).to_contain_text(
        "The filter accepts no message of the 2 messages that the queue holds."
    )
    assert shop.client().post("/queues/%2F/worked/count", {}).json == {"messages": 2, "waiting": 0}
    assert shop.client().post(f"/queues/%2F/{segment('other end')}/count", {}).json == {"messages": 1, "waiting": 0}
    console.errors.clear()  # the browser notes the refused request


def test_what_came_closest_to_an_unroutable_message_is_shown(console: Watched, shop: Server) -> None:
    client = shop.client()
    client.put("/exchanges/%2F/near", {"type": "topic"})
    client.put("/queues/%2F/nearly", {})
    arguments = {"x-filter-jms-selector": "sum > 100"}
    client.post("/bindings/%2F/e/near/q/nearly", {"routing_key": "a.*", "arguments": arguments})
    message = {
        "routing_key": "a.b",
        "properties": {"headers": {"sum": 20}},
        "payload": "",
        "payload_encoding": "string",
    }
    assert client.post("/exchanges/%2F/near/publish", message).json == {"routed": False}
    page = console.open("#/unroutable/%2F?exchange=near")
    page.locator(".messages summary").click()
    expect(page.locator(".cause")).to_contain_text("sum > 100 is false: sum is 20")
    expect(page.locator(".cause mark")).to_have_text("sum > 100")
    page.click("button:has-text('Redrive …')")
    expect(page.locator("dialog")).to_contain_text("None of 1 row would reach a queue")
    expect(page.locator("dialog")).to_contain_text("1 row would stay: filtered")
