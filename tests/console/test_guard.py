"""Who may ask the console at all, and what its answers carry. No cluster is needed for that."""

import contextlib
import socket

import pytest

from support.console import ConsoleProcess


def closed_port():
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture(scope="module")
def console():
    with ConsoleProcess("-b", f"127.0.0.1:{closed_port()}", "--timeout", "1s") as running:
        yield running


def test_answers_keep_browsers_strict(console):
    status, _, headers = console.ask("GET", "/api/session")
    assert status == 200
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "10.0.0.1", "", "[::1"])
def test_names_that_only_point_here_are_refused(console, host):
    status, document, headers = console.ask("GET", "/api/session", Host=host)
    assert status == 421
    assert "127.0.0.1" in document["try"]
    assert "content-security-policy" in headers


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1234", "[::1]:80"])
def test_names_of_this_machine_are_welcome(console, host):
    assert console.get("/api/session", Host=host)[0] == 200


def test_pages_of_others_may_not_ask(console):
    assert console.get("/api/session", Origin="http://evil.example")[0] == 403
    assert console.get("/api/session", Origin="null")[0] == 403
    own = f"http://127.0.0.1:{console.connect().port}"
    assert console.get("/api/session", Origin=own)[0] == 200


def test_a_change_needs_the_header_that_no_foreign_page_can_send(console):
    body = {"name": "orders"}
    assert console.post("/api/topics", body, X_Tidelog_Csrf="guessed")[0] == 403
    assert console.post("/api/topics", body, Content_Type="text/plain")[0] == 415
    assert console.post("/api/login", {"user": "a", "password": "b"}, X_Tidelog_Csrf="")[0] == 403


def test_bodies_have_a_length_and_it_is_small(console):
    assert console.post("/api/topics", {}, Content_Length="999999999")[0] == 413
    assert console.post("/api/topics", {}, Transfer_Encoding="chunked")[0] == 411


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/nothing.js", "/static/x.py"]
)
def test_only_pages_are_served_from_the_disk(console, path):
    assert console.get(path)[0] == 404
    assert "import" not in str(console.get(path)[1])


def test_a_cluster_that_is_not_there_is_said_so(console):
    status, document = console.get("/api/overview")
    assert status == 502
    assert "cannot be reached" in document["error"]


def test_off_loopback_everything_needs_the_token():
    with ConsoleProcess("-b", "127.0.0.1:1", "--host", "0.0.0.0") as console:
        page, _, token = console.url.partition("?token=")
        assert token
        for path in ("/", "/api/session", "/static/app.js"):
            assert console.get(path)[0] == 401
        assert console.get("/?token=wrong")[0] == 401
        assert console.get("/api/session", Authorization=f"Bearer {token}")[0] == 200
        status, _, headers = console.ask("GET", f"/?token={token}&tab=1")
        assert (status, headers["location"]) == (303, "/?tab=1")
        assert "HttpOnly" in headers["set-cookie"]
        assert "SameSite=strict" in headers["set-cookie"]
        cookie = headers["set-cookie"].partition(";")[0]
        assert console.get("/api/session", Cookie=cookie)[0] == 200
        assert page.endswith("/")
