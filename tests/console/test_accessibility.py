"""What axe-core says of every page and dialog, the choice of a theme, and the keys.

Rules of WCAG 2.2 on levels A and AA as axe-core tests them (https://dequeuniversity.com/rules/axe/).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page, TimeoutError, expect

from tests.console.conftest import Watched
from tests.console.test_pages import PAGES
from tests.service.conftest import Server

pytestmark = pytest.mark.service

ROOT: Final = Path(__file__).parents[2]
AXE: Final = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
#: What a fault is called that keeps people out; the others (minor, moderate) are matters of taste to axe-core.
GRAVE: Final = {"serious", "critical"}


def _first(address: str) -> str:
    return re.split(r"[/?]", address.removeprefix("#/"))[0]


def faults(page: Page, rules: list[str] | None = None) -> list[str]:
    """The serious faults of a page as it stands: the rule, what is wrong, and where; of some rules, or of all."""
    only = {} if rules is None else {"runOnly": {"type": "rule", "values": rules}}
    found = page.evaluate("options => axe.run(document, {resultTypes: ['violations'], ...options})", only)
    return [
        f"{one['id']}: {one['help']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for one in found["violations"]
        if one["impact"] in GRAVE
        for node in one["nodes"]
    ]


@pytest.fixture
def examined(chromium: Browser, shop: Server) -> Callable[..., Watched]:
    """A console of the administrator with axe-core in it, which the page's own rules would keep out."""
    contexts = []

    def make(*, width: int = 1280, scheme: str = "light") -> Watched:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            bypass_csp=True,
            reduced_motion="reduce",  # a colour that is changing would be measured half-way
        )
        contexts.append(context)
        console = Watched(context.new_page(), f"http://127.0.0.1:{shop.port}")
        console.open()
        console.page.evaluate(AXE)
        return console

    yield make
    for context in contexts:
        context.close()


def test_every_place_of_the_console_is_among_the_pages_that_are_tested() -> None:
    source = (ROOT / "api/console/static/js/main.js").read_text()
    table = re.search(r"const PAGES = \{\n(.*?)\n\};", source, re.DOTALL)
    assert table is not None
    places = {name.strip('"') for name in re.findall(r'^  ("[^"]*"|\w+)', table[1], re.MULTILINE)}
    assert places == {_first(address) for address in PAGES}


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_no_page_has_a_serious_fault(examined: Callable[..., Watched], width: int, scheme: str) -> None:
    console = examined(width=width, scheme=scheme)
    page = console.page
    assert faults(page) == [], "the login"
    console.log_in()
    found: list[str] = []
    for address in PAGES:
        console.open(address)
        page.locator("main details").evaluate_all("all => all.forEach((one) => (one.open = true))")
        # what a theme changes is its colours
        found += (f"{address}: {one}" for one in faults(page, ["color-contrast"] if scheme == "dark" else None))
    assert not found, "\n".join(found)


def test_no_dialog_has_a_serious_fault_and_each_can_be_left_by_escape(examined: Callable[..., Watched]) -> None:
    console = examined()
    console.log_in()
    page = console.page
    found: list[str] = []
    seen: set[tuple[str, str]] = set()
    for address in PAGES:
        console.open(address)
        buttons = page.locator("main .button:is(button):not([type=submit])")
        for place, label in enumerate(buttons.all_inner_texts()):
            button = buttons.nth(place)
            if (_first(address), label) in seen or not button.is_visible():
                continue
            seen.add((_first(address), label))
            button.click()
            dialog = page.locator("dialog")
            try:
                dialog.wait_for(timeout=1_000)
            except TimeoutError:
                console.open(address)
                continue
            found += (f"{address}, {label}: {one}" for one in faults(page))
            page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)
            expect(button).to_be_focused()
    assert not found, "\n".join(found)
    assert len(seen) > 10, seen


def test_a_theme_is_chosen_and_kept_and_no_page_begins_in_the_other(opened: Callable[..., Watched]) -> None:
    console = opened(scheme="light")
    console.log_in()
    page = console.page
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_label("Theme").select_option("Dark")
    dark = page.evaluate(ground)
    assert dark != light
    page.evaluate("location.hash = '#/queues'")
    expect(page).to_have_title("Queues · Bindery")
    expect(page.get_by_label("Theme")).to_have_value("dark")
    # what a page is painted with before its modules have run
    page.route("**/main.js", lambda route: route.abort())
    page.reload()
    assert page.evaluate(ground) == dark
    page.unroute("**/main.js")
    page.reload()
    page.get_by_label("Theme").select_option("System")
    assert page.evaluate(ground) == light


def test_the_keys_are_told_and_lead_to_every_place(console: Watched) -> None:
    page = console.page
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    rows = dialog.locator("dt").all_inner_texts()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    for row in rows:
        pressed = row.split()
        if pressed[0] != "g":
            continue
        page.keyboard.type("".join(pressed))
        expect(page.locator("nav[aria-label=pages] [aria-current=page]")).to_have_count(1)
    assert sum(row.split()[0] == "g" for row in rows) == page.locator("nav[aria-label=pages] a").count()


def test_the_focus_is_seen_and_the_navigation_can_be_skipped(console: Watched) -> None:
    page = console.open("#/queues")
    page.keyboard.press("Tab")
    skip = page.locator("a.skip")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    for _ in range(8):
        page.keyboard.press("Tab")
        seen = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert seen != "none", page.evaluate("document.activeElement.outerHTML")
