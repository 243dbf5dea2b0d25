"""Answers of a real vLLM server, recorded once and played again by tests.

What is asked is the same each time: the probe, then a drawn clip, in either way. A request is known
by its place and by all of its body but pixels.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from bench.server import ROOT
from macd_studio.core.backbones.remote.client import Client
from macd_studio.core.backbones.remote.probe import drawn_clip
from macd_studio.core.backbones.remote.reader import RemoteReader, open_server
from macd_studio.core.backbones.remote_address import key, read_address
from macd_studio.core.system.shipped import shipped

FILE = ROOT / "tests" / "core" / "data" / "vllm-answers.json.xz"
DRAW, QUESTION = 99, "Is there a dog in the video?"
PIXELS = ("kwargs_data", "mm_hashes", "url", "model")
"""Keys of a body whose values are left out: pixels, and where the model lies."""


def ask(name: str, transport: httpx.BaseTransport, exact: bool) -> tuple[RemoteReader, list[Any]]:
    """The reader of a server, and what it says of a clip: rows and losses as plain lists."""

    def connect(address: Any) -> Client:
        return Client(address, key(), concurrency=1, transport=transport, pauses_s=(0.0,))

    reader = open_server(name, connect=connect, exact=exact)
    encoded = reader.encode(drawn_clip(seed=DRAW), QUESTION)
    videos = encoded.video[None].repeat(2, 1, 1, 1, 1)
    videos[1, :4] *= 0.5
    views = reader.prefill(encoded, videos)
    found: list[Any] = [reader.question_log_p(encoded, views).tolist()]
    (first, second) = reader.next_logits(views)
    best = first.best()
    found += [row.values.tolist() for row in (first, second, *reader.next_logits(views, [best]))]
    return reader, found


def outline(body: Any) -> Any:
    """A body without its pixels."""
    if isinstance(body, Mapping):
        return {k: "" if k in PIXELS else outline(v) for k, v in body.items()}
    return [outline(one) for one in body] if isinstance(body, list) else body


def _key(request: httpx.Request) -> str:
    body = outline(json.loads(request.content)) if request.content else None
    told = json.dumps([request.url.path, body], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


class Recorder(httpx.BaseTransport):
    """Passes requests on, and keeps what is answered."""

    def __init__(self) -> None:
        self.kept: list[list[Any]] = []
        self._real = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The server's answer."""
        answer = self._real.handle_request(request)
        content = answer.read()
        told = content.decode().replace(f"{ROOT}/", "")  # where this checkout lies is not kept
        self.kept.append([_key(request), answer.status_code, told])
        return httpx.Response(answer.status_code, content=content)


class Player(httpx.BaseTransport):
    """Gives recorded answers in their order. Raises AssertionError for another request."""

    def __init__(self, kept: list[list[Any]]) -> None:
        self.kept, self.at, self._lock = kept, 0, threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The next answer."""
        with self._lock:
            wanted, status, content = self.kept[self.at]
            assert _key(request) == wanted, f"request {self.at} to {request.url.path} is another"
            self.at += 1
        if request.url.path == "/v1/models":  # the model's files are those of this checkout
            answer = json.loads(content)
            answer["data"][0] |= {"root": str(shipped("backbone"))}
            content = json.dumps(answer)
        return httpx.Response(status, content=content.encode())


def record(name: str, file: Path = FILE) -> int:
    """Asks a server, and writes its answers; gives how many. name: of the backbone."""
    read_address(name)
    kept = {}
    for way in ("exact", "common"):
        recorder = Recorder()
        ask(name, recorder, way == "exact")
        kept[way] = recorder.kept
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(lzma.compress(json.dumps(kept).encode(), preset=9))
    return sum(map(len, kept.values()))


def recorded(file: Path = FILE) -> dict[str, list[list[Any]]]:
    """What was recorded, by way."""
    kept: dict[str, list[list[Any]]] = json.loads(lzma.decompress(file.read_bytes()))
    return kept
