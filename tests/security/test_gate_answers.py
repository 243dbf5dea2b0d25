"""The gate without a server: streams, the places of a page, and what an answer is made into."""

import json
from ipaddress import ip_network
from types import SimpleNamespace

import pytest
from starlette.requests import ClientDisconnect

from macd_studio.macd_ui.place import read_place
from macd_studio.macd_ui.sentences import NO_MEMORY, unforeseen
from macd_studio.macd_ui.serving import bodies, connections
from macd_studio.macd_ui.serving.gate import FILE, WRONG_FIELDS
from macd_studio.macd_ui.serving.identity import session_key
from macd_studio.macd_ui.serving.upstream import NO_SESSION
from macd_studio.ratings.web import CSP as STUDY_CSP
from tests.raw import API
from tests.security.gate_alone import LIMITS, MINE, PEER, Asked, Users


@pytest.fixture
def gate(tmp_path):
    return Asked(tmp_path)


def test_a_stream_is_open_as_long_as_it_lasts(gate):
    key = session_key("h", MINE)
    during = []
    gate.app.inside = lambda: during.append((list(gate.streams), gate.quota.noted[-1]))
    assert gate.ask(path=f"{API}/heartbeat/h", cookie=MINE).status == 200
    assert during == [([("opened", key)], ("stream", PEER, 1))]
    assert gate.streams == [("opened", key), ("closed", key)]
    assert gate.quota.noted[-1] == ("stream closed", PEER)
    assert gate.last.path == f"{API}/heartbeat/{key}"
    assert gate.last.scope["raw_path"] == f"{API}/heartbeat/{key}".encode()
    gate.app.error = ZeroDivisionError()
    assert gate.ask(path=f"{API}/heartbeat/h").status == 500
    assert gate.streams[2:] == [(what, session_key("h", None)) for what in ("opened", "closed")]
    gate.quota.refused = {"stream"}
    refused = gate.ask(path=f"{API}/heartbeat/h")
    assert refused.status == 429
    assert "too many streams" in refused.text
    assert len(gate.streams) == 4


def test_the_answers_of_a_session_need_one_that_is_known(tmp_path):
    key = session_key("h", MINE)
    gate = Asked(tmp_path, Users(key))
    data = f"{API}/queue/data"
    assert gate.ask(path=data, query="session_hash=h", cookie=MINE).text == "fine"
    assert gate.last.query == {"session_hash": [key]}
    assert gate.streams == [("opened", key), ("closed", key)]
    unknown = gate.ask(path=data, query="session_hash=other", cookie=MINE)
    assert (unknown.status, unknown.text) == (200, NO_SESSION)
    assert unknown.headers["content-type"] == ["text/event-stream; charset=utf-8"]
    assert len(gate.streams) == 2
    assert gate.ask(path=f"{API}/heartbeat/new", cookie=MINE).status == 200  # which makes it known
    refused = gate.ask(path=data)
    assert refused.status == 400
    assert "names no session" in refused.text
    alone = Asked(tmp_path / "two")
    assert alone.ask(path=data, query="a=1&session_hash=h").text == "fine"


def test_a_hash_in_a_path_goes_before_one_in_the_query(gate):
    gate.ask(path=f"{API}/heartbeat/h/", query="session_hash=i", cookie=MINE)
    first, second = (session_key(z, MINE) for z in "hi")
    assert gate.streams[0] == ("opened", first)
    assert gate.last.query == {"session_hash": [second]}


def test_the_page_may_stand_below_a_path(tmp_path):
    place = read_place("https://hub.example/lab")
    gate = Asked(tmp_path, place=place, hosts=("hub.example",))
    moved = gate.ask(path="/lab")
    assert (moved.status, moved.headers["location"]) == (308, ["/lab/"])
    for path in ("/lab/", "/"):
        answer = gate.ask(path=path)
        assert answer.status == 200
        assert (gate.last.path, gate.last.scope["raw_path"]) == ("/", b"/")
        assert gate.last.scope["root_path"] == ""
        assert "Path=/lab;" in answer.headers["set-cookie"][0]
    assert gate.ask(path="/lab/gallery/a b").status == 200
    assert gate.last.scope["raw_path"] == b"/gallery/a%20b"
    own = {"host": "inner", "origin": "https://hub.example"}
    assert gate.ask(path="/lab/", **own | {"host": "hub.example"}).status == 200
    assert gate.ask(origin="HTTPS://HUB.example").status == 200
    assert gate.ask(origin="http://hub.example").status == 403


