"""Hosts, origins, headers, routes and sizes: what is refused before an event reaches the page."""

import json
from pathlib import Path

import httpx
import pytest

from macd_studio.macd_ui.serving import bodies, routes
from macd_studio.macd_ui.serving.identity import COOKIE, read_cookie, set_cookie
from macd_studio.macd_ui.serving.replies import security_headers
from tests.raw import API, Visitor
from tests.security.conftest import get

ROOT = Path(__file__).parents[2]
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


PATHS = [
    *(f"{API}/file={p}" for p in ("/etc/passwd", "%2fetc%2fpasswd", "http://127.0.0.1:1/", "app.py",
                                  "//other.example/x", "../../etc/passwd")),
    *(f"/{r}/{p}" for r in ("docs", "static", "assets", "svelte", "learn", "gallery", "t",
                            "files/example")
      for p in ("..%2f..%2fapp.py", "%2fetc%2fpasswd", "..%5c..%5capp.py")),
    "/docs/page.md%00.png", "/files/example/app.py", "/files/example/repaired.mp4",
    "/files/../app.py", "/static/../../app.py",
    *(f"{API}/{p}" for p in ("file/etc/passwd", "proxy=http://127.0.0.1:1/", "runs",
                             "stream/a/b/c/playlist.m3u8",
                             "component_server", "deep_link?session_hash=x", "vibe-code",
                             "monitoring", "monitoring/summary", "dev/reload", "token", "mcp",
                             "mcp/sse", "custom_component/x/client/component/index.js", "skills")),
    "/proxy=http://127.0.0.1:1/", "/file=/etc/passwd", "/openapi.json", "/docs/openapi", "/redoc",
    "/monitoring/summary", "/dev/reload",
    "/login/huggingface", "/rate", "/organise", "/rate/api/session", "/organise/api/state",
    "/organise/api/export", "/results/", "/gallery/x", "/t/zz", "/t/" + "a" * 65, "//config",
    "/CONFIG",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_file_of_the_server_is_given_away(public, path):
    """Nor is there anything at addresses that the page does not use."""
    status, answer = get(public, path)
    if status == 307:  # a folder of the page itself, whatever comes behind it
        place = answer.split(b"location: ", 1)[1].split(b"\r\n", 1)[0].decode()
        assert place.startswith(public.url) or ":" not in place
        status, answer = get(public, "/" + place.removeprefix(public.url).lstrip("/"))
    assert status in (403, 404)
    assert len(answer) < 4_000  # a page with links to what there is
    for leak in (b"Traceback", b"site-packages", b"root:x:", b"import", str(ROOT).encode()):
        assert leak not in answer


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
    assert post(b'{"data": [' + b"[]," * bodies.MAX_CONTAINERS + b"0]}").status_code == 413
    assert post(b"[" * 15_000).status_code == 400
    assert post(b'{"data": ' + b"[" * 15_000 + b"]" * 15_000 + b"}").status_code == 400
    assert post(b"nothing").status_code == 400
    assert post(b"[]").status_code == 400
    assert post(b'{"session_hash": 3}').status_code == 400
    assert post(json.dumps({"session_hash": "x" * 1000}).encode()).status_code == 400
    too_large = post(b" " * (routes.MOST[routes.JSON] + 1))
    assert too_large.status_code == 413
    assert "larger than 1 MB" in too_large.text


def test_uploads_are_bounded(store, monkeypatch):
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
