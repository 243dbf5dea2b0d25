"""Every rule of the gate once, without a server."""

import errno
import gzip
import json
import logging
from dataclasses import replace
from ipaddress import ip_network
from types import SimpleNamespace

import numpy as np
import pytest
from starlette.requests import ClientDisconnect

from macd_studio.macd_ui.quota import QuotaError
from macd_studio.macd_ui.sentences import NO_MEMORY
from macd_studio.macd_ui.serving import bodies
from macd_studio.macd_ui.serving.claims import host_name
from macd_studio.macd_ui.serving.identity import COOKIE, read_cookie, session_key
from macd_studio.macd_ui.serving.replies import CSP, security_headers
from macd_studio.ratings.web import CSP as STUDY_CSP
from tests.raw import API
from tests.security.gate_alone import LIMITS, MINE, PEER, Asked, Users


@pytest.fixture
def gate(tmp_path):
    return Asked(tmp_path)


def test_other_kinds_of_connections_are_passed_or_closed(gate):
    assert gate.messages({"type": "lifespan"}) == [{"type": "lifespan.startup.complete"}]
    assert gate.messages({"type": "websocket"}) == [{"type": "websocket.close", "code": 1008}]


def test_a_page_is_answered_with_our_headers_and_a_cookie(gate):
    gate.app.headers = [(b"x-frame-options", b"DENY"), (b"x-own", b"1")]
    answer = gate.ask()
    assert (answer.status, answer.text) == (200, "fine")
    ours = security_headers(False)
    assert answer.headers["x-frame-options"] == ["DENY"]  # the app's own stays
    assert answer.headers["x-own"] == ["1"]
    for name in set(ours) - {"x-frame-options"}:
        assert answer.headers[name] == [ours[name]]
    ((cookie),) = answer.headers["set-cookie"]
    assert read_cookie(cookie)
    assert cookie.endswith("SameSite=Lax")
    again = gate.ask(cookie=MINE)
    assert "set-cookie" not in again.headers
    for method, path in (("HEAD", "/"), ("GET", "/config"), ("GET", "/nothing")):
        assert "set-cookie" not in gate.ask(method, path).headers
    assert "set-cookie" in gate.ask(cookie="short").headers


def test_a_space_may_be_framed_by_its_host(tmp_path):
    gate = Asked(tmp_path, space=True, public=True)
    answer = gate.ask()
    assert answer.headers["set-cookie"][0].endswith("Partitioned")
    assert "x-frame-options" not in answer.headers
    policy = f"{CSP}; frame-ancestors 'self' https://huggingface.co"
    assert answer.headers["content-security-policy"] == [policy]


def test_headers_of_every_answer():
    ours, space = security_headers(False), security_headers(True)
    assert ours == space | {
        "content-security-policy": f"{CSP}; frame-ancestors 'self'",
        "x-frame-options": "SAMEORIGIN", "cross-origin-opener-policy": "same-origin",
    }  # fmt: skip
    assert space | {"content-security-policy": ""} == {
        "content-security-policy": "", "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
        "cross-origin-resource-policy": "same-origin",
    }  # fmt: skip
    assert security_headers(False, "x")["content-security-policy"] == "x; frame-ancestors 'self'"


@pytest.mark.parametrize(("host", "name"), [
    ("localhost", "localhost"), ("Lab.Example.:443", "lab.example"), ("[::1]:7860", "::1"),
    ("10.0.0.7:", "10.0.0.7"), ("a b", ""), ("a:b", ""), ("a:123456", ""), ("[::1", ""), ("", ""),
    ("[FE80::1%0E]", "fe80::1%0e"), ("a@b", ""), ("a/b", ""),
])  # fmt: skip
def test_names_of_hosts(host, name):
    assert host_name(host) == name


def test_only_known_hosts_are_answered(tmp_path):
    gate = Asked(tmp_path, hosts=("lab.example",))
    assert gate.ask(host="LAB.example:443").status == 200
    refused = gate.ask(host="evil.example" + 90 * "x")
    assert refused.status == 421
    assert f"{('evil.example' + 90 * 'x')[:80]!r}" in refused.text
    assert "x" * 70 not in refused.text
    assert "--allow-host" in refused.text
    for host in ("", "127.0.0.1.evil.example", "192.168.1.7", "[::ffff:8.8.8.8]", "@127.0.0.1",
                 "[::1].evil.example"):  # fmt: skip
        assert gate.ask(host=host).status == 421, host
    assert len(gate.app.seen) == 1
    assert refused.headers["x-content-type-options"] == ["nosniff"]


