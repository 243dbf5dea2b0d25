"""Connections that are opened and not used: they keep nobody else out, and fill no log."""

import copy
import logging
import resource
from contextlib import ExitStack
from ipaddress import ip_network

import uvicorn

from macd_studio.macd_ui.serving import connections
from macd_studio.macd_ui.serving.logs import MOST, Seldom, set_up_logging
from tests.raw import API, Visitor
from tests.security.conftest import connected


def opened(stack, store, source="127.0.0.1"):
    return stack.enter_context(connected(store, source))


def ended(plain):
    """Whether the other side has closed it; waits until it has, or something came."""
    try:
        return plain.recv(100) == b""
    except ConnectionResetError:
        return True


def page(plain, store):
    """The first line of the answer to a request of the page."""
    plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return plain.recv(12)


def test_one_address_leaves_room_for_others(store, monkeypatch):
    before = connections._open.total()  # of clients of earlier tests, which may close meanwhile
    monkeypatch.setattr(connections, "most", lambda: before + 80)
    monkeypatch.setattr(connections, "most_of_one", lambda: 20)
    with ExitStack() as stack:
        idle = [opened(stack, store, "127.0.0.7") for _ in range(20)]
        idle[0].sendall(b"GET / HT")
        assert ended(opened(stack, store, "127.0.0.7"))  # one too many
        assert page(opened(stack, store, "127.0.0.9"), store) == b"HTTP/1.1 200"
        assert page(idle[-1], store) == b"HTTP/1.1 200"
        others = (opened(stack, store, f"127.0.1.{1 + n}") for n in range(before + 80))
        assert any(ended_at_once(one, store) for one in others)  # all together have a bound too
    while connections._open["127.0.0.7"]:
        Visitor(store.url, cookies=False).http.get("/healthz", headers={"connection": "close"})


def test_a_trusted_proxy_has_the_connections_of_all_its_visitors(store, monkeypatch):
    before = connections._open.total()
    monkeypatch.setattr(connections, "most", lambda: before + 80)
    monkeypatch.setattr(connections, "most_of_one", lambda: 5)
    monkeypatch.setattr(connections, "_proxies", (ip_network("127.0.0.5/32"),))
    with ExitStack() as stack:
        for _ in range(20):
            last = opened(stack, store, "127.0.0.5")
        assert page(last, store) == b"HTTP/1.1 200"
        others = [opened(stack, store, "127.0.0.6") for _ in range(6)]
        assert ended(others[-1])
    while connections._open["127.0.0.5"]:
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
        assert sum(store.sessions._connections.values()) == 1
        visitor.close_tab()


def test_a_websocket_is_closed(store):
    with connected(store) as plain:
        plain.sendall(
            f"GET {API}/queue/join HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: "
            "websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        assert not plain.recv(100).startswith(b"HTTP/1.1 101")


def test_the_process_has_the_descriptors_that_it_may_have(store):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft >= min(hard, connections.WANTED)
    assert connections.most() == soft - connections.RESERVED or soft < 400
    assert connections.most_of_one() == connections.most() // 2


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


def test_uvicorn_writes_to_the_server_s_log_alone(monkeypatch):
    """It gives its loggers handlers of their own, which bound nothing, when a server is made."""
    loggers = copy.deepcopy(uvicorn.config.LOGGING_CONFIG["loggers"])
    monkeypatch.setitem(uvicorn.config.LOGGING_CONFIG, "loggers", loggers)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", root.handlers[:])
    former = root.level
    try:
        set_up_logging(False)
        uvicorn.Config(app="x", log_level="warning")
        for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
            logger = logging.getLogger(name)
            assert not logger.handlers
            assert logger.propagate
        (handler,) = root.handlers
        assert any(isinstance(f, Seldom) for f in handler.filters)
    finally:
        root.setLevel(former)
