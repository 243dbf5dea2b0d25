"""The mean paired difference of two arms: of the raters who rated, and of others like them.

A rating belongs to a rater and to a clip; items about one clip count as one draw of it. Of the
raters who rated, only the clips are a sample: the interval is over clips. Of other raters both are,
and few raters say little of others, however many clips they rated: the variance of the mean is that
of rater means, plus that over clips, less what both count twice (Cameron, Gelbach and Miller, 2011,
Journal of Business & Economic Statistics 29(2), 238-249), and not below either of both, as an
estimate of the raters' own variance is 0 in half of all small studies. Its quantile is that of t
with the fewer of raters and clips, less one.
`ratings.coverage` simulates how often the intervals hold the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from macd_studio.ratings.events import HIGH, LOW
from macd_studio.ratings.plan import PAIRS, RATINGS
from macd_studio.ratings.stats import Estimate, Matrix, student, sum_by_clip

NAN = float("nan")
RANGES: dict[str, tuple[float, float]] = {
    RATINGS: (float(LOW - HIGH), float(HIGH - LOW)),
    PAIRS: (0.0, 1.0),
}
"""By the scale, what a difference or a share can be."""
NEARLY_ALL = 0.9
"""Part of the range, from which an interval says nothing."""


@dataclass(frozen=True)
class Difference:
    """these: of these raters, over clips; others: of other raters, NaN where one rater rated.

    own: of each rater with a pair, by the row of the matrix; of one pair with NaN ends. spread:
    whether any two pairs differ; without that there is no interval.
    """

    these: Estimate
    others: Estimate
    own: dict[int, Estimate]
    spread: bool

    @property
    def primary(self) -> Estimate:
        """What a report states first: of other raters, and of this one where there is one."""
        return self.others if np.isfinite(self.others.low) else self.these


def paired_difference(values: Matrix, clips_of: Sequence[int] | None = None) -> Difference:
    """From (raters, items) differences with NaN where a rater did not rate both arms.

    clips_of: the clip of each item, by any number; each is of its own without. The value is the
    mean over raters of each rater's mean, which is that over pairs where nothing is missing.
    """
    rows = np.flatnonzero(np.isfinite(values).any(1))
    rated = np.isfinite(values).any(0)
    of = np.arange(values.shape[1]) if clips_of is None else np.asarray(clips_of, np.int64)
    values, of = values[rows][:, rated], of[rated]
    there = np.isfinite(values)
    raters, clips = len(values), len(np.unique(of))
    if not there.any():
        nothing = Estimate(NAN, NAN, NAN)
        return Difference(nothing, nothing, {}, False)
    count = there.sum(1)
    means = np.where(there, values, 0.0).sum(1) / count
    value = float(means.mean())
    spread = bool(np.ptp(values[there]) > 0)
    if not spread:
        flat = Estimate(value, NAN, NAN)
        return Difference(flat, flat, _own(values, there, rows, of), False)
    # what each pair adds to the mean of rater means, around its rater's mean
    within = np.where(there, values - means[:, None], 0.0) / (raters * count[:, None])
    over_clips = _scaled(sum_by_clip(within, of).sum(0))
    these = _interval(value, over_clips, clips - 1)
    own = _own(values, there, rows, of)
    if raters < 2:
        return Difference(these, Estimate(value, NAN, NAN), own, True)
    # over clips around the mean of all, so that a clip's part is the same under each rater
    around = np.where(there, values - value, 0.0) / (raters * count[:, None])
    by_rater = float(means.var(ddof=1)) / raters
    both = _scaled(sum_by_clip(around, of)[sum_by_clip(there, of) > 0])
    variance = max(by_rater + over_clips - both, by_rater, over_clips)
    others = _interval(value, variance, min(raters, clips) - 1)
    return Difference(these, others, own, True)


def bounded(e: Estimate, scale: str) -> dict[str, float]:
    """An estimate as a report prints it: no end lies outside what is possible.

    What is cut off cannot hold the truth, so that the interval holds it as often as before.
    """
    low, high = (float(np.clip(end, *RANGES[scale])) for end in (e.low, e.high))
    return {"value": e.value, "low": low, "high": high}


def _own(
    values: Matrix, there: NDArray[np.bool_], rows: NDArray[np.intp], of: NDArray[np.int64]
) -> dict[int, Estimate]:
    found = {}
    for row, one, has in zip(rows.tolist(), values, there, strict=True):
        pairs = one[has]
        mean = float(pairs.mean())
        parts = sum_by_clip((pairs - mean)[None] / len(pairs), of[has])[0]
        found[row] = _interval(mean, _scaled(parts), len(parts) - 1)
    return found


def _scaled(parts: Matrix) -> float:
    """The variance of a sum of so many independent parts, estimated from them."""
    n = len(parts)
    return float((parts**2).sum()) * n / (n - 1) if n > 1 else 0.0


def _interval(value: float, variance: float, freedom: int) -> Estimate:
    if freedom < 1 or variance <= 0:
        return Estimate(value, NAN, NAN)
    half = float(student(freedom) * np.sqrt(variance))
    return Estimate(value, value - half, value + half)
