"""Users and their rights in the browser; and that nobody sees a button that would fail."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Watched
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
