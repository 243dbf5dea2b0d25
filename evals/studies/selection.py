"""Can a regime judge how a method chooses objects? `python -m evals.studies.selection`.

A regime can judge a choice if a good choice among the objects of a clip would show. What a good one
gains is told by an oracle that masks the asked object and nothing else; what no choice gains, by
the null among objects: the mean outcome of every object of the clip masked alone, the asked one
included. The oracle may know what is asked and not what the answer is (`why_the_oracle_tells`). The
constants of the choose split are added to the options under every view first, so that nothing is
gained by what a constant gains too; all share one α and β, the best for the null on that split.

Reads the rows of `evals.studies.control_draws --choice oracle`, and beside them those of other
choices on the same clips, each against every order of its own levels and against random places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import OptionError
from macd_studio.core.statistics import Interval
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.toyworld_crossed import CYCLE, CrossedToyWorld
from macd_studio.evals.printing.figures import change, percent, table, title
from macd_studio.evals.running.answer import GRID
from macd_studio.evals.statistics.constant import likely_constants
from macd_studio.evals.statistics.intervals import clustered_share, difference_interval
from macd_studio.evals.statistics.stats import LEVEL, holm
from macd_studio.evals.studies.control_draws import CHOICES, ControlDraws, Draw, stored
from macd_studio.evals.studies.first_token import ORACLE, VIDEO, OptionLogits
from macd_studio.evals.studies.headroom import ACCURATE, Answers, constant_hits, tune_constants
from macd_studio.evals.studies.one_mask import (
    MACD,
    MULTIPLE,
    OBJECTS,
    PLACE,
    Outcomes,
    best_pair,
    compared,
)
from macd_studio.evals.studies.registered import REGISTERED_PAIR
from macd_studio.evals.studies.shared import FOLDER, command, items_of, told
from macd_studio.toyworld.priors import priors

OVER_BASELINE, OVER_NULL = 0.10, 0.04
"""Shares of right answers that make room for a choice, see `can_judge_selection`."""
JUDGED, PLAIN = "with constants, tuned", "as they are, registered"
"""Settings in which everything is told: with constants at the pair that is best for the null, by
which a regime is judged; and without them at the pair of docs/registration.md."""

Rows = Sequence[ControlDraws]


def can_judge_selection(oracle: Interval, over_null: Interval) -> bool:
    """Whether a regime has room for a choice of objects.

    oracle: what it gains over the baseline, at least 10 points; over_null: over the null among
    objects, at least 4; shares in [-1, 1], both intervals leave out 0. Constants were added before.
    """
    enough = oracle[0] >= OVER_BASELINE and over_null[0] >= OVER_NULL
    return bool(enough and oracle[1] > 0 and over_null[1] > 0)


def asked_in(question: str, labels: Sequence[str]) -> set[str]:
    """Objects of a clip that a question names: by class, or by kind where no class is named.

    >>> sorted(asked_in("Which animal is in the video?", ["cat", "ball"]))
    ['cat']
    >>> sorted(asked_in("Which way does the ball move?", ["cat", "ball"]))
    ['ball']
    """
    words = set(question.lower().replace("?", " ").replace(",", " ").split())
    named = {c for c in labels if c in words}
    return named or {c for c in labels if priors().kind[c] in words}


def why_the_oracle_tells(items: Sequence[tuple[Item, Sequence[str]]]) -> str:
    """Why masking `Item.about` alone tells the answer; "" where it tells only what is asked.

    items: each with the classes in its clip.
    """
    if any(not item.about for item, _ in items):
        return "the asked object is not in every clip, and the oracle masks nothing where it is not"
    if any(asked_in(item.question, labels) != {item.about} for item, labels in items):
        return "the question speaks of several objects, and the oracle masks the right one"
    return ""


def refused() -> dict[str, str]:
    """Regime → why its oracle tells the answer, of those with options whose oracle does."""
    benchmark, found = CrossedToyWorld(), {}
    for regime, cycle in CYCLE.items():
        items = [i for i in benchmark._of(regime, "test", cycle) if i.options]
        asked = [(i, benchmark.spec(i.clip).labels) for i in items]
        if why := why_the_oracle_tells(asked):
            found[regime] = why
    return found


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


def regime_report(rows: Mapping[str, Rows], items: Mapping[str, Item]) -> dict[str, Any]:
    """Figures of one regime over its test split.

    rows: choice → its rows, the oracle's of both splits. items: of each row, by its id. Raises
    OptionError where the oracle's rows are not of both splits.
    """
    oracle = rows[ORACLE]
    tune = [r for r in oracle if not r.item.startswith("test")]
    test = [r for r in oracle if r.item.startswith("test")]
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
    base = judged.hits_with({}).astype(int)
    fitted = constant_hits(choose, judged)

    def shifted(of: Rows) -> list[ControlDraws]:
        return [with_constants(r, items[r.item], constants) for r in of]

    made = {JUDGED: _outcomes(shifted(test), items), PLAIN: _outcomes(test, items)}
    tuning = _outcomes(shifted(tune), items).scores[OBJECTS]
    pairs = {JUDGED: best_pair(tuning, np.arange(len(tune))), PLAIN: GRID.index(REGISTERED_PAIR)}
    settings = {
        name: {"pair": list(GRID[pairs[name]])} | _room(made[name], pairs[name])
        for name in (JUDGED, PLAIN)
    }
    oracle_gain, over = (settings[JUDGED][z]["delta"] for z in ("oracle", "over"))
    return {
        "n": len(test),
        "tuned_on": len(tune),
        "seed": oracle[0].seed,
        "can_judge_selection": can_judge_selection(oracle_gain, over),
        "constants": {
            name: difference_interval(right.astype(int) - base, range(len(base)))
            for name, right in fitted.items()
        },
        "settings": settings,
        "choices": _choices(rows, items, {JUDGED: (shifted, pairs[JUDGED]),
                                          PLAIN: (list, pairs[PLAIN])}),
    }  # fmt: skip


def _outcomes(rows: Rows, items: Mapping[str, Item]) -> Outcomes:
    asked = [items[r.item] for r in rows]
    return Outcomes.of(rows, [i.options.index(i.truth) for i in asked])


def _room(made: Outcomes, pair: int) -> dict[str, Any]:
    """What the oracle and the null among objects gain, and the one over the other."""
    base = made.base.astype(float)
    null, own = made.scores[OBJECTS][pair], made.scores[MACD][pair]
    return {
        "baseline": clustered_share(made.base, range(len(base))),
        "null": compared(base, null, MULTIPLE),
        "oracle": compared(base, own, MULTIPLE),
        "over": compared(null, own, MULTIPLE),
    }


def _choices(
    rows: Mapping[str, Rows], items: Mapping[str, Item], settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Each choice over its own nulls, on the test clips read for every choice; [] for the oracle's
    alone.

    settings: name → what is done to the rows, and the index of α and β in GRID. Holm's p is over
    all but the oracle's, which is a measure.
    """
    if set(rows) == {ORACLE}:
        return []
    read = {c: {r.item: r for r in of if r.item.startswith("test")} for c, of in rows.items()}
    shared = [item for item in read[ORACLE] if all(item in one for one in read.values())]
    told = []
    for setting, (prepared, pair) in settings.items():
        for choice, one in read.items():
            made = _outcomes(prepared([one[item] for item in shared]), items)
            own = made.scores[MACD][pair]
            gain = compared(made.base.astype(float), own, MULTIPLE)
            for null in (OBJECTS, PLACE):
                before: NDArray[np.float64] = made.scores[null][pair]
                ninety = difference_interval(own - before, range(len(own)), LEVEL)
                told.append(
                    {"setting": setting, "pair": list(GRID[pair]), "choice": choice, "null": null,
                     "n": len(shared), "gain": gain["delta"], "ninety": ninety}
                    | compared(before, own, MULTIPLE)
                )  # fmt: skip
    tested = [t for t in told if t["choice"] != ORACLE]
    for row, adjusted in zip(tested, holm([t["p"] for t in tested]), strict=True):
        row["holm"] = adjusted
    return told


