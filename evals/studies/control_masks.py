"""What the three controls hide, beside what MACD hides: `python -m evals.studies.control_masks`.

Of drawn clips, and of windows of real ones: the area of each control's mask over that of MACD's,
and how much of what MACD hides it hides too. The embedded model chooses MACD's masks; on real clips
its choice means nothing, but areas and overlaps are those of real objects (what moves).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.masking.controls import (
    CONTROLS,
    ELSEWHERE,
    MAX_OVERLAP,
    Hidden,
    draw_control,
)
from macd_studio.core.masking.random_masks import TOLERANCE
from macd_studio.core.options import RunOptions
from macd_studio.core.text.numbers import with_interval
from macd_studio.core.validation import Number
from macd_studio.evals.printing.figures import table
from macd_studio.evals.running.output import check_folder, machine
from macd_studio.evals.running.rows import Setting
from macd_studio.evals.studies.shared import command, open_models, told

WINDOW, STEP = 2.5, 1.25
"""Seconds of a real clip that are one item, and from one to the next."""
QUESTION = "Is there a dog?"


@dataclass(frozen=True)
class Masks:
    """One clip: what each control's mask came to; `random-elsewhere` is left out without one."""

    clip: str
    kind: str
    hidden: float
    objects: int
    area: dict[str, float]
    overlap: dict[str, float]


def describe(clip: str, kind: str, hidden: Hidden, seed: int) -> Masks:
    """One draw of each control. hidden: the share of all pixels that MACD hides."""
    drawn = {name: draw_control(name, hidden, seed) for name in CONTROLS}
    there = {name: d for name, d in drawn.items() if d is not None}
    return Masks(
        clip,
        kind,
        round(float(hidden.mask().mean()), 4),
        len(hidden.tracks),
        {name: round(d.area_ratio, 4) for name, d in there.items()},
        {name: round(d.overlap, 4) for name, d in there.items()},
    )


def of_drawn(n: int, seed: int) -> Iterator[tuple[str, Hidden]]:
    """Clips of the crossed benchmark, all regimes in turn, with their true boxes."""
    from macd_studio.core.views.context import MethodContext
    from macd_studio.core.views.table import hidden_pixels_of

    setting = Setting("toyworld-crossed", RunOptions(), "toyworld", "toyworld", "truth", seed=seed)
    benchmark = setting.open()
    lm, prepare = open_models(benchmark, setting)
    by_regime = [
        [i for i in benchmark.items("choose", n) if i.regime == regime]
        for regime in benchmark.regimes
    ]
    items = [i for turn in zip(*by_regime, strict=False) for i in turn][:n]
    for item in items:
        clip, tracks = prepare(item)
        context = MethodContext(lm, lm.encode(clip, item.question), tracks, setting.options)
        yield item.id, hidden_pixels_of(context, context.counterfactual(setting.options.mask))


def of_files(folder: Path, n: int) -> Iterator[tuple[str, Hidden]]:
    """Windows of the clips of a folder, in turn, with what moves in them as objects."""
    from macd_studio.core.backbones import load_backbone
    from macd_studio.core.media.video import read_clip
    from macd_studio.core.objects.detect import load_detector
    from macd_studio.core.objects.find import look
    from macd_studio.core.options import options_from
    from macd_studio.core.views.context import MethodContext
    from macd_studio.core.views.table import hidden_pixels_of

    files = sorted(p for p in folder.iterdir() if p.suffix == ".mp4")
    if not files:
        raise OptionError(f"no .mp4 file is in {folder.name}", "Give --clips a folder of clips")
    lm, detector = load_backbone("toyworld"), load_detector("motion", "cpu")
    found = 0
    for start in np.arange(0, 600, STEP):
        for path in list(files):
            video = {"start": float(start), "end": float(start + WINDOW)}
            options = options_from({"video": video})
            try:
                clip = read_clip(path, options.video)
            except MacdError:
                files.remove(path)  # at its end
                continue
            *_, last = look(clip, detector, options.detect, options)
            tracks, _notes = last.finish()
            context = MethodContext(lm, lm.encode(clip, QUESTION), tracks, options)
            yield (
                f"{path.stem}/{start:g}",
                hidden_pixels_of(context, context.counterfactual(options.mask)),
            )
            found += 1
            if found == n:
                return
        if not files:
            return


def summary(rows: Sequence[Masks]) -> dict[str, dict[str, Any]]:
    """By control: clips that have it, and quantiles of area and overlap (5, 50 and 95 %)."""
    figures: dict[str, dict[str, Any]] = {}
    for name in CONTROLS:
        have = [r for r in rows if name in r.area]
        if not have:
            figures[name] = {"n": 0, "of": len(rows)}
            continue
        area, overlap = ([getattr(r, key)[name] for r in have] for key in ("area", "overlap"))
        figures[name] = {
            "n": len(have),
            "of": len(rows),
            "area": [round(float(x), 3) for x in np.quantile(area, [0.05, 0.5, 0.95])],
            "equal": sum(abs(a - 1) <= TOLERANCE for a in area),
            "overlap": [round(float(x), 3) for x in np.quantile(overlap, [0.05, 0.5, 0.95])],
            "same": sum(x >= 0.999 for x in overlap),
        }
    return figures