def test_the_study_s_pages_stand_one_step_above(tmp_path):
    site = SimpleNamespace(knows_organiser=lambda cookie: False)
    gate = Asked(tmp_path, site=site, only_study=True, place=read_place("/lab"))
    for path in ("/rate/", "/organise/", "/lab/rate/"):
        moved = gate.ask(path=path)
        name = path.removeprefix("/lab").rstrip("/")
        assert (moved.status, moved.headers["location"]) == (308, [f"/lab{name}"])
    assert gate.ask(path="/lab/").headers["location"] == ["/lab/rate"]
    assert gate.ask(path="/lab/organise").status == 200


def test_a_body_of_two_lengths_ends_the_connection(gate):
    refused = gate.ask("POST", f"{API}/reset", {}, transfer_encoding="chunked")
    assert refused.status == 400
    assert refused.headers["connection"] == ["close"]
    assert "connection" not in gate.ask(path="/other").headers


def test_an_answer_of_wrong_fields_is_explained(gate):
    gate.app.status, gate.app.answer = 422, b"[]"
    refused = gate.ask("POST", f"{API}/reset", {})
    assert (refused.status, json.loads(refused.text)["error"]) == (422, WRONG_FIELDS)
    assert gate.ask(path="/config").text == "[]"  # only what a call brought has fields


FAILED = [
    ("Choose a video.", 400),
    (NO_MEMORY, 503),
    *((unforeseen(b), 500) for b in (True, False)),
]


@pytest.mark.parametrize(("error", "status"), FAILED)
def test_an_event_that_fails_with_words_is_no_fault_of_the_server(tmp_path, error, status):
    gate = Asked(tmp_path, public=error == unforeseen(True), hosts=("localhost",))
    gate.app.status, gate.app.answer = 500, json.dumps({"error": error}).encode()
    answer = gate.ask("POST", f"{API}/reset", {})
    assert (answer.status, json.loads(answer.text)["error"]) == (status, error)
    assert gate.ask(path="/config").status == 500


def test_an_app_that_answers_nothing_is_not_answered_for(gate):
    async def nothing(scope, receive, send):
        return

    gate.gate.app = nothing
    assert gate.asked("POST", f"{API}/reset", {}) == []


def test_inputs_that_a_function_does_not_take_are_refused(tmp_path):
    asked = []

    class Asks(Users):
        def wrong_inputs(self, kind, name, index, content):
            asked.append((kind, name, index, content))
            return content.get("wrong", "")

    gate = Asked(tmp_path, Asks(("", 3), ("run", None), ("run", 4)))
    body = {"fn_index": 3, "wrong": "one input too many", "oauth_token": "t"}
    refused = gate.ask("POST", f"{API}/queue/join", body)
    assert (refused.status, json.loads(refused.text)["error"]) == (400, "one input too many")
    assert asked == [("", "", 3, {"fn_index": 3, "wrong": "one input too many"})]
    asked.clear()
    for path, kind, index in (("run/run", "run", 4), ("call/v2/run", "call/v2", 9)):
        assert gate.ask("POST", f"{API}/{path}", {"fn_index": index}).status == 200
        assert asked.pop() == (kind, "run", index, {"fn_index": index})


def test_a_call_is_held_to_what_its_visitor_has(tmp_path):
    asked = []

    class Notes(Users):
        def unread_of_tab(self, key):
            asked.append(key)
            return 0

        def waiting_of(self, visitor):
            asked.append(visitor)
            return 0

    gate = Asked(tmp_path, Notes(("", 3)))
    gate.quota.limits = LIMITS
    gate.ask("POST", f"{API}/queue/join", {"fn_index": 3, "session_hash": "h"}, cookie=MINE)
    assert asked == [session_key("h", MINE), PEER]


