"""Disputed items: which they are, who rates them once more, and both results side by side."""

import numpy as np
import pytest

from macd_studio.ratings.adjudication import appoint, disputes, open_disputes
from macd_studio.ratings.answers import Answer, main_answers, read_answers, read_screens
from macd_studio.ratings.check import check_study
from macd_studio.ratings.cli import main
from macd_studio.ratings.errors import Refused
from macd_studio.ratings.events import LEFT, RIGHT
from macd_studio.ratings.export import rows
from macd_studio.ratings.inference import paired_difference
from macd_studio.ratings.render import html_page, markdown
from macd_studio.ratings.report import figures, progress
from macd_studio.ratings.simulate import truth_of
from macd_studio.ratings.store import Study
from tests.ratings.studies import copy_study, event, rate, rater_in

OTHER = "random-elsewhere"
MACD = {1: (5, 4, 4), 2: (5, 2, 4), 3: (1, 4, 3), 4: (4, 4, 5), 5: (3, 4, 4), 6: (4, 3, 3)}
"""By item, what three raters give MACD's mask; items 2 and 3 are 3 points apart. The other mask of
every item gets 2, 3 and 2."""
DISPUTED = [2, 3]


def rate_all(study, rater, given):
    """given: by item and arm, the rating."""
    for screen in read_screens(study):
        if screen.rater == rater.id:
            arms = [t.arm for t in truth_of(study, screen.task)]
            rate(study, rater, screen.task, [given(screen.clip, arm) for arm in arms])


@pytest.fixture
def study(tmp_path):
    with Study(copy_study(tmp_path, 6)) as opened:
        for k in range(3):
            _, rater = rater_in(opened)
            rate_all(
                opened, rater, lambda c, arm, k=k: MACD[c][k] if arm == "macd" else (2, 3, 2)[k]
            )
        yield opened


def adjudicate(study, given):
    code, left = appoint(study)
    judge = study.rater_of(code)
    rate_all(study, judge, given)
    return judge, left


def test_items_are_disputed_from_the_threshold_on(study):
    found, left = open_disputes(study)
    assert [(d.item, d.arm, d.apart, d.raters) for d in found] == [(2, "macd", 3, 3),
                                                                    (3, "macd", 3, 3)]  # fmt: skip
    assert left == found
    answers = main_answers(read_answers(study), read_screens(study))
    named = [study.raters()[0].id]  # whose ratings are the high one of item 2 and the low of 3
    assert [d.item for d in disputes(answers, named, "ratings")] == []


def test_the_adjudicator_sees_disputed_items_once_as_any_rater_sees_items(study):
    code, left = appoint(study)
    assert [d.item for d in left] == DISPUTED
    judge = study.rater_of(code)
    assert judge.name == "A01"
    own = [s for s in read_screens(study) if s.rater == judge.id]
    assert sorted(s.clip for s in own) == DISPUTED
    seen = study.tasks(judge)
    usual = study.tasks(study.raters()[0])
    assert {t["kind"] for t in seen} == {"item"} == {t["kind"] for t in usual}
    assert [t["ratings"] for t in seen] == [[None, None]] * 2
    assert set(study.describe(judge, own[0].task)) == set(
        study.describe(study.raters()[0], usual[0]["id"])
    )
    with pytest.raises(Refused, match="all disputed items have an adjudicator"):
        appoint(study)
    study.revoke("A01")
    assert [d.item for d in appoint(study)[1]] == DISPUTED
    check_study(study.path)


def test_both_results_stand_side_by_side_and_nothing_else_changes(study):
    before = figures(study, 100)
    assert before["adjudication"]["differences"] == {}
    assert "2 items of 6 rated ones are disputed" in markdown(before)
    assert "with adjudicated values" not in markdown(before)
    adjudicate(study, lambda clip, arm: 5 if arm == "macd" else 1)
    after = figures(study, 100)
    for name in ("arms", "differences", "agreement", "sides", "raters", "named", "controls"):
        assert after[name] == before[name], name
    for name in ("ratings", "raters_begun", "raters_invited"):
        assert after["study"][name] == before["study"][name]
    a = after["adjudication"]
    assert (a["adjudicators"], a["given"], a["adjudicated"]) == (["A01"], DISPUTED, DISPUTED)
    by_hand = np.array([[MACD[c][k] - (2, 3, 2)[k] for c in range(1, 7)] for k in range(3)], float)
    wanted = paired_difference(by_hand).primary
    assert after["differences"][OTHER]["difference"]["value"] == pytest.approx(wanted.value)
    by_hand[:, [c - 1 for c in DISPUTED]] = 5 - 1
    wanted = paired_difference(by_hand).primary
    got = a["differences"][OTHER]["difference"]
    assert (got["value"], got["low"], got["high"]) == pytest.approx(
        (wanted.value, wanted.low, wanted.high)
    )
    text = markdown(after)
    assert "| as raters rated (primary) | with adjudicated values |" in text
    assert "A01 rated 2 of 2 items" in text
    assert "Disputed items" in html_page(after)
    exported = [r for r in rows(study) if r["part"] == "adjudication"]
    assert exported
    assert not any(r["analysed"] for r in exported)
    shown = {r["rater"]: r for r in progress(study)["raters"]}
    assert (shown["A01"]["screens"], shown["A01"]["done"]) == (2, 2)


