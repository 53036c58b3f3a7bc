"""Documents planned and applied over REST, lint beside objects, and versions of one object."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.service.conftest import Server
from tests.service.http import Answer, Client

pytestmark = pytest.mark.service

_NUMBERS = itertools.count()
TOPOLOGY = """\
exchanges:
  - {name: flights, type: topic}
queues:
  - name: late
  - name: houston
bindings:
  - {source: flights, destination: late, routing_key: "#", arguments: {x-filter-jms-selector: delay >= 60}}
"""
REBIND: dict[str, Any] = {
    "delete": {
        "bindings": [
            {
                "source": "flights",
                "destination": "late",
                "routing_key": "#",
                "arguments": {"x-filter-jms-selector": "delay >= 60"},
            }
        ]
    },
    "add": {
        "bindings": [
            {
                "source": "flights",
                "destination": "late",
                "routing_key": "#",
                "arguments": {"x-filter-jms-selector": "delay >= 90"},
            }
        ]
    },
}


@pytest.fixture
def vhost(client: Client) -> str:
    """A vhost of the test's own, with the topology."""
    name = f"change-{next(_NUMBERS)}"
    assert client.put(f"/vhosts/{name}", {}).status == 201
    assert post(client, f"/apply/{name}", TOPOLOGY).status == 200
    return name


def post(client: Client, path: str, text: str) -> Answer:
    return client.call("POST", path, raw=text.encode())


def newest(client: Client) -> int:
    version: int = client.get("/topology/versions?limit=1").json["newest"]
    return version


def user(server: Server, vhost: str, name: str, tags: str = "management", **rights: str) -> Client:
    admin = server.client()
    admin.put(f"/users/{name}", {"password": "pw", "tags": tags})
    admin.put(f"/permissions/{vhost}/{name}", {"configure": "^$", "write": "^$", "read": "^$", **rights})
    return server.client(name, "pw")


def test_a_plan_says_what_applying_it_then_does_and_writes_nothing(client: Client, vhost: str) -> None:
    before = newest(client)
    plan = client.post(f"/plan/{vhost}", REBIND)
    assert (plan.status, plan.json["base"], plan.json["total"]) == (200, before, 2)
    assert plan.json["counts"] == {"created": {"binding": 1}, "deleted": {"binding": 1}}
    assert newest(client) == before
    done = client.post(f"/apply/{vhost}?expected={before}&reason=later", REBIND)
    assert done.json == {"version": before + 1, "changed": True}
    (bound,) = client.get(f"/bindings/{vhost}/e/flights/q/late").json
    assert bound["arguments"] == {"x-filter-jms-selector": "delay >= 90"}
    (version,) = client.get("/topology/versions?limit=1").json["versions"]
    assert (version["reason"], version["author"]) == ("later", "guest")
    # what is so already makes no version
    text = TOPOLOGY.replace("60", "90")
    assert post(client, f"/apply/{vhost}", text).json == {"version": before + 1, "changed": False}


def test_a_change_that_somebody_else_has_overtaken_is_refused_in_words(client: Client, vhost: str) -> None:
    base = client.post(f"/plan/{vhost}", REBIND).json["base"]
    client.put(f"/queues/{vhost}/other", {})
    refused = client.post(f"/apply/{vhost}?expected={base}", REBIND)
    assert (refused.status, refused.json["error"]) == (412, "precondition_failed")
    assert f"the newest version is {base + 1}, not {base}" in refused.json["reason"]
    assert newest(client) == base + 1


def test_every_error_has_its_line_and_column(client: Client, vhost: str) -> None:
    before = newest(client)
    text = TOPOLOGY.replace("delay >= 60", "delay >= AND").replace("name: houston", "nam: houston")
    for path in ("plan", "apply"):
        refused = post(client, f"/{path}/{vhost}", text)
        errors = refused.json["report"]["errors"]
        assert refused.status == 400
        assert {(one["line"], one["column"]) for one in errors} == {(5, 5), (7, 104)}
        assert "did you mean 'name'?" in {one.get("hint") for one in errors}
    broken = post(client, f"/plan/{vhost}", "queues: [")
    assert (broken.status, broken.json["report"]["errors"][0]["line"]) == (400, 1)
    assert newest(client) == before


def test_messages_that_go_with_a_queue_are_counted_before(client: Client, vhost: str) -> None:
    message = {
        "routing_key": "k",
        "properties": {"headers": {"delay": 70}},
        "payload": "",
        "payload_encoding": "string",
    }
    assert client.post(f"/exchanges/{vhost}/flights/publish", message).json == {"routed": True}
    gone = {"delete": {"queues": ["late"]}}
    assert client.post(f"/plan/{vhost}", gone).json["messages"] == [{"vhost": vhost, "queue": "late", "messages": 1}]
    anew = {**gone, "definitions": {"queues": [{"name": "late"}]}}
    plan = client.post(f"/plan/{vhost}", anew).json
    assert plan["emptied"] == [{"vhost": vhost, "name": "late"}]
    client.post(f"/apply/{vhost}", anew)
    assert client.post(f"/queues/{vhost}/late/count", {}).json == {"messages": 0, "waiting": 0}


