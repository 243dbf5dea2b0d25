"""Every published table of the crossed benchmark, from its committed logits.

`python -m evals.studies.experiments` writes crossed.json with its picture and search.json anew, one
file an experiment. Nothing is read by a model: the logits of
docs/toyworld-results/crossed-*.json.xz hold every view of every clip, so a figure that does not
follow from them is not published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from macd_studio.commands import need_checkout
from macd_studio.commands import parser as command_line
from macd_studio.core.errors import OptionError
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.running.output import say, write_json
from macd_studio.evals.studies.first_token import ORACLE, REMOVED, VIDEO, OptionLogits
from macd_studio.evals.studies.headroom import Answers, adjust, compare, picture
from macd_studio.evals.studies.shared import FOLDER, unpack_rows

POOL = "crossed-logits.json.xz"
BENCHMARK = "toyworld-crossed"

CONTROLS = "crossed-controls.json.xz"
"""The controls that were named later, of *options*: their logits stand for those of the pool."""

Counts = tuple[int, int]
"""questions of the test split and of the choose split, before whole cycles are made of them"""
OPTIONS: Counts = (1000, 300)
SMALL: Counts = (600, 150)

CHOSEN, TOLD = ("vcd", "macd", "macd-measured"), ("mask-all", ORACLE, REMOVED)
FORMER = (*CHOSEN, "random-mask", "random-average-4", *TOLD)
"""With the random mask and its average as they were before `random-place`: each object lies at
least half its size from where it was."""
PRESENT = (*CHOSEN, "random-place", "random-objects", "random-average-4", *TOLD)


@dataclass(frozen=True)
class Part:
    """One regime. counts: questions asked for; methods: what is compared; pools: files of logits,
    later ones stand for earlier ones where both hold a view."""

    counts: Counts
    methods: tuple[str, ...]
    pools: tuple[str, ...] = (POOL,)


EXPERIMENTS: dict[str, dict[str, Part]] = {
    "crossed": {
        "options": Part(OPTIONS, PRESENT, (POOL, CONTROLS)),
        "presence": Part(SMALL, FORMER),
        "order": Part(SMALL, FORMER),
    },
    "search": {
        "options": Part(
            OPTIONS, ("macd", "macd-margin", "macd-measured", "random-mask", "random-average-4")
        ),
    },
    "seed-124/report": {"options": Part(OPTIONS, PRESENT, ("seed-124/logits.json.xz",))},
}
"""File → regime → what is compared there. A folder is of another training's backbone."""


@lru_cache(maxsize=4)
def read_pool(path: Path) -> Mapping[str, OptionLogits]:
    """Item id → its row, of a packed file. Raises OptionError where it cannot be read."""
    return {row["item"]: OptionLogits(**row) for row in unpack_rows(path)}


def merged(pools: Sequence[Mapping[str, OptionLogits]]) -> Mapping[str, OptionLogits]:
    """One pool of several; a later one's views stand for an earlier one's of the same name.

    Raises OptionError where the video's own logits differ: then the pools are of other models.
    """
    first, *others = pools
    rows = dict(first)
    for pool in others:
        for item, row in pool.items():
            known = rows.get(item, row)
            if not np.allclose(known.views[VIDEO], row.views[VIDEO], atol=SAME):
                raise OptionError(
                    f"the logits of {item} are of two models", "Read both files with one model"
                )
            views = known.views | {k: v for k, v in row.views.items() if k != VIDEO}
            rows[item] = replace(known, views=views, reads=known.reads | row.reads)
    return rows


SAME = 2e-3
"""Logits by which one model's may differ from one machine to the next."""


def of_regime(pool: Mapping[str, OptionLogits], regime: str, counts: Counts) -> list[Answers]:
    """The choose split and the test split of one regime. Raises OptionError without a row."""
    benchmark = find_benchmark(BENCHMARK)
    answers = []
    for split, n in (("choose", counts[1]), ("test", counts[0])):
        items = [i for i in benchmark.items(split, n) if i.regime == regime]  # type: ignore[arg-type]
        if missing := [i.id for i in items if i.id not in pool]:
            raise OptionError(
                f"{len(missing)} questions have no logits, {missing[0]} first",
                "Read them by `python -m evals.studies.headroom`",
            )
        answers.append(Answers.of(items, [pool[i.id] for i in items]))
    return answers


def figures_of(name: str, regime: str) -> dict[str, Any]:
    """The figures of one regime of an experiment, from the committed files."""
    part = EXPERIMENTS[name][regime]
    pool = merged([read_pool(FOLDER / file) for file in part.pools])
    choose, test = of_regime(pool, regime, part.counts)
    about = {"balance": find_benchmark(BENCHMARK).balance[regime], "tuned_on": len(choose.items)}
    return about | compare(choose, test, part.methods)


def report_of(name: str) -> dict[str, Any]:
    """The report of one experiment, as `evals.studies.headroom` writes it."""
    parts = EXPERIMENTS[name]
    regimes = {regime: figures_of(name, regime) for regime in parts}
    methods = dict.fromkeys(m for part in parts.values() for m in part.methods)
    return {
        "benchmark": BENCHMARK, "backbone": name.rpartition("/")[0] or "toyworld",
        "boxes": "truth", "fill": "mean",
        "methods": list(methods), "families": adjust(regimes), "regimes": regimes,
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Writes every file again."""
    need_checkout("evals.studies.experiments")
    parser = command_line("evals.studies.experiments", __doc__)
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the files")
    args = parser.parse_args(argv)
    for name in EXPERIMENTS:
        report = report_of(name)
        write_json(args.out / f"{name}.json", report)
        if name == "crossed":
            (args.out / f"{name}.svg").write_text(picture(report), encoding="utf-8")
        say(f"{name}.json was written")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
