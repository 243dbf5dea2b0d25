"""The answers of a study: a view of its events, in which the last rating of a side counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from macd_studio.ratings.chain import ORDER, Fork, find_forks
from macd_studio.ratings.events import LEFT, MAX_LOW, NO_DIFFERENCE
from macd_studio.ratings.plan import MAIN, PAIRS
from macd_studio.ratings.store import Study

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """One side of one screen as it stands. low, high: of a known one, which ratings are right.

    rating: 1 to 5; in a study of pairs 2 for the preferred mask, 0 for the other one, and 1 for
    both where there is no difference.

    reasons: why it was rated low, words of `events.REASONS`.

    clip: the item's number; video: the hash of its video, which items with other questions may
    share.
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
    video: str = ""


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
    ratings = study.ratings()
    chosen = study.preferences() if study.scale == PAIRS else {}
    sides = {r["id"]: r for r in study.rows("SELECT id, arm, low, high FROM sides")}
    given = study.reasons()
    videos = {r["id"]: r["sha256"] for r in study.rows("SELECT id, sha256 FROM clips")}
    answers = []
    for t in study.rows("SELECT * FROM tasks ORDER BY rater, position"):
        for place, number in enumerate((t["left_side"], t["right_side"])):
            if number is not None:
                side, rating = sides[number], ratings.get((t["id"], place))
                low, high = side["low"], side["high"]
                if study.scale == PAIRS:
                    rating = score(chosen.get(t["id"]), place)
                    if low is not None:  # the better of both is to be preferred
                        other = sides[t["right_side"] if place == 0 else t["left_side"]]
                        is_better = low + high > (other["low"] or 0) + (other["high"] or 0)
                        low = high = 2 if is_better else 0
                is_low = rating is not None and rating <= MAX_LOW
                answers.append(
                    Answer(
                        t["rater"], t["id"], t["part"], t["position"], t["clip"], place,
                        side["arm"], rating, low, high, t["repeats"],
                        tuple(given.get((t["id"], place), ())) if is_low else (),
                        videos[t["clip"]],
                    )
                )  # fmt: skip
    return answers


def score(preference: int | None, place: int) -> int | None:
    """What a preference gives the left (0) or the right (1) mask, see `Answer`.

    >>> [score(p, 0) for p in (LEFT, NO_DIFFERENCE, None)], score(LEFT, 1)
    ([2, 1, None], 0)
    """
    if preference is None:
        return None
    if preference == NO_DIFFERENCE:
        return 1
    return 2 if (preference == LEFT) == (place == 0) else 0


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
        else:  # who comes back to a screen leaves it again: the first time counts, the last way
            first = ends.get(r["task"], ("", r["elapsed_ms"]))
            ends[r["task"]] = r["kind"], first[1]
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
        "SELECT uuid, task, side, old, new, conflict FROM history WHERE kind IN ('rate', 'undo',"
        f" 'prefer') ORDER BY {ORDER}"
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


def pairs_of(main: Sequence[Answer]) -> list[tuple[Answer, Answer]]:
    """Both sides of every screen on which both were rated, or a preference was given."""
    by_task: dict[str, list[Answer]] = {}
    for a in main:
        by_task.setdefault(a.task, []).append(a)
    return [(z[0], z[1]) for z in by_task.values() if len(z) == 2]


def left_and_decided(main: Sequence[Answer]) -> tuple[int, int]:
    """On how many screens the left mask got the higher rating, and on how many one of both did."""
    ratings = [{a.side: a.rating or 0 for a in pair} for pair in pairs_of(main)]
    return sum(r[0] > r[1] for r in ratings), sum(r[0] != r[1] for r in ratings)


def clusters_of(answers: Sequence[Answer], items: Sequence[int]) -> list[int]:
    """For each item the first one about the same video: such items are no independent draws."""
    videos = {a.clip: a.video for a in answers}
    first: dict[str | int, int] = {}
    return [first.setdefault(videos.get(item) or item, item) for item in items]


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


def paired_values(
    answers: Sequence[Answer],
    first: str,
    other: str,
    raters: Sequence[int],
    clips: Sequence[int],
    scale: str,
) -> Matrix:
    """(raters, clips) of what the primary outcome is the mean of, NaN where there is no pair.

    Of ratings the difference of both arms; of preferences 1 for the first arm, 0 for the other,
    0.5 where there is no difference, so that the mean is the share preferring the first.
    """
    values = matrix(answers, first, raters, clips) - matrix(answers, other, raters, clips)
    return values / 4 + 0.5 if scale == PAIRS else values


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