def test_requests_by_way_of_a_proxy_are_counted_for_their_visitor(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "most_of_one", lambda: 1)
    gate = Asked(tmp_path, proxies=(ip_network("10.0.0.0/8"),))
    counted = []
    gate.app.inside = lambda: counted.append(dict(connections._asked))
    assert gate.ask(peer="10.0.0.1", x_forwarded_for="8.8.8.8").status == 200
    assert gate.ask().status == 200  # whose connection is counted itself
    assert [c.get("8.8.8.8", 0) for c in counted] == [1, 0]
    assert PEER not in counted[1]
    monkeypatch.setitem(connections._asked, "8.8.8.8", 1)
    refused = gate.ask(peer="10.0.0.1", x_forwarded_for="8.8.8.8")
    assert refused.status == 503
    assert refused.text.startswith("Too many requests from your address. Wait a few seconds. ")
    assert gate.ask(peer="10.0.0.1", x_forwarded_for="7.7.7.7").status == 200


def test_cancelling_and_resetting_bring_no_data(gate):
    """Only a call's files are looked at; what else there is passes."""
    for path in ("cancel", "reset"):
        gate.ask("POST", f"{API}/{path}", {"session_hash": "h", "event_id": "e"}, cookie=MINE)
        assert json.loads(gate.last.body) == {
            "session_hash": session_key("h", MINE), "event_id": "e",
        }  # fmt: skip


def test_numbers_that_json_lacks_are_told_by_who_is_called(gate):
    """Elsewhere Gradio would repeat them in an error that cannot be written."""
    held = b'{"data": [1e999]}'
    assert gate.ask("POST", f"{API}/queue/join", held).status == 200
    for path in ("cancel", "reset"):
        refused = gate.ask("POST", f"{API}/{path}", held)
        assert refused.status == 400
        assert "NaN" in refused.text


def test_a_path_of_more_letters_is_another(tmp_path):
    gate = Asked(tmp_path)
    assert gate.ask(path="/logoutX", sec_fetch_site="cross-site").status == 404
    assert gate.ask(path=f"{API}/upload_progressX", query="upload_id=a").status == 404
    gate.quota.refused = {"request"}
    form = {"content_type": "application/x-www-form-urlencoded"}
    assert gate.ask("POST", "/loginX", b"a=b", **form).status == 404
    site = SimpleNamespace(knows_organiser=lambda cookie: False)
    study = Asked(tmp_path / "study", site=site, only_study=True)
    refused = study.ask(path="/healthzX")
    assert refused.text == "There is nothing here. Raters start at /rate."
    told = gate.ask(path="/configX", host="evil.example")
    assert told.headers["content-type"][0].startswith("text/plain")


def asked_alone(gate, path="/", headers=(), **scope):
    """The messages of a request whose head is written by hand."""
    return gate.messages(
        {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(),
         "query_string": b"", "scheme": "http", "root_path": "", "client": (PEER, 1),
         "headers": list(headers)} | scope,
        {"type": "http.request", "body": b"", "more_body": False},
    )  # fmt: skip


def test_a_request_without_a_host_is_not_answered(gate):
    start, body = asked_alone(gate)
    assert start["status"] == 421
    assert b"for the host ''." in body["body"]


def test_the_app_hears_of_the_server_s_start_and_end(gate):
    heard = []

    async def app(scope, receive, send):
        heard.append(await receive())

    gate.gate.app = app
    gate.messages({"type": "lifespan"}, {"type": "lifespan.startup"})
    assert heard == [{"type": "lifespan.startup"}]


def test_the_app_knows_the_page_s_address_alone(gate):
    asked_alone(gate, headers=[(b"host", b"localhost")], root_path="/of/the/proxy")
    assert gate.last.scope["root_path"] == ""


def test_an_answer_may_have_no_headers(gate):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b""})

    gate.gate.app = app
    answer = gate.ask()
    assert answer.status == 200
    assert answer.headers["x-content-type-options"] == ["nosniff"]


