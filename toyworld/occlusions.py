"""Covers parts of training clips, and says what can still be seen behind the patches.

A counterfactual view covers objects. If a covered object stayed in the truth, a patch would itself
be evidence that something is there. So what is in a clip is what shows: an object of which never
more than a third is to be seen counts as absent, and one that shows for a part of the clip counts
as present. Patches lie as often where nothing is: over the paths of a decoy clip, whose objects
are drawn by the same habits and are not in the picture. Every fill of a counterfactual occurs.
Only training uses this module; clips of examples and evaluations are never covered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, assert_never

import cv2
import numpy as np
from numpy.typing import NDArray

from macd_studio.toyworld.world import ClipSpec, ObjectSpec, soft_boxes

Fill = Literal["colour", "grey", "mean", "black", "noise", "blur", "plate"]
FILLS: dict[Fill, float] = {
    "colour": 0.14, "grey": 0.1, "mean": 0.18, "black": 0.12, "noise": 0.18, "blur": 0.18,
    "plate": 0.1,
}  # fmt: skip
"""What a patch is made of, and how often: "mean" is the clip's mean colour, "plate" the scene that
lies behind the objects."""
SHOWS = 0.35
"""Share of an object above which it can be seen; a mask of 0.75 leaves 0.25."""
P_OBJECT = 0.5  # share of the objects, and of the decoy's, that a covered clip hides
P_ONE_FILL = 0.7  # share of covered clips whose patches are alike, as those of a counterfactual
P_SWEPT = 0.25
P_FRAME = 0.3

Frames = NDArray[np.float32]


@dataclass(frozen=True)
class Patch:
    """One covered region, for a part of the clip.

    path: the object whose box is covered, in the picture or a decoy; None covers the whole frame.
    around: covers everything but the boxes of the clip's and the decoy's objects instead.
    swept: covers the whole path at once. strength: opacity in [0, 1]. seed: of colour and noise.
    """

    path: ObjectSpec | None
    fill: Fill
    strength: float
    start: float = 0.0
    end: float = 1.0
    swept: bool = False
    around: tuple[ObjectSpec, ...] = ()
    seed: int = 0


def sample_patches(
    spec: ClipSpec, decoy: ClipSpec, share: float, rng: np.random.Generator
) -> tuple[Patch, ...]:
    """Draws what is covered: nothing in 1 - share of the clips, else objects of both clips."""
    if rng.random() >= share:
        return ()
    patches = []
    for o in (*spec.objects, *decoy.objects):
        if rng.random() < P_OBJECT:
            part = [(0.0, 1.0), (0.0, 0.5), (0.5, 1.0)][rng.choice(3, p=[0.7, 0.15, 0.15])]
            strength = float(rng.choice([0.5, 0.75, 1.0], p=[0.15, 0.35, 0.5]))
            swept = bool(rng.random() < P_SWEPT)
            patches.append(Patch(o, _fill(rng), strength, *part, swept, seed=_seed(rng)))
    if rng.random() < P_FRAME:  # as a frame mask covers a quarter of the clip
        quarter = float(rng.integers(4) / 4)
        around = (*spec.objects, *decoy.objects) if rng.random() < 0.5 else ()
        strength = float(rng.choice([0.75, 1.0]))
        patches.append(
            Patch(
                None, _fill(rng), strength, quarter, quarter + 0.25, around=around, seed=_seed(rng)
            )
        )
    if patches and rng.random() < P_ONE_FILL:
        first = patches[0]
        patches = [replace(p, fill=first.fill, seed=first.seed) for p in patches]
    return tuple(patches)


def _fill(rng: np.random.Generator) -> Fill:
    return list(FILLS)[rng.choice(len(FILLS), p=list(FILLS.values()))]


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def cover(
    frames: Frames, patches: tuple[Patch, ...], times: NDArray[np.float64], plate: Frames
) -> Frames:
    """The clip (T, S, S, 3) in [0, 1] behind its patches; the given frames are not changed.

    plate: the same clip without its objects.
    """
    covered = frames
    for patch in patches:
        mask = _mask(patch, times, frames.shape[1])[..., None]
        covered = covered + mask * (_filling(patch, frames, plate) - covered)
    return covered


def shares_shown(
    spec: ClipSpec, patches: tuple[Patch, ...], times: NDArray[np.float64], size: int = 96
) -> NDArray[np.float64]:
    """(K, T) share of each object that shows behind the patches; 0 before it appears."""
    left = np.ones((len(times), size, size), np.float32)
    for patch in patches:
        left = left * (1 - _mask(patch, times, size))
    shares = np.zeros((len(spec.objects), len(times)))
    for k, o in enumerate(spec.objects):
        for t, box in enumerate(o.boxes(times)):
            if not np.isnan(box).any():
                x0, y0 = np.floor(box[:2] * size).astype(int)
                x1, y1 = np.maximum(np.ceil(box[2:] * size).astype(int), [x0 + 1, y0 + 1])
                shares[k, t] = left[t, y0:y1, x0:x1].mean()
    return shares


def what_shows(spec: ClipSpec, shares: NDArray[np.float64], times: NDArray[np.float64]) -> ClipSpec:
    """The truth behind patches: without objects that never show, and from when each one does.

    shares: (K, T), see `shares_shown`.
    """
    shows = shares > SHOWS
    objects = []
    for o, seen in zip(spec.objects, shows, strict=True):
        if seen.any():
            first = int(seen.argmax())
            late = first > int(o.seen(times).argmax())
            objects.append(replace(o, appears=float(times[first])) if late else o)
    return replace(spec, objects=tuple(objects))


def _mask(patch: Patch, times: NDArray[np.float64], size: int) -> Frames:
    """(T, S, S) opacity."""
    if patch.path is not None:
        mask = _box(patch.path, times, size)
        if patch.swept:
            mask = np.broadcast_to(mask.max(0), mask.shape)
    else:
        mask = np.ones((len(times), size, size), np.float32)
        for o in patch.around:
            mask = mask * (1 - _box(o, times, size))
    during = (times >= patch.start) & (times < patch.end)
    return (patch.strength * mask * during[:, None, None]).astype(np.float32)


def _box(o: ObjectSpec, times: NDArray[np.float64], size: int) -> Frames:
    """(T, S, S) soft box of the object, 0 before it appears."""
    return soft_boxes(np.nan_to_num(o.boxes(times), nan=-1.0) * size, size)


def _filling(patch: Patch, frames: Frames, plate: Frames) -> Frames:
    """(T, S, S, 3), or a colour that broadcasts to it."""
    rng = np.random.default_rng(patch.seed)
    size = frames.shape[1]
    match patch.fill:
        case "colour":
            return rng.random(3, np.float32)
        case "grey":
            return np.full(3, 0.5, np.float32)
        case "mean":
            return frames.mean((0, 1, 2))
        case "plate":
            return plate
        case "black":
            return np.zeros(3, np.float32)
        case "noise":
            grain = int(rng.choice([1, 1, 2, 4, 8]))
            cells = rng.random((len(frames), -(-size // grain), -(-size // grain), 3), np.float32)
            return cells.repeat(grain, 1).repeat(grain, 2)[:, :size, :size]
        case "blur":
            sigma = size * rng.uniform(0.05, 0.15)
            return np.stack([cv2.GaussianBlur(f, (0, 0), sigma) for f in frames])
        case _:
            assert_never(patch.fill)
