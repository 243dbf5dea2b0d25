"""Every published table of the crossed benchmark, from its committed logits.

`python -m evals.experiments` writes crossed.json with its picture and search.json anew, one file an
experiment. Nothing is read by a model: the logits of docs/toyworld-results/crossed-logits.jsonl.gz
hold every view of every clip, so a figure that does not follow from them is not published.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from macd_studio.commands import need_checkout
from macd_studio.commands import parser as command_line
from macd_studio.core.errors import OptionError
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.commands.common import say
from macd_studio.evals.first_token import ORACLE, REMOVED, OptionLogits
from macd_studio.evals.headroom import Answers, adjust, compare, picture
from macd_studio.evals.run import write_json
from macd_studio.parts import ROOT

FOLDER = ROOT / "docs" / "toyworld-results"
POOL = "crossed-logits.jsonl.gz"
BENCHMARK = "toyworld-crossed"

Counts = tuple[int, int]
"""questions of the test split and of the choose split, before whole cycles are made of them"""
OPTIONS: Counts = (1000, 300)
SMALL: Counts = (600, 150)


DRAWN = (
    "vcd", "macd", "macd-measured", "random-mask", "random-average-4", "mask-all", ORACLE, REMOVED,
)  # fmt: skip
"""What the logits hold. `random-mask` and its average were drawn before `random-place`: each object
lies at least half its size from where it was."""


@dataclass(frozen=True)
class Experiment:
    """One file. regimes: by name the questions asked for; methods: what is compared."""

    regimes: Mapping[str, Counts]
    methods: tuple[str, ...]


EXPERIMENTS = {
    "crossed": Experiment({"options": OPTIONS, "presence": SMALL, "order": SMALL}, DRAWN),
    "search": Experiment(
        {"options": OPTIONS},
        ("macd", "macd-margin", "macd-measured", "random-mask", "random-average-4"),
    ),
}


@lru_cache(maxsize=4)
def read_pool(path: Path) -> Mapping[str, OptionLogits]:
    """Item id → its row, of a packed file of logits. Raises OptionError where it is not whole."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows = [OptionLogits(**json.loads(line)) for line in lines]
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise OptionError(
            f"{path.name} cannot be read ({error})", "Take it from the repository again"
        ) from None
    return {row.item: row for row in rows}


def of_regime(pool: Mapping[str, OptionLogits], regime: str, counts: Counts) -> list[Answers]:
    """The choose split and the test split of one regime. Raises OptionError without a row."""
    benchmark = find_benchmark(BENCHMARK)
    answers = []
    for split, n in (("choose", counts[1]), ("test", counts[0])):
        items = [i for i in benchmark.items(split, n) if i.regime == regime]  # type: ignore[arg-type]
        if missing := [i.id for i in items if i.id not in pool]:
            raise OptionError(
                f"{len(missing)} questions have no logits, {missing[0]} first",
                "Read them by `python -m evals.headroom`",
            )
        answers.append(Answers.of(items, [pool[i.id] for i in items]))
    return answers


def report_of(name: str, pool: Mapping[str, OptionLogits]) -> dict[str, Any]:
    """The report of one experiment, as `evals.headroom` writes it."""
    experiment, benchmark = EXPERIMENTS[name], find_benchmark(BENCHMARK)
    regimes: dict[str, Any] = {}
    for regime, counts in experiment.regimes.items():
        choose, test = of_regime(pool, regime, counts)
        about = {"balance": benchmark.balance[regime], "tuned_on": len(choose.items)}
        regimes[regime] = about | compare(choose, test, experiment.methods)
    return {
        "benchmark": BENCHMARK, "backbone": "toyworld", "boxes": "truth", "fill": "mean",
        "methods": list(experiment.methods), "families": adjust(regimes), "regimes": regimes,
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Writes every file anew."""
    need_checkout("evals.experiments")
    parser = command_line("evals.experiments", __doc__)
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the files")
    args: argparse.Namespace = parser.parse_args(argv)
    pool = read_pool(FOLDER / POOL)
    for name in EXPERIMENTS:
        report = report_of(name, pool)
        write_json(args.out / f"{name}.json", report)
        if name == "crossed":
            (args.out / f"{name}.svg").write_text(picture(report), encoding="utf-8")
        say(f"{name}.json was written")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