def test_what_the_adjudicator_cannot_judge_stays_as_raters_rated(study):
    code, _ = appoint(study)
    judge = study.rater_of(code)
    rate_all(study, judge, lambda clip, arm: 5 if arm == "macd" else 1)
    own = {s.clip: s.task for s in read_screens(study) if s.rater == judge.id}
    study.append(judge, [event("skip", own[2])])
    result = figures(study, 100)
    a = result["adjudication"]
    assert (a["adjudicated"], a["cannot"]) == ([3], [2])
    by_hand = np.array([[MACD[c][k] - (2, 3, 2)[k] for c in range(1, 7)] for k in range(3)], float)
    by_hand[:, 3 - 1] = 5 - 1
    assert a["differences"][OTHER]["difference"]["value"] == pytest.approx(by_hand.mean())
    assert "1 item had a screen that they could not judge" in markdown(result)
    study.append(judge, [event("skip", own[3])])
    a = figures(study, 100)["adjudication"]
    assert (a["adjudicated"], a["cannot"], a["differences"]) == ([], DISPUTED, {})


def test_the_sides_of_later_raters_are_still_counterbalanced(study):
    """Adjudicators take no place: the fourth rater is the partner of the third."""
    appoint(study)
    _, fourth = rater_in(study)
    third = study.raters()[2]
    order = {
        r: [s.clip for s in read_screens(study) if s.rater == r] for r in (third.id, fourth.id)
    }
    assert order[third.id] == order[fourth.id][::-1]


def test_preferences_for_either_mask_are_a_dispute(tmp_path):
    with Study(copy_study(tmp_path, 3, scale="pairs")) as study:
        for k in range(2):
            _, rater = rater_in(study)
            for screen in read_screens(study):
                if screen.rater == rater.id:
                    arms = [t.arm for t in truth_of(study, screen.task)]
                    at = arms.index("macd" if k == 0 or screen.clip != 2 else OTHER)
                    choice = (LEFT, RIGHT)[at]
                    study.append(rater, [event("prefer", screen.task, new=choice),
                                         event("next", screen.task)])  # fmt: skip
        code, left = appoint(study)
        assert [d.item for d in left] == [2]
        judge = study.rater_of(code)
        (screen,) = [s for s in read_screens(study) if s.rater == judge.id]
        at = [t.arm for t in truth_of(study, screen.task)].index("macd")
        study.append(judge, [event("prefer", screen.task, new=(LEFT, RIGHT)[at])])
        result = figures(study, 100)
        assert result["differences"][OTHER]["difference"]["value"] == pytest.approx(5 / 6)
        a = result["adjudication"]
        assert a["differences"][OTHER]["difference"]["value"] == pytest.approx(1)


def test_screens_of_one_mask_are_adjudicated_with_those_of_the_other(tmp_path):
    with Study(copy_study(tmp_path, 3, design="single")) as study:
        for k in range(2):
            _, rater = rater_in(study)
            own = {1: 4, 2: 5, 3: 3}
            first = {**own, 2: 1} if k == 0 else own
            rate_all(study, rater, lambda c, arm, a=own, b=first: (b if arm == "macd" else a)[c])
        judge, left = adjudicate(study, lambda clip, arm: 4 if arm == "macd" else 2)
        assert [(d.item, d.arm) for d in left] == [(2, "macd")]
        own = [s for s in read_screens(study) if s.rater == judge.id]
        assert [s.clip for s in own] == [2, 2]
        a = figures(study, 100)["adjudication"]
        assert a["differences"][OTHER]["difference"]["value"] == pytest.approx((0 + 2 + 0) / 3)


def test_the_command_lists_and_prints_one_link(study, capsys):
    words = ["adjudicate", str(study.path), "--url", "https://rate.example.org"]
    assert main([*words, "--list"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "2 items disputed, from 3 points on" in told.err
    assert main(words) == 0
    link = capsys.readouterr().out.strip()
    assert link.startswith("https://rate.example.org/rate#")
    assert study.rater_of(link.partition("#")[2]).name == "A01"
    assert main(words) == 2
    assert "given to an adjudicator" in capsys.readouterr().err
    study.control("closed")
    assert main(words) == 2
    assert "closed" in capsys.readouterr().err


def test_nothing_is_disputed_where_one_rater_rated():
    at = Answer(1, "t", "main", 0, 1, 0, "macd", 1, None, None, None)
    assert disputes([at], [], "ratings") == []
