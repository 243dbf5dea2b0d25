"""Asked objects: groups by size, occlusion and company; and which object a method puts first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import OptionError
from macd_studio.core.types import Track
from macd_studio.evals.benchmarks.base import Benchmark, Item
from macd_studio.evals.running.rows import NOT_LOOKED, Row
from macd_studio.evals.statistics.intervals import clustered_share
from macd_studio.evals.statistics.stats import bootstrap_ratio

Figures = dict[str, Any]
Answers = Mapping[tuple[str, str], Row]

COVERED_FROM = 0.1
"""The share of a box that others cover, at its most covered, from which it counts as occluded."""


@dataclass(frozen=True)
class AskedObject:
    """What is true of the object that was asked about.

    size: mean area of its box, share of the frame. covered: largest share of its box that one other
    box covers in a frame. companions: other objects in the clip. detected: whether a track has its
    label; None where that was not kept.
    """

    size: float
    covered: float
    companions: int
    detected: bool | None


def asked_objects(
    benchmark: Benchmark, items: Sequence[Item], baseline: Sequence[Row]
) -> dict[str, AskedObject]:
    """Item id → its object; without items about no object, or whose clip's truth is not known."""
    facts: dict[str, AskedObject] = {}
    rows = {row.item: row for row in baseline}
    for item in items:
        if not item.about:
            continue
        try:
            tracks = benchmark.true_tracks(item.clip)
        except OptionError:
            continue
        asked = next((t for t in tracks if t.label == item.about), None)
        if asked is not None:
            row = rows.get(item.id)
            kept = (
                row is not None
                and row.objects != NOT_LOOKED
                and (bool(row.tracks) or bool(row.scores))
            )
            facts[item.id] = AskedObject(
                size=float(np.nanmean(_areas(asked.boxes))),
                covered=max((_covered(asked, t) for t in tracks if t is not asked), default=0.0),
                companions=len(tracks) - 1,
                detected=item.about in row.tracks if row is not None and kept else None,
            )
    return facts


def _areas(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))


def _covered(asked: Track, other: Track) -> float:
    low = np.maximum(asked.boxes[:, :2], other.boxes[:, :2])
    high = np.minimum(asked.boxes[:, 2:], other.boxes[:, 2:])
    inside = np.prod(np.maximum(high - low, 0), axis=1)
    shares = inside / np.maximum(_areas(asked.boxes), 1e-9)
    return float(np.nan_to_num(shares).max())


def groups_of(objects: Mapping[str, AskedObject]) -> dict[str, dict[str, set[str]]]:
    """Property → group → ids. Sizes are split into thirds of these very objects.

    >>> objects = {str(i): AskedObject(i / 100, 0.5 * (i > 1), i % 2, True) for i in range(3)}
    >>> groups_of(objects)["size"]
    {'smallest third': {'0'}, 'middle third': {'1'}, 'largest third': {'2'}}
    """
    if not objects:
        return {}
    sizes = np.array([o.size for o in objects.values()])
    low, high = np.quantile(sizes, [1 / 3, 2 / 3])
    table: dict[str, dict[str, set[str]]] = {}

    def add(name: str, group: str, key: str) -> None:
        table.setdefault(name, {}).setdefault(group, set()).add(key)

    def size_of(o: AskedObject) -> str:
        return "smallest" if o.size <= low else "largest" if o.size > high else "middle"

    ordered = sorted(objects.items(), key=lambda pair: pair[1].size)
    for key, o in ordered:
        add("size", f"{size_of(o)} third", key)
    for key, o in sorted(objects.items(), key=lambda pair: pair[1].covered):
        add("occlusion", "occluded" if o.covered >= COVERED_FROM else "free", key)
    for key, o in sorted(objects.items(), key=lambda pair: pair[1].companions):
        add("companions", str(o.companions) if o.companions < 2 else "2 or more", key)
    for key, o in objects.items():
        if o.detected is not None:
            add("tracked", "tracked" if o.detected else "missed", key)
    return table


def gradient_auc(benchmark: Benchmark, items: Sequence[Item], answers: Answers) -> Figures:
    """P(the asked object's gradient is larger than another's of the same clip), by level.

    Over questions about one object of a clip with others; ties count half; clips are resampled.
    """
    areas: Figures = {}
    for level in benchmark.levels or ("",):
        of_level = [i for i in items if not benchmark.levels or i.level == level]
        if area := _area(of_level, answers, "macd"):
            areas[level] = area
    return areas


def object_ranking(
    benchmark: Benchmark, items: Sequence[Item], answers: Answers, methods: Sequence[str]
) -> Figures:
    """Method → regime → level ("all" for all) → how good its ranking of objects is.

    pairs, auc: as `gradient_auc`. first: share of clips where it puts the asked object first, of
    `clips`; chance: that share for a random ranking. agrees: share of clips in which it and the
    measured effects put the same object first, None without them.
    """
    table: Figures = {}
    for method in methods:
        for regime in benchmark.regimes:
            of_regime = [i for i in items if i.regime == regime]
            levels = {"all": of_regime} | {
                z: [i for i in of_regime if i.level == z] for z in benchmark.levels
            }
            for level, part in levels.items():
                cell = _area(part, answers, method)
                if cell:
                    cell |= _firsts(part, answers, method)
                    table.setdefault(method, {}).setdefault(regime, {})[level] = cell
    return table


def _area(items: Sequence[Item], answers: Answers, method: str) -> Figures:
    wins: list[float] = []
    clips: list[str] = []
    for item in items:
        asked, others = _slopes(item, answers, method)
        if asked and others:
            best = max(asked)
            wins += [float(best > g) + 0.5 * float(best == g) for g in others]
            clips += [item.clip] * len(others)
    if not wins:
        return {}
    return {"pairs": len(wins), "auc": bootstrap_ratio(np.array(wins), np.ones(len(wins)), clips)}


def _slopes(item: Item, answers: Answers, method: str) -> tuple[list[float], list[float]]:
    """What the method ranks by, of the asked object's tracks and of the others."""
    row = answers.get((item.id, method))
    if row is None or not item.about:
        return [], []
    asked = [g for label, g in row.gradient if label == item.about]
    return asked, [g for label, g in row.gradient if label != item.about]


def _firsts(items: Sequence[Item], answers: Answers, method: str) -> Figures:
    first, chance, agrees, clips, both = [], [], [], [], []
    for item in items:
        asked, others = _slopes(item, answers, method)
        if not asked or not others:
            continue
        first.append(max(asked) > max(others))
        chance.append(len(asked) / (len(asked) + len(others)))
        clips.append(item.clip)
        measured = answers.get((item.id, "macd-measured"))
        if measured and len(measured.gradient) == len(asked) + len(others):
            own = answers[item.id, method].gradient
            tops = [int(np.argmax([g for _, g in z])) for z in (own, measured.gradient)]
            agrees.append(tops[0] == tops[1])
            both.append(item.clip)
    return {
        "clips": len(set(clips)),
        "first": clustered_share(np.array(first), clips),
        "chance": float(np.mean(chance)),
        "agrees": clustered_share(np.array(agrees), both) if agrees else None,
    }