def test_only_the_pages_own_origin_may_ask(tmp_path):
    gate = Asked(tmp_path, hosts=("lab.example",))
    for origin, status in (("http://localhost:80", 200), ("http://LOCALHOST:80", 200),
                           ("https://lab.example", 200), ("https://lab.example:8443", 200),
                           ("http://lab.example", 403), ("http://localhost", 403),
                           ("https://evil.example", 403), ("null", 403), ("", 403),
                           ("file://", 403), ("http://localhost:80.evil", 403)):  # fmt: skip
        assert gate.ask(host="Localhost:80", origin=origin).status == status, origin


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "none"])
def test_nobody_is_logged_out_by_another_site(gate, site):
    foreign = site.endswith("-site")
    for path in ("/logout", "/logout/"):
        assert gate.ask(path=path, sec_fetch_site=site).status == (403 if foreign else 200)
    assert gate.ask(path="/config", sec_fetch_site=site).status == 200


def test_what_no_route_names_is_closed(gate):
    for method, path in (("GET", "/other"), ("POST", "/"), ("DELETE", f"{API}/mcp"),
                         ("GET", f"{API}/mcp"), ("GET", "/rate")):  # fmt: skip
        assert gate.ask(method, path).status == 404
    assert not gate.app.seen


def test_a_study_hides_everything_else(tmp_path):
    site = SimpleNamespace(knows_organiser=lambda cookie: cookie == f"{COOKIE}={MINE}")
    gate = Asked(tmp_path, site=site, only_study=True)
    start = gate.ask()
    assert (start.status, start.headers["location"]) == (303, ["/rate"])
    for path in ("/config", "/gallery"):
        refused = gate.ask(path=path)
        assert refused.status == 404
        assert "location" not in refused.headers
        assert gate.ask(path=path, cookie=MINE).status == 200
    for path in ("/healthz", "/healthz/", f"{API}/startup-events", f"{API}/startup-events/",
                 "/rate"):  # fmt: skip
        assert gate.ask(path=path).status == 200
    policy = gate.ask(path="/rate").headers["content-security-policy"]
    assert policy == [f"{STUDY_CSP}; frame-ancestors 'self'"]
    sent = b'{"events": [], "x": {"path": "/etc/passwd"}}'
    assert gate.ask("POST", "/rate/api/events", sent).status == 200
    assert gate.last.body == sent  # as it came: the study checks its own


def test_users_alone_come_past_the_first_page(tmp_path):
    gate = Asked(tmp_path, Users(), auth="users")
    assert gate.ask().status == 200
    assert gate.last.scope["macd.visitor"] == PEER
    refused = gate.ask(path="/config")
    assert refused.status == 401
    assert json.loads(refused.text)["error"] == json.loads(refused.text)["detail"]
    assert "Log in on the page" in json.loads(refused.text)["error"]
    assert gate.ask(path="/config", cookie="ada" + 40 * "x").status == 200
    assert gate.last.scope["macd.visitor"] == "ada"
    open_to_all = Asked(tmp_path / "two", Users())
    assert open_to_all.ask(path="/config", cookie="ada" + 40 * "x").status == 200
    assert open_to_all.last.scope["macd.visitor"] == PEER
    assert Asked(tmp_path / "three", auth="users").ask(path="/config").status == 200


def test_a_request_is_counted_for_who_sends_it(tmp_path):
    gate = Asked(tmp_path, proxies=(ip_network("10.0.0.0/8"),))
    gate.ask(x_macd_visitor="me", x_forwarded_for="8.8.8.8")
    assert (gate.last.sender, gate.last.scope["macd.visitor"]) == (PEER, PEER)
    names = [k for k, v in gate.last.headers.items() if v == PEER]
    assert len(names) == 1
    gate.ask(peer="10.0.0.1", x_forwarded_for="8.8.8.8", **{names[0]: "somebody else"})
    assert gate.last.sender == "8.8.8.8"
    assert gate.last.headers[names[0]] == "8.8.8.8"
    gate.ask(peer=None)
    assert gate.last.sender == "unknown"
    assert gate.quota.noted == [("answer", who, 40) for who in (PEER, "8.8.8.8", "unknown")]


