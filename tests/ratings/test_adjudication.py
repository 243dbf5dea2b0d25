"""Disputed items: which they are, who rates them once more, and both results side by side."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.ratings.adjudication import (
    adjudicated_by,
    appoint,
    disputes,
    open_disputes,
    with_adjudicated,
)
from macd_studio.ratings.answers import main_answers, read_answers, read_screens
from macd_studio.ratings.check import check_study
from macd_studio.ratings.cli import main
from macd_studio.ratings.errors import Refused
from macd_studio.ratings.events import LEFT, RIGHT
from macd_studio.ratings.export import rows
from macd_studio.ratings.inference import paired_difference
from macd_studio.ratings.render import html_page, markdown
from macd_studio.ratings.report import figures, progress
from macd_studio.ratings.store import Study
from tests.ratings.studies import arms_of, copy_study, event, rate, rater_in, screens_of

OTHER = "random-elsewhere"
MACD = {1: (5, 4, 4), 2: (5, 2, 4), 3: (1, 4, 3), 4: (4, 4, 5), 5: (3, 4, 4), 6: (4, 3, 3)}
"""By item, what three raters give MACD's mask; items 2 and 3 are 3 points apart. The other mask of
every item gets 2, 3 and 2."""
DISPUTED = [2, 3]


def rate_all(study, rater, given):
    """given: by item and arm, the rating."""
    for s in screens_of(study, rater):
        rate(study, rater, s.task, [given(s.clip, arm) for arm in arms_of(study, s.task)])


def by_hand(given):
    """The primary outcome of `study` where these items have these differences."""
    values = np.array([[MACD[c][k] - (2, 3, 2)[k] for c in range(1, 7)] for k in range(3)], float)
    for clip, difference in given.items():
        values[:, clip - 1] = difference
    return paired_difference(values).primary


def adjudicated(study):
    """What the report says of disputed items, and the value with adjudicated ones."""
    a = figures(study, 100)["adjudication"]
    return a, a["differences"][OTHER]["difference"]["value"] if a["differences"] else None


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
    own = screens_of(study, judge)
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
    wanted = by_hand({})
    assert after["differences"][OTHER]["difference"]["value"] == pytest.approx(wanted.value)
    wanted = by_hand(dict.fromkeys(DISPUTED, 5 - 1))
    got = a["differences"][OTHER]["difference"]
    assert (got["value"], got["low"], got["high"]) == pytest.approx(
        (wanted.value, wanted.low, min(wanted.high, 4))
    )
    text = markdown(after)
    assert "| as raters rated (primary) | with adjudicated values |" in text
    assert "A01 rated all masks of 2 of 2 items" in text
    assert "Disputed items" in html_page(after)
    exported = [r for r in rows(study) if r["part"] == "adjudication"]
    assert exported
    assert not any(r["analysed"] for r in exported)
    shown = {r["rater"]: r for r in progress(study)["raters"]}
    assert (shown["A01"]["screens"], shown["A01"]["done"]) == (2, 2)


def test_an_item_counts_only_once_all_its_masks_are_rated(study):
    code, _ = appoint(study)
    judge = study.rater_of(code)
    own = {s.clip: s.task for s in screens_of(study, judge)}
    study.append(judge, [event("rate", own[2], side=0, new=5), event("next", own[2])])
    a, value = adjudicated(study)
    assert (a["given"], a["adjudicated"], value) == (DISPUTED, [], None)
    rate_all(study, judge, lambda clip, arm: 5 if arm == "macd" else 1)
    study.append(judge, [event("undo", own[2], side=1, old=1, new=None)])
    a, value = adjudicated(study)
    assert (a["adjudicated"], value) == ([3], pytest.approx(by_hand({3: 4}).value))


def test_a_screen_of_which_a_rater_rated_one_mask_is_shown_and_replaced_whole(tmp_path):
    with Study(copy_study(tmp_path, 3)) as study:
        for k in range(3):
            _, rater = rater_in(study)
            for screen in screens_of(study, rater):
                side = arms_of(study, screen.task).index("macd")
                events = [event("rate", screen.task, side=side, new=(5, 1, 3)[k])]
                if k == 2 or screen.clip != 2:  # of item 2 two raters rate MACD's mask only
                    events.append(event("rate", screen.task, side=1 - side, new=2))
                study.append(rater, events)
        code, left = appoint(study)
        assert [d.item for d in left] == [1, 2, 3]
        judge = study.rater_of(code)
        own = screens_of(study, judge)
        assert sorted(s.clip for s in own) == [1, 2, 3]
        assert all(len(arms_of(study, s.task)) == 2 for s in own)
        rate_all(study, judge, lambda clip, arm: 4 if arm == "macd" else 2)
        answers, screens = read_answers(study), read_screens(study)
        rated = main_answers(answers, screens)
        judges = adjudicated_by(answers, screens, study.raters())
        given = {a.rating for a in with_adjudicated(rated, answers, judges) if a.arm == "macd"}
        assert given == {4}


def test_a_revoked_adjudicator_counts_no_longer(study):
    judge, _ = adjudicate(study, lambda clip, arm: 5 if arm == "macd" else 1)
    study.revoke(judge.name)
    result = figures(study, 100)
    a = result["adjudication"]
    assert (a["adjudicators"], a["given"], a["adjudicated"]) == ([], [], [])
    assert (a["differences"], a["revoked"]) == ({}, ["A01"])
    assert "Nothing here is of A01, who was revoked." in markdown(result)
    study.revoke(judge.name, restore=True)
    assert figures(study, 100)["adjudication"]["adjudicated"] == DISPUTED


def test_of_two_adjudicators_of_an_item_the_first_who_was_appointed_counts(study):
    first, _ = adjudicate(study, lambda clip, arm: 5 if arm == "macd" else 1)
    study.revoke("A01")
    second, _ = adjudicate(study, lambda clip, arm: 2)
    assert second.name == "A02"
    assert adjudicated(study)[1] == pytest.approx(by_hand({2: 0, 3: 0}).value)
    study.revoke("A01", restore=True)
    (task,) = [s.task for s in screens_of(study, first) if s.clip == 2]
    study.append(first, [event("skip", task)])  # so that of item 2 the second one's count
    a, value = adjudicated(study)
    assert value == pytest.approx(by_hand({2: 0, 3: 4}).value)
    assert (a["adjudicators"], a["adjudicated"]) == (["A01", "A02"], DISPUTED)
    text = markdown(figures(study, 100))
    assert "Where several rated an item, the first who was appointed counts" in text
    answers, screens, raters = read_answers(study), read_screens(study), study.raters()
    # numbers are of one file: a merge may give the first one the higher number
    late = [replace(r, created=r.created + 9 * (r.id == first.id)) for r in raters]
    assert adjudicated_by(answers, screens, raters) == {2: second.id, 3: first.id}
    assert adjudicated_by(answers, screens, late[::-1]) == {2: second.id, 3: second.id}


def test_what_the_adjudicator_cannot_judge_stays_as_raters_rated(study):
    code, _ = appoint(study)
    judge = study.rater_of(code)
    rate_all(study, judge, lambda clip, arm: 5 if arm == "macd" else 1)
    own = {s.clip: s.task for s in screens_of(study, judge)}
    study.append(judge, [event("skip", own[2])])
    a, value = adjudicated(study)
    assert (a["adjudicated"], a["cannot"]) == ([3], [2])
    assert value == pytest.approx(by_hand({3: 5 - 1}).value)
    assert "1 item had a screen that they could not judge" in markdown(figures(study, 100))
    study.append(judge, [event("skip", own[3])])
    a, value = adjudicated(study)
    assert (a["adjudicated"], a["cannot"], value) == ([], DISPUTED, None)


def test_the_sides_of_later_raters_are_still_counterbalanced(study):
    """Adjudicators take no place: the fourth rater is the partner of the third."""
    appoint(study)
    _, fourth = rater_in(study)
    third, last = ([s.clip for s in screens_of(study, r)] for r in (study.raters()[2], fourth))
    assert third == last[::-1]


def test_preferences_for_either_mask_are_a_dispute(tmp_path, capsys):
    with Study(copy_study(tmp_path, 3, scale="pairs")) as study:
        for k in range(2):
            _, rater = rater_in(study)
            for screen in screens_of(study, rater):
                better = "macd" if k == 0 or screen.clip != 2 else OTHER
                choice = (LEFT, RIGHT)[arms_of(study, screen.task).index(better)]
                study.append(rater, [event("prefer", screen.task, new=choice),
                                     event("next", screen.task)])  # fmt: skip
        code, left = appoint(study)
        assert [d.item for d in left] == [2]
        judge = study.rater_of(code)
        (screen,) = screens_of(study, judge)
        at = arms_of(study, screen.task).index("macd")
        study.append(judge, [event("prefer", screen.task, new=(LEFT, RIGHT)[at])])
        result = figures(study, 100)
        assert result["differences"][OTHER]["difference"]["value"] == pytest.approx(5 / 6)
        a = result["adjudication"]
        assert a["differences"][OTHER]["difference"]["value"] == pytest.approx(1)
        assert main(["adjudicate", str(study.path), "--list"]) == 0
    told = capsys.readouterr().err
    assert "2 preferences between two masks, some for each of them" in told
    text = markdown(result)
    assert "one prefers one mask and another one the other of both" in text
    assert f"| 2 | macd, {OTHER} | 2 |" in text
    assert "The left mask was preferred on" in text
    for words in (told, text.split("## How this was planned")[0]):
        assert "points" not in words
        assert "higher rating" not in words


def test_preferences_over_different_masks_are_no_dispute(tmp_path):
    """Everybody prefers MACD's to one mask, and another one to MACD's."""
    arms = ("macd", "random-place", "mask-all")
    better = {"mask-all": 0, "macd": 1, "random-place": 2}
    with Study(copy_study(tmp_path, 3, scale="pairs", arms=arms)) as study:
        shown = []
        for _ in range(4):
            _, rater = rater_in(study)
            for screen in screens_of(study, rater):
                own = arms_of(study, screen.task)
                at = own.index(min(own, key=better.__getitem__))
                study.append(rater, [event("prefer", screen.task, new=(LEFT, RIGHT)[at])])
                shown.append((rater, screen, own, at))
        assert {arm for _, s, own, _ in shown for arm in own if s.clip == 2} == set(arms)
        assert open_disputes(study) == ([], [])
        rater, screen, own, at = next(z for z in shown if z[1].clip == 2)
        new = event("prefer", screen.task, old=(LEFT, RIGHT)[at], new=(RIGHT, LEFT)[at])
        study.append(rater, [new])
        (found,) = open_disputes(study)[0]
        assert (found.item, found.apart, found.raters) == (2, 2, 2)
        assert {found.arm, found.beside} == set(own)
        assert f"| 2 | {found.arm}, {found.beside} | 2 |" in markdown(figures(study, 100))


def test_screens_of_one_mask_count_only_together(tmp_path):
    with Study(copy_study(tmp_path, 2, design="single")) as study:
        for k in range(2):
            _, rater = rater_in(study)
            rate_all(study, rater, lambda c, arm, k=k: 1 + 4 * k if arm == "macd" else 3)
        judge = study.rater_of(appoint(study)[0])
        own = [s.task for s in screens_of(study, judge) if s.clip == 2]
        (task,) = [t for t in own if arms_of(study, t) == ["macd"]]
        rate(study, judge, task, [5])
        a, value = adjudicated(study)
        assert (a["given"], a["adjudicated"], value) == ([1, 2], [], None)


def test_the_adjudicator_rates_screens_that_raters_have_still_before_them(tmp_path):
    with Study(copy_study(tmp_path, 1, design="single")) as study:
        for k in range(2):
            _, rater = rater_in(study)
            for screen in screens_of(study, rater):
                if arms_of(study, screen.task) == ["macd"]:
                    rate(study, rater, screen.task, [1 + 4 * k])
        judge, _ = adjudicate(study, lambda clip, arm: 4)
        shown = [arms_of(study, s.task) for s in screens_of(study, judge)]
        assert sorted(shown) == [["macd"], [OTHER]]


def test_screens_of_one_mask_are_adjudicated_with_those_of_the_other(tmp_path):
    with Study(copy_study(tmp_path, 3, design="single")) as study:
        for k in range(2):
            _, rater = rater_in(study)
            own = {1: 4, 2: 5, 3: 3}
            first = {**own, 2: 1} if k == 0 else own
            rate_all(study, rater, lambda c, arm, a=own, b=first: (b if arm == "macd" else a)[c])
        judge, left = adjudicate(study, lambda clip, arm: 4 if arm == "macd" else 2)
        assert [(d.item, d.arm) for d in left] == [(2, "macd")]
        assert [s.clip for s in screens_of(study, judge)] == [2, 2]
        assert adjudicated(study)[1] == pytest.approx((0 + 2 + 0) / 3)


def test_the_command_lists_and_prints_one_link(study, capsys):
    words = ["adjudicate", str(study.path), "--url", "https://rate.example.org"]
    assert main([*words, "--list"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "2 items disputed, from 3 points between ratings of one mask on" in told.err
    assert main(words) == 0
    link = capsys.readouterr().out.strip()
    assert link.startswith("https://rate.example.org/rate#")
    assert study.rater_of(link.partition("#")[2]).name == "A01"
    assert main(words) == 2
    assert "given to an adjudicator" in capsys.readouterr().err
    study.control("closed")
    assert main(words) == 2
    assert "closed" in capsys.readouterr().err
