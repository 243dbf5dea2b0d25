"""What methods gain by the first token, and what an oracle does.

`python -m evals.studies.headroom`.

Answers are first tokens among each question's options. The oracle hides the asked object, and
"removed" is the clip drawn again without it. α and β, and the constants, are tuned for each regime
on clips of the other split. Whether a regime can judge a choice of objects at all is asked by
`evals.studies.selection`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import OptionError
from macd_studio.core.methods import find_methods
from macd_studio.core.options import RunOptions
from macd_studio.evals.benchmarks import BENCHMARKS, find_benchmark
from macd_studio.evals.benchmarks.base import Benchmark, Item, Split
from macd_studio.evals.benchmarks.toyworld import DrawnBenchmark
from macd_studio.evals.printing.figures import change, percent, survives, table, title
from macd_studio.evals.running.answer import GRID
from macd_studio.evals.running.output import write_json
from macd_studio.evals.running.rows import Setting, row_key
from macd_studio.evals.statistics.constant import accurate_constants, best, likely_constants
from macd_studio.evals.statistics.intervals import clustered_share
from macd_studio.evals.statistics.stats import (
    MIN_DIFFERING,
    enough_differ,
    holm,
    mean_difference,
    sign_flip,
)
from macd_studio.evals.studies.first_token import (
    ORACLE,
    REMOVED,
    TRUTHS,
    VIDEO,
    Array,
    OptionLogits,
    contrasted,
    read_options,
    stack,
)
from macd_studio.evals.studies.shared import (
    check_counts,
    command,
    kept,
    open_models,
    pack_rows,
)

REFERENCES = ("mask-all", "random-place", "random-mask", "random-objects", "random-average-4")
"""Methods that choose no objects: a choice is worth what it gains over them."""
BESIDE = {
    "every object masked": ("mask-all",),
    "random places": ("random-place", "random-mask"),
    "random objects": ("random-objects",),
    "the average of 4 random places": ("random-average-4",),
}
"""Words of a reference → its methods, of which a regime has one."""
CONSTANT, ACCURATE, CEILING = CONSTANTS = "constant", "constant-accurate", "constant-ceiling"
"""Constants for the options: the likeliest ones and the most accurate ones of the choose split, and
the most accurate ones of the very clips they are judged on, which no constant can beat by much."""

EQUAL = ((1.0, 0.1), (3.0, 0.1))
"""α and β at which all methods are compared alike, beside those tuned for each."""

Name = str
METHODS = (
    "vcd",
    "macd",
    "macd-measured",
    "random-place",
    "random-objects",
    "random-average-4",
    "mask-all",
)


@dataclass(frozen=True, eq=False)
class Answers:
    """Logits of N items with K options each, and the index of the right one (N,)."""

    items: list[Item]
    rows: list[OptionLogits]
    truth: NDArray[np.int64]

    @staticmethod
    def of(items: Sequence[Item], rows: Sequence[OptionLogits]) -> Answers:
        """Of items and their rows in the same order."""
        truth = np.array([i.options.index(i.truth) for i in items])
        return Answers(list(items), list(rows), truth)

    @cached_property
    def _base(self) -> Array:
        return stack(self.rows, VIDEO)

    def hits(self, method: str, contrast: tuple[float, float]) -> NDArray[np.bool_]:
        """(N,) whether the contrasted answer is right."""
        counter = stack(self.rows, method)
        return np.asarray(contrasted(self._base, counter, *contrast) == self.truth)

    def hits_with(self, constants: Mapping[Name, float]) -> NDArray[np.bool_]:
        """(N,) whether the answer is right after a constant was added to each option."""
        added = np.array([constants.get(n, 0.0) for n in self.names])
        return np.asarray(best(self.by_name + added, self.name_of_answer) == self.name_of_truth)

    @cached_property
    def names(self) -> list[Name]:
        """What constants belong to: the options' words, or places where words keep changing."""
        return list(dict.fromkeys(n for i in self.items for n in self._names_of(i)))

    def _names_of(self, item: Item) -> Sequence[Name]:
        repeats = len({i.options for i in self.items}) <= max(4, len(self.items) // 10)
        return item.options if repeats else [str(i) for i in range(len(item.options))]

    @cached_property
    def _place(self) -> NDArray[np.int64]:
        """(N, K): index of each option in `names`, -1 where an item has fewer."""
        places = {n: i for i, n in enumerate(self.names)}
        places_by_item = np.full((len(self.items), max(len(i.options) for i in self.items)), -1)
        for row, item in zip(places_by_item, self.items, strict=True):
            row[: len(item.options)] = [places[n] for n in self._names_of(item)]
        return places_by_item

    @cached_property
    def by_name(self) -> Array:
        """(N, names) logits of the video, -inf for what an item does not offer."""
        table = np.full((len(self.items), len(self.names)), -np.inf)
        for row, place, logits in zip(table, self._place, self._base, strict=True):
            row[place[place >= 0]] = logits[place >= 0]
        return table

    @property
    def name_of_truth(self) -> NDArray[np.int64]:
        """(N,) index of the right answer in `names`."""
        return np.asarray(self._place[np.arange(len(self.items)), self.truth])

    @property
    def name_of_answer(self) -> NDArray[np.int64]:
        """(N,) index in `names` of what the video's logits answer."""
        return np.asarray(self._place[np.arange(len(self.items)), self._base.argmax(1)])


def tune_contrast(answers: Answers, method: str) -> tuple[float, float]:
    """α and β with most right answers; of equals the smallest α, then the largest β."""
    return max(GRID, key=lambda c: (answers.hits(method, c).sum(), -c[0], c[1]))


def tune_constants(answers: Answers, how: Callable[..., dict[int, float]]) -> dict[Name, float]:
    """A constant for each option. how: `likely_constants`, or `accurate_constants`."""
    weights = np.ones(len(answers.items))
    free = range(len(answers.names))
    more = [answers.name_of_answer] if how is accurate_constants else []
    constants = how(answers.by_name, answers.name_of_truth, weights, free, *more)
    return {answers.names[k]: constant for k, constant in constants.items()}


def constant_hits(choose: Answers, test: Answers) -> dict[str, NDArray[np.bool_]]:
    """Whether each answer is right with the constants of CONSTANTS: (N,) by name."""
    tuned = {
        CONSTANT: tune_constants(choose, likely_constants),
        ACCURATE: tune_constants(choose, accurate_constants),
        CEILING: tune_constants(test, accurate_constants),
    }
    return {name: test.hits_with(constants) for name, constants in tuned.items()}


def compare(choose: Answers, test: Answers, methods: Sequence[str]) -> dict[str, Any]:
    """Figures of one regime: each method against the baseline and against hiding everything."""
    clips = [i.clip for i in test.items]
    base = stack(test.rows, VIDEO).argmax(1) == test.truth
    hits = {VIDEO: base, **constant_hits(choose, test)}
    figures: dict[str, Any] = {}
    contrasts = {m: tune_contrast(choose, m) for m in methods}
    hits |= {m: test.hits(m, contrasts[m]) for m in methods}
    for name, right in hits.items():
        figures[name] = {"right": clustered_share(right, clips)}
        if name != VIDEO:
            figures[name] |= _compared(base, right, clips)
        if name in contrasts:
            figures[name]["contrast"] = list(contrasts[name])
            figures[name]["equal"] = [
                mean_difference(base, test.hits(name, pair), clips) for pair in EQUAL
            ]
            figures[name]["over"] = {
                other: _compared(hits[other], right, clips)
                for other in REFERENCES
                if other in hits and other != name
            }
            if all(name in row.reads for row in test.rows):
                figures[name]["reads"] = float(np.mean([row.reads[name] for row in test.rows]))
    return {"n": len(test.items), "clips": len(set(clips)), "methods": figures}


def _compared(a: NDArray[np.bool_], b: NDArray[np.bool_], clips: Sequence[str]) -> dict[str, Any]:
    """What b gains over a, and p where enough clips differ for it to be small."""
    difference = b.astype(int) - a.astype(int)
    figures: dict[str, Any] = {"delta": mean_difference(a, b, clips)}
    tested = enough_differ(difference, clips)
    return figures | ({"p": sign_flip(difference, clips)} if tested else {})


def adjust(regimes: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Adds Holm's p, `holm`, over all methods' gains, and over all choices against references.

    What knows the truth, and the constants, are measures and in no family. Returns the tests of
    each family: comparisons in which fewer than `MIN_DIFFERING` clips differ are none.
    """
    gains: list[dict[str, Any]] = []
    choices: list[dict[str, Any]] = []
    for part in regimes.values():
        for name, figures in part["methods"].items():
            if name not in (VIDEO, *CONSTANTS, *TRUTHS):
                gains.append(figures)
                choices += [] if name in REFERENCES else figures["over"].values()
    families = {"gains": gains, "choices": choices}
    for cells in families.values():
        tested = [c for c in cells if "p" in c]
        for one, adjusted in zip(tested, holm([c["p"] for c in tested]), strict=True):
            one["holm"] = adjusted
    return {name: sum("p" in c for c in cells) for name, cells in families.items()}


def as_drawn(benchmark: Benchmark) -> DrawnBenchmark:
    """The benchmark, if its clips are drawn. Raises OptionError for clips from files."""
    if not isinstance(benchmark, DrawnBenchmark):
        raise OptionError(
            f"the clips of {benchmark.name} cannot be drawn again without an object",
            "Leave the true removal out, by --no-oracle",
        )
    return benchmark


def read_all(
    benchmark: Benchmark,
    items: Sequence[Item],
    setting: Setting,
    methods: Sequence[str],
    path: Path,
) -> list[OptionLogits]:
    """The logits of every item; computed and stored where no row holds all these methods yet."""
    content = setting.content(benchmark)
    wanted = ((row_key(content, i, "first token", None), i) for i in items)

    def start() -> Callable[[Item], dict[str, Any]]:
        lm, prepare = open_models(benchmark, setting)

        def make(item: Item) -> dict[str, Any]:
            removed = REMOVED in methods and item.about
            without = as_drawn(benchmark).without(item.clip, item.about) if removed else None
            row = read_options(lm, *prepare(item), item, methods, setting.options, without=without)
            return asdict(row)

        return make

    rows = kept(path, wanted, start, fits=lambda row: set(row["views"]) >= set(methods))
    return [OptionLogits(row["item"], row["views"], row["reads"]) for row in rows]


def check_methods(names: Sequence[str]) -> None:
    """Raises OptionError for an unknown method, or one that contrasts no second view."""
    for method in find_methods([n for n in names if n not in TRUTHS]):
        if not method.second_views:
            raise OptionError(
                f"{method.name} contrasts no second view", "Leave it out of --methods"
            )


def markdown(report: dict[str, Any]) -> str:
    """Tables: right answers by method and regime, in percent and points with 95 % intervals, and
    what the choices and the oracle gain over references that choose nothing.

    report: as `run` writes it; it also has all gains at EQUAL.
    """
    regimes = {name: part["methods"] for name, part in report["regimes"].items()}
    methods = [
        m
        for m in (VIDEO, ACCURATE, CEILING, *report["methods"])
        if any(m in known for known in regimes.values())
    ]
    gains = []
    for method in methods:
        told = [known.get(method) for known in regimes.values()]
        reads = {f"{one['reads']:.1f}" for one in told if one and "reads" in one}
        gains.append([title(method), " or ".join(sorted(reads)) or "–", *map(_right, told)])
    paired = [
        [regime, title(m), *(_over(known[m]["over"], names) for names in BESIDE.values())]
        for regime, known in regimes.items()
        for m in report["methods"]
        if m in known and m not in (*REFERENCES, REMOVED, "vcd")
    ]
    families = report["families"]
    names = [f"{r} ({p['balance']}), n = {p['n']}" for r, p in report["regimes"].items()]
    return "\n\n".join((
        table(["method", "prompts read", *names], gains),
        "Right answers in %, then changes in points and α, β. Bold: significant after Holm's"
        f" correction over {families['gains']} changes by methods in which at least {MIN_DIFFERING}"
        " clips differ; neither the constants nor what knows the truth is tested.",
        table(["regime", "choice", *(f"over {words}" for words in BESIDE)], paired),
        f"Bold: the same over {families['choices']} choices against references.",
    ))  # fmt: skip


def _over(over: Mapping[str, Any], names: Sequence[str]) -> str:
    """What is gained over the first of these references that was measured."""
    return gain_text(next((over[z] for z in names if z in over), None))


def _right(figures: Mapping[str, Any] | None) -> str:
    """The share of right answers, or its change with α and β."""
    if figures is None:
        return "–"
    if "delta" not in figures:
        return percent(figures["right"])
    pair = "; {:g}, {:g}".format(*figures["contrast"]) if "contrast" in figures else ""
    return gain_text(figures) + pair


def search_table(report: dict[str, Any]) -> str:
    """Each rule of choice against references that choose nothing, with Holm's p; see `adjust`."""
    rows, others = [], [m for m in report["methods"] if m in REFERENCES]
    for part in report["regimes"].values():
        for rule in (m for m in report["methods"] if m not in (*REFERENCES, *TRUTHS)):
            figures = part["methods"][rule]
            over = (figures["over"][z] for z in others)
            told = (f"{gain_text(z)}; {z['holm']:.3g}" if "holm" in z else "–" for z in over)
            rows.append([title(rule), gain_text(figures), *told])
    return table(
        ["rule", "over the baseline", *(f"over {title(z).lower()}; p" for z in others)], rows
    )


def gain_text(figures: Mapping[str, Any] | None) -> str:
    """A gain in points with its interval, bold where it survives Holm's correction; a dash if None.

    figures: with `delta`, and `holm` where `adjust` has tested it.
    """
    return "–" if figures is None else change(figures["delta"], survives(dict(figures)))


def picture(report: dict[str, Any]) -> str:
    """Gains by method as SVG, the oracle's estimate and the random average's interval marked."""
    from macd_studio.evals.printing.plots import forest

    known = report["methods"]
    average = next((m for m in REFERENCES[::-1] if m in known), "")
    return forest(report, ORACLE if ORACLE in known else "", average)


def _others(path: Path, setting: dict[str, Any]) -> dict[str, Any]:
    """Regimes of the report that lies there, where it is of the same setting."""
    try:
        stored = json.loads(path.read_text())
        same = all(stored[key] == value for key, value in setting.items())
        return dict(stored["regimes"]) if same else {}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; after a kill it continues where it was."""
    parser = command_line("evals.studies.headroom", __doc__)
    parser.add_argument("benchmark", choices=tuple(BENCHMARKS))
    parser.add_argument("--regimes", default="", help="with semicolons; all without it")
    parser.add_argument("--methods", default=",".join(METHODS), help="with commas")
    parser.add_argument("--no-oracle", action="store_true", help="leave out what knows the truth")
    parser.add_argument("--n", type=int, default=300, help="questions a regime")
    parser.add_argument("--split", type=int, default=200, help="questions a regime to tune on")
    parser.add_argument("--boxes", choices=("detector", "truth"), default="truth")
    parser.add_argument("--backbone", default="toyworld")
    parser.add_argument("--detector", default="toyworld")
    parser.add_argument("--fill", default="mean", help="mean, black, blur, noise or plate")
    parser.add_argument("--out", type=Path, default=Path("runs/headroom"))
    return command(parser, lambda args: markdown(run(args)), argv)


def run(args: Any) -> dict[str, Any]:
    """Reads what is missing and writes report.json. Raises MacdError.

    Regimes that the folder's report holds already, of the same methods, setting, models and code,
    are kept.
    """
    check_counts(args, n=100_000, split=100_000)
    options = RunOptions()
    options = replace(options, mask=replace(options.mask, fill=args.fill))
    methods = [m for m in args.methods.split(",") if m] + ([] if args.no_oracle else [*TRUTHS])
    check_methods(methods)
    setting = Setting(args.benchmark, options, args.backbone, args.detector, args.boxes)
    benchmark = find_benchmark(args.benchmark)
    regimes = [r.strip() for r in args.regimes.split(";") if r.strip()] or list(benchmark.regimes)
    if unknown := set(regimes) - set(benchmark.regimes):
        raise OptionError(
            f"there is no regime {sorted(unknown)[0]!r}",
            f"Choose one of {'; '.join(benchmark.regimes)}",
        )
    items: dict[Split, list[Item]] = {
        "choose": benchmark.items("choose", args.split),
        "test": benchmark.items("test", args.n),
    }

    read: list[OptionLogits] = []

    def answers(split: Split, regime: str) -> Answers:
        asked = [i for i in items[split] if i.regime == regime and i.options]
        rows = read_all(benchmark, asked, setting, methods, args.out / "logits.jsonl")
        read.extend(rows)
        return Answers.of(asked, rows)

    by_regime = {}
    for regime in regimes:
        test = answers("test", regime)
        if test.items:  # captions have no options
            choose = answers("choose", regime)
            figures = compare(choose, test, methods)
            about = {"balance": benchmark.balance[regime], "tuned_on": len(choose.items)}
            by_regime[regime] = about | figures
    setting_of_all = {
        "benchmark": args.benchmark,
        "backbone": args.backbone,
        "boxes": args.boxes,
        "fill": args.fill,
        "methods": methods,
        "content": setting.content(benchmark),
    }
    by_regime = _others(args.out / "report.json", setting_of_all) | by_regime
    families = adjust(by_regime)
    report = setting_of_all | {"families": families, "regimes": by_regime}
    write_json(args.out / "report.json", report)
    pack_rows(args.out / "logits.json.xz", read)
    (args.out / "gains.svg").write_text(picture(report))
    return report


if __name__ == "__main__":
    raise SystemExit(main())
