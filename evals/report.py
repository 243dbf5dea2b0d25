"""Figures → Markdown, JSON and one HTML page. Prints what is there; computes nothing."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from pathlib import Path

from macd_studio.evals.figures import Report, change, document, percent
from macd_studio.evals.sections import (
    auroc_table,
    honest_table,
    is_calibrated,
    readme_tables,
    sections,
)

__all__ = [
    "Report",
    "auroc_table",
    "change",
    "honest_table",
    "load",
    "markdown",
    "percent",
    "readme_tables",
    "write",
]

SHOWN_BY_LEVEL = (
    "baseline",
    "yes-bias",
    "vcd",
    "macd",
    "macd-measured",
    "random-mask",
    "mask-all",
)


def markdown(report: Report) -> str:
    """The whole report."""
    return document(sections(report))


def write(report: Report, out: Path) -> None:
    """report.json, report.md and report.html in a folder."""
    from macd_studio.evals.run import write_json

    write_json(out / "report.json", report)
    text = markdown(report)
    (out / "report.md").write_text(text, encoding="utf-8")
    drawn = pictures(report)
    for name, picture in drawn.items():
        (out / f"{name}.svg").write_text(picture + "\n", encoding="utf-8")
    whole = page(report["benchmark"], text, list(drawn.values()))
    (out / "report.html").write_text(whole, encoding="utf-8")


def pictures(report: Report) -> dict[str, str]:
    """Name → SVG of the report's plots."""
    from macd_studio.evals.plots import by_level, forest, reliability

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


Link = Callable[[str, str, str, str], str]
"""(heading above a table, its first head, a row's name, a column's) → where the cell leads, or "".

The row's name is "" for the heads themselves.
"""


def page(title: str, text: str, drawn: list[str], link: Link = lambda *where: "") -> str:
    """One HTML file without a script: the Markdown's tables, and the pictures after the first.

    drawn: SVG of the pictures.
    """
    body: list[str] = []
    rows: list[str] = []
    has_pictures, heading = False, ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append(line)
            continue
        if rows:
            body.append(_table(rows, partial(link, heading)))
            rows = []
            if not has_pictures:
                body += [f'<figure class="picture">{p}</figure>' for p in drawn]
                has_pictures = True
        if line.startswith("#"):
            depth = len(line) - len(line.lstrip("#"))
            heading = line[depth:].strip()
            body.append(f"<h{depth}>{html.escape(heading)}</h{depth}>")
        elif line and not line.startswith("!["):  # the page holds its pictures itself
            body.append(f"<p>{_inline(line)}</p>")
    return _PAGE.replace("TITLE", html.escape(title)).replace("BODY", "\n".join(body))


def _table(rows: list[str], link: Callable[[str, str, str], str]) -> str:
    heads, _, *lines = [[c.strip() for c in r.strip("|").split("|")] for r in rows]
    to = partial(link, heads[0])
    head = "".join(f"<th>{_linked(c, to('', c))}</th>" for c in heads)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td>{_linked(c, to(row[0], n))}</td>"
            for c, n in zip_longest(row, heads, fillvalue="")
        )
        + "</tr>"
        for row in lines
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide" tabindex="0" role="region" aria-label="table">{table}</div>'


def _linked(cell: str, target: str) -> str:
    text = _inline(cell)
    return f'<a href="{html.escape(target)}">{text}</a>' if target else text


def _inline(text: str) -> str:
    parts = html.escape(text).split("**")
    strong = "".join(f"<b>{p}</b>" if i % 2 else p for i, p in enumerate(parts))
    halves = strong.split("*")
    return "".join(f"<i>{p}</i>" if i % 2 else p for i, p in enumerate(halves))


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>TITLE</title>
<style>
:root { color-scheme: light dark; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line);
  white-space: nowrap; font-size: 13px; }
figure { margin: 1.5rem 0; background: #fff; border-radius: 8px; padding: 1rem; }
svg { max-width: 100%; height: auto; }
</style></head><body>
BODY
</body></html>
"""
