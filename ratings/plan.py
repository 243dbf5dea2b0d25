"""Who sees what, when, and on which side: drawn for each rater, and counterbalanced in pairs.

Raters come in pairs: the second sees the first one's clips in reverse order and with the sides
exchanged, so that over a pair every arm stands left as often as right, and early as often as late.
The draw depends on a secret key that never leaves the study file: neither the seed nor the source
code gives a rater the assignment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

Design = Literal["pair", "single"]
DESIGNS = ("pair", "single")
Scale = Literal["ratings", "pairs"]
RATINGS: Scale = "ratings"
PAIRS: Scale = "pairs"
SCALES = (RATINGS, PAIRS)
"""Each mask is rated 1 to 5; or of two masks the better one is named."""
TRAINING, MAIN, GOLD, REPEAT = "training", "main", "gold", "repeat"
ADJUDICATED = "adjudication"
"""Of a screen that an adjudicator rates once more, see `ratings.adjudication`."""
PROPOSED = "proposed"
"""Of an item that becomes a training or a known one once the organiser has confirmed it."""


@dataclass(frozen=True)
class Shown:
    """One clip with its arms as numbers of sides, in the order of the study's arms."""

    clip: int
    sides: tuple[int, ...]


@dataclass(frozen=True)
class Task:
    """One screen. repeats: the place in the list of the screen that it shows again."""

    part: str
    clip: int
    left: int
    right: int | None = None
    repeats: int | None = None


def keyed_rng(key: str, *what: object) -> np.random.Generator:
    """A generator for a purpose; nobody without the key can draw the same numbers."""
    seed = hashlib.sha256("|".join([key, *map(str, what)]).encode()).digest()
    return np.random.default_rng(int.from_bytes(seed, "big"))


def plan_tasks(
    design: Design,
    main: Sequence[Shown],
    training: Sequence[Shown],
    gold: Sequence[Shown],
    repeat: float,
    key: str,
    rater: int,
) -> list[Task]:
    """The screens of one rater, in order. rater: counted from 0. repeat: share shown twice.

    In the design "pair" a rater sees each clip once, as the first arm beside one of the others,
    which takes turns over clips and raters. In "single" every arm of a clip is a screen of its own,
    and a clip comes again only after every other clip.
    """
    partner, second = divmod(rater, 2)
    rng = keyed_rng(key, design, partner)
    plan = _pairs if design == "pair" else _singles
    screens = plan(main, rng, rater)
    if second:
        screens = [_exchanged(t) for t in reversed(screens)]
    screens = _with_repeats(screens, repeat, keyed_rng(key, REPEAT, rater))
    rng = keyed_rng(key, GOLD, rater)
    for shown in gold:
        for task in _known(GOLD, shown, design, rng):
            screens = _inserted(screens, int(rng.integers(len(screens) + 1)), task)
    first = [t for shown in training for t in _known(TRAINING, shown, design, rng)]
    shift = len(first)
    return first + [
        t if t.repeats is None else replace(t, repeats=t.repeats + shift) for t in screens
    ]


def _pairs(main: Sequence[Shown], rng: np.random.Generator, rater: int) -> list[Task]:
    left = rng.permutation(np.arange(len(main)) % 2)
    # over the pairs of raters the arms beside the first take turns; the partner sees the same
    turn = rater // 2
    screens = []
    for i, shown in enumerate(main):
        first, others = shown.sides[0], shown.sides[1:]
        if not others:
            continue
        sides = first, others[(turn + i) % len(others)]
        screens.append(Task(MAIN, shown.clip, *(sides if left[i] else sides[::-1])))
    return [screens[i] for i in rng.permutation(len(screens))]


def _singles(main: Sequence[Shown], rng: np.random.Generator, rater: int) -> list[Task]:
    arms = max((len(s.sides) for s in main), default=0)
    start = rng.permutation(np.arange(len(main)) % max(arms, 1))
    screens = []
    for block in range(arms):
        for i in rng.permutation(len(main)):
            sides = main[i].sides
            at = (start[i] + block) % arms
            if at < len(sides):
                screens.append(Task(MAIN, main[i].clip, sides[at]))
    return screens


def _exchanged(task: Task) -> Task:
    return task if task.right is None else replace(task, left=task.right, right=task.left)


def _with_repeats(screens: list[Task], share: float, rng: np.random.Generator) -> list[Task]:
    """Some screens of the first half again, sides exchanged, at least a third of all later."""
    count = min(round(share * len(screens)), (len(screens) + 1) // 2)
    again = sorted(rng.choice((len(screens) + 1) // 2, count, replace=False)) if count else []
    apart, out = max(1, len(screens) // 3), list(screens)
    for i in map(int, reversed(again)):  # from the last: what is inserted then moves none of them
        task = replace(_exchanged(screens[i]), part=REPEAT, repeats=i)
        earliest = min(i + apart + 1, len(out))
        at = int(rng.integers(earliest, len(out) + 1))
        out = _inserted(out, at, task)
    return out


def _inserted(screens: list[Task], at: int, task: Task) -> list[Task]:
    """The list with a screen more; what shows an earlier one again still names it."""
    moved = [
        replace(t, repeats=t.repeats + 1) if t.repeats is not None and t.repeats >= at else t
        for t in screens
    ]
    if task.repeats is not None and task.repeats >= at:
        task = replace(task, repeats=task.repeats + 1)
    return [*moved[:at], task, *moved[at:]]


def _known(part: str, shown: Shown, design: Design, rng: np.random.Generator) -> list[Task]:
    sides = [shown.sides[i] for i in rng.permutation(len(shown.sides))]
    if design == "pair" and len(sides) == 2:
        return [Task(part, shown.clip, sides[0], sides[1])]
    return [Task(part, shown.clip, side) for side in sides]
