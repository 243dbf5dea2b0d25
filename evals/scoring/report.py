"""A run over a benchmark of video files → figures as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from macd_studio.core.methods import find_method
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.files import FileBenchmark
from macd_studio.evals.bias import one_answer_note
from macd_studio.evals.constant import constant_like
from macd_studio.evals.metrics import calibration
from macd_studio.evals.objects import count_objects, objects_note
from macd_studio.evals.scoring.score import (
    MOST_FLIPS,
    by_label,
    by_rule,
    figures,
    flips,
    headline,
    hits,
    notes_on,
)
from macd_studio.evals.stats import RESAMPLES, holm, mcnemar, mean_difference

if TYPE_CHECKING:
    from macd_studio.evals.rows import Row  # it needs torch, and a report is shown without

Report = dict[str, Any]
Answers = Mapping[tuple[str, str], "Row"]


def make_report(
    benchmark: FileBenchmark,
    items: Sequence[Item],
    answers: Answers,
    methods: Sequence[str],
    rule: str | None = None,
) -> Report:
    """Each method's scores by split, and its paired comparison with the baseline.

    answers: (item id, method) → its row. An answer that failed is wrong, and so is one of a method
    that does not apply to the question.
    """
    texts = {m: {i.id: _text(answers[i.id, m]) for i in items} for m in methods}
    splits = {r: [i for i in items if i.regime == r] for r in benchmark.regimes}
    splits = {name: members for name, members in splits.items() if members}
    decisive = headline(benchmark.name, items[0], rule)
    scores: dict[str, Report] = {}
    for m in methods:
        flipped = flips(benchmark.name, items, texts[m])

        def scored(members: Sequence[Item], m: str = m) -> Report:
            scores = figures(benchmark, members, texts[m], rule)
            return scores | {"calibration": _calibration(benchmark, members, answers, m, rule)}

        scores[m] = {
            **scored(items),
            "errors": sum(bool(answers[i.id, m].error) for i in items),
            "left_out": sum(bool(answers[i.id, m].left_out) for i in items),
            "splits": {s: scored(members) for s, members in splits.items()},
            "labels": by_label(benchmark, items, texts[m], rule),
            "rules": by_rule(benchmark.name, items, texts[m]),
            "flips": len(flipped),
            "flipped": [f["id"] for f in flipped[:MOST_FLIPS]],
        }
    objects = count_objects(answers[i.id, m] for i in items for m in methods)
    report: Report = {
        "kind": "files",
        "benchmark": benchmark.name,
        "methods": list(methods),
        "rule": decisive.title,
        "source": decisive.source,
        "n": len(items),
        "resamples": RESAMPLES,
        "scores": scores,
        "objects": objects,
        "notes": [
            n
            for n in (
                _one_answer(splits),
                objects_note(objects, methods),
                _penalty_note(answers),
                *benchmark.check_sizes(),
            )
            if n
        ]
        + [
            f"{find_method(m).title}: {note}"
            for m in methods
            for note in notes_on(benchmark.name, items, texts[m], rule)
        ],
        "questions": _questions(benchmark, items, answers, methods, rule),
    }
    if "baseline" in methods:
        report["compared"] = compare(benchmark, splits, texts, answers, methods, rule)
    return report


def compare(
    benchmark: FileBenchmark,
    splits: Mapping[str, Sequence[Item]],
    texts: Mapping[str, Mapping[str, str | None]],
    answers: Answers,
    methods: Sequence[str],
    rule: str | None,
) -> dict[str, dict[str, Report]]:
    """Method → split → change against the baseline in points, with McNemar's p, Holm-corrected.

    The correction is over all methods and splits of the report, "all" among them.
    """
    parts = {"all": [i for members in splits.values() for i in members], **splits}
    comparisons: dict[str, dict[str, Report]] = {}
    for m in (m for m in methods if m != "baseline"):
        comparisons[m] = {}
        for name, members in parts.items():
            a, b = (hits(benchmark, members, texts[z], rule) for z in ("baseline", m))
            d, low, high = mean_difference(a, b, [benchmark.cluster(i) for i in members])
            comparisons[m][name] = {
                "change": round(100 * d, 4),
                "interval": [round(100 * low, 4), round(100 * high, 4)],
                "p": mcnemar(a, b),
                "repaired": int((b & ~a).sum()),
                "spoiled": int((a & ~b).sum()),
                "like_constant": _like_constant(members, answers, float(a.mean()), float(b.mean())),
            }
    cells = [f for parts in comparisons.values() for f in parts.values()]
    for figure, corrected in zip(cells, holm([f["p"] for f in cells]), strict=True):
        figure["p_holm"] = corrected
    return comparisons


def _like_constant(
    items: Sequence[Item], answers: Answers, base: float, method: float
) -> Report | None:
    """Whether a constant on "yes" does the same; None where margins are not known."""
    margins = [answers[i.id, "baseline"].margin for i in items]
    measured = [m for m in margins if m is not None]
    if len(measured) < len(margins) or any(i.kind != "yes-no" for i in items) or method == base:
        return None
    truth = np.array([i.truth == "yes" for i in items])
    return constant_like(truth, np.array(measured, float), method)


def _questions(
    benchmark: FileBenchmark,
    items: Sequence[Item],
    answers: Answers,
    methods: Sequence[str],
    rule: str | None,
) -> list[Report]:
    """One object a question: what was asked, and what each method answered."""
    questions = []
    for item in items:
        decisive = headline(benchmark.name, item, rule)
        answered = {}
        for m in methods:
            row = answers[item.id, m]
            text = _text(row)
            answered[m] = {
                "text": text,
                "right": decisive.right(text, item),
                "margin": row.margin,
                "key": row.key,
                "error": row.error,
                "left_out": row.left_out,
                "objects": row.objects,
            }
        questions.append({"id": item.id, "clip": item.clip, "split": item.regime,
                      "question": item.question, "truth": item.truth,
                      "options": list(item.options), "labels": [list(z) for z in item.labels],
                      "answers": answered})  # fmt: skip
    return questions


def _calibration(
    benchmark: FileBenchmark, items: Sequence[Item], answers: Answers, method: str, rule: str | None
) -> Report | None:
    """How probable right and wrong answers were; None where no probability is known."""
    rows = [(answers[i.id, method], i) for i in items]
    scored = [(r.probability, r, i) for r, i in rows if r.probability is not None and not r.error]
    if not scored:
        return None
    right = [headline(benchmark.name, i, rule).right(r.text, i) for _, r, i in scored]
    return calibration([p for p, _, _ in scored], right)


def _text(row: Row) -> str | None:
    return None if row.error or row.left_out else row.text


def _penalty_note(answers: Answers) -> str:
    penalties = sorted({row.penalty for row in answers.values() if row.penalty is not None})
    if not penalties:
        return ""
    values = " and ".join(f"{p:g}" for p in penalties)
    return (
        f"The model's repetition penalty, {values}, is applied after the contrast by all methods."
    )


def _one_answer(splits: Mapping[str, Sequence[Item]]) -> str:
    yes_no = {s: [i.truth for i in members] for s, members in splits.items()
              if all(i.kind == "yes-no" for i in members)}  # fmt: skip
    return one_answer_note(yes_no)
