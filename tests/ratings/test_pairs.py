"""A study of pairs: preferences as they are stored, their share, the scale of three arms."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.ratings.answers import Answer, Screen, main_answers, read_answers, read_screens
from macd_studio.ratings.check import check_study
from macd_studio.ratings.create import StudyPlan, check_plan
from macd_studio.ratings.events import LEFT, NO_DIFFERENCE, RIGHT
from macd_studio.ratings.export import rows
from macd_studio.ratings.inference import paired_difference
from macd_studio.ratings.render import html_page, markdown
from macd_studio.ratings.report import bradley_terry, counts, figures, strengths
from macd_studio.ratings.simulate import simulate, truth_of
from macd_studio.ratings.store import Study
from tests.ratings.studies import arms_of, copy_study, event, known, rater_in, screens_of

PLAN = {"scale": "pairs", "gold": (known(1), known(2, training=True)), "repeat": 0.2}


def prefer(study, rater, task, choice, old=None):
    return study.append(rater, [event("prefer", task, old=old, new=choice), event("next", task)])


def test_a_preference_is_stored_and_can_be_changed(study):
    _, rater = rater_in(study)
    task = study.tasks(rater)[1]["id"]
    assert all(o.committed for o in prefer(study, rater, task, LEFT))
    (outcome,) = study.append(rater, [event("prefer", task, old=LEFT, new=NO_DIFFERENCE)])
    assert outcome.committed
    stored = study.rows("SELECT old, new, conflict FROM events WHERE kind = 'prefer' ORDER BY id")
    assert [tuple(r) for r in stored] == [(None, LEFT, 0), (LEFT, NO_DIFFERENCE, 0)]
    assert study.tasks(rater)[1]["preference"] == NO_DIFFERENCE
    study.append(rater, [event("prefer", task, old=NO_DIFFERENCE, new=None)])
    assert study.tasks(rater)[1]["preference"] is None
    (refused,) = study.append(rater, [event("rate", task, side=0, new=4)])
    assert "asks for a preference" in refused.reason
    check_study(study.path)


def test_a_preference_that_was_taken_back_does_not_stand(study):
    _, rater = rater_in(study)
    first, second = (t["id"] for t in study.tasks(rater)[1:3])
    prefer(study, rater, first, LEFT)
    prefer(study, rater, second, RIGHT)
    study.append(rater, [event("prefer", second, old=RIGHT, new=LEFT)])

    def stand():
        return [(r["new"], r["stands"]) for r in rows(study) if r["kind"] == "prefer"]

    assert stand() == [(LEFT, True), (RIGHT, False), (LEFT, True)]
    study.append(rater, [event("prefer", first, old=LEFT, new=None)])
    assert stand() == [(LEFT, False), (RIGHT, False), (LEFT, True), (None, False)]


def test_what_is_read_of_a_screen_is_what_was_planned_and_preferred(study):
    """Of a known pair the better mask is to be preferred; a repeat names the screen before it."""
    _, rater = rater_in(study)
    tasks = {t["id"]: t for t in study.tasks(rater)}
    for task in tasks:
        prefer(study, rater, task, RIGHT)
    answers = read_answers(study)
    by_task = {(a.task, a.side): a for a in answers}
    assert len(by_task) == 2 * len(tasks)
    for row in study.rows("SELECT * FROM tasks"):
        left, right = (by_task[row["id"], side] for side in (0, 1))
        assert (left.rating, right.rating) == (0, 2)
        assert left.repeats == right.repeats == row["repeats"]
        assert (row["repeats"] is None) == (row["part"] != "repeat")
        known = [t.known for t in truth_of(study, row["id"])]
        if row["part"] in ("gold", "training"):
            better = int(known[1] > known[0])
            bounds = [(2, 2) if side == better else (0, 0) for side in (0, 1)]
        else:
            bounds = [(None, None)] * 2
        assert [(a.low, a.high) for a in (left, right)] == bounds
    assert {a.part for a in answers} == {"main", "gold", "training", "repeat"}


def test_a_study_of_ratings_takes_no_preference(tmp_path):
    with Study(copy_study(tmp_path, 2)) as study:
        _, rater = rater_in(study)
        (refused,) = study.append(rater, [event("prefer", study.tasks(rater)[0]["id"], new=LEFT)])
        assert "asks for a rating" in refused.reason


def test_feedback_tells_which_mask_is_better(study):
    _, rater = rater_in(study)
    task = study.tasks(rater)[0]
    assert task["kind"] == "training"
    assert study.feedback(rater, task["id"]) is None
    truths = [t.known for t in truth_of(study, task["id"])]
    better = LEFT if truths[0] > truths[1] else RIGHT
    prefer(study, rater, task["id"], LEFT + RIGHT - better)
    assert [f["fits"] for f in study.feedback(rater, task["id"])] == [False, False]
    study.append(rater, [event("prefer", task["id"], old=LEFT + RIGHT - better, new=better)])
    assert [f["fits"] for f in study.feedback(rater, task["id"])] == [True, True]


def test_the_report_gives_the_share_that_prefers_the_first_arm(study):
    """Of raters who prefer MACD on three items, the other on one, and neither on two."""
    for _ in range(3):
        _, rater = rater_in(study)
        wanted = [2, 2, 2, 0, 1, 1]
        for screen in screens_of(study, rater):
            arms = arms_of(study, screen.task)
            at = wanted[(screen.clip - 1) % 6]
            side = arms.index("macd") if "macd" in arms else 0
            choice = NO_DIFFERENCE if at == 1 else (side if at == 2 else 1 - side) + LEFT
            prefer(study, rater, screen.task, choice)
    result = figures(study, 200)
    c = result["preferences"]["counts"]["random-elsewhere"]
    assert c == {"first": 9, "other": 3, "same": 6, "cannot": 0}
    d = result["differences"]["random-elsewhere"]
    assert d["difference"]["value"] == pytest.approx((3 + 2 / 2) / 6)
    by_hand = paired_difference(np.tile([1, 1, 1, 0, 0.5, 0.5], (3, 1)))
    assert d["difference"]["low"] == pytest.approx(max(by_hand.primary.low, 0))
    assert result["agreement"]["alpha"]["value"] == pytest.approx(1)
    text = markdown(result)
    assert "| macd, random-elsewhere | 9 | 6 | 3 |" in text
    assert "macd preferred to random-elsewhere: **67% [" in text
    assert "the paper's" not in text.split("## How this was planned")[0]
    assert "<table" in html_page(result)
    assert "18 preferences; the study is open" in text


def test_what_cannot_be_judged_is_counted_and_left_out(study):
    _, rater = rater_in(study)
    main = [s.task for s in read_screens(study) if s.part == "main"]
    prefer(study, rater, main[0], LEFT)
    study.append(rater, [event("skip", main[0])])
    prefer(study, rater, main[1], RIGHT)
    answers, screens = read_answers(study), read_screens(study)
    left = main_answers(answers, screens)
    assert {a.task for a in left} == {main[1]}
    assert counts(left, screens, "macd", "random-elsewhere")["cannot"] == 1
    analysed = [r for r in rows(study) if r["analysed"]]
    assert [(r["kind"], r["task"], r["new"]) for r in analysed] == [("prefer", main[1], RIGHT)]
    assert analysed[0]["arm"] == truth_of(study, main[1])[1].arm


def test_simulated_raters_give_preferences(study):
    simulate(study, effect=3.0)
    result = figures(study, 100)
    assert result["study"]["ratings"] > 20
    assert result["differences"]["random-elsewhere"]["difference"]["value"] > 0.65


def test_bradley_terry_finds_the_strengths_that_the_wins_were_made_from():
    truth = np.array([0.0, 1.0, -0.5])
    odds = np.exp(truth)
    wins = 1e6 * odds[:, None] / (odds[:, None] + odds[None])
    np.fill_diagonal(wins, 0)
    assert bradley_terry(wins[None])[0] == pytest.approx(truth, abs=1e-6)
    star = wins.copy()
    star[1, 2] = star[2, 1] = 0  # as in a study, where each is compared with the first alone
    assert bradley_terry(star[None])[0] == pytest.approx(truth, abs=1e-4)
    star[1, 0] = 0
    assert np.isnan(bradley_terry(star[None])[0, 1])


def test_a_scale_only_of_three_arms(tmp_path):
    def screen(rater, clip, arm, other, rating):
        at = Answer(rater, f"{rater}-{clip}", "main", 0, clip, 0, arm, rating, None, None, None)
        return [at, replace(at, side=1, arm=other, rating=2 - rating)]

    rng = np.random.default_rng(0)
    main = [a for rater in range(4) for clip in range(40)
            for a in screen(rater, clip, "macd", ("x", "y")[clip % 2],
                            2 * int(rng.random() < (0.8, 0.3)[clip % 2]))]  # fmt: skip
    scale = strengths(main, ["macd", "x", "y"], 300, 0)
    assert scale["macd"].value == 0
    for arm, share in (("x", 0.8), ("y", 0.3)):
        assert scale[arm].low < np.log((1 - share) / share) < scale[arm].high
    assert strengths(main, ["macd", "x"], 300, 0) == {}


def test_pairs_want_two_masks_on_a_screen():
    with pytest.raises(OptionError, match="between two masks"):
        check_plan(StudyPlan(scale="pairs", design="single"))


def test_screens_are_as_they_were_left_last_and_timed_as_first(tmp_path):
    with Study(copy_study(tmp_path, 2)) as study:
        _, rater = rater_in(study)
        task = study.tasks(rater)[0]["id"]
        study.append(rater, [event("skip", task, elapsed_ms=9000.0)])
        study.append(rater, [event("rate", task, side=0, new=3), event("rate", task, side=1, new=4),
                             event("next", task, elapsed_ms=500.0)])  # fmt: skip
        found = next(s for s in read_screens(study) if s.task == task)
        assert isinstance(found, Screen)
        assert (found.skipped, found.done, found.seconds) == (False, True, 9.0)
