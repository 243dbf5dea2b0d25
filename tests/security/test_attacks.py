"""Attacks by somebody who knows HTTP and has read the source.

What holds for each does not depend on the speed of the machine: status codes, bytes, files, records
of the log, counts of /healthz. Nothing comes back that only users or other visitors may have.
"""

import io
import json
import logging
import os
import re
import zipfile
from pathlib import Path

import httpx
import pytest

from macd_studio.macd_ui.serving.identity import COOKIE
from macd_studio.macd_ui.settings import ServerSettings
from tests.patience import PATIENCE_S
from tests.raw import API, Visitor, words
from tests.security.conftest import exchanged, get, serving
from tests.security.test_sessions import clip

EXAMPLES = Path(__file__).parents[2] / "assets" / "examples"
JSON = {"content-type": "application/json"}
LEAKS = (b"Traceback", b"site-packages", b"root:x:", str(Path(__file__).parents[2]).encode())
REFUSED = {400, 401, 403, 404, 405, 413, 415, 421, 422, 429}


def long(value):
    """The gate takes it the same way as the first one, so the long suite alone tries it."""
    return pytest.param(value, marks=pytest.mark.long)


@pytest.fixture(scope="module")
def attacker(public):
    """A visitor with a cookie, who loaded the page once."""
    return Visitor(public.url)


def health(public):
    """What the server tells the programs of its own machine."""
    return httpx.get(f"{public.url}/healthz", timeout=PATIENCE_S, trust_env=False).json()


def files(attacker):
    """The files of all uploads that are on the disk."""
    mine = Path(attacker.upload("mine.mp4", b"mine").json()[0])
    return {Path(where, name) for where, _, names in os.walk(mine.parents[1]) for name in names}


HOST = "GET /healthz HTTP/1.1\r\nHost: "


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET /healthz HTTP/1.1", 400),
        ("GET /healthz HTTP/1.0", 421),
        (HOST, 421),
        (f"{HOST}other.example", 421),
        (f"{HOST}localhost\r\nHost: other.example", 400),
        (f"{HOST}other.example\r\nHost: localhost", 400),
        (f"{HOST}localhost@other.example", 421),
        (f"{HOST}other.example#localhost", 421),
        (f"{HOST}localhost, other.example", 421),
        (f"{HOST}localhost other.example", 421),
        (f"{HOST}localhost:other.example", 421),
        (f"{HOST}localhost.other.example", 421),
        (f"{HOST}other.example\r\nX-Forwarded-Host: localhost", 421),
        (f"{HOST}2130706433", 421),
        ("GET /healthz HTTP/1.1\r\nHost : localhost", 400),
        ("GET /healthz HTTP/1.1\r\n Host: localhost", 400),
        (f"{HOST}localhost\r\n localhost", 421),
        ("GET http://other.example/healthz HTTP/1.1\r\nHost: localhost", 404),
        ("CONNECT other.example:80 HTTP/1.1\r\nHost: localhost", 404),
        ("TRACE /healthz HTTP/1.1\r\nHost: localhost", 404),
        ("OPTIONS * HTTP/1.1\r\nHost: localhost", 404),
        ("GET /he\0althz HTTP/1.1\r\nHost: localhost", 400),
        (f"{HOST}localhost\r\nX: " + "a" * 200_000, 400),
        (f"{HOST}localhost\r\nContent-Length: 5000000", 413),
        (f"{HOST}localhost\r\nOrigin: null", 403),
        (f"{HOST}localhost\r\nOrigin: http://localhost:1", 403),
    ],
)
def test_heads_that_lie_get_nothing(public, head, status):
    codes, answer = exchanged(public, f"{head}\r\nConnection: close\r\n\r\n")
    assert codes == [status]
    assert b'"status":"ok"' not in answer
    assert len(answer) < 2_000


