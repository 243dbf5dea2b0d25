"""What requests bring: of which type, how much of it, and what Gradio is given of it; how answers
are sent.

One kind of body for each route (see routes.py). JSON is read whole, checked, and written anew, so
that nothing but what was checked reaches the app.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers, MutableHeaders

from macd_studio.core.system.recent import Recent
from macd_studio.macd_ui.quota import Quota
from macd_studio.macd_ui.serving.identity import MAX_HASH, session_key
from macd_studio.macd_ui.serving.routes import MOST, NOTHING, TYPES, UPLOAD, Door
from macd_studio.macd_ui.settings import SHARED_FILE_MB

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

Raw = list[tuple[bytes, bytes]]
RANGE = re.compile(rb"bytes=(?:\d{1,18}-|\d{1,18}-\d{1,18}|-\d{1,18})")
"""One part of a file."""
MAX_PATH = 2**10
"""Bytes of the path of an address; the longest that the page uses names a file of an upload."""
MAX_PART = 255
"""Bytes of a part of it: no file has a longer name."""
MAX_VALUES = 100_000
"""Values in a JSON body: each takes far more memory than the bytes that it was written with."""
MAX_CONTAINERS = 20_000
"""Lists and objects among them, counted by their brackets before anything is parsed: making them
starts collections of garbage, which take longest."""
HELD = 256 * 2**20
"""Bytes of bodies that are read at the same time, all visitors together."""
SHARE = HELD // 16
"""Of one visitor."""
ANSWERS_HELD = 512 * 2**20
"""Bytes of answers that are sent at the same time, all visitors together."""
ANSWERS_SHARE = ANSWERS_HELD // 8
"""Of one visitor; one answer alone may be larger."""
PIECE = 2**18
"""Bytes of an answer that are handed to the connection at once; the next when these are gone."""
PACKED_FROM, PACKED_TO = 2**12, 2**22
"""Bytes of a text that is sent compressed: less gains nothing, and more is not held twice."""
PACKED_TYPES = ("text/html", "text/css", "text/csv", "text/javascript", "application/json",
                "image/svg+xml")  # fmt: skip
PACKED_HELD = 2**24
"""Bytes of compressed texts that are kept."""
PATIENCE_S = 60.0
"""How long a body other than an upload may take to arrive."""
MIN_FREE = 500 * 10**6
"""Bytes of disk that uploads leave free."""
CHECK_BYTES = 16 * 10**6
"""After so many bytes of an upload the disk is looked at again."""
NOT_OURS = ("simple_format", "batched", "oauth_token")
"""What Gradio sets by itself, or would hand on as somebody's token."""


class Refusal(Exception):
    """The request is answered with these words, or sent elsewhere."""

    def __init__(self, status: int, words: str, elsewhere: str = "") -> None:
        self.status, self.words, self.elsewhere = status, words, elsewhere
        super().__init__(words)


def most_of(door: Door, largest_mb: float) -> int:
    """Bytes of a body of this route at most. largest_mb: of the largest file, see the settings."""
    if door.body == UPLOAD:
        return MOST[UPLOAD] + int(1e6 * (largest_mb - SHARED_FILE_MB))
    return MOST[door.body]


class BadFraming(Refusal):
    """Nobody knows where the request ends, so the connection is closed after the answer."""


def check_framing(headers: Headers) -> None:
    """Raises Refusal where two headers say how long the body is: a proxy may believe the other."""
    if "content-length" in headers and "transfer-encoding" in headers:
        raise BadFraming(400, "The request gives the length of its body twice. Send one of both.")


def check_path(path: str) -> None:
    """Raises Refusal for an address that can name nothing, before a file is looked for by it."""
    parts = path.encode("utf-8", "replace").split(b"/")
    if sum(map(len, parts)) > MAX_PATH or max(map(len, parts)) > MAX_PART:
        raise Refusal(404, "There is nothing at an address as long as this. The page is at /.")


def without_odd_ranges(raw: Raw) -> Raw:
    """Headers without a Range that asks for several parts, or that is none; all is sent then."""
    return [(k, v) for k, v in raw if k.lower() != b"range" or RANGE.fullmatch(v.strip())]


def check_type(door: Door, headers: Headers, largest_mb: float = SHARED_FILE_MB) -> None:
    """Raises Refusal for a body that the route does not take, by what the headers say of it."""
    length = headers.get("content-length", "0")
    if door.body == NOTHING:
        if length.strip() not in ("", "0") or "transfer-encoding" in headers:
            raise Refusal(413, "This address takes no body. Send the request without one.")
        return
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Refusal(415, "The request is compressed. Send it as it is.")
    given = headers.getlist("content-type")
    kind = given[0].partition(";")[0].strip().lower() if len(given) == 1 else ""
    if kind not in TYPES[door.body]:
        raise Refusal(
            415, f"This address takes {door.body}. Send it as {' or '.join(TYPES[door.body])}."
        )
    if length.isdigit() and int(length) > most_of(door, largest_mb):
        raise too_large(door, largest_mb)


