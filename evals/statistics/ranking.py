"""Which object does a method put first: the asked one, and the one whose removal matters most?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from macd_studio.evals.benchmarks.base import Benchmark, Item
from macd_studio.evals.running.rows import Row
from macd_studio.evals.statistics.stats import bootstrap_ratio, clustered_share

Figures = dict[str, Any]
Answers = Mapping[tuple[str, str], Row]


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
