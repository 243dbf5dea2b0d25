"""Studies of pairs: which arm raters prefer, and with three arms or more a scale for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.ratings.answers import Answer, Screen
from macd_studio.ratings.plan import MAIN
from macd_studio.ratings.stats import Estimate, interval, resample

Array = NDArray[np.float64]
STEPS = 500
LEAST_ARMS = 3
"""Of two arms the share preferring one says everything that a scale would."""


def counts(main: Sequence[Answer], screens: Sequence[Screen], first: str, other: str
           ) -> dict[str, int]:  # fmt: skip
    """How many screens of the two arms preferred the first, the other, neither.

    cannot: main screens that were left by *cannot judge*, of all arms together.
    """
    given = [(a, b) for a, b in pairs_of(main) if {a.arm, b.arm} == {first, other}]
    scores = [a.rating if a.arm == first else b.rating for a, b in given]
    return {
        "first": scores.count(2),
        "other": scores.count(0),
        "same": scores.count(1),
        "cannot": sum(s.skipped for s in screens if s.part == MAIN),
    }


def pairs_of(main: Sequence[Answer]) -> list[tuple[Answer, Answer]]:
    """Both sides of every screen on which a preference was given."""
    by_task: dict[str, list[Answer]] = {}
    for a in main:
        by_task.setdefault(a.task, []).append(a)
    return [(z[0], z[1]) for z in by_task.values() if len(z) == 2]


def strengths(
    main: Sequence[Answer], arms: Sequence[str], draws: int, seed: int
) -> dict[str, Estimate]:
    """The Bradley-Terry scale: by the arm, the log odds of being preferred to the first arm.

    No difference counts as half a preference for each. Intervals are over clips and raters, as
    those of means (`stats.mean_interval`). {} for less than LEAST_ARMS arms or without a pair; NaN
    for an arm that always or never won.
    """
    given = pairs_of(main)
    if len(arms) < LEAST_ARMS or not given:
        return {}
    place = {arm: i for i, arm in enumerate(arms)}
    raters = sorted({a.rater for a, _ in given})
    clips = sorted({a.clip for a, _ in given})
    wins = np.zeros((len(given), len(arms), len(arms)))
    for k, (a, b) in enumerate(given):
        share = (a.rating or 0) / 2
        wins[k, place[a.arm], place[b.arm]] = share
        wins[k, place[b.arm], place[a.arm]] = 1 - share
    by_rater, by_clip = resample(len(raters), len(clips), draws, seed)
    row = np.array([raters.index(a.rater) for a, _ in given])
    column = np.array([clips.index(a.clip) for a, _ in given])
    weights = by_rater[:, row] * by_clip[:, column]
    drawn = np.einsum("dk,kij->dij", weights, wins)
    scale = bradley_terry(np.concatenate([wins.sum(0)[None], drawn]))
    return {arm: interval(float(scale[0, i]), scale[1:, i]) for arm, i in place.items()}


def bradley_terry(wins: Array) -> Array:
    """Log strengths (N, A) from wins (N, A, A) of row over column, the first arm's 0.

    By Hunter's MM algorithm (2004, The Annals of Statistics 32(1), 384-406, equation 3). NaN where
    an arm won or lost every comparison, or had none: its strength has no finite estimate.
    """
    met = wins + wins.transpose(0, 2, 1)
    won, lost = wins.sum(2), wins.sum(1)
    strength = np.ones(won.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(STEPS):
            both = strength[:, :, None] + strength[:, None, :]
            strength = won / np.where(met > 0, met / both, 0.0).sum(2)
        scale = np.log(strength)
    scale[(won <= 0) | (lost <= 0)] = np.nan
    return np.asarray(scale - scale[:, :1])


def preference_figures(
    main: Sequence[Answer], screens: Sequence[Screen], arms: Sequence[str], draws: int, seed: int
) -> dict[str, Any]:
    """Counts by the other arm, and the scale; plain values."""
    scale = strengths(main, arms, draws, seed)
    return {
        "counts": {other: counts(main, screens, arms[0], other) for other in arms[1:]},
        "scale": {a: {"value": e.value, "low": e.low, "high": e.high} for a, e in scale.items()},
    }
