"""Can a regime judge how a method chooses objects? `python -m evals.studies.selection`.

A regime can judge a choice if a good choice among the objects of a clip would show. What a good one
gains is told by an oracle that masks the asked object and nothing else; what no choice gains, by
the null among objects: the mean outcome of every object of the clip masked alone, the asked one
included. The constants of the choose split are added to the options under every view first, so that
nothing is gained by what a constant gains too; all share one α and β, the best for the null on that
split.

The oracle may know what is asked and not what the answer is. So it tells nothing of *presence*,
where it masks nothing in clips that lack the asked object, and of *order*, where it masks the right
one of two. Reads the rows of `evals.studies.control_draws --choice oracle`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import OptionError
from macd_studio.core.statistics import Interval
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.printing.figures import change, percent, table, title
from macd_studio.evals.running.answer import GRID
from macd_studio.evals.statistics.constant import likely_constants
from macd_studio.evals.statistics.intervals import clustered_share, difference_interval
from macd_studio.evals.studies.control_draws import ControlDraws, Draw, stored
from macd_studio.evals.studies.first_token import ORACLE, VIDEO, OptionLogits
from macd_studio.evals.studies.headroom import ACCURATE, Answers, constant_hits, tune_constants
from macd_studio.evals.studies.outcomes import MACD, OBJECTS, Outcomes, best_pair, compared
from macd_studio.evals.studies.shared import FOLDER, command, items_of, told

OVER_BASELINE, OVER_NULL = 0.10, 0.04
"""Shares of right answers that make room for a choice, see `can_judge_selection`."""
REGIMES = ("faint", "options")
"""Whose oracle knows what is asked and not the answer."""

Rows = Sequence[ControlDraws]


def can_judge_selection(oracle: Interval, over_null: Interval) -> bool:
    """Whether a regime has room for a choice of objects.

    oracle: what it gains over the baseline, at least 10 points; over_null: over the null among
    objects, at least 4; shares in [-1, 1], both intervals leave out 0. Constants were added before.
    """
    enough = oracle[0] >= OVER_BASELINE and over_null[0] >= OVER_NULL
    return bool(enough and oracle[1] > 0 and over_null[1] > 0)


def with_constants(row: ControlDraws, item: Item, constants: Mapping[str, float]) -> ControlDraws:
    """The row with a constant added to each option's logit under every view."""
    added = np.array([constants.get(option, 0.0) for option in item.options])

    def moved(logits: Sequence[float]) -> list[float]:
        values: list[float] = (np.array(logits) + added).tolist()
        return values

    def drawn(draws: Sequence[Draw]) -> list[Draw]:
        return [replace(d, logits=moved(d.logits)) for d in draws]

    places, objects = drawn(row.places), drawn(row.objects)
    own = moved(row.macd)
    return replace(row, video=moved(row.video), macd=own, places=places, objects=objects)


def regime_report(rows: Rows, items: Mapping[str, Item]) -> dict[str, Any]:
    """Figures of one regime over its test split.

    rows: the oracle's, of both splits. items: of each row, by its id. Raises OptionError where
    there are none of a split.
    """
    tune = [r for r in rows if not r.item.startswith("test")]
    test = [r for r in rows if r.item.startswith("test")]
    if not tune or not test:
        raise OptionError(
            "the oracle's rows are not of both splits",
            "Read them by `python -m evals.studies.control_draws --choice oracle`",
        )
    choose, judged = (
        Answers.of(
            [items[r.item] for r in of],
            [OptionLogits(r.item, {VIDEO: r.video}) for r in of],
        )
        for of in (tune, test)
    )
    constants = tune_constants(choose, likely_constants)
    plain = judged.hits_with({}).astype(int)

    def outcomes(of: Rows) -> Outcomes:
        asked = [items[r.item] for r in of]
        moved = [with_constants(r, i, constants) for r, i in zip(of, asked, strict=True)]
        return Outcomes.of(moved, [i.options.index(i.truth) for i in asked])

    pair = best_pair(outcomes(tune).scores[OBJECTS])
    made = outcomes(test)
    base = made.base.astype(float)
    null, own = made.scores[OBJECTS][pair], made.scores[MACD][pair]
    oracle, over = compared(base, own), compared(null, own)
    return {
        "n": len(test),
        "tuned_on": len(tune),
        "seed": rows[0].seed,
        "can_judge_selection": can_judge_selection(oracle["delta"], over["delta"]),
        "constants": {
            name: difference_interval(right.astype(int) - plain, range(len(plain)))
            for name, right in constant_hits(choose, judged).items()
        },
        "pair": list(GRID[pair]),
        "baseline": clustered_share(made.base, range(len(base))),
        "null": compared(base, null),
        "oracle": oracle,
        "over": over,
    }


def report_of(rows: Rows) -> dict[str, Any]:
    """Every regime that the rows are of. Raises OptionError for rows that are not the oracle's, of
    two drawings, or of a regime that is none of REGIMES."""
    regimes = {}
    items = {(r.item, r.seed): i for r, i in zip(rows, items_of(rows), strict=True)}
    for regime in dict.fromkeys(r.item.split("/")[1] for r in rows):
        of = [r for r in rows if r.item.split("/")[1] == regime]
        drawings = {(r.seed, r.choice) for r in of}
        if regime not in REGIMES or drawings != {(of[0].seed, ORACLE)}:
            raise OptionError(
                f"the rows cannot judge {regime!r}",
                f"Give the oracle's rows of one drawing, of {' or '.join(REGIMES)}",
            )
        regimes[regime] = regime_report(of, {r.item: items[r.item, r.seed] for r in of})
    return {"regimes": regimes}


def markdown(report: dict[str, Any]) -> str:
    """The verdict of each regime with its figures."""
    lines, notes = [], []
    for regime, part in report["regimes"].items():
        gains = (change(list(part[z]["delta"])) for z in ("null", "oracle", "over"))
        lines.append([
            regime, str(part["n"]), "{:g}, {:g}".format(*part["pair"]),
            percent(list(part["baseline"])), *gains,
            "can" if part["can_judge_selection"] else "cannot",
        ])  # fmt: skip
        alone = change(list(part["constants"][ACCURATE]))
        notes.append(f"*{regime}*: {title(ACCURATE).lower()}, alone {alone}.")
    heads = ["regime", "n", "α, β", "baseline right, %", "any one object", "the asked one (oracle)",
             "oracle over any one", "a choice"]  # fmt: skip
    return "\n\n".join((table(heads, lines), " ".join(notes)))


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table and writes the report."""
    parser = command_line("evals.studies.selection", __doc__)
    parser.add_argument("rows", type=Path, nargs="*", help="files of evals.studies.control_draws")
    parser.add_argument("--out", type=Path, help="a JSON file")

    def run(args: Any) -> str:
        paths = args.rows or sorted(FOLDER.glob("choice-*.xz"))
        rows = [row for path in paths for row in stored(path).values()]
        return told(report_of(rows), markdown, args.out)

    return command(parser, run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
