"""Is a choice of objects better than another of as many? `python -m evals.studies.choice_test`.

Computed from the reads of `evals.studies.choice_draws`. Each clip's choice is held against all
subsets of the same number of objects, its *class*, so neither how many objects are hidden nor where
a mask falls can make the difference. Were a choice drawn evenly from its class in every clip, the
number of right answers would follow a distribution that is computed whole: the test is exact. The
same is done with places in the class by the margin of the right option, which tell more finely.

How often the test refuses a chooser that draws at random, and one that masks what is asked, is
simulated with clips drawn from these, and told beside what it says of MACD.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import OptionError
from macd_studio.core.statistics import Interval, wilson
from macd_studio.evals.printing.figures import change, percent, table
from macd_studio.evals.statistics.intervals import TAIL, difference_interval
from macd_studio.evals.statistics.stats import EXACT_TO, LEVEL, choice_test, sum_of_draws
from macd_studio.evals.studies.choice_draws import ChoiceDraws
from macd_studio.evals.studies.first_token import contrast_scores
from macd_studio.evals.studies.one_mask import FIXED
from macd_studio.evals.studies.registered import REGISTERED_PAIR
from macd_studio.evals.studies.shared import FOLDER, command, items_of, stored, told

SIMULATED = 2000
"""Samples of clips for each chooser and number of clips."""
SIZES = (48, 96, 192, 576)
"""Numbers of clips that are drawn, with replacement."""

Array = NDArray[Any]


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
    own: bool
    """Whether it is answered right behind MACD's own levels."""
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


def clip_of(row: ChoiceDraws, known: Known, pair: tuple[float, float], frames: bool) -> Clip:
    """The clip's subsets contrasted with α, β. frames: with MACD's frame mask where it has one."""
    video = np.array(row.video)
    views = np.array(row.subsets if frames else row.bare)
    scores = contrast_scores(video[None], views, *pair)
    others = np.delete(scores, known.right, axis=1).max(1)
    with np.errstate(invalid="ignore"):  # the cut may leave one option alone
        height = scores[:, known.right] - others
    own = contrast_scores(video[None], np.array([row.own]), *pair)[0]
    return Clip(
        (scores.argmax(1) == known.right).astype(np.int64),
        height,
        bool(video.argmax() == known.right),
        bool(own.argmax() == known.right),
        row.chosen,
        1 << known.asked,
    )


Chooser = Callable[[Clip, np.random.Generator], "int | None"]
"""Which subset of a clip is chosen; None where the chooser has none."""


def by_macd(clip: Clip, rng: np.random.Generator) -> int | None:
    """MACD's own."""
    return clip.chosen


def at_random(clip: Clip, rng: np.random.Generator) -> int | None:
    """As many objects as MACD masks, drawn evenly."""
    return None if clip.chosen is None else int(rng.choice(clip.alike(clip.chosen)))


def by_oracle(clip: Clip, rng: np.random.Generator) -> int | None:
    """The asked object alone."""
    return clip.asked


def by_half(clip: Clip, rng: np.random.Generator) -> int | None:
    """The asked object in half of the clips, any other single object in the rest."""
    others = [n for n in clip.alike(clip.asked) if n != clip.asked]
    return clip.asked if rng.random() < 0.5 else int(rng.choice(others))


CHOOSERS: dict[str, tuple[str, Chooser]] = {
    "random": ("as many objects as MACD, at random", at_random),
    "half": ("the asked object in half of the clips", by_half),
    "oracle": ("the asked object", by_oracle),
    "macd": ("MACD's objects", by_macd),
}
"""Name → title and rule of what the simulation lets choose."""


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


def exact_size(among: Sequence[Sequence[int]]) -> float:
    """How often the test refuses choices that are drawn evenly from these classes: at most LEVEL.

    Below it where the sum takes few values.
    """
    chance = sum_of_draws(among)
    tails = 2 * np.minimum(chance.cumsum(), chance[::-1].cumsum()[::-1])
    return float(chance[tails < LEVEL].sum())


def judged(clips: Sequence[Clip], chosen: Sequence[int | None]) -> dict[str, Any]:
    """The choices against their classes. Raises OptionError where there is none; see `Against`."""
    against = Against.of(clips, chosen)
    n = len(against.right)
    over = [r - float(np.mean(c)) for r, c in zip(against.right, against.among, strict=True)]
    return against.p | {
        "n": n,
        "right": float(np.mean(against.right)),
        "over": difference_interval(np.array(over), range(n)),
        "size": exact_size(against.among),
        "place_size": exact_size(against.places),
        "place": list(against.mean_place()),
    }


def by_size(clips: Sequence[Clip]) -> list[dict[str, Any]]:
    """For each number of masked objects: what one subset of so many changes, on average over them.

    And what the choices of MACD that mask so many are worth over that average.
    """
    found = []
    for size in range(max(clip.objects for clip in clips) + 1):
        those = [clip for clip in clips if clip.objects >= size]
        mean = [clip.right[list(_sized(clip.objects, size))].mean() for clip in those]
        gain = np.array(mean) - [clip.base for clip in those]
        own = [
            clip.right[n] - clip.right[list(clip.alike(n))].mean()
            for clip in those
            if (n := clip.chosen) is not None and n.bit_count() == size
        ]
        found.append({
            "objects": size,
            "gain": difference_interval(gain, range(len(gain))),
            "macd": len(own),
            "over": difference_interval(np.array(own), range(len(own))) if len(own) > 1 else None,
        })  # fmt: skip
    return found


