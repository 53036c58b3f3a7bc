"""Files of a folder: each is read exactly once, whatever its name, its age and its place in the order."""

from __future__ import annotations

import os
import time

import pytest

from tests.spark.installation import Installation, as_json

DAY = 86_400.0
JSON = "stream: s\nsource: {format: json, path: INBOX, options: {OPTIONS}}\ntrigger: available-now\n"


def place(installation: Installation, name: str, *, age_days: float) -> None:
    """A file with one message that carries the file's name, dated so many days back (negative: ahead)."""
    draft = installation.inbox / f".{name}"
    draft.write_text(as_json(exchange="amq.topic", routing_key=name.partition(".")[0]) + "\n")
    moment = time.time() - age_days * DAY
    os.utime(draft, (moment, moment))
    draft.rename(installation.inbox / name)


@pytest.mark.parametrize("options", ["", "maxFilesPerTrigger: 1", "latestFirst: true, maxFilesPerTrigger: 2"])
def test_every_file_is_read_once_whatever_its_time(installation: Installation, options: str) -> None:
    installation.queue("all")
    job = JSON.replace("OPTIONS", options)
    runs = [
        {"today": 0, "week": 6.9},
        {"eight-days": 8, "years": 3650, "epoch": time.time() / DAY, "before-1970": time.time() / DAY + 1000},
        {"nine-ahead": -9, "decades-ahead": -20000},
        {"normal": 0, "eight-days-again": 8},
        {"later": 0},
    ]
    for files in runs:
        for name, age in files.items():
            place(installation, f"{name}.json", age_days=age)
        installation.route(job)
    installation.route(job)

    assert sorted(row["routing_key"] for row in installation.rows("all")) == sorted(
        name for files in runs for name in files
    )


def test_drafts_are_not_read_before_they_are_renamed(installation: Installation) -> None:
    installation.queue("all")
    job = JSON.replace("OPTIONS", "")
    place(installation, "done.json", age_days=0)
    for draft in (".draft.json", "_draft.json", "copied.json._COPYING_"):
        (installation.inbox / draft).write_text('{"exchange": "amq.topic", "routi')
    installation.route(job)
    assert [row["routing_key"] for row in installation.rows("all")] == ["done"]

    for draft in installation.inbox.glob("*draft*"):
        draft.write_text(as_json(exchange="amq.topic", routing_key=draft.name[:1]) + "\n")
        draft.rename(installation.inbox / f"placed{draft.name[:1]}.json")
    installation.route(job)
    assert sorted(row["routing_key"] for row in installation.rows("all")) == [".", "_", "done"]
    assert installation.unroutable() == []