def too_large(door: Door, largest_mb: float = SHARED_FILE_MB) -> Refusal:
    """What is answered to a body above the bound of its route."""
    if door.body == UPLOAD:
        return Refusal(
            413,
            f"The file is larger than {largest_mb:g} MB. Cut the clip, or save it with a lower"
            " bitrate.",
        )
    most = MOST[door.body]
    amount = f"{most // 2**20} MB" if most >= 2**20 else f"{most // 2**10} kB"
    return Refusal(413, f"The request is larger than {amount}. Send less at once.")


def full_disk() -> Refusal:
    """What is answered where no space is left."""
    return Refusal(507, "The server's disk is full. Try again later, or inform its operator.")


class Held:
    """Counts bytes that are held for visitors while their requests last.

    most: of all of them, share: of one. What one request holds alone is never too much for its
    share. words: what is answered to more.
    """

    def __init__(self, share: int, most: int, words: str) -> None:
        self._share, self._most, self._words = share, most, words
        self._held: Counter[str] = Counter()

    @contextmanager
    def share(self, visitor: str) -> Iterator[Callable[[int], None]]:
        """Gives a function that counts bytes for this request; raises Refusal above the bounds."""
        taken = 0

        def take(count: int) -> None:
            nonlocal taken
            theirs = self._held[visitor]
            too_much = theirs > taken and theirs + count > self._share
            if too_much or self._held.total() + count > self._most:
                raise Refusal(503, self._words)
            self._held[visitor] += count
            taken += count

        try:
            yield take
        finally:
            self._held[visitor] -= taken
            if not self._held[visitor]:
                del self._held[visitor]


def in_pieces(send: Send, take: Callable[[int], None]) -> Send:
    """Sends an answer piece by piece, and nothing of one that its visitor has no room for.

    The server writes whatever it is given into the connection's buffer at once, however slowly the
    other side reads; it waits only between pieces. Raises Refusal before the answer has begun.
    """
    start: Message | None = None

    async def send_pieces(message: Message) -> None:
        nonlocal start
        if message["type"] == "http.response.start":
            start = message
            return
        body = message.get("body", b"")
        if len(body) > PIECE:
            take(len(body))
        if start is not None:
            begun, start = start, None
            await send(begun)
        last = max(0, len(body) - 1) // PIECE * PIECE
        for at in range(0, last, PIECE):
            await send(dict(message, body=body[at : at + PIECE], more_body=True))
        await send(dict(message, body=body[last:]) if last else message)

    return send_pieces


class Compressor:
    """Sends the texts of a page compressed by gzip, and keeps what was compressed last.

    Compressing the page takes longer than making it. most: bytes that are kept.
    """

    def __init__(self, most: int = PACKED_HELD) -> None:
        self._kept: Recent[bytes, bytes] = Recent(most, len)

    def compressed(self, send: Send, headers: Headers, take: Callable[[int], None]) -> Send:
        """Sends a text that comes as one piece compressed, where the request takes that.

        headers: of the request. take: counts the bytes of the text, which is held until all of it
        is sent; see `Held`. Whatever else is answered passes as it is: parts of files, files that
        are known by an ETag, what is compressed already.
        """
        taken = takes_gzip(headers)
        start: Message | None = None

        async def send_compressed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None:
                begun, start = start, None
                answer = MutableHeaders(raw=list(begun.get("headers", ())))
                body = message.get("body", b"")
                whole = not message.get("more_body") and begun["status"] == 200
                if whole and _is_packable(answer, len(body)):
                    answer.add_vary_header("accept-encoding")
                    if taken:
                        if len(body) > PIECE:
                            take(len(body))
                        packed = await self._packed(body)
                        message = dict(message, body=packed)
                        answer["content-encoding"] = "gzip"
                        answer["content-length"] = str(len(packed))
                await send(dict(begun, headers=answer.raw))
            await send(message)

        return send_compressed

    async def _packed(self, body: bytes) -> bytes:
        """The body compressed, without holding up other requests meanwhile."""
        key = hashlib.sha256(body).digest()
        packed = self._kept.get(key)
        if packed is None:
            packed = await asyncio.to_thread(gzip.compress, body, 6, mtime=0)
            self._kept.put(key, packed)
        return packed


def takes_gzip(headers: Headers) -> bool:
    """Whether a request takes an answer compressed by gzip: named, and not with a weight of 0."""
    for part in headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = part.replace(" ", "").partition(";q=")
        if coding == "gzip":
            return not re.fullmatch(r"0(\.0*)?", weight)
    return False


