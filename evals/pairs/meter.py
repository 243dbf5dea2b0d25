"""The patch meter and the headroom of a true removal, with intervals over pairs.

Patch meter: the margin of yes over no behind the mask less that of the partner. 0: a mask does to
the answer what taking the object away does; above 0, the mask itself says yes.

Headroom: how many more questions are right where the video is contrasted with the partner, at one
α and β; MACD's second view and random places beside it. What masks could gain at most, if they did
what the partner does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from macd_studio.core.statistics import Interval
from macd_studio.evals.pairs.read import CLIP, MASK, PARTNER, PairRow
from macd_studio.evals.statistics.intervals import clustered_share
from macd_studio.evals.statistics.stats import bootstrap_ratio, mean_difference
from macd_studio.evals.studies.first_token import contrasted

Figures = dict[str, Any]


def figures_of(
    rows: Sequence[PairRow], alpha: float, beta: float, left_out: Mapping[str, int] | None = None
) -> Figures:
    """Both figures of all pairs that were read, and of those whose object was merely removed.

    left_out: reason → questions that could not be used.
    """
    read = [r for r in rows if not r.error]
    without_mask = [r for r in read if MASK not in r.views]
    masked = [r for r in read if MASK in r.views]
    return {
        "pairs": len(read),
        "failed": [{"id": r.id, "error": r.error} for r in rows if r.error],
        "left_out": dict(left_out or {}),
        "nothing_to_mask": len(without_mask),
        "replaced": sum(r.replaced for r in masked),
        "alpha": alpha,
        "beta": beta,
        "meter": meter(masked),
        "meter_of_removals": meter([r for r in masked if not r.replaced]),
        "headroom": headroom(read, alpha, beta),
    }


def meter(rows: Sequence[PairRow]) -> Figures:
    """What a mask adds to the margin over the partner, in logits; also what the clip itself does.

    Each an estimate with its interval over pairs. Shares of answers that are those of the partner.
    """
    if not rows:
        return {"n": 0}
    keys = [r.cluster for r in rows]
    ones = np.ones(len(rows))
    margins = {v: np.array([r.margin(v) for r in rows]) for v in (CLIP, PARTNER, MASK)}
    partner = margins[PARTNER]
    return {
        "n": len(rows),
        "mask": _alone(bootstrap_ratio(margins[MASK] - partner, ones, keys), keys),
        "clip": _alone(bootstrap_ratio(margins[CLIP] - partner, ones, keys), keys),
        "answers_as_partner": _alone(
            clustered_share((margins[MASK] > 0) == (partner > 0), keys), keys
        ),
    }


def _alone(interval: Interval, keys: Sequence[str]) -> Interval:
    """Without its ends where all pairs are of one cluster, which tells nothing of others."""
    return interval if len(set(keys)) > 1 else (interval[0], float("nan"), float("nan"))


def headroom(rows: Sequence[PairRow], alpha: float, beta: float) -> Figures:
    """Right answers of the clip alone, and the change by each second view, as shares."""
    if not rows:
        return {"n": 0}
    keys = [r.cluster for r in rows]
    truth = np.array([0 if r.truth == "yes" else 1 for r in rows])
    base = np.array([r.views[CLIP] for r in rows])
    plain = base.argmax(1) == truth
    names = [v for v in rows[0].views if v != CLIP and all(v in r.views for r in rows)]
    gains: Figures = {}
    for name in names:
        counter = np.array([r.views[name] for r in rows])
        hits = contrasted(base, counter, alpha, beta) == truth
        gains[name] = _alone(mean_difference(plain, hits, keys), keys)
    baseline = _alone(clustered_share(plain, keys), keys)
    return {"n": len(rows), "baseline": baseline, "gains": gains}
