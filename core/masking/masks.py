"""tracks → soft masks. NumPy only: a saved trace redraws its masks from boxes without torch.

Compositing with gradients is `core.masking.composite`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.options import MaskOptions
from macd_studio.core.types import Floats, MaskSet, Outline, Stroke, Track

REACH = 10.0
"""Beyond that many feather widths an outline's mask no longer changes: 5e-5 from 0 or 1."""


def draw_masks(
    tracks: Sequence[Track],
    frames: int,
    size: tuple[int, int],
    options: MaskOptions | None = None,
    content: tuple[int, int, int, int] | None = None,
) -> MaskSet:
    """Soft masks of the tracks at `size` = (h, w), docs/methods.md, steps 3 and 4.

    content: the pixels x0 y0 x1 y1 that show the source frame, all of them by default; what lies
    outside is padding, which no mask covers. Returns objects (K, T, h, w) and outside (T, h, w),
    float32 in [0, 1]; exactly 0 on frames where a track is lost. `outside` is 1 − the largest
    object mask ("outside") or 1 ("whole").
    """
    options = options or MaskOptions()
    if content is not None and content != (0, 0, size[1], size[0]):
        x0, y0, x1, y1 = content
        inner = draw_masks(tracks, frames, (y1 - y0, x1 - x0), options)
        around = (y0, size[0] - y1), (x0, size[1] - x1)
        return MaskSet(
            objects=np.pad(inner.objects, ((0, 0), (0, 0), *around)),
            outside=np.pad(inner.outside, ((0, 0), *around)),
        )
    height, width = size
    boxes = np.concatenate([t.boxes for t in tracks]) if tracks else np.zeros((0, 4), np.float32)
    raw = soft_boxes(boxes, size, options.pad, options.feather)
    raw = raw.reshape(len(tracks), frames, height, width)
    for k, t in enumerate(tracks):
        if options.shape == "outline":
            for i, outline in enumerate(t.outlines[:frames]):
                if outline is not None and raw[k, i].any():
                    raw[k, i] = soft_outline(
                        outline, t.boxes[i], size, options.pad, options.feather
                    )
        for stroke in t.brush:
            raw[k] = brushed(raw[k], t.boxes, stroke, options.feather)
    return finish_masks(raw, tracks, options)


def finish_masks(raw: Floats, tracks: Sequence[Track], options: MaskOptions) -> MaskSet:
    """Sweeps masks, shares their overlap and adds what is outside of them, as options say.

    raw: (K, T, H, W) in [0, 1], each mask drawn by itself, where `draw_masks` returns the result.
    """
    if options.swept and raw.size:
        # docs/methods.md, step 3: a mask that moves with its object would reveal the motion
        raw = np.broadcast_to(raw.max(axis=1, keepdims=True), raw.shape).copy()
    covered = raw.max(axis=0) if len(tracks) else np.zeros(raw.shape[1:], np.float32)
    outside = np.ones_like(covered) if options.frame_mask == "whole" else 1 - covered
    if options.overlap == "normalise":
        raw = share_overlap(raw, np.array([t.confidence for t in tracks], np.float32))
    return MaskSet(objects=raw, outside=outside)


def soft_boxes(boxes: Floats, size: tuple[int, int], pad: float, feather: float) -> Floats:
    """(T, 4) boxes in [0, 1] → (T, H, W): products of sigmoid edges, grown by `pad`.

    pad and feather are shares of the short side; the mask is ½ at `pad` outside the box.
    """
    height, width = size
    short = min(size)
    grow, slope = pad * short, 1 / max(feather * short, 1e-3)
    known = np.isfinite(boxes).all(axis=1, keepdims=True)
    x0, y0, x1, y1 = np.split(np.where(known, boxes, 0), 4, axis=1)
    down = _edges(y0 * height, y1 * height, height, grow, slope)
    across = _edges(x0 * width, x1 * width, width, grow, slope)
    down = np.where(known & (x1 > x0) & (y1 > y0), down, 0)
    masks = np.empty((len(boxes), *size), np.float32)
    return np.multiply(down[:, :, None], across[:, None, :], out=masks, casting="same_kind")


def _edges(
    low: Floats, high: Floats, pixels: int, grow: float, slope: float
) -> NDArray[np.float64]:
    """Rises at `low` and falls at `high` (T, 1), each `grow` further out: (T, pixels) in [0, 1]."""
    at = np.arange(pixels) + 0.5
    return _sigmoid((at - low + grow) * slope) * _sigmoid((high + grow - at) * slope)


def soft_outline(
    outline: Outline, box: Floats, size: tuple[int, int], pad: float, feather: float
) -> Floats:
    """An outline in shares of its box (4,) → (H, W) in [0, 1], by the distance to its edge.

    Like `soft_boxes` it is ½ at `pad` outside. Inside is what an even-odd rule calls so. Only what
    is within reach of an edge is computed for that edge.
    """
    height, width = size
    short = min(size)
    grow, slope = pad * short, 1 / max(feather * short, 1e-3)
    reach = grow + REACH / slope
    far = np.full(size, reach**2)
    inside = np.zeros(size, bool)
    for ring in outline:
        at = (box[:2] + ring * (box[2:] - box[:2])).astype(np.float64) * (width, height)
        for (ax, ay), (bx, by) in zip(at, np.roll(at, -1, 0), strict=True):
            dx, dy = bx - ax, by - ay
            left, right = _span(ax, bx, reach, width)
            top, bottom = _span(ay, by, reach, height)
            x = np.arange(left, right) + 0.5
            y = (np.arange(top, bottom) + 0.5)[:, None]
            along = ((x - ax) * dx + (y - ay) * dy) / max(dx * dx + dy * dy, 1e-12)
            along = along.clip(0, 1)
            here = far[top:bottom, left:right]
            np.minimum(here, (x - ax - along * dx) ** 2 + (y - ay - along * dy) ** 2, out=here)
            if ay != by:
                top, bottom = _span(ay, by, 0, height)
                y = (np.arange(top, bottom) + 0.5)[:, None]
                crossed = (ay > y) != (by > y)
                inside[top:bottom] ^= crossed & (np.arange(width) + 0.5 < ax + (y - ay) * dx / dy)
    signed = np.where(inside, 1, -1) * np.sqrt(far)
    return _sigmoid((signed + grow) * slope).astype(np.float32)


