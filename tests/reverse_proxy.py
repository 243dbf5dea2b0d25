"""A small reverse proxy on loopback, which treats prefix, Host and headers as real ones do."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.patience import PATIENCE_S

END = b"\r\n\r\n"
PIECE = 2**16
HUB = "hub.localhost"
"""The name by which browsers know the proxy: they look for it on this machine."""


@dataclass(frozen=True)
class Way:
    """How requests are passed on. prefix: of every address, "" for none; does not end in "/".

    strips: the server does not see the prefix. rewrites: Host becomes the server's own.
    forwards: X-Forwarded-For, -Host and -Proto say what was asked for.
    """

    prefix: str = ""
    strips: bool = False
    rewrites: bool = False
    forwards: bool = False


WAYS = tuple(
    Way("/user/ada/proxy/7860", *flags) for flags in itertools.product((True, False), repeat=3)
)


@contextmanager
def proxying(server: str, way: Way, port: int = 0) -> Iterator[int]:
    """The port of a proxy before `server`; 0: any free one.

    What is not below the prefix is answered with 404, as a hub's own pages would be.
    """
    loop, started = asyncio.new_event_loop(), threading.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _answer(reader, writer, server, way)

    listener: asyncio.Server

    async def start() -> None:
        nonlocal port, listener
        listener = await asyncio.start_server(answer, "127.0.0.1", port)
        port = listener.sockets[0].getsockname()[1]
        started.set()

    async def end() -> None:
        listener.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def run() -> None:
        loop.run_until_complete(start())
        loop.run_forever()
        loop.run_until_complete(end())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(PATIENCE_S)
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: str, way: Way
) -> None:
    """One request; its connection then ends on both sides."""
    place = urlsplit(server)
    try:
        head = await reader.readuntil(END)
        passed = _passed_on(head, place.netloc, way)
        if isinstance(passed, str):
            writer.write(f"HTTP/1.1 {passed}\r\ncontent-length: 0\r\n\r\n".encode())
            await writer.drain()
            return
        there, back = await asyncio.open_connection(place.hostname, place.port)
        try:
            back.write(passed)
            both = [
                asyncio.ensure_future(_copy(*ends)) for ends in ((reader, back), (there, writer))
            ]
            # a browser that closes its side ends the server's stream, as with any proxy
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in both:
                task.cancel()
        finally:
            back.close()
    except (OSError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError):
        pass  # one of both has closed its side, or the test has ended
    finally:
        writer.close()


def _passed_on(head: bytes, server: str, way: Way) -> bytes | str:
    """The head of a request as the server gets it; else the proxy's own answer."""
    first, *lines = head[: -len(END)].decode("latin-1").split("\r\n")
    method, target, version = first.split(" ")
    if target == way.prefix and way.strips:
        return f"301 Moved\r\nlocation: {target}/"
    if target != way.prefix and not target.startswith((f"{way.prefix}/", f"{way.prefix}?")):
        return "404 Not Found"
    target = target.removeprefix(way.prefix) if way.strips else target
    headers = [line.split(": ", 1) for line in lines]
    host = next(value for name, value in headers if name.lower() == "host")
    kept = [(name, v) for name, v in headers if name.lower() not in ("connection", "host")]
    kept += [("Host", server if way.rewrites else host), ("Connection", "close")]
    if way.forwards:
        kept += [("X-Forwarded-For", "203.0.113.7"), ("X-Forwarded-Host", host),
                 ("X-Forwarded-Proto", "http")]  # fmt: skip
    told = "".join(f"{name}: {value}\r\n" for name, value in kept)
    return f"{method} {target} {version}\r\n{told}\r\n".encode("latin-1")


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while piece := await source.read(PIECE):
        target.write(piece)
        await target.drain()
