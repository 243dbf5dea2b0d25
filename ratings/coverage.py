"""How often the intervals of a difference hold the truth: `python -m ratings.coverage`.

Studies are drawn: difference = rater + clip + rest, all normal, rounded to whole points as
differences of ratings are. docs/rating.md holds a part of the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from macd_studio.commands import parser as command_line
from macd_studio.ratings.inference import paired_difference
from macd_studio.ratings.stats import Matrix

STUDIES = 3000
CLIP_SD, REST_SD = 0.5, 0.8
RATER_SD = (0.2, 0.6)
RATERS, CLIPS = (2, 3, 5, 20), (20, 200)
MISSING = {
    "nothing": "every rater rates every clip",
    "a fifth": "a fifth of the pairs, at random",
    "dropout": "three in ten raters leave, after a quarter of the clips at the earliest",
}


@dataclass(frozen=True)
class Held:
    """Shares of studies whose interval holds the truth, and mean widths in points."""

    others: float
    others_width: float
    these: float
    these_width: float


def drawn(rng: np.random.Generator, raters: int, clips: int, sd: float, missing: str
          ) -> tuple[Matrix, float]:  # fmt: skip
    """A study (raters, clips) whose mean is 0, and the mean of its own raters."""
    bias = rng.normal(0, sd, raters)
    values = bias[:, None] + rng.normal(0, CLIP_SD, clips)
    values = np.round(values + rng.normal(0, REST_SD, values.shape))
    if missing == "a fifth":
        values[rng.random(values.shape) < 0.2] = np.nan
    elif missing == "dropout":
        for row in np.flatnonzero(rng.random(raters) < 0.3):
            values[row, rng.integers(clips // 4, clips) :] = np.nan
    return values, float(bias.mean())


def held(raters: int, clips: int, sd: float, missing: str, studies: int, seed: int = 0) -> Held:
    """By simulation; an interval that is not there holds nothing."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(studies):
        values, own = drawn(rng, raters, clips, sd, missing)
        found = paired_difference(values)
        o, t = found.others, found.these
        rows.append((o.low <= 0 <= o.high, o.high - o.low, t.low <= own <= t.high, t.high - t.low))
    others, width, these, narrow = np.nanmean(np.array(rows, np.float64), axis=0)
    return Held(float(others), float(width), float(these), float(narrow))


def table(studies: int) -> Iterator[str]:
    """The lines of the table."""
    yield "| missing | rater SD | raters | clips | other raters | width | these raters | width |"
    yield "|---|---|---|---|---|---|---|---|"
    for missing, sd, raters, clips in product(MISSING, RATER_SD, RATERS, CLIPS):
        h = held(raters, clips, sd, missing, studies)
        yield (
            f"| {missing} | {sd} | {raters} | {clips} | {h.others:.3f} | {h.others_width:.2f} |"
            f" {h.these:.3f} | {h.these_width:.2f} |"
        )


def main(argv: list[str] | None = None) -> int:
    """Prints the table."""
    parser: argparse.ArgumentParser = command_line("ratings.coverage", __doc__)
    parser.add_argument("--studies", type=int, default=STUDIES)
    args = parser.parse_args(argv)
    for line in table(args.studies):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