BODY = '{"data":[],"session_hash":"x","fn_index":0}'


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (f"Content-Length: {len(BODY)}\r\nTransfer-Encoding: chunked", 400),
        (f"Transfer-Encoding: chunked\r\nContent-Length: {len(BODY)}", 400),
        ("Content-Length: 4\r\nContent-Length: 5", 400),
        ("Content-Length: -4", 400),
        ("Content-Length: +2", 400),
        ("Content-Length: 0x10", 400),
        ("Content-Length: 5, 5", 400),
        ("Content-Length: " + "9" * 23, 400),
        ("Content-Length: 1000000000", 413),
        ("Transfer-Encoding: gzip, chunked", 400),
        ("Transfer-Encoding: identity", 400),
        ("Transfer-Encoding: xchunked", 400),
        ("Transfer-Encoding:\tchunked,chunked", 400),
        ("Content-Length: 2\r\nContent-Encoding: gzip", 415),
        ("Content-Length: 2\r\nContent-Encoding: br", 415),
        ("Expect: 200-maybe\r\nContent-Length: 0", 400),
    ],
)
def test_a_body_whose_length_cannot_be_smuggles_nothing(public, head, status):
    after = "GET /config HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    text = (
        f"POST {API}/queue/join HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
        f"{head}\r\n\r\n0\r\n\r\n{after}{BODY}"
    )
    codes, back = exchanged(public, text, ends=True)
    assert codes[0] == status
    assert set(codes) <= REFUSED, (codes, back[:300])
    assert b'"dependencies"' not in back


FOREIGN_HEADERS = (
    "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: other.example", "X-Forwarded-Proto: https",
    "Forwarded: host=other.example", "X-Gradio-Server: http://other.example",
    "X-Direct-Url: http://other.example", "X-Gradio-User: app", "Referer: http://other.example/",
)  # fmt: skip


def test_headers_of_proxies_change_no_address_in_the_page(public):
    for path in ("/", "/config", f"{API}/info"):
        status, answer = get(public, path, *FOREIGN_HEADERS)
        assert status == 200
        assert b"other.example" not in answer
    _, answer = get(public, "/healthz", "X-Forwarded-For: 127.0.0.1")
    assert answer.endswith(b'{"status":"ok"}')  # figures only for this machine's own programs


