"""The figures of a study, as plain values: what the organiser's page, Markdown and HTML show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

import numpy as np

from macd_studio.ratings.adjudication import adjudication_figures
from macd_studio.ratings.answers import (
    Answer,
    conflicts_of,
    coverage_of,
    details_of,
    forks_of,
    main_answers,
    matrix,
    objects_of,
    paired_values,
    read_answers,
    read_screens,
)
from macd_studio.ratings.branches import fork_lines
from macd_studio.ratings.events import HIGH, MOST_LOW, REASONS
from macd_studio.ratings.inference import RANGES, bounded, paired_difference
from macd_studio.ratings.overlap import control_figures, left_out_sizes
from macd_studio.ratings.plan import ADJUDICATED, GOLD, MAIN, PAIRS, TRAINING
from macd_studio.ratings.preferences import pairs_of, preference_figures
from macd_studio.ratings.preregistration import RESAMPLES, TARGETS, plan_of
from macd_studio.ratings.quality import Quality, judge_raters
from macd_studio.ratings.roster import Rater
from macd_studio.ratings.stats import (
    GOOD,
    Estimate,
    alpha_interval,
    interval,
    mean_interval,
    power,
    quadratic_kappa,
    spearman,
    spread_interval,
    wilson,
)
from macd_studio.ratings.store import Study

PAPER = {
    "what": "the paper's own study: 50 EventHallusion videos, no interval, no agreement reported",
    "arms": {
        "random-mask": {"mean": 2.40, "sd": 0.70, "at_least_4": 0.10},
        "macd": {"mean": 3.10, "sd": 0.65, "at_least_4": 0.38},
    },
}
LIKE_THE_PAPER = {"random-mask", "random-place"}
"""Arms of which the paper's random mask may be one; `random-elsewhere` is another quantity."""
SEED = 0
ALPHA_DRAWS = 2000
"""Of the bootstrap of alpha, which the organiser's page and the report both show: one interval."""
LEAST_TO_STOP = 3
"""Raters who were not named, below which nothing is said of when to stop."""
TOO_FEW = "When to stop is not told before three raters who were not named have rated."
LEAST_CONTRAST = 0.05
"""Spread over arms of the share hidden of an object, below which ratings say nothing about it."""


def figures(study: Study, resamples: int = RESAMPLES) -> dict[str, Any]:
    """Everything the report shows; also without a single rating. No NaN: what is unknown is None.

    resamples: of every bootstrap but that of alpha.
    """
    plan = study.preregistration
    answers, screens = read_answers(study), read_screens(study)
    main = main_answers(answers, screens)
    quality = judge_raters(answers, screens, study.scale)
    named = [q.rater for q in quality if q.reasons]
    raters = study.raters()
    by_id = {r.id: r for r in raters}
    names = {r.id: r.name for r in raters}
    arms = list(plan["arms"])
    clean = [a for a in main if a.rater not in named]
    judges = {s.rater for s in screens if s.part == ADJUDICATED}
    pairs, planned = study.scale == PAIRS, plan_of(study.scale)
    out: dict[str, Any] = {
        "study": {
            "id": study.id,
            "design": study.design,
            "scale": study.scale,
            "state": study.state,
            "arms": arms,
            "sha256": study.preregistration_sha256,
            "items": sum(i["part"] == MAIN for i in study.items),
            "left_out": study.left_out,
            "raters_planned": plan["raters"],
            "raters_invited": len({r.id for r in raters} - judges),
            "raters_begun": len(quality),
            "simulated_raters": sum(bool(r.simulated) for r in raters),
            "ratings": len(pairs_of(main)) if pairs else len(main),
            "plan": plan["analysis"],
            "changed": [k for k in planned if plan["analysis"].get(k) != planned[k]],
            "known": _known(study),
        },
        "paper": PAPER if LIKE_THE_PAPER & set(arms[1:]) and not pairs else None,
        "arms": {} if pairs else {arm: _arm(main, arm, resamples) for arm in arms},
        "preferences": preference_figures(main, screens, arms, min(resamples, 1000), SEED)
        if pairs
        else None,
        "differences": _differences(study.scale, main, arms, names, named),
        "differences_without_named": _differences(study.scale, clean, arms, names, named)
        if named
        else {},
        "named": [names[r] for r in named],
        "adjudication": adjudication_figures(
            main, answers, screens, raters, arms, named, study.scale
        ),
        "agreement": _agreement(main, names),
        "sides": _sides(main),
        "reasons": {arm: _reasons([a for a in main if a.arm == arm]) for arm in arms},
        "gradient": _gradient(study, main, arms, resamples),
        "raters": [_rater(q, by_id[q.rater]) for q in quality],
        "areas": _areas(study, arms),
        "controls": control_figures(study, main, arms),
        "left_out_sizes": left_out_sizes(study.left_out),
        "conflicts": len(conflicts_of(study)),
        "forks": [asdict(fork) | {"text": "; ".join(fork_lines(fork))} for fork in forks_of(study)],
    }
    cleaned: dict[str, Any] = _without_nan(out)
    return cleaned


