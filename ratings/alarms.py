"""How often raters are named who are careful, and who are not: `python -m ratings.alarms`.

Studies of three careful raters and one of the tried kind are drawn and judged by
`quality.judge_rater`, on screens that `plan.plan_tasks` gives. A rating is 2.75, plus half the
arms' difference, the clip's part (SD 0.5), the mask's (SD 0.5), the rater's (SD 0.3) and noise,
rounded and kept within 1 to 5; known masks are 4.5 and 1.5 without the first four. In a study of
pairs the mask with the higher of these is preferred, and neither where they are equal. Part of the
table is in docs/rating.md; the shares printed below it are those that `preregistration.FAR` rounds.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from macd_studio.commands import parser as command_line
from macd_studio.ratings.answers import Answer, Screen, main_answers
from macd_studio.ratings.events import HIGH, LOW
from macd_studio.ratings.plan import GOLD, PAIRS, RATINGS, SCALES, Shown, plan_tasks
from macd_studio.ratings.preregistration import APART, FAR
from macd_studio.ratings.quality import RULES, judge_rater

STUDIES = 2000
CAREFUL = 3
MIDDLE, EFFECT, CLIP_SD, MASK_SD, RATER_SD = 2.75, 0.7, 0.5, 0.5, 0.3
KNOWN = ((4, 5), (1, 2))
SECONDS, SECONDS_RATER, SECONDS_ITEM = 9.0, 0.4, 0.5
"""Median seconds on an item, and how its logarithm varies over raters and items."""
NOISIEST, NOISIEST_CLIPS = 0.9, 100
"""SD of a careful rater's rating of one mask, and items, of which `turned` tells."""
KINDS = ("careful", "any rating", "the left one", "without looking")
"""The rater who is tried. any rating: 1 to 5 at random; the left one: as careful ones do, and a
point more for the left mask; without looking: as careful ones do, in a sixth of the time."""
ITEMS = (30, 100)
"""How many each rater gives, in the table."""
SHOWN = ("known items", "repeats", "sides", "any")
"""Columns that docs/rating.md shows; REST it tells in words."""
REST = tuple(rule for rule in RULES if rule not in SHOWN)
Rng = np.random.Generator


@dataclass(frozen=True)
class Setting:
    """A study. noise: SD of a careful rater's rating of one mask; known: masks of known rating;
    repeat: share of the screens that are shown twice. scale: of `plan.SCALES`.
    """

    noise: float
    clips: int
    known: int
    repeat: float
    scale: str = RATINGS


