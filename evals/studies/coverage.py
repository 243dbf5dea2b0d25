"""How often 95 % intervals hold the truth, by simulation: `python -m evals.studies.coverage`.

Clips with several questions whose outcomes go together are drawn again and again; each draw is
given to the intervals of `evals.statistics.intervals` and to the percentile bootstrap over clips
that was used before them. Writes docs/intervals.json and docs/intervals.md.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from macd_studio.commands import parser as command_line
from macd_studio.core.validation import Number
from macd_studio.evals.printing.figures import table
from macd_studio.evals.running.output import check_folder, say
from macd_studio.evals.statistics.intervals import (
    auroc_change,
    auroc_interval,
    cluster_sums,
    clustered_share,
    difference_interval,
)
from macd_studio.evals.statistics.stats import RESAMPLES, mean_difference, resampled_clusters
from macd_studio.evals.studies.shared import command
from macd_studio.parts import ROOT

Array = NDArray[Any]
Drawn = tuple[Array, ...]
"""(N,) columns of one draw; the last is the clip of each question."""

DRAWS, FORMER_DRAWS = 6000, 500
"""Draws a cell, and those that the bootstrap gets too, which takes milliseconds each."""
REACHED = 0.94


@dataclass(frozen=True)
class Cell:
    """One line of the table: a truth, and how its questions are drawn.

    kind: of `KINDS`; truth: what the interval should hold; rates: the shares that lead to it;
    questions: of each clip, or 0 for one to nine of them; together: correlation within a clip.
    """

    kind: str
    truth: float
    rates: tuple[float, ...]
    clips: int
    questions: int
    together: float

    def sizes(self, rng: np.random.Generator) -> Array:
        """(clips,) the questions of each."""
        if self.questions:
            return np.full(self.clips, self.questions)
        return rng.integers(1, 10, self.clips)


def _shares_of_clips(rng: np.random.Generator, rates: Array, together: float, n: int) -> Array:
    """(n, K) shares of each outcome in each clip, of mean `rates` (K,)."""
    if together == 0:
        return np.broadcast_to(rates, (n, len(rates)))
    if together == 1:
        return np.eye(len(rates))[rng.choice(len(rates), n, p=rates)]
    drawn = rng.standard_gamma(np.maximum(rates * (1 / together - 1), 1e-9), (n, len(rates)))
    sums = drawn.sum(1, keepdims=True)
    return np.where(sums > 0, drawn / np.where(sums > 0, sums, 1), rates)


def _outcomes(cell: Cell, rng: np.random.Generator) -> tuple[Array, Array]:
    """(N,) the outcome of each question, and its clip."""
    sizes = cell.sizes(rng)
    shares = _shares_of_clips(rng, np.array(cell.rates), cell.together, cell.clips)
    clip = np.repeat(np.arange(cell.clips), sizes)
    return (rng.random(len(clip))[:, None] > shares.cumsum(1)[clip]).sum(1), clip


def draw_share(cell: Cell, rng: np.random.Generator) -> Drawn:
    """Right or wrong, with a share of right answers."""
    outcome, clip = _outcomes(cell, rng)
    return (outcome == 0).astype(float), clip


def draw_difference(cell: Cell, rng: np.random.Generator) -> Drawn:
    """Gained, lost or neither."""
    outcome, clip = _outcomes(cell, rng)
    return np.array([1.0, -1.0, 0.0])[np.minimum(outcome, 2)], clip


PLACEMENTS = 8


def draw_fraction(cell: Cell, rng: np.random.Generator) -> Drawn:
    """An answer less the mean of eight placements' answers, all right with the clip's own share."""
    shares = _shares_of_clips(
        rng, np.array([cell.rates[0], 1 - cell.rates[0]]), cell.together, cell.clips
    )[:, 0]
    right = rng.random(cell.clips) < shares
    # a method right where the placements are, and in `rates[1]` of the clips where they are not
    right |= rng.random(cell.clips) < cell.rates[1]
    return right - rng.binomial(PLACEMENTS, shares) / PLACEMENTS, np.arange(cell.clips)


def draw_place(cell: Cell, rng: np.random.Generator) -> Drawn:
    """A choice's place in its class of four or six less the middle: in `rates[0]` of the clips the
    best of it, else any; in `rates[1]` all share one place."""
    members = rng.choice([4, 6], cell.clips)
    place = rng.integers(0, members) / (members - 1)
    place[rng.random(cell.clips) < cell.rates[0]] = 1
    place[rng.random(cell.clips) < cell.rates[1]] = 0.5
    return place - 0.5, np.arange(cell.clips)


def draw_scores(cell: Cell, rng: np.random.Generator) -> Drawn:
    """Whether yes is right, and normal scores of two methods, which agree by .7."""
    clip = np.repeat(np.arange(cell.clips), cell.sizes(rng))
    positive = rng.random(len(clip)) < cell.rates[-1]
    if not 1 < positive.sum() < len(positive) - 1:
        return draw_scores(cell, rng)
    scores = []
    shared = rng.standard_normal(cell.clips)[clip], rng.standard_normal(len(clip))
    for area in cell.rates[:-1]:
        own = rng.standard_normal(cell.clips)[clip], rng.standard_normal(len(clip))
        of_clip, of_question = (
            math.sqrt(0.7) * a + math.sqrt(0.3) * b for a, b in zip(shared, own, strict=True)
        )
        noise = math.sqrt(cell.together) * of_clip + math.sqrt(1 - cell.together) * of_question
        scores.append(noise + positive * math.sqrt(2) * norm.ppf(area))
    return positive, *scores, clip


def former_mean(values: Array, clip: Array, lowest: float) -> tuple[float, float]:
    """The percentile bootstrap over clips; without spread, the exact bound for a share."""
    sums, sizes = cluster_sums(clip, values, np.ones(len(values)))
    mean, weights = float(values.mean()), resampled_clusters(len(sums), 0, RESAMPLES)
    if np.ptp(sums / sizes) <= 1e-12:
        bound = 1 - 0.025 ** (1 / len(sums))
        return mean - bound * (mean - lowest), mean + bound * (1 - mean)
    low, high = np.percentile((weights @ sums) / (weights @ sizes), [2.5, 97.5])
    return float(low), float(high)


def former_areas(drawn: Drawn) -> tuple[float, float]:
    """The percentile bootstrap of an area, or of the change from the first to the second."""
    positive, *scores, clip = drawn
    weights = resampled_clusters(int(clip.max()) + 1, 0, RESAMPLES)[:, clip].astype(np.float32)
    up, down = weights[:, positive.astype(bool)], weights[:, ~positive.astype(bool)]
    areas = []
    for score in scores:
        a, b = score[positive.astype(bool)], score[~positive.astype(bool)]
        wins = (a[:, None] > b).astype(np.float32)
        with np.errstate(invalid="ignore", divide="ignore"):
            areas.append(((up @ wins) * down).sum(1) / (up.sum(1) * down.sum(1)))
    change = areas[1] - areas[0] if len(areas) == 2 else areas[0]
    low, high = np.nanpercentile(change, [2.5, 97.5])
    if low == high and len(scores) == 1:
        kinds = positive.astype(bool)
        least = min(len(set(clip[kinds])), len(set(clip[~kinds])))
        low -= 1 - 0.025 ** (1 / least)
    return float(low), float(high)


def paired(values: Array, clip: Array) -> tuple[float, float]:
    """As `evals.statistics.stats.mean_difference`: 0 stays inside where the exact test does not
    refuse it."""
    return mean_difference(np.zeros(len(values)), values, clip)[1:]


@dataclass(frozen=True)
class Kind:
    """What is simulated under one heading: how it is drawn, the interval now and before."""

    title: str
    draw: Callable[[Cell, np.random.Generator], Drawn]
    now: Callable[[Drawn], tuple[float, float]]
    former: Callable[[Drawn], tuple[float, float]]


KINDS = {
    "share": Kind(
        "Shares",
        draw_share,
        lambda d: clustered_share(d[0], d[1])[1:],
        lambda d: former_mean(d[0], d[1], 0.0),
    ),
    "difference": Kind(
        "Paired differences",
        draw_difference,
        lambda d: paired(d[0], d[1]),
        lambda d: former_mean(d[0], d[1], -1.0),
    ),
    "fraction": Kind(
        "An outcome less the mean of eight placements' outcomes",
        draw_fraction,
        lambda d: difference_interval(d[0], d[1])[1:],
        lambda d: former_mean(d[0], d[1], -1.0),
    ),
    "place": Kind(
        "Mean place of a choice in its class",
        draw_place,
        lambda d: difference_interval(d[0], d[1])[1:],
        lambda d: former_mean(d[0], d[1], -0.5),
    ),
    "area": Kind(
        "Area under the ROC curve",
        draw_scores,
        lambda d: auroc_interval(d[0], d[1], d[2])[1:],
        former_areas,
    ),
    "change": Kind(
        "Change of the area",
        draw_scores,
        lambda d: auroc_change(d[0], d[1], d[2], d[3])[0][1:],
        former_areas,
    ),
}

DESIGNS = ((30, 1, 0.0), (100, 1, 0.0), (30, 4, 0.2), (100, 4, 0.0), (100, 4, 0.5), (100, 10, 0.5),
           (100, 0, 0.3), (300, 4, 0.5))  # fmt: skip
"""clips, questions a clip (0: one to nine), correlation within a clip"""


def cells() -> Iterator[Cell]:
    """Every line of the table."""
    for design in DESIGNS:
        for share in (0.5, 0.9, 0.97, 0.99):
            yield Cell("share", share, (share, 1 - share), *design)
        for gain, loss in ((0.02, 0.0), (0.01, 0.01), (0.05, 0.03), (0.2, 0.1)):
            yield Cell("difference", gain - loss, (gain, loss, 1 - gain - loss), *design)
    for clips in (30, 100, 300):
        for share, more in ((0.7, 0.0), (0.7, 0.1), (0.97, 0.3)):
            yield Cell("fraction", (1 - share) * more, (share, more), clips, 1, 0.6)
    for clips in (100, 300, 1000):
        for best, tied in ((0.0, 0.2), (0.07, 0.0), (0.3, 0.2), (0.5, 0.0)):
            yield Cell("place", (1 - tied) * best / 2, (best, tied), clips, 1, 0.0)
    for design in ((30, 2, 0.3), (100, 1, 0.0), (100, 4, 0.5), (300, 1, 0.0)):
        for area in (0.7, 0.97, 0.99, 0.999):
            yield Cell("area", area, (area, 0.3), *design)
        for before, after in ((0.8, 0.85), (0.97, 0.99), (0.99, 0.99)):
            yield Cell("change", after - before, (before, after, 0.5), *design)


def measure(cell: Cell, draws: int = DRAWS, former: int = FORMER_DRAWS) -> dict[str, Any]:
    """How often the interval holds the truth and how wide it is, now and before.

    The seed follows from the cell, so that each is repeated by itself.
    """
    kind = KINDS[cell.kind]
    rng = np.random.default_rng(zlib.crc32(repr(cell).encode()))
    columns: dict[str, list[tuple[float, float]]] = {"now": [], "former": []}
    for i in range(draws):
        drawn = kind.draw(cell, rng)
        columns["now"].append(kind.now(drawn))
        if i < former:
            columns["former"].append(kind.former(drawn))
    figures: dict[str, Any] = {
        "kind": cell.kind, "truth": round(cell.truth, 6), "rates": list(cell.rates),
        "clips": cell.clips, "questions": cell.questions, "together": cell.together,
    }  # fmt: skip
    for name, intervals in columns.items():
        if intervals:
            low, high = np.array(intervals).T
            held = float(((low <= cell.truth + 1e-9) & (high >= cell.truth - 1e-9)).mean())
            figures[name] = {
                "held": round(held, 4), "width": round(float((high - low).mean()), 4),
                "error": round(math.sqrt(max(held * (1 - held), 1e-9) / len(intervals)), 4),
                "draws": len(intervals),
            }  # fmt: skip
    return figures


def markdown(report: dict[str, Any]) -> str:
    """docs/intervals.md: of each kind the cell in which its interval holds the truth least."""
    rows = []
    for name, kind in KINDS.items():
        cells = [c for c in report["cells"] if c["kind"] == name]
        least = min(cells, key=lambda c: c["now"]["held"])
        former = [c["former"]["held"] for c in cells]
        several = str(least["questions"] or "1 to 9")
        rows.append([
            kind.title, len(cells), _held(least["now"]), _truth(least), least["clips"], several,
            f"{least['together']:g}", f"{min(former):.3f}", sum(z < REACHED for z in former),
        ])  # fmt: skip
    heads = ["interval of", "cells", "holds the truth, least", "there the truth is", "clips",
             "questions a clip", "correlation in a clip", "bootstrap, least",
             f"bootstrap below {REACHED}, cells"]  # fmt: skip
    now, former = ([c[z] for c in report["cells"]] for z in ("now", "former"))
    low = min(now, key=lambda c: c["held"])
    return f"""# Do the intervals hold what they say?

