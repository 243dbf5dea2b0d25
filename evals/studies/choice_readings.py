"""MACD's place among as many objects in *faint*: `python -m evals.studies.choice_readings`.

The second registered comparison of docs/registration.md, of the rows that
`evals.studies.choice_draws` reads: two trainings, and other readings of the paper.

Each clip's choice is held against all subsets of the same number of objects, its *class*, so
neither how many objects are hidden nor where a mask falls can make the difference. Were a choice
drawn evenly from its class in every clip, the number of right answers would follow a distribution
that is computed whole: the test is exact. The same is done with places in the class by the margin
of the right option, which tell more finely.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import OptionError
from macd_studio.core.statistics import Interval
from macd_studio.evals.printing.figures import change, percent, table
from macd_studio.evals.statistics.intervals import TAIL, difference_interval
from macd_studio.evals.statistics.stats import EXACT_TO, LEVEL, choice_test, holm
from macd_studio.evals.studies.choice_draws import READINGS, ChoiceDraws
from macd_studio.evals.studies.first_token import contrast_scores
from macd_studio.evals.studies.outcomes import FIXED
from macd_studio.evals.studies.registered import REGISTERED_PAIR
from macd_studio.evals.studies.shared import FOLDER, command, items_of, stored, told

PLACES = FOLDER / "places"
"""The committed rows: a folder for each training, a file for each reading."""
SHIPPED = "shipped"
TRAININGS = {SHIPPED: "shipped", "second": "second"}
CHANCE, MARGIN = 0.5, 0.035
"""The mean place of a choice at random, and within how much of it a place does not matter."""
BOTH = "both"
Pair = tuple[float, float]


@dataclass(frozen=True)
class Known:
    """What is known of a clip. right: index of the right option; asked: index of the object."""

    right: int
    asked: int


@dataclass(frozen=True, eq=False)
class Clip:
    """One clip at one α, β, its subsets numbered as in `ChoiceDraws`."""

    right: NDArray[np.int64]
    """(2^K,) whether a subset's answer is right."""
    height: NDArray[np.float64]
    """(2^K,) how far the right option's score leads the others'."""
    base: bool
    """Whether the video alone is answered right."""
    chosen: int | None
    """The subset that MACD masks, or None."""
    asked: int
    """The subset of the asked object alone."""

    @property
    def objects(self) -> int:
        """How many there are."""
        return len(self.right).bit_length() - 1

    def alike(self, subset: int) -> tuple[int, ...]:
        """All subsets of as many objects, itself among them."""
        return _sized(self.objects, subset.bit_count())

    @cached_property
    def places(self) -> list[int]:
        """(2^K,) twice the place of each subset in its class by height, from 0, the highest last.

        Ties share a place. In a class of c it is between 0 and 2 (c − 1), on average c − 1.
        """
        found = [0] * len(self.height)
        for size in range(self.objects + 1):
            alike = list(_sized(self.objects, size))
            height = self.height[alike]
            below = (height[:, None] > height[None]).sum(1)
            equal = (height[:, None] == height[None]).sum(1)
            for n, place in zip(alike, 2 * below + equal - 1, strict=True):
                found[n] = int(place)
        return found


@lru_cache
def _sized(objects: int, size: int) -> tuple[int, ...]:
    return tuple(n for n in range(1 << objects) if n.bit_count() == size)


def clip_of(row: ChoiceDraws, known: Known, pair: Pair) -> Clip:
    """The clip's subsets contrasted with α, β."""
    video = np.array(row.video)
    scores = contrast_scores(video[None], np.array(row.subsets), *pair)
    others = np.delete(scores, known.right, axis=1).max(1)
    with np.errstate(invalid="ignore"):  # the cut may leave one option alone
        height = scores[:, known.right] - others
    return Clip(
        (scores.argmax(1) == known.right).astype(np.int64),
        height,
        bool(video.argmax() == known.right),
        row.chosen,
        1 << known.asked,
    )


@dataclass(frozen=True)
class Against:
    """N choices beside all members of their classes.

    right, among: what each choice answers, and what its class does; place, places: as
    `Clip.places`, as whole parts of `parts`, which is the highest place of every class.
    """

    right: list[int]
    among: list[list[int]]
    place: list[int]
    places: list[list[int]]
    parts: int

    @staticmethod
    def of(clips: Sequence[Clip], chosen: Sequence[int | None]) -> Against:
        """A clip without a choice, or with a class of one member, leaves nothing to choose."""
        pairs = [
            (clip, n, clip.alike(n))
            for clip, n in zip(clips, chosen, strict=True)
            if n is not None and len(clip.alike(n)) > 1
        ]
        if not pairs:
            raise OptionError("no clip leaves anything to choose", "Read more clips")
        parts = math.lcm(*{2 * (len(alike) - 1) for _, _, alike in pairs})
        scaled = [
            [clip.places[m] * (parts // (2 * (len(alike) - 1))) for m in alike]
            for clip, _, alike in pairs
        ]
        return Against(
            [int(clip.right[n]) for clip, n, _ in pairs],
            [clip.right[list(alike)].tolist() for clip, _, alike in pairs],
            [z[alike.index(n)] for z, (_, n, alike) in zip(scaled, pairs, strict=True)],
            scaled,
            parts,
        )

    @property
    def p(self) -> dict[str, float]:
        """Exact p of the right answers and of the places, see `choice_test`."""
        return {
            "p": choice_test(self.right, self.among),
            "place_p": choice_test(self.place, self.places),
        }

    def mean_place(self, tail: float = TAIL) -> Interval:
        """Of the choices, from 0 to 1, .5 for choices at random. tail: beyond each end."""
        place = np.array(self.place) / self.parts - 0.5
        mean, low, high = difference_interval(place, range(len(place)), tail)
        return 0.5 + mean, 0.5 + low, 0.5 + high


def judged(clips: Sequence[Clip], chosen: Sequence[int | None]) -> dict[str, Any]:
    """The choices against their classes. Raises OptionError where there is none; see `Against`."""
    against = Against.of(clips, chosen)
    n = len(against.right)
    over = [r - float(np.mean(c)) for r, c in zip(against.right, against.among, strict=True)]
    return against.p | {
        "n": n,
        "right": float(np.mean(against.right)),
        "over": difference_interval(np.array(over), range(n)),
        "place": list(against.mean_place()),
    }


def known_of(rows: Sequence[ChoiceDraws]) -> list[Known]:
    """The truth of each row. Raises OptionError for a row of no question."""
    pairs = zip(rows, items_of(rows), strict=True)
    return [Known(i.options.index(i.truth), row.labels.index(i.about)) for row, i in pairs]


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
        pair: [clip_of(row, k, pair) for row, k in zip(rows, known, strict=True)] for pair in pairs
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


def p_text(value: float) -> str:
    """An exact p as it is told: below EXACT_TO only that it is."""
    return f"{value:.2g}" if value >= EXACT_TO else "< 1e-12"


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
