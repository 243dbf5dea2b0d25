"""Printed figures that are no yes/no metrics and yet cannot be, or cannot all be.

Moments of ratings against inequalities that hold for any scale; and figures of one quantity in two
tables of the paper. Says what follows from the printed figures, and nothing of why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from macd_studio.core.statistics import least_sd
from macd_studio.evals.paper.published import PublishedRow, PublishedTable, decimals

CHANCE_OF_THREE = 1 / 3


def most_at_least(mean: float, deviation: float, threshold: float) -> float:
    """The largest share of values at or above a threshold over the mean, on any scale.

    Cantelli's inequality, σ²/(σ² + (threshold − mean)²); 1 for a threshold at or below the mean.

    >>> round(most_at_least(3.105, 0.655, 4), 3)
    0.349
    """
    if threshold <= mean:
        return 1.0
    variance = deviation**2
    return variance / (variance + (threshold - mean) ** 2)


def findings(published: Mapping[str, PublishedTable]) -> Iterator[str]:
    """A sentence for each; none for a table that is not there."""
    for row in _rows(published, "mask_quality"):
        yield from _rating(row)
    by_fusion = {r.labels["method"]: r for r in _rows(published, "fusion")}
    by_threshold = {r.labels["setting"]: r for r in _rows(published, "detector_threshold")}
    default = next((r for s, r in by_threshold.items() if "default" in s), None)
    largest = by_fusion.get("pixelwise max")
    if default and largest:
        name = "hallucination_rate_percent"
        yield (
            f"The hallucination rate of the default setting is {largest.figures[name]} % in the"
            f" table of fusions and {default.figures[name]} % in that of detector thresholds."
        )
    slow = _first(published, "latency", "Baseline")
    quick = _first(published, "memory", "Baseline")
    if slow and quick:
        yield (
            f"Plain decoding takes {slow.figures['latency_ms']} ms at the smaller budget"
            f" ({slow.labels['setting']}) and {quick.figures['latency_ms']} ms in the table of"
            " memory, which names no smaller one."
        )
    others = _rows(published, "main_other")
    tests = [r for r in others if r.labels["benchmark"] == "Perception Test"]
    contrasted = [r for r in tests if r.labels["method"] in ("VCD", "SID")]
    near = [r for r in contrasted if abs(_accuracy(r) - CHANCE_OF_THREE) <= 0.05]
    if near:
        models = {r.labels["model"] for r in near}
        without = [
            _accuracy(r)
            for r in tests
            if r.labels["method"] == "Baseline" and r.labels["model"] in models
        ]
        low, high = min(map(_accuracy, near)), max(map(_accuracy, near))
        yield (
            f"VCD and SID get {low:.2f} to {high:.2f} on Perception Test, a choice of three, in"
            f" {len(near)} of {len(contrasted)} rows: within .05 of guessing, where the same"
            f" backbones get {min(without):.2f} to {max(without):.2f} without them."
        )
    plain = [r for r in others if r.labels["method"] == "Baseline"]
    for i, first in enumerate(plain):
        for second in plain[i + 1 :]:
            same = first.labels["benchmark"] == second.labels["benchmark"]
            if same and first.figures["accuracy"] == second.figures["accuracy"]:
                yield (
                    f"The baselines of {first.labels['model']} and {second.labels['model']} are"
                    f" both {first.figures['accuracy']} on {first.labels['benchmark']}."
                )
    rates = _rows(published, "learning_rate")
    if len({r.figures["accuracy"] for r in rates}) > 1:
        printed = " and ".join(r.figures["accuracy"] for r in rates)
        yield (
            f"Rows that differ in the learning rate alone print {printed}. With one step and three"
            " levels the rate cannot change an answer: only the gradient's sign counts."
        )


def _rating(row: PublishedRow) -> Iterator[str]:
    """Whether mean, deviation and share of a rating row can be together, at their rounding."""
    mean, deviation, percent = (
        row.figures[n] for n in ("mean", "standard_deviation", "percent_4_or_more")
    )
    half = [0.5 * 10 ** -decimals(z) for z in (mean, deviation, percent)]
    largest = most_at_least(float(mean) + half[0], float(deviation) + half[1], 4)
    least = (float(percent) - 0.5) / 100  # a whole percent, however it is printed
    if largest >= least:
        return
    needed = least_sd(float(mean) + half[0], least)
    yield (
        f"Ratings of {row.labels['method']}: a mean of {mean} with a standard deviation of"
        f" {deviation} leaves at most {100 * largest:.1f} % at 4 or above on any scale, and"
        f" {float(percent):g} % is printed; whole ratings from 1 to 5 with that share need a"
        f" deviation of {needed:.2f}. Unless the units differ (raters, videos), the row cannot be."
    )


def _accuracy(row: PublishedRow) -> float:
    return float(row.figures["accuracy"])


def _rows(published: Mapping[str, PublishedTable], name: str) -> list[PublishedRow]:
    return list(published[name].rows) if name in published else []


def _first(published: Mapping[str, PublishedTable], name: str, method: str) -> PublishedRow | None:
    return next((r for r in _rows(published, name) if r.labels["method"] == method), None)
