"""Publish, get and purge on a bare control plane: the queue table is the truth."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from bindery.store.paths import DataDir
from bindery.store.streams import EPOCH_BATCHES
from tests.service.conftest import Server
from tests.service.http import Client, segment
from tests.service.test_metrics import scrape

pytestmark = pytest.mark.service

NAME = "messages/1"
AT = segment(NAME)


@pytest.fixture(autouse=True)
def vhost(client: Client) -> Iterator[None]:
    client.delete(f"/vhosts/{AT}")
    assert client.put(f"/vhosts/{AT}").status == 201
    assert client.put(f"/exchanges/{AT}/x", {"type": "direct"}).status == 201
    assert client.put(f"/queues/{AT}/q", {"durable": True}).status == 201
    assert client.post(f"/bindings/{AT}/e/x/q/q", {"routing_key": "k"}).status == 201
    yield
    client.delete(f"/vhosts/{AT}")


def publish(client: Client, payload: str, *, exchange: str = "x", routing_key: str = "k", **properties: Any) -> bool:
    body = {"routing_key": routing_key, "payload": payload, "payload_encoding": "string", "properties": properties}
    answer = client.post(f"/exchanges/{AT}/{segment(exchange)}/publish", body)
    assert answer.status == 200, answer.raw
    return bool(answer.json["routed"])


def get(client: Client, *, count: int = 10, ackmode: str = "ack_requeue_true", **more: Any) -> list[dict[str, Any]]:
    answer = client.post(f"/queues/{AT}/q/get", {"count": count, "ackmode": ackmode, "encoding": "auto", **more})
    assert answer.status == 200, answer.raw
    items: list[dict[str, Any]] = answer.json
    return items


def test_a_policy_says_what_bodies_are_and_stays_while_filters_rely_on_it(server: Server, client: Client) -> None:
    policy, topic = f"/policies/{AT}/bodies", f"/bindings/{AT}/e/amq.topic/q/q"
    selector = {"routing_key": "#", "arguments": {"x-filter-jms-selector": "body.amount >= 100"}}
    refused = client.post(topic, selector)
    assert (refused.status, "in a policy" in refused.json["filter"]["hint"]) == (400, True)
    stated = {"pattern": "^amq.topic$", "apply-to": "exchanges", "definition": {"payload": "json"}}
    wrong = client.put(policy, {**stated, "definition": {"payload": "jsn"}})
    assert (wrong.status, "'jsn' cannot be read" in wrong.json["reason"]) == (400, True)
    assert client.put(policy, stated).status == 201
    assert client.post(topic, selector).status == 201
    assert publish(client, '{"amount": 250}', exchange="amq.topic")
    assert not publish(client, '{"amount": 5}', exchange="amq.topic")
    assert not publish(client, "{", exchange="amq.topic")
    assert client.delete(policy).status == 400
    assert client.put(policy, {**stated, "definition": {"payload": "text"}}).status == 400
    labels = f'kind="exchange",name="amq.topic",reason="syntax",vhost="{NAME}"'
    assert f"bindery_unparsable_bodies_total{{{labels}}} 1.0" in scrape(server).raw.decode()


def payloads(items: list[dict[str, Any]]) -> list[str]:
    return [item["payload"] for item in items]


def table(server: Server, queue: str = "q") -> DeltaTable:
    return DeltaTable(DataDir.open(server.settings.data).queue(NAME, queue))


def test_messages_come_in_the_order_of_publishing_with_what_is_left_behind_them(client: Client) -> None:
    for number in range(4):
        assert publish(client, f"m{number}")
    got = get(client, count=3)
    assert payloads(got) == ["m0", "m1", "m2"]
    assert [item["message_count"] for item in got] == [3, 2, 1]


@pytest.mark.parametrize(
    ("ackmode", "stays"),
    [
        ("ack_requeue_true", True),
        ("reject_requeue_true", True),
        ("ack_requeue_false", False),
        ("reject_requeue_false", False),
    ],
)
def test_ack_modes_decide_what_stays(client: Client, ackmode: str, stays: bool) -> None:
    publish(client, "a")
    publish(client, "b")
    assert payloads(get(client, count=1, ackmode=ackmode)) == ["a"]
    assert [(item["payload"], item["redelivered"]) for item in get(client)] == (
        [("a", True), ("b", False)] if stays else [("b", False)]
    )


def test_a_requeued_message_stays_redelivered_after_a_restart(server: Server, client: Client) -> None:
    publish(client, "a")
    get(client)
    header = table(server).to_pyarrow_table()["header"].to_pylist()
    assert header == [{"durable": None, "priority": None, "ttl": None, "first_acquirer": None, "delivery_count": 1}]


def test_get_is_one_commit_and_history_stays(server: Server, client: Client) -> None:
    publish(client, "a")
    publish(client, "b")
    before = table(server).version()
    get(client, ackmode="ack_requeue_false")
    assert table(server).version() == before + 1
    old = DeltaTable(DataDir.open(server.settings.data).queue(NAME, "q"), version=before)
    assert old.to_pyarrow_table().num_rows == 2


def test_truncate_cuts_the_payload_and_not_its_length(client: Client) -> None:
    publish(client, "hellö")
    (item,) = get(client, truncate=2)
    assert (item["payload"], item["payload_bytes"], item["payload_encoding"]) == ("he", 6, "string")
    (item,) = get(client, truncate=5)
    assert item["payload_encoding"] == "base64", "half of a character is no text"


def test_base64_goes_both_ways(client: Client) -> None:
    raw = bytes(range(256))
    body = {
        "routing_key": "k",
        "payload": base64.b64encode(raw).decode(),
        "payload_encoding": "base64",
        "properties": {},
    }
    assert client.post(f"/exchanges/{AT}/x/publish", body).json == {"routed": True}
    (item,) = get(client)
    assert base64.b64decode(item["payload"]) == raw


def test_sender_selected_keys_route_and_bcc_is_not_told(client: Client) -> None:
    for queue in ("cc", "bcc"):
        client.put(f"/queues/{AT}/{queue}")
        client.post(f"/bindings/{AT}/e/x/q/{queue}", {"routing_key": queue})
    publish(client, "m", headers={"CC": ["cc"], "BCC": ["bcc"]})
    for queue in ("q", "cc", "bcc"):
        answer = client.post(
            f"/queues/{AT}/{queue}/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
        )
        assert answer.json[0]["properties"] == {"headers": {"CC": ["cc"]}}, queue


def test_headers_exchanges_and_selectors_see_the_headers(client: Client) -> None:
    client.put(f"/exchanges/{AT}/h", {"type": "headers"})
    selector = {"x-filter-jms-selector": "price > 100", "x-match": "all", "kind": "order"}
    assert client.post(f"/bindings/{AT}/e/h/q/q", {"arguments": selector}).status == 201
    assert publish(client, "yes", exchange="h", headers={"kind": "order", "price": 120})
    assert not publish(client, "no", exchange="h", headers={"kind": "order", "price": 50})
    assert not publish(client, "no", exchange="h", headers={"price": 120})
    assert payloads(get(client)) == ["yes"]


def test_what_reaches_no_queue_is_returned_and_recorded(server: Server, client: Client) -> None:
    assert not publish(client, "lost for good", routing_key="nobody")
    rows = DeltaTable(DataDir.open(server.settings.data).unroutable(NAME)).to_pyarrow_table().to_pylist()
    found = [(row["reason"], row["disposition"]) for row in rows if row["body"] == b"lost for good"]
    assert found == [("no_binding", "returned")]


def test_a_sender_may_ask_for_rejection(server: Server, client: Client) -> None:
    body = {"routing_key": "nobody", "payload": "refused", "payload_encoding": "string", "properties": {}}
    assert client.post(f"/exchanges/{AT}/x/publish", {**body, "reject_unroutable": True}).json == {"routed": False}
    rows = DeltaTable(DataDir.open(server.settings.data).unroutable(NAME)).to_pyarrow_table().to_pylist()
    (row,) = [row for row in rows if row["body"] == b"refused"]
    assert (row["disposition"], row["mandatory"]) == ("rejected", False)
    place = ":".join(str(row["routing"][name]) for name in ("stream", "batch_id", "seq"))
    explained = client.post("/route", {"vhost": NAME, "row": place}).json["results"][0]
    assert explained["unroutable"]["disposition"] == "rejected"
    assert client.post(f"/exchanges/{AT}/x/publish", {**body, "reject_unroutable": "perhaps"}).status == 400


def test_an_alternate_exchange_of_a_policy_catches_it(client: Client) -> None:
    client.put(f"/exchanges/{AT}/rest", {"type": "fanout"})
    client.post(f"/bindings/{AT}/e/rest/q/q", {})
    policy = {"pattern": "^x$", "definition": {"alternate-exchange": "rest"}, "apply-to": "exchanges"}
    assert client.put(f"/policies/{AT}/p", policy).status == 201
    assert publish(client, "caught", routing_key="nobody")
    assert payloads(get(client)) == ["caught"]
    client.delete(f"/policies/{AT}/p")
    assert not publish(client, "lost", routing_key="nobody")


def test_publishing_is_a_batch_of_this_processs_own_stream(server: Server, client: Client) -> None:
    publish(client, "m")
    (row,) = table(server).to_pyarrow_table().to_pylist()
    assert (row["routing"]["stream"], row["routing"]["seq"], row["exchange"]) == ("api", 0, "x")
    assert row["routing"]["bindings"]
    app = f"api:{server.app.state.plane.process}"
    assert table(server).transaction_version(app) == row["routing"]["batch_id"]


def test_a_restarted_service_gives_no_message_an_identity_that_another_one_has(tmp_path: Path) -> None:
    for start in range(3):
        server = Server(tmp_path / "data").start()
        client = server.client()
        client.put(f"/vhosts/{AT}")
        client.put(f"/queues/{AT}/q", {"durable": True})
        client.post(f"/bindings/{AT}/e/amq.fanout/q/q", {})
        assert publish(client, f"m{start}", exchange="amq.fanout")
        routing = [row["routing"] for row in table(server).to_pyarrow_table().to_pylist()]
        server.stop()
    identities = {(row["stream"], row["batch_id"], row["seq"]) for row in routing}
    assert identities == {("api", start * EPOCH_BATCHES, 0) for start in range(3)}


def test_many_publishers_share_batches_and_none_is_lost(server: Server, client: Client) -> None:
    before = table(server).version()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: publish(client, str(number)), range(64)))
    assert sorted(payloads(get(client, count=-1)), key=int) == [str(number) for number in range(64)]
    assert table(server).version() - before - 1 < 64


def test_two_consumers_never_get_the_same_message(client: Client) -> None:
    for number in range(12):
        publish(client, str(number))
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda _: get(client, count=1, ackmode="ack_requeue_false"), range(12)))
    assert sorted(int(item["payload"]) for items in taken for item in items) == list(range(12))


def test_purge_empties_and_counts_follow_at_once(client: Client) -> None:
    publish(client, "a")
    assert client.get(f"/queues/{AT}/q").json["messages"] == 1
    assert client.call("DELETE", f"/queues/{AT}/q?if-empty=true").status == 400
    assert client.delete(f"/queues/{AT}/q/contents").status == 204
    assert client.get(f"/queues/{AT}/q?columns=messages").json == {"messages": 0}
    assert client.get(f"/vhosts/{AT}").json["messages"] == 0
    assert client.call("DELETE", f"/queues/{AT}/q?if-empty=true").status == 204


@pytest.mark.parametrize(
    "path", ["queues/{}/q/contents?filter=a", "queues/{}/q?if-empt=true", "exchanges/{}/x?if-unsed=true"]
)
def test_a_deletion_with_a_parameter_that_it_does_not_have_deletes_nothing(client: Client, path: str) -> None:
    publish(client, "a")
    refused = client.call("DELETE", f"/{path.format(AT)}")
    assert refused.status == 400
    assert "nothing was deleted" in refused.json["reason"]
    assert client.get(f"/queues/{AT}/q").json["messages"] == 1
    assert client.get(f"/exchanges/{AT}/x").status == 200


def test_a_queue_declared_again_is_empty(client: Client) -> None:
    publish(client, "a")
    client.delete(f"/queues/{AT}/q")
    client.put(f"/queues/{AT}/q")
    assert get(client) == []


def test_statistics_count_what_this_process_did(client: Client) -> None:
    publish(client, "a")
    publish(client, "lost", routing_key="nobody")
    assert client.get(f"/exchanges/{AT}/x").json["message_stats"]["publish_in"] == 2
    assert client.get(f"/exchanges/{AT}/x").json["message_stats"]["publish_out"] == 1
    assert client.get(f"/queues/{AT}/q").json["message_stats"]["publish"] == 1


# -- the inbox ------------------------------------------------------------------------------------------


def test_the_inbox_takes_records_and_publishes_nothing_yet(server: Server, client: Client) -> None:
    lines = [{"exchange": "x", "routing_key": "k", "body": f"b{n}"} for n in range(3)]
    raw = "\n".join(map(json.dumps, lines)).encode()
    answer = client.call("POST", f"/inbox/{AT}", raw=raw)
    assert (answer.status, answer.json["records"]) == (200, 3)
    inbox = DeltaTable(DataDir.open(server.settings.data).inbox(NAME))
    assert inbox.version() == answer.json["version"]
    # the table outlives the vhost of other tests, which left records without an exchange or a body
    mine = [row["body"] for row in inbox.to_pyarrow_table().to_pylist() if row["exchange"] == "x" and row["body"]]
    assert sorted(mine) == [b"b0", b"b1", b"b2"]
    assert get(client) == []


def test_clients_that_ingest_at_once_share_commits(server: Server, client: Client) -> None:
    path = DataDir.open(server.settings.data).inbox(NAME)
    client.call("POST", f"/inbox/{AT}", raw=b"{}")
    before = DeltaTable(path).version()
    keys = [f"at once {number}" for number in range(64)]

    def send(key: str) -> Any:
        answer = client.call("POST", f"/inbox/{AT}", raw=json.dumps({"exchange": "x", "routing_key": key}).encode())
        assert (answer.status, answer.json["records"]) == (200, 1), answer.raw
        return answer.json["version"]

    with ThreadPoolExecutor(len(keys)) as pool:
        versions = list(pool.map(send, keys))
    rows = DeltaTable(path).to_pyarrow_table()["routing_key"].to_pylist()
    assert sorted(key for key in rows if key in keys) == sorted(keys)
    assert set(versions) == set(range(before + 1, DeltaTable(path).version() + 1))
    assert len(set(versions)) < len(keys)


def test_one_bad_record_stores_nothing(server: Server, client: Client) -> None:
    client.call("POST", f"/inbox/{AT}", raw=b"{}")
    path = DataDir.open(server.settings.data).inbox(NAME)
    before = DeltaTable(path).version()
    answer = client.call("POST", f"/inbox/{AT}", raw=b'{"body": "ok"}\n{"nope": 1}\n{"exchange": 5}')
    assert answer.status == 400
    assert [problem["line"] for problem in answer.json["problems"]] == [2, 3]
    assert answer.json["bad_records"] == 2
    assert DeltaTable(path).version() == before


def test_the_inbox_has_a_size_cap(tmp_path: Any) -> None:
    small = Server(tmp_path / "data", inbox_limit=100).start()
    try:
        answer = small.client().call("POST", "/inbox/%2F", raw=b"{}\n" * 100)
        assert (answer.status, "100 bytes" in answer.json["reason"]) == (400, True)
    finally:
        small.stop()
