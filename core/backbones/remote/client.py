"""Requests to a server: several under way at once, tried again, bounded in time and size.

Every request only reads, so that any of them may be sent again. Proxies of the environment and
redirects are not followed: frames go to the host that was named and to no other.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from copy import copy
from dataclasses import dataclass
from typing import Any

import httpx

from macd_studio.core.backbones.remote.bounds import bounded_transport, content_of, read_json
from macd_studio.core.backbones.remote_address import KEY, Address
from macd_studio.core.errors import Cancelled, NumericalError, RemoteError
from macd_studio.core.types import Progress
from macd_studio.core.validation import shown

CONCURRENCY = 16
"""Requests that are under way at once, unless another number is given."""
MOST_AT_ONCE = 256
CONNECT_S, ANSWER_S = 10.0, 300.0
"""How long a connection may take, and the silence before an answer."""
TRIES = 4
PAUSES_S = (0.5, 2.0, 6.0)
"""How often a request is sent at most, and how long before each further time."""
MOST_BYTES = 2**28
"""The largest answer that is read: a whole row of 150,000 tokens takes 12 MB."""
MOST_HEADERS = 2**20
"""Bytes of an answer's head and of the marks between its pieces."""
LOOK_S = 0.2
"""How often it is asked whether the run was stopped."""
SILENT_S = 10.0
"""Without a byte of the server after which it is said that it is waited for."""
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which a request is sent again."""
LOST = "Look at the server's log; the run can be started again once it answers"

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
        self.concurrency = max(1, min(concurrency, MOST_AT_ONCE))
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
                self.concurrency, 2 * answer_s, MOST_BYTES + MOST_HEADERS, self.counted.hear
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
            content = content_of(answer, MOST_BYTES, check)
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
        host, told = self.address.url, told_by(content)
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
        remedy = LOST if status in AGAIN else SETTLED
        return RemoteError(f"the server at {host} answers {status}: {told}", remedy, status)


def told_by(content: bytes) -> str:
    """What an error's body says, on one line.

    >>> told_by(b'{"error": {"message": "too many\\\\nframes"}}')
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
