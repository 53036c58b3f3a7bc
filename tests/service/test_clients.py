"""Both of RabbitMQ's own command line clients, driven end to end against a real server.

v1 is the Python script (in Debian's rabbitmq-server package), v2 the Rust program. Each is looked up in an
environment variable and on the PATH, and its tests are skipped where it is missing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import PASSWORD, USER, Server
from tests.service.http import Client, segment

pytestmark = pytest.mark.service

#: Names that break clients and servers that encode or decode once too often.
NAMES = ["plain", "with blank", "a/b", "100%", "50%2F", "a+b", "~", "q?x=1#y", "čšž ✓", "日本", "it's", "a.b*c#"]

Run = Callable[..., subprocess.CompletedProcess[str]]


def _v1() -> list[str] | None:
    found = os.environ.get("BINDERY_RABBITMQADMIN_V1") or shutil.which("rabbitmqadmin")
    if found is None or b"python" not in Path(found).read_bytes()[:200]:
        return None
    return [sys.executable, found]


def _v2() -> list[str] | None:
    for candidate in (os.environ.get("BINDERY_RABBITMQADMIN_V2"), shutil.which("rabbitmqadmin")):
        if candidate is not None and Path(candidate).read_bytes()[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe"):
            return [candidate]
    return None


def _run(command: list[str], *, stdin: str | None = None, fails: bool = False) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RABBITMQADMIN")}
    done = subprocess.run(
        command, input=stdin or "", capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    shown = f"{command[1:]} gave {done.returncode}: {done.stdout}{done.stderr}"
    assert (done.returncode != 0) == fails, shown
    return done


@pytest.fixture
def vhost(client: Client, request: pytest.FixtureRequest) -> str:
    """An empty vhost of the test's own, with a slash, a percent sign and more than ASCII in its name.

    But no blank: v1 sends a blank in a vhost as "+", which no broker understands.
    """
    name = f"{request.node.name[:40]}/50%✓".replace(" ", "-")
    client.delete(f"/vhosts/{segment(name)}")
    assert client.put(f"/vhosts/{segment(name)}").status == 201
    return name


# -- v1: the Python script ----------------------------------------------------------------------------


@pytest.fixture
def v1(server: Server) -> Run:
    command = _v1()
    if command is None:
        pytest.skip("no rabbitmqadmin v1; name the script in BINDERY_RABBITMQADMIN_V1")

    def run(*arguments: str, vhost: str = "/", **options: Any) -> subprocess.CompletedProcess[str]:
        base = [*command, "-P", str(server.port), "-u", USER, "-p", PASSWORD, "-V", vhost]
        return _run([*base, *arguments], **options)

    return run


def _rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


JSON = ("-f", "raw_json")


def test_v1_declares_lists_and_deletes_every_kind(v1: Run, vhost: str) -> None:
    v1("declare", "exchange", "name=x", "type=topic", vhost=vhost)
    v1("declare", "exchange", "name=y", "type=headers", "durable=false", "auto_delete=true", vhost=vhost)
    v1("declare", "queue", "name=q", 'arguments={"x-max-length": 5}', vhost=vhost)
    v1("declare", "binding", "source=x", "destination=q", "routing_key=a.#", vhost=vhost)
    v1("declare", "binding", "source=x", "destination=y", "destination_type=exchange", vhost=vhost)
    v1("declare", "policy", "name=p", "pattern=^x", 'definition={"alternate-exchange":"y"}', "priority=3", vhost=vhost)
    v1("declare", "operator_policy", "name=o", "pattern=^q", 'definition={"expires":1000}', vhost=vhost)
    v1("declare", "parameter", "component=c", "name=n", 'value={"a":1}', vhost=vhost)
    v1("declare", "user", "name=ann", "password=secret", "tags=management")
    v1("declare", "permission", f"vhost={vhost}", "user=ann", "configure=^a", "write=.*", "read=")
    v1("declare", "vhost_limit", f"vhost={vhost}", "name=max-queues", "value=10")

    exchanges = _rows(v1(*JSON, "list", "exchanges", "name", "type", "durable", vhost=vhost))
    assert {"name": "x", "type": "topic", "durable": True} in exchanges
    assert {"name": "y", "type": "headers", "durable": False} in exchanges
    assert _rows(v1(*JSON, "list", "queues", "name", "arguments", vhost=vhost)) == [
        {"name": "q", "arguments": {"x-max-length": 5}}
    ]
    bindings = _rows(v1(*JSON, "list", "bindings", "source", "destination", "routing_key", vhost=vhost))
    assert {"source": "x", "destination": "q", "routing_key": "a.#"} in bindings
    policies = [row for row in _rows(v1(*JSON, "list", "policies")) if row["vhost"] == vhost]
    assert policies == [
        {
            "vhost": vhost,
            "name": "p",
            "pattern": "^x",
            "apply-to": "all",
            "definition": {"alternate-exchange": "y"},
            "priority": 3,
        }
    ]
    assert {"vhost": vhost, "value": {"max-queues": 10}} in _rows(v1(*JSON, "list", "vhost_limits"))
    granted = {"user": "ann", "vhost": vhost, "configure": "^a", "write": ".*", "read": ""}
    assert granted in _rows(v1(*JSON, "list", "permissions"))

    v1("delete", "vhost_limit", f"vhost={vhost}", "name=max-queues")
    v1("delete", "permission", f"vhost={vhost}", "user=ann")
    v1("delete", "user", "name=ann")
    v1("delete", "parameter", "component=c", "name=n", vhost=vhost)
    v1("delete", "operator_policy", "name=o", vhost=vhost)
    v1("delete", "policy", "name=p", vhost=vhost)
    v1("delete", "binding", "source=x", "destination_type=queue", "destination=q", "properties_key=a.%23", vhost=vhost)
    v1("delete", "binding", "source=x", "destination_type=exchange", "destination=y", vhost=vhost)
    v1("delete", "queue", "name=q", vhost=vhost)
    v1("delete", "exchange", "name=x", vhost=vhost)
    v1("delete", "vhost", f"name={vhost}")


@pytest.mark.parametrize("name", NAMES)
def test_v1_handles_every_name(v1: Run, vhost: str, name: str) -> None:
    v1("declare", "exchange", f"name={name}", "type=direct", vhost=vhost)
    v1("declare", "queue", f"name={name}", vhost=vhost)
    v1("declare", "binding", f"source={name}", f"destination={name}", f"routing_key={name}", vhost=vhost)
    v1("publish", f"exchange={name}", f"routing_key={name}", "payload=über", vhost=vhost)
    got = _rows(v1(*JSON, "get", f"queue={name}", "ackmode=ack_requeue_false", vhost=vhost))
    assert [(row["exchange"], row["routing_key"], row["payload"]) for row in got] == [(name, name, "über")]
    assert name in [row["name"] for row in _rows(v1(*JSON, "list", "queues", "name", vhost=vhost))]
    v1("delete", "queue", f"name={name}", vhost=vhost)
    v1("delete", "exchange", f"name={name}", vhost=vhost)


def test_v1_binds_with_arguments_and_publishes_from_standard_input(v1: Run, vhost: str) -> None:
    v1("declare", "exchange", "name=h", "type=headers", vhost=vhost)
    v1("declare", "queue", "name=q", vhost=vhost)
    v1("declare", "binding", "source=h", "destination=q", 'arguments={"x-match":"all","n":5}', vhost=vhost)
    v1("publish", "exchange=h", "routing_key=", 'properties={"headers":{"n":5}}', stdin="from stdin", vhost=vhost)
    missed = v1("publish", "exchange=h", "routing_key=", "payload=no", vhost=vhost)
    assert "NOT routed" in missed.stdout
    (row,) = _rows(v1(*JSON, "get", "queue=q", vhost=vhost))
    assert (row["payload"], row["properties"], row["redelivered"]) == ("from stdin", {"headers": {"n": 5}}, False)
    (again,) = _rows(v1(*JSON, "get", "queue=q", "ackmode=ack_requeue_false", vhost=vhost))
    assert again["redelivered"] is True
    v1("publish", "routing_key=q", "payload=by name", vhost=vhost)
    v1("purge", "queue", "name=q", vhost=vhost)
    assert v1("get", "queue=q", vhost=vhost).stdout.strip() == "No items"


def test_v1_exports_and_imports(v1: Run, vhost: str, tmp_path: Path, client: Client) -> None:
    v1("declare", "exchange", "name=x", "type=fanout", vhost=vhost)
    v1("declare", "queue", "name=q", vhost=vhost)
    v1("declare", "binding", "source=x", "destination=q", "routing_key=k", vhost=vhost)
    file = tmp_path / "definitions.json"
    v1("export", str(file), vhost=vhost)
    assert {"source": "x", "destination": "q"}.items() <= json.loads(file.read_text())["bindings"][0].items()
    v1("delete", "queue", "name=q", vhost=vhost)
    v1("import", str(file), vhost=vhost)
    assert client.get(f"/bindings/{segment(vhost)}/e/x/q/q/k").status == 200


def test_v1_shows_errors(v1: Run, vhost: str) -> None:
    v1("declare", "queue", "name=q", vhost=vhost)
    refused = v1("declare", "queue", "name=q", "durable=false", vhost=vhost, fails=True)
    assert "inequivalent arg 'durable'" in refused.stdout + refused.stderr
    assert "Not found" in str(v1("delete", "queue", "name=none", vhost=vhost, fails=True))
    v1("declare", "exchange", "name=x", "type=nonsense", vhost=vhost, fails=True)
    v1("declare", "exchange", "name=amq.x", "type=direct", vhost=vhost, fails=True)
    v1("-p", "wrong", "list", "queues", fails=True)


def test_v1_shows_the_service(v1: Run) -> None:
    assert "3.10" in v1("show", "overview").stdout
    for kind in ("nodes", "users", "vhosts", "connections", "channels", "consumers", "parameters"):
        v1("list", kind)


# -- v2: the Rust program -----------------------------------------------------------------------------


@pytest.fixture
def v2(server: Server) -> Run:
    command = _v2()
    if command is None:
        pytest.skip("no rabbitmqadmin v2; name the program in BINDERY_RABBITMQADMIN_V2")

    def run(*arguments: str, vhost: str = "/", **options: Any) -> subprocess.CompletedProcess[str]:
        base = [*command, "--host", "127.0.0.1", "-P", str(server.port), "-u", USER, "-p", PASSWORD]
        return _run([*base, "--non-interactive", "-V", vhost, *arguments], **options)

    return run


def test_v2_declares_lists_and_deletes_every_kind(v2: Run, vhost: str) -> None:
    v2("declare", "exchange", "--name", "x", "--type", "topic", vhost=vhost)
    v2("declare", "exchange", "--name", "y", "--type", "headers", "--durable", "false", vhost=vhost)
    v2("declare", "queue", "--name", "q", "--type", "quorum", "--arguments", '{"x-max-length":5}', vhost=vhost)
    bind = ("--source", "x", "--destination-type", "queue", "--destination", "q", "--routing-key", "a.#")
    v2("declare", "binding", *bind, "--arguments", '{"n":5,"t":{"a":[1,true]}}', vhost=vhost)
    to_exchange = ("--source", "x", "--destination-type", "exchange", "--destination", "y", "--routing-key", "")
    v2("declare", "binding", *to_exchange, vhost=vhost)
    apply = ("--name", "p", "--pattern", "^x", "--apply-to", "exchanges", "--priority", "3")
    v2("declare", "policy", *apply, "--definition", '{"alternate-exchange":"y"}', vhost=vhost)
    operator = ("--name", "o", "--pattern", "^q", "--apply-to", "queues", "--definition", '{"expires":1000}')
    v2("declare", "operator_policy", *operator, vhost=vhost)
    v2("declare", "parameter", "--component", "c", "--name", "n", "--value", '{"a":1}', vhost=vhost)
    v2("declare", "user", "--name", "bob", "--password", "a long secret", "--tags", "management")
    grant = ("--username", "bob", "--configure", ".*", "--read", ".*", "--write", ".*")
    v2("declare", "permissions", *grant, vhost=vhost)
    v2("declare", "vhost_limit", "--name", "max-queues", "--value", "10", vhost=vhost)
    v2("declare", "user_limit", "--username", "bob", "--name", "max-connections", "--value", "7")

    assert "topic" in v2("list", "exchanges", vhost=vhost).stdout
    assert "quorum" in v2("list", "queues", vhost=vhost).stdout
    assert "a.#" in v2("list", "bindings", vhost=vhost).stdout
    assert "alternate-exchange" in v2("list", "policies", vhost=vhost).stdout
    assert "expires" in v2("list", "operator_policies", vhost=vhost).stdout
    assert "max-queues" in v2("list", "vhost_limits", vhost=vhost).stdout
    assert "bob" in v2("list", "user_limits", "--user", "bob").stdout
    for kind in ("users", "permissions", "vhosts", "parameters", "nodes", "connections", "channels", "consumers"):
        v2("list", kind, vhost=vhost)

    v2("delete", "user_limit", "--username", "bob", "--name", "max-connections")
    v2("delete", "vhost_limit", "--name", "max-queues", vhost=vhost)
    v2("delete", "permissions", "--username", "bob", vhost=vhost)
    v2("delete", "user", "--name", "bob")
    v2("delete", "parameter", "--component", "c", "--name", "n", vhost=vhost)
    v2("delete", "operator_policy", "--name", "o", vhost=vhost)
    v2("delete", "policy", "--name", "p", vhost=vhost)
    v2("delete", "binding", *bind, "--arguments", '{"n":5,"t":{"a":[1,true]}}', vhost=vhost)
    v2("delete", "binding", *to_exchange, vhost=vhost)
    v2("delete", "queue", "--name", "q", vhost=vhost)
    v2("delete", "exchange", "--name", "x", vhost=vhost)
    v2("delete", "queue", "--name", "q", "--idempotently", vhost=vhost)
    v2("delete", "vhost", "--name", vhost)


@pytest.mark.parametrize("name", NAMES)
def test_v2_handles_every_name(v2: Run, vhost: str, name: str) -> None:
    v2("declare", "exchange", "--name", name, "--type", "direct", vhost=vhost)
    v2("declare", "queue", "--name", name, "--type", "classic", vhost=vhost)
    ends = ("--source", name, "--destination-type", "queue", "--destination", name, "--routing-key", name)
    v2("declare", "binding", *ends, vhost=vhost)
    v2("publish", "message", "-e", name, "-k", name, "-m", "über", vhost=vhost)
    got = v2("get", "messages", "-q", name, "-a", "ack_requeue_false", vhost=vhost)
    assert "über" in got.stdout
    v2("delete", "binding", *ends, vhost=vhost)
    v2("delete", "queue", "--name", name, vhost=vhost)
    v2("delete", "exchange", "--name", name, vhost=vhost)


def test_v2_publishes_to_the_default_exchange_and_purges(v2: Run, vhost: str) -> None:
    v2("declare", "queue", "--name", "q", vhost=vhost)
    v2("publish", "message", "-k", "q", "-m", "by name", "-p", '{"delivery_mode":2,"priority":7}', vhost=vhost)
    assert "by name" in v2("get", "messages", "-q", "q", "-c", "5", "-a", "ack_requeue_true", vhost=vhost).stdout
    assert "by name" in v2("get", "messages", "-q", "q", "-c", "5", "-a", "ack_requeue_true", vhost=vhost).stdout
    v2("purge", "queue", "--name", "q", vhost=vhost)
    assert "by name" not in v2("get", "messages", "-q", "q", "-a", "ack_requeue_true", vhost=vhost).stdout


def test_v2_exports_and_imports(v2: Run, vhost: str, tmp_path: Path, client: Client) -> None:
    v2("declare", "exchange", "--name", "x", "--type", "fanout", vhost=vhost)
    v2("declare", "queue", "--name", "q", vhost=vhost)
    ends = ("--source", "x", "--destination-type", "queue", "--destination", "q", "--routing-key", "k")
    v2("declare", "binding", *ends, vhost=vhost)
    file, cluster = tmp_path / "vhost.json", tmp_path / "cluster.json"
    v2("definitions", "export_from_vhost", "--file", str(file), vhost=vhost)
    v2("definitions", "export", "--file", str(cluster))
    assert vhost in [item["name"] for item in json.loads(cluster.read_text())["vhosts"]]
    v2("delete", "exchange", "--name", "x", vhost=vhost)
    v2("definitions", "import_into_vhost", "--file", str(file), vhost=vhost)
    assert client.get(f"/bindings/{segment(vhost)}/e/x/q/q/k").status == 200
    v2("definitions", "import", "--file", str(cluster))


def test_v2_shows_errors(v2: Run, vhost: str) -> None:
    v2("declare", "queue", "--name", "q", "--durable", "true", vhost=vhost)
    refused = v2("declare", "queue", "--name", "q", "--durable", "false", vhost=vhost, fails=True)
    assert "inequivalent arg 'durable'" in refused.stdout + refused.stderr
    v2("delete", "queue", "--name", "none", vhost=vhost, fails=True)
    v2("declare", "exchange", "--name", "x", "--type", "nonsense", vhost=vhost, fails=True)
    reserved = v2("declare", "exchange", "--name", "amq.x", "--type", "direct", vhost=vhost, fails=True)
    assert "Access refused" in reserved.stdout + reserved.stderr


def test_v2_shows_the_service(v2: Run, server: Server) -> None:
    assert "Bindery" in v2("show", "overview").stdout
    v2("show", "churn")
    for check in ("local_alarms", "cluster_wide_alarms", "node_is_quorum_critical"):
        v2("health_check", check)
    v2("health_check", "port_listener", "--port", str(server.port))
    for kind in ("feature_flags", "deprecated_features", "deprecated_features_in_use"):
        v2("list", kind)
