"""What differs between trainings: tables of reports side by side.

`evals.commands.render` writes them into pages from the folders `docs/toyworld-results/seed-NUMBER`,
each with a report of `evals.studies.headroom` and, beside it, what `evals.studies.redrawn`,
`evals.studies.habits` and `evals.studies.registered` wrote: `redrawn.json`, `draws.json`,
`registered.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.evals.printing.figures import change, logits, percent, table, title
from macd_studio.evals.studies.first_token import ORACLE, VIDEO
from macd_studio.evals.studies.headroom import ACCURATE

Reports = dict[str, dict[str, Any]]
"""Name → a report of `evals.studies.headroom`, all of the same regimes and methods; with parts
BESIDE."""
BESIDE = ("redrawn", "draws", "registered")
"""Reports of other commands that a folder may hold, and their key in a training's report."""
VIEWS = {
    "as it is": "companion in view",
    **{fill: f"masked, {fill}" for fill in ("mean", "blur", "noise")},
    "mean over nothing": "patch over nothing, mean",
}
"""View of `evals.studies.redrawn` → its words; margin of "yes" over that of the clip drawn
without it."""
DRAWS = {"wrong": "random draws: wrong", "by_habit": "wrong by a habit",
         "repaired": "repaired by MACD", "harmed": "spoilt by MACD"}  # fmt: skip
"""Share of `evals.studies.habits` → its words."""
COMPARED = (
    VIDEO, ACCURATE, "vcd", "macd", "macd-measured", "random-place", "random-average-4", "mask-all",
    ORACLE,
)  # fmt: skip
"""Methods whose gains are shown; the reports have all."""


def of_folder(folder: Path) -> dict[str, Any]:
    """A folder's report, and what lies beside it."""
    parts = {part: folder / f"{part}.json" for part in BESIDE}
    beside = {part: json.loads(p.read_text("utf-8")) for part, p in parts.items() if p.is_file()}
    return dict(json.loads((folder / "report.json").read_text("utf-8"))) | beside


def aligned(reports: Reports) -> Reports:
    """Reports with the regimes and methods that all of them have.

    Raises OptionError where they have no regime in common, or are of different questions.
    """
    first = next(iter(reports.values()))
    methods = [m for m in first["methods"] if all(m in r["methods"] for r in reports.values())]
    common = [r for r in first["regimes"] if all(r in one["regimes"] for one in reports.values())]
    if not common:
        raise OptionError(
            "the reports have no regime in common",
            "Run evals.studies.headroom for all with the same --regimes",
        )
    out = {
        name: report
        | {"methods": methods, "regimes": {regime: report["regimes"][regime] for regime in common}}
        for name, report in reports.items()
    }
    for name, report in out.items():
        if _questions(report) != _questions(next(iter(out.values()))):
            raise OptionError(
                f"{name} was asked other questions than the first one",
                "Run evals.studies.headroom for all with the same --regimes, --n and --split",
            )
    return out


def _questions(report: dict[str, Any]) -> tuple[Any, ...]:
    counts = {name: (part["n"], part["tuned_on"]) for name, part in report["regimes"].items()}
    return report["benchmark"], report["boxes"], counts


def _interval(report: dict[str, Any], regime: str, method: str) -> list[float]:
    figures = report["regimes"][regime]["methods"][method]
    interval: list[float] = figures["right" if method == VIDEO else "delta"]
    return interval


def spread_table(reports: Reports) -> str:
    """Methods down, a column for each report's regime: the baseline in %, the others' change."""
    regimes = next(iter(reports.values()))["regimes"]
    rows = []
    known = next(iter(regimes.values()))["methods"]
    for method in (m for m in COMPARED if m in known):
        ends = [_interval(r, regime, method) for regime in regimes for r in reports.values()]
        rows.append([title(method), *map(percent if method == VIDEO else change, ends)])
    return table(["method", *(f"{regime}, {name}" for regime in regimes for name in reports)], rows)


def bars_table(reports: Reports) -> str:
    """Masks against true removal and random draws down, reports across; "–" if not measured."""

    def found(part: str, group: str, key: str) -> list[Any]:
        return [report.get(part, {}).get(group, {}).get(key) for report in reports.values()]

    rows = []
    for view, words in VIEWS.items():
        told = found("redrawn", "views", view)
        cells = (
            f"{logits(one['over_redrawn'])}; {percent(one['false_yes'])}" if one else "–"
            for one in told
        )
        rows.append([words, *cells])
    for key, words in DRAWS.items():
        cells = (percent(one) if one else "–" for one in found("draws", "shares", key))
        rows.append([f"{words}, %", *cells])
    return table(['logits; false "yes", %', *reports], rows)
