"""Reads the packed clips that `ratings.media` writes."""

import struct

from macd_studio.ratings.media import MAGIC


def decode_clip(content: bytes) -> list[bytes]:
    """The WebP pictures of a packed clip."""
    (count,) = struct.unpack_from("<I", content, len(MAGIC))
    lengths = struct.unpack_from(f"<{count}I", content, len(MAGIC) + 4)
    start, pictures = len(MAGIC) + 4 + 4 * count, []
    for length in lengths:
        pictures.append(content[start : start + length])
        start += length
    return pictures
