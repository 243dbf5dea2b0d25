"""Published tables as data: read, checked by the doctor, and compared with each other.

`findings` tells of printed figures that are no yes/no metrics and yet cannot be, or cannot all be:
moments of ratings, and figures of one quantity in two tables. It says nothing of why.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import combinations
from pathlib import Path

from macd_studio.core.errors import OptionError
from macd_studio.core.statistics import least_sd
from macd_studio.core.validation import shown
from macd_studio.evals.paper.doctor import (
    METRICS,
    Claim,
    Diagnosis,
    Printed,
    Unmatched,
    audit_metrics,
)

FOLDER = Path(__file__).parent / "published_tables"
UNITS = ("percent", "share")
COUNTS = ("n", "positives")
MAX_BYTES, MAX_ROWS = 2_000_000, 10_000


@dataclass(frozen=True)
class PublishedRow:
    """A row as printed. labels: what it is about, by column. figures: metric → text as printed.

    unit: "percent" or "share" of the figures that the doctor reads. n, positives: of its questions.
    """

    table: str
    labels: Mapping[str, str]
    figures: Mapping[str, str]
    unit: str
    n: int | None = None
    positives: int | None = None

    @property
    def name(self) -> str:
        """Its labels in one line."""
        return ", ".join(v for v in self.labels.values() if v)

    def claim(self, unmatched: Unmatched, printed: Printed) -> Claim | None:
        """What the doctor is asked; None where the row tells no number of questions."""
        if self.n is None or not any(m in self.figures for m in METRICS):
            return None
        texts = {m: self.figures[m] for m in METRICS if m in self.figures}
        move = 2 if self.unit == "share" else 0
        return Claim(
            n=self.n,
            positives=self.positives,
            decimals={m: max(0, decimals(t) - move) for m, t in texts.items()},
            unmatched=unmatched,
            printed=printed,
            **{m: float(Decimal(t).scaleb(move)) for m, t in texts.items()},
        )


@dataclass(frozen=True)
class PublishedTable:
    """A table and where it was printed."""

    name: str
    source: str
    rows: tuple[PublishedRow, ...] = field(default=())


def decimals(text: str) -> int:
    """Decimals of a figure as it was printed.

    >>> decimals("0.7190"), decimals("64")
    (4, 0)
    """
    return len(text.partition(".")[2])


def read_table(path: Path) -> PublishedTable:
    """A table from a CSV file; raises OptionError, with the line, for one that cannot be read.

    Lines that begin with # tell its source. The columns accuracy, precision, recall, f1 and
    yes_rate are figures as printed, and so is any other column whose name begins with "figure:"; n
    and positives count questions; unit is percent or share, percent where it is missing; all others
    are labels. Empty cells were not printed.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise OptionError(f"{path.name} is over {MAX_BYTES} bytes", "Split it")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(
            f"{shown(str(path), 200)} cannot be read ({type(error).__name__})", "Give a CSV file"
        ) from None
    source = " ".join(line.lstrip("# ").strip() for line in lines if line.startswith("#"))
    kept = [(i, line) for i, line in enumerate(lines, 1) if line and not line.startswith("#")]
    reader = csv.DictReader((line for _, line in kept), strict=True)
    rows = []
    try:
        for (number, _), cells in zip(kept[1:], reader, strict=False):
            rows.append(_read_row(path.stem, cells, f"line {number} of {path.name}"))
    except csv.Error as error:
        raise OptionError(f"{path.name} is no CSV ({error})", "Quote cells with commas") from None
    if not rows or len(rows) > MAX_ROWS:
        raise OptionError(f"{path.name} has {len(rows)} rows", f"Give 1 to {MAX_ROWS}")
    return PublishedTable(path.stem, source, tuple(rows))


