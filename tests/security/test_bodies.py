"""What requests bring: their type, their size and when they are read, on every open route."""

import asyncio
import select
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from starlette.responses import Response
from starlette.routing import Route

from macd_studio.macd_ui.serving import bodies, routes
from macd_studio.macd_ui.serving.bodies import most_of
from macd_studio.macd_ui.serving.routes import FORM, JSON, MOST, Doors
from macd_studio.macd_ui.settings import ServerSettings
from tests.patience import PATIENCE_S
from tests.raw import API, Visitor
from tests.security.conftest import connected, serving

TAKING = [d for d in Doors().all if d.method == "POST"]
READING = [d for d in Doors().all if d.method == "GET" and not d.stream]
FOREIGN_TYPES = ["application/x+json", "text/json", "application/ld+json", "application/json5",
                 "application/octet-stream", "text/plain", "*/*", "", "application",
                 "application/vnd.api+json; charset=utf-8"]  # fmt: skip


def nothing(path):
    """No file may be read."""
    return False


def path_of(door):
    return door.path.replace("{api_name}", "run")


def ids(doors):
    return [f"{d.method} {d.path}" for d in doors]


def answered(store, door, headers, sent=b"", **named):
    """The status of a request of which only so much is sent."""
    lines = [f"{named.get('method', door.method)} {named.get('path', path_of(door))} HTTP/1.1",
             "Host: localhost", *(f"{k}: {v}" for k, v in headers)]  # fmt: skip
    with connected(store) as plain:
        plain.sendall("\r\n".join([*lines, "", ""]).encode() + sent)
        return int(plain.makefile("rb").readline().split()[1])


@pytest.mark.parametrize("door", TAKING, ids=ids(TAKING))
def test_a_body_of_another_type_is_refused_before_it_is_read(store, door):
    size = ("Content-Length", "300000000")  # and nothing of it is sent
    for kind in FOREIGN_TYPES:
        assert answered(store, door, [("Content-Type", kind), size]) == 415, kind
    assert answered(store, door, [size]) == 415
    good = routes.TYPES[door.body][0]
    assert answered(store, door, [("Content-Type", good), ("Content-Type", good), size]) == 415
    gzip = ("Content-Encoding", "gzip")
    assert answered(store, door, [("Content-Type", good), gzip, size]) == 415


@pytest.mark.parametrize("door", TAKING, ids=ids(TAKING))
@pytest.mark.parametrize("given", [str.lower, str.upper, str.title, lambda k: f" {k} ; charset=x"])
def test_the_right_type_is_bounded_however_it_is_written(store, door, given):
    kind = given(routes.TYPES[door.body][-1])
    most = most_of(door, store.settings.largest_mb)
    headers = [("Content-Type", kind), ("Content-Length", str(most + 1))]
    assert answered(store, door, headers) == 413


@pytest.mark.parametrize("door", [d for d in TAKING if d.body in (JSON, FORM)],
                         ids=lambda d: d.path)  # fmt: skip
def test_a_body_in_chunks_is_bounded(store, door):
    piece = b" " * 2**16
    chunk = f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
    headers = [("Content-Type", routes.TYPES[door.body][0]), ("Transfer-Encoding", "chunked")]
    sent = chunk * (MOST[door.body] // len(piece) + 1)  # and never an end
    assert answered(store, door, headers, sent) == 413


@pytest.mark.parametrize("door", READING, ids=ids(READING))
def test_what_takes_no_body_refuses_one(store, door):
    path = door.path.replace("{path:path}", "x").replace("{path_or_url:path}", "x")
    for part in ("{token}", "{name}", "{hash}"):
        path = path.replace(part, "x")
    assert answered(store, door, [("Content-Length", "1000000000")], path=path) == 413
    assert answered(store, door, [("Transfer-Encoding", "chunked")], path=path) == 413


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "X"])
def test_other_methods_are_closed(store, method):
    for door in (TAKING[0], *TAKING[-3:], *READING[:3]):
        headers = [("Content-Type", "application/json"), ("Content-Length", "1000000000")]
        assert answered(store, door, headers, method=method) in (400, 404)


