"""How carefully each rater worked, by the rules that the preregistration fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from macd_studio.ratings.answers import Answer, Screen, main_answers
from macd_studio.ratings.plan import GOLD, REPEAT, TRAINING
from macd_studio.ratings.preregistration import (
    AGREEMENT_LEAST,
    GOLD_LEAST,
    SECONDS_LEAST,
    SPREAD_LEAST,
)
from macd_studio.ratings.stats import Z, spearman

LEAST_RATINGS = 6
"""Below these a rater's spread and correlation say nothing."""


@dataclass(frozen=True)
class Quality:
    """One rater. NaN where there is nothing to judge by.

    done: share of the screens they went through. gold: share of known ratings met. repeat_same,
    repeat_apart: share of equal ratings, and mean distance, where a screen came twice. spread:
    standard deviation of the main ratings. others: correlation with the mean of the other raters
    over the same masks, of which there are `compared`. seconds: median on an item. reasons: why
    the report names them.
    """

    rater: int
    done: float
    ratings: int
    skipped: int
    flagged: int
    gold: float
    gold_count: int
    repeat_same: float
    repeat_apart: float
    spread: float
    others: float
    compared: int
    seconds: float
    reasons: tuple[str, ...]


def judge_raters(answers: Sequence[Answer], screens: Sequence[Screen]) -> list[Quality]:
    """Every rater who has begun, by number."""
    main = main_answers(answers, screens)
    begun = sorted({a.rater for a in answers if a.rating is not None} | {
        s.rater for s in screens if s.done})  # fmt: skip
    return [_judge(r, answers, screens, main) for r in begun]


def _judge(
    rater: int, answers: Sequence[Answer], screens: Sequence[Screen], main: Sequence[Answer]
) -> Quality:
    own = [s for s in screens if s.rater == rater and s.part != TRAINING]
    rated = [a for a in main if a.rater == rater]
    values = [float(a.rating or 0) for a in rated]
    known = [a for a in answers if a.rater == rater and a.part == GOLD and a.rating is not None]
    met = [(a.low or 1) <= (a.rating or 0) <= (a.high or 5) for a in known]
    pairs = _repeated(rater, answers)
    seconds = [s.seconds for s in own if s.seconds is not None and s.done and not s.skipped]
    others, compared = _with_others(rated, main)
    quality = Quality(
        rater=rater,
        done=sum(s.done for s in own) / max(len(own), 1),
        ratings=len(rated),
        skipped=sum(s.skipped for s in own),
        flagged=sum(bool(s.notes) for s in own),
        gold=_mean([float(m) for m in met]),
        gold_count=len(met),
        repeat_same=_mean([float(a == b) for a, b in pairs]),
        repeat_apart=_mean([float(abs(a - b)) for a, b in pairs]),
        spread=float(np.std(values, ddof=1)) if len(values) >= LEAST_RATINGS else float("nan"),
        others=others,
        compared=compared,
        seconds=float(np.median(seconds)) if seconds else float("nan"),
        reasons=(),
    )
    return Quality(**{**vars(quality), "reasons": tuple(_reasons(quality))})


def _reasons(q: Quality) -> list[str]:
    reasons = []
    if q.gold_count >= 2 and q.gold < GOLD_LEAST:
        reasons.append(f"meets {q.gold:.0%} of the known ratings")
    if q.spread < SPREAD_LEAST:
        reasons.append("gives nearly always the same rating")
    if q.compared >= LEAST_RATINGS and _upper(q.others, q.compared) < AGREEMENT_LEAST:
        reasons.append(f"disagrees with the others (correlation {q.others:.2f})")
    if q.seconds < SECONDS_LEAST:
        reasons.append(f"takes {q.seconds:.1f} s an item")
    return reasons


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _repeated(rater: int, answers: Sequence[Answer]) -> list[tuple[int, int]]:
    first = {
        (a.task, a.arm): a.rating for a in answers if a.rater == rater and a.rating is not None
    }
    pairs = []
    for a in answers:
        if a.rater == rater and a.part == REPEAT and a.rating is not None and a.repeats:
            before = first.get((a.repeats, a.arm))
            if before is not None:
                pairs.append((before, a.rating))
    return pairs


def _with_others(rated: Sequence[Answer], main: Sequence[Answer]) -> tuple[float, int]:
    others: dict[tuple[int, str], list[int]] = {}
    rater = rated[0].rater if rated else None
    for a in main:
        if a.rater != rater:
            others.setdefault((a.clip, a.arm), []).append(a.rating or 0)
    both = [(a.rating or 0, float(np.mean(others[a.clip, a.arm]))) for a in rated
            if (a.clip, a.arm) in others]  # fmt: skip
    if len(both) < LEAST_RATINGS:
        return float("nan"), len(both)
    return spearman([float(x) for x, _ in both], [y for _, y in both]), len(both)


def _upper(correlation: float, count: int) -> float:
    """The upper end of a correlation's 95 % interval, by Fisher's transformation."""
    return float(np.tanh(np.arctanh(np.clip(correlation, -0.999, 0.999)) + Z / np.sqrt(count - 3)))
