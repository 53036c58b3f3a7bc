"""What pages of a large topology cost is bounded: elements of the document, requests, bytes (counted, not timed).

How long they take `make bench-console` measures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Response, expect

from benchmarks.bench_console import PAGES, definitions
from tests.console.conftest import Watched
from tests.service.conftest import Server

pytestmark = pytest.mark.service

QUEUES, BINDINGS, HUB = 1_500, 4_000, 1_500
#: Elements of a page that shows a list of a hundred rows, or a picture of two hundred objects; bytes of its answers.
NODES: Final = 3_000
BYTES: Final = 100_000
REQUESTS: Final = 8


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("large") / "data").start()
    answer = running.client().post("/definitions/%2F", definitions(QUEUES, BINDINGS, HUB))
    assert answer.status < 300, answer.raw
    yield running
    running.stop()


@pytest.fixture
def console(chromium: Browser, large: Server) -> Iterator[Watched]:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    watched = Watched(context.new_page(), f"http://127.0.0.1:{large.port}")
    watched.open()
    watched.log_in()
    yield watched
    context.close()


def test_no_page_grows_with_the_topology(console: Watched) -> None:
    page = console.page
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer) if "/api/" in answer.url else None)
    found: dict[str, str] = {}
    for name, address in PAGES.items():
        page.goto("about:blank")
        answers.clear()
        console.open(address)
        nodes = page.locator("*").count()
        taken = sum(len(answer.body()) for answer in answers)
        if nodes > NODES or taken > BYTES or len(answers) > REQUESTS:
            found[name] = f"{nodes} elements, {len(answers)} requests, {taken} bytes"
    assert found == {}


def test_bindings_are_turned_page_by_page(console: Watched) -> None:
    page = console.open("#/exchanges/%2F/hub")
    part = page.locator(".panel", has=page.get_by_role("heading", name="What it sends on"))
    rows = part.locator("tbody tr")
    assert rows.count() == 100
    first = rows.first.inner_text()
    part.get_by_role("link", name="next").click()
    # the address changes first, the rows when they have come
    expect(part).to_contain_text("101 to 200")
    assert rows.count() == 100
    assert rows.first.inner_text() != first
    assert "source=100" in page.url
    page.go_back()
    expect(part).to_contain_text("1 to 100")
    assert rows.first.inner_text() == first
    console.open(f"#/exchanges/%2F/hub?source={HUB - 100}")
    assert part.get_by_role("link", name="next").count() == 0
    assert rows.count() == 100
