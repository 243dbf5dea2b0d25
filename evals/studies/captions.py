"""Do methods help where the model describes a clip.

`python -m evals.studies.captions --n 640 --split 80`.

Captions of the headline benchmark, word by word. A caption's errors are the objects that it names
and that are not there, and those that are there and that it does not name. α and β are tuned for
each method on captions of the other split, by the fewest errors. The oracle hides the faint object
and nothing else; "one object fewer" leaves out the last object that the baseline names, and reads
no video. After a kill it continues where it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.commands import parser as command_line
from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.decoding.answers import find_answer
from macd_studio.core.methods import find_method
from macd_studio.core.options import DecodeOptions, RunOptions
from macd_studio.core.text.numbers import with_interval
from macd_studio.core.types import Clip, Track
from macd_studio.core.views.context import MethodContext
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.benchmarks.base import Item, Split
from macd_studio.evals.benchmarks.toyworld import DrawnBenchmark
from macd_studio.evals.printing.figures import change, percent, survives, table, title
from macd_studio.evals.running.answer import count_reads, item_seed, with_contrast
from macd_studio.evals.running.output import write_json
from macd_studio.evals.running.rows import Setting, row_key
from macd_studio.evals.statistics.metrics import chair, mentioned
from macd_studio.evals.statistics.stats import bootstrap_ratio, enough_differ, holm, sign_flip
from macd_studio.evals.studies.first_token import ORACLE, VIDEO, oracle_view
from macd_studio.evals.studies.headroom import METHODS, as_drawn, check_methods
from macd_studio.evals.studies.shared import Row, check_counts, command, kept, open_models

REGIME = "captions"
FEWER = "one object fewer"
"""The control that reads no video."""
Contrast = tuple[float, float]
GRID: tuple[Contrast, ...] = tuple((a, b) for a in (0.25, 0.5, 1.0, 2.0, 4.0) for b in (0.1, 0.5))
EQUAL: Contrast = (1.0, 0.1)
LONGEST = DecodeOptions(max_tokens=24)


def caption_row(
    lm: LocalLM,
    clip: Clip,
    tracks: tuple[Track, ...],
    item: Item,
    contrasts: Mapping[str, Sequence[Contrast]],
    options: RunOptions,
) -> Row:
    """The clip's captions: by the video alone, and by each method at each of its α and β.

    contrasts: method, or "oracle" → pairs. Row: `captions`, method → "α, β" → text; `reads`.
    """
    own = replace(options, seed=item_seed(item.id), decode=LONGEST)
    context = MethodContext(lm, lm.encode(clip, item.question), tracks, own)
    plain = find_method(VIDEO).rule_for(context)
    captions = {VIDEO: {"": find_answer(lm, VIDEO, context.base, (), plain, LONGEST).text}}
    reads = {VIDEO: 1.0}
    for name, pairs in contrasts.items():
        method = find_method("mask-all" if name == ORACLE else name)
        context.options = own
        context.cache.start_method()
        seconds = (oracle_view(context, item.about),) if name == ORACLE else method.build(context)
        reads[name] = count_reads(context, method)
        states = tuple(s.state for s in seconds if s.state is not None)
        captions[name] = {}
        for pair in pairs:
            context.options = with_contrast(own, method.name, pair)
            rule = method.rule_for(context)
            # tokens that no contrast can change are taken from the video alone: the same caption
            others = (lambda s=states: s) if rule.cuts_by_video else states
            found = find_answer(lm, name, context.base, others, rule, LONGEST)
            captions[name]["{:g}, {:g}".format(*pair)] = found.text
    return {"item": item.id, "captions": captions, "reads": reads}


def read_all(
    benchmark: DrawnBenchmark,
    items: Sequence[Item],
    setting: Setting,
    contrasts: Mapping[str, Sequence[Contrast]],
    path: Path,
) -> list[Row]:
    """A row for each item; computed and stored where none of these methods and pairs is there."""
    content = setting.content(benchmark)
    what = "captions " + json.dumps({m: list(p) for m, p in contrasts.items()}, sort_keys=True)

    def start() -> Callable[[Item], Row]:
        lm, prepare = open_models(benchmark, setting)
        return lambda item: caption_row(lm, *prepare(item), item, contrasts, setting.options)

    return list(kept(path, ((row_key(content, i, what, None), i) for i in items), start))


def without_last(caption: str, nouns: Sequence[str]) -> set[str]:
    """The objects that a caption names, but for the one it names last.

    >>> sorted(without_last("a dog, a cup and a kite at the beach", ["cup", "dog", "kite"]))
    ['cup', 'dog']
    """
    named = mentioned(caption, nouns)
    last = max(named, key=lambda noun: caption.lower().rfind(noun), default="")
    return named - {last}


class Captions:
    """What captions of N clips name, against what is there."""

    def __init__(self, benchmark: DrawnBenchmark, items: Sequence[Item], rows: Sequence[Row]):
        self.clips = [item.clip for item in items]
        self.rows, self.nouns = rows, tuple(benchmark.nouns)
        self.present = [benchmark.present(clip) for clip in self.clips]
        self.faint = [item.about for item in items]

    def texts(self, method: str, contrast: Contrast | None) -> list[str]:
        """The N captions of a method; contrast: None for the video alone."""
        key = "{:g}, {:g}".format(*contrast) if contrast else ""
        return [row["captions"][method][key] for row in self.rows]

    def named(self, method: str, contrast: Contrast | None) -> list[set[str]]:
        """What each caption names."""
        if method == FEWER:
            return [without_last(text, self.nouns) for text in self.texts(VIDEO, None)]
        return [mentioned(text, self.nouns) for text in self.texts(method, contrast)]

    def counts(self, named: Sequence[set[str]]) -> dict[str, NDArray[np.float64]]:
        """(N,) each: as `chair`, the errors, and whether the faint object is named."""
        found = chair(named, self.present)
        missed = found["there"] - found["found"]
        faint = [float(f in n) for f, n in zip(self.faint, named, strict=True)]
        return found | {"errors": found["invented"] + missed, "faint": np.array(faint)}


def tune(captions: Captions, method: str) -> Contrast:
    """α and β with the fewest errors; of equals the smallest α, then the largest β."""

    def errors(pair: Contrast) -> float:
        return float(captions.counts(captions.named(method, pair))["errors"].sum())

    return min(GRID, key=lambda pair: (errors(pair), pair[0], -pair[1]))


def compare(
    choose: Captions,
    test: Captions | Callable[[Mapping[str, Contrast]], Captions],
    names: Sequence[str],
) -> dict[str, Any]:
    """Figures of every method, with 95 % intervals over clips; Holm over the methods' errors.

    test: of all pairs, or what reads the pairs that were chosen.
    """
    contrasts = {name: tune(choose, name) for name in names}
    told = test if isinstance(test, Captions) else test(contrasts)
    ones = np.ones(len(told.clips))
    base = told.counts(told.named(VIDEO, None))
    under = {"errors": "", "invented": "named", "found": "there", "faint": ""}
    figures: dict[str, Any] = {}
    for name in (VIDEO, FEWER, *names):
        own = told.counts(told.named(name, contrasts.get(name)))
        one: dict[str, Any] = {}
        for top, bottom in under.items():
            minus = None if name == VIDEO else (base[top], base.get(bottom, ones))
            one[top] = bootstrap_ratio(own[top], own.get(bottom, ones), told.clips, minus=minus)
        if name in contrasts:
            one["contrast"] = list(contrasts[name])
            one["reads"] = float(np.mean([row["reads"][name] for row in told.rows]))
            difference = own["errors"] - base["errors"]
            if enough_differ(difference, told.clips) and name != ORACLE:
                one["p"] = sign_flip(difference, told.clips)
            equal = told.counts(told.named(name, EQUAL))["errors"]
            one["equal"] = bootstrap_ratio(equal, ones, told.clips, minus=(base["errors"], ones))
        figures[name] = one
    tested = [one for one in figures.values() if "p" in one]
    for one, adjusted in zip(tested, holm([one["p"] for one in tested]), strict=True):
        one["holm"] = adjusted
    return {"n": len(told.clips), "tests": len(tested), "methods": figures}


def markdown(report: Mapping[str, Any]) -> str:
    """The table: errors a caption, shares in percent, each method as its change."""
    rows = []
    for name, one in report["methods"].items():
        plain = name == VIDEO
        form = ".2f" if plain else "+.2f"
        errors = with_interval(one["errors"], form, 1, strong=survives(one))
        shares = [
            percent(one[z]) if plain else change(one[z]) for z in ("invented", "found", "faint")
        ]
        contrast = "{:g}, {:g}".format(*one["contrast"]) if "contrast" in one else "–"
        shown = FEWER.capitalize() if name == FEWER else title(name)
        rows.append([shown, contrast, errors, *shares])
    heads = [
        "method", "α, β", "errors a caption", "of the named not there, %",
        "of what is there named, %", "faint object named, %",
    ]  # fmt: skip
    return table(heads, rows)


def run(args: Any) -> dict[str, Any]:
    """Reads what is missing and writes captions.json. Raises MacdError."""
    check_counts(args, n=100_000, split=100_000)
    options = RunOptions()
    names = [m for m in args.methods.split(",") if m]
    check_methods(names)
    setting = Setting("toyworld-crossed", options, args.backbone, args.detector, args.boxes)
    benchmark = as_drawn(find_benchmark(setting.benchmark))
    path = args.out / "captions.jsonl"
    asked: dict[Split, int] = {"choose": args.split, "test": args.n}

    def captions(split: Split, contrasts: Mapping[str, Sequence[Contrast]]) -> Captions:
        items = [i for i in benchmark.items(split, asked[split]) if i.regime == REGIME]
        return Captions(benchmark, items, read_all(benchmark, items, setting, contrasts, path))

    def test(chosen: Mapping[str, Contrast]) -> Captions:
        pairs = {name: sorted({pair, EQUAL}) for name, pair in chosen.items()}
        return captions("test", pairs)

    every = [*names, ORACLE]
    choose = captions("choose", dict.fromkeys(every, GRID))
    report = {
        "benchmark": setting.benchmark,
        "boxes": args.boxes,
        "backbone": args.backbone,
        "content": setting.content(benchmark),
        "seed": benchmark.seeds["test"],
        "tuned_on": len(choose.clips),
    } | compare(choose, test, every)
    write_json(args.out / "captions.json", report)
    return report


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = command_line("evals.studies.captions", __doc__)
    parser.add_argument("--n", type=int, default=640, help="captions")
    parser.add_argument("--split", type=int, default=80, help="captions to tune on")
    parser.add_argument("--methods", default=",".join(METHODS), help="with commas")
    parser.add_argument("--boxes", choices=("detector", "truth"), default="truth")
    parser.add_argument("--backbone", default="toyworld")
    parser.add_argument("--detector", default="toyworld")
    parser.add_argument("--out", type=Path, default=Path("runs/captions"))
    return command(parser, lambda args: markdown(run(args)), argv)


if __name__ == "__main__":
    raise SystemExit(main())
