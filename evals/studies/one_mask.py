"""What one random mask gains, on average over where it falls: `python -m evals.studies.one_mask`.

Two quantities that are easily confused, both from the same draws of `evals.studies.control_draws`:

*mean outcome*: of R independent placements, each answered by itself, the share of right answers. It
is what one random mask gains in expectation, at the cost of one view. Resampling clips over these
means already holds the luck of placement.
*average of R* (`random-average-R`): one answer from the mean of R views' logits, at the cost of R.

α and β are tuned by cross-fitting (`cross_fitted`), once for all that is compared, for the mean
outcome of random places; beside it stand all figures at fixed α, β. How often the cross-fitted
interval holds the truth is simulated from the same pool of logits (`coverage`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import OptionError
from macd_studio.core.statistics import Interval
from macd_studio.evals.printing.figures import change, points, table
from macd_studio.evals.running.answer import GRID
from macd_studio.evals.statistics.intervals import difference_interval
from macd_studio.evals.statistics.stats import sign_flip
from macd_studio.evals.studies.control_draws import PLACES, ControlDraws, stored
from macd_studio.evals.studies.first_token import contrasted
from macd_studio.evals.studies.shared import FOLDER, command, told, truths

FOLDS, REPEATS, RESAMPLED = 5, 3, 60
"""Folds of cross-fitting, divisions into folds, bootstrap samples of `tuned_interval`."""
FIXED = ((1.0, 0.1), (3.0, 0.1), (5.0, 0.01))
"""α and β at which everything is told beside the tuned pair."""
SIMULATED, CLIPS = 1000, 240

Generator = np.random.Generator
Array = NDArray[Any]
Score = Array
"""(G, N) the share of right answers, in [0, 1], of each clip at each pair of GRID."""

MACD, PLACE, OBJECTS, AVERAGE = "macd", "random-place", "random-objects", f"random-average-{PLACES}"
TITLES = {
    MACD: "MACD",
    PLACE: f"mean outcome of {PLACES} random places",
    OBJECTS: "mean outcome of all orders of the levels",
    AVERAGE: f"average of {PLACES} random places",
}


@dataclass(frozen=True, eq=False)
class Outcomes:
    """N clips. base: (N,) right without contrast; scores: name → (G, N); places: (G, R, N) bool;
    overlap: (N, R) of each placement with MACD's mask."""

    base: Array
    scores: Mapping[str, Score]
    places: Array
    overlap: Array

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
        overlap = np.array([[d.overlap for d in r.places] for r in rows])
        return Outcomes(video.argmax(1) == right, scores, places, overlap)


def best_pair(score: Score, clips: Array) -> int:
    """Index of the pair of GRID with most right answers; of equals the smallest α, largest β."""
    shares = score[:, clips].mean(1).round(9)
    return max(range(len(GRID)), key=lambda g: (shares[g], -GRID[g][0], GRID[g][1]))


def folds_of(keys: Array, seed: int = 0) -> Array:
    """(N,) the fold of each clip, clips of one key in one fold."""
    names, index = np.unique(keys, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(names))
    return np.asarray(order[index] % FOLDS)


def cross_fitted(
    tuned: Score, scores: Sequence[Score], keys: Array, rng: Generator, repeats: int = REPEATS
) -> tuple[Array, list[int]]:
    """Each clip scored at the pair that is best for `tuned` on the clips of the other folds.

    Averaged over `repeats` divisions into folds. Returns (len(scores), N) and the pairs that were
    chosen, of each fold and division. keys: (N,) of the clips, see `folds_of`.
    """
    made, pairs = np.zeros((len(scores), len(keys))), []
    for _ in range(repeats):
        folds = folds_of(keys, int(rng.integers(2**31)))
        for fold in range(FOLDS):
            own = folds == fold
            pairs.append(best_pair(tuned, np.flatnonzero(~own)))
            for i, score in enumerate(scores):
                made[i, own] += score[pairs[-1], own] / repeats
    return made, pairs


