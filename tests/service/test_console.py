"""The console over HTTP: its files and their headers, and a login that no other page can use."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import PASSWORD, USER, Server

pytestmark = pytest.mark.service

CONSOLE = {"x-bindery-console": "asked"}


class Browser:
    """What a browser does with cookies: it keeps the one that it is given."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.cookie: str | None = None

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        sent = {**CONSOLE, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if self.cookie is not None:
            sent["cookie"] = self.cookie
        try:
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            given = {name.lower(): value for name, value in answer.getheaders()}
            if "set-cookie" in given:
                self.cookie = given["set-cookie"].partition(";")[0]
            return answer.status, given, answer.read()
        finally:
            connection.close()

    def log_in(self, name: str = USER, password: str = PASSWORD) -> int:
        return self.ask("POST", "/console/session", {"name": name, "password": password})[0]


@pytest.fixture
def browser(server: Server) -> Browser:
    return Browser(server)


def test_the_page_may_run_its_own_files_and_nothing_else(server: Server, browser: Browser) -> None:
    for path in ("/", "/console/js/main.js", "/console/style.css"):
        status, headers, content = browser.ask("GET", path)
        assert status == 200, path
        rules = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
        assert rules["default-src"] == "'none'"
        assert {rules[f"{kind}-src"] for kind in ("script", "style", "img", "connect")} == {"'self'"}
        assert rules["frame-ancestors"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert b"http://" not in content.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"https://" not in content
        status, _, content = browser.ask("GET", path, if_none_match=headers["etag"])
        assert (status, content) == (304, b"")


def test_files_beside_the_console_are_not_served(browser: Browser) -> None:
    for path in (
        "/console/",
        "/console/none.js",
        "/console/../auth.py",
        "/console/%2e%2e/auth.py",
        "/console/%2E%2E%2Fauth.py",
    ):
        assert browser.ask("GET", path)[0] == 404, path


def test_without_the_console_the_page_and_its_login_are_not_there(tmp_path: Path) -> None:
    hidden = Server(tmp_path / "data", console=False).start()
    try:
        browser = Browser(hidden)
        assert browser.ask("GET", "/")[0] == 302
        assert browser.ask("GET", "/console/js/main.js")[0] == 404
        assert browser.log_in() == 404
    finally:
        hidden.stop()


def test_a_login_lasts_until_it_is_ended(browser: Browser) -> None:
    assert browser.ask("GET", "/console/session")[0] == 204
    assert browser.log_in() == 200
    status, _, content = browser.ask("GET", "/console/session")
    assert (status, json.loads(content)["name"]) == (200, USER)
    assert json.loads(content)["roles"] == ["management", "policymaker", "monitoring", "administrator"]
    assert browser.ask("GET", "/api/whoami")[0] == 200
    cookie = browser.cookie
    status, headers, _ = browser.ask("DELETE", "/console/session")
    assert status == 204
    assert "Max-Age=0" in headers["set-cookie"]
    browser.cookie = cookie
    assert browser.ask("GET", "/api/whoami")[0] == 401, "the token itself has ended, not the cookie alone"


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(browser: Browser, server: Server) -> None:
    _, headers, _ = browser.ask("POST", "/console/session", {"name": USER, "password": PASSWORD})
    name, *rules = [part.strip() for part in headers["set-cookie"].split(";")]
    assert name.startswith(f"bindery-{server.port}=")
    assert {rule.lower() for rule in rules} == {"httponly", "path=/", "samesite=strict"}


def test_with_tls_the_cookie_is_for_this_host_alone(tmp_path: Path) -> None:
    from starlette.requests import Request
    from starlette.responses import Response

    from bindery.api import sessions

    request = Request(
        {
            "type": "http",
            "scheme": "https",
            "server": ("h", 443),
            "path": "/",
            "query_string": b"",
            "headers": [(b"host", b"h")],
        }
    )
    response = Response()
    sessions.keep(request, response, "token")
    name, *rules = [part.strip().lower() for part in response.headers["set-cookie"].split(";")]
    assert name == "__host-bindery-443=token"
    assert set(rules) == {"httponly", "path=/", "samesite=strict", "secure"}


def test_a_cookie_alone_is_no_login(browser: Browser) -> None:
    """Forms, links and images of other pages cannot send the header; scripts of theirs would have to ask first."""
    assert browser.log_in() == 200
    connection = http.client.HTTPConnection("127.0.0.1", browser.server.port, timeout=60)
    connection.request("GET", "/api/whoami", headers={"cookie": browser.cookie or ""})
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("www-authenticate")) == (401, 'Basic realm="RabbitMQ Management"')
    connection.close()


@pytest.mark.parametrize(
    "headers", [{"origin": "http://evil.example"}, {"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "same-site"}]
)
def test_changes_from_another_origin_are_refused(browser: Browser, headers: dict[str, str]) -> None:
    assert browser.log_in() == 200
    for method, path, body in (
        ("PUT", "/api/queues/%2F/csrf", {}),
        ("POST", "/console/session", {"name": USER, "password": PASSWORD}),
        ("DELETE", "/console/session", None),
    ):
        assert browser.ask(method, path, body, **headers)[0] == 403, (method, path)
    assert browser.ask("GET", "/api/queues/%2F/csrf")[0] == 404


def test_an_ended_session_is_no_reason_for_a_browser_to_ask_for_a_password(browser: Browser) -> None:
    browser.cookie = "bindery=old"
    status, headers, content = browser.ask("GET", "/api/whoami")
    assert (status, content) == (401, b"")
    assert "www-authenticate" not in headers
    status, headers, _ = browser.ask("POST", "/console/session", {"name": USER, "password": "wrong"})
    assert status == 401
    assert "www-authenticate" not in headers


def test_wrong_logins_are_refused_and_slowed_down(tmp_path: Path) -> None:
    alone = Server(tmp_path / "data", failed_logins=2, failed_login_pause=60.0).start()
    try:
        browser = Browser(alone)
        assert browser.ask("POST", "/console/session", {"name": USER})[0] == 400
        assert [browser.log_in(USER, "wrong") for _ in range(3)] == [401, 401, 429]
        assert browser.log_in() == 429
        assert browser.cookie is None
    finally:
        alone.stop()


def test_a_login_needs_the_page_and_a_tag(browser: Browser, server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/console/session", json.dumps({"name": USER, "password": PASSWORD}))
    assert connection.getresponse().status == 400
    connection.close()
    assert server.client().put("/users/tagless", {"password": "pw", "tags": ""}).status in (201, 204)
    assert browser.log_in("tagless", "pw") == 401


def test_a_changed_password_ends_the_sessions_that_began_with_the_old_one(browser: Browser, server: Server) -> None:
    server.client().put("/users/changing", {"password": "old", "tags": "management"})
    assert browser.log_in("changing", "old") == 200
    assert browser.ask("GET", "/api/whoami")[0] == 200
    server.client().put("/users/changing", {"password": "new", "tags": "management"})
    assert browser.ask("GET", "/api/whoami")[0] == 401


def test_rights_are_those_that_the_api_goes_by(server: Server) -> None:
    client = server.client()
    client.put("/users/reader", {"password": "pw", "tags": "management"})
    client.put("/permissions/%2F/reader", {"configure": "^c", "write": "", "read": "^(a|c)"})
    reader = server.client("reader", "pw")
    assert reader.get("/rights/%2F/a").json == {"configure": False, "write": False, "read": True}
    assert reader.get("/rights/%2F/cat").json == {"configure": True, "write": False, "read": True}
    assert reader.get("/rights/none/cat").status == 404


def test_the_status_is_for_those_who_monitor(server: Server) -> None:
    client = server.client()
    assert set(client.get("/status").json) == {"data", "topology", "streams", "canaries", "held"}
    client.put("/users/plain", {"password": "pw", "tags": "management"})
    assert server.client("plain", "pw").get("/status").status == 401
