"""The figures of a study, as plain values: what the organiser's page, Markdown and HTML show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.masking.controls import CONTROLS
from macd_studio.core.statistics import spearman
from macd_studio.ratings.adjudication import adjudication_figures
from macd_studio.ratings.answers import (
    Answer,
    Screen,
    clusters_of,
    conflicts_of,
    coverage_of,
    details_of,
    forks_of,
    left_and_decided,
    main_answers,
    matrix,
    objects_of,
    paired_values,
    pairs_of,
    read_answers,
    read_screens,
)
from macd_studio.ratings.branches import fork_lines
from macd_studio.ratings.events import HIGH, MAX_LOW, REASONS
from macd_studio.ratings.inference import RANGES, bounded, paired_difference
from macd_studio.ratings.plan import ADJUDICATED, GOLD, MAIN, PAIRS, RATINGS, TRAINING
from macd_studio.ratings.preregistration import RESAMPLES, TARGETS, plan_of
from macd_studio.ratings.quality import judge_raters
from macd_studio.ratings.screening import FAILED
from macd_studio.ratings.stats import (
    GOOD,
    Estimate,
    alpha_interval,
    interval,
    mean_interval,
    power,
    quadratic_kappa,
    resample,
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
MIN_TO_STOP = 3
"""Raters who were not named, below which nothing is said of when to stop."""
TOO_FEW = "When to stop is not told before three raters who were not named have rated."
OF_RATER = (
    "done", "ratings", "skipped", "flagged", "gold", "gold_count", "repeat_same", "repeat_apart",
    "repeat_far", "repeated", "left", "decided", "spread", "others", "seconds", "reasons",
)  # fmt: skip
"""What of `quality.Quality` the report holds."""
MIN_CONTRAST = 0.05
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
            "clips": len({i["clip_sha256"] for i in study.items if i["part"] == MAIN}),
            "left_out": study.left_out,
            "raters_planned": plan["raters"],
            "raters_invited": len({r.id for r in raters if not r.erased} - judges),
            "screened_out": sum(study.screened(r) == FAILED for r in raters),
            "raters_erased": sum(r.erased for r in raters),
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
        "raters": [
            {"rater": names[q.rater], "simulated": by_id[q.rater].simulated}
            | {name: getattr(q, name) for name in OF_RATER}
            for q in quality
        ],
        "areas": _areas(study, arms),
        "controls": control_figures(study, main, arms),
        "left_out_sizes": left_out_sizes(study.left_out),
        "conflicts": len(conflicts_of(study)),
        "forks": [asdict(fork) | {"text": "; ".join(fork_lines(fork))} for fork in forks_of(study)],
    }
    cleaned: dict[str, Any] = _without_nan(out)
    return cleaned


def progress(study: Study) -> dict[str, Any]:
    """What the organiser's page shows while the study runs: nothing of which arm is ahead."""
    full = figures(study, 500)
    answers, screens = read_answers(study), read_screens(study)
    main = main_answers(answers, screens)
    items = [
        {
            "clip": item["clip"],
            "question": item["question"],
            "raters": len({a.rater for a in main if a.clip == item["number"]}),
            "notes": [n for s in screens if s.clip == item["number"] for n in s.notes],
        }
        for item in study.items
        if item["part"] == MAIN
    ]
    by_rater = {q["rater"]: q for q in full["raters"]}
    raters = []
    for rater in study.raters():
        if rater.erased:
            continue
        own = [s for s in screens if s.rater == rater.id and s.part != TRAINING]
        raters.append(
            {"rater": rater.name, "revoked": rater.revoked, "simulated": bool(rater.simulated),
             "screened_out": study.screened(rater) == FAILED,
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
        "items": items,
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
    places = _places(own)
    values, clips = matrix(own, arm, *places), clusters_of(own, places[1])
    good = np.where(np.isfinite(values), values >= GOOD, np.nan)
    return {
        "ratings": len(own),
        "mean": asdict(mean_interval(values, clips, resamples, SEED)),
        "sd": asdict(spread_interval(values, clips, resamples, SEED)),
        "at_least_4": asdict(mean_interval(good, clips, resamples, SEED)),
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
    clips = clusters_of(main, places[1])
    unnamed = [i for i, rater in enumerate(places[0]) if rater not in named]
    for other in arms[1:]:
        values = paired_values(main, arms[0], other, *places, scale)
        found = paired_difference(values, clips)
        enough = np.isfinite(values[unnamed]).any(1).sum() >= MIN_TO_STOP
        meter = power(values[unnamed], TARGETS[scale], clips) if enough and found.spread else None
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
    clips = clusters_of(main, [item for item, _ in units])
    estimate = alpha_interval(list(units.values()), clips, HIGH, ALPHA_DRAWS, SEED)
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
        "alpha": asdict(estimate),
        "kappas": kappas,
    }


def _reasons(own: Sequence[Answer]) -> dict[str, Any]:
    """Why masks of an arm were rated low; a rating may have several reasons, or none."""
    low = [a for a in own if a.rating is not None and a.rating <= MAX_LOW]
    return {
        "low": len(low),
        "given": {word: sum(word in a.reasons for a in low) for word in REASONS},
        "without": sum(not a.reasons for a in low),
    }


def _sides(main: Sequence[Answer]) -> dict[str, Any]:
    """How often the left mask got the higher rating, of the screens where one did."""
    left, decided = left_and_decided(main)
    screens = len(pairs_of(main))
    return {"screens": screens, "decided": decided, "left": asdict(wilson(left, decided))}


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
    rows: list[dict[str, Any]] = []
    for clip, tracks in sorted(objects_of(study).items()):
        there = [arm for arm in arms if (clip, arm) in means]
        for track, (label, gradient) in tracks.items():
            hidden = np.array([shares.get((clip, arm), {}).get(track, 0.0) for arm in there])
            if gradient is None or len(there) < 2 or np.ptp(hidden) < MIN_CONTRAST:
                continue
            rated = np.array([means[clip, arm] for arm in there])
            apart = hidden - hidden.mean()
            slope = float((apart * (rated - rated.mean())).sum() / (apart**2).sum())
            rows.append(
                {"clip": clip, "track": track, "label": label, "gradient": gradient, "slope": slope}
            )
    clips = clusters_of(main, [r["clip"] for r in rows])
    return {"objects": rows, "correlation": asdict(_correlation(rows, clips, resamples))}


def _correlation(rows: Sequence[dict[str, Any]], clips: Sequence[int], resamples: int) -> Estimate:
    """Spearman's correlation of gradient and slope, with a bootstrap interval over clips.

    clips: the clip of each row.
    """

    def of(chosen: Sequence[dict[str, Any]]) -> float:
        return spearman([r["gradient"] for r in chosen], [r["slope"] for r in chosen])

    by_clip: dict[int, list[dict[str, Any]]] = {}
    for r, clip in zip(rows, clips, strict=True):
        by_clip.setdefault(clip, []).append(r)
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


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


MIN_FOR_THIRDS = 6
"""Items with ratings, below which the difference is not given by thirds of overlap."""


def control_figures(study: Study, main: Sequence[Answer], arms: Sequence[str]) -> dict[str, Any]:
    """By the name of each arm but the first: overlap and size of every item, and thirds.

    An arm whose masks were drawn by a version that noted no overlap is left out. Estimates are
    (value, low, high), NaN where there is too little to say.
    """
    details = details_of(study)
    pixels = {
        r["id"]: r["width"] * r["height"] for r in study.rows("SELECT id, width, height FROM clips")
    }
    items = [i for i in study.items if i["part"] == MAIN]
    out = {}
    for other in arms[1:]:
        rows = [
            {
                "item": n,
                "clip": i["clip"],
                "question": i["question"],
                "overlap": details[n, other]["overlap"],
                "hidden": details[n, arms[0]]["hidden"] / (i["frames"] * pixels[n]),
            }
            for i in items
            if "overlap" in details.get(((n := i["number"]), other), {})
        ]
        if not rows:
            continue
        overlaps = {row["item"]: row["overlap"] for row in rows}
        out[other] = {
            "what": CONTROLS.get(other, ""),
            "items": rows,
            "thirds": by_thirds(main, arms[0], other, overlaps, study.scale),
        }
    return out


def by_thirds(
    main: Sequence[Answer],
    first: str,
    other: str,
    overlaps: Mapping[int, float],
    scale: str = RATINGS,
) -> list[dict[str, Any]]:
    """The primary outcome by thirds of overlap, lowest first; [] for too few rated items.

    Items of equal overlap stay together, so that fewer than three groups may be left.
    """
    rated = sorted({a.clip for a in main if a.arm == other and a.clip in overlaps})
    if len(rated) < MIN_FOR_THIRDS:
        return []
    values = np.array([overlaps[clip] for clip in rated])
    place = np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)
    raters = sorted({a.rater for a in main})
    out = []
    for third in np.unique(place):
        clips = [clip for clip, at in zip(rated, place, strict=True) if at == third]
        pairs = paired_values(main, first, other, raters, clips, scale)
        found = paired_difference(pairs, clusters_of(main, clips))
        inside = values[place == third]
        out.append({
            "low": float(inside.min()),
            "high": float(inside.max()),
            "items": len(clips),
            "pairs": int(np.isfinite(pairs).sum()),
            "difference": bounded(found.primary, scale),
        })  # fmt: skip
    return out


def left_out_sizes(left_out: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """By the reason, how much of all pixels MACD hides in the items that were left out for it.

    Items whose masks were not computed, and those of earlier versions, are not among them.
    """
    sizes: dict[str, list[float]] = {}
    for entry in left_out:
        if entry.get("hidden") is not None:
            sizes.setdefault(str(entry["reason"]), []).append(float(entry["hidden"]))
    return sizes


Array = NDArray[np.float64]
STEPS = 500
MIN_ARMS = 3
"""Of two arms the share preferring one says everything that a scale would."""


def counts(main: Sequence[Answer], screens: Sequence[Screen], first: str, other: str
           ) -> dict[str, int]:  # fmt: skip
    """How many screens of the two arms preferred the first, the other, neither.

    cannot: main screens that were left by *cannot judge*, of all arms together.
    """
    given = [(a, b) for a, b in pairs_of(main) if {a.arm, b.arm} == {first, other}]
    scores = [a.rating if a.arm == first else b.rating for a, b in given]
    return {
        "first": scores.count(2),
        "other": scores.count(0),
        "same": scores.count(1),
        "cannot": sum(s.skipped for s in screens if s.part == MAIN),
    }


def strengths(
    main: Sequence[Answer], arms: Sequence[str], draws: int, seed: int
) -> dict[str, Estimate]:
    """The Bradley-Terry scale: by the arm, the log odds of being preferred to the first arm.

    No difference counts as half a preference for each. Intervals are over clips and raters, as
    those of means (`stats.mean_interval`). {} for less than MIN_ARMS arms or without a pair; NaN
    for an arm that always or never won.
    """
    given = pairs_of(main)
    if len(arms) < MIN_ARMS or not given:
        return {}
    place = {arm: i for i, arm in enumerate(arms)}
    raters = sorted({a.rater for a, _ in given})
    clips = sorted({a.clip for a, _ in given})
    wins = np.zeros((len(given), len(arms), len(arms)))
    for k, (a, b) in enumerate(given):
        share = (a.rating or 0) / 2
        wins[k, place[a.arm], place[b.arm]] = share
        wins[k, place[b.arm], place[a.arm]] = 1 - share
    by_rater, by_clip = resample(len(raters), clusters_of(main, clips), draws, seed)
    row = np.array([raters.index(a.rater) for a, _ in given])
    column = np.array([clips.index(a.clip) for a, _ in given])
    weights = by_rater[:, row] * by_clip[:, column]
    drawn = np.einsum("dk,kij->dij", weights, wins)
    scale = bradley_terry(np.concatenate([wins.sum(0)[None], drawn]))
    return {arm: interval(float(scale[0, i]), scale[1:, i]) for arm, i in place.items()}


def bradley_terry(wins: Array) -> Array:
    """Log strengths (N, A) from wins (N, A, A) of row over column, the first arm's 0.

    By Hunter's MM algorithm (2004, The Annals of Statistics 32(1), 384-406, equation 3). NaN where
    an arm won or lost every comparison, or had none: its strength has no finite estimate.
    """
    met = wins + wins.transpose(0, 2, 1)
    won, lost = wins.sum(2), wins.sum(1)
    strength = np.ones(won.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(STEPS):
            both = strength[:, :, None] + strength[:, None, :]
            strength = won / np.where(met > 0, met / both, 0.0).sum(2)
        scale = np.log(strength)
    scale[(won <= 0) | (lost <= 0)] = np.nan
    return np.asarray(scale - scale[:, :1])


def preference_figures(
    main: Sequence[Answer], screens: Sequence[Screen], arms: Sequence[str], draws: int, seed: int
) -> dict[str, Any]:
    """Counts by the other arm, and the scale; plain values."""
    scale = strengths(main, arms, draws, seed)
    return {
        "counts": {other: counts(main, screens, arms[0], other) for other in arms[1:]},
        "scale": {arm: asdict(e) for arm, e in scale.items()},
    }
