"""A comparison of two figures as plain data, Markdown and one page. Computes nothing but words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from macd_studio.evals.commands.common import finite, write_json
from macd_studio.evals.figures import as_cell, document, interval_text, page, table
from macd_studio.evals.protocol.figure import Figure
from macd_studio.evals.protocol.split import Split
from macd_studio.evals.protocol.stated import stated_rows
from macd_studio.evals.scoring.over import WORDS

Plain = dict[str, Any]
NAMES = "diff.json", "diff.md", "diff.html"
LEGEND = (
    "Points of the second figure over the first, with 95 % intervals over clusters. Alone: of the"
    " first figure this is changed and nothing else. In order: changed one after another, in the"
    " order of the table, so that these sum to the difference. Interaction: the difference less all"
    " shares alone. Two causes in one row differ for the same questions, which their answers cannot"
    " tell apart."
)


def plain(first: Figure, second: Figure, made: Split | None, more: Plain) -> Plain:
    """Everything as JSON values. made: None where one figure is printed alone."""
    sides = [
        {"title": f.title, "rule": f.parser.name, "over": f.over, "method": f.method,
         "stated": f.stated}
        for f in (first, second)
    ]  # fmt: skip
    rows = [dict(zip(("name", "first", "second", "differ"), r, strict=True))
            for r in stated_rows(first, second)]  # fmt: skip
    split = {} if made is None else asdict(made)
    return finite({"kind": "diff", "figures": sides, "stated": rows, "split": split, **more})  # type: ignore[no-any-return]


def markdown(report: Plain) -> str:
    """The page as Markdown. report: as `plain` gives it."""
    return document(_blocks(report))


def _blocks(report: Plain) -> Iterator[str]:
    a, b = report["figures"]
    split, printed = report["split"], report.get("printed", {})
    difference = split["difference"] if split else printed["difference"]
    yield f"# {as_cell(b['title'])} against {as_cell(a['title'])}"
    yield f"Difference: {_points(difference)} points."
    figures = (
        [(split["first"], split["n"][0]), (split["second"], split["n"][1])]
        if split
        else [tuple(z) for z in printed["figures"]]
    )
    yield table(
        ["figure", "%", "n", "rule", "counted"],
        [
            [as_cell(f["title"]), f"{value:.2f}", n, as_cell(f["rule"]), WORDS[f["over"]]]
            for f, (value, n) in zip((a, b), figures, strict=True)
        ],
    )
    if split:
        yield "## Causes"
        yield table(
            ["cause", "what differs", "questions", "alone", "in order"],
            [_share(s) for s in split["shares"]],
        )
        yield f"Interaction: {_number(split['interaction'])} points. {LEGEND}"
        yield from map(as_cell, split["notes"])
    if rerun := report.get("rerun"):
        yield "## Run again"
        yield from _rerun(rerun)
    yield "## What each says of itself"
    yield table(
        ["", "first", "second", "differ"],
        [[as_cell(r[k]) for k in ("name", "first", "second", "differ")] for r in report["stated"]],
    )
    for note in report.get("notes", ()):
        yield as_cell(note)


def _share(share: Plain) -> list[str]:
    name = " + ".join(share["causes"])
    cells = [_points(share["alone"]), _points(share["in_order"])]
    return [f"**{as_cell(name)}**", as_cell(share["detail"]), str(share["n"]), *cells]


def _rerun(rerun: Plain) -> Iterator[str]:
    yield (
        f"{rerun['n']} questions of both, answered again from the first figure's setting with the"
        " second's values, by the first figure's rule. Order:"
        f" {', '.join(as_cell(c) for c in rerun['order']) or 'nothing that can be run here'}."
    )
    rows = [
        [f"**{as_cell(c['cause'])}**", as_cell(c["detail"]), _points(c["alone"]),
         _points(c["in_order"])]
        for c in rerun["causes"]
    ]  # fmt: skip
    yield table(["cause", "what differs", "alone", "in order"], rows)
    yield (
        f"Interaction: {_number(rerun['interaction'])} points. The first figure's own answers to"
        f" these questions again: {rerun['repeated']} of {rerun['n']} are the same, which moves it"
        f" by {_points(rerun['not_repeated'])} points. Left between all of these and the second"
        f" figure's answers: {_points(rerun['rest'])} points."
    )
    if rerun["left"]:
        yield "What could not be run again, and is part of what is left:"
        yield "\n".join(
            f"- **{as_cell(z['cause'])}**: {as_cell(z['reason'])}." for z in rerun["left"]
        )


def _points(interval: Any) -> str:
    if interval is None or interval[0] is None:
        return "–"
    if interval[1] is None or interval[2] is None:
        return _number(interval[0])
    return interval_text(interval, "+.2f", 1)


def _number(x: float | None) -> str:
    return "–" if x is None else f"{x:+.2f}".replace("-", "−")


def write(report: Plain, out: Path) -> None:
    """diff.json, .md and .html in a folder."""
    out.mkdir(parents=True, exist_ok=True)
    text = markdown(report)
    write_json(out / NAMES[0], report)
    (out / NAMES[1]).write_text(text, encoding="utf-8")
    (out / NAMES[2]).write_text(page("Why two figures differ", text, []), encoding="utf-8")
