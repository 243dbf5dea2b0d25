"""Bounds of an exchange with a server that may be slow, hostile or broken.

Time and bytes are counted where they leave the socket: headers that drip, informational answers
without an end and a coding of empty blocks end by the same clock. What a coding unpacks to, and
what JSON will take, is bounded before it is made.
"""

from __future__ import annotations

import json
import ssl
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import httpcore
import httpx

from macd_studio.core.errors import RemoteError

ASK_LESS = "Ask for fewer log-probabilities, or look at what listens at that address"
OBJECT, LIST, VALUE = 300, 90, 48
"""Bytes that Python takes at most for an object, a list and a value of JSON, beside its text."""
MOST_PARSED = 768 * 2**20
"""Of memory that the values of one answer may take."""


class Exchange(httpcore.NetworkStream):
    """A connection on which each exchange has `seconds` from its first byte on, and `most` bytes.

    An exchange begins with the first byte that is written after something was read. heard:
    called with each piece that arrives.
    """

    def __init__(
        self, stream: httpcore.NetworkStream, seconds: float, most: int, heard: Callable[[], None]
    ) -> None:
        self._stream, self._seconds, self._most, self._heard = stream, seconds, most, heard
        self._began, self._taken, self._answering = time.monotonic(), 0, False

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """See httpcore. Raises ReadTimeout once the time is over, ReadError for too many bytes."""
        self._answering = True
        left = self._began + self._seconds - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("the answer does not end")
        piece = self._stream.read(max_bytes, left if timeout is None else min(timeout, left))
        self._taken += len(piece)
        self._heard()
        if self._taken > self._most:
            raise httpcore.ReadError("the answer has too many bytes")
        return piece

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """See httpcore."""
        if self._answering:
            self._began, self._taken, self._answering = time.monotonic(), 0, False
        self._stream.write(buffer, timeout)

    def close(self) -> None:
        """See httpcore."""
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        """See httpcore."""
        stream = self._stream.start_tls(ssl_context, server_hostname, timeout)
        return Exchange(stream, self._seconds, self._most, self._heard)

    def get_extra_info(self, info: str) -> Any:
        """See httpcore."""
        return self._stream.get_extra_info(info)


class _Backend(httpcore.SyncBackend):
    def __init__(self, seconds: float, most: int, heard: Callable[[], None]) -> None:
        self._bounds = seconds, most, heard

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        stream = super().connect_tcp(host, port, timeout, local_address, socket_options)
        return Exchange(stream, *self._bounds)


def bounded_transport(
    connections: int, seconds: float, most: int, heard: Callable[[], None] = lambda: None
) -> httpx.BaseTransport:
    """httpx's own transport over connections whose exchanges are bounded.

    heard: called with each piece that arrives.
    """
    transport = httpx.HTTPTransport(trust_env=False)
    transport._pool = httpcore.ConnectionPool(
        ssl_context=httpx.create_ssl_context(trust_env=False),
        max_connections=connections,
        network_backend=_Backend(seconds, most, heard),
    )
    return transport


def content_of(answer: httpx.Response, most: int, check: Callable[[], None]) -> bytes:
    """The body of an answer, unpacked where it has one coding, never more than `most` bytes.

    check: called with each piece; raises to end the reading. Raises RemoteError.
    """
    coding = answer.headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity", "gzip", "deflate"):
        raise RemoteError(
            f"the server codes its answer as {coding[:40]!r}",
            "Let it, and the proxy in front of it, send plain answers",
        )
    unpack = zlib.decompressobj(47) if coding in ("gzip", "deflate") else None
    pieces, size = [], 0
    for raw in (answer.content,) if answer.is_stream_consumed else answer.iter_raw():
        check()
        waiting = raw
        while waiting:
            piece, waiting = waiting, b""
            if unpack is not None:
                try:
                    piece = unpack.decompress(piece, most - size + 1)
                except zlib.error as error:
                    raise httpx.DecodingError(str(error)) from error
                waiting = unpack.unconsumed_tail
            size += len(piece)
            if size > most:
                raise RemoteError(
                    f"the server's answer is larger than {most // 2**20} MB", ASK_LESS
                )
            pieces.append(piece)
    return b"".join(pieces)


def read_json(content: bytes, no_number: Callable[[str], Any]) -> Any:
    """The values of JSON, whose memory is estimated from its marks first.

    no_number: called for NaN and infinities. Raises RemoteError where they would take more than
    MOST_PARSED, or are nested deeply; ValueError for what is no JSON.
    """
    objects, lists, values = (content.count(mark) for mark in (b"{", b"[", b","))
    if OBJECT * objects + LIST * lists + VALUE * values + 2 * len(content) > MOST_PARSED:
        raise RemoteError(
            f"the server's answer holds more values than {MOST_PARSED // 2**20} MB have room for",
            ASK_LESS,
        )
    try:
        return json.loads(content, parse_constant=no_number)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
