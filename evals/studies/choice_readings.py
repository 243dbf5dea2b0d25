"""MACD's place among as many objects in *faint*: `python -m evals.studies.choice_readings`.

The second registered comparison of docs/registration.md, of the rows that
`evals.studies.choice_draws --reading` reads: two trainings, and other readings of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from macd_studio.commands import parser as command_line
from macd_studio.core.statistics import Interval
from macd_studio.evals.printing.figures import change, percent, table
from macd_studio.evals.statistics.stats import LEVEL, holm
from macd_studio.evals.studies.choice_draws import READINGS, ChoiceDraws
from macd_studio.evals.studies.choice_test import Against, Clip, clip_of, judged, known_of, p_text
from macd_studio.evals.studies.one_mask import FIXED
from macd_studio.evals.studies.registered import REGISTERED_PAIR
from macd_studio.evals.studies.shared import FOLDER, command, stored, told

PLACES = FOLDER / "places"
"""The committed rows: a folder for each training, a file for each reading."""
SHIPPED = "shipped"
TRAININGS = {SHIPPED: "shipped", "second": "second"}
CHANCE, MARGIN = 0.5, 0.035
"""The mean place of a choice at random, and within how much of it a place does not matter."""
BOTH = "both"
Pair = tuple[float, float]


def clips_needed(sd: float, level: float = LEVEL, power: float = 0.8) -> int:
    """Clips with a choice in which a mean place MARGIN above CHANCE is found with that power.

    sd: standard deviation of a clip's place, in [0, 1]. By the normal approximation, two-sided.

    >>> clips_needed(0.33), clips_needed(0.33, 0.025)
    (698, 845)
    """
    quantiles = float(norm.ppf(1 - level / 2) + norm.ppf(power))
    return math.ceil((quantiles * sd / MARGIN) ** 2)


def verdict(place: Interval, ninety: Interval, adjusted: float) -> str:
    """What is said of a registered row, by its rule. adjusted: Holm's p.

    >>> verdict((0.51, 0.49, 0.53), (0.51, 0.495, 0.525), 0.3)
    'within 3.5 of chance'
    """
    if adjusted < LEVEL:
        return "better than chance" if place[0] > CHANCE else "worse than chance"
    inside = CHANCE - MARGIN < ninety[1] and ninety[2] < CHANCE + MARGIN
    return "within 3.5 of chance" if inside else "not decided"


def places_of(rows: Sequence[ChoiceDraws], pairs: Sequence[Pair]) -> dict[Pair, list[Clip]]:
    """The clips of the rows at each α, β, with MACD's frame mask."""
    known = known_of(rows)
    return {
        pair: [clip_of(row, k, pair, True) for row, k in zip(rows, known, strict=True)]
        for pair in pairs
    }


def _row(clips: Sequence[Clip], **named: Any) -> dict[str, Any]:
    """MACD's choices against their classes."""
    chosen = [clip.chosen for clip in clips]
    ninety = Against.of(clips, chosen).mean_place(LEVEL)
    return named | {"clips": len(clips), "ninety": ninety} | judged(clips, chosen)


def report_of(files: Mapping[tuple[str, str], Sequence[ChoiceDraws]]) -> dict[str, Any]:
    """The registered rows, the secondary ones, and what stands beside them untested.

    files: (training, reading) → rows, among them the "default" of every training. A row's p is of
    places, but that of right answers where `what` is "right".
    """
    pairs = list(dict.fromkeys((REGISTERED_PAIR, *FIXED)))
    clips = {t: places_of(files[t, "default"], pairs) for t in TRAININGS}
    registered = [_row(clips[t][REGISTERED_PAIR], training=t) for t in TRAININGS]
    secondary = [dict(row, what="right", pair=list(REGISTERED_PAIR)) for row in registered]
    for row, adjusted in zip(registered, holm([r["place_p"] for r in registered]), strict=True):
        row |= {"holm": adjusted, "verdict": verdict(row["place"], row["ninety"], adjusted)}
    secondary += [
        _row(clips[t][pair], training=t, what="place", pair=list(pair))
        for t in TRAININGS
        for pair in pairs[1:]
    ]
    pooled = [clip for t in TRAININGS for clip in clips[t][REGISTERED_PAIR]]
    secondary.append(_row(pooled, training=BOTH, what="place", pair=list(REGISTERED_PAIR)))
    few = {}
    for reading in READINGS:
        rows = files.get((SHIPPED, reading), [])
        few[reading] = places_of(rows, pairs[:1])[REGISTERED_PAIR] if rows else []
    most = max(len(of) for name, of in few.items() if name != "default")
    readings = [
        _row(of[:most], training=SHIPPED, what="place", pair=list(REGISTERED_PAIR), reading=name)
        for name, of in few.items()
        if of
    ]
    secondary += [row for row in readings if row["reading"] != "default"]
    tested = [row["p" if row["what"] == "right" else "place_p"] for row in secondary]
    for row, adjusted in zip(secondary, holm(tested), strict=True):
        row["holm"] = adjusted
    return {
        "seeds": {t: sorted({row.seed for row in files[t, "default"]}) for t in TRAININGS},
        "rows": registered,
        "secondary": secondary,
        "beside": [row for row in readings if row["reading"] == "default"],
        "baseline": {t: float(np.mean([c.base for c in of[pairs[0]]])) for t, of in clips.items()},
        "oracle": {
            t: judged(of[REGISTERED_PAIR], [clip.asked for clip in of[REGISTERED_PAIR]])
            for t, of in clips.items()
        },
    }


def markdown(report: dict[str, Any]) -> str:
    """All rows in one table."""
    lines = []
    groups = (("registered", report["rows"]), ("secondary", report["secondary"]),
              ("not tested", report["beside"]))  # fmt: skip
    for group, rows in groups:
        for row in rows:
            right = row.get("what") == "right"
            lines.append([
                group, TRAININGS.get(row["training"], "both"),
                READINGS[row.get("reading", "default")][0],
                "{:g}, {:g}".format(*row.get("pair", REGISTERED_PAIR)),
                f"{row['n']} of {row['clips']}",
                f"{change(row['over'])} points" if right else percent(row["place"]),
                p_text(row["p" if right else "place_p"]),
                f"{row['holm']:.2g}" if "holm" in row else "–", row.get("verdict", "–"),
            ])  # fmt: skip
    for training, found in report["oracle"].items():
        lines.append([
            "not tested", TRAININGS[training], "oracle: the asked object",
            "{:g}, {:g}".format(*REGISTERED_PAIR), str(found["n"]), percent(found["place"]),
            p_text(found["place_p"]), "–", "–",
        ])  # fmt: skip
    heads = ["row", "weights", "reading", "α, β", "with a choice", "place in its class, %",
             "exact p", "Holm", "said"]  # fmt: skip
    return table(heads, lines)


def stored_files(folder: Path) -> dict[tuple[str, str], list[ChoiceDraws]]:
    """(training, reading) → the rows of `folder`/TRAINING/READING.json.xz."""
    return {
        (training, reading): list(stored(path, lambda row: ChoiceDraws(**row)).values())
        for training in TRAININGS
        for reading in READINGS
        if (path := folder / training / f"{reading}.json.xz").is_file()
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table and writes the report beside the rows."""
    parser = command_line("evals.studies.choice_readings", __doc__)
    parser.add_argument("--rows", type=Path, default=PLACES, help="a folder for each training")
    parser.add_argument("--out", type=Path, default=FOLDER / "places.json", help="a JSON file")

    def run(args: Any) -> str:
        return told(report_of(stored_files(args.rows)), markdown, args.out)

    return command(parser, run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
