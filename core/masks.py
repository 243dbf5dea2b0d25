"""tracks → soft masks. NumPy only: a saved trace redraws its masks from boxes without torch.

Compositing with gradients is `core.views`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.options import AscentOptions, MaskOptions
from core.types import Floats, MaskSet, Stroke, Track

REACH = 16.0
"""Beyond that many feather widths a mask is nothing: its sigmoid is below 1.2e-7."""


def draw_masks(
    tracks: Sequence[Track], frames: int, size: tuple[int, int], options: MaskOptions | None = None
) -> MaskSet:
    """Soft masks of the tracks at `size` = (H, W), METHOD steps 3 and 4.

    Returns objects (K, T, H, W) and outside (T, H, W), float32 in [0, 1]; exactly 0 on frames
    where a track is lost. `outside` is 1 − the largest object mask ("outside") or 1 ("whole").
    """
    options = options or MaskOptions()
    height, width = size
    raw = np.zeros((len(tracks), frames, height, width), np.float32)
    for k, t in enumerate(tracks):
        raw[k] = soft_boxes(t.boxes, size, options.pad, options.feather)
        if options.shape == "outline":
            for i, points in enumerate(t.outlines[:frames]):
                if points is not None and raw[k, i].any():
                    raw[k, i] = soft_outline(points, t.boxes[i], size, options.pad, options.feather)
        for stroke in t.brush:
            raw[k] = brushed(raw[k], t.boxes, stroke, options.feather)
    if options.swept and frames:
        # METHOD step 3: a mask that moves with its object would tell the model the motion
        raw = np.broadcast_to(raw.max(axis=1, keepdims=True), raw.shape).copy()
    covered = raw.max(axis=0) if len(tracks) else np.zeros((frames, height, width), np.float32)
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
    lost = ~np.isfinite(boxes).all(axis=1)
    x0, y0, x1, y1 = (
        np.nan_to_num(boxes)[:, i, None] * (width, height, width, height)[i] for i in range(4)
    )
    x, y = np.arange(width) + 0.5, np.arange(height) + 0.5
    across = _sigmoid((x - x0 + grow) * slope) * _sigmoid((x1 + grow - x) * slope)
    down = _sigmoid((y - y0 + grow) * slope) * _sigmoid((y1 + grow - y) * slope)
    masks = (down[:, :, None] * across[:, None, :]).astype(np.float32)
    masks[lost | (x1 <= x0)[:, 0] | (y1 <= y0)[:, 0]] = 0
    return masks


def soft_outline(
    points: Floats, box: Floats, size: tuple[int, int], pad: float, feather: float
) -> Floats:
    """A polygon (P, 2) in shares of its box → (H, W): a sigmoid of the distance to its edge.

    Like `soft_boxes` it is ½ at `pad` outside. Inside is what an even-odd rule calls so.
    """
    height, width = size
    short = min(size)
    grow, slope = pad * short, 1 / max(feather * short, 1e-3)
    at = (box[:2] + points * (box[2:] - box[:2])).astype(np.float64) * (width, height)
    reach = grow + REACH / slope
    low = np.floor(at.min(0) - reach).clip(0, (width, height)).astype(int)
    high = np.ceil(at.max(0) + reach).clip(0, (width, height)).astype(int)
    x = np.arange(low[0], high[0]) + 0.5
    y = (np.arange(low[1], high[1]) + 0.5)[:, None]
    far = np.full((len(y), len(x)), np.inf)
    inside = np.zeros(far.shape, bool)
    for (ax, ay), (bx, by) in zip(at, np.roll(at, -1, 0), strict=True):
        dx, dy = bx - ax, by - ay
        along = ((x - ax) * dx + (y - ay) * dy) / max(dx * dx + dy * dy, 1e-12)
        along = along.clip(0, 1)
        far = np.minimum(far, (x - ax - along * dx) ** 2 + (y - ay - along * dy) ** 2)
        if ay != by:
            inside ^= ((ay > y) != (by > y)) & (x < ax + (y - ay) * dx / dy)
    out = np.zeros(size, np.float32)
    signed = np.where(inside, 1, -1) * np.sqrt(far)
    out[low[1] : high[1], low[0] : high[0]] = _sigmoid((signed + grow) * slope)
    return out


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
    total = weighted.sum(axis=0, keepdims=True)
    share = np.divide(weighted, total, out=np.zeros_like(weighted), where=total > 1e-12)
    return np.asarray(share * np.minimum(masks.sum(axis=0, keepdims=True), 1), np.float32)


def levels(
    strength: NDArray[np.float64], options: AscentOptions | None = None
) -> NDArray[np.float64]:
    """Strengths (K,) → levels: 1 above r0 + τ, 0 below r0 − τ, else r0 (METHOD step 8).

    >>> levels(np.array([0.76, 0.74, 0.75])).tolist()
    [1.0, 0.0, 0.75]
    """
    options = options or AscentOptions()
    if options.levels == "continuous":
        return strength.copy()
    up, down = strength > options.r0 + options.tau, strength < options.r0 - options.tau
    return np.where(up, 1.0, np.where(down, 0.0, options.r0))


def frame_levels(
    strength: NDArray[np.float64], options: AscentOptions | None = None
) -> NDArray[np.float64]:
    """Levels of the frame groups (G,), where only the few with the largest margin stay masked.

    At most `frame_fraction` of the groups, but one where the fraction is above 0 (METHOD step 4).
    """
    options = options or AscentOptions()
    out = levels(strength, options)
    few = int(options.frame_fraction * len(out))
    if options.frame_fraction > 0 and len(out):
        few = max(1, few)
    order = np.argsort(-(strength - options.r0), kind="stable")
    out[order[few:]] = 0.0
    return out