def test_whoever_has_not_logged_in_is_refused_before_anything_is_read(users):
    with serving(ServerSettings(auth=users, public=True)) as server:
        for door in Doors().all:
            if not door.login or "{" in door.path.replace("{api_name}", ""):
                continue
            kind = routes.TYPES.get(door.body, ("text/plain",))[0]
            headers = [("Content-Type", kind), ("Content-Length", "1000")]
            assert answered(server, door, headers) == 401, door
        visitor = Visitor(server.url)
        for path in ("/files/example/same_dish.macd", "/gallery/x", f"{API}/heartbeat/x",
                     f"{API}/file=/etc/passwd", "/docs/page.md"):  # fmt: skip
            assert visitor.http.get(path).status_code == 401, path


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_what_is_no_number_of_json_is_refused_before_the_app(number):
    """Outside of calls, which tell it themselves, it was a 500."""
    body = f'{{"event_data": [{number}]}}'.encode()
    with pytest.raises(bodies.Refusal) as told:
        bodies.checked(bodies.parsed(body), None, nothing, is_call=False)
    assert told.value.status == 400
    assert "NaN" in str(told.value)
    assert bodies.checked(bodies.parsed(body), None, nothing)


def test_bodies_under_way_are_counted_together(public):
    """Slow bodies of one visitor: what is held of them has a bound, and the rest is refused."""
    piece = b" " * 1_000_000
    head = (f"POST {API}/queue/join HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
            "application/json\r\nContent-Length: 1000001\r\n\r\n").encode()  # fmt: skip
    fitting = bodies.SHARE // len(piece)
    with ExitStack() as stack:
        opened = [stack.enter_context(connected(public)) for _ in range(fitting + 1)]
        for plain in opened:  # none is whole
            plain.sendall(head + piece)
        ready, _, _ = select.select(opened, [], [], PATIENCE_S)
        assert [int(plain.makefile("rb").readline().split()[1]) for plain in ready] == [503]


def test_answers_that_nobody_reads_are_counted_together(public):
    """Whoever asks for much and reads none of it fills no memory: the rest is refused."""
    size = 16_000_000

    def large(request):
        return Response(b"x" * size, media_type="application/octet-stream")

    app = public.page.app
    app.router.routes.insert(0, Route("/source.zip", large))
    head = b"GET /source.zip HTTP/1.1\r\nHost: localhost\r\n\r\n"
    statuses = []
    try:
        with ExitStack() as stack:
            for _ in range(bodies.ANSWERS_SHARE // size + 2):
                plain = stack.enter_context(connected(public))
                plain.sendall(head)
                statuses.append(int(plain.recv(12).split()[1]))  # and no more of it
        assert statuses == [200] * (len(statuses) - 2) + [503] * 2
        assert Visitor(public.url).http.get("/source.zip").content == b"x" * size
    finally:
        del app.router.routes[0]


def test_an_answer_alone_may_be_as_large_as_it_is():
    held = bodies.Held(share=10, most=100, words="")
    with held.share("ada") as take:
        take(60)
        take(30)
        with held.share("bob") as other, pytest.raises(bodies.Refusal):
            other(11)
        with held.share("ada") as second, pytest.raises(bodies.Refusal):
            second(1)
    with held.share("bob") as take:
        take(100)


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 20, 25])
def test_pieces_are_the_answer(monkeypatch, size):
    monkeypatch.setattr(bodies, "PIECE", 10)
    body, sent, taken = bytes(range(size)), [], []

    async def send(message):
        sent.append(message)

    async def answered():
        pieces = bodies.in_pieces(send, taken.append)
        await pieces({"type": "http.response.start", "status": 200})
        assert not sent
        await pieces({"type": "http.response.body", "body": body})

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, answered()).result()
    assert b"".join(m.get("body", b"") for m in sent) == body
    assert [m.get("more_body", False) for m in sent[1:]][-1] is False
    assert all(m["more_body"] for m in sent[1:-1])
    assert taken == ([size] if size > 10 else [])