def test_what_a_proxy_says_is_believed_of_a_trusted_one_only(tmp_path):
    claims = {"x_forwarded_host": "evil.example, lab.example ", "x_forwarded_proto": "ftp, HTTPS",
              "forwarded": "x", "x_original_url": "/y"}  # fmt: skip
    gate = Asked(tmp_path, hosts=("lab.example",), proxies=(ip_network("10.0.0.0/8"),))
    gate.ask(**claims)
    assert (gate.last.headers["host"], gate.last.scope["scheme"]) == ("localhost", "http")
    gate.ask(peer="10.0.0.1", **claims)
    assert (gate.last.headers["host"], gate.last.scope["scheme"]) == ("lab.example", "https")
    assert [k for k, _ in gate.last.scope["headers"]].count(b"host") == 1
    for name in ("x-forwarded-host", "forwarded", "x-original-url"):
        assert name not in gate.last.headers
    assert gate.ask(peer="10.0.0.1", x_forwarded_host="evil.example").status == 421
    gate.ask(peer="10.0.0.1", x_forwarded_proto="ftp", x_forwarded_host=" ")
    assert (gate.last.headers["host"], gate.last.scope["scheme"]) == ("localhost", "http")
    space = Asked(tmp_path / "space", space=True, hosts=("lab.example",),
                  proxies=(ip_network("10.0.0.0/8"),))  # fmt: skip
    space.ask(peer="10.0.0.1", **claims)
    assert (space.last.headers["host"], space.last.scope["scheme"]) == ("localhost", "https")


def test_too_many_requests_are_refused(gate):
    gate.quota.refused = {"request", "answer"}
    for method, path in (("GET", "/config"), ("POST", f"{API}/reset")):
        refused = gate.ask(method, path, {} if method == "POST" else b"")
        assert refused.status == 429
        assert "Too many requests" in json.loads(refused.text)["error"]
    assert gate.quota.noted == [("answer", PEER, 40), ("request", PEER)]
    form = {"content_type": "application/x-www-form-urlencoded"}
    for path in ("/login", "/login/"):
        assert gate.ask("POST", path, b"a=b", **form).status == 200
        assert gate.last.body == b"a=b"
        assert gate.last.headers["content-length"] == "3"
    assert len(gate.quota.noted) == 2


def test_a_refusal_names_who_is_counted_and_what_helps(tmp_path):
    """People behind one address learn that they are counted together; users are counted alone."""
    for settings, counted, helps in (
        ({}, "from your address", "--visitors-per-address N"), ({"auth": "users"}, "of yours", ""),
    ):  # fmt: skip
        gate = Asked(tmp_path / counted[:7].strip(), public=True, **settings)
        gate.quota.refused = {"answer", "request"}
        for asked in (gate.ask(), gate.ask("POST", f"{API}/reset", {})):
            assert asked.status == 429
            assert f"Too many requests {counted}. Wait a few seconds." in asked.text
            assert helps in asked.text
            assert ("--visitors" in asked.text) == bool(helps)


def test_a_body_is_of_the_type_that_its_route_takes(gate):
    assert gate.ask("GET", "/config", b"x").status == 413
    assert gate.ask("POST", f"{API}/reset", b"{}", content_type="text/plain").status == 415
    assert not gate.app.seen


def test_an_event_brings_what_was_checked(gate):
    mine = gate.uploads / "clip.mp4"
    mine.write_bytes(b"x")
    body = {"session_hash": "h", "oauth_token": "t",
            "data": [{"path": "/etc/passwd"}, {"path": str(mine), "url": "u"}]}  # fmt: skip
    for kind in ("application/json", "Application/JSON", "APPLICATION/JSON; charset=utf-8"):
        join = "POST", f"{API}/queue/join", body
        assert gate.ask(*join, cookie=MINE, content_type=kind).status == 200
        got = json.loads(gate.last.body)
        assert got == {"session_hash": session_key("h", MINE), "data": [None, {"path": str(mine)}]}
        assert gate.last.headers["content-length"] == str(len(gate.last.body))
        assert gate.last.headers["content-type"] == "application/json"
    assert gate.quota.noted == [("request", PEER)] * 3
    assert gate.ask("POST", f"{API}/reset", b"[]").status == 400
    assert (
        gate.ask("POST", f"{API}/reset", b"{}", content_type="application/json; x=y").status == 200
    )
    assert gate.last.headers["content-type"] == "application/json"


