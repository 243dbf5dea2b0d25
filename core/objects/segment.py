"""Points on an object → its mask through the clip, as a track.

A segmenter sees the object under the points on one frame and follows it to the others: one of
transformers' trackers (`core.objects.segment_hf`), or `ColourRegion` here, which needs no weights.
Nothing is followed across a hard cut.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import OptionError
from macd_studio.core.objects.detect import simplified
from macd_studio.core.objects.outlines import Mask
from macd_studio.core.objects.registry import DETECTORS, check_segmenter
from macd_studio.core.types import LOST, SEEN, Floats, Outline, Pixels, Progress, Track

Point = tuple[float, float]
"""x y in shares of the frame."""


@dataclass(frozen=True, eq=False)
class Sighting:
    """The object on one frame. mask: (H, W), all False where it is not seen. score: in [0, 1]."""

    frame: int
    mask: Mask
    score: float


class Segmenter(Protocol):
    """What sees an object under points and follows it."""

    name: str

    def segment(self, frames: Pixels, at: int, points: Sequence[Point]) -> Iterator[Sighting]:
        """A sighting a frame: first of frame `at`, where the points are, then of the others.

        frames: (T, H, W, 3) RGB 0-255. The others come in any order; those of frames on which
        nothing can be seen any more may be missing. Raises DetectorError if a frame fails.
        """
        ...


def _nothing() -> OptionError:
    return OptionError(
        "no object stands out at this point", "Click inside of an object, or draw a box around it"
    )


def follow(
    segmenter: Segmenter,
    frames: Pixels,
    times: NDArray[np.float64],
    at: int,
    points: Sequence[Point],
    cuts: Sequence[float] = (),
) -> Generator[tuple[int, int], None, Track]:
    """The track of the object under `points` of frame `at`, without a name.

    frames: (T, H, W, 3) at `times`, seconds. cuts: times of hard cuts. Yields how many frames of
    how many were looked at. Raises OptionError where there is no object at the points.
    """
    shots = np.searchsorted(cuts, times)
    (shot,) = np.nonzero(shots == shots[at])
    boxes = np.full((len(frames), 4), np.nan, np.float32)
    outlines: list[Outline | None] = [None] * len(frames)
    scores: list[float] = []
    done = 0
    for seen in segmenter.segment(frames[shot[0] : shot[-1] + 1], at - int(shot[0]), points):
        done += 1
        found = _boxed(seen.mask)
        if found is None and done == 1:
            raise _nothing()
        if found is not None:
            place = int(shot[0]) + seen.frame
            boxes[place], outlines[place] = found
            scores.append(float(seen.score))
        yield done, len(shot)
    if not scores:
        raise _nothing()
    state = np.where(np.isfinite(boxes[:, 0]), SEEN, LOST).astype(np.int8)
    confidence = float(np.clip(np.mean(scores), 0, 1))
    return Track(0, "object", confidence, boxes, state, len(scores), outlines=tuple(outlines))


def _boxed(mask: Mask) -> tuple[Floats, Outline | None] | None:
    """A mask's box in shares of the frame and its outline in shares of the box; None: empty."""
    if not mask.any():
        return None
    height, width = mask.shape
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    box = np.array(
        (columns[0] / width, rows[0] / height, (columns[-1] + 1) / width, (rows[-1] + 1) / height),
        np.float32,
    )
    rings, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    scale = np.array((width, height), np.float32)
    outline = simplified([((r[:, 0] + 0.5) / scale).astype(np.float32) for r in rings])
    if outline is None:
        return box, None
    sides = np.maximum(box[2:] - box[:2], 1e-4)
    return box, tuple(((r - box[:2]) / sides).round(4).astype(np.float32) for r in outline)


def load_segmenter(
    name: str, device: str = "cpu", progress: Progress | None = None, frames: int = 0
) -> Segmenter:
    """A segmenter by its name in `registry.DETECTORS`, or by the folder or hub id of a tracker.

    progress: updated while it is downloaded. frames: that it will follow an object through, whose
    memory is planned before anything is loaded. Raises DetectorError where the weights are missing
    or unusable, or memory does not suffice.
    """
    check_segmenter(name)
    entry = DETECTORS.get(name)
    module, function = (entry.make if entry else "segment_hf:load_tracker").split(":")
    make = getattr(import_module(f"macd_studio.core.objects.{module}"), function)
    made: Segmenter = make(name, device, progress, frames)
    return made


LONG_SIDE = 320
"""Frames are looked at in this size."""
TOLERANCES = range(4, 44, 3)
"""By how much of the lightness a region's colours may differ from those at the point; of the other
two channels of Lab half as much. The one whose edge stands out best is taken."""
LARGEST = 0.3
"""Share of the frame from which on a region is the background."""
SAME = 0.5
"""How alike colours and size must be to those before, for the object to be the same."""
FEWEST = 8
"""Pixels of the smallest region."""
FAR = 40.0
"""What looks alike must look more alike by this grey value to be taken a frame's side away."""


