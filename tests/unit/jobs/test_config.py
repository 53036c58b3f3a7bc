"""Job files: every error names the key and the line."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bindery.jobs.control.config import (
    DEFAULT_RECORD_BYTES,
    FileSource,
    QueueSource,
    errors_of,
    job_of,
    load_job,
    parse_job,
)
from bindery.jobs.control.dedup import DedupOptions
from bindery.router.errors import InvalidInput
from bindery.store.maintenance.journals import JournalOptions, Kept
from bindery.store.maintenance.options import MaintenanceOptions

GOOD = """\
stream: flights
source:
  format: csv
  path: in
  schema: a INT
  options: {header: true}
message:
  exchange: "'x'"
  mandatory: true
  application_properties:
    a: a
    five: 5
trigger: 5 seconds
"""


def test_a_job_file_with_its_defaults() -> None:
    job = parse_job(GOOD).job
    assert (job.stream, job.vhost, job.trigger, job.max_record_bytes) == ("flights", "/", "5 seconds", 16 * 2**20)
    assert DEFAULT_RECORD_BYTES == 16 * 2**20
    assert isinstance(job.source, FileSource)
    assert (job.source.schema_, job.source.options) == ("a INT", {"header": "true"})
    assert job.message == {"exchange": "'x'", "mandatory": "true", "application_properties": {"a": "a", "five": "5"}}


def test_a_bridge_reads_a_queue() -> None:
    job = parse_job("stream: b\nsource: {format: queue, queue: q, filter: a = 1}\nmessage: {exchange: \"'x'\"}\n").job
    assert isinstance(job.source, QueueSource)
    assert (job.source.queue, job.source.dialect, job.source.filter) == ("q", "artemis", "a = 1")


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("  path: in", "  pth: in", "source.pth: unknown key", 4),
        ("format: csv", "format: xml", "source.format: unknown or missing format", 3),
        ("format: csv", "format: json\n  colour: red", "source.colour: unknown key", 4),
        ("  exchange:", "  exchang:", "message.exchang: unknown key", 8),
        ("    a: a\n", "    a: [1]\n", "message.application_properties.a: Input should be a valid string", 11),
        ("    a: a\n", "    a: a\n    a: b\n", "message.application_properties.a: stated twice", 12),
        ("  mandatory: true", "  header: {prio: 1}", "message.header.prio: unknown key", 9),
        ("  mandatory: true", "  routing_key: {a: b}", "message: routing_key: one expression, not a map of them", 7),
        ("5 seconds", "soon", "trigger: 'soon' is neither 'available-now' nor an interval", 13),
        ("stream: flights\n", "", "stream: missing", 1),
        ("stream: flights", "stream: ''", "stream: String should have at least 1 character", 1),
        ("  schema: a INT\n", "", "source: a csv source needs a schema", 2),
        ("csv\n  path: in", "parquet\n  path: in", "source.options: option 'header' is none of Spark's", 6),
        ("{header: true}\n", "{}\n  format: parquet\n", "source.format: stated twice", 7),
        ("{header: true}", "{Mode: FAILFAST}", "source.options: option 'Mode' is set by the job", 6),
        ("trigger: 5 seconds", "max_record_bytes: many", "max_record_bytes: Input should be a valid integer", 13),
        ("  format: csv", "  format: [", "not YAML", 5),
    ],
)
def test_an_error_names_key_and_line(old: str, new: str, message: str, line: int) -> None:
    assert old in GOOD
    with pytest.raises(InvalidInput) as caught:
        parse_job(GOOD.replace(old, new))
    assert caught.value.message.startswith(message)
    assert caught.value.where == f"job.yaml, line {line}"
    assert caught.value.exit_code == 2


def test_a_near_miss_is_suggested() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_job(GOOD.replace("  path: in", "  pth: in"))
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("did you mean 'path'?")


@pytest.mark.parametrize("text", ["", "5", "- a\n", "[" * 5000, "a: &a [*a]\n"])
def test_text_that_is_no_job_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_job(text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_job(tmp_path / "none.yaml")
    assert caught.value.where == str(tmp_path / "none.yaml")


def test_the_samples_are_valid() -> None:
    files = sorted((Path(__file__).parents[3] / "configs").rglob("job*.yaml"))
    assert files
    for file in files:
        assert load_job(file).job.stream


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("maxFileAge: 1 hour", "every file is read once, whatever its time"),
        ("MAXFILEAGE: 1000d", "every file is read once"),
        ("modifiedAfter: '2020-01-01T00:00:00'", "every file is read once"),
        ("fileNameOnly: true", "same name in another folder"),
        ("cleanSource: Delete", "use archive"),
        ("ignoreMissingFiles: true", "would go unnoticed"),
        ("ignoreCorruptFiles: false", "would go unnoticed"),
        ("failOnDataLoss: false", "would let versions"),
    ],
)
def test_an_option_that_would_lose_records_is_refused_with_the_reason(option: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as caught:
        parse_job(GOOD.replace("header: true", option))
    assert caught.value.message.startswith(f"source.options: option {option.partition(':')[0]!r}")


@pytest.mark.parametrize(
    ("form", "option"),
    [
        ("parquet", "latestFirst: true"),
        ("parquet", "fileNameOnly: false"),
        ("parquet", "cleanSource: archive"),
        ("delta", "failOnDataLoss: true"),
    ],
)
def test_an_option_that_loses_nothing_may_be_set(form: str, option: str) -> None:
    assert parse_job(f"stream: s\nsource: {{format: {form}, path: /in, options: {{{option}}}}}\n")


@pytest.mark.parametrize(
    ("text", "meant"), [("", None), ("maintenance: off", False), ("maintenance: on", True), ("maintenance: no", False)]
)
def test_maintenance_is_switched_by_a_word(text: str, meant: bool | None) -> None:
    assert parse_job(f"stream: s\nsource: {{format: parquet, path: /in}}\n{text}\n").job.maintenance is meant


def test_maintenance_is_told_what_to_keep() -> None:
    text = "stream: s\nsource: {format: parquet, path: /in}\nmaintenance:\n  retention: 3 days\n  target_size: 64 MiB\n"
    found = parse_job(text).job.maintenance
    assert isinstance(found, MaintenanceOptions)
    assert (found.policy.retention, found.policy.target_bytes) == (timedelta(days=3), 64 << 20)
    assert parse_job(text.replace("3 days", "60 seconds")).job.maintenance


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("  retention: 3 fortnights", "no length of time"),
        ("  retention: 1 second", "too short"),
        ("  target_size: tiny", "no size of files"),
        ("  retentions: 3 days", "unknown key"),
    ],
)
def test_what_maintenance_cannot_be_told_is_refused_with_its_line(line: str, message: str) -> None:
    text = f"stream: s\nsource: {{format: parquet, path: /in}}\nmaintenance:\n{line}\n"
    with pytest.raises(InvalidInput, match=message) as refused:
        parse_job(text)
    assert "line 4" in str(refused.value.where)


def test_a_journal_is_kept_on_request() -> None:
    text = "stream: s\nsource: {format: parquet, path: /in}\n"
    assert parse_job(text).job.journal_options is None
    assert parse_job(text + "journal: off\n").job.journal_options is None
    assert parse_job(text + "journal: on\n").job.journal_options == JournalOptions()
    stated = parse_job(text + "journal: {retention: 2 days, size: 10 GiB}\n").job.journal_options
    assert stated is not None
    assert stated.kept == Kept(timedelta(days=2), 10 << 30)
    assert JournalOptions().kept == Kept(timedelta(days=7), None)


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("  retention: 3 fortnights", "no length of time", ""),
        ("  size: 1 MiB", "no size of a table", ""),
        ("  retntion: 3 days", "unknown key", "retention"),
    ],
)
def test_what_a_journal_cannot_be_told_is_refused_with_its_line(line: str, message: str, hint: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refused:
        parse_job(f"stream: s\nsource: {{format: parquet, path: /in}}\njournal:\n{line}\n")
    assert "line 4" in str(refused.value.where)
    assert hint in str(refused.value.hint)


def test_messages_are_deduplicated_on_request() -> None:
    text = "stream: s\nsource: {format: parquet, path: /in}\n"
    assert parse_job(text).job.dedup is None
    stated = parse_job(text + "dedup: {key: message_id, window: 3600}\n").job.dedup
    assert stated == DedupOptions(key="properties.message_id", window=3600, keep=False)
    several = parse_job(text + "dedup: {key: [exchange, footer.a.b], window: 1, keep: true}\n").job.dedup
    assert several is not None
    assert several.fields == (("exchange", ""), ("footer", "a.b"))
    assert DedupOptions.of_pin(several.in_pin) == several
    assert DedupOptions.of_pin({}) is None


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("  key: mesage_id", "no field of a message: did you mean 'message_id'", ""),
        ("  key: properties", "a whole section", ""),
        ("  key: cc", "no field of a message", ""),
        ("  key: header.prio", "no field of a message: did you mean 'header.priority'", ""),
        ("  key: [to, properties.to]", "named twice", ""),
        ("  key: []", "at least 1 item", ""),
        ("  window: 0", "greater than or equal to 1", ""),
        ("  window: 99999999", "less than or equal to 31622400", ""),
        ("  window: 1.5", "valid integer", ""),
        ("  windw: 3", "unknown key", "window"),
        ("  keep: sometimes", "valid boolean", ""),
    ],
)
def test_what_deduplication_cannot_be_told_is_refused_with_its_line(line: str, message: str, hint: str) -> None:
    own = line.strip().partition(":")[0]
    others = "".join(f"  {key}: {value}\n" for key, value in (("key", "to"), ("window", "1")) if key != own)
    with pytest.raises(InvalidInput, match=message) as refused:
        parse_job(f"stream: s\nsource: {{format: parquet, path: /in}}\ndedup:\n{line}\n{others}")
    assert "line 4" in str(refused.value.where)
    assert hint in str(refused.value.hint)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"source": {"format": "kafka", "bootstrap_servers": "b:1", "topics": None, "pattern": "a"}}, []),
        ({"trigger": "soon", "vhsot": "/"}, ["vhsot: unknown key", "trigger: 'soon' is neither"]),
        ({"maintenance": {"retnetion": "1 day"}}, ["maintenance.retnetion: "]),
        ({"maintenance": [1]}, ["maintenance: "]),
        (
            {"message": {"ruoting_key": "a", "body": {"x": "a"}, "header": {"prio": "a"}}},
            ["message.ruoting_key: unknown key", "message: body: one expression", "message.header.prio: unknown key"],
        ),
        ({"message": {"ruoting_key": "a", "body": []}}, ["message.body: ", "message.ruoting_key: unknown key"]),
        (
            {
                "source": {"format": "kafka", "bootstrap_servers": "b:1", "topics": "t", "exchanges": {"t": "x"}},
                "message": {"exchange": "'y'", "bdoy": "a"},
            },
            ["message: either source.exchanges or message.exchange", "message.bdoy: unknown key"],
        ),
        ({"source": {"format": "jsn"}, "stream": ""}, ["stream: ", "source.format: unknown or missing"]),
        ({"stream": "moved:a"}, []),
        *(
            ({"stream": f"{prefix}a"}, [f"stream: names that begin with {prefix!r} are those of moves, copies, red"])
            for prefix in ("move:", "copy:", "redrive:", "limits:")
        ),
    ],
)
def test_everything_that_is_wrong_is_found_what_is_raised_first(change: dict[str, Any], said: list[str]) -> None:
    source = {"format": "json", "path": "in"}
    document = {"stream": "s", "source": source, "message": {"routing_key": "a"}, **change}
    found = [str(error) for error in errors_of(document)]
    assert [text[: len(start)] for text, start in zip(found, said, strict=True)] == said, found
    if said:
        with pytest.raises(InvalidInput) as raised:
            job_of(document)
        assert str(raised.value) == found[0]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("headr: true", "option 'headr' is none of Spark's reader of csv: did you mean 'header'?"),
        ("primitivesAsString: true", "option 'primitivesAsString' is none of Spark's reader of csv"),
        ("quoteAll: true", "option 'quoteAll' is none of Spark's reader of csv"),
    ],
)
def test_an_option_that_no_reader_knows_is_refused(option: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_job(GOOD.replace("header: true", option))
    assert caught.value.message.startswith(f"source.options: {said}")
    assert caught.value.where == "job.yaml, line 6"


def test_options_are_known_whatever_their_case_and_those_of_hadoop_pass() -> None:
    job = parse_job(GOOD.replace("header: true", "HEADER: true, fs.s3a.path.style.access: true")).job
    assert job.source.options.keys() == {"HEADER", "fs.s3a.path.style.access"}


def test_a_source_that_brings_its_schema_is_told_none() -> None:
    with pytest.raises(InvalidInput, match="a parquet source brings its own schema; leave `schema` out"):
        parse_job("stream: s\nsource: {format: parquet, path: /in, schema: a INT}\n")


def test_a_file_that_is_not_there_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"^cannot read the job file: No such file or directory$") as found:
        load_job(tmp_path / "none.yaml")
    assert found.value.where == str(tmp_path / "none.yaml")
