"""A real browser (tests/browser.py) on a real server with a topology that has something of everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser import Watched, watching
from tests.service.conftest import Server
from tests.service.http import Client, segment

#: A name that would run, were it ever taken for markup, and one that turns the text around it.
SCRIPT_NAME = "<img src=x onerror=\"document.title='run'\">"
TURNING_NAME = "abc\u202egnp.exe"
ORDERS = (
    ("eu.books", {"region": "EU", "price": 12}, "a book"),
    ("eu.music", {"region": "EU", "price": 30}, '{"sku": 7}'),
    ("us.books", {"region": "US", "price": 9}, f"<script>document.title='run'</script>{SCRIPT_NAME}"),
)


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


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with exchanges, queues and messages for one file, whose tests change what has names of their own."""
    running = Server(tmp_path_factory.mktemp("console") / "data").start()
    declare(running.client())
    yield running
    running.stop()


@pytest.fixture
def opened(chromium: Browser, shop: Server) -> Iterator[Callable[..., Watched]]:
    """Opens a page that nobody is logged in at."""
    with watching(chromium, f"http://127.0.0.1:{shop.port}") as make:
        yield make


@pytest.fixture
def console(opened: Callable[..., Watched]) -> Iterator[Watched]:
    """The console, the administrator logged in."""
    one = opened()
    one.log_in()
    yield one
    assert one.errors == []
