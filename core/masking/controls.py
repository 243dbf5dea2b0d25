"""The three controls that MACD's masks are compared with, each for a question of its own.

Wherever the project draws a control, it is one of these: Compare, the page, evaluations, ratings.
NumPy only, so that a rating study can use it without torch.

`random-place`: shapes of the same hidden area, drawn without regard to MACD's mask, on which they
may fall. What a mask does that knows nothing: the null of tests and of the headline.
`random-objects`: MACD's levels on the same objects in another order, the frame levels over the
groups; every order is as likely, MACD's own included. The null of *which objects*.
`random-elsewhere`: other places and frames that hide at most `MAX_OVERLAP` of what MACD hides. It
is chosen by MACD's mask, so it is no null: for ratings and for teaching.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.masking.masks import combine_masks, draw_masks
from macd_studio.core.masking.random_masks import TOLERANCE, place_at_random
from macd_studio.core.options import MaskOptions
from macd_studio.core.types import Track

PLACE, OBJECTS, ELSEWHERE = "random-place", "random-objects", "random-elsewhere"
CONTROLS = {
    PLACE: "shapes of the same area at random places and frames",
    OBJECTS: "the same levels on other objects and frames, in random order",
    ELSEWHERE: "other places and frames, beside what MACD hides",
}
"""Name → what is hidden."""

MAX_OVERLAP = 0.25
"""Of what MACD hides, the most that `random-elsewhere` hides too."""
TRIES = 25
"""Draws of `random-elsewhere` before it is said not to exist."""

Levels = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Hidden:
    """What MACD hides, and where it could have: the input of every control.

    level: (K,) of the tracks; frame_level: (G,) of the frame groups, empty without a frame mask;
    groups: frames of each group; size: (H, W) at which areas are measured.
    """

    tracks: tuple[Track, ...]
    level: Levels
    frame_level: Levels
    groups: tuple[tuple[int, ...], ...]
    size: tuple[int, int]
    options: MaskOptions

    def mask(self) -> NDArray[np.float32]:
        """M (T, H, W) in [0, 1]."""
        frames = 1 + max((f for g in self.groups for f in g), default=-1)
        masks = draw_masks(self.tracks, frames, self.size, self.options)
        confidence = [t.confidence for t in self.tracks]
        return combine_masks(
            masks, self.level, self.frame_level, self.groups, confidence, self.options
        )


@dataclass(frozen=True, eq=False)
class ControlMask:
    """One draw of a control: tracks and levels to be masked as MACD's are."""

    control: str
    tracks: tuple[Track, ...]
    level: Levels
    frame_level: Levels
    area_ratio: float
    """Pixels that it hides over those that MACD hides."""
    overlap: float
    """Share of what MACD hides that it hides too, Σ min(M, M′) / Σ M; 0 where MACD hides
    nothing."""
    scale: float = 1.0
    unmoved: tuple[int, ...] = ()
    tries: int = 1
    """`scale`, `unmoved` and `tries` of a placement, see `random_masks`."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for an answer's view; `placement_warnings` reads those of a placement."""
        values: dict[str, Any] = {
            "control": self.control,
            "area_ratio": round(self.area_ratio, 5),
            "overlap": round(self.overlap, 5),
        }
        if self.control == OBJECTS:
            return values
        placed = {"scale": round(self.scale, 5), "unmoved": self.unmoved, "tries": self.tries}
        return values | placed


def draw_control(name: str, hidden: Hidden, seed: int) -> ControlMask | None:
    """One draw of a control by its name, of CONTROLS; None where `random-elsewhere` has none."""
    if name == PLACE:
        return random_place(hidden, seed)
    return random_objects(hidden, seed) if name == OBJECTS else random_elsewhere(hidden, seed)


def random_place(hidden: Hidden, seed: int) -> ControlMask:
    """`random-place`: every shape anywhere in the frame, the frame levels in any order."""
    return _placed(PLACE, hidden, seed, anywhere=True)


def random_elsewhere(hidden: Hidden, seed: int) -> ControlMask | None:
    """`random-elsewhere`: the first draw of the same area that lies beside MACD's mask.

    None where none of `TRIES` does, as where MACD hides most of the picture.
    """
    seeds = np.random.SeedSequence(seed).generate_state(TRIES)
    for own in seeds:
        drawn = _placed(ELSEWHERE, hidden, int(own), anywhere=False)
        if abs(drawn.area_ratio - 1) <= TOLERANCE and drawn.overlap <= MAX_OVERLAP:
            return drawn
    return None


def random_objects(hidden: Hidden, seed: int) -> ControlMask:
    """`random-objects`: both kinds of levels in an order in which each is as likely."""
    rng = np.random.default_rng(seed)
    return permuted(hidden, rng.permutation(hidden.level), rng.permutation(hidden.frame_level))


def permuted(hidden: Hidden, level: Levels, frame_level: Levels) -> ControlMask:
    """The control with these levels on MACD's own tracks and groups."""
    other = replace(hidden, level=level, frame_level=frame_level)
    ratio, overlap = compare_masks(hidden.mask(), other.mask())
    return ControlMask(OBJECTS, hidden.tracks, level, frame_level, ratio, overlap)


def arrangements(level: Sequence[float]) -> Iterator[tuple[float, ...]]:
    """Every order of the levels that differs, each once, in rising order; MACD's own is among them.

    >>> list(arrangements([1, 0, 0]))
    [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
    """

    def of(counts: dict[float, int]) -> Iterator[tuple[float, ...]]:
        if not any(counts.values()):
            yield ()
        for value in sorted(z for z, n in counts.items() if n):
            for rest in of(counts | {value: counts[value] - 1}):
                yield (value, *rest)

    return of(dict(Counter(level)))


def count_arrangements(level: Sequence[float]) -> int:
    """How many there are, without making them.

    >>> count_arrangements([1, 0, 0, 0.75])
    12
    """
    same = math.prod(math.factorial(n) for n in Counter(level).values())
    return math.factorial(len(level)) // same


def _placed(name: str, hidden: Hidden, seed: int, anywhere: bool) -> ControlMask:
    placed = place_at_random(
        hidden.tracks, hidden.level, hidden.frame_level, hidden.groups, hidden.size,
        hidden.options, seed, anywhere=anywhere,
    )  # fmt: skip
    other = replace(hidden, tracks=placed.tracks, frame_level=placed.frame_level)
    ratio, overlap = compare_masks(hidden.mask(), other.mask())
    return ControlMask(
        name, placed.tracks, hidden.level, placed.frame_level, ratio, overlap, placed.scale,
        () if anywhere else placed.unmoved, placed.tries,
    )  # fmt: skip


def compare_masks(own: NDArray[np.float32], other: NDArray[np.float32]) -> tuple[float, float]:
    """Area ratio and overlap of another mask with MACD's own, both (T, H, W); see `ControlMask`."""
    area = float(own.sum(dtype=np.float64))
    if area == 0:
        return (1.0 if not other.any() else math.inf), 0.0
    both = float(np.minimum(own, other).sum(dtype=np.float64))
    return float(other.sum(dtype=np.float64)) / area, both / area
