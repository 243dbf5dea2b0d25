"""Masks of the same hidden area at random places: the control that MACD's masks are compared with.

NumPy only, so that a rating study can use it without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.masking.masks import combine_masks, draw_masks, finish_masks
from macd_studio.core.options import MaskOptions
from macd_studio.core.types import MaskSet, Track

Float64Array = NDArray[np.float64]

TOLERANCE = 0.01
"""How far the hidden area may be from the original one, as a share of it."""
SCALES = 0.8, 1.25
"""How far boxes may be scaled where no placement found has the same area."""
SCALES_ANYWHERE = 0.5, 2.0
"""The same where any place will do and placements are not chosen by their area."""
TRIES = 100
"""Placements drawn before boxes are scaled."""

_PATHS = 512  # paths drawn for each object, of which a placement takes one
_COARSE = 96  # long side in pixels at which placements are compared before they are measured
_COARSE_TOLERANCE = 0.004
_ANYWHERE = 25  # placements that are scaled where any place will do
_MEASURED = 6  # placements that are scaled, the best ones first
_STEPS = 8  # measurements for one scale


@dataclass(frozen=True, eq=False)
class RandomPlacement:
    """Tracks at random places, with the levels of the frame groups (G,) in random order.

    area_ratio: hidden pixels over those of the original masks, after clipping and overlap. scale:
    by which all boxes were scaled to get there. unmoved: ids of the objects that are somewhere
    within half their size of where they were; tries: placements drawn.
    """

    tracks: tuple[Track, ...]
    frame_level: Float64Array
    area_ratio: float
    scale: float
    unmoved: tuple[int, ...]
    tries: int

    def as_dict(self) -> dict[str, Any]:
        """Plain values for an answer's view; `placement_warnings` reads them."""
        return {
            "area_ratio": round(self.area_ratio, 5),
            "scale": round(self.scale, 5),
            "unmoved": self.unmoved,
            "tries": self.tries,
        }


def place_at_random(
    tracks: Sequence[Track],
    level: Sequence[float] | NDArray[Any],
    frame_level: Sequence[float] | NDArray[Any],
    groups: Sequence[Sequence[int]],
    size: tuple[int, int],
    options: MaskOptions | None = None,
    seed: int = 0,
    *,
    anywhere: bool = False,
) -> RandomPlacement:
    """Moves every object to a random place and hides as many pixels as before.

    level: (K,); frame_level: (G,), empty where no frame is hidden; groups: frames of each group;
    size: (H, W). Each box keeps its size and stays inside the frame, its centre moves by one offset
    that is reflected at the frame's edges, so that the path stays continuous. In every frame where
    it is seen an object moves by at least half its width or half its height. Placements are drawn
    until the hidden pixels, summed over frames and levels, agree within `TOLERANCE`; after `TRIES`
    the boxes of the best are scaled by a common factor within `SCALES`. What is not reached is
    reported in the result: no error is raised.

    anywhere: an object may also come to lie where it was. Every place in the frame is as likely:
    the first placement is scaled until the area agrees, since choosing among placements by their
    area would choose places like MACD's own, at an edge where that is at an edge.
    """
    options = options or MaskOptions()
    rng = np.random.default_rng(seed)
    frame_levels = np.asarray(frame_level, np.float64)
    height, width = size
    shrink = min(1.0, _COARSE / max(size))
    coarse = max(1, round(height * shrink)), max(1, round(width * shrink))
    pools = [_paths(t.boxes, rng, anywhere) for t in tracks]

    def hidden(placed: Sequence[Track], order: Float64Array, at: tuple[int, int]) -> float:
        return hidden_pixels(placed, level, order, groups, at, options)

    stamps = _Stamps(tracks, _frames(groups), coarse, options)

    def hidden_roughly(placed: Sequence[Track], order: Float64Array) -> float:
        if not stamps.needed:
            return hidden(placed, order, coarse)
        return _hidden(stamps.at(placed), placed, level, order, groups, options)

    target, target_coarse = hidden(tracks, frame_levels, size), hidden_roughly(tracks, frame_levels)
    drawn: list[tuple[float, tuple[Track, ...], Float64Array]] = []
    placements: list[RandomPlacement] = []

    def result(placed: tuple[Track, ...], order: Float64Array, ratio: float, scale: float) -> None:
        unmoved = tuple(
            old.id for old, new in zip(tracks, placed, strict=True) if not is_moved(old, new)
        )
        placements.append(RandomPlacement(placed, order, ratio, scale, unmoved, len(drawn)))

    def scaled_result(placed: tuple[Track, ...], order: Float64Array) -> None:
        scale, ratio = _matching_scale(
            lambda s: _ratio(hidden(_scaled(placed, s), order, size), target),
            SCALES_ANYWHERE if anywhere else SCALES,
        )
        result(_scaled(placed, scale), order, ratio, scale)

    for _ in range(_ANYWHERE if anywhere else 0):
        placed = tuple(_with_path(t, p, rng) for t, p in zip(tracks, pools, strict=True))
        order = rng.permutation(frame_levels)
        drawn.append((0.0, placed, order))
        scaled_result(placed, order)
        if abs(placements[-1].area_ratio - 1) <= TOLERANCE:
            return placements[-1]
    if anywhere:
        return min(placements, key=lambda f: abs(f.area_ratio - 1))
    for _ in range(TRIES):
        placed = tuple(_with_path(t, p, rng) for t, p in zip(tracks, pools, strict=True))
        order = rng.permutation(frame_levels)
        ratio = _ratio(hidden_roughly(placed, order), target_coarse)
        drawn.append((abs(ratio - 1), placed, order))
        if abs(ratio - 1) <= _COARSE_TOLERANCE:
            ratio = _ratio(hidden(placed, order, size), target)
            if abs(ratio - 1) <= TOLERANCE / 2:
                result(placed, order, ratio, 1.0)
                return placements[-1]
    for _, placed, order in sorted(drawn, key=lambda d: d[0])[:_MEASURED]:
        scaled_result(placed, order)
    return min(placements, key=lambda f: (len(f.unmoved), abs(f.area_ratio - 1)))


