"""The registered comparison of docs/registration.md, of the draws of `evals.studies.control_draws`.

`python -m evals.studies.registered DRAWS` tells the two registered rows and the secondary ones.
With `--against OTHER` it tells whether two drawings of clips agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import OptionError
from macd_studio.core.statistics import Interval
from macd_studio.evals.printing.figures import change, table
from macd_studio.evals.running.answer import GRID
from macd_studio.evals.running.output import write_json
from macd_studio.evals.statistics.intervals import clustered_share, difference_interval
from macd_studio.evals.statistics.stats import LEVEL, holm, sign_test
from macd_studio.evals.studies.control_draws import ControlDraws, stored
from macd_studio.evals.studies.one_mask import (
    AVERAGE,
    FIXED,
    MACD,
    MULTIPLE,
    OBJECTS,
    PLACE,
    TITLES,
    Outcomes,
    compared,
    one_placement,
)
from macd_studio.evals.studies.shared import command, truths

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
    told: list[dict[str, Any]] = []
    for pair, name in [*ROWS, *OTHERS]:
        before, after = (made.scores[z][GRID.index(pair)] for z in (name, MACD))
        figures = compared(before, after, MULTIPLE)
        ninety = difference_interval(after - before, range(len(test)), LEVEL)
        registered = (pair, name) in ROWS
        told.append(
            {"pair": list(pair), "over": name, "registered": registered, "ninety": ninety}
            | figures
            | {"sign_p": sign_test(after - before, range(len(test)))}
            | ({"verdict": verdict(figures["delta"], ninety)} if registered else {})
        )
    secondary = [t for t in told if not t["registered"]]
    for one, adjusted in zip(secondary, holm([t["p"] for t in secondary]), strict=True):
        one["holm"] = adjusted
    at, base = GRID.index(REGISTERED_PAIR), made.base.astype(float)
    gains = {n: difference_interval(z[at] - base, range(len(test))) for n, z in made.scores.items()}
    return {
        "n": len(test),
        "rows": told,
        "baseline": clustered_share(made.base, range(len(test))),
        "gains": gains,
        "one_placement": one_placement(made, at),
    }


def agreement(first: dict[str, Any], second: dict[str, Any]) -> list[dict[str, Any]]:
    """For each row whether two drawings differ by more than the intervals of both allow.

    The half widths that face each other are added as independent errors are.
    """
    found = []
    for a, b in zip(first["rows"], second["rows"], strict=True):
        low, high = sorted((a["delta"], b["delta"]), key=lambda z: z[0])
        allowed = math.hypot(low[2] - low[0], high[0] - high[1])
        apart = high[0] - low[0]
        found.append({"apart": apart, "allowed": allowed, "agrees": apart <= allowed})
    return found


def markdown(report: dict[str, Any], against: dict[str, Any] | None = None) -> str:
    """A table of the rows; with another report, its intervals beside them and how many miss."""
    agree = agreement(report, against) if against else []
    lines = []
    for i, row in enumerate(report["rows"]):
        cells = [
            "registered" if row["registered"] else "secondary",
            "{:g}, {:g}".format(*row["pair"]),
            TITLES[row["over"]],
            change(list(row["delta"])),
        ]
        if against:
            other = against["rows"][i]
            cells += [change(list(other["delta"])), "yes" if agree[i]["agrees"] else "**no**"]
        else:
            said = row.get("verdict") or f"Holm {row['holm']:.3g}"
            cells += [change(list(row["ninety"])), f"{row['p']:.3g}", f"{row['sign_p']:.2g}", said]
        lines.append(cells)
    heads = ["row", "α, β", "MACD over", "95 %"]
    clips = f"{report['n']} clips."
    if not against:
        return "\n\n".join((table([*heads, "90 %", "p", "sign test", "said"], lines), clips))
    missed = sum(not a["agrees"] for a in agree)
    expected = 0.05 * len(agree)
    told = (
        f"{clips} The other drawing has {against['n']}. {missed} of {len(agree)} rows differ by"
        f" more than both intervals allow; by chance {expected:.1f} are expected."
    )
    return "\n\n".join((table([*heads, "the other drawing", "agree"], lines), told))


def report_of_file(path: Path) -> dict[str, Any]:
    """`report_of` of a packed file of draws."""
    rows = list(stored(path).values())
    return report_of(rows, truths(rows))


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table; with --out writes the figures."""
    parser = command_line("evals.studies.registered", __doc__)
    parser.add_argument("draws", type=Path)
    parser.add_argument("--against", type=Path, help="draws of another seed")
    parser.add_argument("--out", type=Path, help="a JSON file")

    def run(args: Any) -> str:
        report = report_of_file(args.draws)
        against = report_of_file(args.against) if args.against else None
        if args.out:
            agreed = (
                {"against": against, "agreement": agreement(report, against)} if against else {}
            )
            write_json(args.out, report | agreed)
        return markdown(report, against)

    return command(parser, run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