def test_an_mcp_message_passes_as_it_came(tmp_path):
    gate = Asked(tmp_path, mcp=True)
    sent = b'[{"path": "/etc/passwd"}]'
    for path in (f"{API}/mcp", f"{API}/mcp/http/"):
        assert gate.ask("POST", path, sent).status == 200
        assert gate.last.body == sent


def test_only_functions_that_there_are_can_be_called(tmp_path):
    gate = Asked(tmp_path, Users(("", 3), ("run", None), ("run", 4), LIMITS))
    for path, body, status in (
        ("queue/join", {"fn_index": 3}, 200), ("queue/join", {"fn_index": 4}, 404),
        ("run/run", {}, 200), ("run/run", {"fn_index": 4}, 200), ("api/run", {}, 200),
        ("call/run", {}, 200), ("call/other", {}, 404), ("call/v2/run", {"fn_index": 9}, 200),
        ("call/run", {"fn_index": 9}, 404), ("run/", {}, 404), ("reset", {}, 200),
    ):  # fmt: skip
        assert gate.ask("POST", f"{API}/{path}", body).status == status, (path, body)
    assert "no such function" in gate.ask("POST", f"{API}/call/other", {}).text


def test_a_visitor_has_so_many_calls_and_unread_answers(tmp_path):
    users = Users(("", 3), waiting=2, unread=4)
    gate = Asked(tmp_path, users)
    join = ("POST", f"{API}/queue/join", {"fn_index": 3})
    gate.quota.limits = LIMITS
    assert gate.ask(*join).status == 200
    users.waiting = 3
    refused = gate.ask(*join)
    assert refused.status == 429
    assert "3 calls from your address wait" in refused.text
    assert gate.ask(*join, peer="8.8.8.8").status == 200
    users.waiting, users.unread = 0, 5
    assert "5 answers from your address wait to be read" in gate.ask(*join).text
    users.unread, users.unread_here = 0, 4
    refused = gate.ask(*join)
    assert (refused.status, "This page does not read" in refused.text) == (429, True)
    gate.quota.limits = None
    assert gate.ask(*join).status == 200


def test_a_hash_in_an_address_becomes_a_key(gate):
    gate.ask(path="/config", query="a=1&session_hash=h&session_hash=i&b=", cookie=MINE)
    keys = [session_key(h, MINE) for h in "hi"]
    assert gate.last.query == {"a": ["1"], "session_hash": keys, "b": [""]}
    gate.ask(path="/config", query="a=%41&b")
    assert gate.last.scope["query_string"] == b"a=%41&b"
    gate.ask("POST", f"{API}/reset", {}, query="session_hash=h", cookie=MINE)
    assert gate.last.query == {"session_hash": keys[:1]}
    assert gate.ask(path="/config", query="session_hash=").status == 400
    assert gate.ask(path="/config", query="session_hash=" + "x" * 200).status == 400


def test_only_uploaded_files_are_given(gate):
    mine = gate.uploads / "clip.mp4"
    mine.write_bytes(b"x")
    assert gate.ask(path=f"{API}/file={mine}").status == 200
    for path in ("/etc/passwd", "x", f"{gate.uploads}/../other"):
        refused = gate.ask(path=f"{API}/file={path}")
        assert refused.status == 403
        assert "error" in json.loads(refused.text)


