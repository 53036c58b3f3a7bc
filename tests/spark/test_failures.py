"""What stops a stream that is neither a bad record nor a rival: one line, and the same batch again."""

from __future__ import annotations

import pytest

from bindery.jobs.route import StreamFailed
from bindery.router.errors import InvalidInput, Refused
from bindery.router.message import Message
from tests.spark.installation import Installation


def test_a_stopped_stream_goes_on_without_the_file_and_with_its_repair_under_a_new_name(
    installation: Installation,
) -> None:
    stop = "stream: s\nsource: {format: parquet, path: INBOX, unreadable_files: stop}\ntrigger: available-now\n"
    installation.queue("all")
    installation.publish([Message(exchange="amq.topic", routing_key="a")], file="a.parquet")
    installation.route()
    broken = installation.inbox / "b.parquet"
    broken.write_bytes(b"not parquet at all")
    for _ in range(2):
        with pytest.raises(Refused) as caught:
            installation.route(stop)
        assert "\n" not in caught.value.message
        assert caught.value.where == f"file:{broken}"

    broken.unlink()
    installation.publish([Message(exchange="amq.topic", routing_key="b")], file="b-repaired.parquet")
    installation.route()
    installation.route(stop)
    assert installation.counts() == {"all": 2}
    assert [row["source"]["file"] for row in installation.unroutable()] == [f"file:{broken}"]


def test_an_error_in_a_worker_is_told_by_its_last_line(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.queue("all")
    installation.publish([Message(exchange="amq.topic", routing_key="a")], file="a.parquet")
    job = installation.job()
    monkeypatch.setattr(job._plain, "fold", "no fold at all")
    with pytest.raises(StreamFailed, match="TypeError: 'str' object is not callable"):
        job.run()


@pytest.mark.parametrize("kind", ["json", "csv", "parquet", "delta"])
def test_a_source_that_does_not_exist_is_an_error_of_the_job_file(installation: Installation, kind: str) -> None:
    schema = "schema: id BIGINT, " if kind in ("json", "csv") else ""
    with pytest.raises(InvalidInput) as caught:
        installation.route(
            f"stream: s\nsource: {{format: {kind}, {schema}path: INBOX/none}}\ntrigger: available-now\n"
            "message: {exchange: \"'x'\"}\n"
        )
    assert caught.value.message.startswith("source")
    assert caught.value.where == "job.yaml, line 2"


def test_a_bad_schema_is_an_error_of_the_job_file(installation: Installation) -> None:
    with pytest.raises(InvalidInput) as caught:
        installation.route("stream: s\nsource:\n  format: csv\n  path: INBOX\n  schema: id WHAT\n")
    assert (caught.value.where, caught.value.message.startswith("source.schema")) == ("job.yaml, line 5", True)
