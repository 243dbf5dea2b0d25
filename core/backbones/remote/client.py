"""Requests to a server: several under way at once, tried again, bounded in time and size.

Every request only reads, so that any of them may be sent again. Proxies of the environment and
redirects are not followed: frames go to the host that was named and to no other. Time and bytes are
counted where they leave the socket: headers that drip, informational answers without an end and a
coding of empty blocks end by the same clock. What a coding unpacks to, and what JSON will take, is
bounded before it is made.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from copy import copy
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx

from macd_studio.core.backbones.remote_address import FORM, KEY, Address
from macd_studio.core.errors import Cancelled, NumericalError, RemoteError
from macd_studio.core.types import Progress
from macd_studio.core.validation import shown

CONCURRENCY = 16
"""Requests that are under way at once, unless another number is given."""
MAX_AT_ONCE = 256
CONNECT_S, ANSWER_S = 10.0, 300.0
"""How long a connection may take, and the silence before an answer."""
TRIES = 4
PAUSES_S = (0.5, 2.0, 6.0)
"""How often a request is sent at most, and how long before each further time."""
MAX_BYTES = 2**28
"""The largest answer that is read: a whole row of 150,000 tokens takes 12 MB."""
MAX_HEADERS = 2**20
"""Bytes of an answer's head and of the marks between its pieces."""
LOOK_S = 0.2
"""How often it is asked whether the run was stopped."""
SILENT_S = 10.0
"""Without a byte of the server after which it is said that it is waited for."""
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which a request is sent again."""
LOST = "Look at the server's log; the run can be started again once it answers"

MODELS = "/v1/models"
SETTLED = (
    "Give fewer or smaller frames where it says that the prompt is too long; else start the server"
    " with the options of docs/remote.md"
)


@dataclass(frozen=True)
class Asked:
    """A request. body: None for GET."""

    path: str
    body: Mapping[str, Any] | None = None


@dataclass
class Counted:
    """Of all clients of a server: requests that were answered, and connections that broke.

    heard: when it was last heard of, on the clock of `time.monotonic`.
    """

    sent: int = 0
    broken: int = 0
    heard: float = 0.0

    def hear(self) -> None:
        """Something came of the server."""
        self.heard = time.monotonic()


ASK_LESS = "Ask for fewer log-probabilities, or look at what listens at that address"
OBJECT, LIST, VALUE = 300, 90, 48
"""Bytes that Python takes at most for an object, a list and a value of JSON, beside its text."""
MAX_PARSED = 768 * 2**20
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
    MAX_PARSED, or are nested deeply; ValueError for what is no JSON.
    """
    objects, lists, values = (content.count(mark) for mark in (b"{", b"[", b","))
    if OBJECT * objects + LIST * lists + VALUE * values + 2 * len(content) > MAX_PARSED:
        raise RemoteError(
            f"the server's answer holds more values than {MAX_PARSED // 2**20} MB have room for",
            ASK_LESS,
        )
    try:
        return json.loads(content, parse_constant=no_number)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