def drawn(rng: Rng, at: Setting, kind: str) -> tuple[list[Answer], list[Screen]]:
    """A study in which rater 0 is of the kind and the others are careful."""
    main = [Shown(c, (2 * c, 2 * c + 1)) for c in range(at.clips)]
    gold = [Shown(c, (2 * c, 2 * c + 1)) for c in range(at.clips, at.clips + at.known // 2)]
    count = len(main) + len(gold)
    clip, mask = rng.normal(0, CLIP_SD, count), rng.normal(0, MASK_SD, (count, 2))
    truth = MIDDLE + clip[:, None] + mask + np.array([EFFECT / 2, -EFFECT / 2])
    truth[at.clips :] = [np.mean(z) for z in KNOWN]
    answers: list[Answer] = []
    screens: list[Screen] = []
    for rater in range(1 + CAREFUL):
        own = kind if rater == 0 else KINDS[0]
        tasks = plan_tasks("pair", main, [], gold, at.repeat, str(rng.integers(2**62)), rater)
        bias, pace = rng.normal(0, RATER_SD), SECONDS * np.exp(rng.normal(0, SECONDS_RATER))
        if own == "without looking":
            pace /= 6
        for number, task in enumerate(tasks):
            again = None if task.repeats is None else f"{rater}-{task.repeats}"
            sides = [side for side in (task.left, task.right) if side is not None]
            given: list[int] = []
            bounds: list[tuple[int | None, int | None]] = []
            for place, side in enumerate(sides):
                arm = side % 2
                bounds.append(KNOWN[arm] if task.part == GOLD else (None, None))
                value = truth[task.clip, arm] + (bias if task.part != GOLD else 0)
                value += rng.normal(0, at.noise) + (own == "the left one" and place == 0)
                if own == "any rating":
                    value = rng.integers(LOW, HIGH + 1)
                given.append(min(max(round(value), LOW), HIGH))
            if at.scale == PAIRS:
                given = [
                    1 + int(np.sign(mine - other))
                    for mine, other in zip(given, given[::-1], strict=True)
                ]
                if task.part == GOLD:
                    bounds = [(2, 2) if side % 2 == 0 else (0, 0) for side in sides]
            for place, side in enumerate(sides):
                low, high = bounds[place]
                answers.append(Answer(rater, f"{rater}-{number}", task.part, number, task.clip,
                                      place, str(side % 2), given[place], low, high,
                                      again))  # fmt: skip
            seconds = pace * float(np.exp(rng.normal(0, SECONDS_ITEM)))
            screens.append(Screen(rater, f"{rater}-{number}", task.part, task.clip, False, True,
                                  seconds, ()))  # fmt: skip
    return answers, screens


def named(at: Setting, kind: str, studies: int, seed: int = 0) -> dict[str, float]:
    """By the rule, and "any", the share of studies in which it names the rater of the kind."""
    rng, counts = np.random.default_rng(seed), Counter[str]()
    for _ in range(studies):
        answers, screens = drawn(rng, at, kind)
        tried = judge_rater(0, answers, screens, main_answers(answers, screens), at.scale)
        counts.update([*tried.rules, *(["any"] if tried.rules else [])])
    return {rule: counts[rule] / studies for rule in (*RULES, "any")}


def turned(scale: str, studies: int, seed: int = 0) -> float:
    """The share of masks seen twice, in pairs of screens, that careful raters rate APART or more
    apart; they have no lean. Noise of NOISIEST, NOISIEST_CLIPS items, of which 3 in 10 come twice.
    """
    rng, seen = np.random.default_rng(seed), [0, 0]
    for _ in range(studies):
        answers, _ = drawn(rng, Setting(NOISIEST, NOISIEST_CLIPS, 0, 0.3, scale), KINDS[0])
        first = {(a.task, a.arm): a.rating or 0 for a in answers}
        for a in answers:
            if a.repeats and (scale == RATINGS or a.side == 0):
                seen[0] += abs((a.rating or 0) - first[a.repeats, a.arm]) >= APART
                seen[1] += 1
    return seen[0] / seen[1]


def table(studies: int) -> Iterator[str]:
    """The lines of the table; in a cell the shares of each of ITEMS."""
    yield f"| scale | rater | noise | known | repeated | {' | '.join((*SHOWN, *REST))} |"
    yield "|---" * (len(RULES) + 6) + "|"
    settings = [Setting(noise, 0, known, 0.1) for noise in (0.5, 0.7, 0.9) for known in (4, 12)]
    rows = [(KINDS[0], at) for at in (*settings, Setting(0.7, 0, 4, 0.3))]
    rows += [(kind, Setting(0.7, 0, 12, 0.3)) for kind in KINDS[1:]]
    rows += [(kind, Setting(0.9, 0, 12, 0.3, PAIRS)) for kind in KINDS[:3]]
    for kind, at in rows:
        found = [named(replace(at, clips=n), kind, studies) for n in ITEMS]
        shares = [", ".join(_share(one[rule]) for one in found) for rule in (*SHOWN, *REST)]
        told = f"{at.noise} | {at.known} | {at.repeat:.0%}"
        yield f"| {at.scale} | {kind} | {told} | {' | '.join(shares)} |"


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def main(argv: list[str] | None = None) -> int:
    """Prints the table."""
    parser: argparse.ArgumentParser = command_line("ratings.alarms", __doc__)
    parser.add_argument("--studies", type=int, default=STUDIES)
    args = parser.parse_args(argv)
    for line in table(args.studies):
        print(line, flush=True)
    print()
    for scale in SCALES:
        share = turned(scale, args.studies)
        print(f"{scale}: careful raters turn {share:.3f} of what they see twice; the rule's share"
              f" is {FAR[scale]:g}", flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
