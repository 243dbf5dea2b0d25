"""What the other arms share with the first one's masks, and whether the difference depends on it.

overlap: the share of what the first arm hides that the other arm hides too, Σ min(M, M′) / Σ M. A
control that shares much of it is rated alike for that reason alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from macd_studio.core.masking.controls import CONTROLS
from macd_studio.ratings.answers import Answer, details_of, paired_values
from macd_studio.ratings.inference import bounded, paired_difference
from macd_studio.ratings.plan import MAIN, RATINGS
from macd_studio.ratings.store import Study

LEAST_FOR_THIRDS = 6
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
        overlaps = {
            i["number"]: details[i["number"], other]["overlap"]
            for i in items
            if "overlap" in details.get((i["number"], other), {})
        }
        if not overlaps:
            continue
        rows = [
            {
                "item": i["number"],
                "clip": i["clip"],
                "question": i["question"],
                "overlap": overlaps[i["number"]],
                "hidden": details[i["number"], arms[0]]["hidden"]
                / (i["frames"] * pixels[i["number"]]),
            }
            for i in items
            if i["number"] in overlaps
        ]
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
    if len(rated) < LEAST_FOR_THIRDS:
        return []
    values = np.array([overlaps[clip] for clip in rated])
    place = np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)
    raters = sorted({a.rater for a in main})
    out = []
    for third in np.unique(place):
        clips = [clip for clip, at in zip(rated, place, strict=True) if at == third]
        pairs = paired_values(main, first, other, raters, clips, scale)
        found = paired_difference(pairs)
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
