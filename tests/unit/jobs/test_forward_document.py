"""What a forwarder's document says, and what one from the network may ask for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from bindery.jobs.control.forward import check_options, forward_of, submitted
from bindery.jobs.control.launch import Launcher
from bindery.jobs.control.references import references, resolved
from bindery.router.errors import InvalidInput
from bindery.store.jobs import JobFolder, JobRecord
from bindery.store.paths import DataDir

ROOTS = ("kafka://a:9092", "kafka://b:9092", "/srv")


def document(**target: Any) -> dict[str, Any]:
    stated = {"queue": "q", "to": "kafka", "bootstrap_servers": "a:9092", "topic": "t", **target}
    return {"stream": "s", "vhost": "/", "forward": stated}


def test_what_is_not_said_has_a_default() -> None:
    wanted = submitted(document(), ROOTS)
    target = wanted.forward
    assert (wanted.poll, target.key, target.begin, target.skip_refused) == (1.0, "routing_key", "earliest", False)
    assert forward_of({**document(), "trigger": "5 minutes"}).poll == 300
    assert forward_of({**document(), "trigger": "available-now"}).poll is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"queue": ""}, "forward.queue: "),
        ({"to": "pulsar"}, "forward.to: "),
        ({"from": "yesterday"}, "forward.from: "),
        ({"colour": "red"}, "forward.colour: unknown key"),
        ({"key": "colour"}, "forward.key: 'colour' is no header"),
        ({"bootstrap_servers": "a:9092,c:9092"}, "forward.bootstrap_servers: c:9092 is not among the brokers"),
        ({"options": {"sasl.password": "x"}}, "forward.options.sasl.password: a credential in clear"),
        ({"options": {"client.id": {"secret": "X"}}}, "forward.options.client.id: takes no secret"),
        ({"options": {"ssl.ca.location": "/etc/shadow"}}, "forward.options.ssl.ca.location: not a setting"),
        ({"options": {"plugin.library.paths": "x.so"}}, "forward.options.plugin.library.paths: not a setting"),
        ({"options": {"acks": 1}}, "forward.options.acks: is set by the forwarder"),
        ({"options": {"linger.ms": [1]}}, "forward.options.linger.ms: a text, a number"),
        ({"options": {"sasl.password": {"secret": "lower"}}}, "forward.options.sasl.password: no name of a secret"),
    ],
)
def test_what_is_wrong_is_named_by_its_key(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        wanted = document(**change)
        submitted(wanted, ROOTS)
        references(wanted)
    assert refused.value.message.startswith(reason)


def test_the_rest_of_the_document_is_checked_too() -> None:
    for change in ({"trigger": "often"}, {"stream": "x" * 300}, {"source": {}}, {"vhost": ""}):
        with pytest.raises(InvalidInput, match=next(iter(change))):
            submitted({**document(), **change}, ROOTS)
    with pytest.raises(InvalidInput, match="forward"):
        submitted({"stream": "s", "forward": None}, ROOTS)


def test_secrets_are_looked_up_by_the_process_that_sends(tmp_path: Path) -> None:
    (tmp_path / "KEY").write_text("hunter2\n")
    wanted = document(options={"sasl.password": {"secret": "KEY"}, "linger.ms": 5})
    assert references(wanted) == ["KEY"]
    assert submitted(wanted, ROOTS).forward.options == {"sasl.password": "secret", "linger.ms": "5"}
    plain, found = resolved(wanted, folder=tmp_path)
    assert (forward_of(plain).forward.options["sasl.password"], found) == ("hunter2", ["hunter2"])
    with pytest.raises(InvalidInput, match=r"forward\.options\.sasl\.password: there is no secret KEY"):
        resolved(wanted)


def test_settings_of_the_command_line_may_name_files() -> None:
    check_options({"ssl.ca.location": "/etc/ssl/ca.pem", "socket.keepalive.enable": True})
    with pytest.raises(InvalidInput, match="is set by the forwarder"):
        check_options({"bootstrap.servers": "x"})


def test_a_forwarder_runs_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "nowhere"))
    launcher = Launcher(DataDir.open(tmp_path / "data", create=True), ROOTS, secrets=tmp_path)
    record = JobRecord("s", document(), "me", 0.0)
    command = launcher.command(JobFolder(tmp_path), record, "r1", new_epoch=True)
    assert command[0] == sys.executable
    assert command[2].endswith("managed.py")
    assert [*command[-3:]] == ["--secrets", str(tmp_path), "--new-epoch"]
    assert command.count("--root") == 3
