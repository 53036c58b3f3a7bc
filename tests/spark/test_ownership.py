"""One driver and one checkpoint per stream: anything else stops with exit 3."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bindery.cli import main as cli
from bindery.jobs.report import BatchReport
from bindery.jobs.route import StreamFailed
from bindery.router.errors import CheckpointMismatch, Fenced
from bindery.router.message import Message
from bindery.store.commit import BatchCommitter
from bindery.store.streams import EPOCH_BATCHES, epochs
from tests.spark.installation import Installation

TEXT = "stream: s\nsource: {format: parquet, path: INBOX, options: {maxFilesPerTrigger: 1}}\ntrigger: available-now\n"


def publish(installation: Installation, *names: str) -> None:
    for name in names:
        installation.publish([Message(exchange="amq.topic", routing_key=name)], file=f"{name}.parquet")


@pytest.fixture
def claim(installation: Installation) -> Iterator[Callable[[], None]]:
    """Take the stream over, as another driver does."""
    with ExitStack() as rivals:

        def claim() -> None:
            (epoch,) = epochs(installation.data)
            rivals.enter_context(BatchCommitter(installation.data, stream="s", app_id=epoch.app_id))

        yield claim


def test_a_driver_is_fenced_when_another_one_takes_the_stream(
    installation: Installation, claim: Callable[[], None], capfd: pytest.CaptureFixture[str]
) -> None:
    installation.queue("all")
    publish(installation, "a", "b")

    with pytest.raises(Fenced) as caught:
        installation.job(TEXT, report=lambda _report: claim()).run()

    assert caught.value.exit_code == 3
    assert "Traceback" not in capfd.readouterr().err
    assert installation.counts() == {"all": 1}
    installation.route(TEXT)
    assert installation.counts() == {"all": 2}


def test_a_driver_that_spark_stops_first_is_fenced_too(installation: Installation, claim: Callable[[], None]) -> None:
    """The other driver has written the next batch's offsets: Spark finds them before Bindery looks at its claim."""
    installation.queue("all")
    publish(installation, "a", "b")

    def rival(_report: BatchReport) -> None:
        claim()
        offsets = installation.checkpoint / "offsets"
        shutil.copy(offsets / "0", offsets / "1")

    with pytest.raises(Fenced):
        installation.job(TEXT, report=rival).run()
    assert installation.counts() == {"all": 1}


def test_a_driver_goes_on_where_one_that_was_overtaken_wrote_to_its_checkpoint(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    """What lost the stream may still record the batch that it was about: Spark's own log of it is there already."""
    installation.queue("all")
    publish(installation, "a", "b", "c")
    late = {0, 1}

    def overtaken(report: BatchReport) -> None:
        if report.batch_id in late:
            late.remove(report.batch_id)
            commits = installation.checkpoint / "commits"
            commits.mkdir(exist_ok=True)
            (commits / str(report.batch_id)).write_text('v1\n{"nextBatchWatermarkMs":0}')

    installation.job(TEXT, report=overtaken).run()

    assert not late
    assert installation.counts() == {"all": 3}
    assert [row["batch_id"] for row in installation.manifest()] == [0, 1, 2]
    assert caplog.text.count("no longer holds the stream") == 2
    assert installation.route(TEXT) == []


def test_a_driver_that_another_one_keeps_writing_beside_ends(installation: Installation) -> None:
    """Offsets of a batch that cannot be read are no record to go on from."""
    installation.queue("all")
    publish(installation, "a", "b")
    begun = []

    def beside(report: BatchReport) -> None:
        begun.append(report.batch_id)
        folder = installation.checkpoint / "offsets"
        (folder / f"{report.batch_id + 1}").write_text("v1\n")

    with pytest.raises(StreamFailed):
        installation.job(TEXT, report=beside).run()
    assert installation.counts() == {"all": 1}


def test_a_lost_checkpoint_is_refused_until_a_new_epoch_is_asked_for(installation: Installation) -> None:
    installation.queue("all")
    publish(installation, "a")
    installation.route()
    shutil.rmtree(installation.checkpoint)

    with pytest.raises(CheckpointMismatch):
        installation.route()
    assert not installation.checkpoint.exists()
    assert installation.counts() == {"all": 1}

    installation.route(new_epoch=True)
    assert installation.counts() == {"all": 2}
    assert [epoch.epoch for epoch in epochs(installation.data)] == [1, 2]


def test_a_new_epoch_gives_no_message_a_number_that_another_one_has(installation: Installation) -> None:
    installation.queue("all")
    publish(installation, "a")
    installation.route()
    shutil.rmtree(installation.checkpoint)
    (report,) = installation.route(new_epoch=True)
    installation.forget_last_batch()
    (again,) = installation.route()

    routing = [row["routing"] for row in installation.rows("all")]
    assert sorted((row["batch_id"], row["seq"]) for row in routing) == [(0, 0), (EPOCH_BATCHES, 0)]
    assert (report.batch_id, again.batch_id, again.replayed) == (EPOCH_BATCHES, EPOCH_BATCHES, True)
    assert [row["batch_id"] for row in installation.manifest()] == [0, EPOCH_BATCHES]


def test_a_restored_older_checkpoint_of_another_stream_is_refused(installation: Installation) -> None:
    installation.queue("all")
    publish(installation, "a")
    installation.route()
    other = Path(installation.data.checkpoint("t"))
    installation.route(TEXT.replace("stream: s", "stream: t"))
    shutil.rmtree(installation.checkpoint)
    shutil.copytree(other, installation.checkpoint)

    with pytest.raises(CheckpointMismatch):
        installation.route()


def test_a_checkpoint_without_its_id_is_refused(installation: Installation) -> None:
    installation.queue("all")
    publish(installation, "a")
    installation.route()
    (installation.checkpoint / "metadata").unlink()

    with pytest.raises(CheckpointMismatch, match="no id"):
        installation.route()


def test_the_command_exits_with_3_for_a_lost_checkpoint_and_0_with_a_new_epoch(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installation.queue("all")
    publish(installation, "a")
    job = installation.root / "job.yaml"
    job.write_text(TEXT.replace("INBOX", str(installation.inbox)))
    arguments = ["route", "--config", str(job), "--data", installation.data.root, "--available-now"]
    assert CliRunner().invoke(cli.app, arguments).exit_code == 0
    shutil.rmtree(installation.checkpoint)

    monkeypatch.setattr("sys.argv", ["bindery", *arguments])
    with pytest.raises(SystemExit) as left:
        cli.main()

    assert left.value.code == 3
    said = capsys.readouterr().err
    assert said.startswith("error:")
    assert "--new-epoch" in said
    assert "Traceback" not in said
    assert CliRunner().invoke(cli.app, [*arguments, "--new-epoch"]).exit_code == 0
    assert installation.counts() == {"all": 2}