def simulate(
    clips: Sequence[Clip], choose: Chooser, size: int, rng: np.random.Generator, times: int
) -> dict[str, Any]:
    """How often the test refuses a chooser, by right answers and by places, with intervals."""
    refused: Counter[str] = Counter(p=0, place_p=0)
    for _ in range(times):
        drawn = [clips[i] for i in rng.integers(0, len(clips), size)]
        found = Against.of(drawn, [choose(clip, rng) for clip in drawn]).p
        refused.update(name for name, p in found.items() if p < LEVEL)
    return {name: wilson(hits, times) for name, hits in refused.items()}


def report_of(
    rows: Sequence[ChoiceDraws], known: Sequence[Known], simulated: int = SIMULATED
) -> dict[str, Any]:
    """All figures. simulated: samples of clips a cell, 0 for none."""
    pairs = list(zip(rows, known, strict=True))
    settings = []
    for pair in dict.fromkeys((REGISTERED_PAIR, *FIXED)):
        for frames in (True, False):
            clips = [clip_of(row, k, pair, frames) for row, k in pairs]
            rng = np.random.default_rng(0)
            told = {
                name: judged(clips, [choose(clip, rng) for clip in clips])
                for name, choose in (("macd", by_macd), ("oracle", by_oracle))
            }
            settings.append({"pair": list(pair), "frames": frames} | told)
    clips = [clip_of(row, k, REGISTERED_PAIR, True) for row, k in pairs]
    rng = np.random.default_rng(0)
    cells = [
        {"chooser": name, "clips": size} | simulate(clips, choose, size, rng, simulated)
        for name, (_, choose) in CHOOSERS.items()
        for size in SIZES
        if simulated
    ]
    return {
        "n": len(rows),
        "seed": sorted({row.seed for row in rows}),
        "partly": sum(row.chosen is None for row in rows),
        "framed": sum(bool(row.framed) for row in rows),
        "baseline": float(np.mean([clip.base for clip in clips])),
        "own": difference_interval(
            np.array([float(c.own) - float(c.base) for c in clips]), range(len(clips))
        ),
        "pair": list(REGISTERED_PAIR),
        "settings": settings,
        "sizes": by_size(clips),
        "simulated": simulated,
        "cells": cells,
    }


def known_of(rows: Sequence[ChoiceDraws]) -> list[Known]:
    """The truth of each row. Raises OptionError for a row of no question."""
    pairs = zip(rows, items_of(rows), strict=True)
    return [Known(i.options.index(i.truth), row.labels.index(i.about)) for row, i in pairs]


def choice_table(report: dict[str, Any]) -> str:
    """MACD's choice and the oracle's among all of as many objects, with MACD's frame mask."""
    lines = [
        ["{:g}, {:g}".format(*one["pair"]), title, str(one[name]["n"]), change(one[name]["over"]),
         percent(one[name]["place"])]
        for one in report["settings"] if one["frames"]
        for name, title in (("macd", "MACD"), ("oracle", "oracle: the asked object"))
    ]  # fmt: skip
    told = [z["macd"] for z in report["settings"]]
    least = min(z[p] for z in told for p in ("p", "place_p"))
    heads = ["α, β", "choice", "clips", "over its class, points", "place in its class, %"]
    return (
        f"{table(heads, lines)}\n\n"
        f"Exact p of MACD's choice, with its frame mask and without: at least {p_text(least)}."
    )


def size_table(report: dict[str, Any]) -> str:
    """What masking so many objects changes, whichever, and MACD's choices among as many."""
    return table(
        ["objects masked", "change over the baseline, points", "clips in which MACD masks so many",
         "MACD over its class, points"],
        [[z["objects"], change(z["gain"]), z["macd"],
          change(z["over"])] for z in report["sizes"]],
    )  # fmt: skip


def power_table(report: dict[str, Any]) -> str:
    """How often the exact test refuses each chooser, by number of clips."""
    return table(
        ["chooser", "clips", "refused by right answers, %", "refused by places, %"],
        [[CHOOSERS[z["chooser"]][0], z["clips"], percent(z["p"]), percent(z["place_p"])]
         for z in report["cells"]],
    )  # fmt: skip


def markdown(report: dict[str, Any]) -> str:
    """All tables."""
    return "\n\n".join(make(report) for make in (choice_table, size_table, power_table))


def choice_cell(report: dict[str, Any], chooser: str, clips: str) -> dict[str, Any]:
    """What the simulation found for a chooser and a number of clips; StopIteration for no such."""
    return next(z for z in report["cells"] if (z["chooser"], str(z["clips"])) == (chooser, clips))


def p_text(value: float) -> str:
    """An exact p as it is told: below EXACT_TO only that it is."""
    return f"{value:.2g}" if value >= EXACT_TO else "< 1e-12"


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the tables and writes the report beside the reads."""
    parser = command_line("evals.studies.choice_test", __doc__)
    parser.add_argument("--draws", type=Path, default=FOLDER / "choices.json.xz")
    parser.add_argument("--out", type=Path, default=FOLDER / "choices.json", help="a JSON file")

    def run(args: Any) -> str:
        rows = list(stored(args.draws, lambda row: ChoiceDraws(**row)).values())
        return told(report_of(rows, known_of(rows)), markdown, args.out)

    return command(parser, run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
