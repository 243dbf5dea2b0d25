"""What a control shares with MACD's masks: stated when a study is made, published, and reported."""

import json
from itertools import product

import numpy as np
import pytest

from macd_studio.core.masking.controls import compare_masks
from macd_studio.core.system.shipped import assets
from macd_studio.ratings.answers import Answer
from macd_studio.ratings.arms import ARMS, macd
from macd_studio.ratings.cli import main
from macd_studio.ratings.create import LeftOut, StudyPlan, create_study
from macd_studio.ratings.render import markdown
from macd_studio.ratings.report import by_thirds, control_figures, figures, left_out_sizes
from macd_studio.ratings.stats import least_sd
from macd_studio.ratings.store import Study
from tests.ratings.studies import make_study, source


def answers(differences):
    """Of two raters: each item's first arm is rated so much higher than the other."""
    return [
        Answer(rater, f"{rater}-{clip}", "main", 0, clip, side, arm, 2 + side * d, None, None, None)
        for rater in (1, 2)
        for clip, d in differences.items()
        for side, arm in enumerate(("other", "macd"))
    ]


def test_the_difference_by_thirds_of_overlap():
    overlaps = {1: 0.05, 2: 0.1, 3: 0.0, 4: 0.5, 5: 0.4, 6: 0.6, 7: 0.9, 8: 0.8, 9: 1.0}
    rated = answers({clip: 2 if share < 0.2 else 1 if share < 0.7 else 0
                     for clip, share in overlaps.items()})  # fmt: skip
    thirds = by_thirds(rated, "macd", "other", overlaps)
    assert [(t["items"], t["pairs"], t["difference"]["value"]) for t in thirds] == [
        (3, 6, 2.0), (3, 6, 1.0), (3, 6, 0.0)]  # fmt: skip
    assert [(t["low"], t["high"]) for t in thirds] == [(0, 0.1), (0.4, 0.6), (0.8, 1)]
    assert by_thirds(rated, "macd", "other", dict.fromkeys(range(1, 6), 0.1)) == []
    (alone,) = by_thirds(rated, "macd", "other", dict.fromkeys(overlaps, 0.0))
    assert alone["items"] == 9


def test_overlap_is_stated_by_item_and_sealed_to_whose_it_is(tmp_path):
    path = make_study(tmp_path, 4, arms=("macd", "random-place", "mask-all"))
    stated = make_study.last.overlaps
    with Study(path) as study:
        public = study.preregistration["overlap"]
        found = control_figures(study, [], ["macd", "random-place", "mask-all"])
    for arm in ("random-place", "mask-all"):
        assert [name for name, _ in stated[arm]] == [f"clip-{i}.mp4" for i in range(4)]
        shares = [share for _, share in stated[arm]]
        assert [row["overlap"] for row in found[arm]["items"]] == shares
        assert public[arm] == sorted(shares)
    own = macd(source(2), None).mask
    everything = ARMS["mask-all"](source(2), None).mask
    assert stated["mask-all"][2][1] == pytest.approx(compare_masks(own, everything)[1], abs=1e-5)
    assert found["mask-all"]["items"][2]["hidden"] == pytest.approx(own.mean(), abs=1e-3)


def test_what_is_left_out_is_described_by_the_size_of_its_mask(tmp_path):
    big = source(7, tracks=tuple(
        type(t)(t.id, t.label, t.confidence, np.tile(np.float32([0, 0, 1, 1]), (4, 1)), t.state, 4)
        for t in source().tracks))  # fmt: skip
    made = create_study(tmp_path / "s.db", [source(1), big],
                        StudyPlan(arms=("macd", "random-elsewhere"), seed=1),
                        [LeftOut("gone.mp4", "no masks: it is empty")])  # fmt: skip
    gone, other = made.left_out
    assert gone == LeftOut("gone.mp4", "no masks: it is empty")
    assert other.hidden == pytest.approx(macd(big, None).mask.mean(), abs=1e-6)
    with Study(tmp_path / "s.db") as study:
        assert left_out_sizes(study.left_out) == {other.reason: [round(other.hidden, 5)]}
        text = markdown(figures(study, 50))
    assert f"({other.reason}): MACD hides {other.hidden:.1%} of the pixels" in text


@pytest.mark.parametrize("control", [None, "random-elsewhere", "random-objects"])
def test_the_organiser_chooses_the_control(tmp_path, capsys, control):
    trace = assets() / "examples" / "repaired.macd"
    words = ["create", str(tmp_path / "s.db"), "--traces", str(trace), "--seed", "1"]
    assert main([*words, *(["--control", control] if control else [])]) == 0
    said = capsys.readouterr().out
    name = control or "random-place"
    with Study(tmp_path / "s.db") as study:
        assert study.preregistration["arms"] == ["macd", name]
        (share,) = study.preregistration["overlap"][name]
    assert f"{name}: share of what the first arm hides that it hides too" in said
    assert f"{share:4.0%}  " in said
    with pytest.raises(SystemExit):
        main([*words, "--control", "random-place", "--arms", "macd,mask-all"])


def test_the_least_sd_is_that_of_all_ratings_with_this_mean_and_share():
    """By trying every way to give 50 ratings."""
    for mean, good in ((3.1, 19), (2.4, 5), (4.5, 45), (1.6, 2)):
        least = min(
            np.std(np.repeat([1, 2, 3, 4, 5], (ones, twos, 50 - good - ones - twos, four,
                                               good - four)))
            for ones, twos, four in product(range(51), range(51), range(good + 1))
            if ones + twos <= 50 - good
            and ones + 2 * twos + 3 * (50 - good - ones - twos) + 4 * four + 5 * (good - four)
            == round(50 * mean)
        )  # fmt: skip
        assert least_sd(mean, good / 50, 4, 5) == pytest.approx(least, abs=2e-3)


def test_a_preregistration_tells_when_the_analysis_has_changed(tmp_path, monkeypatch):
    path = make_study(tmp_path, 2)
    with Study(path) as study:
        assert "analyses otherwise" not in markdown(figures(study, 50))
        monkeypatch.setitem(study.preregistration["analysis"], "exclusions", "none")
        text = markdown(figures(study, 50))
    assert "analyses otherwise than was preregistered: exclusions." in text
    assert "| exclusions | none |" in text
    assert json.loads(json.dumps(study.preregistration))["analysis"]["exclusions"] == "none"


def test_items_of_one_clip_are_told_apart(tmp_path):
    sources = [source(1), source(1, question="Does it bark?"), source(2)]
    made = create_study(tmp_path / "s.db", sources, StudyPlan(seed=1))
    (shares,) = made.overlaps.values()
    assert [name for name, _ in shares] == [
        "clip-1.mp4: Is there a dog?", "clip-1.mp4: Does it bark?", "clip-2.mp4"]  # fmt: skip
