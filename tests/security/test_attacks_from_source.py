"""Attacks by somebody who has read the source: where two parsers may read one request differently.

What holds for each: nothing comes back that only users or other visitors may have, no error is
unexplained, and the server goes on.
"""

import json
import re
import socket

import pytest

from macd_studio.macd_ui.serving.identity import COOKIE
from macd_studio.macd_ui.serving.passwords import hash_password
from macd_studio.macd_ui.settings import ServerSettings
from tests.patience import PATIENCE_S
from tests.raw import API, Visitor
from tests.security.conftest import serving
from tests.security.test_sessions import clip

REFUSED = {400, 401, 403, 404, 405, 413, 415, 421, 422, 429}


def sent(store, text, ends=False):
    """Statuses of the answers to raw bytes, and all that came back. ends: nothing follows."""
    host, port = store.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as plain:
        plain.sendall(text.replace("HOST", f"{host}:{port}").encode("latin-1"))
        if ends:
            plain.shutdown(socket.SHUT_WR)
        with plain.makefile("rb") as answer:
            back = answer.read()
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", back)], back


def long(value):
    """The gate takes it the same way as the first one, so the long suite alone tries it."""
    return pytest.param(value, marks=pytest.mark.long)


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """A public server for users alone."""
    users = tmp_path_factory.mktemp("locked") / "users"
    users.write_text(f"ada:{hash_password('correct horse')}\n")
    with serving(ServerSettings(auth=str(users), public=True)) as server:
        yield server


EXAMPLE = "/files/example/repaired.macd"
SPELLINGS = [
    f"{EXAMPLE}",
    f"/{EXAMPLE}",
    "/files//example/repaired.macd",
    "/files/example%2frepaired.macd",
    "/%66iles/example/repaired.macd",
    "/FILES/example/repaired.macd",
    f"/.{EXAMPLE}",
    f"/x/..{EXAMPLE}",
    f"{EXAMPLE}/",
    f"{EXAMPLE};x",
    f"{EXAMPLE}%00",
    f"/login/..{EXAMPLE}",
    f"/assets/..{EXAMPLE}",
    f"/assets/%2e%2e{EXAMPLE}",
    "/static/..%2f..%2ffiles/example/repaired.macd",
    "/config",
    "/config/",
    "/config%20",
    "//config",
    "/%63onfig",
    "/config?x=/login",
    "/login?/config",
    f"{API}/info",
    f"/{API}/info",
    f"{API}//info",
    f"{API}/%69nfo",
    "/gallery",
    "/gallery/",
    "/docs/page.md",
    "/learn/",
    "/source.zip",
    f"{API}/file=README.md",
    f"{API}/file%3DREADME.md",
]


@pytest.mark.parametrize("path", SPELLINGS)
@pytest.mark.parametrize("form", ["{path}", long("http://HOST{path}"),
                                  long("http://evil.example{path}")])  # fmt: skip
def test_no_spelling_of_an_address_passes_the_login(locked, path, form):
    target = form.format(path=path)
    codes, back = sent(locked, f"GET {target} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n")
    assert codes, back[:200]
    page = path.startswith(("/login",)) or codes == [200]
    assert set(codes) <= REFUSED | ({200, 307} if page else set()), (codes, back[:300])
    for secret in (
        b"PK\x03\x04",
        b'"dependencies":[{',
        b'gradio_api/upload": {',
        b"MACD Studio opens",
    ):
        assert secret not in back


@pytest.mark.parametrize(
    "headers",
    [
        "X-Forwarded-For: 127.0.0.1",
        "X-Forwarded-Prefix: /login",
        "X-Original-URL: /login",
        "X-Rewrite-URL: /login",
        "X-HTTP-Method-Override: GET",
        "Authorization: Basic YWRhOng=",
        "X-Forwarded-User: ada",
        "Remote-User: ada",
        "X-Macd-Visitor: ada",
        "Cookie: access-token=x; access-token-unsecure=x",
        "Cookie: access-token-=None",
    ],
)
def test_no_header_passes_the_login(locked, headers):
    codes, _ = sent(
        locked, f"GET /config HTTP/1.1\r\nHost: HOST\r\n{headers}\r\nConnection: close\r\n\r\n"
    )
    assert codes == [401]


