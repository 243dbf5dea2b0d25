"""A comparison of two figures as plain data, Markdown and one page. Computes nothing but words.

Also what a figure says of its own protocol, in one vocabulary, and a printed one beside ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from macd_studio.core.pages.blocks import as_markdown
from macd_studio.core.statistics import Interval, wilson
from macd_studio.core.text.numbers import number
from macd_studio.core.text.words import count
from macd_studio.evals.paper.doctor import Claim, audit_metrics
from macd_studio.evals.printing.figures import as_cell, logits, page, table
from macd_studio.evals.protocol.causes import same, statements
from macd_studio.evals.protocol.figure import Figure
from macd_studio.evals.protocol.inputs import STATED
from macd_studio.evals.protocol.split import Split
from macd_studio.evals.running.output import finite, write_json
from macd_studio.evals.scoring.score import WORDS
from macd_studio.evals.statistics.intervals import clustered_share

NOT_STATED = "not stated"


def printed_rows(first: Figure, second: Figure) -> list[list[str]]:
    """[name, of the first, of the second, whether they differ] of what either says."""
    one, other = statements(first), statements(second)
    rows = []
    for name in STATED:
        if name not in one and name not in other:
            continue
        a, b = one.get(name, NOT_STATED), other.get(name, NOT_STATED)
        known = NOT_STATED not in (a, b)
        rows.append([name, a, b, "–" if not known else "yes" if not same(a, b) else "no"])
    return rows


def printed_difference(ours: Figure, printed: Figure) -> tuple[float, Interval, list[str]]:
    """Our figure in percent, and printed − ours in points with an interval; and notes.

    The interval takes both as independent samples of questions (MOVER of each one's own), as
    nothing is known of single answers of the printed one.
    """
    assert printed.stated is not None
    accuracy, n = printed.stated
    verdicts = [ours.verdict(ours.texts.get(i), item) for i, item in ours.items.items()]
    right = [r for r, counted in verdicts if counted or ours.over == "all"]
    names = [i for i, v in zip(ours.items, verdicts, strict=True) if v[1] or ours.over == "all"]
    own = clustered_share(right, [ours.clusters.get(i, i) for i in names])  # type: ignore[arg-type]
    other = wilson(round(accuracy / 100 * n), n)
    change = accuracy / 100 - own[0]
    low = change - math.hypot(other[0] - other[1], own[2] - own[0])
    high = change + math.hypot(other[2] - other[0], own[0] - own[1])
    notes = _notes(len(right), 100 * own[0], accuracy, n)
    return 100 * own[0], (100 * change, 100 * low, 100 * high), notes


def _notes(ours: int, own: float, accuracy: float, n: int) -> list[str]:
    notes = []
    decimals = max((len(f"{accuracy:.10g}".partition(".")[2])), 0)
    audit = audit_metrics(Claim(n=n, accuracy=accuracy, decimals=decimals))
    if not audit.possible:
        notes.append(f"No number of right answers of {count(n, 'question')} gives {accuracy:g} %.")
    if n != ours:
        most = 100 * abs(n - ours) / max(n, ours)
        notes.append(
            f"The printed figure is over {n:,} questions, ours over {ours:,}: other questions alone"
            f" can move a figure by up to {most:.1f} points."
        )
    return notes


Plain = dict[str, Any]
NAMES = "diff.json", "diff.md", "diff.html"
LEGEND = (
    "*Alone*: of the first figure this is changed and nothing else.",
    "*In order*: changed one after another, as listed; these shares sum to the difference.",
    "*Questions*: those that count otherwise once it is changed in order.",
)
TOGETHER = "Causes in one row differ for the same questions: answers alone cannot tell them apart."
ASK = "--rerun N answers N questions again with each of them alone."
NOTHING = "Nothing that is recorded differs, and all answers are the same."


def plain(first: Figure, second: Figure, made: Split | None, more: Plain) -> Plain:
    """Everything as JSON values. made: None where one figure is printed alone."""
    sides = [
        {"title": f.title, "rule": f.parser.name, "over": f.over, "method": f.method,
         "stated": f.stated}
        for f in (first, second)
    ]  # fmt: skip
    rows = [dict(zip(("name", "first", "second", "differ"), r, strict=True))
            for r in printed_rows(first, second)]  # fmt: skip
    split = {} if made is None else asdict(made)
    return finite({"kind": "diff", "figures": sides, "stated": rows, "split": split, **more})  # type: ignore[no-any-return]


def markdown(report: Plain) -> str:
    """The page as Markdown. report: as `plain` gives it."""
    return as_markdown(_blocks(report))


def _blocks(report: Plain) -> Iterator[str]:
    a, b = report["figures"]
    split, printed = report["split"], report.get("printed", {})
    difference = split["difference"] if split else printed["difference"]
    yield f"# {as_cell(b['title'])} against {as_cell(a['title'])}"
    shared = f"; {count(split['common'], 'question')} of both" if split else ""
    yield (
        f"Difference, second less first: {_points(difference)} points, with its 95 % interval over"
        f" clusters{shared}."
    )
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
        yield from _causes(split, "rerun" in report)
    if rerun := report.get("rerun"):
        yield "## Run again"
        yield from _rerun(rerun)
    yield "## What each says of how it was computed"
    yield table(
        ["", "first", "second", "differ"],
        [[as_cell(r[k]) for k in ("name", "first", "second", "differ")] for r in report["stated"]],
    )
    for note in report.get("notes", ()):
        yield as_cell(note)


def _causes(split: Plain, again: bool) -> Iterator[str]:
    """again: whether questions were answered again, too."""
    yield "## Causes"
    shares = split["shares"]
    if not shares:
        yield NOTHING
    else:
        heads = ["cause", "what differs", "questions", "alone, points", "in order, points"]
        yield table(heads, [_share(s) for s in shares])
        yield from LEGEND
    if any(len(s["causes"]) > 1 for s in shares):
        yield TOGETHER if again else f"{TOGETHER} {ASK}"
    if len(shares) > 1:
        yield (
            f"*Interaction*: {_number(split['interaction'])} points, the difference less all shares"
            " alone."
        )
    yield from map(as_cell, split["notes"])


def _share(share: Plain) -> list[str]:
    name = " + ".join(share["causes"])
    cells = [_points(share["alone"]), _points(share["in_order"])]
    return [f"**{as_cell(name)}**", as_cell(share["detail"]), str(share["n"]), *cells]


def _rerun(rerun: Plain) -> Iterator[str]:
    order = ", ".join(as_cell(c) for c in rerun["order"])
    yield (
        f"{count(rerun['n'], 'question')} of both, answered again in the first figure's setting"
        " with the second's values, and judged by the first figure's rule."
        f" {f'Order: {order}.' if order else 'Nothing that differs can be run again here.'}"
    )
    same, moved = rerun["repeated"] == rerun["n"], _points(rerun["not_repeated"])
    yield (
        f"As before: {rerun['repeated']} of {count(rerun['n'], 'answer')} come out as they were"
        f" stored{'' if same else f'; the others move the first figure by {moved} points'}."
    )
    if rerun["causes"]:
        rows = [
            [f"**{as_cell(c['cause'])}**", as_cell(c["detail"]), _points(c["alone"]),
             _points(c["in_order"])]
            for c in rerun["causes"]
        ]  # fmt: skip
        yield table(["cause", "what differs", "alone, points", "in order, points"], rows)
    if len(rerun["causes"]) > 1:
        yield f"*Interaction*: {_number(rerun['interaction'])} points."
    yield (
        f"*The rest*, between all of these and the second figure's answers to the same questions:"
        f" {_points(rerun['rest'])} points."
    )
    if rerun["left"]:
        yield "What differs and could not be run again, which is part of the rest:"
        rows = [[f"**{as_cell(z['cause'])}**", as_cell(z["reason"])] for z in rerun["left"]]
        yield table(["cause", "why"], rows)


def _points(interval: Any) -> str:
    return logits(interval)


def _number(x: float | None) -> str:
    return number(x, "+.2f")


def write(report: Plain, out: Path) -> None:
    """diff.json, .md and .html in a folder."""
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / NAMES[0], report)
    (out / NAMES[1]).write_text(markdown(report), encoding="utf-8")
    shown = page("Why two figures differ", _blocks(report))
    (out / NAMES[2]).write_text(shown, encoding="utf-8")
