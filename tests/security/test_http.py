"""Hosts, origins, headers, routes and sizes: what is refused before an event reaches the page."""

import asyncio
import json
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from macd_studio.macd_ui.serving import bodies, gate, routes
from macd_studio.macd_ui.serving.gate import host_name, security_headers
from macd_studio.macd_ui.serving.identity import COOKIE, read_cookie, set_cookie
from macd_studio.macd_ui.settings import ServerSettings
from tests.raw import API, Visitor
from tests.security.conftest import serving

EVIL = "http://evil.example"


def raw(store, method="GET", path="/", body=None, **headers):
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    return httpx.request(method, store.url + path, headers=headers, json=body, trust_env=False)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7860", "127.0.0.1.evil.example",
                                  "192.168.1.7", "[::ffff:8.8.8.8]", "@127.0.0.1"])  # fmt: skip
@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("POST", f"{API}/queue/join"),
                                             ("GET", "/files/example/x.macd")])  # fmt: skip
def test_a_foreign_host_is_refused(store, host, method, path):
    answer = raw(store, method, path, Host=host, Origin=f"http://{host}")
    assert answer.status_code == 421
    assert "--allow-host" in answer.text
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("origin", [EVIL, "null", "http://127.0.0.1:1", "http://localhost",
                                    "file://", "", "http://127.0.0.1.evil.example"])  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_another_sites_page_can_neither_ask_nor_read(store, origin, method):
    path = "/config" if method == "GET" else f"{API}/queue/join"
    answer = raw(store, method, path, {} if method == "POST" else None, Origin=origin,
                 Access_Control_Request_Method="POST")  # fmt: skip
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_the_pages_own_origin_and_allowed_hosts_are_answered(store):
    assert raw(store, path="/config", Origin=store.url).status_code == 200
    assert raw(store, Host="localhost:80", Origin="http://localhost:80").status_code == 200
    with serving(ServerSettings(hosts=("lab.example", "10.0.0.7"))) as named:
        for host in ("lab.example", "LAB.example:443", "10.0.0.7:7860"):
            assert raw(named, Host=host).status_code == 200
        # a proxy that speaks https may ask by another name
        assert raw(named, path="/config", Origin="https://lab.example").status_code == 200
        assert raw(named, path="/config", Origin="http://lab.example").status_code == 403
        assert raw(named, Host="other.example").status_code == 421


def test_names_of_hosts():
    assert host_name("[::1]:7860") == "::1"
    assert host_name("Lab.Example.:80") == "lab.example"
    assert not ServerSettings().allows_host(host_name("[::1].evil.example"))
    assert not ServerSettings().allows_host(host_name(""))


@pytest.mark.parametrize("path", ["/", "/config", "/theme.css", f"{API}/info", "/healthz",
                                  "/files/example/nothing.macd", "/nothing",
                                  f"{API}/file=/etc/passwd"])  # fmt: skip
def test_every_answer_carries_the_headers(store, path):
    headers = raw(store, path=path).headers
    for name, value in security_headers(False).items():
        assert headers[name] == value
    assert "frame-ancestors 'self'" in headers["content-security-policy"]


def test_a_space_may_be_a_frame_of_hugging_face_only():
    headers = security_headers(True)
    assert headers["content-security-policy"].endswith(
        "frame-ancestors 'self' https://huggingface.co"
    )
    assert "x-frame-options" not in headers


@pytest.mark.parametrize("path", [
    f"{API}/proxy=https://example.com", "/proxy=https://example.com", "/monitoring/summary",
    f"{API}/deep_link?session_hash=x", "/gradio_api/vibe-code", f"{API}/runs", "/dev/reload",
    f"{API}/stream/a/b/1/playlist.m3u8", "/docs", "/openapi.json"])  # fmt: skip
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
            f"POST {API}/upload HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 200000000\r\n"
            "Content-Type: multipart/form-data; boundary=x\r\n\r\n".encode()
        )
        assert b" 413 " in plain.recv(100)
    monkeypatch.setitem(routes.MOST, routes.UPLOAD, 10_000)
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


def test_another_site_logs_nobody_out(store):
    for site, status in (("cross-site", 403), ("same-site", 403)):
        assert raw(store, path="/logout", Sec_Fetch_Site=site).status_code == status
    for site in ("same-origin", "none"):
        assert raw(store, path="/logout", Sec_Fetch_Site=site).status_code != 403


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


def test_a_visitor_cannot_claim_another_address(store):
    seen = []
    app = gate.Gate(lambda scope, *_: _note(scope, seen), store)
    headers = [(b"host", b"localhost"), (b"x-macd-visitor", b"1.1.1.1")]
    scope = {"type": "http", "method": "GET", "path": "/config", "query_string": b"",
             "headers": headers, "client": ("127.0.0.1", 1)}  # fmt: skip
    with ThreadPoolExecutor(1) as thread:  # this one may have a browser's event loop
        thread.submit(asyncio.run, app(scope, None, None)).result()
    assert seen == [b"127.0.0.1"]


async def _note(scope, seen):
    seen += [v for k, v in scope["headers"] if k == b"x-macd-visitor"]
