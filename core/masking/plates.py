"""A fill that looks like video: what the other frames show where an object lies. NumPy and OpenCV.

The plate of a clip is, by pixel, the median over the frames in which no object covers it. Where one
always does, nothing of the clip says what is behind it, and OpenCV's inpainting continues what is
around (Telea 2004); how much of each object that is, is reported. A plate shows no object: where
two lie over each other, masking one of them fades the other. The soft edge of the masks blends
plate and frame. A camera that moves blurs the median.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from macd_studio.core.types import Floats, Pixels, Track

ELSEWHERE = 0.02
"""Below this an object's mask does not cover a pixel."""
RADIUS = 0.02
"""Of the neighbourhood that is inpainted from, in shares of the short side."""
TELL_FROM = 0.05
"""Share of an object that must be inpainted before a run warns of it."""

Bools = NDArray[np.bool_]


def plate_fill(pixels: Pixels, masks: Floats) -> tuple[Floats, tuple[float, ...]]:
    """What masked pixels become, (T, H, W, 3) in 0-255, and by object how much was inpainted.

    pixels: (T, H, W, 3) RGB 0-255. masks: (K, T, H, W) in [0, 1]. The shares (K,) are of all pixels
    of all frames that the object's mask hides by half or more; 0 for one that hides none.
    """
    free: Bools = np.ones(pixels.shape[:3], bool)
    for mask in masks:
        free &= mask < ELSEWHERE
    seen: Bools = np.asarray(free.any(0))
    scene = _inpainted(_median(pixels, free), ~seen)
    shares = []
    for mask in masks:
        hides = mask >= 0.5
        shares.append(float((hides & ~seen).sum() / max(1, hides.sum())))
    return np.repeat(scene[None], len(pixels), 0), tuple(shares)


def plate_warnings(shares: Sequence[float], tracks: Sequence[Track]) -> Iterator[str]:
    """What a reader of a run with plates must know; nothing where little was inpainted."""
    for share, track in zip(shares, tracks, strict=True):
        if share >= TELL_FROM:
            yield (
                f"{share:.0%} of what object {track.id} ({track.label}) hides is never seen without"
                " it: there the plate was inpainted"
            )


def _median(pixels: Pixels, use: Bools) -> Floats:
    """(H, W, 3) median of each pixel over the frames that `use` (T, H, W) names; 0 without any."""
    out = np.zeros(pixels.shape[1:], np.float32)
    whole: Bools = np.asarray(use.all(0))
    out[whole] = np.median(pixels[:, whole], 0)
    some = use.any(0) & ~whole
    chosen: NDArray[Any] = np.where(use[:, some, None], pixels[:, some], np.float32(np.nan))
    if some.any():
        out[some] = np.nanmedian(chosen, 0)
    return out


def _inpainted(picture: Floats, where: Bools) -> Floats:
    """The picture (H, W, 3), continued into what is unknown; its mean colour where all is."""
    if not where.any():
        return picture
    if where.all():
        return np.full_like(picture, 127.5)
    radius = max(2.0, RADIUS * min(where.shape))
    known = picture.round().clip(0, 255).astype(np.uint8)
    painted = cv2.inpaint(known, where.astype(np.uint8), radius, cv2.INPAINT_TELEA)
    return np.where(where[..., None], painted, picture).astype(np.float32)
