"""The overview: the streams in a sentence, their newest batches, what reached no queue."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from bindery.store.jobs import JobRecord, JobRegistry, Process, Run, RunStatus
from tests.console.conftest import Watched
from tests.service.conftest import Server

pytestmark = pytest.mark.service


def test_what_is_wrong_comes_first_in_a_sentence(console: Watched, shop: Server) -> None:
    page = console.open("#/")
    expect(page.locator(".health")).to_contain_text(re.compile(r"^\W*\d+ streams?, "))
    registry = JobRegistry(shop.app.state.plane.data)
    folder = registry.folder("broken")
    run = Run("r", 1, Process(1, 1, "elsewhere"), 1.0)
    folder.save(JobRecord("broken", {"stream": "broken"}, "t", 1.0, run))
    error = {"code": "x", "message": "no such path", "hint": "give another"}
    folder.report(RunStatus("r", "failed", 2.0, error=error))
    try:
        page.reload()
        expect(page.locator(".health")).to_contain_text(re.compile(r"^\W*\d+ streams, 1 failed: broken"))
        expect(page.locator(".wrong")).to_contain_text("broken: its job failed: no such path (give another).")
    finally:
        registry.forget("broken")


def test_a_stream_shows_its_newest_batches_and_the_page_asks_little(console: Watched) -> None:
    asked: list[str] = []
    console.page.on("request", lambda sent: asked.append(sent.url) if "/api/" in sent.url else None)
    page = console.open("#/queues")
    asked.clear()
    page = console.open("#/")
    row = page.get_by_role("row", name=re.compile("^api ")).filter(has=page.locator(".spark"))
    expect(row.locator(".spark")).to_have_attribute("aria-label", re.compile(r"^\d+ batches of 1 to 1 messages$"))
    assert 1 <= row.locator(".spark rect").count() <= 30
    # status once for all panels that show it, the versions, the queues
    assert len(asked) == 3, asked
