"""How many clips and raters a study needs, before it has data: `python -m ratings plan`.

The difference of two ratings is rater + clip + rest, and the study's interval is that of
`inference.paired_difference`: t with the fewer of raters and clips, less one. The chance to find an
effect is that of the noncentral t with the same degrees of freedom. Standard deviations are ranges,
as nobody knows them before: the first of each pair is the favourable one.

Studies of pairs are drawn and judged by `inference.paired_difference`, as the report judges them.
Behind each preference stands a normal number, z = rater + clip + rest with variance 1: the first
arm is preferred above one threshold, the other one below another, and between both there is no
difference. The thresholds give the share that prefers the first arm and the share of ties; the
raters' part gives the standard deviation of raters' own shares, to first order.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import nct, norm
from scipy.stats import t as student

from macd_studio.core.errors import OptionError
from macd_studio.core.validation import Number
from macd_studio.ratings.inference import paired_difference
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
SHARE = 0.65
"""Of pairs that prefer the first arm, ties counted half."""
TIES = 0.2
"""Of pairs without a difference."""
SHARE_SD = (0.05, 0.15)
"""Of raters' own shares."""
CLIPS, N_RATERS = (20, 50, 100, 200), (3, 5, 10, 20)
MOST = 10_000
POWER = 0.8
STUDIES = 400
"""Drawn for each cell of a table of pairs: the Monte Carlo error of a chance is at most .025."""
SEED = 0
MAX_RATERS = 50
MAX_CELLS = 2_000_000
"""Pairs of one drawn study at most."""
MAX_DRAWN = 2_000_000_000
"""Pairs of all drawn studies of a plan at most."""
MAX_OUTLOOK = 20_000_000
"""Pairs drawn at most for `outlook`, which takes a second or two."""
MAX_WITHIN = 0.95
"""Of the variance of z that raters and clips may take."""


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


def first_enough(effect: float, parts: Components, clips: int, most: int = 200) -> int | None:
    """The fewest raters whose chance is POWER; None where `most` are not enough."""
    return next((n for n in range(2, most + 1) if chance(effect, parts, n, clips) >= POWER), None)


def table(
    effect: float,
    clips: Sequence[int],
    raters: Sequence[int],
    paired_sd: tuple[float, float] = PAIRED_SD,
    rater_sd: tuple[float, float] = RATER_SD,
) -> Iterator[str]:
    """The lines of a plan of ratings, in Markdown."""
    both = [parts_of(p, r) for p, r in zip(paired_sd, rater_sd, strict=True)]
    yield f"Effect {effect:g} points; SD over clips {paired_sd[0]:g} to {paired_sd[1]:g}, of raters"
    yield f"{rater_sd[0]:g} to {rater_sd[1]:g}. Each rater rates both masks of every clip."
    yield from _rows(
        "effect",
        clips,
        raters,
        lambda r, c: [(p.half_width(r, c), chance(effect, p, r, c)) for p in both],
    )
    for c in clips:
        enough = [first_enough(effect, p, c) for p in both]
        yield f"{c} clips: {_enough(enough)}."


def _rows(
    what: str,
    clips: Sequence[int],
    raters: Sequence[int],
    cell: Callable[[int, int], list[tuple[float, float]]],
) -> Iterator[str]:
    """cell: of raters and clips, the half width and the chance in both settings."""
    yield ""
    yield f"| clips | raters | pairs | interval ± | chance to find the {what} |"
    yield "|---|---|---|---|---|"
    for c, r in product(clips, raters):
        (narrow, wide), (seldom, often) = (sorted(z) for z in zip(*cell(r, c), strict=True))
        yield f"| {c} | {r} | {c * r} | {narrow:.2f} to {wide:.2f} | {seldom:.0%} to {often:.0%} |"
    yield ""


@dataclass(frozen=True)
class Setting:
    """A study of pairs. share, ties: of all pairs; rater_sd: of raters' own shares."""

    share: float
    ties: float
    rater_sd: float


@dataclass(frozen=True)
class Latent:
    """Standard deviations of the parts of z, and its two thresholds."""

    rater: float
    clip: float
    rest: float
    below: float
    above: float


