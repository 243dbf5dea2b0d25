"""Frames ⇄ WebP, as trace files and the page hold them. Opens nothing but WebP."""

from __future__ import annotations

import base64
import hashlib
import io
import threading
import weakref
from collections.abc import Hashable, Sequence

import numpy as np
from PIL import Image

from macd_studio.core.errors import TraceError
from macd_studio.core.system.recent import Recent
from macd_studio.core.types import Pixels

LOSSLESS_PIXELS = 160 * 160
"""Frames that only show something are stored without loss up to this size."""
PICTURE_PIXELS = 2_400_000
"""Of one frame: decoding takes about 12 bytes a pixel besides the result."""
KEPT_BYTES = 32 * 2**20
"""Of pictures that stay encoded, as most are asked for again: by the page, then by a file."""
URI_PREFIX = "data:image/webp;base64,"
REMEDY = "Save the trace again from the run, or ask for another copy"


class _Originals:
    """The bytes that frames were decoded from, for as long as those frames are held.

    To encode such frames again would lose a little of them each time.
    """

    def __init__(self) -> None:
        self._bytes: dict[Hashable, tuple[bytes, int]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> bytes | None:
        with self._lock:
            return self._bytes.get(key, (None, 0))[0]

    def keep(self, frames: Pixels, contents: Sequence[bytes]) -> None:
        """contents: of each of the frames (T, H, W, 3), which must not change any more."""
        keys = [_key(frame, exact=False) for frame in frames]
        with self._lock:
            for key, content in zip(keys, contents, strict=True):
                kept, uses = self._bytes.get(key, (content, 0))
                self._bytes[key] = kept, uses + 1
        weakref.finalize(frames, self._drop, keys)

    def _drop(self, keys: Sequence[Hashable]) -> None:
        with self._lock:
            for key in keys:
                kept, uses = self._bytes.pop(key)
                if uses > 1:
                    self._bytes[key] = kept, uses - 1


_encoded: Recent[Hashable, bytes] = Recent(KEPT_BYTES, len)
"""Pictures as they were encoded last, by the digest of their pixels; not the pixels."""
_originals = _Originals()


def _key(frame: Pixels, exact: bool) -> tuple[bytes, int, int, bool]:
    height, width = frame.shape[:2]
    pixels = np.ascontiguousarray(frame)
    lossless = exact or height * width <= LOSSLESS_PIXELS
    return hashlib.blake2b(pixels.data, digest_size=20).digest(), height, width, lossless


def encode_picture(frame: Pixels, exact: bool = False) -> bytes:
    """One frame (H, W, 3) as WebP; small ones and `exact` ones without loss.

    A frame that came from a file is given back as it was there.
    """
    key = _key(frame, exact)
    picture = _originals.get(key) or _encoded.get(key)
    if picture is None:
        height, width = frame.shape[:2]
        pixels, lossless = np.ascontiguousarray(frame), key[-1]
        out = io.BytesIO()
        how = {"lossless": True, "quality": 60} if lossless else {"quality": 80}
        Image.frombuffer("RGB", (width, height), pixels).save(out, "WEBP", method=2, **how)
        picture = out.getvalue()
        _encoded.put(key, picture)
    return picture


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


def decode_pictures(contents: Sequence[bytes], exact: bool = False) -> Pixels:
    """Frames of one size, (T, H, W, 3), decoded one at a time; raises TraceError.

    They are read-only. exact: they are without loss; for others `encode_picture` gives these
    contents back.
    """
    sizes = {picture_size(c) for c in contents}
    if len(sizes) != 1:
        raise TraceError("the frames in the trace are not of one size", REMEDY)
    out = np.empty((len(contents), *sizes.pop(), 3), np.uint8)
    for frame, content in zip(out, contents, strict=True):
        frame[:] = decode_picture(content)
    out.flags.writeable = False
    if not exact:
        _originals.keep(out, contents)
    return out


def decode_picture(content: bytes) -> Pixels:
    """The frame (H, W, 3) that `encode_picture` wrote; raises TraceError."""
    size = picture_size(content)
    with Image.open(io.BytesIO(content), formats=["WEBP"]) as image:
        if (image.height, image.width) != size:
            raise TraceError("a frame in the trace is not of the size it claims", REMEDY)
        return np.asarray(image.convert("RGB"))