def _span(a: float, b: float, reach: float, n: int) -> tuple[int, int]:
    """The pixels of a side of `n` that lie within reach of a stretch."""
    low, high = min(a, b) - reach, max(a, b) + reach
    return int(min(max(np.floor(low), 0), n)), int(min(max(np.ceil(high), 0), n))


def brushed(mask: Floats, boxes: Floats, stroke: Stroke, feather: float) -> Floats:
    """A track's mask (T, H, W) with one stroke drawn or erased; nothing where the track is lost.

    Soft discs around the stroke's points, which keep their place within the box.
    """
    height, width = mask.shape[1:]
    short = min(height, width)
    slope, radius = 1 / max(feather * short, 1e-3), stroke.radius * short
    x, y = np.arange(width) + 0.5, np.arange(height) + 0.5
    out = mask.copy()
    for t, box in enumerate(boxes):
        if not np.isfinite(box).all():
            continue
        at = (box[:2] + stroke.points * (box[2:] - box[:2])) * (width, height)
        far = np.full((height, width), np.inf)
        for px, py in at:
            far = np.minimum(far, (y[:, None] - py) ** 2 + (x[None] - px) ** 2)
        disc = _sigmoid((radius - np.sqrt(far)) * slope).astype(np.float32)
        out[t] = np.minimum(out[t], 1 - disc) if stroke.erase else np.maximum(out[t], disc)
    return out


def _sigmoid(z: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-np.clip(z.astype(np.float64), -30, 30))))


def share_overlap(masks: Floats, confidence: Floats) -> Floats:
    """Shares pixels claimed by several masks by confidence, so that they never sum above 1.

    m'_k = c_k m_k / Σ c_j m_j · min(1, Σ m_j); a mask alone is unchanged.
    """
    if len(masks) < 2:
        return masks
    weighted = masks * np.maximum(confidence, 1e-6)[:, None, None, None]
    total = weighted.sum(axis=0)
    covered = np.minimum(masks.sum(axis=0), 1)
    covered[total <= 1e-12] = 0
    weighted /= np.maximum(total, 1e-12)
    weighted *= covered
    return np.asarray(weighted, np.float32)


def combine_masks(
    masks: MaskSet,
    level: Sequence[float] | NDArray[Any],
    frame_level: Sequence[float] | NDArray[Any],
    groups: Sequence[Sequence[int]],
    confidence: Sequence[float] | NDArray[Any],
    options: MaskOptions | None = None,
) -> Floats:
    """M (T, H, W) in [0, 1] from levels; the NumPy reference of `composite.MaskCompositor.mask`.

    level, confidence: (K,); frame_level: (G,), empty where no frame is hidden; groups: the frames
    of each frame group. Raises ValueError where the sizes do not fit.
    """
    options = options or MaskOptions()
    if not len(masks.objects) == len(level) == len(confidence):
        raise ValueError(f"{len(masks.objects)} masks but {len(level)} levels")
    layer = np.zeros_like(masks.outside)
    if options.frame_mask != "off" and len(frame_level):
        at_frame = np.zeros(len(layer), np.float32)
        for strength, frames in zip(frame_level, groups, strict=True):
            at_frame[list(frames)] = strength**2 if options.strength_twice else strength
        layer = at_frame[:, None, None] * masks.outside
    strengths = np.asarray(level, np.float32)
    if options.strength_twice:
        strengths = strengths**2
    if options.fusion == "sum":
        joined = np.zeros_like(layer)
        for r, mask in zip(strengths, masks.objects, strict=True):
            np.maximum(joined, r * mask, out=joined)
        return np.asarray((joined + layer).clip(0, 1), np.float32)
    if options.fusion == "or":
        left = 1 - layer
        for r, mask in zip(strengths, masks.objects, strict=True):
            left *= 1 - r * mask
        return np.asarray((1 - left).clip(0, 1), np.float32)
    if options.fusion == "max":
        for r, mask in zip(strengths, masks.objects, strict=True):
            np.maximum(layer, r * mask, out=layer)
        return np.asarray(layer.clip(0, 1), np.float32)
    weight = np.ones(len(strengths), np.float32)
    if options.fusion == "confidence":
        weight = np.asarray(confidence, np.float32)
    total, mean, top = (np.zeros_like(layer) for _ in range(3))
    for r, w, mask in zip(strengths, weight, masks.objects, strict=True):
        total += w * mask
        mean += r * w * mask
        np.maximum(top, mask, out=top)
    np.maximum(layer, mean / np.maximum(total, 1e-9) * top, out=layer)
    return np.asarray(layer.clip(0, 1), np.float32)