@pytest.mark.parametrize(
    "head",
    [
        "Host: HOST\r\nHost: evil.example",
        "Host: evil.example\r\nHost: HOST",
        "Host: HOST evil.example",
        "Host: HOST,evil.example",
        "Host:",
        "X: y",
        "Host: evil.example#HOST",
        "Host: HOST@evil.example",
        "Host: evil.example\r\nX-Forwarded-Host: HOST",
        "Host: localhost.evil.example",
        " Host: HOST",
        "Host : HOST",
        "host: HOST\r\n HOST",
    ],
)
def test_one_known_host_or_nothing(store, head):
    codes, back = sent(store, f"GET /config HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n")
    assert b'"dependencies"' not in back
    assert set(codes) <= REFUSED, (codes, back[:200])


BODY = '{"data":[],"session_hash":"x","fn_index":0}'


@pytest.mark.parametrize(
    "head",
    [
        f"Content-Length: {len(BODY)}\r\nTransfer-Encoding: chunked",
        f"Transfer-Encoding: chunked\r\nContent-Length: {len(BODY)}",
        f"Content-Length: {len(BODY)}\r\nContent-Length: 3",
        "Content-Length: -1",
        "Content-Length: +5",
        "Content-Length: 0x10",
        "Content-Length: 5, 5",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding:\tchunked,chunked",
        "Content-Length: 99999999999999999999",
        "Expect: 200-maybe\r\nContent-Length: 0",
    ],
)
def test_a_body_whose_length_is_told_twice_smuggles_nothing(store, head):
    after = "GET /config HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    text = (
        f"POST {API}/queue/join HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
        f"{head}\r\n\r\n0\r\n\r\n{after}{BODY}"
    )
    codes, back = sent(store, text, ends=True)
    assert set(codes) <= REFUSED, (codes, back[:300])
    assert b'"dependencies"' not in back


VALUES = [
    '{"data":[NaN],"fn_index":0}',
    '{"data":[1e400,-1e400],"fn_index":0}',
    '{"fn_index":0}',
    '{"data":{},"fn_index":0}',
    '{"data":null,"fn_index":0}',
    '{"data":"x","fn_index":0}',
    '{"data":[],"fn_index":true}',
    '{"data":[],"fn_index":0.0}',
    '{"data":[],"fn_index":"0"}',
    '{"data":[],"fn_index":-1}',
    '{"data":[],"fn_index":[0]}',
    '{"data":[],"fn_index":1e9}',
    '{"data":[],"fn_index":0,"fn_index":10000}',
    '{"data":["\\ud800"],"fn_index":0}',
    '{"data":["\\u0000"],"fn_index":0}',
    '{"data":[' + "9" * 5000 + '],"fn_index":0}',
    '{"data":[' + "[" * 5000 + "]" * 5000 + '],"fn_index":0}',
    '{"data":[' + ",".join(["0"] * 99_000) + '],"fn_index":0}',
    '{"data":[' + ",".join(["0"] * 101_000) + '],"fn_index":0}',
    '{"data":[{"path":["/etc/passwd"]}],"fn_index":0}',
    '{"data":[{"path":{"path":"/etc/passwd"}}]}',
    '{"data":[{"meta":{"_type":"gradio.FileData"}}],"fn_index":0}',
    '{"data":[{"__type__":"update","value":"x"}],"fn_index":0}',
    '{"data":[{"is_file":true,"name":"/etc/passwd"}],"fn_index":0}',
    '{"data":[],"fn_index":0,"simple_format":true,"batched":true,"request":{"user":"ada"}}',
    '{"data":[],"fn_index":0,"event_id":"../x","trigger_id":"x","event_data":{"path":"/etc/passwd"}}',
    '{"data":[],"fn_index":0,"session_hash":["x"]}',
    '{"data":[],"fn_index":0,"session_hash":""}',
    "\ufeff{}",
    "{}{}",
    "[]",
    "0",
    '"x"',
    "",
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: v[:40])
@pytest.mark.parametrize("path", ["queue/join", *map(long, ("run/open", "call/open", "cancel",
                                                           "call/v2/open"))])  # fmt: skip
