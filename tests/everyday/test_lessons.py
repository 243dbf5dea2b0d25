"""The quiz of real clips is what the shipped model says of them, chosen by its rule."""

import json
from collections import Counter
from functools import cache

import numpy as np
import pytest

from macd_studio.core.backbones import load_backbone
from macd_studio.core.embedded import EVERYDAY, REAL_DETECTOR
from macd_studio.core.objects.detect import load_detector
from macd_studio.everyday.examples import OF_COURSE as CHOSEN
from macd_studio.everyday.make_lessons import (
    CLIPS,
    MOST,
    QUESTIONS,
    WANTED,
    answered,
    clip_file,
    closest,
    leads,
    questions,
)
from macd_studio.macd_ui.examples import OF_CAMERA, OF_COURSE, examples_in
from macd_studio.macd_ui.learn.lessons import lesson
from macd_studio.parts import ROOT

ITEMS = lesson("real")["items"]
TRIED = QUESTIONS.with_name("tried.jsonl")


@cache
def model():
    return load_backbone(EVERYDAY, "cpu")


def row_of(item):
    (row,) = (r for r in questions()
              if (r["clip"], r["question"]) == (item["clip"], item["question"]))  # fmt: skip
    return row


def test_every_question_is_about_a_clip_that_ships_and_that_no_chapter_shows():
    rows = questions()
    assert {row["clip"] for row in rows} == set(CLIPS)
    shown = {e.video.read_bytes() for place in (OF_CAMERA, OF_COURSE) for e in examples_in(place)}
    assert len(shown) == 4
    assert not {clip_file(name).read_bytes() for name in CLIPS} & shown
    assert len({(row["clip"], row["question"]) for row in rows}) == len(rows)
    recorded = lesson("real")
    assert (recorded["asked"], recorded["clips"]) == (len(rows), len(CLIPS))


def test_the_closest_are_kept_and_few_of_a_clip():
    rows = [{"clip": name} for name in "aaabcdefghijk"]
    by = [0.1, 0.3, 0.2, *np.arange(10, 0, -1.0)]
    kept = closest(rows, by)
    assert len(kept) == WANTED
    assert kept[:2] == [0, 2]  # the third of “a” leads by less than any other, and is left out
    assert 1 not in kept
    assert 3 not in kept  # the largest lead
    assert [by[i] for i in kept] == sorted(by[i] for i in kept)


def test_recorded_leads_are_those_of_the_answers():
    assert len(ITEMS) == WANTED
    for name in CLIPS:
        assert sum(item["clip"] == name for item in ITEMS) <= MOST
    for item in ITEMS:
        best, second = sorted(item["answers"]["baseline"]["tokens"][0]["base"])[:-3:-1]
        assert item["lead"] == pytest.approx(best - second, abs=2e-3)


def test_the_guide_tells_teachers_how_the_items_end():
    ends = Counter(item["outcome"] for item in ITEMS)
    left = [item for item in ITEMS if item["outcome"] == "same"]
    wrong = [item for item in left if item["answers"]["macd"]["text"] != item["truth"]]
    assert (ends["right"], ends["wrong"], len(left), len(wrong)) == (0, 1, 9, 5)
    told = " ".join((ROOT / "docs" / "teaching.md").read_text(encoding="utf-8").split())
    assert "corrects none, spoils one and leaves nine as they are, five of them wrong" in told


@pytest.mark.parametrize(
    "number",
    [n if n == 0 else pytest.param(n, marks=pytest.mark.long) for n in range(len(ITEMS))],
)
def test_an_item_is_what_the_model_answers(number):
    """Where this fails: `python -m everyday.make_lessons`."""
    item = ITEMS[number]
    now = answered(row_of(item), model(), load_detector(REAL_DETECTOR))
    for name in ("question", "truth", "drawn", "objects", "alpha", "beta", "outcome"):
        assert now[name] == item[name], name
    for name, told in item["answers"].items():
        assert now["answers"][name]["text"] == told["text"]
        for here, there in zip(now["answers"][name]["tokens"], told["tokens"], strict=True):
            assert here["texts"] == there["texts"]
            for key in ("base", "counter"):
                assert here[key] == pytest.approx(there[key], abs=0.02)


@pytest.mark.long
def test_the_items_are_chosen_by_the_rule_that_is_told():
    rows = questions()
    by = leads(rows, model())
    kept = [(rows[i]["clip"], rows[i]["question"]) for i in closest(rows, by)]
    assert kept == [(item["clip"], item["question"]) for item in ITEMS]


def test_what_is_told_of_the_search_is_what_was_tried():
    """In the example whose answer contrast spoils: its truth says how it was chosen."""
    (row,) = CHOSEN
    tried = [json.loads(line) for line in TRIED.read_text(encoding="utf-8").splitlines()]
    alphas = {alpha for r in tried for alpha in r["macd"]}
    right = [r["baseline"] == r["answer"] for r in tried]
    ever = [[a == r["answer"] for a in r["macd"].values()] for r in tried]
    spoiled = [r for r, was, now in zip(tried, right, ever, strict=True) if was and not all(now)]
    corrected = sum(any(now) and not was for was, now in zip(right, ever, strict=True))
    clips = {r["clip"] for r in tried}
    assert (len(tried), len(clips), len(spoiled), corrected) == (53, 5, 2, 2)
    assert alphas == {"1", "2", "3"}
    for told in (
        "53 questions about five clips",
        "α of 1, 2 and 3",
        "spoiled two",
        "corrected two",
    ):
        assert told in row["truth"]
    (own,) = (r for r in spoiled if r["question"] == row["question"])
    assert own["answer"] == row["answer"]
    assert [a == "one" for a in own["macd"].values()] == [True, False, False]  # from 2 on
