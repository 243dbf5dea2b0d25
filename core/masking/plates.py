"""A fill that looks like video: what the other frames show where an object lies. NumPy and OpenCV.

The plate of a clip is, by pixel, the median over the frames in which no object covers it. Where one
always does, it is the median over the frames in which the masked object is elsewhere; where that is
never so, nothing of the clip says what is behind it, and OpenCV's inpainting continues what is
around (Telea 2004). How much of each object that is, is reported. The soft edge of the masks blends
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
"""Below this an object's mask does not cover a pixel; from ½ on it hides more than half of it."""
RADIUS = 0.02
"""Of the neighbourhood that is inpainted from, in shares of the short side."""
TELL_FROM = 0.05
"""Share of an object that must be inpainted before a run warns of it."""

Bools = NDArray[np.bool_]


def plate_fill(pixels: Pixels, masks: Floats) -> tuple[Floats, tuple[float, ...]]:
    """What masked pixels become, (T, H, W, 3) in 0-255, and by object how much was never uncovered.

    pixels: (T, H, W, 3) RGB 0-255. masks: (K, T, H, W) in [0, 1]. The shares (K,) are of all pixels
    that the object's mask hides by half or more in any frame; 0 for one that it never does.
    """
    covers = masks >= ELSEWHERE
    free: Bools = np.asarray(~covers.any(0)) if len(masks) else np.ones(pixels.shape[:3], bool)
    seen: Bools = np.asarray(free.any(0))
    scene = _inpainted(_median(pixels, free), ~seen)
    fill = np.repeat(scene[None], len(pixels), 0)
    shares = tuple(_uncovered(mask, cover) for mask, cover in zip(masks, covers, strict=True))
    weights = np.zeros(pixels.shape[:3], np.float32)
    blended = np.zeros(fill.shape, np.float32)
    for mask, cover in zip(masks, covers, strict=True):
        # always under some object; where not always under this one, the others lie behind it
        stuck: Bools = np.asarray(~seen & cover.any(0))
        bared: Bools = np.asarray(stuck & ~cover.all(0))
        behind = scene
        if bared.any():
            behind = np.where(bared[..., None], _median(pixels, ~cover & bared), scene)
        weight = mask * stuck
        blended += weight[..., None] * behind
        weights += weight
    there = weights > 0
    fill[there] = blended[there] / weights[there][:, None]
    return fill, shares


def plate_warnings(shares: Sequence[float], tracks: Sequence[Track]) -> Iterator[str]:
    """What a reader of a run with plates must know; nothing where little was inpainted."""
    for share, track in zip(shares, tracks, strict=True):
        if share >= TELL_FROM:
            yield (
                f"{share:.0%} of what object {track.id} ({track.label}) hides is never seen without"
                " it: there the plate was inpainted"
            )


def _uncovered(mask: Floats, cover: Bools) -> float:
    """Share of the object's pixels that no frame shows without it."""
    place = (mask >= 0.5).any(0)
    always: Bools = np.asarray(cover.all(0))
    return float(always[place].mean()) if place.any() else 0.0


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
