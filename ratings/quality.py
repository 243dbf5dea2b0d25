"""How carefully each rater worked, by the rules that the preregistration fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from macd_studio.ratings.answers import Answer, Screen, main_answers
from macd_studio.ratings.events import HIGH, LOW
from macd_studio.ratings.plan import GOLD, REPEAT, TRAINING
from macd_studio.ratings.preregistration import (
    AGREEMENT_LEAST,
    ALARM,
    APART,
    FAR,
    LEAST_SEEN,
    SECONDS_LEAST,
    SLIPS,
    SPREAD_LEAST,
)
from macd_studio.ratings.stats import Z, spearman


@dataclass(frozen=True)
class Quality:
    """One rater. NaN where there is nothing to judge by.

    done: share of the screens they went through. gold: share of known ratings met. repeat_same,
    repeat_apart, repeat_far: of `repeated` masks seen twice, the share of equal ratings, the mean
    distance, and the share two points or more apart. left: of `decided` screens, the share on which
    the left mask got the higher rating. spread: standard deviation of the main ratings. others:
    correlation with the mean of the other raters over the same masks, of which there are
    `compared`. seconds: median on an item, of `timed`. reasons: why the report names them; rules:
    the same as words of RULES.
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
    repeat_far: float
    repeated: int
    left: float
    decided: int
    spread: float
    others: float
    compared: int
    seconds: float
    timed: int
    reasons: tuple[str, ...]
    rules: tuple[str, ...]


RULES = ("known items", "repeats", "sides", "one rating", "time", "others")
"""What a rater may be named for, in the order of `reasons`."""


def judge_raters(answers: Sequence[Answer], screens: Sequence[Screen]) -> list[Quality]:
    """Every rater who has begun, by number."""
    main = main_answers(answers, screens)
    begun = sorted({a.rater for a in answers if a.rating is not None} | {
        s.rater for s in screens if s.done})  # fmt: skip
    return [judge_rater(r, answers, screens, main) for r in begun]


def judge_rater(
    rater: int, answers: Sequence[Answer], screens: Sequence[Screen], main: Sequence[Answer]
) -> Quality:
    """One rater by number. main: what the analysis is over, `answers.main_answers`."""
    own = [s for s in screens if s.rater == rater and s.part != TRAINING]
    rated = [a for a in main if a.rater == rater]
    values = [float(a.rating or 0) for a in rated]
    known = [a for a in answers if a.rater == rater and a.part == GOLD and a.rating is not None]
    met = [_is_met(a) for a in known]
    pairs = _repeated(rater, answers)
    seconds = [s.seconds for s in own if s.seconds is not None and s.done and not s.skipped]
    others, compared = _with_others(rated, main)
    left, decided = _sides(rated)
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
        repeat_far=_mean([float(abs(a - b) >= APART) for a, b in pairs]),
        repeated=len(pairs),
        left=left / decided if decided else float("nan"),
        decided=decided,
        spread=float(np.std(values, ddof=1)) if len(values) >= LEAST_SEEN else float("nan"),
        others=others,
        compared=compared,
        seconds=float(np.median(seconds)) if seconds else float("nan"),
        timed=len(seconds),
        reasons=(),
        rules=(),
    )
    found = _reasons(quality)
    return replace(quality, reasons=tuple(found.values()), rules=tuple(found))


def _reasons(q: Quality) -> dict[str, str]:
    """By the rule, of RULES, why the rater is named."""
    from scipy.stats import binomtest  # takes half a second, and the page starts without

    missed = round(q.gold_count * (1 - q.gold)) if q.gold_count else 0
    far = round(q.repeated * q.repeat_far) if q.repeated else 0
    left = round(q.decided * q.left) if q.decided else 0
    found = {
        "known items": (
            _is_unlikely(missed, q.gold_count, SLIPS),
            f"meets {q.gold:.0%} of the known ratings",
        ),
        "repeats": (
            _is_unlikely(far, q.repeated, FAR),
            f"rates {q.repeat_far:.0%} of the masks seen twice {APART} points or more apart",
        ),
        "sides": (
            q.decided >= LEAST_SEEN and binomtest(left, q.decided).pvalue < ALARM,
            f"gives the left mask the higher rating on {q.left:.0%} of {q.decided} screens",
        ),
        "one rating": (q.spread < SPREAD_LEAST, "gives nearly always the same rating"),
        "time": (
            q.timed >= LEAST_SEEN and q.seconds < SECONDS_LEAST,
            f"takes {q.seconds:.1f} s an item",
        ),
        "others": (
            q.compared >= LEAST_SEEN and _upper(q.others, q.compared) < AGREEMENT_LEAST,
            f"disagrees with the others (correlation {q.others:.2f})",
        ),
    }
    return {rule: words for rule, (named, words) in found.items() if named}


def _is_met(a: Answer) -> bool:
    low, high = LOW if a.low is None else a.low, HIGH if a.high is None else a.high
    return a.rating is not None and low <= a.rating <= high


def _is_unlikely(seen: int, of: int, usual: float) -> bool:
    """Whether so many or more of them have a probability below ALARM, where each has `usual`."""
    from scipy.stats import binom

    return seen > 0 and bool(binom.sf(seen - 1, of, usual) < ALARM)


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


def _sides(rated: Sequence[Answer]) -> tuple[int, int]:
    """On how many screens the left mask got the higher rating, and on how many one of both did."""
    screens: dict[str, dict[int, int]] = {}
    for a in rated:
        screens.setdefault(a.task, {})[a.side] = a.rating or 0
    pairs = [s for s in screens.values() if len(s) == 2]
    return sum(s[0] > s[1] for s in pairs), sum(s[0] != s[1] for s in pairs)


def _with_others(rated: Sequence[Answer], main: Sequence[Answer]) -> tuple[float, int]:
    others: dict[tuple[int, str], list[int]] = {}
    rater = rated[0].rater if rated else None
    for a in main:
        if a.rater != rater:
            others.setdefault((a.clip, a.arm), []).append(a.rating or 0)
    both = [(a.rating or 0, float(np.mean(others[a.clip, a.arm]))) for a in rated
            if (a.clip, a.arm) in others]  # fmt: skip
    if len(both) < LEAST_SEEN:
        return float("nan"), len(both)
    return spearman([float(x) for x, _ in both], [y for _, y in both]), len(both)


def _upper(correlation: float, count: int) -> float:
    """The upper end of a correlation's 95 % interval, by Fisher's transformation."""
    return float(np.tanh(np.arctanh(np.clip(correlation, -0.999, 0.999)) + Z / np.sqrt(count - 3)))
