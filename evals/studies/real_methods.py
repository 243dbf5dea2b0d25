"""Does a contrast help *everyday* on real clips? The comparison of docs/registration-everyday.md.

`python -m evals.studies.real_methods ROWS` tells, of the draws of `evals.studies.real_draws`, what
each method gains over plain decoding, what MACD gains over each control, and where MACD's subset of
objects stands among all of as many (the choice map).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import OptionError
from macd_studio.core.statistics import Interval
from macd_studio.evals.benchmarks.everyday import questions, sources
from macd_studio.evals.printing.figures import change, percent, table
from macd_studio.evals.statistics.constant import DELTAS
from macd_studio.evals.statistics.intervals import clustered_share, difference_interval
from macd_studio.evals.statistics.stats import LEVEL, choice_test, holm, sign_flip
from macd_studio.evals.studies.choice_readings import Clip
from macd_studio.evals.studies.first_token import contrasted
from macd_studio.evals.studies.real_draws import METHODS, RealDraws, stored
from macd_studio.evals.studies.registered import verdict
from macd_studio.evals.studies.shared import command, told

PAIR, STRONG = (1.0, 0.1), (5.0, 0.01)
"""α and β of the registered rows, which are set where nobody sets any, and of further secondary
rows: those that were tuned on the drawn world."""
SHIFT = -1.0
"""The constant, tuned on parts 1 and 2 (`tuned_constant`)."""
BOUND = 0.05
"""Within ± this a difference does not matter."""
PART = 3
"""Of the clips that are tested."""
PLAIN, MACD, ORACLE, PLACE, OBJECTS, CONSTANT = (
    "baseline", "macd", "oracle", "random-place", "random-objects", "yes-bias"
)  # fmt: skip
TITLES = {
    PLAIN: "plain decoding",
    MACD: "MACD",
    "vcd": "VCD",
    "sid": "SID",
    "tcd": "TCD",
    "mask-all": "every object masked",
    PLACE: "random places, mean outcome",
    OBJECTS: "random objects, mean outcome",
    CONSTANT: "a constant added to “yes”",
    ORACLE: "oracle: the asked class masked",
}
REGISTERED = (PLAIN, PLACE)
"""What MACD is held against in the two registered rows."""
OTHERS = ("vcd", "sid", "tcd", "mask-all", OBJECTS, CONSTANT)
Array = NDArray[Any]
Score = Mapping[str, Array]
"""Method → (N,) the share of right answers of each question, in [0, 1]."""


def right(margin: Array, view: Array, truth: Array, pair: tuple[float, float]) -> Array:
    """(N,) bool whether the contrast of two margins answers right; truth: (N,) bool, yes or no."""
    both = [np.stack([z, np.zeros_like(z)], 1) for z in (margin, view)]
    return np.asarray((contrasted(both[0], both[1], *pair) == 0) == truth)


def truths(rows: Sequence[RealDraws]) -> Array:
    """(N,) bool, whether "yes" is right. Raises OptionError for a row of no question."""
    asked = questions()
    if missing := [row.item for row in rows if row.item not in asked]:
        raise OptionError(f"there is no question {missing[0][:60]!r}", "Read the clips again")
    return np.array([asked[row.item]["answer"] == "yes" for row in rows])


def scores(
    rows: Sequence[RealDraws], truth: Array, pair: tuple[float, float], shift: float
) -> Score:
    """What each method gets right. shift: the constant that is added to the margin."""
    video = np.array([row.video for row in rows])

    def of(views: Sequence[float]) -> Array:
        return right(video, np.array(views), truth, pair).astype(float)

    def mean(draws: Callable[[RealDraws], Sequence[float]]) -> Array:
        columns = zip(*(draws(row) for row in rows), strict=True)
        return np.asarray(np.mean([of(column) for column in columns], 0))

    found = {name: of([row.views[name] for row in rows]) for name in (MACD, *METHODS, ORACLE)}
    return found | {
        PLAIN: ((video >= 0) == truth).astype(float),
        PLACE: mean(lambda row: row.places),
        OBJECTS: mean(lambda row: row.objects),
        CONSTANT: ((video + shift >= 0) == truth).astype(float),
    }


def tuned_constant(margin: Array, truth: Array) -> float:
    """Of 0 and DELTAS the one that, added to each margin, makes most answers right.

    Of equals the one nearest to 0.
    """
    shares = {float(d): float(((margin + d >= 0) == truth).mean()) for d in (0.0, *DELTAS)}
    return max(shares, key=lambda d: (shares[d], -abs(d)))


def compared(before: Array, after: Array, source: Sequence[str], parts: int) -> dict[str, Any]:
    """after − before (N,), with its intervals over sources and the exact sign-flip p.

    parts: what every score is a multiple of.
    """
    gap = after - before
    return {
        "delta": difference_interval(gap, source),
        "ninety": difference_interval(gap, source, LEVEL),
        "p": sign_flip(np.rint(gap * parts), source),
    }


def balanced(score: Array, truth: Array) -> float:
    """Mean of the shares right of "yes" and of "no"."""
    return float(np.mean([score[truth].mean(), score[~truth].mean()]))


def choice_map(rows: Sequence[RealDraws]) -> dict[str, Any]:
    """Where MACD's subset stands in its class, by the right answer's margin behind it alone.

    The null: which object is which says nothing of a clip's choices. Each order of a clip's objects
    is then as likely for all of its questions at once, so their places are added up and held
    against the sums under every order; `choice_test` adds independent clips. Under a contrast of
    the same video the order by the second view's margin is that of the contrasted one, whatever α.
    """
    truth = truths(rows)
    mapped: dict[str, list[tuple[Clip, int]]] = {}
    for row, yes in zip(rows, truth, strict=True):
        if not row.subsets or row.chosen is None:
            continue
        height = np.array(row.subsets) * (-1 if yes else 1)
        clip = Clip((height > 0).astype(int), height, False, row.chosen, 0)
        if len(clip.alike(row.chosen)) > 1:
            mapped.setdefault(row.clip, []).append((clip, row.chosen))
    every = [pair for pairs in mapped.values() for pair in pairs]
    if not every:
        return {"clips": 0, "questions": 0, "place": None, "p": None}
    parts = math.lcm(*(2 * (len(clip.alike(n)) - 1) for clip, n in every))

    def place(clip: Clip, subset: int) -> int:
        return clip.places[subset] * (parts // (2 * (len(clip.alike(subset)) - 1)))

    chosen, among = [], []
    for pairs in mapped.values():
        orders = permutations(range(pairs[0][0].objects))
        sums = [sum(place(clip, _moved(n, order)) for clip, n in pairs) for order in orders]
        chosen.append(sums[0])  # the first order leaves every object where it is
        among.append(sums)
    low = [min(z) for z in among]  # what every order has says nothing
    places = np.array([place(clip, n) / parts for clip, n in every]) - 0.5
    keys = [name for name, pairs in mapped.items() for _ in pairs]
    return {
        "clips": len(mapped),
        "questions": len(every),
        "place": [min(1.0, max(0.0, 0.5 + z)) for z in difference_interval(places, keys)],
        "p": choice_test(
            [c - z for c, z in zip(chosen, low, strict=True)],
            [[x - z for x in sums] for sums, z in zip(among, low, strict=True)],
        ),
    }


def _moved(subset: int, order: Sequence[int]) -> int:
    return sum(1 << order[k] for k in range(len(order)) if subset >> k & 1)


def report_of(rows: Sequence[RealDraws]) -> dict[str, Any]:
    """All figures of the tested clips."""
    of_clip = {s.name: s for s in sources()}
    test = [row for row in rows if of_clip[row.clip].part == PART]
    if not test:
        raise OptionError(f"the rows hold no clip of part {PART}", "Read its clips")
    truth = truths(test)
    source = [f"{of_clip[r.clip].repository}/{of_clip[r.clip].path}" for r in test]
    parts = math.lcm(*(len(draws) for row in test for draws in (row.places, row.objects)))
    settings: list[dict[str, Any]] = []
    for pair in dict.fromkeys((PAIR, STRONG)):
        made = scores(test, truth, pair, SHIFT)
        against = {
            name: compared(made[name], made[MACD], source, parts) for name in (*REGISTERED, *OTHERS)
        }
        registered = pair == PAIR
        secondary = [n for n in against if not (registered and n in REGISTERED)]
        settings.append({
            "pair": list(pair),
            "right": {n: clustered_mean(made[n], source) for n in TITLES},
            "balanced": {n: balanced(made[n], truth) for n in TITLES},
            "gain": {n: difference_interval(made[n] - made[PLAIN], source) for n in TITLES},
            "over": against,
            "secondary": secondary,
            "oracle": compared(made[PLACE], made[ORACLE], source, parts),
        })  # fmt: skip
    adjusted = iter(holm([s["over"][n]["p"] for s in settings for n in s["secondary"]]))
    for setting in settings:
        for name, one in setting["over"].items():
            if name in setting["secondary"]:
                one["said"] = f"Holm {next(adjusted):.3g}"
            else:
                one["said"] = verdict(one["delta"], one["ninety"], BOUND)
    return {
        "clips": len({row.clip for row in test}),
        "sources": len(set(source)),
        "questions": len(test),
        "yes": int(truth.sum()),
        "hidden": float(np.mean([any(row.level) or row.framed for row in test])),
        "objects": float(np.mean([len(row.labels) for row in test])),
        "shift": SHIFT,
        "settings": settings,
        "map": choice_map(rows),
    }


def clustered_mean(score: Array, source: Sequence[str]) -> Interval:
    """The share right with its interval; of mean outcomes that of a difference from 0."""
    if np.all(score == np.rint(score)):
        return clustered_share(score, source)
    return difference_interval(score, source)


def method_table(report: dict[str, Any]) -> str:
    """What each method gets right, and gains over plain decoding."""
    lines = [
        [TITLES[name], *(cell for s in report["settings"]
         for cell in (percent(s["right"][name]), f"{100 * s['balanced'][name]:.1f}",
                      "–" if name == PLAIN else change(s["gain"][name])))]
        for name in TITLES
    ]  # fmt: skip
    heads = [
        z for s in report["settings"]
        for z in ("right at α, β {:g}, {:g}, %".format(*s["pair"]), "balanced", "gain, points")
    ]  # fmt: skip
    return table(["answers", *heads], lines)


def difference_table(report: dict[str, Any]) -> str:
    """MACD over each control."""
    lines = []
    for setting in report["settings"]:
        for name, one in setting["over"].items():
            kind = "secondary" if name in setting["secondary"] else "registered"
            pair = "{:g}, {:g}".format(*setting["pair"])
            gaps = change(one["delta"]), change(one["ninety"])
            lines.append([kind, pair, TITLES[name], *gaps, f"{one['p']:.3g}", one["said"]])
    return table(["row", "α, β", "MACD over", "95 %", "90 %", "p", "said"], lines)


def map_sentence(report: dict[str, Any]) -> str:
    """The choice map in a sentence."""
    found = report["map"]
    if not found["questions"]:
        return "No question leaves anything to choose."
    return (
        f"MACD's subset stands at place {percent(found['place'])} of 100 in its class"
        f" ({found['questions']} questions of {found['clips']} clips with something to choose;"
        f" exact p {found['p']:.3g})."
    )


def markdown(report: dict[str, Any]) -> str:
    """The tables."""
    head = (
        f"{report['questions']} questions ({report['yes']} yes) of {report['clips']} clips from"
        f" {report['sources']} sources."
    )
    return "\n\n".join((head, method_table(report), difference_table(report), map_sentence(report)))


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the tables; with --out writes the figures."""
    parser = command_line("evals.studies.real_methods", __doc__)
    parser.add_argument("rows", type=Path, help="a packed file of real_draws")
    parser.add_argument("--out", type=Path, help="a JSON file")

    def run(args: Any) -> str:
        return told(report_of(stored(args.rows)), markdown, args.out)

    return command(parser, run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