def test_an_upload_is_counted_and_named(gate):
    form = {"content_type": "multipart/form-data; boundary=x"}
    for query, status in (("", 200), ("upload_id=a_B-9", 200), ("upload_id=a&upload_id=b", 400),
                          ("upload_id=a%2Fb", 400), ("upload_id=", 400),
                          ("upload_id=" + "x" * 65, 400)):  # fmt: skip
        assert gate.ask("POST", f"{API}/upload", b"bytes", query=query, **form).status == status
    assert [n for n in gate.quota.noted if n[0] != "request"] == 2 * [
        ("file", PEER), ("upload", PEER, 5)
    ]  # fmt: skip
    refused = gate.ask("POST", f"{API}/upload", b"x", query="upload_id=", **form)
    assert refused.text.startswith("The request names no upload")  # text, as the page expects it
    progress = f"{API}/upload_progress"
    for path in (progress, progress + "/"):
        for query, status in (("upload_id=a", 200), ("", 400), ("upload_id=..", 400)):
            assert gate.ask(path=path, query=query).status == status


def test_an_answer_is_fetched_by_who_called(tmp_path):
    gate = Asked(tmp_path, Users(("mine", PEER), ("", None)))
    for path in ("call/run/mine", "call/v2/run/mine"):
        assert gate.ask(path=f"{API}/{path}").status == 200
        assert gate.ask(path=f"{API}/{path}", peer="8.8.8.8").status == 404
    assert gate.ask(path=f"{API}/call/run/other").status == 404
    assert Asked(tmp_path / "two").ask(path=f"{API}/call/run/other").status == 200


def test_large_answers_are_bounded_and_go_in_pieces(gate, monkeypatch):
    gate.app.answer = b"x" * (2 * bodies.PIECE + 1)
    for method, path in (("GET", "/config"), ("POST", f"{API}/reset")):
        answer = gate.ask(method, path, {} if method == "POST" else b"")
        assert [len(m["body"]) for m in answer.sent[1:]] == [bodies.PIECE, bodies.PIECE, 1]
    whole = gate.ask(path=f"{API}/heartbeat/h")
    assert len(whole.sent) == 2
    gate.gate._answers._held[PEER] = bodies.ANSWERS_SHARE
    assert gate.ask(path="/config").status == 503
    assert gate.ask(path="/config", peer="8.8.8.8").status == 200
    del gate.gate._answers._held[PEER]
    monkeypatch.setattr(gate.gate._answers, "_most", 10)
    refused = gate.ask(path="/config")
    assert refused.status == 503
    assert "Too many answers" in refused.text
    assert not gate.gate._answers._held


def test_the_text_of_a_page_is_sent_compressed_to_whom_it_suits(gate, monkeypatch):
    gate.app.answer = b"<p>the page</p>" * 1000
    html = [(b"content-type", b"text/html; charset=utf-8"), (b"content-length", b"15000")]
    compressed = []
    real = gzip.compress
    monkeypatch.setattr(
        gzip, "compress", lambda *given, **named: compressed.append(1) or real(*given, **named)
    )

    def answered(path="/", method="GET", headers=html, **asked):
        gate.app.headers = headers
        start, *rest = gate.asked(method, path, **asked)
        told = {k.decode(): v.decode() for k, v in start["headers"]}
        body = b"".join(message["body"] for message in rest)
        assert int(told.get("content-length", len(body))) == len(body)
        packed = told.get("content-encoding") == "gzip"
        assert (gzip.decompress(body) if packed else body) == gate.app.answer
        return packed, told.get("vary")

    for path in ("/", "/gallery/", "/learn/x", "/docs/page.md", "/"):
        assert answered(path, accept_encoding="br, gzip;q=0.8") == (True, "accept-encoding")
    assert answered(method="HEAD", accept_encoding="gzip") == (True, "accept-encoding")
    assert len(compressed) == 1  # the same text is compressed once
    for refusing in ("", "br, deflate", "gzip;q=0", "gzip; q=0.000, br", "x-gzip"):
        assert answered(accept_encoding=refusing) == (False, "accept-encoding")
    for kept in ((b"etag", b'"1"'), (b"content-encoding", b"identity")):
        assert answered(headers=[*html, kept], accept_encoding="gzip") == (False, None)
    picture = [(b"content-type", b"image/webp")]
    assert answered(headers=picture, accept_encoding="gzip") == (False, None)
    for path in (f"{API}/info", "/config", "/files/token/trace.html"):  # what is a visitor's own
        assert answered(path, accept_encoding="gzip") == (False, None)
    gate.app.answer = b"short"
    short = [(b"content-type", b"text/html")]
    assert answered(headers=short, accept_encoding="gzip") == (False, None)


