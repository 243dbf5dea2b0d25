"""The rules by which raters are named: what each sees, and how often a careful rater is named."""

import math
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from macd_studio.ratings.alarms import CAREFUL, REST, SHOWN, Setting, drawn, named, table, turned
from macd_studio.ratings.answers import Answer, Screen, main_answers
from macd_studio.ratings.plan import SCALES
from macd_studio.ratings.preregistration import ALARM, FAR, PLAN, PLAN_OF_PAIRS
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


def twice(first, second, scale="ratings"):
    """Screens of one mask that is left and comes again on the right, and the other way round."""
    answers = []
    for i, (before, after) in enumerate(zip(first, second, strict=True)):
        left = i % 2
        answers += [answer(f"a{i}", left, before),
                    answer(f"b{i}", 1 - left, after, part="repeat", again=f"a{i}")]  # fmt: skip
    return judge_rater(1, answers, [], main_answers(answers, []), scale)


@pytest.mark.parametrize(("seen", "far"), [(6, 4), (6, 5), (18, 8), (18, 9), (60, 21), (60, 22)])
def test_own_disagreement(seen, far):
    found = twice([3] * seen, [5 if i < far else 3 for i in range(seen)])
    assert (found.repeated, found.repeat_far) == (seen, pytest.approx(far / seen))
    assert ("repeats" in found.rules) is (at_least(far, seen, 0.22) < 0.01)


def test_shares_and_means_of_masks_seen_twice():
    found = twice([3, 3, 3, 3, 1], [3, 3, 4, 2, 5])
    assert (found.repeat_same, found.repeat_apart) == (0.4, pytest.approx(6 / 5))
    assert math.isnan(judge([answer("a", 0, 3)]).repeat_same)


