"""Users and their rights in the browser; and that nobody sees a button that would fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, TimeoutError, expect

from tests.console.conftest import Watched, declare
from tests.console.test_pages import PAGES
from tests.service.conftest import Server

pytestmark = pytest.mark.service


def test_a_user_is_made_granted_narrowed_revoked_and_deleted(console: Watched, shop: Server) -> None:
    page = console.open("#/access")
    page.get_by_role("button", name="New user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("newcomer")
    dialog.get_by_label("Password").fill("a passphrase")
    dialog.get_by_label("management").check()
    dialog.get_by_role("button", name="Create").click()
    expect(page).to_have_title("newcomer · Bindery")
    facts = page.locator(".facts").first
    expect(facts).to_contain_text("management")
    page.get_by_role("button", name="Grant …").click()
    dialog.get_by_label("write").fill("(")
    dialog.get_by_role("button", name="Grant").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    dialog.get_by_label("write").fill("^w")
    dialog.get_by_role("button", name="Grant").click()
    permissions = page.get_by_role("table", name="Permissions", exact=True)
    expect(permissions).to_contain_text("^w")
    newcomer = shop.client("newcomer", "a passphrase")
    assert newcomer.get("/rights/%2F/wx").json["write"] is True
    page.get_by_role("button", name="Narrow …").click()
    dialog.get_by_label("Exchange").fill("orders")
    dialog.get_by_label("write").fill("^eu")
    dialog.get_by_role("button", name="Narrow").click()
    expect(page.get_by_role("table", name="Permissions for routing keys")).to_contain_text("^eu")
    page.get_by_role("button", name="Limits …").click()
    dialog.get_by_label("max-channels").fill("7")
    dialog.get_by_role("button", name="Change").click()
    expect(facts).to_contain_text("max-channels")
    page.get_by_role("button", name="Tags …").click()
    dialog.get_by_label("monitoring").check()
    dialog.get_by_role("button", name="Change").click()
    expect(facts).to_contain_text("management, monitoring")
    assert newcomer.get("/whoami").json["tags"] == ["management", "monitoring"], "the password is what it was"
    page.get_by_role("button", name="Password …").click()
    dialog.get_by_label("New password").fill("another")
    dialog.get_by_role("button", name="Change").click()
    expect(dialog).to_have_count(0)
    assert newcomer.get("/whoami").status == 401
    assert shop.client("newcomer", "another").get("/whoami").json["tags"] == ["management", "monitoring"]
    permissions.get_by_role("button", name="Revoke").click()
    dialog.get_by_role("button", name="Revoke").click()
    expect(permissions).to_have_count(0)
    page.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page).to_have_title("Access · Bindery")
    expect(page.get_by_role("table", name="Users")).not_to_contain_text("newcomer")
    expect(page.locator(".plain-log li").first).to_contain_text("deleted user 'newcomer'")
    page.get_by_label("What was changed").fill("newcomer")
    page.get_by_label("From").fill("2020-01-01")
    page.keyboard.press("Enter")
    console.settle()
    assert "text=newcomer" in page.url
    assert "since=2020-01-01" in page.url
    expect(page.locator(".plain-log li").first).to_contain_text("newcomer")
    page.get_by_label("To").fill("2020-01-02")
    page.keyboard.press("Enter")
    expect(page.locator(".empty")).to_have_text("No change is like that.")
    page.go_back()
    expect(page.locator(".plain-log li").first).to_contain_text("newcomer")
    console.open("#/access/guest")
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)  # nobody may delete themselves
    console.errors.clear()  # the browser notes the refused request


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose queues may be emptied and whose users come and go."""
    running = Server(tmp_path_factory.mktemp("rights") / "data").start()
    declare(running.client())
    yield running
    running.stop()


USERS: Final = {
    "reader": ("management", {"configure": "", "write": "", "read": ".*"}),
    "watcher": ("monitoring", {"configure": "", "write": "", "read": ""}),
    "europe": ("management", {"configure": "^europe$", "write": "^europe$", "read": "^(europe|orders)$"}),
}
#: What asks for names first: whether it would fail depends on what is typed.
TYPED: Final = ("Bind", "New queue", "New exchange", "Try")


@pytest.mark.parametrize("name", USERS)
def test_no_button_that_is_shown_leads_to_a_refusal(chromium: Browser, own: Server, name: str) -> None:
    """Every page with every button: what it asks the service, the user may."""
    tags, permission = USERS[name]
    admin = own.client()
    admin.put(f"/users/{name}", {"password": "pw", "tags": tags})
    admin.put(f"/permissions/%2F/{name}", permission)
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    console = Watched(context.new_page(), f"http://127.0.0.1:{own.port}")
    page = console.page
    page.set_default_timeout(5_000)
    refused: list[str] = []
    page.on(
        "response",
        lambda answer: refused.append(f"{answer.request.method} {answer.url}") if answer.status in {401, 403} else None,
    )
    console.open()
    console.log_in(name, "pw")
    pressed: set[tuple[str, str]] = set()
    for address in PAGES:
        console.open(address)
        buttons = page.locator("main .button:is(button)")
        for place, label in enumerate(buttons.all_inner_texts()):
            if (address, label) in pressed or label.startswith(TYPED) or not buttons.nth(place).is_visible():
                continue
            pressed.add((address, label))
            refused.clear()  # parts that a user may not see ask once, and go
            buttons.nth(place).click()
            dialog = page.get_by_role("dialog")
            try:
                dialog.wait_for(timeout=500)
            except TimeoutError:
                console.settle()
            else:
                typed = dialog.get_by_label("Type its name")
                if typed.count():
                    typed.fill(page.locator("h1 .name").inner_text())
                dialog.locator("button[type=submit]").click()
                page.wait_for_timeout(300)
                page.keyboard.press("Escape")
            assert refused == [], f"{name} at {address}: {label}"
            console.open(address)
            if place >= buttons.count():
                break
    context.close()


def test_who_may_not_see_a_page_is_told_so(chromium: Browser, own: Server) -> None:
    admin = own.client()
    admin.put("/users/outsider", {"password": "pw", "tags": "management"})
    context = chromium.new_context()
    console = Watched(context.new_page(), f"http://127.0.0.1:{own.port}")
    console.open()
    console.log_in("outsider", "pw")
    for address in ("#/jobs", "#/history", "#/access", "#/access/guest", "#/jobs/none"):
        page = console.open(address)
        expect(page.locator(".notice.quiet").first).to_contain_text("Not for this user.")
        assert page.locator(".notice.bad").count() == 0
        assert page.locator("main .button:is(button):not(.narrow *)").count() == 0, address
    admin.put("/users/untagged", {"password": "pw", "tags": ""})
    page.get_by_role("button", name="Log out").click()
    page.fill("input[name=username]", "untagged")
    page.fill("input[name=password]", "pw")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    context.close()
