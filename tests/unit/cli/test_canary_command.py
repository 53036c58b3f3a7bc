"""`bindery canary`: begun, looked at, changed, promoted, rolled back; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bindery.router.message import Message
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.cli.conftest import Run
from tests.unit.store.routed import route

CHANGE = """
delete: {bindings: [{source: orders, destination: eu, routing_key: "eu.#"}]}
definitions:
  queues: [{name: new}]
  bindings: [{source: orders, destination: new, routing_key: "eu.#"}]
"""


@pytest.fixture
def data(run: Run, tmp_path: Path) -> str:
    (tmp_path / "change.yaml").write_text(CHANGE)
    (tmp_path / "topology.yaml").write_text(
        "exchanges: [{name: orders, type: topic}]\nqueues: [{name: eu}]\n"
        'bindings: [{source: orders, destination: eu, routing_key: "eu.#"}]\n'
    )
    data = str(tmp_path / "data")
    assert run("apply", tmp_path / "topology.yaml", "--data", data)[0] == 0
    return data


def test_a_canary_from_its_beginning_to_its_promotion(run: Run, data: str, tmp_path: Path) -> None:
    start = ("canary", "start", tmp_path / "change.yaml", "--share", 1, "--data", data)
    code, out, _ = run(*start)
    assert (code, out) == (0, "canary in vhost /: version 3 for all messages, running\ntopology version 4\n")
    assert run(*start)[1].endswith("runs already\ntopology version 4, nothing was changed\n")
    directory = DataDir.open(data)
    route(directory, TopologyStore(directory), [Message("orders", "eu.x"), Message("orders", "us.x")])
    out = run("canary", "status", "--data", data)[1]
    assert "2 messages compared: 1 equal, 1 differing\n" in out
    assert "unroutable, no_binding: 1 by the present, 1 by the candidate\n" in out
    assert "new: gained flights:0:0: binding 2 from 'orders' [eu.#]" in out
    found = json.loads(run("canary", "status", "--data", data, "--json")[1])
    queues = {one["queue"]: one for one in found["comparison"]["queues"]}
    assert (queues["new"]["gained"], queues["eu"]["lost"]) == (1, 1)
    assert run("status", "--data", data)[2].startswith("canary in vhost /: 2 messages compared, 1 differing\n")
    out = run("canary", "set", "--share", 0.25, "--compare-only", "--data", data)[1]
    assert out.startswith("canary in vhost /: version 3 for 0.25 of the messages, compared only, running\n")
    code, _, err = run("canary", "promote", "--version", 1, "--data", data)
    assert code == 2 and "version 3, not 1" in err
    assert run("canary", "promote", "--version", 3, "--data", data)[1].splitlines()[0].endswith("promoted")
    code, out, _ = run("canary", "promote", "--data", data)
    assert code == 0 and "was promoted before" in out
    assert run("canary", "rollback", "--data", data)[0] == 2


def test_rolled_back_it_names_the_queues_that_stay(run: Run, data: str, tmp_path: Path) -> None:
    by_set = '{"f": {"descriptor": "amqp:properties-filter", "value": {"subject": "a"}}}'
    out = run("canary", "start", tmp_path / "change.yaml", "--filter", by_set, "--data", data)[1]
    assert "for all messages with {" in out
    out = run("canary", "rollback", "--data", data)[1]
    assert "queues that were declared for it stay: new\n" in out
    assert "was rolled back before" in run("canary", "rollback", "--data", data)[1]
    assert run("canary", "start", "--version", 2, "--share", 1, "--data", data)[0] == 2  # nothing to compare


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("start", "--share", 1), "give documents, or --version"),
        (("start", "change.yaml", "--version", 1, "--share", 1), "give documents, or --version"),
        (("start", "change.yaml"), "which messages"),
        (("start", "change.yaml", "--share", 2), "above 0 and up to 1"),
        (("start", "change.yaml", "--filter", "{"), "is no JSON"),
        (("set",), "nothing to try"),
        (("set", "--share", 0.5), "no canary runs"),
        (("status",), "no canary was begun"),
        (("promote",), "no canary was begun"),
        (("rollback", "--vhost", "nope"), "no vhost 'nope'"),
    ],
)
def test_what_is_wrong_is_said(
    run: Run, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run("canary", *arguments, "--data", data)
    assert code == 2 and said in err
