"""Compatibility modes on the command line: `apply`, `import --compat`, `lint --compat`, `explain`."""

from __future__ import annotations

import json
from pathlib import Path

from bindery.router.importers import KINDS
from bindery.router.importers.settling import Settled, settle
from bindery.router.model import Topology, Vhost
from tests.unit.cli.conftest import Run

DOCUMENT = {
    "vhosts": [{"name": "/"}, {"name": "v", "description": "kept", "tags": ["t"]}],
    "exchanges": [{"vhost": "v", "name": "x", "type": "headers", "durable": True, "arguments": {}}],
    "queues": [
        {"vhost": "v", "name": "q", "durable": True, "arguments": {}},
        {"vhost": "w", "name": "q", "durable": True, "arguments": {}},
    ],
    "bindings": [{"vhost": "v", "source": "x", "destination": "q", "destination_type": "queue", "arguments": {"h": 5}}],
}


def carried(mode: str | None, *, vhost: str | None = None) -> Settled:
    base = Topology.of([Vhost("/"), Vhost("w", description="there")])
    objects = KINDS["rabbitmq"].read("defs.json", json.dumps(DOCUMENT).encode())
    return settle(objects, base, vhost=vhost, compat=mode)


def test_an_import_states_the_mode_of_every_vhost_that_anything_goes_to() -> None:
    vhosts = carried("rabbitmq-3").topology.vhosts
    assert vhosts["v"] == Vhost("v", "kept", ("t",), compat="rabbitmq-3")
    assert vhosts["w"] == Vhost("w", "there", compat="rabbitmq-3")
    assert {name: one.compat for name, one in carried(None).topology.vhosts.items()} == dict.fromkeys("/vw")


def test_an_import_into_one_vhost_states_its_mode() -> None:
    vhosts = carried("rabbitmq-4", vhost="w").topology.vhosts
    assert {name: one.compat for name, one in vhosts.items()} == {"/": None, "w": "rabbitmq-4"}


def test_a_filter_that_the_mode_does_not_have_is_left_out_of_an_import(tmp_path: Path) -> None:
    (tmp_path / "broker.xml").write_text(
        "<configuration><core><addresses><address name='a'><multicast>"
        "<queue name='good'><filter string='NOT (b &gt; 1)'/></queue>"
        "<queue name='bad'><filter string='NOT b &gt; 1'/></queue>"
        "</multicast></address></addresses></core></configuration>"
    )
    objects = KINDS["artemis"].read("broker.xml", (tmp_path / "broker.xml").read_bytes())
    settled = settle(objects, Topology.empty(), compat="artemis-2")
    assert {name for _, name in settled.topology.queues} == {"good"}


def test_the_option_goes_with_a_broker_and_its_own_modes(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "defs.json"
    source.write_text(json.dumps({"queues": [{"name": "q"}]}))
    for options, said in (
        (("--from", "rabbitmq", "--compat", "artemis-2"), "no mode of RabbitMQ"),
        (("--from", "rabbitmq", "--compat", "rabbitmq-33"), "did you mean 'rabbitmq-3'"),
        (("--from", "sns", "--compat", "rabbitmq-3"), "no mode of Amazon SNS"),
        (("--compat", "rabbitmq-3"), "goes with --from"),
    ):
        code, _, err = run("import", source, *options, "--data", tmp_path / "data")
        assert code == 2
        assert said in err


def test_a_document_states_a_mode_explain_names_it_and_lint_asks_about_it(run: Run, tmp_path: Path) -> None:
    data, document, message = tmp_path / "data", tmp_path / "d.json", tmp_path / "m.json"
    document.write_text(
        json.dumps(
            {
                "vhosts": [{"name": "/", "compat": "rabbitmq-3"}],
                "queues": [{"name": "q"}],
                "bindings": [{"source": "amq.headers", "destination": "q", "arguments": {"h": 5}}],
            }
        )
    )
    message.write_text(json.dumps({"exchange": "amq.headers", "application_properties": {"h": 5.0}}))
    assert run("apply", document, "--data", data)[0] == 0
    _, out, _ = run("explain", "--message", message, "--data", data, "--json")
    (visit,) = json.loads(out)["visits"]
    assert visit["compat"] == "rabbitmq-3"
    assert visit["steps"][0]["switches"] == ["headers-numbers"]
    _, out, _ = run("lint", "--data", data, "--compat", "rabbitmq-3", "--select", "BT19", "--json")
    assert [one["code"] for one in json.loads(out)["findings"]] == ["BT190"]
    code, _, err = run("lint", "--data", data, "--compat", "rabbitmq")
    assert code == 2
    assert "--compat" in err


def test_a_mode_that_is_none_refuses_a_document(run: Run, tmp_path: Path) -> None:
    document = tmp_path / "d.json"
    document.write_text(json.dumps({"vhosts": [{"name": "/", "compat": "rabbitmq3"}]}))
    code, _, err = run("apply", document, "--data", tmp_path / "data")
    assert code == 2
    assert "did you mean 'rabbitmq-3'" in err
