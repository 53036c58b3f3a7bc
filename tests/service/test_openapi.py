"""The OpenAPI document: complete, with examples, and true under requests made from it."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from jsonschema_rs import Draft202012Validator
from schemathesis.checks import not_a_server_error, response_schema_conformance, status_code_conformance

from tests.service.conftest import PASSWORD, USER, Server
from tests.service.http import Answer
from tests.service.test_access_matrix import Caller, Matrix
from tests.unit.store.routed import refuse

pytestmark = pytest.mark.service

AUTHORIZATION = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


@schemathesis.serializer("application/x-ndjson", "application/vnd.apache.arrow.stream")
def _as_it_is(_context: Any, value: Any) -> bytes:
    """Bodies that are no JSON document are sent as any bytes."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@pytest.fixture(scope="module")
def document(server: Server) -> Any:
    return server.app.openapi()


def operations(document: Any) -> list[tuple[str, str, Any]]:
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_route_is_documented(server: Server, document: Any) -> None:
    described = {(path, method.upper()) for path, method, _ in operations(document)}
    for route in server.app.router.routes:
        if not getattr(route, "include_in_schema", False):
            continue
        path = re.sub(r":\w+}", "}", route.path)
        assert {(path, method) for method in route.methods} <= described


def test_every_operation_says_what_it_does(document: Any) -> None:
    for path, method, operation in operations(document):
        name = f"{method} {path}"
        assert operation.get("summary"), name
        assert operation.get("description"), name
        assert operation.get("tags"), name
        assert operation.get("security") or path.startswith("/healthz"), name
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description") or parameter["schema"].get("description"), f"{name} {parameter['name']}"


def test_every_body_has_an_example(document: Any) -> None:
    for path, method, operation in operations(document):
        if "requestBody" in operation:
            content = next(iter(operation["requestBody"]["content"].values()))
            assert "example" in content, f"{method} {path}"


def _references(schema: Any) -> Iterator[str]:
    match schema:
        case {"$ref": str(reference)}:
            yield reference
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _references(inner)
    if isinstance(schema, dict) and isinstance(schema.get("discriminator"), dict):
        yield from schema["discriminator"].get("mapping", {}).values()


def test_every_reference_leads_to_a_schema(document: Any) -> None:
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    found = set(_references(document))
    assert found <= known
    assert "#/components/schemas/QueueSource" in found
    assert "$defs" not in json.dumps(document)


def test_texts_name_specifications_by_their_own_names(document: Any) -> None:
    assert not re.search(r"seeds? \d", json.dumps(document))


def test_every_answer_has_a_schema_or_no_body(document: Any) -> None:
    for path, method, operation in operations(document):
        for status, described in operation["responses"].items():
            if not status.startswith("2"):
                continue
            name = f"{method} {path} {status}"
            if status in ("201", "204"):
                assert "content" not in described, name
            else:
                (schema,) = (content["schema"] for content in described["content"].values())
                assert _says_something(schema, document), name


def _says_something(schema: Any, document: Any) -> bool:
    """Whether a schema narrows what may be answered, down to what lists and references are of."""
    match schema:
        case {"$ref": str(reference)}:
            return _says_something(document["components"]["schemas"][reference.rpartition("/")[2]], document)
        case {"anyOf": list(choices)}:
            return all(_says_something(choice, document) for choice in choices)
        case {"type": "array"}:
            return schema.get("maxItems") == 0 or _says_something(schema.get("items", {}), document)
        case {"type": "object"}:
            return bool(schema.get("properties") or schema.get("additionalProperties"))
    return "type" in schema


#: Objects whose fields the service gives, each of them in one answer or another of the test below.
_SHOWN = (
    *("BindingItem", "DivertItem", "ExchangeItem", "PolicyItem", "QueueItem", "VhostItem", "OverviewItem"),
    *("UserItem", "PermissionItem", "TopicPermissionItem", "ParameterItem", "GlobalParameterItem"),
    *("VhostLimitsItem", "UserLimitsItem", "WhoAmI", "Health", "Capabilities", "Versions", "Explained"),
    *("Planned", "Applied", "Replayed", "LintMarks", "FoundMessages", "FoundMessage"),
    *(
        "Backfilled",
        "BackfilledStream",
        "Rebuilt",
        "GotMessage",
        "Routed",
        "Ingested",
        "MessageTotals",
        "BackingQueueStatus",
    ),
)


