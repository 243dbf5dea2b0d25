"""Where the headers of a zip archive keep their fields, and archives whose headers lie."""

import io
import struct
import zipfile
import zlib

END = (("disk", 4, 2), ("first disk", 6, 2), ("entries here", 8, 2), ("entries", 10, 2),
       ("directory bytes", 12, 4), ("directory start", 16, 4), ("comment", 20, 2))  # fmt: skip
COMMON = (("needs", 0, 2), ("flags", 2, 2), ("method", 4, 2), ("time", 6, 2), ("date", 8, 2),
          ("crc", 10, 4), ("packed", 14, 4), ("size", 18, 4), ("name length", 22, 2),
          ("extra length", 24, 2))  # fmt: skip
"""Fields that an entry of the directory and a local header share, from the first of them on."""
ENTRY = (("made by", 4, 2), ("comment", 32, 2), ("disk", 34, 2), ("inner", 36, 2),
         ("outer", 38, 4), ("local", 42, 4),
         *((name, 6 + at, n) for name, at, n in COMMON))  # fmt: skip
LOCAL = tuple((name, 4 + at, n) for name, at, n in COMMON)


def zipped(members, method=zipfile.ZIP_STORED):
    """An archive of these members, by name or as (name, content) pairs."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, content in members.items() if isinstance(members, dict) else members:
            file.writestr(zipfile.ZipInfo(name), content, method)
    return out.getvalue()


def headers(content):
    """(entry, local header) positions of each member of a sound archive, in its order."""
    end = len(content) - 22
    count, start = struct.unpack_from("<H", content, end + 10)[0], number(content, end + 16, 4)
    found = []
    for _ in range(count):
        found.append((start, number(content, start + 42, 4)))
        start += 46 + sum(number(content, start + at, 2) for at in (28, 30, 32))
    return found


def number(content, at, size):
    return int.from_bytes(content[at : at + size], "little")


def places(content, member):
    """Position and bytes of every field of a member by name; where it stands twice, both."""
    entry, local = headers(content)[member]
    found = {name: [(entry + at, n)] for name, at, n in ENTRY}
    for name, at, n in LOCAL:
        found[name].append((local + at, n))
    return found


def end_places(content):
    """Position and bytes of every field of the end record by name."""
    end = len(content) - 22
    return {name: [(end + at, n)] for name, at, n in END}


def lie(content, fields, value):
    """The archive with another value in these fields."""
    changed = bytearray(content)
    for at, size in fields:
        changed[at : at + size] = (value % 256**size).to_bytes(size, "little")
    return bytes(changed)


def by_hand(name, data, size, crc, method=8):
    """An archive of one member whose headers hold what they are told."""
    common = struct.pack("<5H3L2H", 20, 0, method, 0, 0, crc, len(data), size, len(name), 0)
    local = b"PK\3\4" + common + name + data
    entry = b"PK\1\2" + struct.pack("<H", 20) + common + struct.pack("<3H2L", 0, 0, 0, 0, 0) + name
    return local + entry + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(entry), len(local), 0)


def zeros(megabytes):
    """A deflate stream of so many zero bytes; one megabyte is packed, the rest are its copies."""
    packer = zlib.compressobj(wbits=-15)
    first = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return first * megabytes + packer.flush()