def _read_row(table: str, cells: Mapping[str | None, str | None], where: str) -> PublishedRow:
    labels, figures, counts, unit = {}, {}, dict.fromkeys(COUNTS, None), "percent"
    for column, cell in cells.items():
        if column is None or cell is None:
            raise OptionError(f"{where} has another number of cells", "Fill every column")
        text = cell.strip()
        if column == "unit":
            unit = text or unit
        elif column in COUNTS:
            counts[column] = _count(text, f"{column} in {where}") if text else None
        elif column in METRICS or column.startswith("figure:"):
            if text:
                figures[column.removeprefix("figure:")] = _figure(text, f"{column} in {where}")
        else:
            labels[column] = text
    if unit not in UNITS:
        raise OptionError(f"unit in {where} is {shown(unit)}", f"Choose one of {', '.join(UNITS)}")
    return PublishedRow(table, labels, figures, unit, counts["n"], counts["positives"])


def _count(text: str, where: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise OptionError(f"{where} is {shown(text)}", "Give a whole number")
    return int(text)


def _figure(text: str, where: str) -> str:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or "e" in text.lower() or len(text) > 20:
        raise OptionError(f"{where} is {shown(text)}", "Give the number as it was printed")
    return text


def diagnose(
    row: PublishedRow, unmatched: Unmatched = "wrong", printed: Printed = "rounded"
) -> Diagnosis | None:
    """What the doctor says of a row; None where it tells no number of questions."""
    claim = row.claim(unmatched, printed)
    return None if claim is None else audit_metrics(claim)


@dataclass(frozen=True)
class Comparison:
    """Two printed rows, the metrics in which they agree and those in which they differ."""

    first: PublishedRow
    second: PublishedRow
    metrics: tuple[str, ...]


def disagreements(rows: Sequence[PublishedRow], same: Sequence[str]) -> Iterator[Comparison]:
    """Rows of different tables with equal labels in the columns `same`, and other figures.

    Figures agree where rounding each to the fewer decimals of the two can give the same number.
    """
    for a, b in _pairs(rows):
        if all(a.labels.get(c) and a.labels.get(c) == b.labels.get(c) for c in same):
            shared = [m for m in a.figures if m in b.figures]
            differ = tuple(m for m in shared if not _agree(a, b, m))
            if differ:
                yield Comparison(a, b, differ)


def coincidences(
    rows: Sequence[PublishedRow], same: Sequence[str], other: str
) -> Iterator[Comparison]:
    """Rows of different tables that agree in two metrics or more under different labels `other`."""
    for a, b in _pairs(rows):
        if all(a.labels.get(c) == b.labels.get(c) for c in same):
            shared = tuple(m for m in a.figures if m in b.figures and m in METRICS)
            if len(shared) > 1 and a.labels.get(other) != b.labels.get(other):
                if all(_agree(a, b, m) for m in shared):
                    yield Comparison(a, b, shared)


def _pairs(rows: Sequence[PublishedRow]) -> Iterator[tuple[PublishedRow, PublishedRow]]:
    return ((a, b) for a, b in combinations(rows, 2) if a.table != b.table)


def _agree(a: PublishedRow, b: PublishedRow, metric: str) -> bool:
    values, reach = [], Decimal(0)
    for row in (a, b):
        move = 2 if row.unit == "share" and metric in METRICS else 0
        values.append(Decimal(row.figures[metric]).scaleb(move))
        places = decimals(row.figures[metric]) - move
        reach = max(reach, Decimal(1).scaleb(-places) / 2)
    return abs(values[0] - values[1]) <= reach


CHANCE_OF_THREE = 1 / 3


def most_at_least(mean: float, deviation: float, threshold: float) -> float:
    """The largest share of values at or above a threshold over the mean, on any scale.

    Cantelli's inequality, σ²/(σ² + (threshold − mean)²); 1 for a threshold at or below the mean.

    >>> round(most_at_least(3.105, 0.655, 4), 3)
    0.349
    """
    if threshold <= mean:
        return 1.0
    variance = deviation**2
    return variance / (variance + (threshold - mean) ** 2)


def findings(published: Mapping[str, PublishedTable]) -> Iterator[str]:
    """A sentence for each; none for a table that is not there."""
    for row in _rows(published, "mask_quality"):
        yield from _rating(row)
    by_fusion = {r.labels["method"]: r for r in _rows(published, "fusion")}
    by_threshold = {r.labels["setting"]: r for r in _rows(published, "detector_threshold")}
    default = next((r for s, r in by_threshold.items() if "default" in s), None)
    largest = by_fusion.get("pixelwise max")
    if default and largest:
        name = "hallucination_rate_percent"
        yield (
            f"The hallucination rate of the default setting is {largest.figures[name]} % in the"
            f" table of fusions and {default.figures[name]} % in that of detector thresholds."
        )
    slow = _first(published, "latency", "Baseline")
    quick = _first(published, "memory", "Baseline")
    if slow and quick:
        yield (
            f"Plain decoding takes {slow.figures['latency_ms']} ms at the smaller budget"
            f" ({slow.labels['setting']}) and {quick.figures['latency_ms']} ms in the table of"
            " memory, which names no smaller one."
        )
    others = _rows(published, "main_other")
    tests = [r for r in others if r.labels["benchmark"] == "Perception Test"]
    contrasted = [r for r in tests if r.labels["method"] in ("VCD", "SID")]
    near = [r for r in contrasted if abs(_accuracy(r) - CHANCE_OF_THREE) <= 0.05]
    if near:
        models = {r.labels["model"] for r in near}
        without = [
            _accuracy(r)
            for r in tests
            if r.labels["method"] == "Baseline" and r.labels["model"] in models
        ]
        low, high = min(map(_accuracy, near)), max(map(_accuracy, near))
        yield (
            f"VCD and SID get {low:.2f} to {high:.2f} on Perception Test, a choice of three, in"
            f" {len(near)} of {len(contrasted)} rows: within .05 of guessing, where the same"
            f" backbones get {min(without):.2f} to {max(without):.2f} without them."
        )
    plain = [r for r in others if r.labels["method"] == "Baseline"]
    for i, first in enumerate(plain):
        for second in plain[i + 1 :]:
            same = first.labels["benchmark"] == second.labels["benchmark"]
            if same and first.figures["accuracy"] == second.figures["accuracy"]:
                yield (
                    f"The baselines of {first.labels['model']} and {second.labels['model']} are"
                    f" both {first.figures['accuracy']} on {first.labels['benchmark']}."
                )
    rates = _rows(published, "learning_rate")
    if len({r.figures["accuracy"] for r in rates}) > 1:
        printed = " and ".join(r.figures["accuracy"] for r in rates)
        yield (
            f"Rows that differ in the learning rate alone print {printed}. With one step and three"
            " levels the rate cannot change an answer: only the gradient's sign counts."
        )


def _rating(row: PublishedRow) -> Iterator[str]:
    """Whether mean, deviation and share of a rating row can be together, at their rounding."""
    mean, deviation, percent = (
        row.figures[n] for n in ("mean", "standard_deviation", "percent_4_or_more")
    )
    half = [0.5 * 10 ** -decimals(z) for z in (mean, deviation, percent)]
    largest = most_at_least(float(mean) + half[0], float(deviation) + half[1], 4)
    least = (float(percent) - 0.5) / 100  # a whole percent, however it is printed
    if largest >= least:
        return
    needed = least_sd(float(mean) + half[0], least)
    yield (
        f"Ratings of {row.labels['method']}: a mean of {mean} with a standard deviation of"
        f" {deviation} leaves at most {100 * largest:.1f} % at 4 or above on any scale, and"
        f" {float(percent):g} % is printed; whole ratings from 1 to 5 with that share need a"
        f" deviation of {needed:.2f}. Unless the units differ (raters, videos), the row cannot be."
    )


def _accuracy(row: PublishedRow) -> float:
    return float(row.figures["accuracy"])


def _rows(published: Mapping[str, PublishedTable], name: str) -> list[PublishedRow]:
    return list(published[name].rows) if name in published else []


def _first(published: Mapping[str, PublishedTable], name: str, method: str) -> PublishedRow | None:
    return next((r for r in _rows(published, name) if r.labels["method"] == method), None)
