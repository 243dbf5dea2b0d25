"""How many clips and raters a study of pairs needs: `python -m ratings plan --scale pairs`.

Studies are drawn and judged by `inference.paired_difference`, as the report judges them. Behind
each preference stands a normal number, z = rater + clip + rest with variance 1: the first arm is
preferred above one threshold, the other one below another, and between both there is no difference.
The thresholds give the share that prefers the first arm and the share of ties; the raters' part
gives the standard deviation of raters' own shares, to first order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import OptionError
from macd_studio.ratings.inference import paired_difference

SHARE = 0.65
"""Of pairs that prefer the first arm, ties counted half."""
TIES = 0.2
"""Of pairs without a difference."""
RATER_SD = (0.05, 0.15)
"""Of raters' own shares."""
STUDIES = 400
"""Drawn for each cell of the table: the Monte Carlo error of a chance is at most .025."""
SEED = 0
MOST_RATERS = 50
MOST_CELLS = 2_000_000
"""Pairs of one drawn study at most."""
MOST_DRAWN = 2_000_000_000
"""Pairs of all drawn studies of a plan at most."""
MOST_WITHIN = 0.95
"""Of the variance of z that raters and clips may take."""


@dataclass(frozen=True)
class Setting:
    """A study of pairs. share, ties: of all pairs; rater_sd: of raters' own shares."""

    share: float
    ties: float
    rater_sd: float


@dataclass(frozen=True)
class Latent:
    """Standard deviations of the parts of z, and its two thresholds."""

    rater: float
    clip: float
    rest: float
    below: float
    above: float


def latent(at: Setting, clip_share: float) -> Latent:
    """The parts of z of a setting. clip_share: of the variance within raters that is the clips'.

    Raises OptionError for shares that cannot be, and where raters differ more than they can.
    """
    from scipy.stats import norm  # takes half a second

    first, other = at.share - at.ties / 2, 1 - at.share - at.ties / 2
    if min(first, other) <= 0:
        raise OptionError(
            f"a share of {at.share:g} is not possible with {at.ties:g} ties",
            "Give fewer ties, or a share nearer to 0.5",
        )
    above, below = float(norm.isf(first)), float(norm.ppf(other))
    # what the share gains where z moves up by one
    slope = float(norm.pdf(above) + norm.pdf(below)) / 2
    variance = at.share * (1 - at.share) - at.ties / 4 - at.rater_sd**2
    rater, clip = at.rater_sd / slope, np.sqrt(max(clip_share * variance, 0.0)) / slope
    rest = 1 - rater**2 - clip**2
    if variance <= 0 or rest < 1 - MOST_WITHIN:
        raise OptionError(
            f"raters' shares cannot have an SD of {at.rater_sd:g} around {at.share:g}",
            "Give a smaller --rater-sd",
        )
    return Latent(rater, float(clip), float(np.sqrt(rest)), below, above)


def drawn(rng: np.random.Generator, at: Latent, raters: int, clips: int) -> NDArray[np.float64]:
    """A study (raters, clips): 1 for the first arm, 0 for the other one, 0.5 for neither.

    From generators in the same state a study of fewer raters is the first rows of one of more.
    """
    clip = at.clip * rng.standard_normal(clips)
    own = rng.standard_normal((raters, 1 + clips))
    z = at.rater * own[:, :1] + clip + at.rest * own[:, 1:]
    return np.asarray(((z > at.above) + 0.5 * ((z <= at.above) & (z >= at.below))), np.float64)


@cache
def tried(at: Setting, clip_share: float, raters: int, clips: int, studies: int = STUDIES
          ) -> tuple[float, float]:  # fmt: skip
    """Mean half width of the interval for other raters, and how often it lies above or below 0.5
    on the side of the true share.

    A study in which all pairs are alike has no interval, and finds nothing. Studies of other
    numbers of raters have the same random numbers, so that their chances can be compared.
    """
    parts, widths, found = latent(at, clip_share), [], 0
    for study in range(studies):
        rng = np.random.default_rng([SEED, clips, study])
        e = paired_difference(drawn(rng, parts, raters, clips)).others
        widths.append(e.half_width)
        found += e.low > 0.5 if at.share > 0.5 else e.high < 0.5
    known = [w for w in widths if np.isfinite(w)]
    return float(np.mean(known)) if known else float("nan"), found / studies


def first_enough(at: Setting, clip_share: float, clips: int, power: float) -> int | None:
    """About the fewest raters whose chance is `power`; None where MOST_RATERS are not enough.

    By halving, as if the chance rose with every rater; that of drawn studies nearly does.
    """
    low, high = 1, MOST_RATERS + 1
    while high - low > 1:
        middle = (low + high) // 2
        if tried(at, clip_share, middle, clips)[1] >= power:
            high = middle
        else:
            low = middle
    return high if high <= MOST_RATERS else None


def table(
    at: tuple[Setting, Setting],
    clips: Sequence[int],
    raters: Sequence[int],
    clip_share: float,
    power: float,
) -> Iterator[str]:
    """The lines of the plan, in Markdown. at: the favourable setting and the other one."""
    if max(clips) * max(raters) > MOST_CELLS or max(clips) * MOST_RATERS > MOST_CELLS:
        raise OptionError(
            f"a study of {max(clips)} clips and {max(raters)} raters is too large to be drawn",
            f"Give at most {MOST_CELLS} pairs",
        )
    halvings = int(np.ceil(np.log2(MOST_RATERS + 1)))
    each = sum(clips) * (sum(raters) + halvings * MOST_RATERS)
    if (pairs := each * len(at) * STUDIES) > MOST_DRAWN:
        raise OptionError(
            f"the plan would draw up to {pairs / 1e6:,.0f} million pairs",
            f"Give fewer or smaller --clips and --raters, for at most {MOST_DRAWN / 1e6:,.0f}"
            " million",
        )
    for setting in at:
        latent(setting, clip_share)
    yield f"Share preferring the first arm {at[0].share:g}, ties half; {at[0].ties:.0%} ties; SD of"
    yield f"raters' shares {at[0].rater_sd:g} to {at[1].rater_sd:g}. {STUDIES} drawn studies a row."
    yield ""
    yield "| clips | raters | pairs | interval ± | chance to find the preference |"
    yield "|---|---|---|---|---|"
    for c, r in product(clips, raters):
        found = [tried(s, clip_share, r, c) for s in at]
        (narrow, wide), (seldom, often) = (sorted(z) for z in zip(*found, strict=True))
        yield f"| {c} | {r} | {c * r} | {narrow:.2f} to {wide:.2f} | {seldom:.0%} to {often:.0%} |"
    yield ""
    for c in clips:
        enough = [first_enough(s, clip_share, c, power) for s in at]
        words = [f"more than {MOST_RATERS}" if n is None else str(n) for n in enough]
        told = " to ".join(dict.fromkeys(words))
        told = told if all(n is None for n in enough) else f"about {told}"
        yield f"{c} clips: {told} raters for a chance of {power:.0%}."
