"""`bindery import`, `queues` and what `route` refuses before it starts Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bindery.jobs.control.bridge import check_bridge
from bindery.jobs.control.config import load_job
from bindery.router.definitions.document import FORMAT_KEY, SINGLE_VHOST
from bindery.router.errors import Refused
from bindery.router.model import Binding
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore

SAMPLES = Path(__file__).parents[3] / "configs" / "samples"
DEFINITIONS = SAMPLES / "definitions-orders.json"


def test_a_document_that_names_no_vhost_is_meant_for_the_default_one(run, tmp_path: Path) -> None:
    plain = tmp_path / "plain.yaml"
    plain.write_text("queues: [{name: q}]\nbindings: [{source: amq.topic, destination: q, routing_key: '#'}]\n")
    code, out, _ = run("import", plain, "--data", tmp_path / "data", "--json")
    assert (code, json.loads(out)["created"]) == (0, {"queue": 1, "binding": 1})
    assert TopologyStore(DataDir.open(tmp_path / "data")).load().queues.keys() == {("/", "q")}

    mixed = tmp_path / "mixed.yaml"
    mixed.write_text("queues: [{name: q}, {name: r, vhost: /}]\n")
    code, _, err = run("import", mixed, "--data", tmp_path / "data")
    assert (code, "mixed.yaml:1:" in err, "vhost is missing" in err) == (2, True, True)

    exported = tmp_path / "exported.json"
    exported.write_text(json.dumps({FORMAT_KEY: SINGLE_VHOST, "queues": [{"name": "q"}]}))
    code, _, err = run("import", exported, "--data", tmp_path / "data")
    assert (code, "single vhost" in err) == (2, True)
    code, _, _ = run("import", plain, "--vhost", "/", "--data", tmp_path / "data")
    assert code == 0


def test_an_import_declares_everything_and_again_changes_nothing(run, tmp_path: Path) -> None:
    code, out, _ = run("import", DEFINITIONS, "--data", tmp_path / "data", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["created"] == {"exchange": 3, "queue": 4, "binding": 4, "divert": 1}
    _, out, _ = run("import", DEFINITIONS, "--data", tmp_path / "data", "--json")
    again = json.loads(out)
    assert (again["created"], again["version"]) == ({}, report["version"])


def test_queues_lists_what_is_declared_with_its_folder(run, tmp_path: Path) -> None:
    run("import", DEFINITIONS, "--data", tmp_path / "data")
    code, out, _ = run("queues", "--data", tmp_path / "data", "--json")
    assert code == 0
    listed = {queue["name"]: queue for queue in json.loads(out)}
    assert list(listed) == ["archive.paid", "orders.eu", "orders.large", "orders.stray"]
    assert {queue["messages"] for queue in listed.values()} == {0}
    assert listed["orders.eu"]["path"] == str(tmp_path / "data" / "queues" / "~2F" / "orders~2Eeu")
    assert "orders.eu" in run("queues", "--data", tmp_path / "data")[1]


def test_a_malformed_selector_is_refused_with_its_place_and_nothing_changes(run, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(DEFINITIONS.read_text().replace("state IN ('new', 'paid')", "state IN ('new' 'paid')"))
    code, _, err = run("import", broken, "--data", tmp_path / "data")
    assert code == 2
    assert re.search(r"broken\.json:\d+:\d+: expected .*'paid'|broken\.json:\d+:\d+: unexpected", err)
    assert TopologyStore(DataDir.open(tmp_path / "data")).create().in_vhost("/")[1] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read"),
        ("{", "definitions.json:1:2: not JSON"),
        ('{"queues": [{"vhost": "nope", "name": "q"}]}', "nope"),
    ],
)
def test_a_bad_definitions_file_exits_with_2(run, tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "definitions.json"
    if text is not None:
        file.write_text(text)
    code, _, err = run("import", file, "--data", tmp_path / "data")
    assert code == 2
    assert said in err


def test_a_bad_job_file_exits_with_2_and_writes_nothing(run, tmp_path: Path) -> None:
    run("import", DEFINITIONS, "--data", tmp_path / "data")
    before = sorted(tmp_path.rglob("*"))
    job = tmp_path / "job.yaml"
    job.write_text((SAMPLES / "job-orders.yaml").read_text().replace("routing_key", "routingkey"))
    code, _, err = run("route", "--config", job, "--data", tmp_path / "data")
    assert code == 2
    assert "message.routingkey" in err
    assert "line 10" in err
    assert "did you mean 'routing_key'" in err
    assert sorted(tmp_path.rglob("*")) == sorted([*before, job])


def test_a_vhost_that_does_not_exist_is_refused_before_spark_starts(run, tmp_path: Path) -> None:
    run("import", DEFINITIONS, "--data", tmp_path / "data")
    job = tmp_path / "job.yaml"
    job.write_text((SAMPLES / "job-orders.yaml").read_text() + "vhost: nope\n")
    code, _, err = run("route", "--config", job, "--data", tmp_path / "data")
    assert (code, "no vhost 'nope'" in err) == (2, True)


def test_a_data_directory_without_a_topology_is_named(run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for command in (["queues"], ["route", "--config", SAMPLES / "job-orders.yaml"]):
        code, _, err = run(*command, "--data", tmp_path / "empty")
        assert code != 0
        assert str(tmp_path / "empty") in err
    code, _, err = run("queues", "--data", tmp_path / "none")
    assert (code, "does not exist" in err) == (2, True)


def test_the_sample_bridge_fits_its_topology_and_a_loop_is_refused(run, tmp_path: Path) -> None:
    run("import", DEFINITIONS, "--data", tmp_path / "data")
    store = TopologyStore(DataDir.open(tmp_path / "data"))
    bridge = load_job(SAMPLES / "job-bridge.yaml")
    check_bridge(bridge, store.load())
    store.edit(lambda editor: editor.bind(Binding(0, "/", "archive", "orders", "exchange")), author="test")
    with pytest.raises(Refused):
        check_bridge(bridge, store.load())


@pytest.mark.parametrize("command", ["import", "route", "queues"])
def test_help_has_an_example(run, command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"Example: bindery {command}" in " ".join(out.split())


def test_an_import_counts_what_has_no_effect(run, tmp_path: Path) -> None:
    queues = [{"vhost": "/", "name": name, "arguments": {"x-max-priority": 1}} for name in "ab"]
    policy = {"vhost": "/", "name": "p", "pattern": "", "definition": {"delivery-limit": 1}}
    file = tmp_path / "ttl.json"
    file.write_text(json.dumps({"queues": queues, "policies": [policy]}))
    code, out, _ = run("import", file, "--data", tmp_path / "data")
    assert code == 0
    assert "no effect: delivery-limit (1 policy)\nno effect: x-max-priority (2 queues)\n" in out
