"""The console over a large topology: when its pages are seen and complete, beside the same pages of a small one.

    python -m benchmarks.bench_console

A real server process and a real browser (Debian's chromium, or BINDERY_CHROMIUM), over 10,000 queues and 100,000
bindings, 10,000 of them at one exchange; and over 10 queues, which is the yardstick. Each page is loaded from nothing.
`paint` is the first contentful paint, `settled` when no part of the page loads any more, `blocked` the longest task of
the page's thread, in milliseconds; `nodes` are those of the document, `bytes` what the API sent. The last line is the
largest ratio of settled times, and the largest first paint, which is to stay below two seconds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
from dataclasses import dataclass
from typing import Any, Final

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.bench_api import Client, server
from benchmarks.broker import Service

QUEUES, BINDINGS, HUB = 10_000, 100_000, 10_000
FEW: Final = 10
#: What a browser takes from a page that is to be measured, before anything of it runs.
_OBSERVE: Final = """
window.tasks = [];
new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((one) => one.duration)))
  .observe({ type: "longtask", buffered: true });
"""
_MEASURED: Final = """() => ({
  paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
  blocked: Math.max(0, ...window.tasks),
  nodes: document.querySelectorAll("*").length,
  bytes: performance.getEntriesByType("resource").filter((one) => one.name.includes("/api/"))
    .reduce((sum, one) => sum + one.encodedBodySize, 0),
})"""
PAGES: Final = {
    "overview": "#/",
    "topology": "#/topology/%2F",
    "around an exchange": "#/topology/%2F?exchange=hub",
    "exchanges": "#/exchanges",
    "an exchange": "#/exchanges/%2F/hub",
    "queues": "#/queues",
    "fullest queues": "#/queues?sort=messages&reverse=true",
    "a search": "#/queues?name=q7",
    "a queue": "#/queues/%2F/q1",
    "try a message": "#/try?vhost=%2F&exchange=hub&key=k.1.x&queue=q1",
    "unroutable": "#/unroutable/%2F",
    "history": "#/history",
    "access": "#/access",
}


@dataclass(frozen=True)
class Load:
    """One load of a page; times in milliseconds."""

    paint: float
    settled: float
    blocked: float
    nodes: int
    bytes: int


def definitions(queues: int, bindings: int, hub: int) -> dict[str, Any]:
    """A document for the vhost "/": an exchange `hub` with many bindings, and others that share the rest."""
    exchanges = max(1, queues // 10)
    durable = {"durable": True, "auto_delete": False, "arguments": {}}

    def binding(number: int, source: str) -> dict[str, Any]:
        ends = {"source": source, "destination": f"q{number % queues}", "destination_type": "queue"}
        return ends | {"routing_key": f"k.{number}.#", "arguments": {}}

    return {
        "exchanges": [
            {"name": name, "type": "topic", "internal": False, **durable}
            for name in ("hub", *(f"e{number}" for number in range(exchanges)))
        ],
        "queues": [{"name": f"q{number}", **durable} for number in range(queues)],
        "bindings": [
            *(binding(number, "hub") for number in range(hub)),
            *(binding(number, f"e{number % exchanges}") for number in range(bindings - hub)),
        ],
    }


def fill(service: Service, queues: int, bindings: int, hub: int) -> None:
    """Declare a topology, and publish some messages."""
    client = Client(service)
    client.call("POST", "/api/definitions/%2F", definitions(queues, bindings, hub))
    for number in range(FEW):
        message = {"routing_key": f"k.{number}.x", "properties": {}, "payload": "x", "payload_encoding": "string"}
        client.call("POST", "/api/exchanges/%2F/hub/publish", message)


def logged_in(browser: Browser, service: Service) -> Page:
    """A page of a session."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.add_init_script(_OBSERVE)
    page.goto(f"http://127.0.0.1:{service.port}/")
    page.fill("input[name=username]", service.user)
    page.fill("input[name=password]", service.password)
    page.click("button.primary")
    page.wait_for_selector("header.top")
    return page


def load(page: Page, service: Service, address: str) -> Load:
    """Load a page from nothing."""
    page.goto("about:blank")
    page.goto(f"http://127.0.0.1:{service.port}/{address}")
    page.wait_for_selector("main > *")
    page.wait_for_selector(".panel[aria-busy=true]", state="detached", timeout=120_000)
    settled = page.evaluate("performance.now()")
    return Load(settled=settled, **page.evaluate(_MEASURED))


def measure(browser: Browser, sizes: tuple[int, int, int], times: int) -> dict[str, Load]:
    """Each page over a topology of those sizes: the median of several loads, by settled time."""
    with server() as service:
        fill(service, *sizes)
        page = logged_in(browser, service)
        found = {}
        for name, address in PAGES.items():
            loads = sorted((load(page, service, address) for _ in range(times)), key=lambda one: one.settled)
            found[name] = loads[len(loads) // 2]
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queues", type=int, default=QUEUES)
    parser.add_argument("--bindings", type=int, default=BINDINGS)
    parser.add_argument("--times", type=int, default=3, help="loads of each page")
    options = parser.parse_args()
    chromium = os.environ.get("BINDERY_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        sys.exit("no chromium (Debian's package chromium, or BINDERY_CHROMIUM)")
    large = (options.queues, options.bindings, min(HUB, options.bindings))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        small, big = (measure(browser, sizes, options.times) for sizes in ((FEW, FEW, FEW), large))
        browser.close()
    print(f"{options.queues:,} queues, {options.bindings:,} bindings; beside {FEW} of each")
    print(f"{'page':20}{'paint':>8}{'settled':>9}{'small':>8}{'ratio':>7}{'blocked':>9}{'nodes':>8}{'bytes':>10}")
    for name, one in big.items():
        ratio = one.settled / small[name].settled
        print(
            f"{name:20}{one.paint:8.0f}{one.settled:9.0f}{small[name].settled:8.0f}{ratio:7.1f}{one.blocked:9.0f}"
            f"{one.nodes:8,}{one.bytes:10,}"
        )
    ratios = [one.settled / small[name].settled for name, one in big.items()]
    print(
        f"largest ratio {max(ratios):.1f}, median {statistics.median(ratios):.1f}; "
        f"largest first paint {max(one.paint for one in big.values()):.0f} ms"
    )


if __name__ == "__main__":
    main()