class ColourRegion:
    """The region of one colour around the points, followed by how it moves and what it looks like.

    On the frame of the points the region grows from them as far as its edge stands out best, and
    GrabCut moves the edge to where the colours of both sides part. On the next frame it is looked
    for where optical flow leads and where its pixels are found again, and cut out again. It is lost
    where nothing alike is there. An object of several colours is found in part.
    """

    def __init__(self, name: str = "grabcut", *_: Any) -> None:
        self.name = name

    def segment(self, frames: Pixels, at: int, points: Sequence[Point]) -> Iterator[Sighting]:
        """See `Segmenter.segment`."""
        small = [_smaller(f) for f in frames]
        size = frames.shape[1:3]
        first = _region(small[at], points)
        yield Sighting(at, _larger(first, size), 1.0)
        if not first.any():
            return
        for order in (range(at + 1, len(frames)), range(at - 1, -1, -1)):
            region = _Followed(small[at], first)
            for i in order:
                mask, score = region.find(small[i])
                yield Sighting(i, _larger(mask, size), score)


def _smaller(frame: Pixels) -> Pixels:
    height, width = frame.shape[:2]
    scale = min(1.0, LONG_SIDE / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    resized = cv2.resize(np.ascontiguousarray(frame), size, interpolation=cv2.INTER_AREA)
    return np.asarray(resized, np.uint8)


def _larger(mask: Mask, size: tuple[int, int]) -> Mask:
    whole = cv2.resize(mask.astype(np.float32), size[::-1], interpolation=cv2.INTER_LINEAR)
    return np.asarray(whole > 0.5)


def _lab(picture: Pixels) -> Pixels:
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2LAB), np.uint8)


def _disc(radius: int) -> NDArray[np.uint8]:
    side = 2 * radius + 1
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side)), np.uint8)


def _region(picture: Pixels, points: Sequence[Point]) -> Mask:
    """The region around the points whose edge stands out best; empty where none does."""
    height, width = picture.shape[:2]
    places = [(min(width - 1, int(x * width)), min(height - 1, int(y * height))) for x, y in points]
    seeds = np.zeros((height, width), np.uint8)
    for place in places:
        cv2.circle(seeds, place, max(2, round(0.015 * min(height, width))), 1, -1)
    seed = seeds.astype(bool)
    colours = _lab(np.asarray(cv2.bilateralFilter(picture, 7, 30, 5), np.uint8))
    steps = _steps(colours)
    best, prior = 0.0, np.zeros((height, width), bool)
    for tolerance in TOLERANCES:
        mask = _grown(colours, seed, places, tolerance)
        if mask.mean() > LARGEST:
            break
        if mask.sum() < 3 * seed.sum():
            continue
        edge = mask & ~cv2.erode(mask.astype(np.uint8), _disc(1), borderValue=1).astype(bool)
        if not edge.any():
            continue
        area, length = float(mask.sum()), float(edge.sum())
        score = float(np.percentile(steps[edge], 25)) * area**0.1 * (area**0.5 / length) ** 0.5
        if score > best:
            best, prior = score, mask
    if not prior.any():
        return prior
    return _cut(picture, prior)


def _steps(colours: Pixels) -> Floats:
    """How much the colour changes around each pixel, at most 30."""
    values = colours.astype(np.float32)
    across, down = (cv2.Sobel(values, cv2.CV_32F, *d) / 8 for d in ((1, 0), (0, 1)))
    change = np.sqrt((across**2 + down**2).sum(axis=2))
    return np.asarray(np.minimum(cv2.dilate(change, np.ones((3, 3))), 30), np.float32)


def _grown(colours: Pixels, seed: Mask, places: Sequence[tuple[int, int]], tolerance: int) -> Mask:
    """What is connected to the places by colours like those of the seed, without holes."""
    height, width = seed.shape
    from_seed = colours.copy()
    apart = (tolerance, tolerance / 2, tolerance / 2)
    how = 8 | cv2.FLOODFILL_FIXED_RANGE | cv2.FLOODFILL_MASK_ONLY | (1 << 8)
    mask = seed.copy()
    for x, y in places:
        from_seed[y, x] = np.median(colours[seed], axis=0)
        reached = np.zeros((height + 2, width + 2), np.uint8)
        cv2.floodFill(from_seed, reached, (x, y), 0, apart, apart, how)
        mask |= reached[1:-1, 1:-1] > 0
    opened = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_OPEN, _disc(1)) > 0
    rings, _ = cv2.findContours(
        _parts(opened | seed, seed).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE
    )
    whole = np.zeros((height, width), np.uint8)
    cv2.drawContours(whole, rings, -1, 1, -1)
    return np.asarray(whole > 0)


def _parts(mask: Mask, touched: Mask) -> Mask:
    """The connected parts of a mask that hold a touched pixel."""
    _, named_parts = cv2.connectedComponents(mask.astype(np.uint8))
    kept = np.unique(named_parts[touched & mask])
    return np.isin(named_parts, kept[kept > 0])


