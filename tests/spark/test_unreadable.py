"""A file that cannot be read is named and left out, and hurts neither the stream nor the files beside it."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from bindery.router.errors import InvalidInput, Refused
from bindery.router.message import Message, to_batch
from bindery.store.commit import BatchCommitter
from tests.spark.installation import Installation, as_json

PARQUET = "stream: s\nsource: {format: parquet, path: INBOX}\ntrigger: available-now\n"
JSON = "stream: s\nsource: {format: json, path: INBOX}\ntrigger: available-now\nmax_record_bytes: 100000\n"
FIELDS = """stream: s
source: {format: FORMAT, path: INBOX, schema: "id STRING, note STRING", options: {OPTIONS}}
message: {exchange: "'amq.topic'", routing_key: id, body: note}
trigger: available-now
max_record_bytes: 100000
"""


@pytest.fixture
def inbox(installation: Installation) -> Installation:
    installation.queue("all")
    return installation


def keys(installation: Installation) -> list[str]:
    return sorted(row["routing_key"] for row in installation.rows("all"))


def lost(installation: Installation) -> dict[str, str]:
    """What was left out: file name -> detail."""
    return {Path(row["source"]["file"]).name: row["detail"] for row in installation.unroutable()}


def message(key: str) -> str:
    return as_json(exchange="amq.topic", routing_key=key)


def place(installation: Installation, name: str, content: bytes) -> Path:
    draft = installation.inbox / f".{name}"
    draft.write_bytes(content)
    return draft.rename(installation.inbox / name)


def parquet(key: str, rows: int = 1) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([to_batch([Message(exchange="amq.topic", routing_key=key)] * rows)]), sink)
    return bytes(sink.getvalue())


def damaged_page() -> bytes:
    """A Parquet file whose footer is whole and whose data is not."""
    content = bytearray(parquet("lost", 2000))
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    return bytes(content)


def other_type() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"exchange": ["amq.topic"], "routing_key": [5], "mandatory": [b"x"]}), sink)
    return bytes(sink.getvalue())


def test_corrupt_parquet_files_are_named_and_the_others_routed(inbox: Installation) -> None:
    whole = parquet("x")
    bad = {
        "0-truncated.parquet": whole[: len(whole) - 20],
        "garbage.parquet": b"not parquet at all",
        "empty.parquet": b"",
        "page.parquet": damaged_page(),
        "type.parquet": other_type(),
    }
    for n in range(3):
        place(inbox, f"good-{n}.parquet", parquet(f"good{n}"))
    for name, content in bad.items():
        place(inbox, name, content)

    (report,) = inbox.route(PARQUET)

    assert keys(inbox) == ["good0", "good1", "good2"]
    assert lost(inbox).keys() == bad.keys()
    assert {row["reason"] for row in inbox.unroutable()} == {"invalid_record"}
    assert "it is empty" in lost(inbox)["empty.parquet"]
    assert "not a Parquet file" in lost(inbox)["garbage.parquet"]
    assert (report.records, report.unroutable) == (8, 5)
    assert len({row["routing"]["seq"] for row in (*inbox.rows("all"), *inbox.unroutable())}) == 8

    place(inbox, "later.parquet", parquet("later"))
    inbox.route(PARQUET)
    assert keys(inbox) == ["good0", "good1", "good2", "later"]


def test_a_batch_of_bad_files_only_is_one_of_named_files(inbox: Installation) -> None:
    place(inbox, "good.parquet", parquet("good"))
    inbox.route(PARQUET)
    place(inbox, "bad.parquet", b"x")
    (report,) = inbox.route(PARQUET)
    assert (keys(inbox), lost(inbox).keys(), report.unroutable) == (["good"], {"bad.parquet"}, 1)


def test_with_stop_the_file_is_named_and_nothing_of_the_batch_is_committed(inbox: Installation) -> None:
    place(inbox, "good.parquet", parquet("good"))
    place(inbox, "bad.parquet", b"not parquet at all")
    stop = PARQUET.replace("path: INBOX", "path: INBOX, unreadable_files: stop")
    with pytest.raises(Refused, match=r"bad\.parquet.*not a Parquet file") as caught:
        inbox.route(stop)
    assert "unreadable_files: record" in str(caught.value.hint)
    assert inbox.counts() == {"all": 0}

    inbox.route(PARQUET)
    assert (keys(inbox), lost(inbox).keys()) == (["good"], {"bad.parquet"})


@pytest.mark.parametrize("content", [b"not parquet", b""])
def test_a_bad_file_does_not_hide_the_schema_of_the_others(inbox: Installation, content: bytes) -> None:
    for name in ("a.parquet", "z.parquet"):
        place(inbox, name, content)
    with pytest.raises(InvalidInput, match="no Parquet schema"):
        inbox.route(PARQUET)
    place(inbox, "m.parquet", parquet("good"))
    inbox.route(PARQUET)
    assert (keys(inbox), lost(inbox).keys()) == (["good"], {"a.parquet", "z.parquet"})


@pytest.mark.parametrize("job", [JSON, FIELDS.replace("FORMAT", "json").replace("OPTIONS", "")])
def test_corrupt_compressed_files_are_named(inbox: Installation, job: str) -> None:
    def lines(key: str) -> bytes:
        text = message(key) if job == JSON else as_json(id=key)
        return gzip.compress((text + "\n").encode() * 3000)

    flipped = bytearray(lines("flipped"))
    flipped[40:60] = bytes(20)
    place(inbox, "good.json.gz", lines("good"))
    place(inbox, "cut.json.gz", lines("cut")[:-30])
    place(inbox, "flipped.json.gz", bytes(flipped))
    place(inbox, "plain.json.gz", b"no gzip at all")

    inbox.route(job)

    assert set(keys(inbox)) == {"good"}
    assert len(keys(inbox)) == 3000
    assert lost(inbox).keys() == {"cut.json.gz", "flipped.json.gz", "plain.json.gz"}


@pytest.mark.parametrize("job", [JSON, *(FIELDS.replace("FORMAT", name) for name in ("json", "csv"))])
def test_bytes_that_are_no_text_are_bad_records_and_no_more(inbox: Installation, job: str) -> None:
    job = job.replace("OPTIONS", "")
    good = {JSON: message("good")}.get(job, "good,x" if "csv" in job else as_json(id="good"))
    place(inbox, "noise.txt", bytes(range(256)) * 20 + b"\n" + good.encode() + b"\n\xff\xfe\xfd\n")
    inbox.route(job)
    assert "good" in keys(inbox)
    assert all(Path(row["source"]["file"]).name == "noise.txt" for row in inbox.unroutable())


# -- files that change --------------------------------------------------------------------------------


def after_planning(installation: Installation, job: str, change: Callable[[], object], **options: Any) -> None:
    """Run a job; the change happens when Spark has planned the batch and nothing has been read."""
    made = installation.job(job)
    route = made._route_batch

    def changed(frame: Any, batch_id: int) -> None:
        change()
        route(frame, batch_id)

    made._route_batch = changed  # type: ignore[method-assign]  # the moment between Spark's plan and the batch
    made.run(**options)


@pytest.mark.parametrize("job", [PARQUET, JSON])
def test_a_file_that_is_gone_or_changed_since_it_was_planned_is_named(inbox: Installation, job: str) -> None:
    def content(key: str) -> bytes:
        return parquet(key) if job == PARQUET else (message(key) + "\n").encode()

    paths = {name: place(inbox, name, content(name)) for name in ("gone", "shrunk", "replaced", "good")}

    def change() -> None:
        paths["gone"].unlink()
        paths["shrunk"].write_bytes(content("shrunk")[:10])
        draft = inbox.root / "draft"
        draft.write_bytes(content("another"))
        draft.rename(paths["replaced"])
        for name in ("shrunk", "replaced"):
            os.utime(paths[name], (1, 1))

    after_planning(inbox, job, change)

    assert keys(inbox) == ["good"]
    details = lost(inbox)
    assert details.keys() == {"gone", "shrunk", "replaced"}
    assert "is gone" in details["gone"]
    assert "has changed since the batch was planned" in details["shrunk"]
    assert all("rename it into the folder" in detail for detail in details.values())


@pytest.mark.parametrize("setting", ["spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles"])
def test_no_setting_of_the_session_hides_a_file(inbox: Installation, spark: SparkSession, setting: str) -> None:
    place(inbox, "good.parquet", parquet("good"))
    gone = place(inbox, "gone.parquet", parquet("gone"))
    place(inbox, "page.parquet", damaged_page())

    def change() -> None:
        gone.unlink()
        spark.conf.set(setting, "true")

    after_planning(inbox, PARQUET, change)
    assert (keys(inbox), lost(inbox).keys()) == (["good"], {"gone.parquet", "page.parquet"})


def test_with_stop_a_file_that_is_gone_is_named(inbox: Installation) -> None:
    gone = place(inbox, "gone.json", message("gone").encode())
    stop = JSON.replace("path: INBOX", "path: INBOX, unreadable_files: stop")
    with pytest.raises(Refused, match=r"gone\.json: it was there when the batch was planned"):
        after_planning(inbox, stop, gone.unlink)
    assert inbox.manifest() == []


def test_a_file_that_changes_while_it_is_read_is_left_out(inbox: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    from bindery.jobs.intake import _FileBatch

    place(inbox, "good.json", message("good").encode())
    torn = place(inbox, "torn.json", (message("torn") + "\n").encode() * 5)
    run = _FileBatch._run

    def tears(self: Any, *arguments: Any) -> Any:
        rows = run(self, *arguments)
        torn.write_bytes(b"")
        return rows

    monkeypatch.setattr(_FileBatch, "_run", tears)
    inbox.route(JSON)
    assert (keys(inbox), lost(inbox).keys()) == (["good"], {"torn.json"})


def test_what_one_attempt_left_out_the_next_one_does_too(inbox: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    place(inbox, "good.parquet", parquet("good"))
    bad = place(inbox, "bad.parquet", b"not parquet at all")
    planned = bad.stat()

    def fails(*_: object, **__: object) -> None:
        raise ConnectionError("the driver dies before it commits")

    with monkeypatch.context() as patch:
        patch.setattr(BatchCommitter, "commit", fails)
        with pytest.raises(ConnectionError):
            inbox.route(PARQUET)
    bad.write_bytes(parquet("repaired"))
    os.utime(bad, ns=(planned.st_atime_ns, planned.st_mtime_ns))
    inbox.route(PARQUET)

    assert (keys(inbox), lost(inbox).keys()) == (["good"], {"bad.parquet"})


# -- lines that are too long --------------------------------------------------------------------------


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", ["messages", "json", "csv"])
def test_a_line_that_is_too_long_is_cut_out_and_the_others_are_routed(
    inbox: Installation, kind: str, compressed: bool
) -> None:
    job = JSON if kind == "messages" else FIELDS.replace("FORMAT", kind).replace("OPTIONS", "")

    def line(key: str, note: str = "x") -> bytes:
        text = {
            "messages": as_json(exchange="amq.topic", routing_key=key, body=note),
            "json": as_json(id=key, note=note),
            "csv": f"{key},{note}",
        }[kind]
        return text.encode() + b"\n"

    few = [line(f"a{n}") for n in range(20)]
    long = line("long", "y" * 5_000_000)
    content = b"".join([*few[:10], long, *few[10:], long])
    name = "a b%.txt.gz" if compressed else "a b%.txt"
    place(inbox, name, gzip.compress(content) if compressed else content)
    place(inbox, "other.txt", line("other"))

    inbox.route(job)

    assert keys(inbox) == sorted([*(f"a{n}" for n in range(20)), "other"])
    rows = inbox.unroutable()
    first = len(b"".join(few[:10]))
    assert sorted((row["reason"], row["source"]["offset"]) for row in rows) == [
        ("too_large", first),
        ("too_large", len(content) - len(long)),
    ]
    address = (inbox.inbox / name).as_uri().replace("file:///", "file:/")
    places = {
        row["source"]["file"] for row in (*rows, *inbox.rows("all")) if not row["source"]["file"].endswith("r.txt")
    }
    assert places == {address}
    assert not any((inbox.checkpoint / "shortened").glob("*"))


def test_a_line_of_100_mb_does_not_end_a_small_jvm(inbox: Installation) -> None:
    """The session of the tests has 1 GiB."""
    job = JSON.replace("max_record_bytes: 100000\n", "")
    with (inbox.inbox / ".draft").open("wb") as file:
        file.write(message("before").encode() + b"\n" + b'{"body": "')
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b'"}\n' + message("after").encode() + b"\n")
    (inbox.inbox / ".draft").rename(inbox.inbox / "big.json")
    inbox.route(job)
    assert keys(inbox) == ["after", "before"]
    (row,) = inbox.unroutable()
    assert (row["reason"], row["detail"]) == ("too_large", "a line of 100000012 bytes; the cap is 33554432")


def test_a_shortened_file_keeps_its_partitions(inbox: Installation) -> None:
    job = (
        FIELDS.replace("FORMAT", "json")
        .replace("OPTIONS", "pathGlobFilter: '*.json'")
        .replace("routing_key: id", "routing_key: \"concat_ws('.', id, day)\"")
        .replace("note STRING", "note STRING, day STRING")
    )
    for day in ("mon day", "tue"):
        folder = inbox.inbox / f"day={day}"
        folder.mkdir()
        draft = folder / ".draft"
        draft.write_text(as_json(id="a") + "\n" + as_json(id="long", note="y" * 300_000) * (day != "tue") + "\n")
        draft.rename(folder / "x.json")
    inbox.route(job)
    assert keys(inbox) == ["a.mon day", "a.tue"]
    assert [row["reason"] for row in inbox.unroutable()] == ["too_large"]


def test_one_document_a_file_is_bounded_by_the_file(inbox: Installation) -> None:
    job = FIELDS.replace("FORMAT", "json").replace("OPTIONS", "multiLine: true")
    place(inbox, "good.json", json.dumps({"id": "good"}, indent=2).encode())
    place(inbox, "long.json", as_json(id="long", note="y" * 1_000_000).encode())
    inbox.route(job)
    assert keys(inbox) == ["good"]
    assert [(row["reason"], Path(row["source"]["file"]).name) for row in inbox.unroutable()] == [
        ("too_large", "long.json")
    ]


def test_a_field_of_a_csv_file_with_line_ends_in_its_fields_is_bounded(inbox: Installation) -> None:
    job = FIELDS.replace("FORMAT", "csv").replace("OPTIONS", "multiLine: true")
    place(inbox, "good.csv", b'good,"two\nlines"\n')
    place(inbox, "open.csv", b'open,"' + b"never closed\n" * 100_000)
    inbox.route(job)
    assert (keys(inbox), lost(inbox).keys()) == (["good"], {"open.csv"})