def test_after_its_body_a_call_hears_when_the_connection_ends(gate):
    heard = []

    async def app(scope, receive, send):
        heard.extend([await receive(), await receive()])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    gate.gate.app = app
    assert gate.ask("POST", f"{API}/reset", {}).status == 200
    assert [m["type"] for m in heard] == ["http.request", "http.disconnect"]


def test_each_header_that_the_gate_sets_stands_once(gate):
    gate.ask("POST", f"{API}/reset", b'{ "a" :  1}', content_type="application/json; x=y")
    names = [k for k, _ in gate.last.scope["headers"]]
    assert names.count(b"content-length") == names.count(b"content-type") == 1


def test_an_address_of_its_own_may_ask_by_another_host(tmp_path):
    gate = Asked(tmp_path, place=read_place("http://hub.example:81"))
    assert gate.ask(origin="http://HUB.example:81").status == 200
    assert gate.ask(origin="http://hub.example:82").status == 403


def test_several_people_behind_one_address_have_more(tmp_path):
    gate = Asked(tmp_path, visitors_per_address=3)
    held, answers = gate.gate._bodies, gate.gate._answers
    assert (held._share, held._most) == (3 * bodies.SHARE, bodies.HELD)
    assert (answers._share, answers._most) == (3 * bodies.ANSWERS_SHARE, bodies.ANSWERS_HELD)
    held._held["8.8.8.8"] = bodies.HELD
    refused = gate.ask("POST", f"{API}/reset", {})
    words = json.loads(refused.text)["error"]
    assert words == "The server reads too much at this moment. Try again."


def test_a_study_on_a_space_may_be_framed_by_its_host(tmp_path):
    site = SimpleNamespace(knows_organiser=lambda cookie: False)
    gate = Asked(tmp_path, site=site, space=True, public=True)
    policy = gate.ask(path="/rate").headers["content-security-policy"]
    assert policy == [f"{STUDY_CSP}; frame-ancestors 'self' https://huggingface.co"]


def test_what_is_said_of_calls_and_of_answers(tmp_path):
    users = Users(("", 3), waiting=3)
    gate = Asked(tmp_path, users)
    gate.quota.limits = LIMITS
    join = ("POST", f"{API}/queue/join", {"fn_index": 3})
    said = json.loads(gate.ask(*join).text)["error"]
    assert said.startswith("3 calls from your address wait already. Try again later. ")
    gate.app.error = ClientDisconnect()
    assert gate.ask().text == "The connection was closed."


def test_uploads_may_be_as_large_as_the_settings_say(tmp_path):
    gate = Asked(tmp_path, max_megabytes=0.5)
    form = {"content_type": "multipart/form-data; boundary=x"}
    for length in (str(2 * 10**6), "1"):
        body = b"x" * (10 if length == "1" else 2 * 10**6)
        refused = gate.ask("POST", f"{API}/upload", body, **form)
        assert refused.status == (200 if length == "1" else 413)
    assert "larger than 0.5 MB" in gate.ask("POST", f"{API}/upload", b"x" * 2 * 10**6, **form).text


def test_a_file_is_had_by_the_browser_or_the_user_who_uploaded_it(tmp_path):
    """Behind one address too; a program without a cookie is told apart by its address."""
    form = {"content_type": "multipart/form-data; boundary=x"}
    browser, user = {"cookie": "d" * 43}, {"cookie": "ada" + 40 * "x"}
    for by, settings in ((browser, {}), ({}, {}), (user, {"auth": "users"})):
        gate = Asked(tmp_path / str(len(list(tmp_path.iterdir()))), Users(), **settings)
        file = gate.uploads / "a.mp4"
        file.write_bytes(b"x")
        gate.app.answer = json.dumps([str(file)]).encode()
        assert gate.ask("POST", f"{API}/upload", b"x" * 10, **form, **by).status == 200
        others = [{"cookie": MINE}, {"peer": "8.8.8.8"}]
        if settings:
            others = [{"cookie": "ada" + 40 * "y"}]  # the same user elsewhere
        got = [gate.ask(path=f"{FILE}{file}", **who).status for who in (by, *others)]
        assert got == ([200, 200] if settings else [200, 403, 403])
