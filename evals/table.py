"""Rows → figures: each regime by itself, each method against the baseline on the same questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evals.benchmarks.base import Benchmark, Item
from evals.metrics import auroc, chair, mentioned, normalised, read_yes_no, yes_no_metrics
from evals.rows import Row
from evals.stats import bootstrap_ratio, mcnemar, mean_difference, wilson

Figures = dict[str, Any]
Answers = Mapping[tuple[str, str], Row]
"""(item id, method) → its row"""


def right(item: Item, text: str, benchmark: Benchmark) -> bool:
    """Whether an answer counts: yes/no as read, words exactly, captions without an invention."""
    if item.kind == "yes-no":
        return read_yes_no(text) == item.truth
    if item.kind == "caption":
        named = mentioned(text, benchmark.nouns)
        return bool(named) and named <= set(benchmark.present(item.clip))
    return normalised(text) == normalised(item.truth)


def tabulate(
    benchmark: Benchmark, items: Sequence[Item], answers: Answers, methods: Sequence[str]
) -> Figures:
    """Figures a regime, a level and a method; nothing is pooled over regimes."""
    regimes = {}
    for regime in benchmark.regimes:
        mine = [i for i in items if i.regime == regime]
        if mine:
            regimes[regime] = _regime(benchmark, mine, answers, methods)
    return {"regimes": regimes, "gradient_auc": gradient_auc(benchmark, items, answers)}


def _regime(
    benchmark: Benchmark, items: list[Item], answers: Answers, methods: Sequence[str]
) -> Figures:
    whole: Figures = {
        "n": len(items),
        "clips": len({i.clip for i in items}),
        "methods": _methods(benchmark, items, answers, methods),
        "levels": {},
    }
    for level in benchmark.levels:
        mine = [i for i in items if i.level == level]
        if mine:
            whole["levels"][level] = {
                "n": len(mine),
                "methods": {m: f for m, f in _methods(benchmark, mine, answers, methods).items()},
            }
    return whole


def _methods(
    benchmark: Benchmark, items: list[Item], answers: Answers, methods: Sequence[str]
) -> dict[str, Figures]:
    texts = {m: [answers[i.id, m].text for i in items] for m in methods}
    hits = {
        m: np.array([right(i, t, benchmark) for i, t in zip(items, said, strict=True)])
        for m, said in texts.items()
    }
    clips = [i.clip for i in items]
    found: dict[str, Figures] = {}
    for m in methods:
        figures: Figures = {
            "right": wilson(int(hits[m].sum()), len(items)),
            "errors": sum(bool(answers[i.id, m].error) for i in items),
        }
        if m != "baseline" and "baseline" in methods:
            figures["delta"] = mean_difference(hits["baseline"], hits[m], clips)
            figures["p"] = mcnemar(hits["baseline"], hits[m])
            figures["repaired"] = int((hits[m] & ~hits["baseline"]).sum())
            figures["spoiled"] = int((hits["baseline"] & ~hits[m]).sum())
        figures |= _yes_no(items, answers, m)
        if all(i.kind == "caption" for i in items):
            figures |= _captions(benchmark, items, texts, m, clips)
        found[m] = figures
    return found


def _yes_no(items: list[Item], answers: Answers, method: str) -> Figures:
    asked = [i for i in items if i.kind == "yes-no"]
    if not asked:
        return {}
    truth = [i.truth for i in asked]
    rows = [answers[i.id, method] for i in asked]
    figures: Figures = {"yes_no": yes_no_metrics(truth, [read_yes_no(r.text) for r in rows])}
    figures["yes_no"]["n"] = len(asked)
    figures["yes_no"]["always_yes"] = truth.count("yes") / len(truth)
    if all(r.margin is not None for r in rows):
        margins = np.array([r.margin for r in rows], float)
        figures["yes_no"]["margin_auroc"] = auroc(np.array([t == "yes" for t in truth]), margins)
    return figures


def _captions(
    benchmark: Benchmark,
    items: list[Item],
    texts: Mapping[str, list[str]],
    method: str,
    clips: list[str],
) -> Figures:
    present = [benchmark.present(i.clip) for i in items]
    counts = {
        m: chair([mentioned(t, benchmark.nouns) for t in texts[m]], present)
        for m in {method, "baseline"} & set(texts)
    }
    own = counts[method]
    figures: Figures = {
        "chair_i": bootstrap_ratio(own["invented"], own["named"], clips),
        "recall": bootstrap_ratio(own["found"], own["there"], clips),
    }
    if method != "baseline" and "baseline" in counts:
        base = counts["baseline"]
        for name, top, bottom in (("chair_i", "invented", "named"), ("recall", "found", "there")):
            figures[f"{name}_delta"] = bootstrap_ratio(
                own[top], own[bottom], clips, minus=(base[top], base[bottom])
            )
    return figures


def gradient_auc(benchmark: Benchmark, items: Sequence[Item], answers: Answers) -> Figures:
    """P(the asked object's gradient is larger than another's of the same clip), by level.

    Over questions about one object of a clip with others; ties count half; clips are resampled.
    """
    found: Figures = {}
    for level in benchmark.levels or ("",):
        wins: list[float] = []
        clips: list[str] = []
        for item in items:
            row = answers.get((item.id, "macd"))
            if row is None or not item.about or (benchmark.levels and item.level != level):
                continue
            asked = [g for label, g in row.gradient if label == item.about]
            others = [g for label, g in row.gradient if label != item.about]
            if asked and others:
                best = max(asked)
                wins += [float(best > g) + 0.5 * float(best == g) for g in others]
                clips += [item.clip] * len(others)
        if wins:
            ones = np.ones(len(wins))
            auc = bootstrap_ratio(np.array(wins), ones, clips)
            found[level] = {"pairs": len(wins), "auc": auc}
    return found