def test_no_json_breaks_an_event(store, value, path):
    store.quota._uses.clear()
    visitor = Visitor(store.url, cookies=False)
    answer = visitor.http.post(
        f"{API}/{path}",
        content=value.encode("utf-8", "surrogatepass"),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code in REFUSED | {200, 503}
    assert "Traceback" not in answer.text
    assert "root:" not in answer.text


def test_a_key_that_leaked_is_nobodys(store):
    """The keys of sessions, and of the cookies in them, open nothing to another browser."""
    owner, thief = Visitor(store.url), Visitor(store.url)
    owner.send("upload", video=clip(owner))
    keys = [s.key for s in store.sessions._by_key.values()]
    assert keys
    before = len(store.sessions._by_key)
    for key in keys:
        thief.hash = key
        with thief.stream() as lines:
            assert "session_not_found" in next(line for line in lines if line.startswith("data"))
        body = {"session_hash": key, "fn_index": 0, "event_id": "x"}
        thief.http.post(f"{API}/cancel", json=body)
    assert len(store.sessions._by_key) == before
    assert all(s.left_at is None for s in store.sessions._by_key.values() if s.key in keys)


@pytest.mark.parametrize("hashes", [("a", "b"), ("a", "a"), ("", "a"), ("a", ""), ("a" * 200, "b")])
def test_two_hashes_in_one_address_open_nobodys_stream(store, hashes):
    query = "&".join(f"session_hash={h}" for h in hashes)
    answer = Visitor(store.url).http.get(f"{API}/queue/data?{query}")
    assert answer.status_code in {200, 400}
    assert "session_not_found" in answer.text or answer.status_code == 400


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "..\\..\\x",
        "a\x00b",
        "\u202egpj.exe",
        "x" * 5000,
        ".",
        "..",
        "CON",
        "a/b/c.mp4",
        "~/.bashrc",
        "%2e%2e%2fx",
        "-rf",
        "\u0000",
        "a\r\nX: y",
        "\ud7ff",
    ],
)
def test_no_name_of_an_upload_leaves_its_folder(store, name):
    visitor = Visitor(store.url)
    answer = visitor.upload(name, b"x")
    assert answer.status_code in {200, 400, 413}, answer.text
    if answer.status_code == 200:
        (path,) = answer.json()
        assert path.startswith(str(store.uploads.folder) + "/")
        assert "/../" not in path
        answer = visitor.http.get(f"{API}/file={path}")
        assert answer.status_code in {403, 404} or answer.content == b"x"


@pytest.mark.parametrize(
    "cookie",
    [
        f"{COOKIE}=x",
        f"{COOKIE}=" + "A" * 43,
        f"{COOKIE}=" + "A" * 10_000,
        f"{COOKIE}=a; {COOKIE}=b",
        f'{COOKIE}="{"A" * 43}"',
        f"{COOKIE}",
        "=",
        ";;;",
        "a" * 60_000,
    ],
)
def test_no_cookie_breaks_a_request(store, cookie):
    codes, back = sent(
        store,
        f"GET /config HTTP/1.1\r\nHost: HOST\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n",
    )
    assert codes in ([200], [400], [431])
    assert (
        json.loads(back.split(b"\r\n\r\n", 1)[1] or b"{}") is not None if codes == [200] else True
    )


def test_the_server_goes_on_after_all_of_it(store, locked):
    for server in (store, locked):
        assert Visitor(server.url).http.get("/healthz").json()["status"] == "ok"
