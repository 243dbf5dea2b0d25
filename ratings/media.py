"""Clips as raters receive them: frames composited with a mask, packed under equal size.

A packed clip is "MSR1", the number of frames, the length of each (all uint32, little endian), the
frames as WebP, and random padding up to the size that all masked clips of a study have, and all
unmasked ones: neither name nor size of a transfer tells one arm from another, or one item.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageFilter

from macd_studio.core.masking.plates import plate_fill
from macd_studio.core.media.webp import encode_picture
from macd_studio.core.types import Floats, Pixels
from macd_studio.ratings.source import Source

MAGIC = b"MSR1"


def composite(source: Source, mask: Floats, rng: np.random.Generator) -> Pixels:
    """V_d = (1 − M)·V + M·fill as 8-bit pixels (T, H, W, 3); see docs/methods.md, step 6.

    The fill is that of the run: mean (of the backbone's normalisation), black, blur, noise, a
    plate of what other frames show there, or the paper's literal sum ("additive").
    """
    video: Floats = source.frames.astype(np.float32) / np.float32(255)
    hidden = mask[..., None]
    kind = source.mask.fill
    if kind == "additive":
        shown = (video + hidden).clip(0, 1)
    else:
        shown = video + hidden * (_fill(source, video, mask, kind, rng) - video)
    return np.asarray((255 * shown).round().clip(0, 255), np.uint8)


def _fill(
    source: Source, video: Floats, mask: Floats, kind: str, rng: np.random.Generator
) -> Floats:
    if kind == "black":
        return np.zeros(3, np.float32)
    if kind == "noise":
        return rng.random(video.shape, np.float32)
    if kind == "plate":
        return plate_fill(source.frames, mask[None])[0] / np.float32(255)
    if kind == "blur":
        blur = ImageFilter.GaussianBlur(0.1 * min(source.size))
        blurred = [np.asarray(Image.fromarray(f).filter(blur)) for f in source.frames]
        return np.asarray(np.stack(blurred) / 255, np.float32)
    return np.asarray(source.fill, np.float32)


def encode_clip(frames: Pixels) -> bytes:
    """A packed clip without padding."""
    return pack([encode_picture(f) for f in frames])


def pack(pictures: Sequence[bytes]) -> bytes:
    """WebP pictures as a packed clip without padding."""
    lengths = struct.pack(f"<{len(pictures)}I", *map(len, pictures))
    return MAGIC + struct.pack("<I", len(pictures)) + lengths + b"".join(pictures)
