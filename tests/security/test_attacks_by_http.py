"""Attacks on a public server by somebody who knows nothing of it but HTTP.

Each test sends what such an attacker sends and holds the server to a bound that does not depend on
the speed of the machine: status codes, bytes, files, records of the log, counts of /healthz.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import socket
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.patience import PATIENCE_S
from tests.raw import API, Visitor, words

EXAMPLES = Path(__file__).parents[2] / "assets" / "examples"
JSON = {"content-type": "application/json"}
LEAKS = (b"Traceback", b"site-packages", b"root:x:", str(Path(__file__).parents[2]).encode())


@pytest.fixture(scope="module")
def attacker(public: Any) -> Visitor:
    """A visitor with a cookie, who loaded the page once."""
    return Visitor(public.url)


def send(url: str, data: bytes) -> tuple[int, bytes]:
    """Bytes on a connection of their own; the first status and all that comes back."""
    port = int(url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as link:
        link.sendall(data)
        answer = b""
        while more := link.recv(65536):
            answer += more
    return int(answer[9:12]), answer


def get(url: str, path: str, *lines: str) -> tuple[int, bytes]:
    """A GET whose head is written as given."""
    head = (f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", *lines, "", "")
    return send(url, "\r\n".join(head).encode("latin-1"))


def health(public: Any) -> dict[str, Any]:
    """What the server tells the programs of its own machine."""
    return httpx.get(f"{public.url}/healthz", timeout=PATIENCE_S, trust_env=False).json()


def files(attacker: Visitor) -> list[Path]:
    """The files of all uploads that are on the disk."""
    mine = Path(attacker.upload("mine.mp4", b"mine").json()[0])
    return [Path(where, name) for where, _, names in os.walk(mine.parents[1]) for name in names]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET /healthz HTTP/1.1", 400),
        ("GET /healthz HTTP/1.0", 421),
        ("GET /healthz HTTP/1.1\r\nHost: ", 421),
        ("GET /healthz HTTP/1.1\r\nHost: other.example", 421),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: other.example", 400),
        ("GET /healthz HTTP/1.1\r\nHost: localhost@other.example", 421),
        ("GET /healthz HTTP/1.1\r\nHost: localhost, other.example", 421),
        ("GET /healthz HTTP/1.1\r\nHost: localhost:other.example", 421),
        ("GET /healthz HTTP/1.1\r\nHost: 2130706433", 421),
        ("GET /healthz HTTP/1.1\r\nHost : localhost", 400),
        ("GET http://other.example/healthz HTTP/1.1\r\nHost: localhost", 404),
        ("CONNECT other.example:80 HTTP/1.1\r\nHost: localhost", 404),
        ("TRACE /healthz HTTP/1.1\r\nHost: localhost", 404),
        ("OPTIONS * HTTP/1.1\r\nHost: localhost", 404),
        ("GET /he\0althz HTTP/1.1\r\nHost: localhost", 400),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + "a" * 200_000, 400),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000", 413),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: null", 403),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:1", 403),
    ],
)
def test_heads_that_lie_get_nothing(public: Any, head: str, status: int) -> None:
    port = int(public.url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as link:
        answer = b""
        try:
            link.sendall(head.encode() + b"\r\nConnection: close\r\n\r\n")
            while more := link.recv(65536):
                answer += more
        except ConnectionError:  # it does not wait for the end of a head that is too long
            pass
    assert int(answer[9:12]) == status
    assert b'"status":"ok"' not in answer
    assert len(answer) < 2_000


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (("Content-Length: 4", "Content-Length: 5"), 400),
        (("Content-Length: -4",), 400),
        (("Content-Length: +2",), 400),
        (("Content-Length: " + "9" * 23,), 400),
        (("Transfer-Encoding: xchunked",), 400),
        (("Content-Length: 2", "Content-Encoding: gzip"), 415),
        (("Content-Length: 2", "Content-Encoding: br"), 415),
        (("Content-Length: 1000000000",), 413),
    ],
)
def test_bodies_whose_length_cannot_be_are_not_read(
    public: Any, lines: tuple[str, ...], status: int
) -> None:
    head = (f"POST {API}/cancel HTTP/1.1", "Host: localhost", "Connection: close", *lines)
    more = ("Content-Type: application/json", "", "{}")
    got, answer = send(public.url, "\r\n".join((*head, *more)).encode())
    assert got == status
    assert answer.count(b"HTTP/1.1 ") == 1  # the rest is no second request


FOREIGN_HEADERS = (
    "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: other.example", "X-Forwarded-Proto: https",
    "Forwarded: host=other.example", "X-Gradio-Server: http://other.example",
    "X-Direct-Url: http://other.example", "X-Gradio-User: app", "Referer: http://other.example/",
)  # fmt: skip


def test_headers_of_proxies_change_no_address_in_the_page(public: Any) -> None:
    for path in ("/", "/config", f"{API}/info"):
        status, answer = get(public.url, path, *FOREIGN_HEADERS)
        assert status == 200
        assert b"other.example" not in answer
    _, answer = get(public.url, "/healthz", "X-Forwarded-For: 127.0.0.1")
    assert answer.endswith(b'{"status":"ok"}')  # figures only for this machine's own programs


@pytest.mark.parametrize(
    "path",
    [
        *(f"{API}/file={p}" for p in ("/etc/passwd", "%2fetc%2fpasswd", "http://127.0.0.1:1/",
                                      "//other.example/x", "../../etc/passwd")),
        *(f"/{r}/{p}" for r in ("docs", "static", "assets", "svelte", "learn", "gallery", "t",
                                "files/example")
          for p in ("..%2f..%2fapp.py", "%2fetc%2fpasswd", "..%5c..%5capp.py")),
        "/docs/page.md%00.png", "/files/example/app.py", "/files/example/repaired.mp4",
        *(f"{API}/{p}" for p in ("proxy=http://127.0.0.1:1/", "stream/a/b/c/playlist.m3u8",
                                 "component_server", "deep_link", "vibe-code", "monitoring",
                                 "monitoring/summary", "dev/reload", "token", "mcp", "mcp/sse",
                                 "custom_component/x/client/component/index.js", "skills")),
        "/proxy=http://127.0.0.1:1/", "/file=/etc/passwd", "/openapi.json", "/redoc",
        "/login/huggingface", "/rate", "/organise", "/rate/api/session", "/organise/api/state",
        "/organise/api/export", "/results", "//config", "/CONFIG",
    ],
)  # fmt: skip
def test_paths_that_the_page_does_not_use_give_nothing(attacker: Visitor, path: str) -> None:
    url = str(attacker.http.base_url)
    status, answer = get(url, path)
    if status == 307:  # a folder of the page itself, whatever comes behind it
        place = answer.split(b"location: ", 1)[1].split(b"\r\n", 1)[0].decode()
        assert place.startswith(url) or ":" not in place
        status, answer = get(url, "/" + place.removeprefix(url).lstrip("/"))
    assert status in (403, 404)
    assert len(answer) < 4_000  # a page with links to what there is
    assert not [leak for leak in LEAKS if leak in answer]


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
def test_long_texts_get_short_answers(public: Any, path: str, line: str) -> None:
    status, answer = get(public.url, path, line)
    assert status in (200, 403, 404)
    assert len(answer) < 2_500


def joined(fn: int, data: str = "[]", more: str = "") -> str:
    """The text of a call, of which JSON's own writer would refuse some."""
    return f'{{"data":{data},"fn_index":{fn},"session_hash":"abcdefabcdef"{more}}}'


