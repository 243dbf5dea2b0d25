"""Frames ⇄ WebP, as trace files and the page hold them. Opens nothing but WebP."""

from __future__ import annotations

import io
from functools import lru_cache

import numpy as np
from PIL import Image

from core.errors import TraceError
from core.types import Pixels

LOSSLESS_PIXELS = 160 * 160
"""Frames that only show something are stored without loss up to this size."""


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


def decode_picture(content: bytes) -> Pixels:
    """The frame (H, W, 3) that `encode_picture` wrote; raises TraceError if it is too large."""
    with Image.open(io.BytesIO(content), formats=["WEBP"]) as image:
        if image.width * image.height > 4096 * 4096:
            raise TraceError("a frame in the trace is too large", "Save it again from the run")
        return np.asarray(image.convert("RGB"))
