"""Rows of a queue's table over REST: pages, one row, the past, the table itself, how it is read."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.service.conftest import Server
from tests.service.http import Client, segment

pytestmark = pytest.mark.service

NAME = "rows/1"
AT = segment(NAME)
Q = f"/queues/{AT}/q"


@pytest.fixture(scope="module")
def filled(server: Server) -> Client:
    """Queue q with four messages of one stream, of which the first has been taken; `other` has a copy of each."""
    client = server.client()
    assert client.put(f"/vhosts/{AT}").status == 201
    for name in ("q", "other"):
        assert client.put(f"/queues/{AT}/{name}", {}).status == 201
    assert client.put(f"/exchanges/{AT}/x", {"type": "topic"}).status == 201
    for name, key in (("q", "a.*"), ("other", "#")):
        assert client.post(f"/bindings/{AT}/e/x/q/{name}", {"routing_key": key}).status == 201
    for n in range(4):
        headers: dict[str, Any] = {"n": n, "mixed": n if n % 2 else "text", "my-list": [n], "long": "y" * 1000}
        body = {"routing_key": "a.b", "properties": {"headers": headers, "priority": 7}, "payload": f"é{n}" * 300}
        assert client.post(f"/exchanges/{AT}/x/publish", {**body, "payload_encoding": "string"}).json["routed"]
    taken = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert len(client.post(f"{Q}/get", taken).json) == 1
    return client


def rows(client: Client, **body: Any) -> Any:
    answer = client.post(f"{Q}/rows", body)
    assert answer.status == 200, answer.raw
    return answer.json


def test_a_page_has_headers_as_typed_columns_and_bodies_cut(filled: Client) -> None:
    page = rows(filled, newest=True, limit=2, preview=4)
    assert {one["name"]: one["types"] for one in page["columns"]} == {
        "long": ["string"],
        "mixed": ["integer", "string"],
        "my-list": ["list"],
        "n": ["integer"],
    }
    assert [one["headers"]["n"] for one in page["rows"]] == [{"type": "integer", "text": t} for t in ("3", "2")]
    first = page["rows"][0]
    assert first["headers"]["long"] == {"type": "string", "text": "y" * 200, "length": 1000}
    assert first["properties"]["priority"] == {"type": "integer", "text": "7"}
    assert first["body"] == {"form": "text", "text": "é3", "bytes": 900, "shown": 3}
    assert (page["held"], page["previous"]) == (3, None)
    rest = rows(filled, newest=True, limit=2, after=page["next"])
    assert [one["headers"]["n"]["text"] for one in rest["rows"]] == ["1"]
    assert [one["row"] for one in rows(filled, newest=True, before=rest["previous"])["rows"]] == [
        one["row"] for one in page["rows"]
    ]
    assert len(rows(filled, filter="n >= 2 AND JMSPriority = 7")["rows"]) == 2


def test_the_past_is_shown_by_version_batch_and_time(filled: Client) -> None:
    changes = filled.get(f"{Q}/table/changes").json
    assert [one["change"] for one in changes["changes"]] == ["get", *["append"] * 4, "create"]
    assert changes["changes"][1]["added"] == 1
    assert changes["versions"] == {"oldest": 0, "newest": 5}
    assert len(rows(filled, table_version=4)["rows"]) == 4
    second = changes["changes"][3]
    batch = rows(filled, at=f"{second['stream']}:{second['batch_id']}")
    assert [one["headers"]["n"]["text"] for one in batch["rows"]] == ["0", "1"]
    assert len(rows(filled, at=batch["moment"])["rows"]) == 2
    for asked, status, said in (
        ({"table_version": 99}, 404, "versions 0 to 5 are there"),
        ({"at": "api:99999"}, 404, "no batch 'api:99999' in the manifest"),
        ({"at": "yesterday"}, 400, "STREAM:BATCH"),
        ({"at": "2020-01-01", "table_version": 1}, 400, "exclude each other"),
        ({"after": "x"}, 400, "no place of a row"),
        ({"limit": 1000}, 400, "less than or equal to 200"),
        ({"filtre": "a"}, 400, "did you mean 'filter'"),
    ):
        refused = filled.post(f"{Q}/rows", asked)
        assert (refused.status, said in refused.raw.decode()) == (status, True), refused.raw


def test_a_row_is_shown_whole_with_its_lineage(filled: Client) -> None:
    page = rows(filled)
    filled.put(f"/queues/{AT}/later", {})
    filled.delete(f"/bindings/{AT}/e/x/q/q/a.*")
    try:
        found = filled.get(f"{Q}/rows/{segment(page['rows'][0]['row'])}?body=5")
        assert found.status == 200, found.raw
        row = found.json
    finally:
        filled.post(f"/bindings/{AT}/e/x/q/q", {"routing_key": "a.*"})
    assert row["sections"]["application_properties"]["long"] == {"type": "string", "text": "y" * 1000}
    assert row["sections"]["header"]["priority"]["text"] == "7"
    assert row["body"] == {"form": "text", "text": "é1é", "bytes": 900, "shown": 5}
    assert [(one["source"], one["destination"], one["routing_key"]) for one in row["bindings"]] == [
        ("x", "q", "a.*"),
        ("x", "other", "#"),
    ], "as they stood when it was routed"
    assert row["queues"] == ["other"]
    whole = filled.get(f"{Q}/rows/{segment(row['row'])}?body=1000000&encoding=base64").json["body"]
    assert base64.b64decode(whole["text"]).decode() == "é1" * 300
    gone = filled.get(f"{Q}/rows/api%3A0%3A77")
    assert (gone.status, "it was taken" in gone.json["reason"]) == (404, True)
    assert filled.get(f"{Q}/rows/nonsense").status == 400


def test_a_copy_in_a_queue_that_one_may_not_read_is_not_told(filled: Client) -> None:
    filled.put("/users/q-only", {"password": "pw", "tags": "management"})
    filled.put(f"/permissions/{AT}/q-only", {"configure": "^$", "write": "^$", "read": "^q$"})
    reader = Client(filled.port, "q-only", "pw")
    row = rows(reader)["rows"][0]["row"]
    assert reader.get(f"{Q}/rows/{segment(row)}").json["queues"] == []
    assert reader.post(f"/queues/{AT}/other/rows", {}).status == 401


def test_the_table_is_described_from_its_log(filled: Client) -> None:
    table = filled.get(f"{Q}/table").json
    assert table["location"].endswith("/queues/rows~2F1/q")
    assert (table["rows"], table["files"]["count"], table["table_version"]) == (3, 3, 5)
    files = table["files"]
    assert 0 < files["smallest"] <= files["median"] <= files["largest"] < files["bytes"]
    assert table["columns"][0] == {
        "name": "exchange",
        "type": "string",
        "comment": "The exchange that the message was published to; empty for the default exchange.",
    }
    assert table["maintenance"] is None
    assert filled.get(f"{Q}/table?table_version=1").json["rows"] == 1


def test_what_filters_may_name_is_told_for_each_language(filled: Client) -> None:
    found = filled.get(f"{Q}/properties").json
    named = {one["name"]: one for one in found["properties"]}
    assert named["n"]["families"] == {"number": 3}
    assert named["mixed"]["families"] == {"number": 2, "string": 1}
    assert named["my-list"]["names"] == {
        "jms": None,
        "apache-selector": None,
        "artemis": '"my-list"',
        "amqp-sql": "[my-list]",
        "cesql": None,
        "eventbridge": None,
        "sns": "my-list",
        "service-bus": '"my-list"',
    }
    assert "JMSPriority" in found["fields"]["jms"]
    assert "properties.subject" in found["fields"]["amqp-sql"]
    assert "BETWEEN" in found["keywords"]["jms"]


def test_how_to_read_it_names_the_table_and_the_service(filled: Client) -> None:
    found = filled.post(f"{Q}/snippets", {"filter": "n > 1", "table_version": 4}).json
    texts = {one["title"]: one["code"] for one in found["snippets"]}
    assert found["location"] in texts["Spark SQL"]
    assert f"http://127.0.0.1:{filled.port}/api/queues/rows%2F1/q/rows" in texts["curl"]
    assert "filter='n > 1', version=4" in texts["Python"]
    assert filled.post(f"{Q}/snippets", {"filter": "n >"}).status == 400