def hidden_pixels(
    tracks: Sequence[Track],
    level: Sequence[float] | NDArray[Any],
    frame_level: Sequence[float] | NDArray[Any],
    groups: Sequence[Sequence[int]],
    size: tuple[int, int],
    options: MaskOptions,
) -> float:
    """Σ M over frames and pixels of (H, W) `size`; arguments as in `place_at_random`."""
    masks = draw_masks(tracks, _frames(groups), size, options)
    return _hidden(masks, tracks, level, frame_level, groups, options)


def _frames(groups: Sequence[Sequence[int]]) -> int:
    return 1 + max((f for g in groups for f in g), default=-1)


def _hidden(
    masks: MaskSet,
    tracks: Sequence[Track],
    level: Sequence[float] | NDArray[Any],
    frame_level: Sequence[float] | NDArray[Any],
    groups: Sequence[Sequence[int]],
    options: MaskOptions,
) -> float:
    confidence = [t.confidence for t in tracks]
    union = combine_masks(masks, level, frame_level, groups, confidence, options)
    return float(union.sum(dtype=np.float64))


class _Stamps:
    """Masks that are drawn once and moved by whole pixels, for shapes that take long to draw.

    needed: whether any mask is more than a box.
    """

    def __init__(
        self, tracks: Sequence[Track], frames: int, size: tuple[int, int], options: MaskOptions
    ) -> None:
        outlined = options.shape == "outline"
        self.needed = any(t.brush or (outlined and t.outlines) for t in tracks)
        self._options = options
        if self.needed:
            middle = [_placed(t, np.full((len(t.boxes), 2), 0.5), 1.0) for t in tracks]
            alone = replace(options, overlap="raw", swept=False, frame_mask="off")
            self._drawn = draw_masks(middle, frames, size, alone).objects

    def at(self, placed: Sequence[Track]) -> MaskSet:
        """About the masks of the tracks at other places."""
        raw = np.zeros_like(self._drawn)
        height, width = raw.shape[2:]
        for k, track in enumerate(placed):
            shifts = (_centres(track.boxes)[0] - 0.5) * (width, height)
            for i in np.flatnonzero(np.isfinite(shifts[: len(raw[k]), 0])):
                dx, dy = np.rint(shifts[i]).astype(int)
                to, source = _overlap(dy, height), _overlap(-dy, height)
                raw[k, i, to, _overlap(dx, width)] = self._drawn[k, i, source, _overlap(-dx, width)]
        return finish_masks(raw, placed, self._options)


def _overlap(shift: int, pixels: int) -> slice:
    """Where what is moved by `shift` still lies inside."""
    return slice(max(0, shift), max(0, min(pixels, pixels + shift)))


def is_moved(before: Track, after: Track) -> bool:
    """Whether the centre is half the former width or height away in every frame with a box."""
    visible = np.isfinite(before.boxes[:, 0])
    centre, extent = _centres(before.boxes[visible])
    moved, _ = _centres(after.boxes[visible])
    return bool(_is_far(centre, extent, moved).all())


def placement_warnings(placement: Mapping[str, Any]) -> list[str]:
    """What a reader of a placed control must know, from `as_dict`; nothing where all is well.

    A control that places nothing, as one of other objects, states its area and promises none.
    """
    warnings: list[str] = []
    if "scale" not in placement:
        return warnings
    name = placement.get("control", "random-mask")
    if abs(placement["area_ratio"] - 1) > TOLERANCE:
        warnings.append(
            f"{name} hides {100 * placement['area_ratio']:.1f} % of the pixels that"
            " MACD's masks hide: no placement of the same area was found"
        )
    if placement["unmoved"]:
        ids = ", ".join(map(str, placement["unmoved"]))
        warnings.append(f"{name} could not move these objects by half their size: {ids}")
    return warnings


