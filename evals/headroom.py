"""Can a regime judge how a method chooses objects? `python -m evals.headroom toyworld-crossed`.

Answers are first tokens among each question's options. The oracle hides the asked object, and
"removed" is the clip drawn again without it. Where the oracle gains much over the video, over
hiding everything and over random places, and a constant per option gains nothing, a good choice of
objects could show. Everywhere else a regime cannot judge selection. α and β, and the
constants, are tuned for each regime on clips of the other split.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.methods import find_methods
from macd_studio.core.options import RunOptions
from macd_studio.core.validation import Number
from macd_studio.core.words import visible
from macd_studio.evals.answer import GRID
from macd_studio.evals.benchmarks import BENCHMARKS, find_benchmark
from macd_studio.evals.benchmarks.base import Benchmark, Item, Split
from macd_studio.evals.benchmarks.toyworld import DrawnBenchmark
from macd_studio.evals.constant import coordinates
from macd_studio.evals.figures import interval_text, table
from macd_studio.evals.first_token import (
    ORACLE,
    REMOVED,
    TRUTHS,
    VIDEO,
    Array,
    OptionLogits,
    append_logits,
    contrasted,
    read_options,
    stack,
    stored_logits,
)
from macd_studio.evals.rows import Setting, row_key
from macd_studio.evals.stats import Interval, mean_difference, wilson

Name = str
METHODS = ("vcd", "macd", "macd-measured", "random-mask", "random-average-4", "mask-all")
ALL, RANDOM = "mask-all", "random-mask"
REFERENCES = (ALL, RANDOM, "random-average-4")
"""Methods that choose no objects: a choice is worth what it gains over them."""
CONSTANT = "constant"
DELTAS = tuple(np.linspace(-6, 6, 25).tolist())
"""Constants tried for each option: about as many as pairs of α and β."""
ROUNDS = 3

OVER_BASELINE, OVER_REFERENCE, BY_CONSTANT = 0.10, 0.04, 0.01
"""Shares of right answers that make headroom, see `can_judge_selection`."""
EQUAL = ((1.0, 0.1), (3.0, 0.1))
"""α and β at which all methods are compared alike, beside those tuned for each."""


def can_judge_selection(oracle: Interval, over: Sequence[Interval], constant: Interval) -> bool:
    """Whether a regime has headroom for a choice of objects.

    oracle: its gain over the baseline, at least 10 points; over: over hiding every object, and over
    random places, at least 4 each; constant: what the best constant per option gains, at most 1,
    its interval holds 0. The other intervals must leave out zero.
    """
    gains = oracle[0] >= OVER_BASELINE and all(z[0] >= OVER_REFERENCE for z in over)
    apart = oracle[1] > 0 and all(z[1] > 0 for z in over)
    return bool(gains and apart and constant[0] <= BY_CONSTANT and constant[1] <= 0 <= constant[2])


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
        added = np.array([constants.get(n, 0.0) for n in self.names] + [0.0])
        return np.asarray((self._base + added[self._place]).argmax(1) == self.truth)

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


def tune_contrast(answers: Answers, method: str) -> tuple[float, float]:
    """α and β with most right answers; of equals the smallest α, then the largest β."""
    return max(GRID, key=lambda c: (answers.hits(method, c).sum(), -c[0], c[1]))


def tune_constants(answers: Answers) -> dict[Name, float]:
    """A constant for each option, see `evals.constant.coordinates`."""
    weights = np.ones(len(answers.items))
    constants = coordinates(
        answers.by_name, answers.name_of_truth, weights, range(len(answers.names)), DELTAS, ROUNDS
    )
    return {answers.names[k]: constant for k, constant in constants.items()}


def compare(choose: Answers, test: Answers, methods: Sequence[str]) -> dict[str, Any]:
    """Figures of one regime: each method against the baseline and against hiding everything."""
    clips = [i.clip for i in test.items]
    base = stack(test.rows, VIDEO).argmax(1) == test.truth
    constant = test.hits_with(tune_constants(choose))
    hits = {VIDEO: base, CONSTANT: constant}
    figures: dict[str, Any] = {}
    contrasts = {m: tune_contrast(choose, m) for m in methods}
    hits |= {m: test.hits(m, contrasts[m]) for m in methods}
    for name, right in hits.items():
        figures[name] = {"right": wilson(int(right.sum()), len(right))}
        if name != VIDEO:
            figures[name]["delta"] = mean_difference(base, right, clips)
        if name in contrasts:
            figures[name]["contrast"] = list(contrasts[name])
            figures[name]["equal"] = [
                mean_difference(base, test.hits(name, pair), clips) for pair in EQUAL
            ]
            figures[name]["over"] = {
                other: mean_difference(hits[other], right, clips)
                for other in REFERENCES
                if other in hits and other != name
            }
            if all(name in row.reads for row in test.rows):
                figures[name]["reads"] = float(np.mean([row.reads[name] for row in test.rows]))
    comparison: dict[str, Any] = {
        "n": len(test.items),
        "clips": len(set(clips)),
        "methods": figures,
    }
    if ORACLE in figures and ALL in figures:
        oracle = figures[ORACLE]
        over = [oracle["over"][other] for other in (ALL, RANDOM) if other in oracle["over"]]
        comparison["can_judge_selection"] = can_judge_selection(
            oracle["delta"], over, figures[CONSTANT]["delta"]
        )
    return comparison


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
    """The logits of every item, those that are not stored yet computed and stored."""
    content = setting.content(benchmark)
    keys = [row_key(content, i, "+".join(methods), None) for i in items]
    stored = {r.key: r for r in stored_logits(path)}
    missing = [(k, i) for k, i in zip(keys, items, strict=True) if k not in stored]
    if missing:
        from macd_studio.core.backbones import load_backbone
        from macd_studio.core.objects.detect import load_detector
        from macd_studio.evals.tracks import Preparing

        lm = load_backbone(setting.backbone)
        own = setting.boxes == "detector"
        detector = load_detector(setting.detector, lm.info.device) if own else None
        preparing = Preparing(benchmark, detector, setting.options)
        for done, (key, item) in enumerate(missing):
            prepared = preparing.prepare(item.clip, (item.question,))
            if prepared.clip is None:
                raise prepared.error or OptionError("a clip cannot be read", "Run it again")
            tracks = prepared.tracks or ()
            without = None
            if REMOVED in methods and item.about:
                without = as_drawn(benchmark).without(item.clip, item.about)
            stored[key] = read_options(
                lm, prepared.clip, tracks, item, methods, setting.options, key, without
            )
            append_logits(path, stored[key])
            if done % 50 == 49:
                print(f"{done + 1} of {len(missing)} questions", file=sys.stderr, flush=True)
    return [stored[k] for k in keys]


def markdown(report: dict[str, Any]) -> str:
    """Tables: each regime's right answers, in percent and points with 95 % intervals; what the
    oracle and the other choices gain over references that choose nothing; and all at equal α, β.
    """
    methods = [VIDEO, CONSTANT, *report["methods"]]
    references = [z for z in REFERENCES if z in report["methods"]]
    gains, paired, equal = [], [], []
    for regime, part in report["regimes"].items():
        figures = part["methods"]
        cells = [interval_text(figures[VIDEO]["right"])]
        cells += [interval_text(figures[m]["delta"], "+.1f") for m in methods[1:]]
        judged = part.get("can_judge_selection")
        verdict = "" if judged is None or judged else "cannot judge selection"
        gains.append([f"{regime} ({part['balance']})", part["n"], *cells, verdict])
        for method in report["methods"]:
            one = figures[method]
            reads = f"{one['reads']:.1f}" if "reads" in one else "–"
            over = [interval_text(one["over"].get(z), "+.1f") for z in references]
            paired.append([regime, method, "{:g}, {:g}".format(*one["contrast"]), reads, *over])
            equal.append([regime, method, *(interval_text(z, "+.1f") for z in one["equal"])])
    over_titles = [f"over {z}" for z in references]
    equal_titles = ["α {:g}, β {:g}".format(*pair) for pair in EQUAL]
    return "\n\n".join((
        table(["regime", "n", *methods, ""], gains),
        table(["regime", "method", "α, β", "prompts read", *over_titles], paired),
        table(["regime", "method", *equal_titles], equal),
    ))  # fmt: skip


def check_methods(names: Sequence[str]) -> None:
    """Raises OptionError for an unknown method, or one that contrasts no second view."""
    for method in find_methods([n for n in names if n not in TRUTHS]):
        if not method.second_views:
            raise OptionError(
                f"{method.name} contrasts no second view", "Leave it out of --methods"
            )


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; killed, it goes on where it was."""
    args = _parser().parse_args(argv)
    try:
        report = run(args)
    except MacdError as error:
        print(f"error: {visible(str(error))}", file=sys.stderr)
        return 2
    print(markdown(report))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m evals.headroom", description=__doc__)
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
    return parser


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Reads what is missing and writes report.json. Raises MacdError."""
    for name in ("n", "split"):
        Number(1, 100_000, whole=True).read(getattr(args, name), name)
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
    args.out.mkdir(parents=True, exist_ok=True)

    items: dict[Split, list[Item]] = {
        "choose": benchmark.items("choose", args.split),
        "test": benchmark.items("test", args.n),
    }

    def answers(split: Split, regime: str) -> Answers:
        asked = [i for i in items[split] if i.regime == regime and i.options]
        rows = read_all(benchmark, asked, setting, methods, args.out / "logits.jsonl")
        return Answers.of(asked, rows)

    by_regime = {}
    for regime in regimes:
        test = answers("test", regime)
        if test.items:  # captions have no options
            figures = compare(answers("choose", regime), test, methods)
            by_regime[regime] = {"balance": benchmark.balance[regime]} | figures
    report = {
        "benchmark": args.benchmark,
        "backbone": args.backbone,
        "boxes": args.boxes,
        "fill": args.fill,
        "split": args.split,
        "methods": methods,
        "regimes": by_regime,
    }
    (args.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    return report


if __name__ == "__main__":
    raise SystemExit(main())
