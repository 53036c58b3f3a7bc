"""What a batch is pinned to can be honoured: it is checked before, and there is a way out when it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bindery.router.errors import NotFound, Refused, UnusablePin
from bindery.router.message import Message
from bindery.router.model import Binding, Exchange, Vhost
from bindery.store import faults
from bindery.store.commit import BatchCommitter
from bindery.store.streams import epochs
from tests.spark.installation import Installation
from tests.unit.store.conftest import Crash, at, crash

BRIDGE = """
stream: s
source: {format: queue, queue: all}
message: {exchange: "'archive'"}
trigger: available-now
"""


def publish(installation: Installation, *names: str) -> None:
    for name in names:
        installation.publish([Message(exchange="amq.topic", routing_key=name)], file=f"{name}.parquet")


def pins(installation: Installation) -> list[str]:
    (epoch,) = epochs(installation.data)
    return sorted(path.name for path in Path(installation.data.pins(epoch.app_id)).glob("*"))


def test_a_vhost_that_is_deleted_and_created_again_leaves_no_pin_behind(installation: Installation) -> None:
    text = "stream: s\nvhost: v\nsource: {format: parquet, path: INBOX}\ntrigger: available-now\n"
    installation.edit(lambda editor: editor.declare_vhost(Vhost("v")))
    publish(installation, "a")
    job = installation.job(text)
    installation.edit(lambda editor: editor.delete_vhost("v"))
    with pytest.raises(NotFound, match="no vhost 'v'"):
        job.run()
    assert pins(installation) == []

    installation.edit(lambda editor: editor.declare_vhost(Vhost("v")))
    (report,) = installation.route(text)
    assert (report.records, report.unroutable) == (1, 1)


def test_a_bridge_loop_of_a_moment_leaves_no_pin_behind(installation: Installation) -> None:
    installation.edit(lambda editor: editor.declare_exchange(Exchange("/", "archive", "fanout")))
    installation.queue("all")
    publish(installation, "a")
    installation.route("stream: feed\nsource: {format: parquet, path: INBOX}\ntrigger: available-now\n")
    loop = Binding(0, "/", "archive", "all")
    job = installation.job(BRIDGE)
    installation.edit(lambda editor: editor.bind(loop))
    with pytest.raises(Refused, match="leads to it"):
        job.run()

    installation.edit(lambda editor: editor.unbind(loop))
    (report,) = installation.route(BRIDGE)
    assert report.records == 1


def test_a_pin_that_cannot_be_honoured_says_so_and_is_given_up_when_told(installation: Installation) -> None:
    installation.queue("all")
    publish(installation, "a")
    installation.route()
    publish(installation, "b")
    (epoch,) = epochs(installation.data)
    with BatchCommitter(installation.data, stream="s", app_id=epoch.app_id) as committer:
        committer.pin(1, 999, 0)

    with pytest.raises(UnusablePin, match=r"batch 1 of stream 's'.*version 999") as caught:
        installation.route()
    assert str(caught.value.where).endswith("/1.json")
    assert "--repin" in str(caught.value.hint)

    (report,) = installation.route(repin=True)
    assert (report.batch_id, report.records, report.topology_version) == (1, 1, installation.topology.load().version)
    assert installation.counts() == {"all": 2}


def test_a_batch_that_a_table_has_recorded_is_not_pinned_anew(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        installation.queue(name)
    publish(installation, "a")
    job = installation.job()
    monkeypatch.setattr(BatchCommitter.__init__, "__kwdefaults__", {"workers": 1, "claim": True})  # in order of name
    dies = faults.installed(at("batch.appending", crash, where=installation.data.queue("/", "two")))
    with dies, pytest.raises(Crash):
        job.run()
    monkeypatch.undo()
    (epoch,) = epochs(installation.data)
    Path(installation.data.pins(epoch.app_id), "0.json").write_text("{")

    with pytest.raises(Refused, match=r"cannot be pinned again: it was committed to \S*queues/~2F/one, and"):
        installation.route(repin=True)
    assert pins(installation) == ["0.json"]
