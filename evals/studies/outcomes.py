"""What is right behind each mask of `evals.studies.control_draws`, and how it is compared.

Two quantities that are easily confused:

*mean outcome*: of R independent placements, each answered by itself, the share of right answers. It
is what one random mask gains in expectation, at the cost of one view. Resampling clips over these
means already holds the luck of placement.
*average of R* (`random-average-R`): one answer from the mean of R views' logits, at the cost of R.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.evals.running.answer import GRID
from macd_studio.evals.statistics.intervals import difference_interval
from macd_studio.evals.statistics.stats import sign_flip
from macd_studio.evals.studies.control_draws import PLACES, ControlDraws
from macd_studio.evals.studies.first_token import contrasted

FIXED = ((1.0, 0.1), (3.0, 0.1), (5.0, 0.01))
"""α and β at which everything is told."""

Array = NDArray[Any]
Score = Array
"""(G, N) the share of right answers, in [0, 1], of each clip at each pair of GRID."""

MULTIPLE = 48 * 35
"""Every score is a multiple of its inverse: of 8 placements, of 1 to 8, 12 or 16 orders."""
MACD, PLACE, OBJECTS, AVERAGE = "macd", "random-place", "random-objects", f"random-average-{PLACES}"
TITLES = {
    MACD: "MACD",
    PLACE: f"mean outcome of {PLACES} random places",
    OBJECTS: "mean outcome of all orders of the levels",
    AVERAGE: f"average of {PLACES} random places",
}


@dataclass(frozen=True, eq=False)
class Outcomes:
    """N clips. base: (N,) right without contrast; scores: name → (G, N); places: (G, R, N) bool."""

    base: Array
    scores: Mapping[str, Score]
    places: Array

    @staticmethod
    def of(rows: Sequence[ControlDraws], truth: Sequence[int]) -> Outcomes:
        """truth: (N,) index of the right option of each row."""
        right, video = np.array(truth), np.array([r.video for r in rows])

        def score(views: Array, pair: tuple[float, float]) -> Array:
            return np.asarray(contrasted(video, views, *pair) == right)

        macd = np.array([r.macd for r in rows])
        place = np.array([[d.logits for d in r.places] for r in rows]).swapaxes(0, 1)
        most = max(len(r.objects) for r in rows)
        order = np.full((most, *video.shape), np.nan)
        for i, row in enumerate(rows):
            order[: len(row.objects), i] = [d.logits for d in row.objects]
        there = np.isfinite(order).all(-1)
        places = np.array([[score(p, pair) for p in place] for pair in GRID])
        objects = np.array([[score(np.nan_to_num(o), pair) for o in order] for pair in GRID])
        scores = {
            MACD: np.array([score(macd, pair) for pair in GRID], float),
            PLACE: places.mean(1),
            OBJECTS: (objects * there).sum(1) / there.sum(0),
            AVERAGE: np.array([score(place.mean(0), pair) for pair in GRID], float),
        }
        return Outcomes(video.argmax(1) == right, scores, places)


def best_pair(score: Score) -> int:
    """Index of the pair of GRID with most right answers; of equals the smallest α, largest β."""
    shares = score.mean(1).round(9)
    return max(range(len(GRID)), key=lambda g: (shares[g], -GRID[g][0], GRID[g][1]))


def compared(before: Array, after: Array) -> dict[str, Any]:
    """after − before (N,), of scores, with 95 % interval and exact sign-flip p."""
    difference = after - before
    whole = np.rint(difference * MULTIPLE)
    return {
        "delta": difference_interval(difference, range(len(difference))),
        "p": sign_flip(whole, range(len(whole))),
    }


def one_placement(made: Outcomes, pair: int) -> dict[str, float]:
    """How far the gain of one placement a clip lies from that of another: luck alone."""
    gains = made.places[pair].mean(1) - made.base.mean()
    return {
        "least": float(gains.min()),
        "most": float(gains.max()),
        "spread": float(gains.std(ddof=1)),
    }
