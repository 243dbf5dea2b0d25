"""How many more ratings until the interval of a difference is narrow enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from macd_studio.ratings.stats.bootstrap import Matrix

Z = 1.959963984540054
MOST = 10_000


@dataclass(frozen=True)
class Components:
    """Variances of d = μ + rater + clip + rest; None of them below 0."""

    rater: float
    clip: float
    rest: float

    def half_width(self, raters: int, clips: int) -> float:
        """Half the 95 % interval of the mean, where every rater rates every clip."""
        if not raters or not clips:
            return float("nan")
        variance = self.rater / raters + self.clip / clips + self.rest / (raters * clips)
        return float(Z * np.sqrt(variance))


def components(values: Matrix) -> Components | None:
    """From a (raters, clips) matrix with NaN; None where there is too little to tell them apart.

    By pairs of entries: half the mean squared difference is clip + rest for entries of one rater,
    rater + rest for those of one clip, and all three for others.
    """
    rows, columns = np.nonzero(np.isfinite(values))
    entries = values[rows, columns]
    total = {"rater": [0.0, 0], "clip": [0.0, 0], "none": [0.0, 0]}
    for i in range(len(entries) - 1):
        half = (entries[i + 1 :] - entries[i]) ** 2 / 2
        same_rater, same_clip = rows[i + 1 :] == rows[i], columns[i + 1 :] == columns[i]
        for name, chosen in (
            ("rater", same_rater & ~same_clip),
            ("clip", same_clip & ~same_rater),
            ("none", ~same_rater & ~same_clip),
        ):
            total[name][0] += float(half[chosen].sum())
            total[name][1] += int(chosen.sum())
    if any(n == 0 for _, n in total.values()):
        return None
    within_rater, within_clip, across = (s / n for s, n in total.values())
    rater, clip = max(across - within_rater, 0.0), max(across - within_clip, 0.0)
    return Components(rater, clip, max(within_rater - clip, within_clip - rater, 0.0))


@dataclass(frozen=True)
class Power:
    """half_width: expected now. raters, clips: how many more of the one would reach the target.

    None where no number of raters (clips) alone reaches it.
    """

    half_width: float
    raters: int | None
    clips: int | None


def power(values: Matrix, target: float) -> Power | None:
    """What is missing until the half width is `target`; None where nothing can be said yet."""
    parts = components(values)
    if parts is None:
        return None
    there = np.isfinite(values)
    raters, clips = int(there.any(1).sum()), int(there.any(0).sum())

    def first(at: list[float]) -> int | None:
        return next((n for n, width in enumerate(at) if width <= target), None)

    return Power(
        parts.half_width(raters, clips),
        first([parts.half_width(raters + n, clips) for n in range(MOST)]),
        first([parts.half_width(raters, clips + n) for n in range(MOST)]),
    )
