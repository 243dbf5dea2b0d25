"""Items on which raters disagree, rated once more by an adjudicator who sees no other rating.

A rater's own ratings never change. The report gives the primary outcome as it was preregistered,
and beside it the same with an adjudicator's ratings in the place of all raters' on these items. An
item is replaced only as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from macd_studio.ratings.answers import (
    Answer,
    Screen,
    clusters_of,
    main_answers,
    paired_values,
    read_answers,
    read_screens,
)
from macd_studio.ratings.errors import Refused
from macd_studio.ratings.inference import bounded, paired_difference
from macd_studio.ratings.plan import ADJUDICATED, MAIN, PAIRS, Task
from macd_studio.ratings.preregistration import DISPUTED
from macd_studio.ratings.quality import judge_raters
from macd_studio.ratings.roster import CLOSED, Rater
from macd_studio.ratings.secret import new_code
from macd_studio.ratings.store import Study

Unit = tuple[int, tuple[str, ...]]
"""A clip with the arms that one screen shows of it, sorted."""


@dataclass(frozen=True)
class Dispute:
    """An item with a mask whose ratings are `apart` points apart, which is the threshold or more.

    raters: of whom at least two rated that mask. beside: in a study of pairs the arm that it was
    compared with, else "".
    """

    item: int
    arm: str
    apart: int
    raters: int
    beside: str = ""


def units(answers: Iterable[Answer]) -> dict[str, Unit]:
    """By screen, what it shows. answers: of `answers.read_answers`, also those without a rating."""
    arms: dict[str, tuple[int, set[str]]] = {}
    for a in answers:
        arms.setdefault(a.task, (a.clip, set()))[1].add(a.arm)
    return {task: (clip, tuple(sorted(names))) for task, (clip, names) in arms.items()}


def disputes(main: Sequence[Answer], named: Sequence[int], scale: str) -> list[Dispute]:
    """By item, the mask on which raters who were not named disagree most, where that is enough.

    main: `answers.main_answers`. named: raters whom a rule names. In a study of pairs a preference
    for one mask and one for the other are 2 points apart, and what a mask got is compared among
    screens that show it beside the same other mask.
    """
    # a preference rates both masks, so that the rated answers of a screen are all of them
    shown = units(main) if scale == PAIRS else {}
    given: dict[tuple[int, str, str], list[int]] = {}
    for a in main:
        if a.rater not in named and a.rating is not None:
            beside = " ".join(arm for arm in shown[a.task][1] if arm != a.arm) if shown else ""
            given.setdefault((a.clip, a.arm, beside), []).append(a.rating)
    worst: dict[int, Dispute] = {}
    for (clip, arm, beside), ratings in sorted(given.items()):
        found = Dispute(clip, arm, max(ratings) - min(ratings), len(ratings), beside)
        if found.apart >= DISPUTED[scale] and found.apart > worst.get(clip, _NOTHING).apart:
            worst[clip] = found
    return [worst[clip] for clip in sorted(worst)]


_NOTHING = Dispute(0, "", 0, 0)


def open_disputes(study: Study) -> tuple[list[Dispute], list[Dispute]]:
    """All disputed items, and those that no adjudicator has whose link still opens."""
    answers, screens = read_answers(study), read_screens(study)
    main = main_answers(answers, screens)
    named = [q.rater for q in judge_raters(answers, screens, study.scale) if q.reasons]
    found = disputes(main, named, study.scale)
    gone = {r.id for r in study.raters() if r.revoked}
    given = {s.clip for s in screens if s.part == ADJUDICATED and s.rater not in gone}
    return found, [d for d in found if d.item not in given]


def appoint(study: Study) -> tuple[str, list[Dispute]]:
    """The code of a new adjudicator, and the disputed items that they will rate.

    They see each with the arms that stand together on raters' screens, every such screen once, in
    an order and on sides of their own. Raises Refused where no item is left, or the study is
    closed.
    """
    if study.state == CLOSED:
        raise Refused("the study is closed, and takes no rating", "Open it at /organise")
    found, left = open_disputes(study)
    if not left:
        what = "all disputed items have an adjudicator" if found else "no item is disputed"
        raise Refused(what, f"An item is disputed {threshold_text(study.scale)}")
    items = {d.item for d in left}
    main = [a for a in read_answers(study) if a.part == MAIN and a.clip in items]
    shown = sorted(set(units(main).values()))
    number = {(r["clip"], r["arm"]): r["id"] for r in study.rows("SELECT * FROM sides")}
    code, rng = new_code(), np.random.default_rng()
    tasks = []
    for i in rng.permutation(len(shown)):
        clip, arms = shown[i]
        sides = [number[clip, arms[k]] for k in rng.permutation(len(arms))]
        tasks.append(Task(ADJUDICATED, clip, sides[0], sides[1] if len(sides) > 1 else None))
    study.add_adjudicator(code, tasks)
    return code, left


UNNAMED = "; raters whom the report names do not count"


def threshold_text(scale: str) -> str:
    """From when on an item is disputed, as the end of a sentence."""
    if scale == PAIRS:
        return (
            "where one rater prefers one mask and another one the other of the same two" + UNNAMED
        )
    return f"from {DISPUTED[scale]} points between ratings of one mask on{UNNAMED}"


def apart_text(dispute: Dispute, scale: str) -> str:
    """How raters disagree on an item, without saying which mask is whose."""
    if scale == PAIRS:
        return f"{dispute.raters} preferences between two masks, some for each of them"
    return f"{dispute.raters} ratings of one mask, {dispute.apart} points apart"


def adjudicated_by(
    answers: Sequence[Answer], screens: Sequence[Screen], raters: Sequence[Rater]
) -> dict[int, int]:
    """By item, the adjudicator whose ratings of it count.

    It is one whose link still opens, and who rated every mask that they were given of the item;
    where several did, the first who was appointed.
    """
    skipped = {s.task for s in screens if s.skipped}
    missing = {
        (a.rater, a.clip)
        for a in answers
        if a.part == ADJUDICATED and (a.rating is None or a.task in skipped)
    }
    found: dict[int, int] = {}
    for judge in sorted(raters, key=lambda r: (r.created, r.code)):
        own = {s.clip for s in screens if s.part == ADJUDICATED and s.rater == judge.id}
        for clip in own if not judge.revoked else ():
            if (judge.id, clip) not in missing:
                found.setdefault(clip, judge.id)
    return found


def with_adjudicated(
    main: Sequence[Answer], answers: Sequence[Answer], judges: Mapping[int, int]
) -> list[Answer]:
    """The main answers, with the adjudicator's in the place of all on the items that they rated.

    answers: of `answers.read_answers`. judges: of `adjudicated_by`.
    """
    shown = units(answers)
    new = {
        (shown[a.task], a.arm): a.rating
        for a in answers
        if a.part == ADJUDICATED and judges.get(a.clip) == a.rater
    }
    return [replace(a, rating=new.get((shown[a.task], a.arm), a.rating)) for a in main]


def adjudication_figures(
    main: Sequence[Answer],
    answers: Sequence[Answer],
    screens: Sequence[Screen],
    raters: Sequence[Rater],
    arms: Sequence[str],
    named: Sequence[int],
    scale: str,
) -> dict[str, Any]:
    """What the report says of disputed items: plain values.

    differences: by the other arm, the primary outcome with adjudicated values; {} without any.
    revoked: adjudicators whose link no longer opens, who are named nowhere else here.
    """
    found = disputes(main, named, scale)
    gone = {r.id for r in raters if r.revoked}
    judged = [s for s in screens if s.part == ADJUDICATED]
    own = [s for s in judged if s.rater not in gone]
    judges = adjudicated_by(answers, screens, raters)
    changed = with_adjudicated(main, answers, judges)
    differences = {}
    places = sorted({a.rater for a in main}), sorted({a.clip for a in main})
    clips = clusters_of(main, places[1])
    for other in arms[1:] if judges else ():
        values = paired_values(changed, arms[0], other, *places, scale)
        differences[other] = {
            "pairs": int(np.isfinite(values).sum()),
            "difference": bounded(paired_difference(values, clips).primary, scale),
        }
    names: Mapping[int, str] = {r.id: r.name for r in raters}
    return {
        "threshold": DISPUTED[scale],
        "rated": len({a.clip for a in main}),
        "disputed": [
            {"item": d.item, "arm": d.arm, "beside": d.beside, "apart": d.apart, "raters": d.raters}
            for d in found
        ],
        "adjudicators": sorted({names[s.rater] for s in own}),
        "revoked": sorted({names[s.rater] for s in judged if s.rater in gone}),
        "given": sorted({s.clip for s in own}),
        "adjudicated": sorted(judges),
        "cannot": sorted({s.clip for s in own if s.skipped}),
        "differences": differences,
    }
