"""How many clips and raters a study needs, before it has data: `python -m ratings plan`.

The difference of two ratings is rater + clip + rest, and the study's interval is that of
`inference.paired_difference`: t with the fewer of raters and clips, less one. The chance to find an
effect is that of the noncentral t with the same degrees of freedom. Standard deviations are ranges,
as nobody knows them before: the first of each pair is the favourable one. Studies of pairs are
planned by `planning_pairs`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from scipy.stats import nct
from scipy.stats import t as student

from macd_studio.core.errors import OptionError
from macd_studio.core.validation import Number
from macd_studio.ratings import planning_pairs as pairs
from macd_studio.ratings.plan import PAIRS, RATINGS, SCALES
from macd_studio.ratings.stats import LEVEL, Components

EFFECT = 0.7
"""Points; the difference of the paper's two means."""
PAIRED_SD = (0.8, 1.3)
"""Of one rater's differences over clips, in points."""
RATER_SD = (0.2, 0.6)
"""Of raters' mean differences, in points."""
CLIP_SHARE = 0.28
"""How much of the variance over clips is the clip's own, the same for every rater; as in
`ratings.coverage`."""
CLIPS, N_RATERS = (20, 50, 100, 200), (3, 5, 10, 20)
MOST = 10_000
POWER = 0.8


def parts_of(paired_sd: float, rater_sd: float) -> Components:
    """The variances of a study with these standard deviations."""
    variance = paired_sd**2
    return Components(rater_sd**2, CLIP_SHARE * variance, (1 - CLIP_SHARE) * variance)


def chance(effect: float, parts: Components, raters: int, clips: int) -> float:
    """The probability that the 95 % interval for other raters lies on the effect's side of 0."""
    freedom = min(raters, clips) - 1
    if freedom < 1:
        return float("nan")
    variance = parts.rater / raters + parts.clip / clips + parts.rest / (raters * clips)
    return float(nct.sf(student.ppf((1 + LEVEL) / 2, freedom), freedom, effect / variance**0.5))


def table(
    effect: float,
    clips: Sequence[int],
    raters: Sequence[int],
    paired_sd: tuple[float, float] = PAIRED_SD,
    rater_sd: tuple[float, float] = RATER_SD,
) -> Iterator[str]:
    """The lines of the plan, in Markdown."""
    best, worst = (parts_of(p, r) for p, r in zip(paired_sd, rater_sd, strict=True))
    yield f"Effect {effect:g} points; SD over clips {paired_sd[0]:g} to {paired_sd[1]:g}, of raters"
    yield f"{rater_sd[0]:g} to {rater_sd[1]:g}. Each rater rates both masks of every clip."
    yield ""
    yield "| clips | raters | pairs | interval ± | chance to find the effect |"
    yield "|---|---|---|---|---|"
    for c, r in product(clips, raters):
        widths = [p.half_width(r, c) for p in (best, worst)]
        chances = [chance(effect, p, r, c) for p in (worst, best)]
        yield (
            f"| {c} | {r} | {c * r} | {widths[0]:.2f} to {widths[1]:.2f} |"
            f" {chances[0]:.0%} to {chances[1]:.0%} |"
        )
    yield ""
    for c in clips:
        enough = [first_enough(effect, p, c) for p in (best, worst)]
        told = " to ".join("more than 200" if n is None else str(n) for n in enough)
        yield f"{c} clips: {told} raters for a chance of {POWER:.0%}."


