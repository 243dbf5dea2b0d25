"""Answers of servers that drip, flood, lie or break off, as pieces of bytes to be sent."""

from __future__ import annotations

import gzip
import itertools
import json
import zlib
from collections.abc import Callable, Iterator

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
MB = 2**20
Pieces = Callable[[], Iterator[bytes]]


def once(content: bytes) -> Pieces:
    return lambda: iter([content])


def without_end(head: bytes, piece: bytes) -> Pieces:
    return lambda: itertools.chain([head], itertools.repeat(piece))


def sized(body: bytes, more: bytes = b"") -> Pieces:
    return once(OK + more + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def coded(body: bytes, coding: bytes) -> Pieces:
    return sized(body, b"Content-Encoding: " + coding + b"\r\n")


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


def empty_blocks() -> Iterator[bytes]:
    packer = zlib.compressobj(wbits=31)
    piece = packer.compress(b" ") + packer.flush(zlib.Z_SYNC_FLUSH)
    yield OK + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    while True:
        yield chunk(piece)
        piece = packer.flush(zlib.Z_FULL_FLUSH) or b"\0\0\0\xff\xff"


def zeros(size: int, kind: int = 31) -> bytes:
    packer = zlib.compressobj(9, wbits=kind)
    return b"".join(packer.compress(bytes(MB)) for _ in range(size // MB)) + packer.flush()


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
DRIPPING: dict[str, Pieces] = {
    "nothing": lambda: iter(itertools.repeat(b"")),
    "a status line, byte by byte": lambda: (b"H" for _ in itertools.count()),
    "headers that drip": without_end(OK, b"X-A: b\r\n"),
    "one header that drips": without_end(OK + b"X-A: ", b"b"),
    "early hints without end": without_end(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
    "continue without end": without_end(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a body that drips": without_end(OK + b"Content-Length: 1000000\r\n\r\n", b" "),
    "a body without a length that drips": without_end(OK + b"\r\n", b" "),
    "chunks that drip": without_end(CHUNKED, chunk(b" ")),
    "a chunk's size that drips": without_end(CHUNKED, b"0"),
    "a chunk's extension that drips": without_end(CHUNKED + b"1;", b"a"),
    "trailers that drip": without_end(CHUNKED + b"0\r\n", b"X-A: b\r\n"),
    "gzip of empty blocks": empty_blocks,
    "half a body, then nothing": lambda: itertools.chain(
        [OK + b"Content-Length: 9\r\n\r\n{"], itertools.repeat(b"")),
}  # fmt: skip
"""Pieces with a pause between them; b"" is a pause alone."""
FLOODING: dict[str, Pieces] = {
    "headers without end": without_end(OK, b"X-A: " + b"b" * 60_000 + b"\r\n"),
    "one header without end": without_end(OK + b"X-A: ", b"b" * 60_000),
    "a status line without end": without_end(b"HTTP/1.1 200 ", b"O" * 60_000),
    "early hints that flood": without_end(
        b"", b"HTTP/1.1 103 Early Hints\r\nLink: </aaaaaaaaaaaaaaaa>\r\n\r\n" * 1000),
    "a body without end": without_end(OK + b"\r\n", b" " * MB),
    "chunks without end": without_end(CHUNKED, chunk(b" " * MB)),
    "trailers without end": without_end(CHUNKED + b"0\r\n", b"X-A: b\r\n" * 10_000),
    "a body longer than it says": without_end(OK + b"Content-Length: 2\r\n\r\n{}", b" " * MB),
    "a length of a terabyte": without_end(OK + b"Content-Length: 1000000000000\r\n\r\n", b" " * MB),
    "gzip of 4 GB of zeros": lambda: coded(zeros(4096 * MB), b"gzip")(),
    "deflate of 4 GB of zeros": lambda: coded(zeros(4096 * MB, 15), b"deflate")(),
    "gzip, gzip": lambda: coded(gzip.compress(zeros(4096 * MB)), b"gzip, gzip")(),
    "br": coded(b"\x0b\x00\x80\x61\x03", b"br"),
    "zstd": coded(b"\x28\xb5\x2f\xfd", b"zstd"),
    "gzip that is none": coded(b"not packed", b"gzip"),
    "gzip with a tail": coded(gzip.compress(b"{}") + b"x" * MB, b"gzip"),
}  # fmt: skip
TEXTS: dict[str, Pieces] = {
    "60 MB of small lists": lambda: sized(b"[" + b"[]," * (20 * MB) + b"[]]")(),
    "60 MB of small objects": lambda: sized(b"[" + b"{}," * (20 * MB) + b"{}]")(),
    "60 MB of numbers": lambda: sized(b"[" + b"1," * (30 * MB) + b"1]")(),
    "200 MB of one text": lambda: sized(b'"' + b"a" * (200 * MB) + b'"')(),
    "JSON 100,000 deep": sized(b"[" * 100_000),
    "JSON of a number of a million digits": sized(b"9" * MB),
    "JSON of NaN": sized(b"[NaN]"),
    "JSON of 16 MB of keys": lambda: sized(
        json.dumps({str(i): i for i in range(800_000)}).encode())(),
    "no JSON": sized(b"<html>" * 10),
    "text in UTF-16": sized('{"version": "1"}'.encode("utf-16")),
}  # fmt: skip