def _cut(picture: Pixels, prior: Mask) -> Mask:
    """The prior with its edge where the colours of both sides part, by GrabCut; may be empty."""
    reach = max(2, round(0.25 * float(prior.sum()) ** 0.5))
    marks = prior.astype(np.uint8)
    near = cv2.dilate(marks, _disc(reach)).astype(bool)
    core = cv2.erode(marks, _disc(max(1, reach // 2))).astype(bool)
    around = cv2.dilate(marks, _disc(3 * reach)).astype(bool)
    states = np.full(prior.shape, cv2.GC_BGD, np.uint8)
    states[near], states[prior], states[core] = cv2.GC_PR_BGD, cv2.GC_PR_FGD, cv2.GC_FGD
    rows, columns = np.flatnonzero(around.any(axis=1)), np.flatnonzero(around.any(axis=0))
    place = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    part = np.ascontiguousarray(states[place])
    if (part == cv2.GC_BGD).any():
        cv2.setRNGSeed(0)  # it starts from random clusters
        inside, outside = np.zeros((1, 65)), np.zeros((1, 65))
        window = np.ascontiguousarray(picture[place])
        no_box = (0, 0, 1, 1)
        cv2.grabCut(window, part, no_box, outside, inside, 2, cv2.GC_INIT_WITH_MASK)
    mask = np.zeros(prior.shape, bool)
    mask[place] = (part == cv2.GC_FGD) | (part == cv2.GC_PR_FGD)
    return _parts(mask, core if core.any() else prior)


class _Followed:
    """The region as it was last seen, and the colours it began with."""

    def __init__(self, picture: Pixels, mask: Mask) -> None:
        self.picture, self.mask = picture, mask
        self.colours = _histogram(picture, mask)

    def find(self, picture: Pixels) -> tuple[Mask, float]:
        """The region on another picture and how alike it is, [0, 1]; empty where it is lost."""
        best = np.zeros(self.mask.shape, bool), 0.0
        for prior in (self._moved(picture), self._matched(picture)):
            if prior.sum() < FEWEST:
                continue
            mask = _cut(picture, prior)
            if mask.sum() >= FEWEST and (score := self._alike(picture, mask)) > best[1]:
                best = mask, score
        if best[1] < SAME:
            return np.zeros(self.mask.shape, bool), 0.0
        self.picture, self.mask = picture, best[0]
        return best

    def _moved(self, picture: Pixels) -> Mask:
        """Where optical flow leads the region."""
        flow = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
        now, before = (cv2.cvtColor(p, cv2.COLOR_RGB2GRAY) for p in (picture, self.picture))
        if min(now.shape) < 16:  # too small for its pyramid
            return self.mask
        back = flow.calc(now, before, np.zeros((*now.shape, 2), np.float32))
        y, x = np.mgrid[: now.shape[0], : now.shape[1]].astype(np.float32)
        mask = self.mask.astype(np.float32)
        return np.asarray(
            cv2.remap(mask, x + back[..., 0], y + back[..., 1], cv2.INTER_LINEAR) > 0.5
        )

    def _matched(self, picture: Pixels) -> Mask:
        """Where its pixels are found again; the further away, the more alike they must be."""
        rows, columns = np.flatnonzero(self.mask.any(1)), np.flatnonzero(self.mask.any(0))
        place = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
        mask: Mask = self.mask[place]
        moved: Mask = np.zeros(self.mask.shape, bool)
        if mask.shape[0] >= moved.shape[0] or mask.shape[1] >= moved.shape[1]:
            return moved
        weights = np.repeat(mask[..., None], 3, axis=2).astype(np.float32)
        patch = self.picture[place].astype(np.float32)
        found = cv2.matchTemplate(picture.astype(np.float32), patch, cv2.TM_SQDIFF, mask=weights)
        apart: Floats = np.asarray(found, np.float32)
        y, x = np.mgrid[: apart.shape[0], : apart.shape[1]]
        away = np.hypot(y - rows[0], x - columns[0]) / max(moved.shape)
        cost = apart / (3 * float(mask.sum())) + (FAR * away) ** 2
        top, left = np.unravel_index(int(np.nan_to_num(cost, nan=np.inf).argmin()), cost.shape)
        moved[top : top + mask.shape[0], left : left + mask.shape[1]] = mask
        return moved

    def _alike(self, picture: Pixels, mask: Mask) -> float:
        """Shared colours with the first region, less where the size has changed by over a half."""
        shared = float(np.minimum(_histogram(picture, mask), self.colours).sum())
        small, large = sorted((float(mask.sum()), float(self.mask.sum())))
        return shared * min(1.0, small / large / 0.5)


def _histogram(picture: Pixels, mask: Mask) -> Floats:
    """Of the colours under a mask, (8, 24, 24) over Lab; sums to 1."""
    colours = _lab(picture)[mask].astype(np.float64)
    counts, _ = np.histogramdd(colours, (8, 24, 24), ((0, 256),) * 3)
    padded = np.pad(counts, ((1, 1), (0, 0), (0, 0)), mode="edge")
    smooth = padded[:-2] + 2 * padded[1:-1] + padded[2:]
    return np.asarray(smooth / max(float(smooth.sum()), 1.0), np.float32)