def tuned_interval(
    tuned: Score, first: Score, second: Score, keys: Array, rng: Generator
) -> tuple[Interval, list[int]]:
    """What `second` gains over `first` at cross-fitted pairs, and the pairs.

    The interval of the per-clip gains knows nothing of how the pairs vary with the clips: its ends
    are moved out by the ratio of the spread of RESAMPLED bootstrap samples of clips, each tuned
    again, to that of the gains alone, at least 1.
    """
    gain = second - first
    (gains,), pairs = cross_fitted(tuned, [gain], keys, rng)
    estimate, low, high = difference_interval(gains, range(len(gains)))
    means = []
    for _ in range(RESAMPLED):
        drawn = rng.integers(0, len(keys), len(keys))
        (again,), _ = cross_fitted(tuned[:, drawn], [gain[:, drawn]], keys[drawn], rng, 1)
        means.append(again.mean())
    alone = float(gains.std(ddof=1)) / np.sqrt(len(gains))
    wider = max(1.0, float(np.std(means, ddof=1)) / alone) if alone else 1.0
    ends = estimate - wider * (estimate - low), estimate + wider * (high - estimate)
    return (estimate, *ends), pairs


def coverage(
    tuned: Score, first: Score, second: Score, simulated: int = SIMULATED, clips: int = CLIPS
) -> dict[str, float]:
    """How often `tuned_interval` holds what pairs so tuned gain.

    Samples of `clips` clips are drawn from the pool with replacement, those of one clip into one
    fold. The truth is what the pairs chosen in a sample gain over the whole pool, on average over
    all samples.
    """
    rng, pool = np.random.default_rng(0), tuned.shape[1]
    whole = (second - first).mean(1)
    intervals, truths = [], []
    for _ in range(simulated):
        drawn = rng.integers(0, pool, clips)
        made, pairs = tuned_interval(tuned[:, drawn], first[:, drawn], second[:, drawn], drawn, rng)
        intervals.append(made)
        truths.append(float(np.mean(whole[pairs])))
    truth = float(np.mean(truths))
    held = np.mean([low <= truth <= high for _, low, high in intervals])
    return {
        "held": round(float(held), 4),
        "error": round(float(np.sqrt(held * (1 - held) / simulated)), 4),
        "truth": round(truth, 4),
        "width": round(float(np.mean([z[2] - z[1] for z in intervals])), 4),
        "clips": clips,
        "draws": simulated,
    }


def compared(before: Array, after: Array, parts: int) -> dict[str, Any]:
    """after − before (N,), with interval and exact p; parts: what every score is a multiple of."""
    difference = after - before
    whole = np.rint(difference * parts)
    return {
        "delta": difference_interval(difference, range(len(difference))),
        "p": sign_flip(whole, range(len(whole))),
    }


MULTIPLE = 48 * 35
"""Every score is a multiple of its inverse: of 8 placements, of 1 to 8, 12 or 16 orders."""


def report_of(
    rows: Sequence[ControlDraws], truth: Sequence[int], tuning: int, simulated: int = SIMULATED
) -> dict[str, Any]:
    """The figures. tuning: how many of the first rows are of the choose split, for fixed pairs.

    simulated: samples of `coverage`.
    """
    made = Outcomes.of(rows, truth)
    test = np.arange(tuning, len(rows))
    chosen = best_pair(made.scores[PLACE], np.arange(tuning))
    names, base = list(made.scores), made.base.astype(float)

    def table_of(scores: Mapping[str, Array], at: Array) -> dict[str, Any]:
        return {
            "gain": {n: compared(base[at], s[at], MULTIPLE) for n, s in scores.items()},
            "macd_over": {
                n: compared(scores[n][at], scores[MACD][at], MULTIPLE) for n in names if n != MACD
            },
        }

    base_score = np.tile(base, (len(GRID), 1))
    keys = np.arange(len(rows))

    def tuned(first: Score, second: Score) -> dict[str, Any]:
        rng = np.random.default_rng(0)  # the same folds for every comparison
        return {"delta": tuned_interval(made.scores[PLACE], first, second, keys, rng)[0]}

    cross = {
        "gain": {n: tuned(base_score, s) for n, s in made.scores.items()},
        "macd_over": {n: tuned(made.scores[n], made.scores[MACD]) for n in names if n != MACD},
    }
    fixed = {}
    for pair in dict.fromkeys((GRID[chosen], *FIXED)):
        g = GRID.index(pair)
        fixed["{:g}, {:g}".format(*pair)] = table_of(
            {n: s[g] for n, s in made.scores.items()}, test
        )
    pairs = cross_fitted(made.scores[PLACE], [base_score], keys, np.random.default_rng(0))[1]
    return {
        "n": len(rows),
        "baseline": float(base.mean()),
        "tuned_on": tuning,
        "chosen": list(GRID[chosen]),
        "cross_fitted": cross | {"pairs": sorted({GRID[g] for g in pairs})},
        "fixed": fixed,
        "coverage": {
            "gain": coverage(made.scores[PLACE], base_score, made.scores[PLACE], simulated),
            "macd_over": coverage(
                made.scores[PLACE], made.scores[PLACE], made.scores[MACD], simulated
            ),
        },
        "thirds": thirds(made, chosen),
        "one_placement": one_placement(made, chosen),
    }


