"""A real browser on a real server with a topology that has something of everything.

Debian's chromium is driven, or the one that BINDERY_CHROMIUM names; without one these tests are skipped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.service.conftest import PASSWORD, USER, Server
from tests.service.http import Client, segment

expect.set_options(timeout=30_000)  # how long something takes says more about the machine than about the page
_OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
#: A name that would run, were it ever taken for markup, and one that turns the text around it.
SCRIPT_NAME = "<img src=x onerror=\"document.title='run'\">"
TURNING_NAME = "abc\u202egnp.exe"
ORDERS = (
    ("eu.books", {"region": "EU", "price": 12}, "a book"),
    ("eu.music", {"region": "EU", "price": 30}, '{"sku": 7}'),
    ("us.books", {"region": "US", "price": 9}, f"<script>document.title='run'</script>{SCRIPT_NAME}"),
)


@dataclass
class Watched:
    """A page, and what it must not do."""

    page: Page
    base: str
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def open(self, address: str = "") -> Page:
        """Go to a state and wait until nothing on it loads."""
        self.page.goto(f"{self.base}/{address}")
        self.settle()
        return self.page

    def settle(self) -> None:
        """Wait until no part of the page loads."""
        expect(self.page.locator(".panel[aria-busy=true]")).to_have_count(0)

    def log_in(self, name: str = USER, password: str = PASSWORD) -> None:
        self.page.fill("input[name=username]", name)
        self.page.fill("input[name=password]", password)
        self.page.click("button:has-text('Log in')")
        self.page.wait_for_selector("header.top")
        self.settle()


def declare(client: Client) -> None:
    """Exchanges, queues, bindings and messages that the tests of pages know."""
    for name, kind, arguments in (
        ("orders", "topic", {"alternate-exchange": "others"}),
        ("others", "fanout", {}),
        (SCRIPT_NAME, "direct", {}),
    ):
        assert client.put(f"/exchanges/%2F/{segment(name)}", {"type": kind, "arguments": arguments}).status == 201
    for name in ("europe", "expensive", "rest", SCRIPT_NAME, TURNING_NAME):
        assert client.put(f"/queues/%2F/{segment(name)}", {}).status == 201
    for source, queue, key, arguments in (
        ("orders", "europe", "eu.#", {}),
        ("orders", "expensive", "#", {"x-filter-jms-selector": "price > 20 AND region = 'EU'"}),
        ("orders", SCRIPT_NAME, "us.*", {}),
        ("others", "rest", "", {}),
    ):
        body = {"routing_key": key, "arguments": arguments}
        assert client.post(f"/bindings/%2F/e/{segment(source)}/q/{segment(queue)}", body).status == 201
    for key, headers, payload in ORDERS:
        message = {
            "routing_key": key,
            "properties": {"headers": headers},
            "payload": payload,
            "payload_encoding": "string",
        }
        assert client.post("/exchanges/%2F/orders/publish", message).json == {"routed": True}


@pytest.fixture(scope="module")  # playwright's event loop runs until it ends, and no other can run beside it
def chromium() -> Iterator[Browser]:
    found = os.environ.get("BINDERY_CHROMIUM") or shutil.which("chromium")
    if found is None:
        pytest.skip("no chromium (Debian's package chromium, or BINDERY_CHROMIUM)")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=_OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with exchanges, queues and messages; tests that change something take names of their own."""
    running = Server(tmp_path_factory.mktemp("console") / "data").start()
    declare(running.client())
    yield running
    running.stop()


@pytest.fixture
def opened(chromium: Browser, shop: Server) -> Iterator[Callable[..., Watched]]:
    """Opens a page that nobody is logged in at; none may ask anybody else for anything."""
    contexts = []

    def make(*, width: int = 1280, scheme: str = "light") -> Watched:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        watched.append(one := Watched(page, f"http://127.0.0.1:{shop.port}"))
        page.on("console", lambda said: one.errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: one.errors.append(str(error)))
        page.on(
            "request",
            lambda sent: one.foreign.append(sent.url) if urlsplit(sent.url).hostname != "127.0.0.1" else None,
        )
        one.open()
        return one

    watched: list[Watched] = []
    yield make
    for context in contexts:
        context.close()
    assert [one.foreign for one in watched] == [[] for _ in watched]


@pytest.fixture
def console(opened: Callable[..., Watched]) -> Iterator[Watched]:
    """The console, the administrator logged in."""
    one = opened()
    one.log_in()
    yield one
    assert one.errors == []
