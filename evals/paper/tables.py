"""Reads the published tables. Their figures are only shown next to ours and are never a target."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.evals.paper.doctor import Claim, audit_metrics

SOURCE = Path(__file__).with_name("tables.toml")


@dataclass(frozen=True)
class TableRow:
    """One published row and what computes ours.

    paper: figures in the order of the table's metrics, as printed. backbone: where it differs from
    the table's. options: parts of RunOptions. contrast: (α, β), those of the benchmark without it.
    label: (dimension, value), the questions it is about.
    """

    name: str
    method: str
    paper: tuple[float, ...]
    backbone: str
    options: dict[str, Any] = field(default_factory=dict)
    contrast: tuple[float, float] | None = None
    detector: str | None = None
    label: tuple[str, str] | None = None


@dataclass(frozen=True)
class PaperTable:
    """A published table."""

    name: str
    title: str
    label: str
    """Its LaTeX label."""
    metrics: tuple[str, ...]
    """Names of the columns: BENCHMARK.FIGURE, cost.NAME or study.NAME."""
    rows: tuple[TableRow, ...]
    decimals: int
    benchmarks: tuple[str, ...]
    backbone: str
    note: str
    percent: bool
    """Whether accuracies and rates are printed in percent instead of shares."""
    fps: float | None
    size: int | None
    """`fps` and `size`: how frames are sampled."""
    confusion: tuple[str, int, int] | None
    """(benchmark, questions, those with yes) where they are known."""


@cache
def _records() -> dict[str, dict[str, Any]]:
    return tomllib.loads(SOURCE.read_text(encoding="utf-8"))


def table_names() -> list[str]:
    """All tables, by name."""
    return sorted(_records())


def read_table(name: str) -> PaperTable:
    """A table by name. Raises OptionError."""
    if name not in table_names():
        raise OptionError(
            f"there is no table {name!r}", f"Choose one of {', '.join(table_names())}"
        )
    record = _records()[name]
    backbone = record.get("backbone", "")
    confusion = record.get("confusion")
    return PaperTable(
        name=name,
        title=record["title"],
        label=record["label"],
        metrics=tuple(record["metrics"]),
        rows=tuple(_row(r, backbone) for r in record["rows"]),
        decimals=record["decimals"],
        benchmarks=tuple(record["benchmarks"]),
        backbone=backbone,
        note=record.get("note", ""),
        percent=record.get("percent", False),
        fps=record.get("fps"),
        size=record.get("size"),
        confusion=None
        if confusion is None
        else (confusion["benchmark"], confusion["n"], confusion["positives"]),
    )


def _row(record: dict[str, Any], backbone: str) -> TableRow:
    pair, label = record.get("contrast"), record.get("label")
    return TableRow(
        name=record["name"],
        method=record["method"],
        paper=tuple(float(x) for x in record["paper"]),
        backbone=record.get("backbone", backbone),
        options=record.get("options", {}),
        contrast=None if pair is None else (float(pair[0]), float(pair[1])),
        detector=record.get("detector"),
        label=None if label is None else (label[0], label[1]),
    )


def impossible(table: PaperTable, row: TableRow) -> bool:
    """Whether no confusion matrix of the table's size gives the row's printed figures.

    Unmatched answers count as no, and figures are taken to be rounded.
    """
    if table.confusion is None:
        return False
    benchmark, n, positives = table.confusion
    scale = 1 if table.percent else 100
    claimed = {}
    for metric, value in zip(table.metrics, row.paper, strict=True):
        part, _, figure = metric.partition(".")
        if part == benchmark and figure in ("accuracy", "precision", "recall", "f1"):
            claimed[figure] = scale * value
    if not claimed:
        return False
    decimals = table.decimals if table.percent else table.decimals - 2
    claim = Claim(
        n,
        positives,
        accuracy=claimed.get("accuracy"),
        precision=claimed.get("precision"),
        recall=claimed.get("recall"),
        f1=claimed.get("f1"),
        decimals=decimals,
        unmatched="no",
    )
    return not audit_metrics(claim).possible