def missing(rows: Sequence[Masks]) -> str:
    """What the clips without a `random-elsewhere` have in common."""
    without = [r for r in rows if ELSEWHERE not in r.area]
    if not without:
        return f"Every clip has a {ELSEWHERE}."
    own, others = (
        float(np.median([r.hidden for r in some])) if some else float("nan")
        for some in (without, [r for r in rows if ELSEWHERE in r.area])
    )
    return (
        f"{len(without)} of {len(rows)} clips have no {ELSEWHERE} that hides at most"
        f" {100 * MAX_OVERLAP:.0f} % of what MACD hides: there MACD hides {100 * own:.0f} % of all"
        f" pixels (median), in the others {100 * others:.0f} %."
    )


def markdown(report: dict[str, Any]) -> str:
    """How often there is each control, and its area over that of MACD's mask."""

    def told(one: dict[str, Any]) -> str:
        area = f": {_median(one['area'], '.2f', 1)}" if one["n"] else ""
        return f"{one['n']} of {one['of']}{area}"

    kinds = report["kinds"].values()
    lines = [[name, *(told(figures[name]) for figures in kinds)] for name in CONTROLS]
    return table(["control", *(f"{kind}: have it, area over MACD's" for kind in report["kinds"])],
                 lines)  # fmt: skip


def overlap_table(report: dict[str, Any]) -> str:
    """By kind of clips and control, how much of what MACD hides the control hides too.

    Beside it the share of all pixels that MACD hides: a mask of that area at places that have
    nothing to do with MACD's would share as much of it, on average. The interval of a mean is that
    of t over clips. Windows of a real clip are no clips of their own: their mean has none.
    """
    heads = ["items", "control", "n", "MACD hides, mean %", "shared, mean % [95 %]",
             "median [5 %, 95 %]", "half or more shared"]  # fmt: skip
    lines = []
    for kind in report["kinds"]:
        for name in CONTROLS:
            have = [r for r in report["clips"] if r["kind"] == kind and name in r["overlap"]]
            if not have:
                lines.append([kind, name, "0", "–", "–", "–", "–"])
                continue
            shared = 100 * np.array([r["overlap"][name] for r in have])
            hides = 100 * np.mean([r["hidden"] for r in have])
            mean, half = float(shared.mean()), math.nan
            if kind == "drawn" and len(have) > 1:
                half = (
                    float(student.ppf(0.975, len(have) - 1) * shared.std(ddof=1)) / len(have) ** 0.5
                )
            lines.append([
                kind, name, str(len(have)), f"{hides:.0f}",
                with_interval((mean, mean - half, mean + half), ".0f", 1),
                _median(np.quantile(shared, [0.05, 0.5, 0.95]), ".0f", 1),
                str(int((shared >= 50).sum())),
            ])  # fmt: skip
    return table(heads, lines)


def _median(quantiles: Sequence[float] | NDArray[np.float64], form: str, scale: float) -> str:
    """A median with two quantiles in brackets. quantiles: lower, median, upper."""
    low, middle, high = map(float, quantiles)
    return with_interval((middle, low, high), form, scale)


def made_by(report: dict[str, Any]) -> str:
    """Seed and machine of the figures, as the end of a sentence."""
    return f"seed {report['seed']}; {report['machine']}"


def whole(report: dict[str, Any]) -> str:
    """Both tables, a sentence on the clips that lack a control, seed and machine."""
    lacking = [f"{kind.capitalize()}: {text}" for kind, text in report["missing"].items()]
    return "\n\n".join([markdown(report), *lacking, overlap_table(report), made_by(report)])


def main(argv: Sequence[str] | None = None) -> int:
    """Draws every control once a clip, prints the table and writes it with --out."""
    parser = command_line("evals.studies.control_masks", __doc__)
    parser.add_argument("--n", type=int, default=160, help="drawn clips")
    parser.add_argument("--clips", type=Path, help="a folder of real clips")
    parser.add_argument("--windows", type=int, default=40, help="windows of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON file")

    def run(args: Any) -> str:
        for name, low, high in (("n", 0, 100_000), ("windows", 1, 100_000), ("seed", 0, 9999)):
            Number(low, high, whole=True).read(getattr(args, name), name)
        if args.out:
            check_folder(args.out.parent)
        if args.clips and not args.clips.is_dir():
            raise OptionError(f"{args.clips.name} is no folder", "Give --clips a folder of clips")
        sources = {"drawn": of_drawn(args.n, args.seed)} if args.n else {}
        if args.clips:
            sources["real"] = of_files(args.clips, args.windows)
        rows = [
            describe(clip, kind, hidden, args.seed + number)
            for kind, source in sources.items()
            for number, (clip, hidden) in enumerate(source)
            if hidden.mask().any()
        ]
        kinds = {kind: [r for r in rows if r.kind == kind] for kind in sources}
        report = {
            "kinds": {kind: summary(part) for kind, part in kinds.items()},
            "missing": {kind: missing(part) for kind, part in kinds.items()},
            "seed": args.seed,
            "machine": machine(),
            "clips": [asdict(r) for r in rows],
        }
        return told(report, whole, args.out)

    return command(parser, run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
