"""/metrics: what the manifest records, whoever recorded it, in series of bounded number."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from bindery.api.metrics import OTHER, Shown
from bindery.router.message import Message
from bindery.store.maintenance import maintain
from bindery.store.maintenance.run import in_vhost
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.service.conftest import Server
from tests.service.http import Answer, Client
from tests.unit.store.routed import route

pytestmark = pytest.mark.service

DASHBOARD = Path(__file__).parents[2] / "configs" / "grafana" / "bindery-dashboard.json"
PROMETHEUS = Path(__file__).parents[2] / "configs" / "compose" / "prometheus"
ALERTS = PROMETHEUS / "alerts.yml"
PAGE = DASHBOARD.parents[1] / "compose" / "prometheus" / "consoles" / "bindery.html"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("metrics") / "data", metrics_depths=True).start()
    client = running.client()
    client.put("/exchanges/%2F/x", {"type": "topic", "durable": True})
    client.put("/queues/%2F/q", {"durable": True})
    client.post("/bindings/%2F/e/x/q/q", {"routing_key": "a.#"})
    yield running
    running.stop()


def scrape(server: Server, client: Client | None = None, *, accept: str | None = None) -> Answer:
    headers = (client or server.client()).headers | ({} if accept is None else {"accept": accept})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("GET", "/metrics", headers=headers)
        response = connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


def samples(server: Server) -> Samples:
    answer = scrape(server)
    assert answer.status == 200, answer.raw
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.raw.decode())
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float:
    return found.get((name, frozenset(labels.items())), 0.0)


def publish(client: Client, key: str) -> None:
    body = {"routing_key": key, "properties": {}, "payload": "", "payload_encoding": "string"}
    assert client.post("/exchanges/%2F/x/publish", body).status == 200


def test_what_is_published_counts_in_and_out_and_by_reason(metered: Server) -> None:
    before = samples(metered)
    client = metered.client()
    publish(client, "a.b")
    publish(client, "nowhere")
    after = samples(metered)

    def gained(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert gained("bindery_messages_total", stream="api") == 2
    assert gained("bindery_copies_total", stream="api") == 1
    assert gained("bindery_exchange_in_total", vhost="/", exchange="x") == 2
    assert gained("bindery_exchange_out_total", vhost="/", exchange="x") == 1
    assert gained("bindery_queue_in_total", vhost="/", queue="q") == 1
    assert gained("bindery_queue_depth", vhost="/", queue="q") == 1
    assert gained("bindery_unroutable_total", stream="api", reason="no_binding") == 1
    assert gained("bindery_batch_stage_seconds_count", stream="api", stage="commit") == 2
    (binding,) = [labels for name, labels in after if name == "bindery_binding_info"]
    named = dict(binding)
    assert (named["source"], named["destination"], named["routing_key"]) == ("x", "q", "a.#")
    assert gained("bindery_binding_matches_total", binding=named["binding"]) == 1
    assert value(after, "bindery_topology_version") == metered.app.state.plane.topology().version


def test_batches_of_other_processes_count(metered: Server) -> None:
    data = DataDir.open(metered.settings.data)
    before = samples(metered)
    route(data, TopologyStore(data), [Message("x", "a.b"), Message("x", "a")], stream="elsewhere")
    after = samples(metered)
    assert value(before, "bindery_messages_total", stream="elsewhere") == 0
    assert value(after, "bindery_messages_total", stream="elsewhere") == 2
    name, labels = "bindery_queue_in_total", {"vhost": "/", "queue": "q"}
    assert value(after, name, **labels) - value(before, name, **labels) == 2


def test_latencies_are_kept_by_template_and_status_only(metered: Server) -> None:
    client = metered.client()
    client.get("/queues/%2F/q")
    client.get("/queues/%2F/no-such-queue")
    client.get("/no/such/path/at/all")
    client.call("BREW", "/overview")
    found = samples(metered)
    count = "bindery_http_request_seconds_count"
    template = "/api/queues/{vhost}/{name}"
    assert value(found, count, method="GET", route=template, status="200") >= 1
    assert value(found, count, method="GET", route=template, status="404") >= 1
    assert value(found, count, method="GET", route="unmatched", status="404") >= 1
    methods = {dict(labels)["method"] for name, labels in found if name == count}
    routes = {dict(labels)["route"] for name, labels in found if name == count}
    assert "BREW" not in methods
    assert not any("no-such-queue" in route or "/no/such" in route for route in routes)


def test_the_default_is_to_ask_for_the_monitoring_tag(metered: Server) -> None:
    admin = metered.client()
    admin.put("/users/mon", {"password": "m", "tags": "monitoring"})
    admin.put("/users/man", {"password": "m", "tags": "management"})
    assert scrape(metered, metered.client("mon", "m")).status == 200
    assert scrape(metered, metered.client("man", "m")).status == 401
    assert scrape(metered, metered.client(None)).status == 401
    assert scrape(metered, metered.client("mon", "wrong")).status == 401


def test_a_token_opens_it_and_nothing_else(tmp_path: Path) -> None:
    token = "0123456789abcdef" * 2
    (tmp_path / "token").write_text(token + "\n")
    server = Server(tmp_path / "data", metrics_token_file=tmp_path / "token").start()

    def bearer(word: str) -> Client:
        client = server.client(None)
        client.headers["authorization"] = word
        return client

    try:
        assert scrape(server, bearer(f"Bearer {token}")).status == 200
        assert scrape(server, bearer(f"bearer  {token} ")).status == 200
        for wrong in (token[:-1], token + "0", "", "é"):
            assert scrape(server, bearer(f"Bearer {wrong}")).status == 401, wrong
        assert scrape(server, bearer(f"Basic {token}")).status == 401
        assert scrape(server).status == 200, "users are let in as before"
        assert bearer(f"Bearer {token}").get("/overview").status == 401
    finally:
        server.stop()


@pytest.mark.parametrize(("setting", "status"), [("open", 200), ("off", 404)])
def test_a_setting_opens_it_or_takes_it_away(tmp_path: Path, setting: str, status: int) -> None:
    server = Server(tmp_path / "data", metrics=setting).start()
    try:
        assert scrape(server, server.client(None)).status == status
    finally:
        server.stop()


def test_scrapers_that_accept_it_get_openmetrics(metered: Server) -> None:
    answer = scrape(metered, accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.raw.endswith(b"# EOF\n")
    assert scrape(metered).headers["content-type"].startswith("text/plain")


def test_series_are_capped_and_only_grow() -> None:
    shown = Shown(2)
    own, others = shown.split({("a",): 1.0, ("b",): 5.0, ("c",): 3.0})
    assert (own, others) == ({("b",): 5.0, ("c",): 3.0}, 1.0)
    own, others = shown.split({("a",): 100.0, ("b",): 5.0, ("c",): 3.0, ("d",): 7.0})
    assert (own, others) == ({("b",): 5.0, ("c",): 3.0}, 107.0)
    assert Shown(2).split({}) == ({}, None)
    assert Shown(9).split({(OTHER,): 2.0, ("a",): 1.0}) == ({("a",): 1.0}, 2.0)


def test_the_cap_holds_at_the_endpoint(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", metrics_series=3).start()
    try:
        client = server.client()
        for number in range(6):
            client.put(f"/queues/%2F/q{number}", {"durable": True})
            client.post(
                "/exchanges/%2F/amq.default/publish",
                {"routing_key": f"q{number}", "properties": {}, "payload": "", "payload_encoding": "string"},
            )
        found = samples(server)
        queues = {dict(labels)["queue"]: n for (name, labels), n in found.items() if name == "bindery_queue_in_total"}
        assert len(queues) == 4
        assert queues[OTHER] == 3
    finally:
        server.stop()


def test_the_dashboards_name_metrics_that_exist(metered: Server) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["panels"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    expressions += [one["query"]["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    assert len(expressions) >= len([panel for panel in dashboard["panels"] if panel["type"] != "row"])
    asked = re.findall(r'(?:query|printf) "(.*?)"[ )]', PAGE.read_text())
    expressions += [expression for expression in asked if not expression.startswith(("%", "up{"))]
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 0
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary"}
    expressions += [rule["expr"] for rule in rules if not rule["expr"].startswith("up{")]
    publish(metered.client(), "a.b")
    exposed = scrape(metered).raw.decode()
    families = set(re.findall(r"^# TYPE (\S+)", exposed, re.M))
    known = families | {f"{name}{suffix}" for name in families for suffix in ("_bucket", "_count", "_sum")}
    for expression in expressions:
        named = set(re.findall(r"\b(?:bindery|process)_[a-z_]+", expression))
        assert named, expression
        assert named <= known, expression


def test_prometheus_takes_its_settings_and_the_alerts(tmp_path: Path) -> None:
    settings = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    assert [PROMETHEUS / name for name in settings["rule_files"]] == [ALERTS]
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool: Debian's package prometheus has it")
    done = subprocess.run([promtool, "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_limits_have_deleted_is_counted_by_reason(metered: Server) -> None:
    client = metered.client()
    assert client.put("/queues/%2F/short", {"arguments": {"x-max-length": 1}}).status == 201
    client.post("/bindings/%2F/e/x/q/short", {"routing_key": "s"})
    for _ in range(3):
        publish(client, "s")
    data = DataDir.open(metered.settings.data)
    # the first maintainer that comes does it, and the service has one
    maintain(data, only=in_vhost(data, "/", "short"))
    labels = {"vhost": "/", "queue": "short"}
    found = samples(metered)
    assert value(found, "bindery_queue_limited_rows_total", **labels, reason="maxlen") == 2
    assert value(found, "bindery_queue_depth", **labels) == 1
    assert not any(dict(labels).get("queue") == "q" for name, labels in found if "limited" in name)


def test_journals_are_seen_with_their_rows_bytes_and_oldest_row(metered: Server) -> None:
    data = DataDir.open(metered.settings.data)
    messages = [Message("x", "a.b"), Message("x", "none")]
    route(data, TopologyStore(data), messages, stream="kept", journal=True, clock_ms=1_700_000_000_000)
    found = samples(metered)
    assert value(found, "bindery_journal_rows", stream="kept") == 2
    assert value(found, "bindery_journal_bytes", stream="kept") > 0
    assert value(found, "bindery_journal_oldest_timestamp_seconds", stream="kept") == 1_700_000_000
    (stream,) = metered.client().get("/status?stream=kept").json["streams"]
    assert (stream["journal"]["rows"], stream["journal"]["kept_seconds"]) == (2, 7 * 86_400)