def test_a_rater_is_compared_with_the_mean_of_the_others_over_the_same_masks():
    """By Spearman's correlation, over masks of a clip and a source that the others saw too."""
    own = [1, 2, 3, 4, 5, 5, 4, 3, 2]
    others = [[2, 2, 4, 4, 4, 5, 5, 2, 1], [1, 3, 3, 5, 5, 5, 3, 3, 2]]
    answers = [answer(f"o{i}", 0, z, "ab"[i % 2], clip=i // 2) for i, z in enumerate(own)]
    for rater, ratings in enumerate(others, 2):
        answers += [
            answer(f"r{rater}{i}", 0, z, "ab"[i % 2], clip=i // 2, rater=rater)
            for i, z in enumerate(ratings)
        ]
    alone = [answer(f"x{i}", 0, 1, clip=50 + i) for i in range(9)]  # which nobody else saw
    found = judge([*answers, *alone])
    expected = spearmanr(own, np.mean(others, axis=0)).statistic
    assert (found.others, found.compared) == (pytest.approx(expected), 9)
    few = judge([a for a in answers if a.clip < 2])
    assert math.isnan(few.others)


@pytest.mark.parametrize(
    ("low", "high", "met"),
    [(2, 4, [0, 1, 1, 1, 0]), (3, None, [0, 0, 1, 1, 1]), (None, 2, [1, 1, 0, 0, 0])],
)
def test_a_known_rating_is_met_within_its_bounds(low, high, met):
    answers = [answer(str(r), 0, r, part="gold", low=low, high=high) for r in (1, 2, 3, 4, 5)]
    assert judge(answers).gold == pytest.approx(sum(met) / 5)
    for a, expected in zip(answers, met, strict=True):
        assert judge([a]).gold == expected


@pytest.mark.parametrize("lean", [1, 2])
def test_a_lean_to_a_side_is_no_disagreement_with_oneself(lean):
    """A mask that was left comes again on the right, where it gets so many points less."""
    first = [3 + lean if i % 2 == 0 else 3 for i in range(20)]
    second = [3 if i % 2 == 0 else 3 + lean for i in range(20)]
    steady = twice(first, second)
    assert (steady.repeat_far, steady.repeat_apart) == (0, lean)
    assert "repeats" not in steady.rules
    against = twice([3] * 20, [5, 5, 1, 1] * 5)  # on either side as often, which no lean explains
    assert against.repeat_far == 1
    assert "repeats" in against.rules


def preferred(first, second):
    """Screens of two masks that come again with the sides exchanged. first, second: what mask "a"
    got; it is on the left first on every other one.
    """
    answers = []
    for i, (before, after) in enumerate(zip(first, second, strict=True)):
        sides = "ab" if i % 2 == 0 else "ba"
        for task, part, order, got in ((f"m{i}", "main", sides, before),
                                       (f"r{i}", "repeat", sides[::-1], after)):  # fmt: skip
            for place, arm in enumerate(order):
                rating = got if arm == "a" else 2 - got
                again = f"m{i}" if part == "repeat" else None
                answers.append(answer(task, place, rating, arm, part, i, again=again))
    return judge_rater(1, answers, [], main_answers(answers, []), "pairs")


def test_a_change_to_no_difference_is_no_opposite_decision():
    """Also of a rater who leans to the left, whom that moves by one step on every screen."""
    leaning = [2, 1] * 10, [1, 2] * 10  # 2 on the left, no difference on the right
    assert preferred(*leaning).repeat_far == 0
    # four times one step the other way, two steps from what a lean of one would give
    first, second = leaning[0][:16] + [1] * 4, leaning[1][:16] + [2, 0] * 2
    assert preferred(first, second).repeat_far == 0
    assert preferred([2] * 20, [1] * 20).repeat_far == 0


def test_the_left_one_is_no_opposite_decision_and_either_side_is():
    left = [2, 0] * 10, [0, 2] * 10  # whichever mask is on the left
    assert preferred(*left).repeat_far == 0
    against = preferred([2] * 20, [0] * 20)  # to the left as often as to the right
    assert (against.repeated, against.repeat_far) == (20, 1)
    assert "repeats" in against.rules
    assert any("100% of the screens seen twice the opposite way" in r for r in against.reasons)


@pytest.mark.parametrize("turned_back", [2, 4, 5, 6, 8])
def test_opposite_decisions_have_a_share_of_their_own(turned_back):
    found = preferred([2] * 20, [0] * 2 * turned_back + [2] * (20 - 2 * turned_back))
    assert found.repeat_far == pytest.approx(turned_back / 10)
    assert ("repeats" in found.rules) is (at_least(2 * turned_back, 20, 0.17) < 0.01)


@pytest.mark.parametrize("scale", SCALES)
def test_what_careful_raters_rate_apart_is_what_drawn_ones_do(scale):
    """Of 600 screens seen twice; the standard error is below .017."""
    assert abs(turned(scale, 5, seed=3) - FAR[scale]) < 0.05


def test_screens_of_one_mask_have_no_lean():
    answers = [answer(f"a{i}", 0, 2) for i in range(8)]
    answers += [answer(f"b{i}", 0, 4, part="repeat", again=f"a{i}") for i in range(8)]
    assert judge(answers).repeat_far == 1


def test_a_preference_is_one_observation():
    """Both masks of a screen follow from it: four known screens are no eight known masks."""
    answers = []
    for i in range(4):
        met = i >= 2
        answers += [answer(f"g{i}", 0, 2 * met, "a", "gold", low=2, high=2),
                    answer(f"g{i}", 1, 2 - 2 * met, "b", "gold", low=0, high=0)]  # fmt: skip
        answers += [answer(f"m{i}", p, 2 - 2 * p, "ab"[p], clip=i) for p in (0, 1)]
        answers += [answer(f"r{i}", p, 2 * p, "ba"[p], "repeat", i, again=f"m{i}") for p in (0, 1)]
    found = judge_rater(1, answers, [], main_answers(answers, []), "pairs")
    assert (found.gold_count, found.gold, found.repeated, found.ratings) == (4, 0.5, 4, 4)
    assert judge(answers).gold_count == 8
    assert "known items" in judge(answers).rules
    assert "known items" not in found.rules
    assert (found.repeat_far, found.decided) == (0, 4)  # the same mask was preferred again


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
    # what is skipped at once, or not yet done, says nothing of the time that a rating takes
    quick = [replace(s, task=f"s{s.task}", seconds=0.1, skipped=True) for s in screens]
    left = [replace(s, task=f"l{s.task}", seconds=0.1, done=False) for s in screens]
    assert ("time" in judge([], [*screens, *quick, *left]).rules) is is_named


def test_a_careful_rater_is_seldom_named_and_a_careless_one_mostly():
    careful = named(Setting(0.7, 20, 12, 0.1), "careful", 20)
    assert set(careful) == {*RULES, "any"}
    assert careful["any"] <= 0.1
    for kind, rule in (("any rating", "known items"), ("the left one", "sides"),
                       ("without looking", "time")):  # fmt: skip
        assert named(Setting(0.7, 40, 12, 0.3), kind, 6)[rule] > 0.4


def test_the_guide_s_table_is_of_these_rules_and_settings():
    text = (Path(__file__).parents[2] / "docs" / "rating.md").read_text(encoding="utf-8")
    head = next(table(1)).partition(f" | {REST[0]} |")[0]
    assert f"{head} |\n" in text
    tried = tuple(f"| {s} | {who} |" for s in SCALES for who in ("careful", "any rating"))
    rows = [line for line in text.splitlines() if line.startswith(tried)]
    assert len(rows) == 3 + 1 + 1 + 1


@pytest.mark.long
def test_the_guide_s_shares_are_those_of_drawn_studies():
    text = (Path(__file__).parents[2] / "docs" / "rating.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"\| ratings \| careful \| 0.9 \| 12 \| 10% \|(.*)\|", text)
    told = {
        rule: float(cell.split(",")[0]) for rule, cell in zip(SHOWN, row.split("|"), strict=True)
    }
    found = named(Setting(0.9, 30, 12, 0.1), "careful", 300, seed=7)
    assert all(abs(found[rule] - share) < 0.04 for rule, share in told.items())


def test_the_plan_of_pairs_states_its_own_rule():
    told = PLAN_OF_PAIRS["exclusions"]
    assert "with 10% and 17% of them" in told
    assert "decide so many screens that they saw twice the opposite way" in told
    assert "change from or to no difference does not count" in told
    assert "points or more apart" not in told
    assert "with 10% and 22% of them" in PLAN["exclusions"]
    assert "the other of the same two" in PLAN_OF_PAIRS["adjudication"]


def test_careful_raters_of_the_guide_s_table_are_named_no_oftener_than_the_rule_says():
    """By the rule of repeats; the Monte Carlo error of a share of 1 % is .002."""
    text = (Path(__file__).parents[2] / "docs" / "rating.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \w+ \| (?:careful|the left one) \|(.*)\|$", text, re.MULTILINE)
    cells = [row.split("|")[3 + SHOWN.index("repeats")] for row in rows]
    assert len(cells) == 3 + 1 + 1 + 1
    assert all(float(share) <= ALARM for cell in cells for share in cell.split(","))


def test_a_drawn_study_is_one_that_raters_could_have_made():
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
    pairs, _ = drawn(np.random.default_rng(0), Setting(0.7, 10, 4, 0.3, "pairs"), "careful")
    for a, b in zip(pairs[::2], pairs[1::2], strict=True):
        assert (a.task, a.rating + b.rating) == (b.task, 2)
        assert a.part != "gold" or {a.low, b.low} == {0, 2}