def progress(study: Study, resamples: int = 500) -> dict[str, Any]:
    """What the organiser's page shows while the study runs: nothing of which arm is ahead."""
    full = figures(study, resamples)
    answers, screens = read_answers(study), read_screens(study)
    items = {}
    for item in study.items:
        if item["part"] == MAIN:
            rated = {a.rater for a in main_answers(answers, screens) if a.clip == item["number"]}
            items[item["number"]] = {
                "clip": item["clip"], "question": item["question"], "raters": len(rated),
                "notes": [n for s in screens if s.clip == item["number"] for n in s.notes],
            }  # fmt: skip
    by_rater = {q["rater"]: q for q in full["raters"]}
    raters = []
    for rater in study.raters():
        own = [s for s in screens if s.rater == rater.id and s.part != TRAINING]
        raters.append(
            {"rater": rater.name, "revoked": rater.revoked, "simulated": bool(rater.simulated),
             "screens": len(own), "done": sum(s.done for s in own)}
            | {
                k: v
                for k, v in by_rater.get(rater.name, {}).items()
                if k not in ("done", "simulated")
            }
        )  # fmt: skip
    first: dict[str, Any] = next(iter(full["differences"].values()), {})
    return {
        "study": full["study"],
        "items": list(items.values()),
        "raters": raters,
        "agreement": full["agreement"],
        "sides": full["sides"],
        "forks": full["forks"],
        "power": first.get("power"),
        "target": TARGETS[study.scale],
        "half_width": first.get("half_width"),
        "too_few_to_stop": first.get("too_few_to_stop", TOO_FEW),
    }


def _known(study: Study) -> dict[str, int]:
    """Known items of either kind that raters are shown now, and proposals that were not decided."""
    roles = list(study.confirmed().values())
    parts = [i["part"] for i in study.items]
    return {
        "training": parts.count(TRAINING) + roles.count(TRAINING),
        "hidden": parts.count(GOLD) + roles.count(GOLD),
        "undecided": roles.count(""),
        "refused": roles.count("no"),
    }


def _places(answers: Sequence[Answer]) -> tuple[list[int], list[int]]:
    return sorted({a.rater for a in answers}), sorted({a.clip for a in answers})


def _arm(main: Sequence[Answer], arm: str, resamples: int) -> dict[str, Any]:
    own = [a for a in main if a.arm == arm]
    values = matrix(own, arm, *_places(own))
    good = np.where(np.isfinite(values), values >= GOOD, np.nan)
    return {
        "ratings": len(own),
        "mean": _estimate(mean_interval(values, resamples, SEED)),
        "sd": _estimate(spread_interval(values, resamples, SEED)),
        "at_least_4": _estimate(mean_interval(good, resamples, SEED)),
        "counts": [sum(a.rating == v for a in own) for v in range(1, HIGH + 1)],
    }


def _differences(
    scale: str,
    main: Sequence[Answer],
    arms: Sequence[str],
    names: dict[int, str],
    named: Sequence[int],
) -> dict[str, Any]:
    """By the other arm. named: raters whom a rule names, who do not count for when to stop."""
    out = {}
    places = _places(main)
    unnamed = [i for i, rater in enumerate(places[0]) if rater not in named]
    for other in arms[1:]:
        values = paired_values(main, arms[0], other, *places, scale)
        found = paired_difference(values)
        enough = np.isfinite(values[unnamed]).any(1).sum() >= LEAST_TO_STOP
        meter = power(values[unnamed], TARGETS[scale]) if enough and found.spread else None
        out[other] = {
            "first": arms[0],
            "pairs": int(np.isfinite(values).sum()),
            "raters": int(np.isfinite(values).any(1).sum()),
            "difference": bounded(found.primary, scale),
            "these": bounded(found.these, scale),
            "by_rater": {
                names[rater]: int(n)
                for rater, n in zip(places[0], np.isfinite(values).sum(1), strict=True)
                if n
            },
            "own": {names[places[0][row]]: bounded(e, scale) for row, e in found.own.items()},
            "spread": found.spread,
            "half_width": min(found.primary.half_width, (RANGES[scale][1] - RANGES[scale][0]) / 2),
            "too_few_to_stop": "" if enough else TOO_FEW,
            "power": None
            if meter is None
            else {
                "expected_half_width": meter.half_width,
                "more_raters": meter.raters,
                "more_clips": meter.clips,
                "more_pairs": None if meter.raters is None else meter.raters * values.shape[1],
            },
        }
    return out


def _agreement(main: Sequence[Answer], names: dict[int, str]) -> dict[str, Any]:
    least = min((a.rating or 0 for a in main), default=1)
    shift = 1 if least == 0 else 0  # preferences begin at 0, the levels of alpha at 1
    units: dict[tuple[int, str], list[int]] = {}
    by_rater: dict[int, dict[tuple[int, str], int]] = {}
    for a in main:
        assert a.rating is not None
        units.setdefault((a.clip, a.arm), []).append(a.rating + shift)
        by_rater.setdefault(a.rater, {})[a.clip, a.arm] = a.rating + shift
    estimate = alpha_interval(
        list(units.values()), [clip for clip, _ in units], HIGH, ALPHA_DRAWS, SEED
    )
    kappas = []
    for one, two in combinations(sorted(by_rater), 2):
        both = sorted(by_rater[one].keys() & by_rater[two].keys())
        if both:
            value = quadratic_kappa(
                [by_rater[one][u] for u in both], [by_rater[two][u] for u in both], HIGH
            )
            pair = [names[one], names[two]]
            kappas.append({"raters": pair, "masks": len(both), "kappa": value})
    return {
        "masks": sum(len(z) > 1 for z in units.values()),
        "alpha": _estimate(estimate),
        "kappas": kappas,
    }


