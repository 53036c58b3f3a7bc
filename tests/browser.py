"""A real browser: Debian's chromium, or the one that BINDERY_CHROMIUM names; without one its tests are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

expect.set_options(timeout=30_000)  # how long something takes says more about the machine than about the page
_OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


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

    def log_in(self, name: str = "guest", password: str = "guest") -> None:  # noqa: S107  # of every server here
        self.page.fill("input[name=username]", name)
        self.page.fill("input[name=password]", password)
        self.page.click("button:has-text('Log in')")
        self.page.wait_for_selector("header.top")
        self.settle()


@pytest.fixture(scope="module")  # playwright's event loop runs until it ends, and no other can run beside it
def chromium() -> Iterator[Browser]:
    found = os.environ.get("BINDERY_CHROMIUM") or shutil.which("chromium")
    if found is None:
        pytest.skip("no chromium (Debian's package chromium, or BINDERY_CHROMIUM)")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=_OPTIONS)
        yield browser
        browser.close()


@contextmanager
def watching(chromium: Browser, base: str) -> Iterator[Callable[..., Watched]]:
    """Opens pages of a console that nobody is logged in at; none may ask anybody else for anything."""
    contexts = []
    watched: list[Watched] = []

    def make(*, width: int = 1280, scheme: str = "light") -> Watched:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        watched.append(one := Watched(page, base))
        page.on("console", lambda said: one.errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: one.errors.append(str(error)))
        page.on(
            "request",
            lambda sent: one.foreign.append(sent.url) if urlsplit(sent.url).hostname != "127.0.0.1" else None,
        )
        one.open()
        return one

    yield make
    for context in contexts:
        context.close()
    assert [one.foreign for one in watched] == [[] for _ in watched]