@pytest.mark.parametrize(
    ("body", "statuses"),
    [
        (joined(0, "[" + "[]," * 110_000 + "1]"), {413}),
        ("[" * 100_000, {413}),
        ('{"a":' * 50_000, {413}),
        ("[" * 19_000, {400}),
        (joined(0, "9" * 400_000), {400}),
        (joined(0, "null"), {400}),
        (joined(0, '{"a":1}'), {400}),
        (joined(-1), {404}),
        (joined(99_999), {404}),
        ('{"fn_index":1e308,"session_hash":"abcdefabcdef","data":[]}', {404}),
        ('{"fn_index":NaN,"session_hash":"abcdefabcdef","data":[]}', {404}),
        ('{"fn_index":true,"session_hash":"abcdefabcdef","data":[]}', {404}),
        ('{"fn_index":0,"session_hash":["x"],"data":[]}', {400}),
        ('{"fn_index":0,"session_hash":"' + "a" * 100_000 + '","data":[]}', {400}),
        (joined(0, '["\\ud800"]'), {400}),
        ('"text"', {400}),
        (b"\xff\xfe{}", {400}),
    ],
)  # fmt: skip
def test_calls_of_an_impossible_form_start_nothing(
    public: Any, attacker: Visitor, body: str | bytes, statuses: set[int], caplog: Any
) -> None:
    before = health(public)
    with caplog.at_level(logging.WARNING):
        answer = attacker.http.post(f"{API}/queue/join", content=body, headers=JSON)
    assert answer.status_code in statuses
    assert len(answer.content) < 1_000
    after = health(public)
    assert (after["sessions"], after["runs"]) == (before["sessions"], before["runs"])
    assert not caplog.records