def thirds(made: Outcomes, pair: int) -> list[dict[str, Any]]:
    """The gain of placements that share least, medium and most of MACD's mask, a clip a mean."""
    cuts = np.quantile(made.overlap, [1 / 3, 2 / 3])
    part = np.searchsorted(cuts, made.overlap)  # (N, R)
    outcomes = made.places[pair].T.astype(float)
    found = []
    for third in range(3):
        own = part == third
        clips = own.any(1)
        mean = (outcomes * own).sum(1)[clips] / own.sum(1)[clips]
        figures = difference_interval(mean - made.base[clips], range(int(clips.sum())))
        shared = made.overlap[own]
        found.append(
            {
                "overlap": [round(float(shared.min()), 3), round(float(shared.max()), 3)],
                "clips": int(clips.sum()),
                "gain": figures,
            }
        )
    return found


def one_placement(made: Outcomes, pair: int) -> dict[str, float]:
    """How far the gain of one placement a clip lies from that of another: luck alone."""
    gains = made.places[pair].mean(1) - made.base.mean()
    return {
        "least": float(gains.min()),
        "most": float(gains.max()),
        "spread": float(gains.std(ddof=1)),
    }


def markdown(report: dict[str, Any]) -> str:
    """The tables, and how well the cross-fitted interval holds."""
    settings = {"cross-fitted": report["cross_fitted"]} | {
        f"α, β {pair}": part for pair, part in report["fixed"].items()
    }
    lines = [
        [f"{title}{beside}", *(change(part[key][name]["delta"]) for part in settings.values())]
        for key, beside in (("gain", " over the baseline"), ("macd_over", ": MACD over it"))
        for name, title in TITLES.items()
        if (key, name) != ("macd_over", MACD)
    ]
    least = [
        [f"{100 * z['overlap'][0]:.0f} to {100 * z['overlap'][1]:.0f} %", str(z["clips"]),
         change(z["gain"])] for z in report["thirds"]
    ]  # fmt: skip
    held = report["coverage"]
    luck = report["one_placement"]
    shares = [f"{100 * held[z]['held']:.1f} ± {100 * held[z]['error']:.1f} %" for z in held]
    first = held["gain"]
    text = (
        f"Cross-fitted intervals hold the truth in {shares[0]} (gain of one random place) and"
        f" {shares[1]} (MACD over it) of {first['draws']} samples of {first['clips']} clips from"
        f" these logits. One placement a clip gains {points(luck['least'])} to"
        f" {points(luck['most'])} points, by luck alone."
    )
    return "\n\n".join((
        table(["answer", *settings], lines), text,
        table(["of MACD's mask also hidden", "clips", "gain of random places"], least),
    ))  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the tables and writes the report beside the draws."""
    parser = command_line("evals.studies.one_mask", __doc__)
    parser.add_argument("--draws", type=Path, default=FOLDER / "draws.json.xz")
    parser.add_argument("--out", type=Path, default=FOLDER / "one-mask.json", help="a JSON file")

    def run(args: Any) -> str:
        rows = sorted(stored(args.draws).values(), key=lambda r: r.item.startswith("test"))
        tuning = sum(not r.item.startswith("test") for r in rows)
        if not 0 < tuning < len(rows):
            raise OptionError(
                f"{args.draws.name} holds no draws of both splits",
                "Read them by `python -m evals.studies.control_draws`",
            )
        return told(report_of(rows, truths(rows), tuning), markdown, args.out)

    return command(parser, run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
