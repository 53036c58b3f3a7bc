"""After `make demo`: somebody who has read nothing finds in the console why flights are missing, and gets them there.

Only what stands on the screen is followed: names, links and buttons. Pictures of the way are kept where
BINDERY_PICTURES names a folder (`make pictures`): those of README and docs.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from bindery.demo.control_plane import USER
from tests.browser import Watched, watching
from tests.spark.conftest import DemoRun

#: The flight that the newcomer asks about: of Delta, from Newark to Atlanta.
KEY = "DL.EWR.ATL"


@pytest.fixture(scope="module")
def service(demo_run: DemoRun) -> Iterator[str]:
    """The command that the demo's last lines tell, on a free port; gives the address of its console."""
    told = re.search(r"^(\S+) serve --data (\S+) --port 15672$", demo_run.text, re.MULTILINE)
    assert told is not None
    command = [*shlex.split(told[1]), "serve", "--data", str(demo_run.copy), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def picture(page: Page, name: str) -> None:
    """Keep what is on the screen, in both themes and at both widths."""
    folder = os.environ.get("BINDERY_PICTURES")
    if folder is None:
        return
    for scheme in ("light", "dark"):
        for width in (1280, 390):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 900 if width == 1280 else 844})
            page.mouse.move(0, 0)
            page.wait_for_timeout(300)
            page.screenshot(path=Path(folder) / f"{name}-{width}-{scheme}.png")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 900})


def test_a_newcomer_finds_out_why_flights_are_missing_and_brings_them_to_their_queue(
    chromium: Browser, service: str, demo_run: DemoRun
) -> None:
    assert "flights reached no queue" in demo_run.text
    password = re.search(r"password (\S+)\)", demo_run.text)
    assert password is not None
    with watching(chromium, service) as make:
        console = make()
        console.log_in(USER, password[1])
        walk(console)
        assert console.errors == []


def walk(console: Watched) -> None:
    """The way from the first page to the flight in its queue."""
    page = console.page
    # where did the flights go, and what is wrong?
    expect(page.get_by_text("1 stream, 1 to look at: flights.")).to_be_visible()
    expect(page.get_by_role("region", name="Fullest queues")).to_contain_text("111,279")
    picture(page, "overview")
    page.get_by_role("link", name="Topology").click()
    console.settle()
    picture(page, "topology")
    page.go_back()
    page.get_by_role("link", name="filtered").click()
    console.settle()
    expect(page.get_by_text("4,303 rows reached no queue.")).to_be_visible()
    picture(page, "unroutable")
    # why did this one not come to newark.delta?
    page.get_by_role("link", name=KEY).click()
    console.settle()
    page.locator(".messages summary").first.click()
    page.get_by_role("link", name="Why?").first.click()
    console.settle()
    expect(page.get_by_text("Reaches no queue.")).to_be_visible()
    page.locator(".graph").get_by_role("link", name=re.compile("newark.delta")).last.click()
    console.settle()
    expect(page.locator(".why")).to_contain_text("the key is 'DL', 'DL.EWR.ATL', the binding wants 'DAL'")
    picture(page, "try")
    flight = re.search(r"flight (\d+)", page.locator("main").inner_text())
    assert flight is not None
    # the binding is wrong: it gets the code that flights carry
    page.get_by_role("heading", name="Why not").get_by_role("link").click()
    console.settle()
    page.get_by_role("region", name="What leads here").get_by_role("button", name="Change").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Routing key").fill("DL")
    expect(dialog).to_contain_text("1 to change")
    picture(page, "change")
    dialog.get_by_role("button", name="Change").click()
    expect(dialog).to_have_count(0)
    # what was missed is routed once more
    page.get_by_role("link", name="Unroutable").click()
    console.settle()
    page.get_by_role("button", name="Redrive").click()
    expect(dialog).to_contain_text("4,303 of 4,303 rows would reach a queue")
    picture(page, "redrive")
    dialog.get_by_role("button", name="Redrive").click()
    expect(page.get_by_text("All of them were redriven.")).to_be_visible()
    # and is there
    page.get_by_role("link", name="Queues").click()
    console.settle()
    page.get_by_role("link", name="newark.delta").click()
    console.settle()
    page.get_by_label("Only messages that a filter accepts").fill(f"flight = {flight[1]} AND dest = 'ATL'")
    page.get_by_role("button", name="Filter").click()
    console.settle()
    expect(page.get_by_role("row", name=KEY).first).to_be_visible()
    picture(page, "queue")