Written by `python -m evals.studies.coverage`. A cell is a truth with a number of clips, of
questions a clip, and a correlation within a clip; of each, {now[0]["draws"]} draws were simulated
(Monte Carlo error at most {_most(now)}). Least of all {len(now)} shares of draws whose 95 %
interval holds the truth: {low["held"]:.3f} ± {low["error"]:.3f}; {_missed(now)} are below
{REACHED}. The percentile bootstrap over clips ({former[0]["draws"]} draws each, error at most
{_most(former)}), which stood before these intervals, goes down to
{min(c["held"] for c in former):.3f} and is below {REACHED} in {_missed(former)} cells. All shares,
and widths, are in [intervals.json](intervals.json).

{table(heads, rows)}

Methods (`evals/statistics/intervals.py`): Clopper and Pearson's interval for shares; Tango's score
interval with a continuity correction for paired differences; Newcombe's score interval for areas;
MOVER for their change. Each is taken at the number of questions divided by the design effect over
clips.

Nothing was simulated for fewer than 30 clips. Rates over mentions (CHAIR), balanced accuracy,
shares of a map and a constant's part of a gain are ratios: their intervals are percentiles of the
bootstrap over clips, and too narrow near 0 and 1.
"""


def _most(cells: list[dict[str, Any]]) -> str:
    return f"{max(c['error'] for c in cells):.3f}"


def _missed(cells: list[dict[str, Any]]) -> int:
    return sum(c["held"] < REACHED for c in cells)


def _truth(cell: dict[str, Any]) -> str:
    rates = [f"{x:g}" for x in cell["rates"]]
    return {
        "share": rates[0],
        "difference": f"{rates[0]} gained, {rates[1]} lost",
        "fraction": f"{cell['truth']:g}: share {rates[0]}, {rates[1]} more",
        "place": f"{50 + 100 * cell['truth']:g} of 100: best in {rates[0]}, tied in {rates[1]}",
        "area": f"{rates[0]}, {rates[-1]} yes",
        "change": f"{rates[0]} to {rates[1]}",
    }[cell["kind"]]


def _held(figures: dict[str, Any]) -> str:
    return f"{figures['held']:.3f} ± {figures['error']:.3f}"


def main(argv: list[str] | None = None) -> int:
    """Simulates, and writes both files."""
    parser = command_line("evals.studies.coverage", __doc__)
    parser.add_argument("--draws", type=int, default=DRAWS, help=f"a line (default: {DRAWS})")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder of both files")

    def run(args: Any) -> str:
        Number(100, 10**6, whole=True).read(args.draws, "draws")
        check_folder(args.out)
        measured = []
        for cell in cells():
            measured.append(measure(cell, args.draws))
            say(f"{cell}: {measured[-1]['now']}")
        report = {"cells": measured, "resamples": RESAMPLES}
        text = markdown(report)
        (args.out / "intervals.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
        (args.out / "intervals.md").write_text(text, "utf-8")
        return text

    return command(parser, run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
