"""Every route of the OpenAPI document with every kind of caller, on objects that exist.

What is expected follows from a few rules: the role that the route needs, whether the caller sees the
vhost, and the permissions on the names that the request touches. Whoever is refused changes no byte of
the data directory and learns nothing of what is in it.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from bindery.router.message import Message
from bindery.store.access import AccessEditor
from tests.service.conftest import PASSWORD, USER, Server
from tests.service.http import Answer
from tests.unit.store.routed import route

pytestmark = pytest.mark.service

#: Every object of the test is named so; an answer to somebody who may not see them never says it.
MARK: Final = "mtx-"
ALL: Final = ("configure", "write", "read")


@dataclass(frozen=True)
class Caller:
    """Somebody who calls: tags, and the permissions that they hold in the vhost (None: none at all)."""

    tags: str = ""
    permissions: tuple[str, ...] | None = None
    password: str | None = "pw"

    def has(self, role: str) -> bool:
        held = {"administrator": ("policymaker", "monitoring"), "": ()}.get(self.tags, ())
        return bool(self.tags) and role in ("management", self.tags, *held)

    @property
    def sees(self) -> bool:
        return self.permissions is not None or self.has("monitoring")


CALLERS: Final = {
    "nobody": Caller(password=None),
    "wrong password": Caller("administrator", ALL, "wrong"),
    "no tag": Caller("", ALL),
    "outsider": Caller("management"),
    "without rights": Caller("management", ()),
    "configures": Caller("management", ("configure",)),
    "writes": Caller("management", ("write",)),
    "reads": Caller("management", ("read",)),
    "does not configure": Caller("management", ("write", "read")),
    "full": Caller("management", ALL),
    "policymaker outside": Caller("policymaker"),
    "policymaker": Caller("policymaker", ()),
    "monitoring": Caller("monitoring"),
    "administrator outside": Caller("administrator"),
    "administrator": Caller("administrator", ALL),
}


@dataclass(frozen=True)
class Rule:
    """What a route needs."""

    role: str = "management"
    permissions: tuple[str, ...] = ()


#: The first expression that matches "METHOD path" is the rule of a route; every other route is for `management`.
RULES: Final = [
    (r"GET /api/jobs", Rule("monitoring")),
    (r"GET /api/status", Rule("monitoring")),
    (r"\w+ /api/(users|audit|permissions|topic-permissions|user-limits|definitions|jobs)", Rule("administrator")),
    (r"\w+ /api/vhosts/\{name}/(topic-)?permissions", Rule("administrator")),
    (r"(PUT|DELETE|POST) /api/(vhosts|vhost-limits|cluster-name|global-parameters)", Rule("administrator")),
    (r"POST /api/(topology|rebalance)", Rule("administrator")),
    (r"GET /api/(topology/versions|canary)", Rule("monitoring")),
    (r"(PUT|POST|DELETE) /api/canary", Rule("administrator")),
    (r"GET (/api/(nodes|feature-flags|deprecated-features)|/metrics)", Rule("monitoring")),
    (r"(PUT|DELETE) /api/(policies|operator-policies|parameters)", Rule("policymaker")),
    (r"POST /api/exchanges/.*/publish", Rule(permissions=("write",))),
    (r"POST /api/queues/.*/get", Rule(permissions=("read",))),
    (r"POST /api/(filters|find)", Rule(permissions=("read",))),
    (r"DELETE /api/queues/.*/contents", Rule(permissions=("read",))),
    (r"POST /api/queues/.*/(count|browse|delete)", Rule(permissions=("read",))),
    (r"POST /api/queues/.*/(rows|snippets)", Rule(permissions=("read",))),
    (r"GET /api/queues/.*/(rows/|table|properties)", Rule(permissions=("read",))),
    (r"POST /api/queues/.*/(move|copy|backfill)", Rule(permissions=("read", "write"))),
    (r"POST /api/queues/.*/rebuild", Rule(permissions=ALL)),
    (r"(PUT|DELETE) /api/(exchanges|queues)/", Rule(permissions=("configure",))),
    (r"(POST|DELETE) /api/bindings/", Rule(permissions=("write", "read"))),
    (r"PUT /api/diverts/", Rule(permissions=ALL)),
    (r"DELETE /api/diverts/", Rule(permissions=("configure",))),
    (r"POST /api/(plan|apply)/", Rule(permissions=("write", "read"))),  # of the binding that the document adds
    (r"POST /api/inbox/", Rule(permissions=("write",))),
    (r"POST /api/unroutable/.*/redrive", Rule(permissions=("write",))),
    (r"GET /api/unroutable/", Rule(permissions=("read",))),
]
#: Routes about one vhost that do not say so in their path.
IN_BODY: Final = {("POST", f"/api/{path}") for path in ("route", "filters", "find", "lint")}
#: What somebody with every right gets where it may be an error all the same: such a job or row does not exist.
OTHERWISE: Final = {
    r"POST /api/jobs$": (400,),
    r"\w+ /api/jobs/\{stream}": (404,),
    r"GET /api/queues/.*/rows/": (200, 404),  # its queue was emptied by an operation before
}
_CHANGE: Final = {"definitions": {"bindings": [{"source": "mtx-x", "destination": "mtx-t", "routing_key": "mtx.key"}]}}
BODIES: Final[dict[str, Any]] = {
    "POST /api/users/bulk-delete": {"users": ["mtx-user"]},
    "PUT /api/exchanges/{vhost}/{name}": {"type": "topic", "durable": True},
    "PUT /api/queues/{vhost}/{name}": {"durable": True},
    "POST /api/queues/{vhost}/{name}/move": {"to": "mtx-t"},
    "POST /api/queues/{vhost}/{name}/copy": {"to": "mtx-t"},
    "PUT /api/diverts/{vhost}/{name}": {"source": "mtx-x", "destination": "mtx-y"},
    "POST /api/inbox/{vhost}": {"exchange": "mtx-x", "routing_key": "k"},
    "POST /api/route": {"vhost": "mtx-v", "message": {"exchange": "mtx-x", "routing_key": "k"}, "queues": ["mtx-q"]},
    "POST /api/find": {"vhost": "mtx-v", "queue": "mtx-q", "key": "mtx.#"},
    "POST /api/filters": {"filter": "a > 1", "vhost": "mtx-v", "queue": "mtx-q"},
    "POST /api/unroutable/{vhost}/redrive": {},
    "PUT /api/topic-permissions/{vhost}/{user}": {"exchange": "mtx-x", "write": ".*", "read": ".*"},
    "POST /api/topology/diff": {"queues": [{"name": "mtx-n", "vhost": "mtx-v", "durable": True}]},
    "POST /api/plan/{vhost}": _CHANGE,
    "POST /api/apply/{vhost}": _CHANGE,
    "POST /api/replay/{vhost}": {"change": _CHANGE},
    "PUT /api/canary/{vhost}": {"change": _CHANGE, "share": 0.5},
    "POST /api/lint": {"objects": [{"kind": "exchange", "vhost": "mtx-v", "name": "mtx-y"}]},
    "POST /api/definitions": {"queues": [{"name": "mtx-n", "vhost": "mtx-v", "durable": True}]},
    "POST /api/definitions/{vhost}": {"queues": [{"name": "mtx-n", "durable": True}]},
    "PUT /api/vhost-limits/{vhost}/{name}": {"value": 1},
    "PUT /api/user-limits/{name}/{limit}": {"value": 1},
    "POST /api/rights/{vhost}": {"names": ["mtx-q"]},
    "POST /api/jobs": {"stream": 1},
    "POST /api/jobs/check": {"text": "stream: 1"},
}
#: What stands for the parameter `name` below a collection.
NAMES: Final = {
    "vhosts": "mtx-v",
    "exchanges": "mtx-x",
    "queues": "mtx-q",
    "diverts": "mtx-d",
    "users": "mtx-user",
    "user-limits": "mtx-user",
    "vhost-limits": "max-queues",
    "policies": "mtx-p",
    "operator-policies": "mtx-p",
    "parameters": "mtx-s",
    "global-parameters": "shared",
    "connections": "mtx-user",
    "rights": "mtx-q",
}


_COMES_LATER = re.compile(r"^lock$|^\.|checkpoint")


class Matrix:
    """A server with the objects, the callers, and a way back to that state."""

    def __init__(self, server: Server) -> None:
        self.server = server
        plane = server.app.state.plane
        self.plane = plane
        admin = Caller("administrator", ALL, PASSWORD)
        for method, path, body in (
            ("PUT", "vhosts/mtx-v", {}),
            ("PUT", "exchanges/mtx-v/mtx-x", {"type": "topic", "durable": True}),
            ("PUT", "exchanges/mtx-v/mtx-y", {"type": "fanout", "durable": True}),
            ("PUT", "queues/mtx-v/mtx-q", {"durable": True}),
            ("PUT", "queues/mtx-v/mtx-t", {"durable": True}),
            ("POST", "bindings/mtx-v/e/mtx-x/q/mtx-q", {"routing_key": "mtx.key"}),
            ("PUT", "diverts/mtx-v/mtx-d", {"source": "mtx-x", "destination": "mtx-y"}),
            ("PUT", "policies/mtx-v/mtx-p", {"pattern": "^mtx", "definition": {"a": 1}}),
            ("PUT", "operator-policies/mtx-v/mtx-p", {"pattern": "^mtx", "definition": {"a": 1}}),
            ("PUT", "parameters/shovel/mtx-v/mtx-s", {"value": {"src-uri": "amqp://u:mtx-secret@h"}}),
            ("PUT", "global-parameters/shared", {"value": 1}),
            ("PUT", "vhost-limits/mtx-v/max-queues", {"value": 100}),
            ("PUT", "users/mtx-user", {"password": "mtx-password", "tags": "management"}),
            ("PUT", "permissions/mtx-v/mtx-user", dict.fromkeys(ALL, "mtx-.*")),
            ("PUT", "topic-permissions/mtx-v/mtx-user", {"exchange": "mtx-x", "write": "mtx", "read": "mtx"}),
            ("PUT", "user-limits/mtx-user/max-channels", {"value": 5}),
            ("PUT", "canary/mtx-v", {"change": _CHANGE, "share": 1, "deliver": False}),
            ("POST", "exchanges/mtx-v/mtx-x/publish", _message("mtx.key")),
            ("POST", "exchanges/mtx-v/mtx-y/publish", _message("mtx-unroutable")),
        ):
            answer = self.send(USER, admin, method, "/api/" + path, body)
            assert answer.status < 300, (path, answer.raw)
        journaled = [Message("mtx-x", "mtx.key")]
        route(plane.data, plane.topologies, journaled, stream="mtx-stream", vhost="mtx-v", journal=True)
        for name, caller in CALLERS.items():
            if caller.password is None:
                continue
            self.send(USER, admin, "PUT", f"/api/users/{_user(name)}", {"password": "pw", "tags": caller.tags})
            if caller.permissions is not None:
                granted = {kind: "mtx-|amq" if kind in caller.permissions else "^$" for kind in ALL}
                self.send(USER, admin, "PUT", f"/api/permissions/mtx-v/{_user(name)}", granted)
        self.version: int = plane.topologies.load().version
        self.access = plane.access.load()

    def send(self, user: str, caller: Caller, method: str, path: str, body: Any = None) -> Answer:
        headers = {}
        if caller.password is not None:
            headers["authorization"] = "Basic " + base64.b64encode(f"{user}:{caller.password}".encode()).decode()
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            connection.request(method, path, None if body is None else json.dumps(body).encode(), headers)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def call(self, name: str, method: str, template: str) -> Answer:
        path = re.sub(r"\{(\w+)}", lambda match: self._value(match[1], method, template), template)
        if (method, template) == ("GET", "/api/topology/diff"):
            path += "?from=0"
        return self.send(_user(name), CALLERS[name], method, path, self._body(method, template))

    def state(self) -> dict[str, tuple[int, int]]:
        """Every file of the data directory, with its size and time, but for locks and checkpoints, which come later."""
        everything = Path(self.plane.data.root).rglob("*")
        found = (path for path in everything if path.is_file() and not _COMES_LATER.search(path.name))
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}

    def restore(self) -> None:
        """Bring back the objects and the users."""
        self.plane.topologies.rollback(self.version, author="test")

        def back(editor: AccessEditor) -> None:
            editor.users = dict(self.access.users)
            editor.permissions = dict(self.access.permissions)
            editor.topic_permissions = dict(self.access.topic_permissions)

        self.plane.access.edit(back, author="test", action="restored")

    def _value(self, parameter: str, method: str, template: str) -> str:
        fixed = {
            "vhost": "mtx-v",
            "user": "mtx-user",
            "source": "mtx-x",
            "kind": "q",
            "destination": "mtx-q",
            "properties_key": "mtx.key",
            "end": "source",
            "component": "shovel",
            "limit": "max-channels",
            "check": "alarms",
            "port": str(self.server.port),
            "protocol": "http",
            "version": "1",
            "stream": "mtx-stream",
        }
        if template == "/api/nodes/{name}":
            return str(self.plane.node)
        if parameter in fixed:
            return fixed[parameter]
        if parameter == "name":
            return NAMES[template.split("/")[2]]
        stated = self.server.app.openapi()["paths"][template][method.lower()]["parameters"]
        (example,) = next(one for one in stated if one["name"] == parameter)["schema"]["examples"]
        return str(example)

    def _body(self, method: str, template: str) -> Any:
        key = f"{method} {template}"
        if key == "POST /api/topology/rollback":
            return {"to": self.version}
        if key in BODIES:
            return BODIES[key]
        operation = self.server.app.openapi()["paths"][template][method.lower()]
        content = operation.get("requestBody", {}).get("content", {})
        return content.get("application/json", {}).get("example")


def _user(name: str) -> str:
    return "caller-" + name.replace(" ", "-")


def _message(key: str) -> dict[str, Any]:
    return {"routing_key": key, "properties": {}, "payload": "mtx-payload", "payload_encoding": "string"}


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    server = Server(tmp_path_factory.mktemp("matrix") / "data", failed_logins=10**9).start()
    yield Matrix(server)
    server.stop()


def expected(method: str, template: str, caller: Caller) -> int | None:
    """The status of a refusal, or None for a request that is to be done."""
    if template.startswith("/healthz"):
        return None  # for everybody
    rule = next((rule for pattern, rule in RULES if re.match(pattern, f"{method} {template}")), Rule())
    if caller.password != "pw" or not caller.has(rule.role):
        return 401
    about_vhost = "{vhost}" in template or template.startswith("/api/vhosts/{name}") or (method, template) in IN_BODY
    if about_vhost and not caller.sees:
        return 404
    return None if set(rule.permissions) <= set(caller.permissions or ()) else 401


def operations(matrix: Matrix) -> list[tuple[str, str]]:
    paths = matrix.server.app.openapi()["paths"]
    return [(method.upper(), template) for template, methods in paths.items() for method in methods]


@pytest.mark.parametrize("name", CALLERS)
def test_every_route_does_what_the_rules_say(matrix: Matrix, name: str) -> None:
    caller = CALLERS[name]
    wrong: list[str] = []
    for method, template in operations(matrix):
        label = f"{name}: {method} {template}"
        refusal = expected(method, template, caller)
        before = matrix.state()
        answer = matrix.call(name, method, template)
        if refusal is not None:
            if answer.status != refusal:
                wrong.append(f"{label}: {answer.status} instead of {refusal} {answer.raw[:100]!r}")
            if matrix.state() != before:
                wrong.append(f"{label}: refused, and something has changed")
            if MARK.encode() in answer.raw:
                wrong.append(f"{label}: refused, and tells {answer.raw[:200]!r}")
        else:
            errors = next((codes for p, codes in OTHERWISE.items() if re.match(p, f"{method} {template}")), None)
            if not (answer.status in errors if errors else answer.status < 400):
                wrong.append(f"{label}: {answer.status}, should have been done {answer.raw[:100]!r}")
            if not caller.sees and MARK.encode() in answer.raw:
                wrong.append(f"{label}: tells of a vhost that the caller does not see {answer.raw[:200]!r}")
            if not caller.has("administrator") and re.search(rb"mtx-(secret|password)|password_hash", answer.raw):
                wrong.append(f"{label}: tells a secret")
            if method == "GET" and matrix.state() != before:
                wrong.append(f"{label}: a GET has changed something")
        if method != "GET" and matrix.state() != before:
            matrix.restore()
    assert not wrong, "\n".join(wrong)


def test_the_rules_cover_routes_that_there_are(matrix: Matrix) -> None:
    """A rule or body for a route that is gone would hide a mistake."""
    labels = [f"{method} {template}" for method, template in operations(matrix)]
    for pattern in (*(pattern for pattern, _ in RULES), *OTHERWISE):
        assert any(re.match(pattern, label) for label in labels), pattern
    assert BODIES.keys() <= set(labels)
    assert len(labels) > 100
