"""A report as files: Markdown, JSON, pictures and a page."""

from __future__ import annotations

import json
from pathlib import Path

from macd_studio.evals.printing.figures import (
    Report,
    page,
)
from macd_studio.evals.printing.report import SHOWN_BY_LEVEL, is_calibrated, markdown, sections


def write(report: Report, out: Path) -> None:
    """report.json, report.md and report.html in a folder."""
    from macd_studio.evals.running.output import write_json

    write_json(out / "report.json", report)
    (out / "report.md").write_text(markdown(report), encoding="utf-8")
    drawn = pictures(report)
    for name, picture in drawn.items():
        (out / f"{name}.svg").write_text(picture + "\n", encoding="utf-8")
    whole = page(report["benchmark"], sections(report), list(drawn.values()))
    (out / "report.html").write_text(whole, encoding="utf-8")


def pictures(report: Report) -> dict[str, str]:
    """Name → SVG of the report's plots."""
    from macd_studio.evals.printing.plots import by_level, forest, reliability

    drawings = {"change": forest(report)}
    shown = tuple(m for m in SHOWN_BY_LEVEL if m in report["methods"])
    if any(part["levels"] for part in report["regimes"].values()):
        drawings["evidence"] = by_level(report, shown)
    if is_calibrated(report):
        drawings["reliability"] = reliability(report, shown)
    return drawings


def load(out: Path) -> Report:
    """The report of a folder."""
    report: Report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return report
