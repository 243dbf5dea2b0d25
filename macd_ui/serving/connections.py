"""Connections to the server's port: how many there may be, and for how long without a request.

uvicorn takes as many as there are descriptors, and keeps each open for as long as nothing comes.
Some hundred idle ones would leave none for files, processes and other visitors. Gradio starts it
without options, so its protocol is replaced by name.

The connections of a trusted proxy are those of its visitors: there the gate counts the requests
that each of them has under way, by `request_of`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import uvicorn.config
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from macd_studio.core.system.unix import unix
from macd_studio.macd_ui.serving.identity import is_proxy
from macd_studio.macd_ui.settings import Network

WANTED = 65_536
"""Descriptors that the process asks for."""
RESERVED = 384
"""Of these, for files, models, processes and connections of its own."""
HEAD_S = 30.0
"""How long a connection may stay open without a whole request head, from its start or the last
answer on."""
SERVER = (b"server", b"uvicorn")
"""A header of every answer, which is of use to attackers alone."""
_Base: Any = AutoHTTPProtocol
_open: Counter[str] = Counter()
_asked: Counter[str] = Counter()
_proxies: tuple[Network, ...] = ()


def most() -> int:
    """Connections that may be open at the same time."""
    resource = unix("resource")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = WANTED if soft == resource.RLIM_INFINITY else soft
    return max(16, count - RESERVED)


def most_of_one() -> int:
    """Of one address: half of all, so that no address can keep out the others."""
    return most() // 2


@contextmanager
def request_of(visitor: str) -> Iterator[bool]:
    """A request by way of a trusted proxy, while it lasts; whether its visitor may have another."""
    allowed = _asked[visitor] < most_of_one()
    _asked[visitor] += 1
    try:
        yield allowed
    finally:
        _asked[visitor] -= 1
        if not _asked[visitor]:
            del _asked[visitor]


class BoundedProtocol(_Base):  # type: ignore[misc]
    """Closes connections beyond the bounds before anything of them is read."""

    _peer: str | None = None
    _waits: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See asyncio.Protocol."""
        named = transport.get_extra_info("peername")
        peer = str(named[0]) if isinstance(named, tuple) else ""
        too_many = _open[peer] >= most_of_one() and not is_proxy(peer, _proxies)
        if too_many or _open.total() >= most():
            transport.abort()
            return
        _open[peer] += 1
        self._peer = peer
        config, state = self.config, self.server_state
        config.encoded_headers = [h for h in config.encoded_headers if h != SERVER]
        state.default_headers = [h for h in state.default_headers if h != SERVER]
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._peer is None:
            return
        super().data_received(data)
        self._expect_head()

    def eof_received(self) -> None:
        """See asyncio.Protocol."""
        if self._peer is not None:
            super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._peer is None:
            return
        self._stop_waiting()
        _open[self._peer] -= 1
        if not _open[self._peer]:
            del _open[self._peer]
        self._peer = None
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, *given: Any) -> None:
        """There are no websockets here; the connection would no longer be counted."""
        self.transport.close()

    def on_response_complete(self) -> None:
        """The next request may come."""
        super().on_response_complete()
        self._expect_head()

    def _expect_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._waits is None:
            self._waits = self.loop.call_later(HEAD_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def _give_up(self) -> None:
        self._waits = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()


def bound_connections(proxies: Sequence[Network] = ()) -> None:
    """uvicorn's servers keep the bounds from now on; asks for WANTED descriptors.

    proxies: those that are trusted.
    """
    global _proxies
    _proxies = tuple(proxies)
    resource = unix("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    uvicorn.config.HTTP_PROTOCOLS["auto"] = f"{__name__}:{BoundedProtocol.__name__}"