def first_enough(effect: float, parts: Components, clips: int, most: int = 200) -> int | None:
    """The fewest raters whose chance is POWER; None where `most` are not enough."""
    return next((n for n in range(2, most + 1) if chance(effect, parts, n, clips) >= POWER), None)


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `plan`."""
    add = parser.add_argument
    add("--scale", choices=SCALES, default=RATINGS,
        help="of the study, see `ratings create` (default: %(default)s)")  # fmt: skip
    add("--effect", type=float, help=f"of ratings, points (default: {EFFECT:g})")
    add("--share", type=float,
        help="of pairs, the share preferring the first arm, ties half (default:"
        f" {pairs.SHARE:g})")  # fmt: skip
    add("--ties", type=float,
        help=f"of pairs, the share without a difference (default: {pairs.TIES:g})")  # fmt: skip
    add("--clips", default=_joined(CLIPS), metavar="N,…", help="(default: %(default)s)")
    add("--raters", default=_joined(N_RATERS), metavar="N,…", help="(default: %(default)s)")
    add("--paired-sd", metavar="LOW,HIGH",
        help="of one rater's differences of ratings over clips (default:"
        f" {_joined(PAIRED_SD)})")  # fmt: skip
    add("--rater-sd", metavar="LOW,HIGH",
        help=f"of raters' mean differences (default: {_joined(RATER_SD)}), or of pairs of their"
        f" shares ({_joined(pairs.RATER_SD)})")  # fmt: skip


def plan(args: argparse.Namespace) -> int:
    """Prints the plan that the arguments of `add_plan` ask for."""
    is_pairs = args.scale == PAIRS
    for name in ("effect", "paired_sd") if is_pairs else ("share", "ties"):
        if getattr(args, name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise OptionError(
                f"{flag} does not apply to a study of {args.scale}",
                f"Leave it out, or give --scale {RATINGS if is_pairs else PAIRS}",
            )
    counts = [
        [int(n) for n in _listed(text, Number(2, MOST, whole=True), name, 12)]
        for text, name in ((args.clips, "clips"), (args.raters, "raters"))
    ]
    for line in _of_pairs(args, *counts) if is_pairs else _of_ratings(args, *counts):
        print(line, flush=True)
    return 0


def _of_ratings(
    args: argparse.Namespace, clips: Sequence[int], raters: Sequence[int]
) -> Iterator[str]:
    effect = EFFECT if args.effect is None else args.effect
    effect = float(Number(0.01, 4.0).read(effect, "effect") or EFFECT)
    points = Number(0.01, 4.0)
    paired = _range(args.paired_sd, PAIRED_SD, points, "paired-sd")
    return table(effect, clips, raters, paired, _range(args.rater_sd, RATER_SD, points, "rater-sd"))


def _of_pairs(
    args: argparse.Namespace, clips: Sequence[int], raters: Sequence[int]
) -> Iterator[str]:
    share = pairs.SHARE if args.share is None else args.share
    share = float(Number(0.01, 0.99).read(share, "share") or pairs.SHARE)
    if share == 0.5:
        raise OptionError("a share of 0.5 is no preference to be found", "Give another --share")
    ties = pairs.TIES if args.ties is None else args.ties
    ties = float(Number(0.0, 0.9).read(ties, "ties") or 0.0)
    spread = _range(args.rater_sd, pairs.RATER_SD, Number(0.0, 0.5), "rater-sd")
    at = pairs.Setting(share, ties, spread[0]), pairs.Setting(share, ties, spread[1])
    return pairs.table(at, clips, raters, CLIP_SHARE, POWER)


def _range(
    text: str | None, usual: tuple[float, float], rule: Number, name: str
) -> tuple[float, float]:
    found = sorted(_listed(text, rule, name, 2)) if text is not None else usual
    return found[0], found[-1]


def _joined(values: Sequence[float]) -> str:
    return ",".join(f"{v:g}" for v in values)


def _listed(text: str, rule: Number, name: str, most: int) -> list[float]:
    parts = text.split(",")
    if len(parts) > most:
        raise OptionError(f"{name} has {len(parts)} values", f"Give at most {most}")
    try:
        values = [float(part) for part in parts]
    except ValueError:
        raise OptionError(f"{name} is {text[:40]!r}", "Give numbers with commas between") from None
    return [float(rule.read(int(v) if np.isfinite(v) and v == int(v) else v, name) or 0)
            for v in values]  # fmt: skip
