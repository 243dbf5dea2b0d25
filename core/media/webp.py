"""Frames ⇄ WebP, as trace files and the page hold them. Opens nothing but WebP."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from PIL import Image

from core.errors import TraceError
from core.types import Pixels

LOSSLESS_PIXELS = 160 * 160
"""Frames that only show something are stored without loss up to this size."""
PICTURE_PIXELS = 2_400_000
"""Of one frame: decoding takes about 12 bytes a pixel besides the result."""
URI_PREFIX = "data:image/webp;base64,"
REMEDY = "Save the trace again from the run, or ask for another copy"


def encode_picture(frame: Pixels, exact: bool = False) -> bytes:
    """One frame (H, W, 3) as WebP; small ones and `exact` ones without loss."""
    return _encode(frame.shape[0], frame.shape[1], np.ascontiguousarray(frame).tobytes(), exact)


@lru_cache(maxsize=256)
def _encode(height: int, width: int, pixels: bytes, exact: bool) -> bytes:
    frame = Image.frombuffer("RGB", (width, height), pixels)
    out = io.BytesIO()
    if exact or height * width <= LOSSLESS_PIXELS:
        frame.save(out, "WEBP", lossless=True, quality=60, method=2)
    else:
        frame.save(out, "WEBP", quality=80, method=2)
    return out.getvalue()


def picture_uri(frame: Pixels) -> str:
    """One frame (H, W, 3) as a WebP data URI, for pages and figures."""
    return URI_PREFIX + base64.b64encode(encode_picture(frame)).decode()


def picture_size(content: bytes) -> tuple[int, int]:
    """(height, width) from the header of a WebP as `encode_picture` writes it; decodes nothing.

    Raises TraceError for anything else, such as an animation, and above PICTURE_PIXELS.
    """
    height, width = _size_in_header(content)
    if height * width > PICTURE_PIXELS:
        raise TraceError(
            f"a frame in the trace has {width}×{height} pixels, more than"
            f" {PICTURE_PIXELS / 1e6:.1f} megapixels",
            REMEDY,
        )
    return height, width


def _size_in_header(content: bytes) -> tuple[int, int]:
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP" or len(content) < 30:
        raise TraceError("a frame in the trace is not a WebP picture", REMEDY)
    kind, data = content[12:16], content[20:30]
    if kind == b"VP8L" and data[0] == 0x2F:
        bits = int.from_bytes(data[1:5], "little")
        return (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1
    if kind == b"VP8 " and data[3:6] == b"\x9d\x01\x2a":
        width, height = (int.from_bytes(data[i : i + 2], "little") & 0x3FFF for i in (6, 8))
        return height, width
    raise TraceError("a frame in the trace is a WebP of another kind", REMEDY)


def decode_pictures(contents: Sequence[bytes]) -> Pixels:
    """Frames of one size, (T, H, W, 3), decoded one at a time; raises TraceError."""
    sizes = {picture_size(c) for c in contents}
    if len(sizes) != 1:
        raise TraceError("the frames in the trace are not of one size", REMEDY)
    out = np.empty((len(contents), *sizes.pop(), 3), np.uint8)
    for frame, content in zip(out, contents, strict=True):
        frame[:] = decode_picture(content)
    return out


def decode_picture(content: bytes) -> Pixels:
    """The frame (H, W, 3) that `encode_picture` wrote; raises TraceError."""
    size = picture_size(content)
    with Image.open(io.BytesIO(content), formats=["WEBP"]) as image:
        if (image.height, image.width) != size:
            raise TraceError("a frame in the trace is not of the size it claims", REMEDY)
        return np.asarray(image.convert("RGB"))