def test_a_document_needs_what_each_of_its_changes_needs(server: Server, client: Client, vhost: str) -> None:
    """Each kind of object by its own rule, as over its own route; whoever lacks one right changes nothing."""
    binds = user(server, vhost, "binds", write="^late$", read="^flights$")
    configures = user(server, vhost, "configures", configure="^(mine|houston)$")
    makes = user(server, vhost, "makes", tags="policymaker")
    policy = {"policies": [{"name": "p", "pattern": ".", "definition": {"alternate-exchange": "flights"}}]}
    queue = {"queues": [{"name": "mine"}]}
    divert = {"bindery_diverts": [{"name": "d", "source": "flights", "destination": "amq.fanout"}]}
    alternate = {"exchanges": [{"name": "mine", "type": "fanout", "arguments": {"alternate-exchange": "flights"}}]}
    for who, allowed, refused in (
        (
            binds,
            [REBIND],
            [queue, policy, divert, {"delete": {"queues": ["late"]}}, {"delete": {"exchanges": ["flights"]}}],
        ),
        (configures, [queue, {"delete": {"queues": ["houston"]}}], [REBIND, policy, divert, alternate]),
        (
            makes,
            [policy],
            [
                queue,
                {"vhosts": [{"name": vhost, "description": "mine"}]},
                {"global_parameters": [{"name": "g", "value": 1}]},
            ],
        ),
    ):
        for document in refused:
            before = newest(client)
            for path in ("plan", "apply"):
                assert who.post(f"/{path}/{vhost}", document).status == 401, document
            assert newest(client) == before
        for document in allowed:
            assert who.post(f"/plan/{vhost}", document).status == 200, document
    # what a queue that goes takes with it needs no right of its own
    owner = user(server, vhost, "owner", configure="^late$")
    assert owner.post(f"/apply/{vhost}", {"delete": {"queues": ["late"]}}).json["changed"] is True
    # and of a vhost that somebody does not see nothing is told
    assert binds.post(f"/plan/{vhost}", {"queues": [{"name": "x", "vhost": "/"}]}).status == 404


def test_a_vhost_that_a_document_deletes_takes_its_permissions_with_it(server: Server, client: Client) -> None:
    client.put("/vhosts/short", {})
    user(server, "short", "guesting")
    assert client.post("/apply/%2F", {"delete": {"vhosts": ["short"]}}).json["changed"] is True
    client.put("/vhosts/short", {})
    assert [one["user"] for one in client.get("/vhosts/short/permissions").json] == ["guest"]


def test_lint_is_said_of_an_object_and_of_what_leads_there(server: Server, client: Client, vhost: str) -> None:
    client.post(f"/bindings/{vhost}/e/flights/q/houston", {"routing_key": "*.IAH.#"})
    client.post(f"/bindings/{vhost}/e/flights/q/houston", {"routing_key": "UA.IAH"})
    for kind, name in (("queue", "houston"), ("exchange", "flights")):
        said = client.get(f"/lint/{vhost}?kind={kind}&name={name}").json
        assert [(one["code"], one["subject"]["name"]) for one in said["findings"]] == [
            ("BT101", "flights -> houston [UA.IAH]")
        ]
        assert said["rules"]["BT101"][-1].startswith("What to do: ")
    assert client.get(f"/lint/{vhost}?kind=queue&name=late").json["findings"] == []
    objects = [{"kind": "queue", "vhost": vhost, "name": name} for name in ("houston", "late")]
    assert client.post("/lint", {"objects": objects}).json == [
        {**objects[0], "severities": {"error": 0, "warning": 1, "info": 0}}
    ]
    assert user(server, vhost, "elsewhere").post("/lint", {"objects": [{**objects[0], "vhost": "/"}]}).status == 404
    assert client.get(f"/lint/{vhost}?kind=queue").status == 400
    # a change of the vhost is seen at once
    client.delete(f"/queues/{vhost}/houston")
    assert client.post("/lint", {"objects": objects}).json == []


def test_versions_of_one_object_are_found(client: Client, vhost: str) -> None:
    client.put(f"/queues/{vhost}/mine", {})
    for number in range(3):
        client.put(f"/queues/{vhost}/other-{number}", {})
    client.post(f"/bindings/{vhost}/e/flights/q/mine", {"routing_key": "k"})
    client.delete(f"/queues/{vhost}/mine")
    found = client.get(f"/topology/versions?kind=queue&vhost={vhost}&name=mine&limit=3").json
    last, bound, first = ([(one["change"], one["kind"]) for one in version["changes"]] for version in found["versions"])
    assert ("deleted", "queue") in last
    assert (bound, first) == ([("created", "binding")], [("created", "queue")])
    assert found["versions"][2]["changes"][0]["name"] == "mine"
    assert found["looked_back_to"] == found["versions"][-1]["version"]
    assert client.get("/topology/versions?author=nobody").json["versions"] == []
    assert client.get("/topology/versions?author=guest&limit=1").json["versions"][0]["author"] == "guest"