@pytest.mark.parametrize(
    "values",
    [
        {"frames": 1e308}, {"frames": -1}, {"frames": 33}, {"frames": "8"},
        {"frames": float("nan")},
        {"seed": 10**400}, {"ascent": 21}, {"ascent": float("inf")}, {"α": float("nan")},
        {"η": 1e308}, {"τ": -1}, {"question": "a" * 100_000}, {"question": ""},
        {"example": 99}, {"example": "../../etc/passwd"}, {"search": ["beam"]},
        {"methods": [{"a": 1}]}, {"sampling": {"temperature": 1e-300}},
        {"backbone": "/etc"}, {"backbone": "http://127.0.0.1:1/x"},
        {"detector": "http://127.0.0.1:1/x.pt"}, {"video": "http://127.0.0.1:1/x.mp4"},
    ],
    ids=str,
)  # fmt: skip
def test_values_beyond_an_option_compute_nothing(
    public: Any, attacker: Visitor, values: dict[str, Any]
) -> None:
    before = health(public)["runs"]
    told = words(attacker.send("run", **values))
    after = health(public)["runs"]
    assert {k: after[k] - before[k] for k in ("complete", "stopped", "failed")} == {
        "complete": 0, "stopped": 0, "failed": 0,
    }  # fmt: skip
    assert len(told) < 20_000
    assert not [leak for leak in LEAKS if leak.decode() in told]


def form(*parts: tuple[str, str, str]) -> bytes:
    """A form of parts (field, file name or '', content) with the boundary b."""
    text = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{field}"'
        + (f'; filename="{name}"' if name else "")
        + f"\r\n\r\n{content}\r\n"
        for field, name, content in parts
    )
    return (text + "--b--\r\n").encode()


def test_an_upload_is_had_by_whoever_brought_it_and_by_nobody_else(
    public: Any, attacker: Visitor
) -> None:
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


def test_a_function_that_is_not_listed_is_not_there(attacker: Visitor) -> None:
    names = {d["api_name"] for d in attacker.config["dependencies"] if d["api_name"]}
    listed = set(attacker.http.get(f"{API}/info").json()["named_endpoints"])
    hidden = sorted(n for n in names if f"/{n}" not in listed)
    assert hidden
    for name in hidden:
        answer = attacker.http.post(f"{API}/call/v2/{name}", json={})
        assert answer.status_code == 404, (name, answer.text)


