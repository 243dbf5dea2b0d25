"""The figures of a whole run over a benchmark, of its rows alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.benchmarks.base import Benchmark
from macd_studio.evals.running.contrasts import CONSTANT
from macd_studio.evals.running.failures import count_objects
from macd_studio.evals.running.rows import PACKED, Row, seeded, unpack
from macd_studio.evals.statistics.constant import answers_by_first, tune, with_constants
from macd_studio.evals.statistics.table import tabulate

Figures = dict[str, Any]


def summarise(
    benchmark: Benchmark, rows: Iterable[Row], methods: Sequence[str], n: int, split: int
) -> Figures:
    """Tunes the constants on the choose split and tabulates the test split.

    rows: of the baseline on the choose split, of every method but yes-bias on the test split.
    n, split: questions a regime. Raises OptionError where a row is missing.
    """
    answers = {(row.item, row.method): row for row in rows}
    chosen, items = benchmark.items("choose", split), benchmark.items("test", n)
    try:
        chosen = [i for i in chosen if i.kind != "caption"]
        plain = {i.id: answers[i.id, "baseline"] for i in chosen}
        constants = tune(chosen, plain)
        texts = answers_by_first(list(plain.values()))
        for item in items:
            baseline = answers[item.id, "baseline"]
            answers[item.id, CONSTANT] = with_constants(item, baseline, constants, texts)
        by_regime = {
            regime: tune([i for i in chosen if i.regime == regime], plain)
            for regime in benchmark.regimes
        }
        figures = tabulate(benchmark, items, answers, methods, by_regime)
    except KeyError as error:
        raise OptionError(f"there is no row of {error.args[0]}", "Run it again") from None
    asked = {i.id for i in items}
    objects = count_objects(row for (item, _), row in answers.items() if item in asked)
    return figures | {
        "constants": constants,
        "regime_constants": by_regime,
        "objects": objects,
    }


def summarise_again(report: Figures, folder: Path) -> Figures:
    """The report of a run with its figures computed again from the rows in its folder."""
    rows = unpack(folder / PACKED)
    benchmark = seeded(find_benchmark(report["benchmark"]), report["seed_step"])
    asked = report["asked"]
    return report | summarise(benchmark, rows, report["methods"], asked["test"], asked["choose"])
