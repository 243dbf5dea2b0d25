"""Figures → Markdown, JSON and one HTML page. Prints what is there; computes nothing."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.methods import find_method

Report = dict[str, Any]
SHOWN_BY_LEVEL = ("baseline", "vcd", "macd-object", "macd", "macd-swept", "mask-all")


def percent(interval: list[float]) -> str:
    """A share with its interval: "83.1 [80.2, 85.6]"."""
    return f"{_p(interval[0])} [{_p(interval[1])}, {_p(interval[2])}]"


def change(interval: list[float]) -> str:
    """A difference in points, bold where its interval leaves out zero: "**+4.6** [2.1, 7.5]"."""
    d, low, high = interval
    if not math.isfinite(d):
        return "–"
    shown = f"{100 * d:+.1f}".replace("-", "−")
    strong = f"**{shown}**" if low > 0 or high < 0 else shown
    return f"{strong} [{_p(low)}, {_p(high)}]"


def _p(x: float) -> str:
    return f"{100 * x:.1f}".replace("-", "−") if math.isfinite(x) else "–"


def honest_table(report: Report) -> list[str]:
    """The table: regimes across, methods down; baseline in percent, the others as change."""
    regimes = report["regimes"]
    lines = [
        "| method | α, β | " + " | ".join(regimes) + " |",
        "|---|---|" + "---|" * len(regimes),
    ]
    for method in report["methods"]:
        cells = []
        for part in regimes.values():
            figures = part["methods"][method]
            cells.append(
                change(figures["delta"]) if "delta" in figures else percent(figures["right"])
            )
        pair = report["contrasts"].get(method)
        lines.append(f"| {find_method(method).title} | {_pair(pair)} | " + " | ".join(cells) + " |")
    counts = [f"{part['n']} ({part['clips']})" for part in regimes.values()]
    lines.append("| *questions (clips)* | | " + " | ".join(counts) + " |")
    return lines


def _pair(pair: list[float] | None) -> str:
    return f"{pair[0]:g}, {pair[1]:g}" if pair else "–"


def markdown(report: Report) -> str:
    """The whole report."""
    return "\n".join(_markdown(report)) + "\n"


def _markdown(report: Report) -> Iterator[str]:
    yield f"# {report['benchmark']}: where contrast helps, and where it hurts"
    yield ""
    yield (
        f"Baseline: right answers in %, with Wilson's 95 % interval. Others: change against the"
        f" baseline on the same questions, in points, with a 95 % interval from"
        f" {report['resamples']} resamples of whole clips; bold where it leaves out zero. Regimes"
        f" are never pooled. Captions count as right where nothing is named that is not there."
    )
    yield ""
    yield from honest_table(report)
    yield ""
    yield (
        f"Boxes: {report['boxes']}. α and β: {report['how_chosen']}. Split: {report['split']},"
        f" seed {report['seed']}. {report['machine']}."
    )
    yield ""
    yield "![Change against the baseline by regime and method](change.svg)"
    if any(part["levels"] for part in report["regimes"].values()):
        yield ""
        yield "![Right answers by evidence](evidence.svg)"
    if report["gradient_auc"]:
        yield ""
        yield "## Does the gradient find the asked object?"
        yield ""
        yield "| evidence | pairs | AUC [95 %] |"
        yield "|---|---|---|"
        for level, found in report["gradient_auc"].items():
            a, low, high = found["auc"]
            yield f"| {level or 'all'} | {found['pairs']} | {a:.2f} [{low:.2f}, {high:.2f}] |"
    yield ""
    yield "## By evidence"
    for regime, part in report["regimes"].items():
        if not part["levels"]:
            continue
        yield ""
        yield f"### {regime}"
        yield ""
        yield (
            "| method | "
            + " | ".join(f"{k} (n = {v['n']})" for k, v in part["levels"].items())
            + " |"
        )
        yield "|---|" + "---|" * len(part["levels"])
        for method in report["methods"]:
            cells = [v["methods"][method] for v in part["levels"].values()]
            shown = [change(c["delta"]) if "delta" in c else percent(c["right"]) for c in cells]
            yield f"| {find_method(method).title} | " + " | ".join(shown) + " |"
    yield from _yes_no(report)
    yield from _captions(report)
    yield from _errors(report)


def _yes_no(report: Report) -> Iterator[str]:
    columns = ("accuracy", "balanced", "precision", "recall", "f1", "yes_rate", "false_yes")
    for regime, part in report["regimes"].items():
        rows = {m: f["yes_no"] for m, f in part["methods"].items() if "yes_no" in f}
        if not rows:
            continue
        yield ""
        yield f"### {regime}: yes/no questions only (n = {next(iter(rows.values()))['n']})"
        yield ""
        heads = [c.replace("_", "-") for c in columns]
        yield "| method | " + " | ".join(heads) + " | margin AUROC | unmatched | McNemar p |"
        yield "|---|" + "---|" * (len(columns) + 3)
        for method, f in rows.items():
            area = f.get("margin_auroc", float("nan"))
            p = part["methods"][method].get("p")
            cells = [_p(f[c]) for c in columns]
            cells += [f"{area:.3f}" if math.isfinite(area) else "–", f"{f['unmatched']:.0f}"]
            cells.append("–" if p is None else f"{p:.2g}")
            yield f"| {find_method(method).title} | " + " | ".join(cells) + " |"
        line = next(iter(rows.values()))["always_yes"]
        weak = [find_method(m).title for m, f in rows.items() if f["accuracy"] <= line]
        yield ""
        yield f"Answering yes every time gets {_p(line)} here. " + (
            f"Not better than that: {', '.join(weak)}." if weak else "Every method beats that."
        )
    yield ""
    yield (
        "McNemar's exact p is over all questions of the regime, and takes questions of one clip for"
        " independent; trust the interval in the first table where the two differ."
    )


def _captions(report: Report) -> Iterator[str]:
    for regime, part in report["regimes"].items():
        rows = {m: f for m, f in part["methods"].items() if "chair_i" in f}
        if not rows:
            continue
        yield ""
        yield f"### {regime}: CHAIR (n = {part['n']})"
        yield ""
        yield "| method | CHAIR_i % (lower is better) | change | recall % | change |"
        yield "|---|---|---|---|---|"
        for method, f in rows.items():
            cells = [percent(f["chair_i"]), _change(f, "chair_i_delta")]
            cells += [percent(f["recall"]), _change(f, "recall_delta")]
            yield f"| {find_method(method).title} | " + " | ".join(cells) + " |"


def _change(figures: dict[str, Any], name: str) -> str:
    return change(figures[name]) if name in figures else "–"


def _errors(report: Report) -> Iterator[str]:
    failed = {
        (regime, method): f["errors"]
        for regime, part in report["regimes"].items()
        for method, f in part["methods"].items()
        if f["errors"]
    }
    if failed:
        yield ""
        yield "Answers that failed, and count as wrong: " + ", ".join(
            f"{n} of {find_method(m).title} in {r}" for (r, m), n in failed.items()
        )


def write(report: Report, out: Path) -> None:
    """report.json, report.md and report.html in a folder."""
    from evals.plots import by_level, forest
    from evals.run import write_json

    write_json(out / "report.json", report)
    text = markdown(report)
    (out / "report.md").write_text(text, encoding="utf-8")
    pictures = [forest(report)]
    shown = tuple(m for m in SHOWN_BY_LEVEL if m in report["methods"])
    if any(part["levels"] for part in report["regimes"].values()):
        pictures.append(by_level(report, shown))
    for name, picture in zip(("change", "evidence"), pictures, strict=False):
        (out / f"{name}.svg").write_text(picture + "\n", encoding="utf-8")
    (out / "report.html").write_text(page(report["benchmark"], text, pictures), encoding="utf-8")


def load(out: Path) -> Report:
    """The report of a folder."""
    found: Report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return found


def page(title: str, text: str, pictures: list[str]) -> str:
    """One HTML file without a script: the Markdown's tables, and the pictures after the first."""
    body: list[str] = []
    rows: list[str] = []
    shown = False
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append(line)
            continue
        if rows:
            body.append(_table(rows))
            rows = []
            if not shown:
                body += [f'<figure class="picture">{p}</figure>' for p in pictures]
                shown = True
        if line.startswith("#"):
            depth = len(line) - len(line.lstrip("#"))
            body.append(f"<h{depth}>{html.escape(line[depth:].strip())}</h{depth}>")
        elif line and not line.startswith("!["):  # the page holds its pictures itself
            body.append(f"<p>{_inline(line)}</p>")
    return _PAGE.replace("TITLE", html.escape(title)).replace("BODY", "\n".join(body))


def _table(rows: list[str]) -> str:
    cells = [[c.strip() for c in r.strip("|").split("|")] for r in rows]
    head = "".join(f"<th>{_inline(c)}</th>" for c in cells[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{_inline(c)}</td>" for c in row) + "</tr>" for row in cells[2:]
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide" tabindex="0" role="region" aria-label="table">{table}</div>'


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
