"""A run over a benchmark of video files → figures as plain data, and the folder that holds them.

report.json, .md, .html   figures, for programs and for people
questions.html            what is behind each cell
questions.csv, .parquet   one row a question and method
traces/KEY.macd           answers whose trace was kept; KEY is that of the answer's row
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from macd_studio.core.errors import BenchmarkError
from macd_studio.core.methods import find_method
from macd_studio.core.text.words import count, spreadsheet_text
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.files import FileBenchmark
from macd_studio.evals.benchmarks.layout import place, read_json
from macd_studio.evals.printing.figures import page
from macd_studio.evals.running.output import count_objects, objects_note
from macd_studio.evals.scoring import TRACES
from macd_studio.evals.scoring.pages import Links, link_of, questions_page
from macd_studio.evals.scoring.score import (
    MAX_FLIPS,
    Over,
    by_label,
    by_rule,
    figures,
    flips,
    headline,
    hits,
    judged_by,
    notes_on,
)
from macd_studio.evals.scoring.show import markdown, report_blocks
from macd_studio.evals.statistics.constant import constant_like
from macd_studio.evals.statistics.metrics import (
    calibration,
    certified_tokens,
    clamped_shares,
    one_answer_note,
    open_shares,
)
from macd_studio.evals.statistics.stats import (
    RESAMPLES,
    enough_differ,
    holm,
    mean_difference,
    sign_flip,
)

if TYPE_CHECKING:
    from macd_studio.evals.running.rows import Row  # it needs torch, and a report is shown without


MAX_CLIPS = 10
"""Clips whose notes a report spells out."""
Report = dict[str, Any]
Answers = Mapping[tuple[str, str], "Row"]


def make_report(
    benchmark: FileBenchmark,
    items: Sequence[Item],
    answers: Answers,
    methods: Sequence[str],
    rule: str | None = None,
    over: Over = "all",
) -> Report:
    """Each method's scores by split, and its paired comparison with the baseline.

    answers: (item id, method) → its row. An answer that failed is wrong, and so is one of a method
    that does not apply to the question. over: what accuracies are shares of; comparisons with the
    baseline are over all questions.
    """
    texts = {m: {i.id: _text(answers[i.id, m]) for i in items} for m in methods}
    splits = {r: [i for i in items if i.regime == r] for r in benchmark.regimes}
    splits = {name: members for name, members in splits.items() if members}
    decisive = headline(benchmark.name, items[0], rule)
    scores: dict[str, Report] = {}
    for m in methods:
        flipped = flips(benchmark.name, items, texts[m])

        def scored(members: Sequence[Item], m: str = m) -> Report:
            scores = figures(benchmark, members, texts[m], rule, over)
            return scores | {"calibration": _calibration(benchmark, members, answers, m, rule)}

        scores[m] = {
            **scored(items),
            "errors": sum(bool(answers[i.id, m].error) for i in items),
            "left_out": sum(bool(answers[i.id, m].left_out) for i in items),
            "splits": {s: scored(members) for s, members in splits.items()},
            "labels": by_label(benchmark, items, texts[m], rule),
            "rules": by_rule(benchmark.name, items, texts[m]),
            "flips": len(flipped),
            "flipped": [f["id"] for f in flipped[:MAX_FLIPS]],
            **open_shares([answers[i.id, m] for i in items]),
            **certified_tokens([answers[i.id, m] for i in items]),
        }
    objects = count_objects(answers[i.id, m] for i in items for m in methods)
    report: Report = {
        "kind": "files",
        "benchmark": benchmark.name,
        "methods": list(methods),
        "rule": decisive.title,
        "source": decisive.source,
        "judged": judged_by(benchmark.name, items, rule),
        "over": over,
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
                _clips_note(items, answers),
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
        **clamped_shares({m: [answers[i.id, m] for i in items] for m in methods}),
    }
    if "baseline" in methods:
        report["compared"] = compare(benchmark, splits, texts, answers, methods, rule)
    return report


def _clips_note(items: Sequence[Item], answers: Answers) -> str:
    """Which clips were not read as they should be; "" where all were."""
    of_item = {item: row.notes for (item, _), row in answers.items() if row.notes}
    notes = {i.clip: of_item[i.id] for i in items if i.id in of_item}
    if not notes:
        return ""
    told = [f"{clip} ({'; '.join(said)})" for clip, said in notes.items()]
    more = f"; and {len(told) - MAX_CLIPS} more" if len(told) > MAX_CLIPS else ""
    whole, verb = count(len({i.clip for i in items}), "clip"), "was" if len(told) == 1 else "were"
    return (
        f"Of {whole}, {len(told)} {verb} read with notes, and answers may be those of other frames:"
        f" {'; '.join(told[:MAX_CLIPS])}{more}."
    )


def compare(
    benchmark: FileBenchmark,
    splits: Mapping[str, Sequence[Item]],
    texts: Mapping[str, Mapping[str, str | None]],
    answers: Answers,
    methods: Sequence[str],
    rule: str | None,
) -> dict[str, dict[str, Report]]:
    """Method → split → change against the baseline in points, with p, Holm-corrected.

    p is `sign_flip`'s over clusters; None where too few differ for a test. The correction is over
    all tests of methods and splits, "all" among them; a split that holds all questions is no
    second test.
    """
    parts = {"all": [i for members in splits.values() for i in members], **splits}
    comparisons: dict[str, dict[str, Report]] = {}
    for m in (m for m in methods if m != "baseline"):
        comparisons[m] = {}
        for name, members in parts.items():
            if len(members) == len(parts["all"]) and name != "all":
                comparisons[m][name] = comparisons[m]["all"]
                continue
            a, b = (hits(benchmark, members, texts[z], rule) for z in ("baseline", m))
            clusters = [benchmark.cluster(i) for i in members]
            d, low, high = mean_difference(a, b, clusters)
            difference = b.astype(int) - a.astype(int)
            tested = enough_differ(difference, clusters)
            comparisons[m][name] = {
                "change": round(100 * d, 4),
                "interval": [round(100 * low, 4), round(100 * high, 4)],
                "clusters": len(set(clusters)),
                "p": sign_flip(difference, clusters) if tested else None,
                "p_holm": None,
                "repaired": int((b & ~a).sum()),
                "spoiled": int((a & ~b).sum()),
                "like_constant": _like_constant(members, answers, float(a.mean()), float(b.mean())),
            }
    found = [f for parts in comparisons.values() for f in parts.values() if f["p"] is not None]
    cells = list({id(f): f for f in found}.values())
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


MAX_PLOTTED = 8
"""Methods in the plot of reliability, which tells them apart by colour and mark."""
COLUMNS = ("id", "clip", "split", "question", "truth", "method", "answer", "right", "margin", "key")


def write(report: Report, out: Path) -> None:
    """Writes the folder, but for the traces."""
    from macd_studio.evals.running.output import write_json

    pictures = plots(report)
    write_json(out / "report.json", report)
    (out / "report.md").write_text(markdown(report), encoding="utf-8")
    for name, picture in pictures.items():
        (out / f"{name}.svg").write_text(picture + "\n", encoding="utf-8")
    (out / "report.html").write_text(report_page(report, pictures), encoding="utf-8")
    shown = questions_page(report, str(out), links_to_files(out))
    (out / "questions.html").write_text(shown, encoding="utf-8")
    (out / "questions.csv").write_text(questions_csv(report), encoding="utf-8")
    _write_parquet(report, out / "questions.parquet")


def read_report(folder: Path) -> Report:
    """The report of a run over video files. Raises BenchmarkError for anything else."""
    remedy = "Give the --out folder of `python -m evals run` over video files"
    report = read_json(folder / "report.json", remedy)
    if not isinstance(report, dict) or report.get("kind") != "files":
        raise BenchmarkError(f"{place(folder)} holds no report of video files", remedy)
    return report


def links_to_files(folder: Path) -> Links:
    """Row key → link to the trace that is kept for it in the report's folder."""

    def links(key: str) -> list[tuple[str, str]]:
        name = f"{TRACES}/{key}.macd"
        return [("trace", name)] if key and (folder / name).is_file() else []

    return links


