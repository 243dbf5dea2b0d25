"""A run over a benchmark of video files → figures as plain data, Markdown, HTML and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.methods import find_method
from evals.benchmarks.base import Item
from evals.benchmarks.files import FileBenchmark
from evals.bias import constant_like, one_answer_note
from evals.scoring.pages import link_cells, questions_page
from evals.scoring.score import by_label, by_rule, figures, flips, headline, hits
from evals.scoring.show import split_table
from evals.stats import RESAMPLES, mcnemar, mean_difference

if TYPE_CHECKING:
    from evals.rows import Row  # it needs torch, and a report is shown without

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

    answers: (item id, method) → its row. An answer that failed is wrong.
    """
    texts = {m: {i.id: _text(answers[i.id, m]) for i in items} for m in methods}
    splits = {r: [i for i in items if i.regime == r] for r in benchmark.regimes}
    splits = {name: mine for name, mine in splits.items() if mine}
    decisive = headline(benchmark.name, items[0], rule)
    methods_found: dict[str, Report] = {}
    for m in methods:
        methods_found[m] = {
            **figures(benchmark, items, texts[m], rule),
            "errors": sum(bool(answers[i.id, m].error) for i in items),
            "splits": {s: figures(benchmark, mine, texts[m], rule) for s, mine in splits.items()},
            "labels": by_label(benchmark, items, texts[m], rule),
            "rules": by_rule(benchmark.name, items, texts[m]),
            "flips": len(flips(benchmark.name, items, texts[m])),
        }
    report: Report = {
        "kind": "files",
        "benchmark": benchmark.name,
        "methods": list(methods),
        "rule": decisive.name,
        "source": decisive.source,
        "n": len(items),
        "resamples": RESAMPLES,
        "scores": methods_found,
        "notes": [n for n in (_one_answer(splits), *benchmark.check_sizes()) if n],
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
    parts = {"all": [i for mine in splits.values() for i in mine], **splits}
    found: dict[str, dict[str, Report]] = {}
    for m in (m for m in methods if m != "baseline"):
        found[m] = {}
        for name, mine in parts.items():
            a, b = (hits(benchmark, mine, texts[z], rule) for z in ("baseline", m))
            d, low, high = mean_difference(a, b, [benchmark.cluster(i) for i in mine])
            found[m][name] = {
                "change": round(100 * d, 4),
                "interval": [round(100 * low, 4), round(100 * high, 4)],
                "p": mcnemar(a, b),
                "repaired": int((b & ~a).sum()),
                "spoiled": int((a & ~b).sum()),
                "like_constant": _like_constant(mine, answers, float(a.mean()), float(b.mean())),
            }
    cells = [f for parts in found.values() for f in parts.values()]
    for figure, corrected in zip(cells, holm([f["p"] for f in cells]), strict=True):
        figure["p_holm"] = corrected
    return found


def holm(p: Sequence[float]) -> list[float]:
    """Holm's (1979) correction of several p values, in their order.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p)), key=lambda i: p[i])
    found, largest = [0.0] * len(p), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p) - rank) * p[i]))
        found[i] = largest
    return found


def _like_constant(
    items: Sequence[Item], answers: Answers, base: float, method: float
) -> Report | None:
    """Whether a constant on "yes" does the same; None where margins are not known."""
    margins = [answers[i.id, "baseline"].margin for i in items]
    known = [m for m in margins if m is not None]
    if len(known) < len(margins) or any(i.kind != "yes-no" for i in items) or method == base:
        return None
    truth = np.array([i.truth == "yes" for i in items])
    return constant_like(truth, np.array(known, float), method)


def _questions(
    benchmark: FileBenchmark,
    items: Sequence[Item],
    answers: Answers,
    methods: Sequence[str],
    rule: str | None,
) -> list[Report]:
    """One object a question: what was asked, and what each method answered."""
    found = []
    for item in items:
        decisive = headline(benchmark.name, item, rule)
        said = {}
        for m in methods:
            row = answers[item.id, m]
            text = _text(row)
            said[m] = {
                "text": text,
                "right": decisive.right(text, item),
                "margin": row.margin,
                "key": row.key,
                "error": row.error,
            }
        found.append({"id": item.id, "clip": item.clip, "split": item.regime,
                      "question": item.question, "truth": item.truth,
                      "options": list(item.options), "answers": said})  # fmt: skip
    return found


def _text(row: Row) -> str | None:
    return None if row.error else row.text


def _one_answer(splits: Mapping[str, Sequence[Item]]) -> str:
    yes_no = {s: [i.truth for i in mine] for s, mine in splits.items()
              if all(i.kind == "yes-no" for i in mine)}  # fmt: skip
    return one_answer_note(yes_no)


def markdown(report: Report) -> str:
    """The whole report."""
    return "\n".join(_markdown(report)) + "\n"


def _markdown(report: Report) -> Iterator[str]:
    yield f"# {report['benchmark']}: {report['n']} questions, {report['backbone']}"
    yield ""
    fps, side = report["sampling"]["fps"], report["sampling"]["size"]
    frames = f"{fps:g} frames a second" if fps else f"{report['sampling']['frames']} frames"
    yield (
        f"Accuracy in % over all questions, by the rule {report['rule']} ({report['source']});"
        f" 95 % intervals from {report['resamples']} resamples of whole clusters. {frames}"
        f"{f' of {side} × {side}' if side else ''}; prompts {report['prompts']}; α and β:"
        f" {report['how_chosen']}. {report.get('machine', '')}"
    )
    for note in report["notes"]:
        yield ""
        yield note
    yield ""
    yield "## Against the baseline"
    yield ""
    yield from _compared(report)
    for method in report["methods"]:
        scores = report["scores"][method]
        yield ""
        yield f"## {find_method(method).title}"
        yield ""
        yield from split_table(scores)
        yield ""
        rules = ", ".join(
            f"{name} {'–' if f['accuracy'] is None else format(f['accuracy'], '.2f')} %"
            f"{' of ' + str(f['n']) if f['left_out'] else ''}"
            for name, f in scores["rules"].items()
        )
        yield f"The same answers by other rules: {rules}; {scores['flips']} questions flip."
        if scores["errors"]:
            yield f"{scores['errors']} answers failed, and count as wrong."
        for dimension, values in scores["labels"].items():
            yield ""
            yield f"| {dimension} | n | % |"
            yield "|---|---|---|"
            for value, f in values.items():
                yield f"| {value} | {f['n']} | {f['accuracy']:.2f} |"


def _compared(report: Report) -> Iterator[str]:
    first = next(iter(report["scores"].values()))
    names = ["all", *first["splits"]]
    yield "| method | α, β | " + " | ".join(names) + " | repaired / spoiled | p (Holm) |"
    yield "|---|---|" + "---|" * (len(names) + 2)
    for method in report["methods"]:
        scores, pair = report["scores"][method], report["contrasts"].get(method)
        shown = f"{pair[0]:g}, {pair[1]:g}" if pair else "–"
        title = find_method(method).title
        changes = report.get("compared", {}).get(method)
        if changes is None:
            cells = [f"{s['accuracy']:.2f}" for s in (scores, *scores["splits"].values())]
            yield f"| {title} | {shown} | " + " | ".join(cells) + " | – | – |"
            continue
        cells = [_change(changes[n]) for n in names]
        every = changes["all"]
        yield (
            f"| {title} | {shown} | " + " | ".join(cells) + f" | {every['repaired']} /"
            f" {every['spoiled']} | {every['p']:.2g} ({every['p_holm']:.2g}) |"
        )
    constants = [(m, f["all"]["like_constant"]) for m, f in report.get("compared", {}).items()
                 if f["all"]["like_constant"]]  # fmt: skip
    if constants:
        yield ""
        yield "Would a constant on yes do the same? Added to the baseline's margin:"
    for method, found in constants:
        yield (
            f"- {find_method(method).title}: "
            + (f"δ = {found['delta']:+.2f} gets as much or more"
               if found["delta"] is not None else "no constant gets as much")
            + f"; the best constant gets {found['best']:.2f} %, beyond it remain"
            f" {found['beyond']:+.2f} points"
        )  # fmt: skip


def _change(figures: Report) -> str:
    low, high = figures["interval"]
    shown = f"{figures['change']:+.2f}"
    strong = f"**{shown}**" if low > 0 or high < 0 else shown
    return f"{strong} [{low:.2f}, {high:.2f}]".replace("-", "−")


def write(report: Report, out: Path) -> None:
    """report.json, report.md and report.html; the questions as HTML, CSV and parquet."""
    from evals.report import page
    from evals.run import write_json

    text = markdown(report)
    write_json(out / "report.json", report)
    (out / "report.md").write_text(text, encoding="utf-8")
    splits = list(dict.fromkeys(q["split"] for q in report["questions"]))
    whole = link_cells(page(report["benchmark"], text, []), splits)
    (out / "report.html").write_text(whole, encoding="utf-8")
    (out / "questions.html").write_text(questions_page(report), encoding="utf-8")
    (out / "questions.csv").write_text(questions_csv(report), encoding="utf-8")
    _write_parquet(report, out / "questions.parquet")


COLUMNS = ("id", "clip", "split", "question", "truth", "method", "answer", "right", "margin", "key")


def _rows(report: Report) -> Iterator[tuple[Any, ...]]:
    for q in report["questions"]:
        for method, said in q["answers"].items():
            asked = (q["id"], q["clip"], q["split"], q["question"], q["truth"], method)
            yield (*asked, said["text"], said["right"], said["margin"], said["key"])


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
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in "=+-@\t\r" and cell else cell
