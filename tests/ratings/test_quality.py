"""The rules by which raters are named: what each sees, and how often a careful rater is named."""

import math
import re
from itertools import product
from pathlib import Path

import pytest

from macd_studio.ratings.alarms import CAREFUL, Setting, drawn, named, table
from macd_studio.ratings.answers import Answer, Screen, main_answers
from macd_studio.ratings.quality import RULES, judge_rater


def answer(task, place, rating, arm="macd", part="main", clip=0, low=None, high=None, again=None,
           rater=1):  # fmt: skip
    return Answer(rater, task, part, 0, clip, place, arm, rating, low, high, again)


def judge(answers, screens=()):
    return judge_rater(1, answers, screens, main_answers(answers, screens))


def at_least(seen, of, share):
    """The probability of so many or more, by summing the binomial's terms."""
    return sum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(seen, of + 1))


@pytest.mark.parametrize(("known", "missed"), list(product((2, 4, 8, 12), (1, 2, 3, 4))))
def test_known_items(known, missed):
    answers = [
        answer(str(i), 0, 1 if i < missed else 5, part="gold", low=4, high=5) for i in range(known)
    ]
    found = judge(answers)
    assert found.gold == pytest.approx(max(known - missed, 0) / known)
    wanted = at_least(min(missed, known), known, 0.1) < 0.01
    assert ("known items" in found.rules) is wanted


@pytest.mark.parametrize(("seen", "far"), [(6, 4), (6, 5), (18, 8), (18, 9), (60, 20), (60, 21)])
def test_own_disagreement(seen, far):
    answers = []
    for i in range(seen):
        second = 5 if i < far else 3
        answers += [answer(f"a{i}", 0, 3 - (i < far)),
                    answer(f"b{i}", 1, second, part="repeat", again=f"a{i}")]  # fmt: skip
    found = judge(answers)
    assert (found.repeated, found.repeat_far) == (seen, pytest.approx(far / seen))
    assert ("repeats" in found.rules) is (at_least(far, seen, 0.2) < 0.01)


@pytest.mark.parametrize(("decided", "left"), [(5, 5), (8, 8), (8, 7), (30, 23), (30, 22), (30, 7)])
def test_a_side_bias(decided, left):
    answers = []
    for i in range(decided + 4):
        pair = (3, 3) if i >= decided else (4, 2) if i < left else (2, 4)
        answers += [answer(str(i), place, r, "ab"[place]) for place, r in enumerate(pair)]
    found = judge(answers)
    assert (found.decided, found.left) == (decided, pytest.approx(left / decided))
    tail = at_least(max(left, decided - left), decided, 0.5)
    assert ("sides" in found.rules) is (decided >= 6 and min(2 * tail, 1) < 0.01)


@pytest.mark.parametrize(("count", "seconds", "is_named"), [(6, 1.9, True), (6, 2, False),
                                                            (5, 1.0, False)])  # fmt: skip
def test_time(count, seconds, is_named):
    screens = [Screen(1, str(i), "main", i, False, True, seconds, ()) for i in range(count)]
    assert ("time" in judge([], screens).rules) is is_named


def test_a_careful_rater_is_seldom_named_and_a_careless_one_mostly():
    careful = named(Setting(0.7, 20, 12, 0.1), "careful", 20)
    assert set(careful) == {*RULES, "any"}
    assert careful["any"] <= 0.1
    for kind, rule in (("any rating", "known items"), ("the left one", "sides"),
                       ("without looking", "time")):  # fmt: skip
        assert named(Setting(0.7, 40, 12, 0.3), kind, 6)[rule] > 0.4


def test_the_guide_s_table_is_of_these_rules_and_settings():
    text = (Path(__file__).parents[2] / "docs" / "rating.md").read_text(encoding="utf-8")
    head = next(table(1))
    assert f"{head}\n" in text
    tried = ("| careful |", "| any rating |")
    rows = [line for line in text.splitlines() if line.startswith(tried)]
    assert len(rows) == 14 + 2


@pytest.mark.long
def test_the_guide_s_shares_are_those_of_drawn_studies():
    text = (Path(__file__).parents[2] / "docs" / "rating.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"\| careful \| 0.9 \| 30 \| 12 \| 10% \|(.*)\|", text)
    told = dict(zip((*RULES, "any"), map(float, row.split("|")), strict=True))
    found = named(Setting(0.9, 30, 12, 0.1), "careful", 300, seed=7)
    assert all(abs(found[rule] - share) < 0.04 for rule, share in told.items())


def test_a_drawn_study_is_one_that_raters_could_have_made():
    import numpy as np

    answers, screens = drawn(np.random.default_rng(0), Setting(0.7, 10, 4, 0.3), "careful")
    assert len(screens) == (1 + CAREFUL) * (10 + 2 + 3)
    own = [a for a in answers if a.rater == 0]
    assert {a.part for a in own} == {"main", "gold", "repeat"}
    by_task = {a.task: a for a in own}
    for a in own:
        if a.repeats:
            assert by_task[a.repeats].clip == a.clip
        assert (a.low is None) is (a.part != "gold")
        assert 1 <= a.rating <= 5