def latent(at: Setting, clip_share: float = CLIP_SHARE) -> Latent:
    """The parts of z of a setting. clip_share: of the variance within raters that is the clips'.

    Raises OptionError for shares that cannot be, and where raters differ more than they can.
    """
    first, other = at.share - at.ties / 2, 1 - at.share - at.ties / 2
    if min(first, other) <= 0:
        raise OptionError(
            f"a share of {at.share:g} is not possible with {at.ties:g} ties",
            "Give fewer ties, or a share nearer to 0.5",
        )
    above, below = float(norm.isf(first)), float(norm.ppf(other))
    # what the share gains where z moves up by one
    slope = float(norm.pdf(above) + norm.pdf(below)) / 2
    variance = at.share * (1 - at.share) - at.ties / 4 - at.rater_sd**2
    rater, clip = at.rater_sd / slope, np.sqrt(max(clip_share * variance, 0.0)) / slope
    rest = 1 - rater**2 - clip**2
    if variance <= 0 or rest < 1 - MAX_WITHIN:
        raise OptionError(
            f"raters' shares cannot have an SD of {at.rater_sd:g} around {at.share:g}",
            "Give a smaller --rater-sd",
        )
    return Latent(rater, float(clip), float(np.sqrt(rest)), below, above)


def drawn(rng: np.random.Generator, at: Latent, raters: int, clips: int) -> NDArray[np.float64]:
    """A study (raters, clips): 1 for the first arm, 0 for the other one, 0.5 for neither.

    From generators in the same state a study of fewer raters is the first rows of one of more.
    """
    clip = at.clip * rng.standard_normal(clips)
    own = rng.standard_normal((raters, 1 + clips))
    z = at.rater * own[:, :1] + clip + at.rest * own[:, 1:]
    return np.asarray(((z > at.above) + 0.5 * ((z <= at.above) & (z >= at.below))), np.float64)


@cache
def tried(at: Setting, raters: int, clips: int, studies: int = STUDIES) -> tuple[float, float]:
    """Mean half width of the interval for other raters, and how often it lies above or below 0.5
    on the side of the true share.

    A study in which all pairs are alike has no interval, and finds nothing. Studies of other
    numbers of raters have the same random numbers, so that their chances can be compared.
    """
    parts, widths, found = latent(at), [], 0
    for study in range(studies):
        rng = np.random.default_rng([SEED, clips, study])
        e = paired_difference(drawn(rng, parts, raters, clips)).others
        widths.append(e.half_width)
        found += e.low > 0.5 if at.share > 0.5 else e.high < 0.5
    known = [w for w in widths if np.isfinite(w)]
    return float(np.mean(known)) if known else float("nan"), found / studies


def first_enough_pairs(at: Setting, clips: int) -> int | None:
    """About the fewest raters whose chance is POWER; None where MAX_RATERS are not enough.

    By halving, as if the chance rose with every rater; that of drawn studies nearly does.
    """
    low, high = 1, MAX_RATERS + 1
    while high - low > 1:
        middle = (low + high) // 2
        if tried(at, middle, clips)[1] >= POWER:
            high = middle
        else:
            low = middle
    return high if high <= MAX_RATERS else None


def table_of_pairs(
    at: tuple[Setting, Setting], clips: Sequence[int], raters: Sequence[int]
) -> Iterator[str]:
    """The lines of a plan of pairs, in Markdown. at: the favourable setting and the other one."""
    if max(clips) * max(*raters, MAX_RATERS) > MAX_CELLS:
        raise OptionError(
            f"a study of {max(clips)} clips and {max(raters)} raters is too large to be drawn",
            f"Give at most {MAX_CELLS} pairs",
        )
    halvings = int(np.ceil(np.log2(MAX_RATERS + 1)))
    each = sum(clips) * (sum(raters) + halvings * MAX_RATERS)
    if (pairs := each * len(at) * STUDIES) > MAX_DRAWN:
        raise OptionError(
            f"the plan would draw up to {pairs / 1e6:,.0f} million pairs",
            f"Give fewer or smaller --clips and --raters, for at most {MAX_DRAWN / 1e6:,.0f}"
            " million",
        )
    for setting in at:
        latent(setting)
    yield f"Share preferring the first arm {at[0].share:g}, ties half; {at[0].ties:.0%} ties; SD of"
    yield f"raters' shares {at[0].rater_sd:g} to {at[1].rater_sd:g}. {STUDIES} drawn studies a row."
    yield from _rows("preference", clips, raters, lambda r, c: [tried(s, r, c) for s in at])
    for c in clips:
        enough = [first_enough_pairs(s, c) for s in at]
        words = [f"more than {MAX_RATERS}" if n is None else str(n) for n in enough]
        about = "" if all(n is None for n in enough) else "about "
        told = " to ".join(dict.fromkeys(words))
        yield f"{c} clips: {about}{told} raters for a chance of {POWER:.0%}."