class Client:
    """Sends requests to one server. `counted` tells of them, whoever sent them."""

    def __init__(
        self,
        address: Address,
        key: str = "",
        concurrency: int = CONCURRENCY,
        transport: httpx.BaseTransport | None = None,
        pauses_s: Sequence[float] = PAUSES_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        self.address, self._pauses, self._answer_s = address, tuple(pauses_s), answer_s
        self.concurrency = max(1, min(concurrency, MAX_AT_ONCE))
        self.counted = Counted()
        self._counting = threading.Lock()
        self._cancelled: Callable[[], bool] = lambda: False
        self._waiting: Progress | None = None
        self._http = httpx.Client(
            base_url=address.url,
            headers={"Accept-Encoding": "identity"}
            | ({"Authorization": f"Bearer {key}"} if key else {}),
            timeout=httpx.Timeout(answer_s, connect=CONNECT_S),
            follow_redirects=False,
            trust_env=False,
            transport=transport
            or bounded_transport(
                self.concurrency, 2 * answer_s, MAX_BYTES + MAX_HEADERS, self.counted.hear
            ),
        )
        self._places = threading.BoundedSemaphore(self.concurrency)

    def stopping_when(
        self, cancelled: Callable[[], bool], waiting: Progress | None = None
    ) -> Client:
        """The same connections; waiting ends with Cancelled once `cancelled` gives True.

        waiting: names the server after SILENT_S without a byte of it.
        """
        other = copy(self)
        other._cancelled, other._waiting = cancelled, waiting
        return other

    def get(self, path: str) -> Any:
        """The JSON of a path."""
        return self.all([Asked(path)])[0]

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON that answers a body."""
        return self.all([Asked(path, body)])[0]

    def all(self, asked: Sequence[Asked]) -> list[Any]:
        """The JSON of each answer, in order; the requests are under way together.

        Raises RemoteError for the first that fails for good, and Cancelled.
        """
        stopped, taking = threading.Event(), threading.Lock()
        futures = [Future[Any]() for _ in asked]
        left = iter(zip(asked, futures, strict=True))

        def work() -> None:
            while not stopped.is_set():
                with taking:
                    one, future = next(left, (None, None))
                if one is None or future is None:
                    return
                with self._places:
                    try:
                        future.set_result(self._one(one, stopped))
                    except BaseException as error:
                        future.set_exception(error)

        # threads that do not hold up the end of the process while a server is silent
        for _ in range(min(self.concurrency, len(asked))):
            threading.Thread(target=work, name="vllm", daemon=True).start()
        try:
            return self._results(futures)
        finally:
            stopped.set()

    def _results(self, futures: Sequence[Future[Any]]) -> list[Any]:
        left: set[Future[Any]] = set(futures)
        began, before = time.monotonic(), self._waiting and self._waiting.message
        while left:
            if self._cancelled():
                raise Cancelled("stopped while the server was asked", "What was computed is kept")
            if self._waiting is not None:
                silent = time.monotonic() - max(began, self.counted.heard)
                told = f"{self.address.url} has sent nothing for {silent:.0f} s"
                self._waiting.message = told if silent >= SILENT_S else before or ""
            done, left = wait(left, LOOK_S, FIRST_EXCEPTION)
            for future in done:
                future.result()
        if self._waiting is not None:
            self._waiting.message = before or ""
        return [future.result() for future in futures]

    def _one(self, asked: Asked, stopped: threading.Event) -> Any:
        """One answer; sent again after a failure that may pass."""
        for attempt in range(TRIES):
            last = attempt == TRIES - 1
            try:
                status, content = self._send(asked)
            except httpx.HTTPError as error:
                with self._counting:
                    self.counted.broken += not isinstance(error, httpx.ReadTimeout)
                if last or isinstance(error, httpx.UnsupportedProtocol):
                    raise self._unreachable(error) from error
            else:
                if status == 200:
                    return self._read(asked, content)
                if last or status not in AGAIN:
                    raise self._refused(asked, status, content)
            if stopped.wait(self._pauses[min(attempt, len(self._pauses) - 1)]):
                raise Cancelled("stopped while the server was asked", "What was computed is kept")
        raise AssertionError("the last attempt returns or raises")

    def _send(self, asked: Asked) -> tuple[int, bytes]:
        """Status and content of an answer. Raises httpx.HTTPError, or RemoteError for its size."""
        began = time.monotonic()
        how: dict[str, Any] = {}
        if asked.body is not None:
            how = {
                "content": json.dumps(asked.body),
                "headers": {"Content-Type": "application/json"},
            }
        method = "GET" if asked.body is None else "POST"

        def check() -> None:
            if time.monotonic() - began > 2 * self._answer_s:
                raise httpx.ReadTimeout("the answer does not end")

        with self._http.stream(method, asked.path, **how) as answer:
            content = content_of(answer, MAX_BYTES, check)
        with self._counting:
            self.counted.sent += 1
        return answer.status_code, content

    def _read(self, asked: Asked, content: bytes) -> Any:
        try:
            return read_json(content, _no_number)
        except NumericalError:
            raise
        except ValueError as error:
            raise RemoteError(
                f"what {self.address.url}{asked.path} answers is not JSON",
                "Give the address of a vLLM server, without a path of its API",
            ) from error

    def _unreachable(self, error: httpx.HTTPError) -> RemoteError:
        host, kind = self.address.url, type(error).__name__
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return RemoteError(
                f"no server answers at {host}",
                "Start it, wait until it says that it is ready, or correct host and port",
            )
        if isinstance(error, httpx.TimeoutException):
            return RemoteError(
                f"the server at {host} did not answer within {self._answer_s:.0f} s, {TRIES} times",
                LOST,
            )
        return RemoteError(
            f"the server at {host} broke off its answer {TRIES} times ({kind})", LOST
        )

    def _refused(self, asked: Asked, status: int, content: bytes) -> RemoteError:
        host, told = self.address.url, error_message_in(content)
        if status in (401, 403):
            return RemoteError(
                f"the server at {host} wants another key ({status})",
                f"Put the key that it was started with into {KEY}",
                status,
            )
        if 300 <= status < 400:
            return RemoteError(
                f"the server at {host} sends requests on to another address",
                "Give the address that it sends them to",
                status,
            )
        if status == 413:
            return RemoteError(
                f"the server at {host} takes no request of that size",
                "Raise the limit of the proxy in front of it, or give fewer or smaller frames",
                status,
            )
        if status == 404 and asked.path == MODELS:
            return RemoteError(
                f"no vLLM answers at {host} ({status} for {MODELS})",
                FORM,
                status,
            )
        remedy = LOST if status in AGAIN else SETTLED
        return RemoteError(f"the server at {host} answers {status}: {told}", remedy, status)


def error_message_in(content: bytes) -> str:
    """What an error's body says, on one line.

    >>> error_message_in(b'{"error": {"message": "too many\\\\nframes"}}')
    "'too many frames'"
    """
    text = content[:4000].decode("utf-8", "replace")
    found = re.search(r'"(?:message|detail)"\s*:\s*"((?:[^"\\]|\\.)*)"', text)
    if found:
        try:
            text = str(json.loads(f'"{found[1]}"'))
        except ValueError:
            text = found[1]
    return shown(" ".join(text.split()), 300)


def _no_number(name: str) -> Any:
    raise NumericalError(
        f"the server gives {name} in the place of a log-probability",
        "Serve the model in float32 or bfloat16; look for NaN in its weights",
    )
