"""The registered comparison of docs/registration.md, of the draws of `evals.studies.control_draws`.

`python -m evals.studies.registered DRAWS` tells the two registered rows and the secondary ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import OptionError
from macd_studio.core.statistics import Interval
from macd_studio.evals.printing.figures import change, table
from macd_studio.evals.running.answer import GRID
from macd_studio.evals.statistics.intervals import clustered_share, difference_interval
from macd_studio.evals.statistics.stats import LEVEL, holm, sign_test
from macd_studio.evals.studies.control_draws import ControlDraws, stored
from macd_studio.evals.studies.outcomes import (
    AVERAGE,
    FIXED,
    MACD,
    OBJECTS,
    PLACE,
    TITLES,
    Outcomes,
    compared,
    one_placement,
)
from macd_studio.evals.studies.shared import command, told, truths

REGISTERED_PAIR = (5.0, 0.01)
"""α and β of both registered rows."""
BOUND = 0.02
"""Within ± this a difference does not matter."""
ROWS = [(REGISTERED_PAIR, OBJECTS), (REGISTERED_PAIR, PLACE)]
OTHERS = [(REGISTERED_PAIR, AVERAGE)] + [
    (pair, name) for pair in FIXED if pair != REGISTERED_PAIR for name in (OBJECTS, PLACE, AVERAGE)
]


def verdict(ninety_five: Interval, ninety: Interval, bound: float = BOUND) -> str:
    """What is said of a row, by the rule that was registered. bound: of what does not matter.

    >>> verdict((0.01, -0.005, 0.025), (0.01, -0.002, 0.019))
    'no difference of 2 points'
    """
    if ninety_five[1] > 0:
        return "better"
    if ninety_five[2] < 0:
        return "worse"
    inside = -bound < ninety[1] and ninety[2] < bound
    return f"no difference of {100 * bound:.0f} points" if inside else "not decided"


def report_of(rows: Sequence[ControlDraws], truth: Sequence[int]) -> dict[str, Any]:
    """Every row over the test split, and what each gains over the baseline at REGISTERED_PAIR.

    p is of `sign_flip`, sign_p of `sign_test`. Raises OptionError without a clip of the split.
    """
    test = [i for i, row in enumerate(rows) if row.item.startswith("test")]
    if not test:
        raise OptionError("the draws hold no clip of the test split", "Read them with --n")
    made = Outcomes.of([rows[i] for i in test], [truth[i] for i in test])
    found: list[dict[str, Any]] = []
    for pair, name in [*ROWS, *OTHERS]:
        before, after = (made.scores[z][GRID.index(pair)] for z in (name, MACD))
        figures = compared(before, after)
        ninety = difference_interval(after - before, range(len(test)), LEVEL)
        registered = (pair, name) in ROWS
        found.append(
            {"pair": list(pair), "over": name, "registered": registered, "ninety": ninety}
            | figures
            | {"sign_p": sign_test(after - before, range(len(test)))}
            | ({"verdict": verdict(figures["delta"], ninety)} if registered else {})
        )
    secondary = [t for t in found if not t["registered"]]
    for one, adjusted in zip(secondary, holm([t["p"] for t in secondary]), strict=True):
        one["holm"] = adjusted
    at, base = GRID.index(REGISTERED_PAIR), made.base.astype(float)
    gains = {n: difference_interval(z[at] - base, range(len(test))) for n, z in made.scores.items()}
    return {
        "n": len(test),
        "rows": found,
        "baseline": clustered_share(made.base, range(len(test))),
        "gains": gains,
        "one_placement": one_placement(made, at),
    }


def markdown(report: dict[str, Any]) -> str:
    """A table of the rows."""
    lines = [
        [
            "registered" if row["registered"] else "secondary",
            "{:g}, {:g}".format(*row["pair"]),
            TITLES[row["over"]],
            change(list(row["delta"])),
            change(list(row["ninety"])),
            f"{row['p']:.3g}",
            f"{row['sign_p']:.2g}",
            row.get("verdict") or f"Holm {row['holm']:.3g}",
        ]
        for row in report["rows"]
    ]
    heads = ["row", "α, β", "MACD over", "95 %", "90 %", "p", "sign test", "said"]
    return "\n\n".join((table(heads, lines), f"{report['n']} clips."))


def report_of_file(path: Path) -> dict[str, Any]:
    """`report_of` of a packed file of draws."""
    rows = list(stored(path).values())
    return report_of(rows, truths(rows))


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table; with --out writes the figures."""
    parser = command_line("evals.studies.registered", __doc__)
    parser.add_argument("draws", type=Path)
    parser.add_argument("--out", type=Path, help="a JSON file")
    return command(parser, lambda args: told(report_of_file(args.draws), markdown, args.out), argv)


if __name__ == "__main__":
    raise SystemExit(main())