def _ratio(area: float, target: float) -> float:
    return 1.0 if area == target else area / max(target, 1e-9)


def _centres(boxes: NDArray[Any]) -> tuple[Float64Array, Float64Array]:
    """Centres and extents of boxes (…, 4), both (…, 2)."""
    box = boxes.astype(np.float64)
    return (box[..., :2] + box[..., 2:]) / 2, box[..., 2:] - box[..., :2]


def _is_far(centre: Float64Array, extent: Float64Array, moved: Float64Array) -> NDArray[np.bool_]:
    """(…, T): half a width or half a height away; rounding of float32 boxes is allowed for."""
    return np.asarray((np.abs(moved - centre) >= extent / 2 - 1e-6).any(-1))


def _paths(boxes: NDArray[Any], rng: np.random.Generator, anywhere: bool) -> Float64Array:
    """Paths (N, T, 2) of a track's centre; without `anywhere` far enough from it in every frame.

    Where none is far enough: the path among all drawn, edges and corners included, that is farthest
    from it in its worst frame.
    """
    visible = np.isfinite(boxes[:, 0])
    path = np.full((_PATHS, len(boxes), 2), np.nan)
    if not visible.any():
        return path[:1]
    centre, extent = _centres(boxes[visible])
    low = np.minimum(extent / 2, 0.5)
    high = 1 - low
    offset = rng.uniform(-1, 1, (_PATHS, 1, 2))
    if anywhere:  # one whole period of the reflection: wherever it was, every place is as likely
        offset = offset * (high - low).mean(0)
    mirrored = rng.random((_PATHS, 1, 2)) < 0.5
    drawn = _reflect(np.where(mirrored, low + high - centre, centre) + offset, low, high)
    far = _is_far(centre, extent, drawn).all(-1) | anywhere
    if not far.any():
        along_edge = rng.integers(-1, 2, (_PATHS, 1, 2))  # 0: as drawn
        drawn = np.where(along_edge < 0, low, np.where(along_edge > 0, high, drawn))
        far = _is_far(centre, extent, drawn).all(-1)
    if not far.any():
        moved = (np.abs(drawn - centre) / np.maximum(extent, 1e-9)).max(-1).min(-1)
        far = moved >= moved.max()
    path[:, visible] = drawn
    return path[far]


def _reflect(x: Float64Array, low: Float64Array, high: Float64Array) -> Float64Array:
    """Folds x into [low, high] as if the ends were mirrors."""
    span = np.maximum(high - low, 1e-9)
    folded = np.mod(x - low, 2 * span)
    return np.asarray(low + np.minimum(folded, 2 * span - folded))


def _with_path(track: Track, paths: Float64Array, rng: np.random.Generator) -> Track:
    return _placed(track, paths[rng.integers(len(paths))], 1.0)


def _scaled(tracks: Sequence[Track], scale: float) -> tuple[Track, ...]:
    """All boxes scaled around their centres, moved inside where they would leave the frame."""
    return tuple(_placed(t, _centres(t.boxes)[0], scale) for t in tracks)


def _placed(track: Track, centre: Float64Array, scale: float) -> Track:
    _, extent = _centres(track.boxes)
    half = np.minimum(extent * scale, 1) / 2
    at = np.clip(centre, half, 1 - half)
    boxes = np.concatenate([at - half, at + half], -1).astype(np.float32).clip(0, 1)
    return replace(track, boxes=boxes)


def _matching_scale(
    ratio_at: Callable[[float], float], scales: tuple[float, float]
) -> tuple[float, float]:
    """The scale within `scales` at which the ratio is 1, and the ratio there; else the nearest.

    The ratio is continuous in the scale, so a sign change encloses a root: false position, and
    bisection where that hardly moves.
    """
    measured = {1.0: ratio_at(1.0)}
    if abs(measured[1.0] - 1) <= TOLERANCE / 10:
        return 1.0, measured[1.0]
    other = scales[0] if measured[1.0] > 1 else scales[1]
    measured[other] = ratio_at(other)
    low, high = sorted(measured)
    if (measured[low] - 1) * (measured[high] - 1) <= 0:
        for step in range(_STEPS):
            below, above = measured[low] - 1, measured[high] - 1
            if min(abs(below), abs(above)) <= TOLERANCE / 10:
                break
            at = 0.5 if step % 3 == 2 else below / (below - above)
            middle = low + (high - low) * min(max(at, 0.05), 0.95)
            measured[middle] = ratio_at(middle)
            if (measured[middle] - 1) * below > 0:
                low = middle
            else:
                high = middle
    best = min(measured, key=lambda s: abs(measured[s] - 1))
    return best, measured[best]