def test_compressed_texts_are_bounded_by_their_bytes(gate):
    gate.app.headers = [(b"content-type", b"text/html")]
    gate.gate._compressor = bodies.Compressor(10_000)
    random = np.random.default_rng(0)
    for _ in range(4):  # each of them takes about 6 kB
        gate.app.answer = random.bytes(6000)
        gate.asked(accept_encoding="gzip")
    assert len(list(gate.gate._compressor._kept.values())) == 1
    # what a slow connection keeps in memory is the text too, and counts
    gate.app.answer = b"x" * (bodies.PIECE + 1)
    gate.gate._answers._held[PEER] = bodies.ANSWERS_SHARE
    assert gate.ask(accept_encoding="gzip").status == 503


def test_bodies_of_all_visitors_are_bounded(gate, monkeypatch):
    gate.gate._bodies._held["8.8.8.8"] = bodies.HELD - 1
    refused = gate.ask("POST", f"{API}/reset", {})
    assert refused.status == 503
    assert "reads too much" in refused.text
    gate.gate._bodies._held["8.8.8.8"] = bodies.HELD - 2
    assert gate.ask("POST", f"{API}/reset", {}).status == 200
    del gate.gate._bodies._held["8.8.8.8"]
    gate.gate._bodies._held[PEER] = bodies.SHARE
    assert gate.ask("POST", f"{API}/reset", {}).status == 503
    held = gate.gate._answers
    assert (held._share, held._most) == (bodies.ANSWERS_SHARE, bodies.ANSWERS_HELD)


@pytest.mark.parametrize(("error", "status", "words"), [
    (bodies.Refusal(418, "a teapot"), 418, "a teapot"),
    (QuotaError("too much", "Wait"), 429, "too much. Wait"),
    (ClientDisconnect(), 400, "connection was closed"),
    (OSError(errno.ENOSPC, "full"), 507, "disk is full"),
    (OSError(errno.EDQUOT, "full"), 507, "disk is full"),
    (OSError(errno.EPERM, "no"), 500, "went wrong"),
    (ZeroDivisionError("secret"), 500, "went wrong"),
    (MemoryError(), 503, NO_MEMORY),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_error_is_explained(gate, error, status, words, method, caplog):
    gate.app.error = error
    path = "/" if method == "GET" else f"{API}/reset"
    with caplog.at_level(logging.ERROR):
        answer = gate.ask(method, path, {} if method == "POST" else b"")
    assert answer.status == status
    assert words in answer.text
    assert "secret" not in answer.text
    assert answer.headers["x-content-type-options"] == ["nosniff"]
    assert answer.headers["content-type"][0].startswith("text/plain") is (method == "GET")
    logged = [r for r in caplog.records if r.name.endswith("gate")]
    assert [r.exc_info[1] for r in logged] == ([error] if status == 500 else [])


def test_visitors_of_a_shared_server_are_not_sent_to_its_log(gate):
    gate.app.error = ZeroDivisionError()
    assert "the server's log has the details" in gate.ask().text
    gate.gate.settings = replace(gate.gate.settings, public=True)
    assert "tell whoever runs this server" in gate.ask().text


def test_an_answer_that_has_begun_is_not_begun_again(gate, caplog):
    gate.app.late = ZeroDivisionError()
    answer = gate.ask(path=f"{API}/heartbeat/h")
    assert answer.status == 200
    assert len(answer.sent) == 1
    assert [r.message for r in caplog.records] == ["a request failed"]
    held = gate.ask("POST", f"{API}/reset", {})  # nothing of it was sent yet
    assert held.status == 500


def test_scripts_are_answered_with_an_object(gate):
    for path in ("/config", "/config/", f"{API}/info", f"{API}/upload_progress"):
        refused = gate.ask(path=path, host="evil.example")
        assert json.loads(refused.text).keys() == {"error", "detail"}, path
    for path in ("/", "/gallery", f"{API}/upload", f"{API}/upload/"):
        refused = gate.ask("GET", path, host="evil.example")
        assert refused.headers["content-type"][0].startswith("text/plain"), path
