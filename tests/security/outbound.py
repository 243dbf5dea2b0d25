"""Notes which other machines this process tries to reach, and serves an address that nobody may."""

from __future__ import annotations

import ipaddress
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_noted: list[str] | None = None
_hooked = False


def _is_here(host: str) -> bool:
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _noted is None or event not in ("socket.getaddrinfo", "socket.connect", "socket.sendto"):
        return
    if event == "socket.getaddrinfo":
        host = arguments[0] or ""
    else:
        where = arguments[-1]
        host = where[0] if isinstance(where, tuple) else ""  # a path: a socket of this machine
    host = host.decode() if isinstance(host, bytes) else str(host)
    if not _is_here(host):
        _noted.append(f"{event} {host}")
        raise PermissionError(f"a test refused {event} {host}")


@contextmanager
def guarded() -> Iterator[list[str]]:
    """Refuses names to look up and connections that are not of this machine; gives what was tried.

    An audit hook sees them whichever library opens them. It cannot be taken out again, so it does
    nothing outside of this.
    """
    global _noted, _hooked
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True
    _noted = []
    try:
        yield _noted
    finally:
        _noted = None


@contextmanager
def trap() -> Iterator[tuple[str, list[str]]]:
    """An address of this machine that must not be asked for, and what was asked for there."""
    asked: list[str] = []

    class Noted(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return None

        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            self.send_response(200)
            self.send_header("Content-Length", "7")
            self.end_headers()
            self.wfile.write(b"foreign")

        do_HEAD = do_POST = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Noted)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
