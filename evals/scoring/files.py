"""The folder of a run over video files: the report, its questions, and what keeps them for others.

report.json, .md, .html   figures, for programs and for people
questions.html            what is behind each cell
questions.csv, .parquet   one row a question and method
traces/KEY.macd           answers whose trace was kept; KEY is that of the answer's row
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from macd_studio.core.errors import BenchmarkError
from macd_studio.core.words import spreadsheet_text
from macd_studio.evals.benchmarks.layout import place, read_json
from macd_studio.evals.report import page
from macd_studio.evals.scoring.pages import Links, link_of, questions_page
from macd_studio.evals.scoring.show import markdown

Report = dict[str, Any]
TRACES = "traces"
MOST_PLOTTED = 8
"""Methods in the plot of reliability, which tells them apart by colour and mark."""
COLUMNS = ("id", "clip", "split", "question", "truth", "method", "answer", "right", "margin", "key")


def write(report: Report, out: Path) -> None:
    """Writes the folder, but for the traces."""
    from macd_studio.evals.run import write_json  # with torch

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


def report_page(report: Report, pictures: dict[str, str]) -> str:
    """The report as HTML, whose cells lead to their questions."""
    return page(report["benchmark"], markdown(report), list(pictures.values()), link_of(report))


def plots(report: Report) -> dict[str, str]:
    """Name → SVG: accuracies with their intervals, and how far probabilities can be trusted."""
    from macd_studio.evals.plots import accuracies, reliability  # with matplotlib

    drawings = {"accuracy": accuracies(report)}
    methods = tuple(report["methods"][:MOST_PLOTTED])
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
