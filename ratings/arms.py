"""The arms of a study: what each hides of a clip, as one mask over all pixels.

An arm is a function `mask(source, rng) -> ArmMask`; its name stands in ARMS. NumPy only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.macd import frame_levels, quantize_strengths
from macd_studio.core.masking.controls import (
    CONTROLS,
    MAX_OVERLAP,
    OBJECTS,
    PLACE,
    Hidden,
    compare_masks,
    draw_control,
)
from macd_studio.core.masking.masks import combine_masks, draw_masks
from macd_studio.core.options import MaskOptions
from macd_studio.core.types import Floats, Track
from macd_studio.ratings.source import Source

TOLERANCE = 0.01
"""How far the hidden area of a random mask may be from MACD's, as a share of it."""
DRAWS = 25
"""Random masks drawn before an item is left out."""
PLACED_SIDE = 128
"""Long side at which places are drawn, pixels; what is drawn is measured at display size."""
LEAST, MOST = 0.001, 0.95
"""Shares of all pixels: below nothing is masked, above everything is."""


@dataclass(frozen=True, eq=False)
class ArmMask:
    """M (T, H, W) in [0, 1] at display size; details: plain values for the preregistration."""

    mask: Floats
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def hidden(self) -> float:
        """Pixels hidden, Σ M over frames, after clipping and overlap."""
        return float(self.mask.sum(dtype=np.float64))


NOWHERE = "no place beside MACD's mask"
"""Why an item has no `random-elsewhere`."""


class NoMask(Exception):
    """The arm cannot be drawn for this clip; the text says why."""


Arm = Callable[[Source, np.random.Generator], ArmMask]


def draw(
    source: Source,
    tracks: Sequence[Track],
    level: NDArray[np.float64],
    frame_level: NDArray[np.float64],
    options: MaskOptions | None = None,
) -> Floats:
    """M (T, H, W) of tracks at levels, at the size and on the frames that raters see."""
    options = options or source.mask
    masks = draw_masks(tracks, source.trace_frames, source.size, options)
    confidence = [t.confidence for t in tracks]
    union = combine_masks(masks, level, frame_level, source.groups, confidence, options)
    return np.asarray(union[list(source.kept)], np.float32)


def macd(source: Source, rng: np.random.Generator) -> ArmMask:
    """MACD's mask, as the trace holds it."""
    final = source.counterfactual
    assert final is not None
    return ArmMask(draw(source, source.tracks, final.level, final.frame_level))


def control(name: str) -> Arm:
    """The arm of a control by its name, of `core.masking.controls.CONTROLS`.

    Drawn at PLACED_SIDE and measured on the pixels that raters see: area_ratio and overlap are in
    the details. Of `random-place` and `random-elsewhere` the area must agree within TOLERANCE, of
    the latter the overlap with MACD's mask must be within its bound; NoMask where DRAWS draws fail.
    """

    def arm(source: Source, rng: np.random.Generator) -> ArmMask:
        final = source.counterfactual
        assert final is not None
        own = macd(source, rng).mask
        shrink = min(1.0, PLACED_SIDE / max(source.size))
        height, width = (max(1, round(shrink * z)) for z in source.size)
        groups = tuple(tuple(g) for g in source.groups)
        hidden = Hidden(
            tuple(source.tracks), final.level, final.frame_level, groups, (height, width),
            source.mask,
        )  # fmt: skip
        reason = "area not matched"
        for _ in range(DRAWS):
            seed = int(rng.integers(2**32))
            drawn = draw_control(name, hidden, seed)
            if drawn is None:
                raise NoMask(NOWHERE)
            mask = draw(source, drawn.tracks, drawn.level, drawn.frame_level)
            ratio, overlap = compare_masks(own, mask)
            details = {"seed": seed, "scale": round(drawn.scale, 5)}
            details |= {"area_ratio": round(ratio, 5), "overlap": round(overlap, 5)}
            if name == OBJECTS:
                return ArmMask(mask, details)
            if abs(ratio - 1) <= TOLERANCE:
                if name == PLACE or overlap <= MAX_OVERLAP:
                    return ArmMask(mask, details)
                reason = NOWHERE
        raise NoMask(reason)

    return arm


def mask_all(source: Source, rng: np.random.Generator) -> ArmMask:
    """Every object hidden, whatever the model's loss says; no frame mask."""
    options = replace(source.mask, frame_mask="off")
    return ArmMask(draw(source, source.tracks, np.ones(len(source.tracks)), np.zeros(0), options))


def reversed_signs(source: Source, rng: np.random.Generator) -> ArmMask:
    """MACD with the sign of its last gradient reversed."""
    if not source.steps:
        raise NoMask("the trace has no ascent step to reverse")
    last, ascent = source.steps[-1], source.ascent
    strength = (last.strength - ascent.eta * last.gradient).clip(0, 1)
    frames = (last.frame_strength - ascent.eta * last.frame_gradient).clip(0, 1)
    level, frame_level = quantize_strengths(strength, ascent), frame_levels(frames, ascent)
    return ArmMask(draw(source, source.tracks, level, frame_level))


def by_hand(drawn: Source) -> Arm:
    """The mask of another trace of the same clip and question, which was changed by hand."""

    def arm(source: Source, rng: np.random.Generator) -> ArmMask:
        return macd(drawn, rng)

    return arm


def hide_tracks(source: Source, ids: Sequence[int]) -> ArmMask:
    """A mask that hides the named tracks and nothing else: for training and gold items.

    Each wholly, also where another object lies before or behind it.
    """
    tracks = [t for t in source.tracks if t.id in ids]
    options = replace(source.mask, frame_mask="off", overlap="raw", fusion="max")
    return ArmMask(draw(source, tracks, np.ones(len(tracks)), np.zeros(0), options))


MACD, BY_HAND = "macd", "by-hand"
ARMS: dict[str, Arm] = {
    MACD: macd,
    **{name: control(name) for name in CONTROLS},
    "mask-all": mask_all,
    "reversed": reversed_signs,
}


def coverage(source: Source, mask: Floats) -> dict[int, float]:
    """How much of each track's own region a mask hides, [0, 1], by the track's id.

    Tracks that are never seen on the shown frames are left out.
    """
    options = replace(source.mask, frame_mask="off", overlap="raw")
    objects = draw_masks(source.tracks, source.trace_frames, source.size, options).objects
    shares = {}
    for track, own in zip(source.tracks, objects, strict=True):
        region = own[list(source.kept)]
        total = float(region.sum(dtype=np.float64))
        if total > 0:
            shares[track.id] = float((region * mask).sum(dtype=np.float64)) / total
    return shares
