"""The OpenAPI document: complete, with examples, and true under requests made from it."""

from __future__ import annotations

import base64
import http.client
import re
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error, status_code_conformance

from tests.service.conftest import PASSWORD, USER, Server

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
        assert operation.get("security"), name
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description") or parameter["schema"].get("description"), f"{name} {parameter['name']}"


def test_every_body_has_an_example(document: Any) -> None:
    for path, method, operation in operations(document):
        if "requestBody" in operation:
            content = next(iter(operation["requestBody"]["content"].values()))
            assert "example" in content, f"{method} {path}"


def test_operations_have_names_of_their_own(document: Any) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(names) == len(set(names))


def test_the_document_and_its_page_are_served(server: Server) -> None:
    for path in ("/openapi.json", "/docs"):
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", path)
        assert connection.getresponse().status == 200
        connection.close()


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
    checks = [status_code_conformance, *([] if "/health/" in operation.path else [not_a_server_error])]

    @settings(max_examples=6, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy())
    def run(case: Any) -> None:
        response = case.call(headers={"authorization": AUTHORIZATION}, timeout=30)
        case.validate_response(response, checks=checks)

    run()