def test_answers_are_what_the_document_says(tmp_path: Path) -> None:
    """Every GET, and every POST that answers a document, on objects that exist; with columns and pages, too.

    An answer has no field that the document does not name, and every named field stands in some answer.
    """
    running = Server(tmp_path / "data", failed_logins=10**9).start()
    try:
        matrix = Matrix(running)
        document = running.app.openapi()
        fields = {name: set(document["components"]["schemas"][name]["properties"]) for name in _SHOWN}
        seen: set[str] = set()
        wrong: list[str] = []

        def judge(label: str, operation: Any, answer: Answer) -> None:
            assert answer.status == 200, f"{label}: {answer.status} {answer.raw!r}"
            schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
            whole = {**schema, "components": document["components"]}
            wrong.extend(
                f"{label}: {error.message[:300]}" for error in Draft202012Validator(whole).iter_errors(answer.json)
            )
            seen.update(_names(answer.json))

        for path, method, operation in operations(document):
            skipped = path.startswith(("/metrics", "/api/jobs/"))
            if skipped or "200" not in operation["responses"] or (method, path) == ("post", "/api/topology/rollback"):
                continue
            label = f"{method} {path}"
            if path.startswith("/api/canary/"):
                matrix.restore()  # of each vhost one runs, or none
            judge(label, operation, matrix.call("administrator", method.upper(), path))
            if any(parameter["name"] == "page" for parameter in operation.get("parameters", ())) and "{" not in path:
                for query in ("?page=1", "?columns=name", "?page=1&columns=vhost&disable_stats=true"):
                    judge(label + query, operation, matrix.send(USER, Caller("", (), PASSWORD), "GET", path + query))
        # a record that never was a message is answered in a way of its own
        plane = running.app.state.plane
        refuse(plane.data, plane.topologies, [{"detail": "n: 'NA' is not INT; set nullValue", "raw": b"NA"}])
        answer = running.client().post("/route", {"vhost": "/", "row": "s:0:0"})
        judge("post /api/route of a refused record", document["paths"]["/api/route"]["post"], answer)
        for path, asked in (("route", {"vhost": "mtx-v", "text": "{}", "reach": "mtx-q"}), ("find", {})):
            answer = running.client().post(f"/{path}", asked)
            judge(f"post /api/{path} of {asked}", document["paths"][f"/api/{path}"]["post"], answer)
        running.client().put("/vhosts/of-a-broker", {"compat": "rabbitmq-3"})  # a vhost has a mode where it states one
        path = "/api/vhosts/{name}"
        judge(f"get {path} of a mode", document["paths"][path]["get"], running.client().get("/vhosts/of-a-broker"))
        assert not wrong, "\n".join(wrong)
        assert {name: known - seen for name, known in fields.items() if known - seen} == {}
    finally:
        running.stop()


def _names(content: Any) -> Iterator[str]:
    """Every name of a field, at any depth."""
    if isinstance(content, dict):
        yield from content
    for inner in content.values() if isinstance(content, dict) else content if isinstance(content, list) else ():
        yield from _names(inner)


def test_operations_have_names_of_their_own(document: Any) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(names) == len(set(names))


def test_the_document_and_its_page_are_served(server: Server) -> None:
    assert ask(server, "/openapi.json")[0] == 200
    status, headers, page = ask(server, "/docs")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    for path, method, operation in operations(server.app.openapi()):
        assert f'<details id="{operation["operationId"]}"><summary><b>{method.upper()}</b> <code>{path}</code>' in page


def test_the_page_runs_nothing_and_loads_nothing(server: Server) -> None:
    _, headers, page = ask(server, "/docs")
    found = Page(page)
    assert not found.tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    assert {url for url in found.urls if not url.startswith("#")} == {"openapi.json"}
    assert {url[1:] for url in found.urls if url.startswith("#")} <= found.names
    allowed = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    style = base64.b64encode(hashlib.sha256(found.style.encode()).digest()).decode()
    assert (allowed["default-src"], allowed["style-src"]) == ("'none'", f"'sha256-{style}'")


def test_where_everything_begins(server: Server, tmp_path: Path) -> None:
    status, headers, _ = ask(server, "/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8"), "the console"
    bare = Server(tmp_path / "bare", console=False).start()
    try:
        status, headers, _ = ask(bare, "/")
        assert (status, headers["location"]) == (302, "docs")
    finally:
        bare.stop()
    hidden = Server(tmp_path / "data", console=False, docs=False).start()
    try:
        status, _, body = ask(hidden, "/")
        assert (status, json.loads(body)["links"]["health"]) == (200, "healthz")
        assert ask(hidden, "/docs")[0] == ask(hidden, "/openapi.json")[0] == 404
    finally:
        hidden.stop()


def ask(server: Server, path: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, headers, response.read().decode()
    finally:
        connection.close()


class Page(HTMLParser):
    """The tags, names, addresses and style of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.urls: set[str] = set()
        self.style = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attributes:
            assert name in ("id", "href", "lang", "charset"), name
            if name in ("id", "href"):
                (self.names if name == "id" else self.urls).add(value or "")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "style" and not self.style:
            self.style = data


def test_requests_made_from_the_document_never_break_the_server(tmp_path: Path) -> None:
    """Bounded: a few examples per operation, positive and negative; no answer may be 5xx."""
    running = Server(tmp_path / "data", failed_logins=1_000_000).start()
    try:
        schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{running.port}/openapi.json")
        keep = ("/api/users/{name}", "/api/users/bulk-delete", "/api/definitions", "/api/permissions/{vhost}/{user}")
        for found in schema.get_all_operations():
            operation = found.ok()
            if operation.method.upper() != "GET" and operation.path in keep:
                continue  # could take away the rights of the user who asks
            _exercise(operation)
    finally:
        running.stop()


def _exercise(operation: Any) -> None:
    # a health check that fails says so with 503
    checks = [
        status_code_conformance,
        response_schema_conformance,
        *([] if "/health" in operation.path else [not_a_server_error]),
    ]

    @settings(max_examples=6, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy())
    def run(case: Any) -> None:
        response = case.call(headers={"authorization": AUTHORIZATION}, timeout=30)
        case.validate_response(response, checks=checks)

    run()
