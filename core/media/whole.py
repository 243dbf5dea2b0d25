"""Whether a file ends before the end that its own structure announces.

Only sizes are read, never what they enclose. Used by `core.media.worker` only, inside its bounded
process. Containers that announce no size, such as streams that were recorded live, are never cut.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import BinaryIO

MOST_PARTS = 100_000
"""Of a file that is a sequence of parts, those that are looked at."""
TAIL = 4096
"""Bytes at a file's end in which its last mark is looked for."""
SEGMENT = 0x18538067
"""What a Matroska file consists of, after its header."""
FILE_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
"""The object of an ASF file that holds its size."""


def is_cut(path: str, container: str) -> bool:
    """Whether bytes are missing at the end. container: FFmpeg's names of the format.

    False where it cannot be told.
    """
    look = next((_LOOKS[name] for name in container.split(",") if name in _LOOKS), None)
    if look is None:
        return False
    try:
        with open(path, "rb") as file:
            return look(file, os.fstat(file.fileno()).st_size)
    except OSError:
        return False


def _boxes(file: BinaryIO, size: int) -> bool:
    """mp4 and mov: a box that continues after the end of the file."""
    at = 0
    for _ in range(MOST_PARTS):
        file.seek(at)
        head = file.read(16)
        if len(head) < 8 or not head[4:8].isascii() or not head[4:8].decode().isprintable():
            return False  # what was appended to a file by a camera is no box
        length = int.from_bytes(head[:4], "big")
        if length == 1 and len(head) == 16:
            length = int.from_bytes(head[8:], "big")
        if length < 8:  # 0: to the end of the file
            return False
        at += length
        if at >= size:
            return at > size
    return False


def _segment(file: BinaryIO, size: int) -> bool:
    """Matroska and WebM: a segment of a known size."""
    at = 0
    for _ in range(16):  # header and padding come before it
        file.seek(at)
        name, length, here = _element(file.read(12))
        if not here or length is None:
            return False
        if name == SEGMENT:
            return at + here + length > size
        at += here + length
    return False


def _element(head: bytes) -> tuple[int, int | None, int]:
    """Name, length, and length of the two: of an EBML element; 0 for the last where it is none."""
    if not head or not head[0]:
        return 0, None, 0
    named = 9 - head[0].bit_length()
    if named > 4 or len(head) <= named or not head[named]:
        return 0, None, 0
    long = 9 - head[named].bit_length()
    if len(head) < named + long:
        return 0, None, 0
    value = int.from_bytes(head[named : named + long], "big") & ((1 << 7 * long) - 1)
    unknown = value == (1 << 7 * long) - 1
    return int.from_bytes(head[:named], "big"), None if unknown else value, named + long


def _chunks(file: BinaryIO, size: int) -> bool:
    """avi: one or more RIFF chunks; a recorder that was killed leaves a length of 0 or all ones."""
    at = 0
    for _ in range(MOST_PARTS):
        file.seek(at)
        head = file.read(8)
        length = int.from_bytes(head[4:], "little")
        if len(head) < 8 or head[:4] != b"RIFF" or length in (0, 2**32 - 1):
            return False
        at += 8 + length + length % 2
        if at >= size:
            return at - length % 2 > size
    return False


def _trailer(file: BinaryIO, size: int) -> bool:
    """gif: its last byte is a semicolon, which padding may follow."""
    file.seek(max(0, size - TAIL))
    return not file.read(TAIL).rstrip(b"\0\r\n\t ").endswith(b";")


def _properties(file: BinaryIO, size: int) -> bool:
    """asf and wmv: the size in its header, unless it was broadcast."""
    head = file.read(2**16)
    at = head.find(FILE_PROPERTIES)
    if at < 0 or len(head) < at + 92:
        return False
    announced = int.from_bytes(head[at + 40 : at + 48], "little")
    return not head[at + 88] & 1 and announced > size


_LOOKS: dict[str, Callable[[BinaryIO, int], bool]] = {
    "mov": _boxes, "mp4": _boxes, "matroska": _segment, "webm": _segment, "avi": _chunks,
    "gif": _trailer, "asf": _properties,
}  # fmt: skip
