"""The answers of a study: a view of its events, in which the last rating of a side counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from macd_studio.ratings.chain import ORDER, Fork, find_forks
from macd_studio.ratings.events import MOST_LOW
from macd_studio.ratings.plan import MAIN
from macd_studio.ratings.store import Study

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """One side of one screen as it stands. low, high: of a known one, which ratings are right.

    reasons: why it was rated low, words of `events.REASONS`.
    """

    rater: int
    task: str
    part: str
    position: int
    clip: int
    side: int
    arm: str
    rating: int | None
    low: int | None
    high: int | None
    repeats: str | None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Screen:
    """How a rater went through one screen. seconds: until they went on, None if they did not."""

    rater: int
    task: str
    part: str
    clip: int
    skipped: bool
    done: bool
    seconds: float | None
    notes: tuple[str, ...]


def read_answers(study: Study) -> list[Answer]:
    """Both sides of every screen of every rater."""
    ratings = {
        (r["task"], r["side"]): r["new"]
        for r in study.rows(
            f"SELECT task, side, new FROM history WHERE kind IN ('rate', 'undo') ORDER BY {ORDER}"
        )
    }
    sides = {r["id"]: r for r in study.rows("SELECT id, arm, low, high FROM sides")}
    given = study.reasons()
    answers = []
    for t in study.rows("SELECT * FROM tasks ORDER BY rater, position"):
        for place, number in enumerate((t["left_side"], t["right_side"])):
            if number is not None:
                side, rating = sides[number], ratings.get((t["id"], place))
                is_low = rating is not None and rating <= MOST_LOW
                answers.append(
                    Answer(
                        t["rater"], t["id"], t["part"], t["position"], t["clip"], place,
                        side["arm"], rating, side["low"], side["high"], t["repeats"],
                        tuple(given.get((t["id"], place), ())) if is_low else (),
                    )
                )  # fmt: skip
    return answers


def read_screens(study: Study) -> list[Screen]:
    """Every screen of every rater."""
    ends: dict[str, tuple[str, float | None]] = {}
    notes: dict[str, list[str]] = {}
    for r in study.rows(
        "SELECT task, kind, note, elapsed_ms FROM history WHERE kind IN ('next', 'skip', 'flag')"
        f" ORDER BY {ORDER}"
    ):
        if r["kind"] == "flag":
            notes.setdefault(r["task"], []).append(r["note"] or "")
        else:
            ends[r["task"]] = r["kind"], r["elapsed_ms"]
    screens = []
    for t in study.rows("SELECT * FROM tasks ORDER BY rater, position"):
        how, elapsed = ends.get(t["id"], ("", None))
        screens.append(
            Screen(
                t["rater"], t["id"], t["part"], t["clip"], how == "skip", bool(how),
                None if elapsed is None else elapsed / 1000, tuple(notes.get(t["id"], ())),
            )
        )  # fmt: skip
    return screens


def conflicts_of(study: Study) -> set[str]:
    """uuids of ratings that did not know of the one before them: of another tab or server."""
    before: dict[tuple[str, int], int | None] = {}
    found = set()
    for r in study.rows(
        "SELECT uuid, task, side, old, new, conflict FROM history WHERE kind IN ('rate', 'undo')"
        f" ORDER BY {ORDER}"
    ):
        place = r["task"], r["side"]
        if r["conflict"] or r["old"] != before.get(place):
            found.add(r["uuid"])
        before[place] = r["new"]
    return found


def forks_of(study: Study) -> list[Fork]:
    """Where two servers took ratings side by side."""
    return find_forks([dict(r) for r in study.rows("SELECT * FROM events")])


def main_answers(answers: Sequence[Answer], screens: Sequence[Screen]) -> list[Answer]:
    """Rated sides of the main screens that were not skipped: what the analysis is over."""
    skipped = {s.task for s in screens if s.skipped}
    return [a for a in answers if a.part == MAIN and a.rating is not None and a.task not in skipped]


def matrix(
    answers: Sequence[Answer], arm: str, raters: Sequence[int], clips: Sequence[int]
) -> Matrix:
    """(raters, clips) of an arm's ratings, NaN where there is none."""
    rows = {r: i for i, r in enumerate(raters)}
    columns = {c: i for i, c in enumerate(clips)}
    out = np.full((len(raters), len(clips)), np.nan)
    for a in answers:
        if a.arm == arm and a.rater in rows and a.clip in columns and a.rating is not None:
            out[rows[a.rater], columns[a.clip]] = a.rating
    return out


def objects_of(study: Study) -> dict[int, dict[int, tuple[str, float | None]]]:
    """By clip and track: label and gradient of the query loss."""
    out: dict[int, dict[int, tuple[str, float | None]]] = {}
    for r in study.rows("SELECT * FROM objects"):
        out.setdefault(r["clip"], {})[r["track"]] = r["label"], r["gradient"]
    return out


def coverage_of(study: Study) -> dict[tuple[int, str], dict[int, float]]:
    """By clip and arm: how much of each track is hidden, [0, 1]."""
    out: dict[tuple[int, str], dict[int, float]] = {}
    for r in study.rows(
        "SELECT s.clip, s.arm, c.track, c.share FROM coverage c JOIN sides s ON s.id = c.side"
    ):
        out.setdefault((r["clip"], r["arm"]), {})[r["track"]] = r["share"]
    return out


def details_of(study: Study) -> dict[tuple[int, str], dict[str, float]]:
    """By clip and arm: hidden pixels and what the arm's drawing noted."""
    return {
        (r["clip"], r["arm"]): {"hidden": r["hidden"]} | json.loads(r["details"])
        for r in study.rows("SELECT clip, arm, hidden, details FROM sides")
    }
