"""The log: what a line holds, in both formats, and what it never does."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator

import pytest

from bindery.jobs.control.logs import about, format_of_environment, set_up
from bindery.router.errors import InvalidInput

LOG = logging.getLogger("bindery.test")
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("", "bindery", "uvicorn.access")]
    before = [(logger, list(logger.handlers), logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, handlers, level, propagate in before:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_a_line_of_text(capfd: pytest.CaptureFixture[str]) -> None:
    set_up("text")
    LOG.warning("the disk of %s is away", "a\nb")
    with about(stream="orders"), about(batch=7):
        LOG.info("done")
    first, second = capfd.readouterr().err.splitlines()
    assert re.fullmatch(rf"{TIME} warning bindery\.test the disk of a\ufffdb is away", first)
    assert re.fullmatch(rf"{TIME} info bindery\.test stream=orders batch=7 done", second)


def test_a_line_of_json(capfd: pytest.CaptureFixture[str]) -> None:
    set_up("text")
    set_up("json")
    with about(stream="orders", batch=0):
        LOG.info("a\n\udcffb")
    LOG.error("gone", extra={"stream": "s", "batch": 0})
    first, second = map(json.loads, capfd.readouterr().err.splitlines())
    assert re.fullmatch(TIME, first.pop("time"))
    assert first == {"level": "info", "logger": "bindery.test", "message": "a\n?b", "stream": "orders", "batch": 0}
    assert (second["message"], second["stream"], second["batch"]) == ("gone", "s", 0)


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_secret_is_in_a_line(capfd: pytest.CaptureFixture[str], form: str) -> None:
    secrets: list[str] = []
    set_up(form, secrets=secrets)  # type: ignore[arg-type]
    secrets.append("hunter2")
    try:
        raise OSError("amqp://guest:p@ss@host refused hunter2")
    except OSError:
        LOG.exception("cannot reach %s with %s", "amqp://guest:p@ss@host/v", "hunter2")
    said = capfd.readouterr().err
    assert "hunter2" not in said
    assert "p@ss" not in said
    assert said.count("amqp://guest:***@host") == 3  # the source line of the traceback is one of them
    assert "Traceback" in said


def test_requests_are_logged_with_their_parts(capfd: pytest.CaptureFixture[str]) -> None:
    requests = logging.getLogger("uvicorn.access")
    parts = ("127.0.0.1:5", "GET", "http://a:secret@h/api/queues", "1.1", 200)
    for form in ("text", "json"):
        set_up(form, access=True)  # type: ignore[arg-type]
        requests.info('%s - "%s %s HTTP/%s" %d', *parts)
    set_up("json")
    requests.info('%s - "%s %s HTTP/%s" %d', *parts)
    said = capfd.readouterr()
    text, data = said.out.splitlines()
    assert text.endswith('uvicorn.access 127.0.0.1:5 - "GET http://a:***@h/api/queues HTTP/1.1" 200')
    found = json.loads(data)
    assert (found["client"], found["method"], found["path"], found["status"]) == (
        "127.0.0.1:5",
        "GET",
        "http://a:***@h/api/queues",
        200,
    )
    assert said.err == ""


def test_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BINDERY_LOG_FORMAT", raising=False)
    assert format_of_environment() == "text"
    monkeypatch.setenv("BINDERY_LOG_FORMAT", "json")
    assert format_of_environment() == "json"
    monkeypatch.setenv("BINDERY_LOG_FORMAT", "xml")
    with pytest.raises(InvalidInput, match="xml"):
        format_of_environment()
