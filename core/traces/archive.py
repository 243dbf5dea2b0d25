"""The zip archive of a `.macd` file, read strictly: nothing in it may claim what it does not hold.

Every byte of the file belongs to a member, to the directory or to the end record. Sizes are checked
before anything is unpacked, and a member is unpacked up to its declared size and no further.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from macd_studio.core.errors import TraceError
from macd_studio.core.traces.format import MAX_BYTES

MAX_MEMBERS = 4096
MAX_NAME = 64
"""Characters of a member's name; the names of a trace are shorter."""
DAMAGED = "Save it again from the run, or ask for another copy"
STORED, DEFLATED = 0, 8
_END = struct.Struct("<4s4H2LH")
_ENTRY = struct.Struct("<4s2B5H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_COMMON = slice(6, 32), slice(4, 30)
"""Where an entry of the directory and a local header hold the same fields."""
_HARMLESS_FLAGS = 0x0806
"""Hints of a compressor, and names in UTF-8. Others mean encryption or sizes that come later."""


@dataclass(frozen=True)
class Member:
    """A part of the archive as its directory describes it. start, packed, size: bytes."""

    name: str
    method: int
    crc: int
    start: int
    packed: int
    size: int


def read_directory(content: bytes) -> dict[str, Member]:
    """The members by name, in the order in which they lie in the file; nothing is unpacked.

    Raises TraceError for a file that is no zip archive, holds more than a trace can, or is anything
    but stored and deflated members that lie end to end from the first byte on.
    """
    if len(content) > MAX_BYTES:
        raise TraceError("the file is larger than a trace can be", DAMAGED)
    at = len(content) - _END.size
    if at < 0 or content[at : at + 4] != b"PK\5\6":
        raise TraceError("the file is not a whole zip archive, as a trace is one", DAMAGED)
    _, disk, first_disk, here, count, length, start, comment = _END.unpack_from(content, at)
    if count > MAX_MEMBERS or length > MAX_MEMBERS * (_ENTRY.size + MAX_NAME):
        raise TraceError("the file has more parts than a trace can have", DAMAGED)
    if (disk, first_disk, here, comment) != (0, 0, count, 0) or start + length != at:
        raise _unsound("its directory is not where it should be")
    members: dict[str, Member] = {}
    place, offset = start, 0
    for _ in range(count):
        member, place, local = _read_entry(content, place, at)
        if local != offset or member.start + member.packed > start:
            raise _unsound(f"{member.name} overlaps another part, or is not next to it")
        if member.name in members:
            raise TraceError(f"the file holds two parts of one name, {member.name}", DAMAGED)
        members[member.name] = member
        offset = member.start + member.packed
    if place != at or offset != start:
        raise _unsound("it holds data outside its parts")
    if sum(member.size for member in members.values()) > MAX_BYTES:
        raise TraceError("the file unpacks to more than a trace can be", DAMAGED)
    return members


def _read_entry(content: bytes, place: int, end: int) -> tuple[Member, int, int]:
    """A member, where the next entry of the directory begins, and where its local header does."""
    if place + _ENTRY.size > end:
        raise _unsound("its directory is cut")
    (mark, _, _, _, flags, method, _, _, crc, packed, size, name_length, extra, comment, disk,
     _, _, local) = _ENTRY.unpack_from(content, place)  # fmt: skip
    after = place + _ENTRY.size + name_length
    raw = content[place + _ENTRY.size : after]
    if mark != b"PK\1\2" or after > end or not raw.isascii() or not 0 < name_length <= MAX_NAME:
        raise _unsound("its directory cannot be read")
    name = raw.decode("ascii")
    if extra or comment or disk or flags & ~_HARMLESS_FLAGS or method not in (STORED, DEFLATED):
        raise _unsound(f"{name!r} is encrypted, or packed in a way that traces are not")
    if method == STORED and packed != size:
        raise _unsound(f"{name!r} states two sizes")
    entry, header = content[place : place + _ENTRY.size], content[local : local + _LOCAL.size]
    start = local + _LOCAL.size + name_length
    alike = entry[_COMMON[0]] == header[_COMMON[1]] and content[start - name_length : start] == raw
    if header[:4] != b"PK\3\4" or not alike:
        raise _unsound(f"{name!r} is described in two ways")
    return Member(name, method, crc, start, packed, size), after, local


def read_member(content: bytes, member: Member) -> bytes:
    """The bytes of a member; raises TraceError where they are not as many, or not the same."""
    packed = memoryview(content)[member.start : member.start + member.packed]
    if member.method == STORED:
        unpacked = bytes(packed)
    else:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        try:  # one byte more than declared is enough to know that it lies
            unpacked = inflater.decompress(packed, member.size + 1)
        except zlib.error:
            raise _unsound(f"{member.name!r} cannot be unpacked") from None
        if len(unpacked) != member.size or not inflater.eof or inflater.unused_data:
            raise _unsound(f"{member.name!r} is not as large as it claims")
    if zlib.crc32(unpacked) != member.crc:
        raise TraceError(f"{member.name!r} in the trace was changed or damaged", DAMAGED)
    return unpacked


def _unsound(why: str) -> TraceError:
    return TraceError(f"the trace is a damaged archive: {why}", DAMAGED)
