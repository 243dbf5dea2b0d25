"""Covers parts of training clips, so that a covered part means only that it was not seen.

A counterfactual view covers objects. If training clips were covered only where objects are, or
only in one colour, a patch would itself be evidence that something is there. So patches lie as
often where nothing is: over the paths of a decoy clip, whose objects are drawn by the same
habits and are not in the picture. Colour, noise and blur vary. Only training uses this module;
clips of examples and evaluations are never covered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, assert_never

import cv2
import numpy as np
from numpy.typing import NDArray

from macd_studio.toyworld.world import ClipSpec, ObjectSpec, soft_boxes

Fill = Literal["colour", "grey", "black", "noise", "blur"]
FILLS: dict[Fill, float] = {"colour": 0.3, "grey": 0.15, "black": 0.1, "noise": 0.2, "blur": 0.25}
"""What a patch is made of, and how often."""
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


def cover(frames: Frames, patches: tuple[Patch, ...], times: NDArray[np.float64]) -> Frames:
    """The clip (T, S, S, 3) in [0, 1] behind its patches; the given frames are not changed."""
    covered = frames
    for patch in patches:
        mask = _mask(patch, times, frames.shape[1])[..., None]
        covered = covered + mask * (_filling(patch, frames) - covered)
    return covered


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


def _filling(patch: Patch, frames: Frames) -> Frames:
    """(T, S, S, 3), or a colour that broadcasts to it."""
    rng = np.random.default_rng(patch.seed)
    size = frames.shape[1]
    match patch.fill:
        case "colour":
            return rng.random(3, np.float32)
        case "grey":
            return np.full(3, 0.5, np.float32)
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
