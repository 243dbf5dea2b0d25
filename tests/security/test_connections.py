"""Connections that are opened and not used: they keep nobody else out, and fill no log."""

import logging
import resource
import socket
from contextlib import ExitStack

from macd_ui.serving import connections
from macd_ui.serving.logs import MOST, Seldom
from tests.patience import PATIENCE_S
from tests.raw import API, Visitor


def opened(stack, store, source="127.0.0.1"):
    """A connection from some address of this machine."""
    host, port = store.url.removeprefix("http://").split(":")
    where = (host, int(port))
    plain = socket.create_connection(where, PATIENCE_S, source_address=(source, 0))
    return stack.enter_context(plain)


def ended(plain):
    """Whether the other side has closed it; waits until it has, or something came."""
    try:
        return plain.recv(100) == b""
    except ConnectionResetError:
        return True


def page(plain, store):
    """The first line of the answer to a request of the page."""
    host = store.url.removeprefix("http://")
    plain.sendall(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    return plain.recv(12)


def test_one_address_leaves_room_for_others(store, monkeypatch):
    before = connections._open.total()
    monkeypatch.setattr(connections, "most", lambda: before + 40)
    with ExitStack() as stack:
        share = connections.most_of_one()
        idle = [opened(stack, store) for _ in range(share - connections._open["127.0.0.1"])]
        idle[0].sendall(b"GET / HT")
        assert ended(opened(stack, store))  # one too many
        assert page(opened(stack, store, "127.0.0.9"), store) == b"HTTP/1.1 200"
        assert page(idle[-1], store) == b"HTTP/1.1 200"
        others = 40
        for n in range(others):  # and all together have a bound too
            if ended_at_once(opened(stack, store, f"127.0.1.{1 + n}"), store):
                break
        else:
            raise AssertionError("there is no bound")
    while connections._open.total() > before:
        Visitor(store.url, cookies=False).http.get("/healthz", headers={"connection": "close"})


def ended_at_once(plain, store):
    """Whether a connection was refused: no request on it is answered."""
    try:
        return not page(plain, store)
    except OSError:
        return True


def test_a_request_that_never_begins_is_given_up(store, monkeypatch):
    visitor = Visitor(store.url)
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    with ExitStack() as stack:
        visitor.open_tab()  # a stream that says little stays open
        for sent in (b"", b"GET / HTTP/1.1\r\nHost: x", b"GET /healthz HT"):
            plain = opened(stack, store)
            plain.sendall(sent)
            assert ended(plain)
        used = opened(stack, store)
        assert page(used, store) == b"HTTP/1.1 200"
        while used.recv(1000):  # after its answer it may wait as long again
            pass
        assert sum(store._connections.values()) == 1
        visitor.close_tab()


def test_a_websocket_is_closed(store):
    with ExitStack() as stack:
        plain = opened(stack, store)
        host = store.url.removeprefix("http://")
        plain.sendall(
            f"GET {API}/queue/join HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: "
            "websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        assert not plain.recv(100).startswith(b"HTTP/1.1 101")


def test_the_process_has_the_descriptors_that_it_may_have(store):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft >= min(hard, connections.WANTED)
    assert connections.most() == soft - connections.RESERVED or soft < 400


def test_the_log_repeats_itself_seldom():
    now = [0.0]
    seldom, written = Seldom(lambda: now[0]), []

    def tell(text, error=None):
        info = (error, error(), None) if error else None
        record = logging.LogRecord("a", logging.WARNING, "file.py", 7, text, None, info)
        if seldom.filter(record):
            written.append(record.getMessage())

    for _ in range(5 * MOST):
        tell("bad request")
    assert written == ["bad request"] * MOST
    tell("bad request", ValueError)  # another kind
    assert len(written) == MOST + 1
    now[0] = 61.0
    tell("bad request")
    tell("bad request")
    assert written[-2:] == [f"bad request (and {4 * MOST} more like it before)", "bad request"]


def test_requests_that_are_none_fill_no_log(store, caplog):
    seldom, written = Seldom(), []
    handler = logging.Handler()
    handler.addFilter(seldom)
    handler.emit = written.append
    logging.getLogger().addHandler(handler)
    try:
        with ExitStack() as stack:
            for _ in range(3 * MOST):
                plain = opened(stack, store)
                plain.sendall(b"\x16\x03\x01 no request\r\n\r\n")
                assert b"400" in plain.recv(100)
    finally:
        logging.getLogger().removeHandler(handler)
    assert len(written) <= MOST