def _is_packable(answer: Headers | MutableHeaders, size: int) -> bool:
    """Whether an answer with these headers gains by compressing and may be changed on its way."""
    kind = answer.get("content-type", "").partition(";")[0].strip().lower()
    fixed = any(name in answer for name in ("content-encoding", "etag", "content-range"))
    return kind in PACKED_TYPES and not fixed and PACKED_FROM <= size <= PACKED_TO


async def read(receive: Receive, door: Door, take: Callable[[int], None]) -> bytes:
    """The whole body. Raises Refusal where it is too large, too slow, or breaks off."""
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, "The connection was closed.")
                piece = message.get("body", b"")
                if len(body) + len(piece) > MOST[door.body]:
                    raise too_large(door)
                take(len(piece))
                body += piece
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise Refusal(408, "The request took too long to arrive. Send it again.") from None


def replayed(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read already."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def session_hash(value: Any) -> str:
    """The session hash that the page's script made up. Raises Refusal for anything else."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_HASH:
        raise Refusal(400, "The session of the request is not one. Reload the page.")
    return value


def parsed(body: bytes) -> dict[str, Any]:
    """The JSON object of a body. Raises Refusal."""
    if body.count(b"[") + body.count(b"{") > MAX_CONTAINERS:
        raise Refusal(
            413, f"The request holds more than {MAX_CONTAINERS:,} lists. Send less at once."
        )
    try:
        content = json.loads(body)
        if not isinstance(content, dict):
            raise ValueError
    except (ValueError, RecursionError):
        raise Refusal(400, "The request holds no JSON object. Reload the page.") from None
    return content


def checked(
    content: dict[str, Any],
    cookie: str | None,
    may_read: Callable[[str], bool],
    is_call: bool = True,
) -> bytes:
    """The body as the app is given it: sessions under their keys, files that were uploaded here.

    may_read: whether the file at a path is one that the visitor may have. is_call: NaN in a call is
    told by whoever is called; elsewhere the framework would repeat it in
    an error that cannot be written. Raises Refusal.
    """
    try:
        if (given := content.get("session_hash")) is not None:
            content["session_hash"] = session_key(session_hash(given), cookie)
        clean = _Cleaning(may_read).value
        cleaned = {k: clean(v) for k, v in content.items() if k not in NOT_OURS}
        # as the answer will be written, in which Gradio repeats what it was given
        return json.dumps(cleaned, ensure_ascii=False, allow_nan=is_call).encode("utf-8")
    except UnicodeEncodeError:
        raise Refusal(400, "The text holds half a character. Type it again.") from None
    except ValueError:
        raise Refusal(
            400, "The request holds NaN or a number above 1e308, which JSON does not have."
        ) from None
    except RecursionError:
        raise Refusal(400, "The request holds no JSON object. Reload the page.") from None


class _Cleaning:
    """Replaces each file that the visitor did not upload here by None, and counts the values."""

    def __init__(self, may_read: Callable[[str], bool]) -> None:
        self.may_read, self.count = may_read, 0

    def value(self, value: Any) -> Any:
        """A value, cleaned. Raises Refusal for too many values."""
        self.count += 1
        if self.count > MAX_VALUES:
            raise Refusal(
                413, f"The request holds more than {MAX_VALUES:,} values. Send less at once."
            )
        if isinstance(value, list):
            return [self.value(v) for v in value]
        if not isinstance(value, dict):
            return value
        if "path" in value or "meta" in value:
            path = value.get("path")
            if not isinstance(path, str) or not self.may_read(path):
                return None
            value = {k: v for k, v in value.items() if k != "url"}
        return {k: self.value(v) for k, v in value.items()}


def bounded_upload(
    receive: Receive,
    headers: Headers,
    door: Door,
    visitor: str,
    quota: Quota,
    folder: Path,
    largest_mb: float = SHARED_FILE_MB,
) -> Receive:
    """The upload piece by piece, as far as size, disk and the visitor's quota allow it.

    Raises Refusal, QuotaError.
    """
    quota.add_file(visitor)
    claimed = headers.get("content-length", "0")
    _check_disk(folder, int(claimed) if claimed.isdigit() else 0)
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        size = len(message.get("body", b""))
        if taken // CHECK_BYTES != (taken + size) // CHECK_BYTES:
            _check_disk(folder, 0)
        taken += size
        if taken > most_of(door, largest_mb):
            raise too_large(door, largest_mb)
        quota.add_upload(visitor, size)
        return message

    return bounded


def _check_disk(folder: Path, needed: int) -> None:
    if shutil.disk_usage(folder).free < needed + MIN_FREE:
        raise full_disk()