def report_page(report: Report, pictures: dict[str, str], above: Markup | None = None) -> str:
    """The report as HTML, whose cells lead to their questions. above: links to other pages."""
    drawn = list(pictures.values())
    return page(report["benchmark"], report_blocks(report), drawn, link_of(report), above)


def plots(report: Report) -> dict[str, str]:
    """Name → SVG: accuracies with their intervals, and how far probabilities can be trusted."""
    from macd_studio.evals.printing.plots import accuracies, reliability  # with matplotlib

    drawings = {"accuracy": accuracies(report)}
    methods = tuple(report["methods"][:MAX_PLOTTED])
    regimes: dict[str, Any] = {}
    for split in ("all", *_splits(report)):
        parts = {m: _part(report["scores"][m], split) for m in methods}
        own = {m: {"calibration": p["calibration"]} if p.get("calibration") else {}
               for m, p in parts.items()}  # fmt: skip
        if any(own.values()):
            regimes[split] = {"methods": own}
    if regimes:
        drawings["reliability"] = reliability({"regimes": regimes}, methods)
    return drawings


def _splits(report: Report) -> list[str]:
    return list(next(iter(report["scores"].values()))["splits"])


def _part(scores: Report, split: str) -> Report:
    part: Report = scores if split == "all" else scores["splits"][split]
    return part


def _rows(report: Report) -> Iterator[tuple[Any, ...]]:
    for q in report["questions"]:
        for method, answer in q["answers"].items():
            question = (q["id"], q["clip"], q["split"], q["question"], q["truth"], method)
            yield (*question, answer["text"], answer["right"], answer["margin"], answer["key"])


def _write_parquet(report: Report, path: Path) -> None:
    """One row a question and method, where polars is installed."""
    try:
        import polars
    except ImportError:
        return
    columns = dict(zip(COLUMNS, map(list, zip(*_rows(report), strict=True)), strict=True))
    kinds = {"right": polars.Boolean, "margin": polars.Float64}
    schema = {name: kinds.get(name, polars.String) for name in COLUMNS}
    polars.DataFrame(columns, schema=schema).write_parquet(path)


def questions_csv(report: Report) -> str:
    """One line a question and method; what a spreadsheet would compute is written as text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in _rows(report):
        writer.writerow([_plain(cell) for cell in row])
    return out.getvalue()


def _plain(cell: Any) -> Any:
    return spreadsheet_text(cell) if isinstance(cell, str) else cell