def report_of(rows: Sequence[ControlDraws]) -> dict[str, Any]:
    """Every regime that the rows are of. Raises OptionError without rows of its oracle, or where
    its oracle tells the answer."""
    told, regimes = refused(), {}
    items = {(r.item, r.seed): i for r, i in zip(rows, items_of(rows), strict=True)}
    for regime in dict.fromkeys(r.item.split("/")[1] for r in rows):
        of = [r for r in rows if r.item.split("/")[1] == regime]
        by_choice = {c: [r for r in of if r.choice == c] for c in (ORACLE, *CHOICES)}
        if not by_choice[ORACLE] or regime in told or len({r.seed for r in of}) > 1:
            raise OptionError(
                f"the rows cannot judge {regime!r}",
                f"Give rows of one drawing, the oracle's among them; of {', '.join(told)} none can",
            )
        by_id = {r.item: items[r.item, r.seed] for r in of}
        regimes[regime] = regime_report({c: r for c, r in by_choice.items() if r}, by_id)
    return {"regimes": regimes, "refused": told}


def markdown(report: dict[str, Any]) -> str:
    """The verdict of each regime with its figures, then each choice over its own nulls."""
    rooms, choices, notes = [], [], []
    nulls = {OBJECTS: "all orders of the levels", PLACE: "8 random places"}
    held: list[float] = []
    for regime, part in report["regimes"].items():
        for setting, one in part["settings"].items():
            said = "can" if part["can_judge_selection"] else "cannot"
            gains = (change(list(one[z]["delta"])) for z in ("null", "oracle", "over"))
            rooms.append([regime, str(part["n"]), setting, "{:g}, {:g}".format(*one["pair"]),
                          percent(list(one["baseline"])), *gains,
                          said if setting == JUDGED else "–"])  # fmt: skip
        for one in (z for z in part["choices"] if z["null"] == OBJECTS):
            same = (one["choice"], one["setting"])
            both = {z["null"]: z for z in part["choices"] if (z["choice"], z["setting"]) == same}
            over = (change(list(both[null]["delta"])) for null in nulls)
            choices.append([title(one["choice"]), one["setting"],
                            change(list(one["gain"])), *over])  # fmt: skip
            held += [z["holm"] for z in both.values() if "holm" in z]
        notes.append(
            f"*{regime}*: {title(ACCURATE).lower()}, alone"
            f" {change(list(part['constants'][ACCURATE]))}."
        )
    notes += [f"*{regime}* cannot: {why}." for regime, why in report["refused"].items()]
    return "\n\n".join((
        table(["regime", "n", "setting", "α, β", "baseline right, %", "any one object",
               "the asked one (oracle)", "oracle over any one", "a choice"], rooms),
        " ".join(notes),
        table(["choice", "setting", "over the baseline",
               *(f"over the mean outcome of {words}" for words in nulls.values())], choices),
        *([f"Holm's p of what does not know the truth: at least {min(held):.2g}."] if held else []),
    ))  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the tables and writes the report."""
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