def _reasons(own: Sequence[Answer]) -> dict[str, Any]:
    """Why masks of an arm were rated low; a rating may have several reasons, or none."""
    low = [a for a in own if a.rating is not None and a.rating <= MOST_LOW]
    return {
        "low": len(low),
        "given": {word: sum(word in a.reasons for a in low) for word in REASONS},
        "without": sum(not a.reasons for a in low),
    }


def _sides(main: Sequence[Answer]) -> dict[str, Any]:
    """How often the left mask got the higher rating, of the screens where one did."""
    screens: dict[str, dict[int, int]] = {}
    for a in main:
        screens.setdefault(a.task, {})[a.side] = a.rating or 0
    pairs = [s for s in screens.values() if len(s) == 2]
    left = sum(s[0] > s[1] for s in pairs)
    decided = sum(s[0] != s[1] for s in pairs)
    return {"screens": len(pairs), "decided": decided, "left": _estimate(wilson(left, decided))}


def _gradient(
    study: Study, main: Sequence[Answer], arms: Sequence[str], resamples: int
) -> dict[str, Any]:
    """Whether raters favour hiding the objects that the model's loss depends on.

    For each object: the slope, over the arms of its clip, of the mean rating on the share of the
    object that the arm hides; Spearman's correlation of that with the gradient over all objects.
    """
    means: dict[tuple[int, str], float] = {}
    for clip, arm in {(a.clip, a.arm) for a in main}:
        ratings = [a.rating or 0 for a in main if (a.clip, a.arm) == (clip, arm)]
        means[clip, arm] = float(np.mean(ratings))
    shares = coverage_of(study)
    rows = []
    for clip, tracks in sorted(objects_of(study).items()):
        there = [arm for arm in arms if (clip, arm) in means]
        for track, (label, gradient) in tracks.items():
            hidden = np.array([shares.get((clip, arm), {}).get(track, 0.0) for arm in there])
            if gradient is None or len(there) < 2 or np.ptp(hidden) < LEAST_CONTRAST:
                continue
            rated = np.array([means[clip, arm] for arm in there])
            apart = hidden - hidden.mean()
            slope = float((apart * (rated - rated.mean())).sum() / (apart**2).sum())
            rows.append(
                {"clip": clip, "track": track, "label": label, "gradient": gradient, "slope": slope}
            )
    return {"objects": rows, "correlation": _estimate(_correlation(rows, resamples))}


def _correlation(rows: Sequence[dict[str, Any]], resamples: int) -> Estimate:
    """Spearman's correlation of gradient and slope, with a bootstrap interval over clips."""

    def of(chosen: Sequence[dict[str, Any]]) -> float:
        return spearman([r["gradient"] for r in chosen], [r["slope"] for r in chosen])

    by_clip: dict[int, list[dict[str, Any]]] = {}
    for r in rows:
        by_clip.setdefault(r["clip"], []).append(r)
    groups, rng = list(by_clip.values()), np.random.default_rng(SEED)
    draws = [
        of([r for g in rng.integers(len(groups), size=len(groups)) for r in groups[g]])
        for _ in range(min(resamples, 1000) if groups else 0)
    ]
    return interval(of(rows), np.asarray(draws, np.float64))


def _areas(study: Study, arms: Sequence[str]) -> dict[str, Any]:
    """Hidden pixels of each arm over those of the first: over the main items."""
    details = details_of(study)
    clips = [i["number"] for i in study.items if i["part"] == MAIN]
    out = {}
    for arm in arms[1:]:
        ratios = [details[c, arm]["hidden"] / details[c, arms[0]]["hidden"] for c in clips]
        out[arm] = {"least": min(ratios), "most": max(ratios)}
    return out


def _rater(q: Quality, rater: Rater) -> dict[str, Any]:
    return {
        "rater": rater.name,
        "simulated": rater.simulated,
        "done": q.done,
        "ratings": q.ratings,
        "skipped": q.skipped,
        "flagged": q.flagged,
        "gold": q.gold,
        "gold_count": q.gold_count,
        "repeat_same": q.repeat_same,
        "repeat_apart": q.repeat_apart,
        "repeat_far": q.repeat_far,
        "repeated": q.repeated,
        "left": q.left,
        "decided": q.decided,
        "spread": q.spread,
        "others": q.others,
        "seconds": q.seconds,
        "reasons": list(q.reasons),
    }


def _estimate(e: Estimate) -> dict[str, float]:
    return {"value": e.value, "low": e.low, "high": e.high}


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
