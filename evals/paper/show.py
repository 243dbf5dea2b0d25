"""A table with our figures beside the published ones, in columns of their own."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from macd_studio.core.pages.blocks import as_markdown
from macd_studio.core.text.numbers import with_interval
from macd_studio.evals.paper.ours import Ours, p_of
from macd_studio.evals.paper.tables import PaperTable, TableRow, impossible
from macd_studio.evals.printing.figures import table as markdown_table

HEADS = {"accuracy": "Acc", "precision": "Prec", "recall": "Rec", "f1": "F1",
         "false_yes": "false yes", "latency_ms": "ms", "latency_overhead": "ms +%",
         "memory_gb": "GB", "memory_overhead": "GB +%", "boxes": "boxes", "mean": "mean",
         "sd": "SD", "high": "≥ 4 %"}  # fmt: skip

TESTED: dict[Literal["right", "false_yes"], str] = {"right": "", "false_yes": ", of false yes"}
"""What rows are tested for, and how the line says so."""


def same_backbone(published: str, own: str) -> bool:
    """Whether a published backbone's name is that of ours.

    >>> same_backbone("Qwen2.5-VL-3B", "Qwen/Qwen2.5-VL-3B-Instruct")
    True
    >>> same_backbone("Qwen2.5-VL-3B", "toyworld")
    False
    """
    plain = [re.sub(r"[^a-z0-9]", "", z.lower()) for z in (published, own)]
    return bool(plain[0]) and plain[0] in plain[1]


def as_data(
    table: PaperTable, rows: Sequence[TableRow], computed: Sequence[Ours], about: dict[str, Any]
) -> dict[str, Any]:
    """The table as plain data, ours and the paper's by themselves, and labels of questions."""
    labels = {name: labels for o in computed for name, labels in o.labels.items()}
    return {
        "table": table.name,
        "title": table.title,
        "label": table.label,
        "metrics": list(table.metrics),
        "unit": "percent" if table.percent else "share",
        "note": table.note,
        **about,
        **({"labels": labels} if labels else {}),
        "ours": [
            {"name": r.name, "method": r.method, "n": o.n, "why": o.why,
             "failures": o.failures, "interval": None if o.interval is None else list(o.interval),
             "figures": {m: o.figures.get(m) for m in table.metrics}}
            for r, o in zip(rows, computed, strict=True)
        ],
        "paper": [
            {"name": r.name, "backbone": r.backbone, "impossible": impossible(table, r),
             "figures": dict(zip(table.metrics, r.paper, strict=True))}
            for r in table.rows
        ],
    }  # fmt: skip


def markdown(
    table: PaperTable, rows: Sequence[TableRow], computed: Sequence[Ours], about: dict[str, Any]
) -> str:
    """The table with its notes. Our figures get rows of their own where it lacks our backbone."""
    return as_markdown(_blocks(table, rows, computed, about))


def _blocks(
    table: PaperTable, rows: Sequence[TableRow], computed: Sequence[Ours], about: dict[str, Any]
) -> Iterator[str]:
    yield f"# {table.title}"
    yield (
        f"Ours: {about['backbone']} with boxes of {about['detector']}, or of the detector that a"
        f" row names, on {about['data']}; fit {about.get('fit', 'pad')}. Paper: {table.label}, as"
        " printed; figures"
        f" are {'percent' if table.percent else 'shares'}. The two are not measured alike unless"
        " backbone and data agree."
    )
    if table.note:
        yield table.note
    heads = [_head(table, m) for m in table.metrics]
    lines = []
    own = {id(r): o for r, o in zip(rows, computed, strict=True)}
    several = len({r.backbone for r in table.rows}) > 1
    blank = ["–"] * len(heads)
    if several and not any(same_backbone(r.backbone, about["backbone"]) for r in rows):
        own = {}
        for r, o in zip(rows, computed, strict=True):
            name = f"{about['backbone']}: {r.name}"
            lines.append([name, *_own(table, o), *blank, _note(o)])
    for r in table.rows:
        computed_row = own.get(id(r))
        name = f"{r.backbone}: {r.name}" if several else r.name
        notes = [_note(computed_row)] if computed_row is not None else []
        if impossible(table, r):
            notes.append("printed figures fit no confusion matrix of this size")
        published = [_number(v, table.decimals) for v in r.paper]
        shown = blank if computed_row is None else _own(table, computed_row)
        lines.append([name, *shown, *published, "; ".join(n for n in notes if n)])
    ours, paper = ([f"{whose} {h}" for h in heads] for whose in ("ours", "paper"))
    yield markdown_table(["row", *ours, *paper, "note"], lines)
    yield from _after(table, rows, computed)


def _after(table: PaperTable, rows: Sequence[TableRow], computed: Sequence[Ours]) -> Iterator[str]:
    wrong = sum(impossible(table, r) for r in table.rows)
    if table.confusion is not None:
        benchmark, n, positives = table.confusion
        yield (
            f"{wrong} of {len(table.rows)} printed rows fit no confusion matrix of {n} questions"
            f" with {positives} yes ({benchmark}; unmatched as no, figures rounded)."
        )
    bounded = [(r, o) for r, o in zip(rows, computed, strict=True) if o.interval is not None]
    if bounded:
        yield "Ours with 95 % intervals over clips: " + "; ".join(
            f"{r.name} {with_interval((sum(o.right) / o.n, *o.interval), unit=' %')} of {o.n}"
            for r, o in bounded if o.interval is not None
        )  # fmt: skip
        base = bounded[0]
        for what, words in TESTED.items():
            tests = ((r, p_of(base[1], o, what)) for r, o in bounded[1:])
            pairs = [f"{r.name} {p:.2g}" for r, p in tests if p is not None]
            if pairs:
                against = f"p against {base[0].name}: {', '.join(pairs)}"
                yield f"Exact sign-flip test over clips{words}, {against}"


def _own(table: PaperTable, one: Ours) -> list[str]:
    return [_number(one.figures.get(m), table.decimals) for m in table.metrics]


def _note(one: Ours) -> str:
    return "; ".join(z.replace("|", "/") for z in (one.why, one.failures) if z)


def _number(value: float | None, decimals: int) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.{decimals}f}"


def _head(table: PaperTable, metric: str) -> str:
    part, _, figure = metric.partition(".")
    several = len(table.benchmarks) > 1
    return f"{part} {HEADS[figure]}" if several else HEADS[figure]