@pytest.mark.parametrize(
    ("content", "statuses"),
    [
        (form(*(("files", f"{i}.mp4", "x") for i in range(100))), {400}),
        (form(*((f"f{i}", "", "x") for i in range(5_000))), {400}),
        (form(("f", "", "x" * 2_000_000)), {400}),
        (b"--b\r\n" + b"A: b\r\n" * 100_000, {413}),
        (b'--b\r\nContent-Disposition: form-data; name="files"; filename="' + b"a" * 10**6, {413}),
    ],
    ids=["files", "fields", "field", "lines", "line"],
)  # fmt: skip
def test_forms_that_are_no_upload_leave_no_file(
    attacker: Visitor, content: bytes, statuses: set[int]
) -> None:
    before = set(files(attacker))
    kind = {"content-type": "multipart/form-data; boundary=b"}
    answer = attacker.http.post(f"{API}/upload", content=content, headers=kind)
    assert answer.status_code in statuses
    assert set(files(attacker)) <= before


@pytest.mark.parametrize("name", ["../../up.mp4", "a" * 300 + ".mp4", "a\0b", "<svg>.html"])
def test_a_name_neither_leaves_the_folder_nor_opens_in_a_browser(
    attacker: Visitor, name: str
) -> None:
    place = Path(attacker.upload(name, b"<script>1</script>").json()[0])
    root = Path(attacker.upload("mine.mp4", b"mine").json()[0]).parents[1]
    assert place.parents[1] == root
    assert place.name == place.resolve().name
    answer = attacker.http.get(f"{API}/file={place}")
    assert answer.headers["x-content-type-options"] == "nosniff"
    kind = answer.headers["content-type"].split(";")[0]
    if kind not in ("video/mp4", "application/json"):  # a film, or a refusal
        assert kind == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment")


def test_a_stolen_hash_and_token_neither_stop_nor_open_a_trace(public: Any) -> None:
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


def edited(**changes: bytes) -> bytes:
    """A shipped trace in which members are replaced, or added behind the others."""
    made = io.BytesIO()
    with (
        zipfile.ZipFile(EXAMPLES / "small.macd") as source,
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as copy,
    ):
        kept = {info.filename: source.read(info) for info in source.infolist()}
        for name, content in (kept | {k.replace("__", "."): v for k, v in changes.items()}).items():
            copy.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


MANIFEST = zipfile.ZipFile(EXAMPLES / "small.macd").read("manifest.json")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"x__npy": b"0" * 5_000_000}, "does not list"),
        ({"manifest__json": MANIFEST + b" " * 50_000_000}, "more than a trace"),
        ({"manifest__json": b"[" * 1_000_000}, "more than a trace"),
        ({"manifest__json": b'{"a":[' + b"[]," * 500_000 + b"[]]}"}, "more than a trace"),
        ({"manifest__json": b'{"a":' + b"9" * 1_000_000 + b"}"}, "number too large"),
        ({"manifest__json": MANIFEST.replace(b"0.", b"NaN,0.", 1)}, "NaN"),
        ({"manifest__json": MANIFEST.replace(b'"schema"', b'"schema":1e308,"s"', 1)}, "schema"),
        ({"manifest__json": MANIFEST.replace(b'"question": "', b'"question": "' + b"a" * 10**6, 1)},
         "question has"),
        ({"arrays/times.npy": b"\x93NUMPY\x01\x00" + b"\xff" * 200}, "damaged"),
    ],
)  # fmt: skip
def test_edited_traces_are_refused_in_a_sentence(
    attacker: Visitor, changes: dict[str, bytes], reason: str
) -> None:
    event, answer = attacker.call("open", attacker.file("edited.macd", edited(**changes)))
    assert event == "error"
    assert reason in answer["error"]
    assert len(answer["error"]) < 400


def test_one_address_that_reads_no_answers_is_refused_and_others_are_not(public: Any) -> None:
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
