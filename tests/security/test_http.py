"""Hosts, origins, headers, routes and sizes: what is refused before an event reaches the page."""

import json
import socket

import httpx
import pytest

from macd_studio.macd_ui.serving import bodies, routes
from macd_studio.macd_ui.serving.identity import COOKIE, read_cookie, set_cookie
from macd_studio.macd_ui.serving.replies import security_headers
from tests.raw import API, Visitor

EVIL = "http://evil.example"


def raw(store, method="GET", path="/", body=None, **headers):
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    return httpx.request(method, store.url + path, headers=headers, json=body, trust_env=False)


def test_the_gate_is_around_the_page(store):
    """Its rules one by one: test_gate.py."""
    assert raw(store, path="/config", Origin=store.url).status_code == 200
    assert raw(store, Host="localhost:80", Origin="http://localhost:80").status_code == 200
    for path in ("/", "/config", f"{API}/info", f"{API}/file=/etc/passwd", "/nothing"):
        headers = raw(store, path=path).headers
        for name, value in security_headers(False).items():
            assert headers[name] == value
    join = f"{API}/queue/join"
    for method, path in (
        ("GET", "/"),
        ("GET", "/files/x/x.macd"),
        ("POST", join),
        ("OPTIONS", join),
    ):
        body = {} if method == "POST" else None
        for status, asked in ((421, {"Host": "evil.example"}), (403, {"Origin": EVIL})):
            answer = raw(store, method, path, body, **asked, Access_Control_Request_Method="POST")
            assert answer.status_code == status
            assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", [
    f"{API}/proxy=https://example.com", "/proxy=https://example.com", "/monitoring/summary",
    f"{API}/deep_link?session_hash=x", "/gradio_api/vibe-code", f"{API}/runs", "/dev/reload",
    f"{API}/stream/a/b/1/playlist.m3u8", "/docs/openapi", "/openapi.json"])  # fmt: skip
def test_routes_that_the_page_does_not_use_are_closed(store, path):
    assert raw(store, path=path).status_code == 404


@pytest.mark.parametrize("path", ["vibe-edit", "process_recording", "component_server", "stream/x"])
def test_so_are_those_that_change_something(store, path):
    assert raw(store, "POST", f"{API}/{path}", {}).status_code == 404


@pytest.mark.parametrize("path", [
    f"{API}/file=/etc/passwd", f"{API}/file=../../../etc/passwd", f"{API}/file=app.py",
    f"{API}/file/etc/passwd", "/files/../app.py", "/static/../../app.py",
    f"{API}/file=http://example.com/", "/assets/..%2f..%2f..%2fapp.py"])  # fmt: skip
def test_no_file_of_the_server_is_given_away(store, path):
    answer = raw(store, path=path)
    assert answer.status_code in (403, 404, 405), path
    assert "root:" not in answer.text
    assert "import" not in answer.text


def test_the_cookie_is_the_browsers_alone(store):
    told = httpx.get(store.url, trust_env=False).headers["set-cookie"]
    assert told.startswith(f"{COOKIE}=")
    assert "HttpOnly" in told
    assert "SameSite=Lax" in told
    value = told.split("=", 1)[1].split(";")[0]
    assert value not in httpx.get(store.url, cookies={COOKIE: value}, trust_env=False).text
    again = httpx.get(store.url, cookies={COOKIE: value}, trust_env=False)
    assert "set-cookie" not in again.headers
    assert "set-cookie" in httpx.get(store.url, cookies={COOKIE: "x"}, trust_env=False).headers
    space = set_cookie(value, space=True)
    assert all(part in space for part in ("HttpOnly", "SameSite=None", "Secure", "Partitioned"))


@pytest.mark.parametrize("header", [None, "", "macd_visitor=", "macd_visitor=short", "a=b; c",
                                    "macd_visitor=" + "x" * 44, 'macd_visitor="\\n"'])  # fmt: skip
def test_what_is_not_our_cookie_is_none(header):
    assert read_cookie(header) is None


def test_bodies_are_bounded_and_objects(store):
    visitor = Visitor(store.url)

    def post(content):
        return visitor.http.post(
            f"{API}/queue/join", content=content, headers={"content-type": "application/json"}
        )

    assert post(b"[" * 300_000).status_code == 413
    assert post(b'{"data": ' + b"[" * 200_000 + b"]" * 200_000 + b"}").status_code == 413
    assert post(b'{"data": [' + b"[]," * bodies.MOST_CONTAINERS + b"0]}").status_code == 413
    assert post(b"[" * 15_000).status_code == 400
    assert post(b'{"data": ' + b"[" * 15_000 + b"]" * 15_000 + b"}").status_code == 400
    assert post(b"nothing").status_code == 400
    assert post(b"[]").status_code == 400
    assert post(b'{"session_hash": 3}').status_code == 400
    assert post(json.dumps({"session_hash": "x" * 1000}).encode()).status_code == 400
    too_large = post(b" " * (routes.MOST[routes.JSON] + 1))
    assert too_large.status_code == 413
    assert "larger than 1 MB" in too_large.text


def test_a_body_in_pieces_is_bounded_too(store):
    def pieces():
        for _ in range(40):
            yield b" " * 2**16

    answer = Visitor(store.url).http.post(
        f"{API}/queue/join", content=pieces(), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 413


def test_uploads_are_bounded(store, monkeypatch):
    host, port = store.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as plain:  # claims much, sends nothing
        plain.sendall(
            f"POST {API}/upload HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 5000000000\r\n"
            "Content-Type: multipart/form-data; boundary=x\r\n\r\n".encode()
        )
        assert b" 413 " in plain.recv(100)
    monkeypatch.setattr(bodies, "most_of", lambda door, largest_mb: 10_000)
    visitor = Visitor(store.url)
    assert visitor.upload("small.mp4", b"x" * 5000).status_code == 200

    def pieces():
        yield b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n'
        for _ in range(100):
            yield b"x" * 1000
        yield b"\r\n--x--\r\n"

    kind = {"content-type": "multipart/form-data; boundary=x"}
    answer = visitor.http.post(f"{API}/upload", content=pieces(), headers=kind)
    assert answer.status_code == 413
    assert "Cut the clip" in answer.text


def test_a_full_disk_is_told(store, monkeypatch):
    import errno

    import gradio.routes

    visitor = Visitor(store.url)

    async def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", "/secret/place")

    with monkeypatch.context() as patched:
        patched.setattr(gradio.routes, "upload_fn", full)
        answer = visitor.upload("a.mp4", b"x")
        assert answer.status_code == 507
        assert "disk is full" in answer.text
        assert "secret" not in answer.text
    monkeypatch.setattr(bodies, "MIN_FREE", 10**18)
    assert visitor.upload("a.mp4", b"x").status_code == 507
