"""Raters that are programs, with biases that are known: for trying a study, never for a result.

Reports of a study in which they rated say so in their first line.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from macd_studio.ratings.arms import MACD
from macd_studio.ratings.events import HIGH, LEFT, LOW, NO_DIFFERENCE, RIGHT, Event
from macd_studio.ratings.plan import PAIRS
from macd_studio.ratings.store import Study

Rng = np.random.Generator


@dataclass(frozen=True)
class Truth:
    """What a simulated rater knows about a mask: its arm, and the middle of its known rating."""

    arm: str
    known: float | None


@dataclass(frozen=True)
class Habit:
    """How a simulated rater rates. rate: a rating from the truth; seconds: median on an item;
    quits: share of the screens after which they leave for good.
    """

    name: str
    rate: Callable[[Truth, Rng], float]
    seconds: float = 12.0
    quits: float = 1.0


def careful(effect: float, spread: float = 0.7) -> Callable[[Truth, Rng], float]:
    """Rates around 2.4, MACD's masks `effect` higher; known masks, which are easy, as they are."""

    def rate(truth: Truth, rng: Rng) -> float:
        if truth.known is not None:
            return float(truth.known + spread / 2 * rng.standard_normal())
        return float(2.4 + effect * (truth.arm == MACD) + spread * rng.standard_normal())

    return rate


def always_three(truth: Truth, rng: Rng) -> float:
    """3, whatever is shown."""
    return 3.0


def careless(truth: Truth, rng: Rng) -> float:
    """Any rating, whatever is shown."""
    return float(rng.integers(LOW, HIGH + 1))


def habits(effect: float = 0.7) -> list[Habit]:
    """Three careful raters, one who quits half way, one who always gives 3, one careless."""
    return [
        Habit("careful", careful(effect)),
        Habit("careful", careful(effect)),
        Habit("careful", careful(effect)),
        Habit("quits half way", careful(effect), quits=0.5),
        Habit("always 3", always_three),
        Habit("careless", careless, seconds=1.2),
    ]


def simulate(study: Study, seed: int = 0, effect: float = 0.7) -> list[str]:
    """Invites a rater for each habit and lets them rate; gives the habits in that order."""
    chosen = habits(effect)
    for number, habit in enumerate(chosen):
        (code,) = study.invite(1, simulated=habit.name)
        _rate_all(study, code, habit, np.random.default_rng([seed, number]))
    return [h.name for h in chosen]


def truth_of(study: Study, task: str) -> list[Truth]:
    """The arms of a screen, left to right."""
    row = study.row("SELECT left_side, right_side FROM tasks WHERE id = ?", task)
    assert row is not None
    found = []
    for side in row:
        if side is not None:
            s = study.row("SELECT arm, low, high FROM sides WHERE id = ?", side)
            assert s is not None
            known = None if s["low"] is None else (s["low"] + s["high"]) / 2
            found.append(Truth(s["arm"], known))
    return found


def _rate_all(study: Study, code: str, habit: Habit, rng: Rng) -> None:
    rater = study.rater_of(code)
    assert rater is not None
    tasks, now, tab = study.tasks(rater), 0.0, str(uuid.UUID(int=rater.id))
    if study.screening is not None:
        right = study.screening["answer"]
        study.append(rater, [Event(_uuid(rng), "screening", tab, 0, now, new=right)])
    for at, task in enumerate(tasks[: round(habit.quits * len(tasks))]):
        events = []
        ratings = [
            int(np.clip(round(habit.rate(truth, rng)), LOW, HIGH))
            for truth in truth_of(study, task["id"])
        ]
        if study.scale == PAIRS:
            left, right = ratings
            choice = NO_DIFFERENCE if left == right else LEFT if left > right else RIGHT
            events.append(Event(_uuid(rng), "prefer", tab, 3 * at, now, task["id"], new=choice))
        else:
            events += [
                Event(_uuid(rng), "rate", tab, 3 * at + side, now, task["id"], side, None, rating)
                for side, rating in enumerate(ratings)
            ]
        spent = 1000 * float(habit.seconds * np.exp(0.4 * rng.standard_normal()))
        now += spent
        done = Event(_uuid(rng), "next", tab, 3 * at + 2, now, task["id"], elapsed_ms=spent)
        study.append(rater, [*events, done])
    if habit.quits == 1:
        study.append(rater, [Event(_uuid(rng), "finish", tab, 3 * len(tasks), now)])


def _uuid(rng: Rng) -> str:
    return str(uuid.UUID(bytes=rng.bytes(16), version=4))