def outlook(scale: str, clips: int, raters: int) -> str:
    """What a study of so many items and raters is likely to find, in one sentence.

    clips: items of which a rater compares the same two arms.
    """
    if min(clips, raters) < 2:
        return "nothing is found for other raters and items with fewer than two of each"
    if scale == PAIRS:
        if clips * raters * STUDIES * len(SHARE_SD) > MAX_OUTLOOK:
            return f"plan it: python -m ratings plan --scale {PAIRS} --clips {clips}"
        cells = [tried(Setting(SHARE, TIES, sd), raters, clips) for sd in SHARE_SD]
        effect, enough = f"a share of {SHARE:.0%}", ""
    else:
        both = [parts_of(p, r) for p, r in zip(PAIRED_SD, RATER_SD, strict=True)]
        cells = [(p.half_width(raters, clips), chance(EFFECT, p, raters, clips)) for p in both]
        effect = f"{EFFECT:g} points"
        enough = f"; {_enough([first_enough(EFFECT, p, clips) for p in both])}"
    (narrow, wide), (seldom, often) = (sorted(z) for z in zip(*cells, strict=True))
    return (
        f"{raters} raters and {clips} items: interval ± {narrow:.2f} to {wide:.2f}, chance of"
        f" {seldom:.0%} to {often:.0%} to find {effect}{enough}"
    )


def _enough(raters: Sequence[int | None]) -> str:
    told = " to ".join("more than 200" if n is None else str(n) for n in raters)
    return f"{told} raters for a chance of {POWER:.0%}"


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `plan`."""
    add = parser.add_argument
    add("--scale", choices=SCALES, default=RATINGS,
        help="of the study, see `ratings create` (default: %(default)s)")  # fmt: skip
    add("--effect", type=float, help=f"of ratings, points (default: {EFFECT:g})")
    share, ties = "the share preferring the first arm, ties half", "the share without a difference"
    add("--share", type=float, help=f"of pairs, {share} (default: {SHARE:g})")
    add("--ties", type=float, help=f"of pairs, {ties} (default: {TIES:g})")
    add("--clips", default=_joined(CLIPS), metavar="N,…", help="(default: %(default)s)")
    add("--raters", default=_joined(N_RATERS), metavar="N,…", help="(default: %(default)s)")
    add("--paired-sd", metavar="LOW,HIGH",
        help="of one rater's differences of ratings over clips (default:"
        f" {_joined(PAIRED_SD)})")  # fmt: skip
    add("--rater-sd", metavar="LOW,HIGH",
        help=f"of raters' mean differences (default: {_joined(RATER_SD)}), or of pairs of their"
        f" shares ({_joined(SHARE_SD)})")  # fmt: skip


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
    clips, raters = (
        [int(n) for n in _listed(text, Number(2, MOST, whole=True), name, 12)]
        for text, name in ((args.clips, "clips"), (args.raters, "raters"))
    )
    if is_pairs:
        share = _value(args.share, SHARE, Number(0.01, 0.99), "share")
        if share == 0.5:
            raise OptionError("a share of 0.5 is no preference to be found", "Give another --share")
        ties = _value(args.ties, TIES, Number(0.0, 0.9), "ties")
        low, high = _range(args.rater_sd, SHARE_SD, Number(0.0, 0.5), "rater-sd")
        at = Setting(share, ties, low), Setting(share, ties, high)
        lines = table_of_pairs(at, clips, raters)
    else:
        points = Number(0.01, 4.0)
        effect = _value(args.effect, EFFECT, points, "effect")
        paired = _range(args.paired_sd, PAIRED_SD, points, "paired-sd")
        spread = _range(args.rater_sd, RATER_SD, points, "rater-sd")
        lines = table(effect, clips, raters, paired, spread)
    for line in lines:
        print(line, flush=True)
    return 0


def _value(given: float | None, usual: float, rule: Number, name: str) -> float:
    return float(rule.read(usual if given is None else given, name) or 0.0)


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
