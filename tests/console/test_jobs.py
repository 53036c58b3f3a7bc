"""Jobs in the browser: submitted from a form or as text, followed, stopped, started again, forgotten."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from bindery.store.maintenance.journals import Kept, keep_journal
from bindery.store.paths import DataDir
from tests.console.conftest import Watched
from tests.service.test_jobs_rest import Service

pytestmark = pytest.mark.service


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    running = Service(tmp_path, monkeypatch)
    yield running
    running.end()


@pytest.fixture
def page(chromium: Browser, service: Service) -> Iterator[Watched]:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    watched = Watched(context.new_page(), f"http://127.0.0.1:{service.server.port}")
    watched.page.on("pageerror", lambda error: watched.errors.append(str(error)))
    watched.open()
    watched.log_in()
    yield watched
    context.close()
    assert watched.errors == []


def test_a_job_is_submitted_from_a_form_followed_stopped_and_forgotten(page: Watched, service: Service) -> None:
    service.how("behind")
    view = page.open("#/jobs")
    view.get_by_role("link", name="Submit a job").click()
    view.get_by_label("Stream").fill("orders")
    view.get_by_label("Path").fill("/etc")
    view.get_by_label("Schema").fill("a STRING")
    view.get_by_label("Exchange").fill("'orders'")
    view.get_by_label("Properties for filters").fill("size = length(a)\nkind = a")
    view.get_by_label("Options of the reader").fill("maxFilesPerTrigger: 10")
    view.get_by_role("button", name="Check").click()
    expect(view.locator(".wrong")).to_contain_text("source.path: outside the folders that submitted jobs may read")
    view.locator(".wrong button").click()
    expect(view.get_by_label("Path")).to_be_focused()
    assert service.client.get("/jobs").json == []
    view.get_by_label("Path").fill(str(service.input))
    view.keyboard.press("Enter")
    expect(view).to_have_title("orders · Bindery")
    assert service.job("orders")["document"] == {
        "stream": "orders",
        "vhost": "/",
        "source": {
            "format": "json",
            "path": str(service.input),
            "schema": "a STRING",
            "options": {"maxFilesPerTrigger": "10"},
        },
        "message": {"exchange": "'orders'", "application_properties": {"size": "length(a)", "kind": "a"}},
        "trigger": "10 seconds",
    }
    expect(view.locator(".facts").first).to_contain_text("4 minutes, 1,200 files")
    expect(view.locator(".notice")).to_contain_text("no executor: the master is away")
    page.open("#/")
    words = "1 stream, 1 behind by 4 minutes: orders, waiting: no executor."
    expect(view.locator(".health")).to_contain_text(words)
    page.open("#/jobs/orders")
    view.get_by_role("button", name="Stop after this batch").click()
    view.get_by_role("button", name="Forget").click()
    view.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(view.locator(".empty", has_text="No job was submitted.")).to_be_visible()


def test_a_job_that_fails_says_why_and_what_to_do_and_its_log_is_followed(page: Watched, service: Service) -> None:
    view = page.open("#/jobs?new=text")
    area = view.get_by_label("The job's document")
    area.fill("stream: s\nsource: {format: json, pth: /in}\n")
    view.get_by_role("button", name="Submit").click()
    expect(view.locator(".wrong li").first).to_contain_text("source.pth: unknown key")
    view.locator(".wrong button", has_text="2:24").first.click()
    expect(area).to_be_focused()
    service.how("refuses")
    area.fill(json.dumps(service.document()))
    keep_journal(DataDir.open(service.folder / "data"), "s", "/", Kept(timedelta(days=2)))
    view.get_by_role("button", name="Submit").click()
    expect(view).to_have_title("s · Bindery")
    expect(view.locator(".panel", has=view.get_by_role("heading", name="Journal"))).to_contain_text("2 days")
    expect(view.locator(".notice.bad")).to_contain_text("the log of the run says why")
    expect(view.locator(".notice.bad")).to_contain_text("the cluster is full")
    expect(view.get_by_role("log")).to_contain_text("the cluster is full")
    service.how("runs")
    view.get_by_role("button", name="Start again").click()
    expect(view.locator(".health")).to_contain_text("idle")
    expect(view.locator(".muted", has_text="Other runs")).to_contain_text("Run 2")
    log = service.folder / "data" / "jobs" / "s" / "run-2.log"
    with log.open("a") as lines:
        lines.write("a line that came later\n")
    expect(view.get_by_role("log")).to_contain_text("a line that came later")
    view.locator("a", has_text="1").last.click()
    expect(view.get_by_role("log")).to_contain_text("the cluster is full")


def test_the_forms_say_what_the_reader_of_documents_knows(page: Watched, service: Service) -> None:
    """Whatever kind of source a form is for, its document has no key and no value that the reader would not take."""
    for kind, filled, refused in (
        ("files", {"Path": str(service.input)}, []),
        ("delta", {"Path": str(service.input)}, []),
        ("kafka", {"Brokers": "k:9092", "Topics": "a, b"}, ["source.bootstrap_servers: k:9092 is not among"]),
    ):
        view = page.open(f"#/jobs?new={kind}")
        view.get_by_label("Stream").fill("s")
        for label, text in filled.items():
            view.get_by_label(label).fill(text)
        view.get_by_role("button", name="Check").click()
        if refused:
            expect(view.locator(".wrong li")).to_have_count(len(refused))
            expect(view.locator(".wrong")).to_contain_text(refused[0])
        else:
            expect(view.locator(".said")).to_contain_text("It can be submitted.")
