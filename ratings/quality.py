"""How carefully each rater worked, by the rules that the preregistration fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from macd_studio.core.statistics import Z, spearman
from macd_studio.ratings.answers import Answer, Screen, left_and_decided, main_answers
from macd_studio.ratings.events import HIGH, LOW
from macd_studio.ratings.plan import ADJUDICATED, GOLD, PAIRS, RATINGS, REPEAT, TRAINING
from macd_studio.ratings.preregistration import (
    AGREEMENT_LEAST,
    ALARM,
    APART,
    FAR,
    MIN_SEEN,
    SECONDS_LEAST,
    SLIPS,
    SPREAD_LEAST,
)


@dataclass(frozen=True)
class Quality:
    """One rater. NaN where there is nothing to judge by.

    In a study of pairs one preference rates both masks of a screen, so that only the left mask is
    counted: two numbers that follow from each other are no two observations.
    """

    rater: int
    done: float
    """Share of the screens they went through."""
    ratings: int
    skipped: int
    flagged: int
    gold: float
    """Share of known ratings met."""
    gold_count: int
    repeat_same: float
    repeat_apart: float
    repeat_far: float
    """`repeat_same`, `repeat_apart` and `repeat_far`: of `repeated` masks seen twice, the share of
    equal ratings, the mean distance, and the share two points or more apart once the rater's lean
    to a side is taken out (`_far`)."""
    repeated: int
    left: float
    """Of `decided` screens, the share on which the left mask got the higher rating."""
    decided: int
    spread: float
    """Standard deviation of the main ratings."""
    others: float
    """Correlation with the mean of the other raters over the same masks, of which there are
    `compared`."""
    compared: int
    seconds: float
    """Median time on an item, of `timed` items."""
    timed: int
    reasons: tuple[str, ...]
    """Why the report names them."""
    rules: tuple[str, ...]
    """The same reasons as words of RULES."""


RULES = ("known items", "repeats", "sides", "one rating", "time", "others")
"""What a rater may be named for, in the order of `reasons`."""


def judge_raters(
    answers: Sequence[Answer], screens: Sequence[Screen], scale: str = RATINGS
) -> list[Quality]:
    """Every rater who has begun, by number; no adjudicator. scale: of `plan.SCALES`."""
    main = main_answers(answers, screens)
    begun = sorted(
        {a.rater for a in answers if a.rating is not None and a.part != ADJUDICATED}
        | {s.rater for s in screens if s.done and s.part != ADJUDICATED}
    )
    return [judge_rater(r, answers, screens, main, scale) for r in begun]


def judge_rater(
    rater: int,
    answers: Sequence[Answer],
    screens: Sequence[Screen],
    main: Sequence[Answer],
    scale: str = RATINGS,
) -> Quality:
    """One rater by number. main: what the analysis is over, `answers.main_answers`."""
    own = [s for s in screens if s.rater == rater and s.part != TRAINING]
    both = [a for a in main if a.rater == rater]
    rated = [a for a in both if scale == RATINGS or a.side == 0]
    values = [float(a.rating or 0) for a in both]
    known = [a for a in answers if a.rater == rater and a.part == GOLD and a.rating is not None]
    met = [_is_met(a) for a in known if scale == RATINGS or a.side == 0]
    pairs = [z for z in _repeated(rater, answers) if scale == RATINGS or z[1].side == 0]
    apart = [abs((b.rating or 0) - (a.rating or 0)) for a, b in pairs]
    seconds = [s.seconds for s in own if s.seconds is not None and s.done and not s.skipped]
    others, compared = _with_others(rated, main)
    left, decided = left_and_decided(both)
    quality = Quality(
        rater=rater,
        done=sum(s.done for s in own) / max(len(own), 1),
        ratings=len(rated),
        skipped=sum(s.skipped for s in own),
        flagged=sum(bool(s.notes) for s in own),
        gold=_mean([float(m) for m in met]),
        gold_count=len(met),
        repeat_same=_mean([float(z == 0) for z in apart]),
        repeat_apart=_mean([float(z) for z in apart]),
        repeat_far=_far(pairs, scale),
        repeated=len(pairs),
        left=left / decided if decided else float("nan"),
        decided=decided,
        spread=float(np.std(values, ddof=1)) if len(values) >= MIN_SEEN else float("nan"),
        others=others,
        compared=compared,
        seconds=float(np.median(seconds)) if seconds else float("nan"),
        timed=len(seconds),
        reasons=(),
        rules=(),
    )
    found = _reasons(quality, scale)
    return replace(quality, reasons=tuple(found.values()), rules=tuple(found))


def _reasons(q: Quality, scale: str) -> dict[str, str]:
    """By the rule, of RULES, why the rater is named."""
    from scipy.stats import binomtest  # takes half a second, and the page starts without

    missed = round(q.gold_count * (1 - q.gold)) if q.gold_count else 0
    far = round(q.repeated * q.repeat_far) if q.repeated else 0
    left = round(q.decided * q.left) if q.decided else 0
    twice = f"rates {q.repeat_far:.0%} of the masks seen twice {APART} points or more apart"
    if scale == PAIRS:
        twice = f"decides {q.repeat_far:.0%} of the screens seen twice the opposite way"
    to_left = "gives the left mask the higher rating"
    if scale == PAIRS:
        to_left = "prefers the left mask"
    found = {
        "known items": (
            _is_unlikely(missed, q.gold_count, SLIPS),
            f"meets {q.gold:.0%} of the known ratings",
        ),
        "repeats": (
            _is_unlikely(far, q.repeated, FAR[scale]),
            f"{twice}, their lean to a side taken out",
        ),
        "sides": (
            q.decided >= MIN_SEEN and binomtest(left, q.decided).pvalue < ALARM,
            f"{to_left} on {q.left:.0%} of {q.decided} screens",
        ),
        "one rating": (q.spread < SPREAD_LEAST, "gives nearly always the same rating"),
        "time": (
            q.timed >= MIN_SEEN and q.seconds < SECONDS_LEAST,
            f"takes {q.seconds:.1f} s an item",
        ),
        "others": (
            q.compared >= MIN_SEEN and _upper(q.others, q.compared) < AGREEMENT_LEAST,
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


def _repeated(rater: int, answers: Sequence[Answer]) -> list[tuple[Answer, Answer]]:
    """Both answers to every mask that the rater saw twice, the first one first."""
    first = {(a.task, a.arm): a for a in answers if a.rater == rater and a.rating is not None}
    pairs = []
    for a in answers:
        if a.rater == rater and a.part == REPEAT and a.rating is not None and a.repeats:
            before = first.get((a.repeats, a.arm))
            if before is not None:
                pairs.append((before, a))
    return pairs


def _far(pairs: Sequence[tuple[Answer, Answer]], scale: str) -> float:
    """The share of masks seen twice whose ratings are APART or more apart, the lean taken out.

    In a study of pairs these are screens on which first one mask was preferred and then the other.
    A lean to a side turns preferences to that side only, and noise to both alike. So the ones to
    the side with fewer of them count, and as many to the other side; the rest is the lean.
    """
    if scale != PAIRS or not pairs:
        return _mean([float(z >= APART) for z in _without_lean(pairs)])
    turned = [((b.rating or 0) - (a.rating or 0)) * (a.side - b.side) for a, b in pairs]
    left, right = (sum(sign * t >= APART for t in turned) for sign in (1, -1))
    return 2 * min(left, right) / len(pairs)


def _without_lean(pairs: Sequence[tuple[Answer, Answer]]) -> list[float]:
    """How far both ratings of each mask are apart, without the rater's lean to a side.

    A screen comes again with its sides exchanged, so that a lean moves the ratings of every mask
    apart however steady the rater is. lean: the mean of what a mask got more on the left than on
    the right, in whole points, as ratings are; 0 where screens show one mask.
    """
    more = [(b.rating or 0) - (a.rating or 0) for a, b in pairs]
    to_left = [a.side - b.side for a, b in pairs]
    lean = round(_mean([m * z for m, z in zip(more, to_left, strict=True)])) if pairs else 0
    return [abs(m - lean * z) for m, z in zip(more, to_left, strict=True)]


def _with_others(rated: Sequence[Answer], main: Sequence[Answer]) -> tuple[float, int]:
    others: dict[tuple[int, str], list[int]] = {}
    rater = rated[0].rater if rated else None
    for a in main:
        if a.rater != rater:
            others.setdefault((a.clip, a.arm), []).append(a.rating or 0)
    both = [(a.rating or 0, float(np.mean(others[a.clip, a.arm]))) for a in rated
            if (a.clip, a.arm) in others]  # fmt: skip
    if len(both) < MIN_SEEN:
        return float("nan"), len(both)
    return spearman([float(x) for x, _ in both], [y for _, y in both]), len(both)


def _upper(correlation: float, count: int) -> float:
    """The upper end of a correlation's 95 % interval, by Fisher's transformation."""
    return float(np.tanh(np.arctanh(np.clip(correlation, -0.999, 0.999)) + Z / np.sqrt(count - 3)))