LONG = 30_000  # bytes of a header that is repeated until a pattern with backtracking would hang


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/healthz", "Accept-Encoding: " + "," * LONG),
        ("/healthz", "Accept-Encoding: br;q=0." + "1" * LONG),
        ("/healthz", "Cookie: macd_visitor=\"" + "\\" * LONG),
        ("/healthz", "Cookie: " + "a=b;" * (LONG // 4)),
        ("/healthz", "Content-Type: a/b;" + 'a=" ' * (LONG // 4)),
        ("/healthz", "X-Forwarded-For: " + "1," * (LONG // 2)),
        ("/healthz", "Origin: http://" + "a." * (LONG // 2)),
        ("/healthz", "Range: bytes=" + ",".join(["0-1"] * (LONG // 4))),
        ("/docs/" + "a/" * (LONG // 2), "X: y"),
        ("/files/" + "a" * 200 + "/" + "." * LONG + ".macd", "X: y"),
        (f"{API}/file=" + "/.." * (LONG // 3), "X: y"),
    ],
)  # fmt: skip
def test_long_texts_get_short_answers(public, path, line):
    status, answer = get(public, path, line)
    assert status in (200, 403, 404)
    assert len(answer) < 2_500


@pytest.mark.parametrize("cookie", [
    f"{COOKIE}=x", f"{COOKIE}=" + "A" * 43, f"{COOKIE}=" + "A" * 10_000, f"{COOKIE}=a; {COOKIE}=b",
    f'{COOKIE}="{"A" * 43}"', COOKIE, "=", ";;;", "a" * 60_000])  # fmt: skip
def test_no_cookie_breaks_a_request(public, cookie):
    status, back = get(public, "/config", f"Cookie: {cookie}")
    assert status in (200, 400, 431)
    assert status != 200 or json.loads(back.split(b"\r\n\r\n", 1)[1])


CALLS = [
    '{"data":[NaN],"fn_index":0}', '{"data":[1e400,-1e400],"fn_index":0}', '{"fn_index":0}',
    '{"data":{"a":1},"fn_index":0}', '{"data":null,"fn_index":0}', '{"data":"x","fn_index":0}',
    '{"data":[],"fn_index":true}', '{"data":[],"fn_index":0.0}', '{"data":[],"fn_index":"0"}',
    '{"data":[],"fn_index":-1}', '{"data":[],"fn_index":[0]}', '{"data":[],"fn_index":1e308}',
    '{"data":[],"fn_index":NaN}', '{"data":[],"fn_index":0,"fn_index":10000}',
    '{"data":["\\ud800"],"fn_index":0}', '{"data":["\\u0000"],"fn_index":0}',
    '{"data":[' + "9" * 400_000 + '],"fn_index":0}',
    '{"data":[' + "[" * 5000 + "]" * 5000 + '],"fn_index":0}',
    '{"data":[' + "[]," * 110_000 + '1],"fn_index":0}',
    '{"data":[' + ",".join(["0"] * 99_000) + '],"fn_index":0}',
    '{"data":[' + ",".join(["0"] * 101_000) + '],"fn_index":0}',
    '{"data":[{"path":["/etc/passwd"]}],"fn_index":0}',
    '{"data":[{"path":{"path":"/etc/passwd"}}]}',
    '{"data":[{"meta":{"_type":"gradio.FileData"}}],"fn_index":0}',
    '{"data":[{"__type__":"update","value":"x"}],"fn_index":0}',
    '{"data":[{"is_file":true,"name":"/etc/passwd"}],"fn_index":0}',
    '{"data":[],"fn_index":0,"simple_format":true,"batched":true,"request":{"user":"ada"}}',
    '{"data":[],"fn_index":0,"event_id":"../x","trigger_id":"x",'
    '"event_data":{"path":"/etc/passwd"}}',
    '{"data":[],"fn_index":0,"session_hash":["x"]}', '{"data":[],"fn_index":0,"session_hash":""}',
    '{"data":[],"fn_index":0,"session_hash":"' + "a" * 100_000 + '"}',
    "[" * 19_000, "[" * 100_000, '{"a":' * 50_000, "\ufeff{}", "{}{}", "[]", "0", '"x"', "",
    b"\xff\xfe{}",
]  # fmt: skip


@pytest.mark.parametrize("value", CALLS, ids=lambda v: str(v[:40]))
@pytest.mark.parametrize("path", ["queue/join", *map(long, ("run/open", "call/open", "cancel",
                                                           "call/v2/open"))])  # fmt: skip
def test_calls_of_an_impossible_form_start_nothing(public, value, path, caplog):
    public.quota._uses.clear()
    before = health(public)
    content = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    with caplog.at_level(logging.WARNING):
        answer = Visitor(public.url, cookies=False).http.post(
            f"{API}/{path}", content=content, headers=JSON
        )
    assert answer.status_code in REFUSED | {200, 503}
    assert not [leak for leak in LEAKS if leak in answer.content]
    assert len(answer.content) < 1_000
    after = health(public)
    assert (after["sessions"], after["runs"]) == (before["sessions"], before["runs"])
    assert not [r for r in caplog.records if r.exc_info]


@pytest.mark.parametrize(
    "values",
    [
        {"frames": 1e308}, {"frames": -1}, {"frames": 0}, {"frames": 33}, {"frames": "many"},
        {"frames": float("nan")},
        {"seed": 10**400}, {"seed": -1}, {"seed": 2**40}, {"ascent": 21},
        {"ascent": float("inf")}, {"α": float("nan")}, {"α": -1}, {"α": None}, {"β": 3},
        {"η": 1e308}, {"τ": -1}, {"question": "a" * 100_000}, {"question": ""},
        {"example": 99}, {"example": "../../etc/passwd"}, {"search": ["beam"]},
        {"methods": [{"a": 1}]}, {"methods": ["x"]}, {"sampling": {"temperature": 1e-300}},
        {"backbone": "/etc"}, {"backbone": "http://127.0.0.1:1/x"},
        {"detector": "http://127.0.0.1:1/x.pt"}, {"video": "http://127.0.0.1:1/x.mp4"},
    ],
    ids=str,
)  # fmt: skip
def test_values_beyond_an_option_compute_nothing(public, attacker, values):
    before = health(public)["runs"]
    values = {"video": clip(attacker), "question": "is it?"} | values
    told = words(attacker.send("run", **values))
    after = health(public)["runs"]
    assert {k: after[k] - before[k] for k in ("complete", "stopped", "failed")} == {
        "complete": 0, "stopped": 0, "failed": 0,
    }  # fmt: skip
    assert len(told) < 20_000
    assert "nforeseen" not in told
    assert not [leak for leak in LEAKS if leak.decode() in told]


def form(*parts):
    """A form of parts (field, file name or '', content) with the boundary b."""
    text = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{field}"'
        + (f'; filename="{name}"' if name else "")
        + f"\r\n\r\n{content}\r\n"
        for field, name, content in parts
    )
    return (text + "--b--\r\n").encode()


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (form(*(("files", f"{i}.mp4", "x") for i in range(100))), 400),
        (form(*((f"f{i}", "", "x") for i in range(5_000))), 400),
        (form(("f", "", "x" * 2_000_000)), 400),
        (b"--b\r\n" + b"A: b\r\n" * 100_000, 413),
        (b'--b\r\nContent-Disposition: form-data; name="files"; filename="' + b"a" * 10**6, 413),
    ],
    ids=["files", "fields", "field", "lines", "line"],
)  # fmt: skip
def test_forms_that_are_no_upload_leave_no_file(attacker, content, status):
    before = files(attacker)
    kind = {"content-type": "multipart/form-data; boundary=b"}
    assert attacker.http.post(f"{API}/upload", content=content, headers=kind).status_code == status
    assert files(attacker) <= before


@pytest.mark.parametrize("name", [
    "../../etc/passwd", "../../up.mp4", "/etc/passwd", "..\\..\\x", "a\x00b", "\u202egpj.exe",
    "x" * 5000, "a" * 300 + ".mp4", ".", "..", "CON", "a/b/c.mp4", "~/.bashrc", "%2e%2e%2fx",
    "-rf", "\u0000", "a\r\nX: y", "\ud7ff", "<svg>.html"])  # fmt: skip
def test_no_name_of_an_upload_leaves_its_folder_or_opens_in_a_browser(public, attacker, name):
    answer = attacker.upload(name, b"<script>1</script>")
    assert answer.status_code in {200, 400, 413}, answer.text
    if answer.status_code != 200:
        return
    place = Path(answer.json()[0])
    assert place.parents[1] == Path(public.uploads.folder)
    assert place.name == place.resolve().name
    answer = attacker.http.get(f"{API}/file={place}")
    assert answer.headers["x-content-type-options"] == "nosniff"
    kind = answer.headers["content-type"].split(";")[0]
    if kind not in ("video/mp4", "application/json"):  # a film, or a refusal
        assert kind == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment")


def test_an_upload_is_had_by_whoever_brought_it_and_by_nobody_else(public, attacker):
    """Not even by one who knows its whole path, behind the same address."""
    owner = Visitor(public.url)
    given = owner.file("private.mp4", b"private" * 99)
    assert owner.http.get(f"{API}/file={given['path']}").content == b"private" * 99
    for thief in (attacker, Visitor(public.url, cookies=False)):
        answer = thief.http.get(f"{API}/file={given['path']}")
        assert answer.status_code == 403
        assert b"private" not in answer.content
    messages = attacker.send("upload", video=given)
    assert "private.mp4" not in json.dumps(messages)
    same = attacker.file("private.mp4", b"private" * 99)  # who has the same file has it
    assert attacker.http.get(f"{API}/file={same['path']}").status_code == 200


def test_a_function_that_is_not_listed_is_not_there(attacker):
    names = {d["api_name"] for d in attacker.config["dependencies"] if d["api_name"]}
    listed = set(attacker.http.get(f"{API}/info").json()["named_endpoints"])
    hidden = sorted(n for n in names if f"/{n}" not in listed)
    assert hidden
    for name in hidden:
        answer = attacker.http.post(f"{API}/call/v2/{name}", json={})
        assert answer.status_code == 404, (name, answer.text)


def test_a_stolen_hash_and_token_neither_stop_nor_open_a_trace(public):
    victim, thief = Visitor(public.url), Visitor(public.url)
    thief.hash = victim.hash
    trace = victim.file("small.macd", (EXAMPLES / "small.macd").read_bytes())
    event = victim.join("reopen", open=trace).json()["event_id"]
    for name in ("stop", "leave"):
        thief.send(name)
    number = victim.event("reopen")["id"]
    mine = {"session_hash": victim.hash, "fn_index": number, "event_id": event}
    thief.http.post(f"{API}/cancel", json=mine)
    thief.http.post(f"{API}/reset", json={"event_id": event})
    told = list(victim.messages(event))
    assert told[-1]["msg"] == "process_completed"
    assert told[-1]["success"]
    match = re.search(r"files/[\w-]{32}/\w+", words(told))
    assert match
    for file in (f"/{match[0]}.macd", f"/{match[0]}.html"):
        assert victim.http.get(file).status_code == 200
        assert thief.http.get(file).status_code == 404
        assert httpx.get(public.url + file, trust_env=False).status_code == 404


def test_a_key_that_leaked_is_nobodys(public):
    """The keys of sessions, and of the cookies in them, open nothing to another browser."""
    owner, thief = Visitor(public.url), Visitor(public.url)
    owner.send("upload", video=clip(owner))
    keys = [s.key for s in public.sessions._by_key.values()]
    assert keys
    before = len(public.sessions._by_key)
    for key in keys:
        thief.hash = key
        with thief.stream() as lines:
            assert "session_not_found" in next(line for line in lines if line.startswith("data"))
        body = {"session_hash": key, "fn_index": 0, "event_id": "x"}
        thief.http.post(f"{API}/cancel", json=body)
    assert len(public.sessions._by_key) == before
    assert all(s.left_at is None for s in public.sessions._by_key.values() if s.key in keys)


@pytest.mark.parametrize("hashes", [("a", "b"), ("a", "a"), ("", "a"), ("a", ""), ("a" * 200, "b")])
def test_two_hashes_in_one_address_open_nobodys_stream(public, hashes):
    query = "&".join(f"session_hash={h}" for h in hashes)
    answer = Visitor(public.url).http.get(f"{API}/queue/data?{query}")
    assert answer.status_code in {200, 400}
    assert "session_not_found" in answer.text or answer.status_code == 400


def test_an_edited_trace_is_refused_in_a_sentence(attacker):
    """Other edits: test_hostile_traces.py, which opens them without a server."""
    made = io.BytesIO((EXAMPLES / "small.macd").read_bytes())
    with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", b"0" * 5_000_000)
    event, answer = attacker.call("open", attacker.file("edited.macd", made.getvalue()))
    assert event == "error"
    assert "does not list" in answer["error"]
    assert len(answer["error"]) < 400


def test_one_address_that_reads_no_answers_is_refused_and_others_are_not(public):
    """Runs last: the address has to wait afterwards."""
    transport = httpx.HTTPTransport(local_address="127.0.0.3")
    flood = httpx.Client(base_url=public.url, transport=transport, timeout=PATIENCE_S)
    try:
        flood.get("/robots.txt")
    except OSError:
        pytest.skip("this system has one loopback address")
    statuses = [
        flood.post(f"{API}/call/open", json={"data": [None]}).status_code for _ in range(120)
    ]
    accepted = statuses.count(200)
    assert 0 < accepted <= 100
    assert statuses[accepted:] == [429] * (120 - accepted)
    assert Visitor(public.url).call("open", None)[0] == "error"  # of the file, not of the address
    assert health(public)["waiting"] == 0


@pytest.fixture(scope="module")
def locked(users):
    """A public server for users alone. Uploads go to the server that was started last."""
    with serving(ServerSettings(auth=users, public=True)) as server:
        yield server


EXAMPLE = "/files/example/repaired.macd"
SPELLINGS = [
    EXAMPLE, f"/{EXAMPLE}", "/files//example/repaired.macd", "/files/example%2frepaired.macd",
    "/%66iles/example/repaired.macd", "/FILES/example/repaired.macd", f"/.{EXAMPLE}",
    f"/x/..{EXAMPLE}", f"{EXAMPLE}/", f"{EXAMPLE};x", f"{EXAMPLE}%00", f"/login/..{EXAMPLE}",
    f"/assets/..{EXAMPLE}", f"/assets/%2e%2e{EXAMPLE}",
    "/static/..%2f..%2ffiles/example/repaired.macd",
    "/config", "/config/", "/config%20", "//config", "/%63onfig", "/config?x=/login",
    "/login?/config", f"{API}/info", f"/{API}/info", f"{API}//info", f"{API}/%69nfo",
    "/gallery", "/gallery/", "/docs/page.md", "/learn/", "/source.zip",
    f"{API}/file=README.md", f"{API}/file%3DREADME.md",
]  # fmt: skip


@pytest.mark.parametrize("path", SPELLINGS)
@pytest.mark.parametrize("form", ["{path}", long("http://HOST{path}"),
                                  long("http://evil.example{path}")])  # fmt: skip
def test_no_spelling_of_an_address_passes_the_login(locked, path, form):
    target = form.format(path=path)
    codes, back = exchanged(
        locked, f"GET {target} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"
    )
    assert codes, back[:200]
    page = path.startswith(("/login",)) or codes == [200]
    assert set(codes) <= REFUSED | ({200, 307} if page else set()), (codes, back[:300])
    for secret in (b"PK\x03\x04", b'"dependencies":[{', b'gradio_api/upload": {',
                   b"MACD Studio opens"):  # fmt: skip
        assert secret not in back


@pytest.mark.parametrize("header", [
    "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Prefix: /login", "X-Original-URL: /login",
    "X-Rewrite-URL: /login", "X-HTTP-Method-Override: GET", "Authorization: Basic YWRhOng=",
    "X-Forwarded-User: ada", "Remote-User: ada", "X-Macd-Visitor: ada",
    "Cookie: access-token=x; access-token-unsecure=x", "Cookie: access-token-=None"])  # fmt: skip
def test_no_header_passes_the_login(locked, header):
    assert get(locked, "/config", header)[0] == 401
