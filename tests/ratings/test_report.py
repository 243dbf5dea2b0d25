"""The report: planted effects come out, careless raters are named, texts stay texts.

Who is in a mean, what an interval bounds, and what a control shares with the masks of MACD.
"""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from macd_studio.core.masking.controls import compare_masks
from macd_studio.core.statistics import least_sd
from macd_studio.core.system.shipped import assets
from macd_studio.ratings.answers import Answer
from macd_studio.ratings.arms import ARMS, macd
from macd_studio.ratings.cli import main
from macd_studio.ratings.create import LeftOut, StudyPlan, create_study
from macd_studio.ratings.inference import bounded, paired_difference
from macd_studio.ratings.preregistration import plan_of
from macd_studio.ratings.render import html_page, markdown, power_line
from macd_studio.ratings.report import by_thirds, control_figures, figures, left_out_sizes, progress
from macd_studio.ratings.simulate import simulate
from macd_studio.ratings.store import Study
from tests.ratings.studies import (
    copy_study,
    give_more,
    known,
    make_study,
    rate,
    rater_in,
    source,
    without_chance,
)

FEW = 400
EFFECT = 0.8


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """24 clips with four known items, rated by the six habits."""
    gold = tuple(known(i) for i in range(4))
    with without_chance():
        path = make_study(tmp_path_factory.mktemp("study"), 24, gold=gold, repeat=0.2)
    with Study(path) as study:
        simulate(study, seed=2, effect=EFFECT)
        yield study


@pytest.fixture(scope="module")
def report(simulated):
    return figures(simulated, FEW)


def test_the_planted_effect_is_recovered(report):
    d = report["differences"]["random-elsewhere"]["difference"]
    # four careful raters see it, two see nothing: the mean over pairs is diluted accordingly
    assert d["low"] < EFFECT * 3.5 / 5.5 < d["high"]
    clean = report["differences_without_named"]["random-elsewhere"]["difference"]
    assert clean["low"] < EFFECT < clean["high"]
    assert clean["low"] > 0
    assert clean["value"] > d["value"]
    whole = report["differences"]["random-elsewhere"]
    assert len(whole["own"]) == whole["raters"] == 6
    these = whole["these"]
    assert d["low"] < these["low"] < d["value"] == these["value"] < these["high"] < d["high"]
    assert "for other raters like these. Of these raters: +" in markdown(report)


def test_raters_with_a_mark_do_not_count_for_when_to_stop(tmp_path):
    with Study(copy_study(tmp_path, 24)) as study:
        for pressed in ([3, 3], [3, 3], [3, 3]):
            _, rater = rater_in(study)
            for task in study.tasks(rater):
                rate(study, rater, task["id"], pressed)
        report = figures(study, FEW)
        now = progress(study)
    d = report["differences"]["random-elsewhere"]
    assert (d["difference"]["value"], d["difference"]["low"], d["power"]) == (0, None, None)
    text = markdown(report)
    assert "Every pair has the same difference" in text
    assert "No more ratings are needed" not in text
    assert "not told before three raters" in now["too_few_to_stop"]


def test_the_careless_and_the_constant_are_named_and_nobody_else(report):
    names = {q["rater"]: q["simulated"] for q in report["raters"]}
    assert {names[r] for r in report["named"]} == {"always 3", "careless"}
    reasons = {q["simulated"]: "; ".join(q["reasons"]) for q in report["raters"]}
    assert "same rating" in reasons["always 3"]
    assert "an item" in reasons["careless"]
    done = {q["simulated"]: q["done"] for q in report["raters"]}
    assert done["quits half way"] < 0.7 < done["careful"] == 1


def test_the_table_is_that_of_the_ratings(simulated, report):
    rows = simulated.rows(
        "SELECT e.new FROM events e JOIN tasks t ON t.id = e.task JOIN sides s ON s.id ="
        " CASE e.side WHEN 0 THEN t.left_side ELSE t.right_side END"
        " WHERE e.kind = 'rate' AND t.part = 'main' AND s.arm = 'macd'"
    )
    values = np.array([r["new"] for r in rows])
    a = report["arms"]["macd"]
    assert a["ratings"] == len(values)
    assert a["mean"]["value"] == pytest.approx(values.mean())
    assert a["sd"]["value"] == pytest.approx(values.std(ddof=1))
    assert a["at_least_4"]["value"] == pytest.approx((values >= 4).mean())
    assert a["counts"] == [int((values == v).sum()) for v in range(1, 6)]
    both = simulated.rows(
        "SELECT e.rater, t.clip, s.arm, e.new FROM events e JOIN tasks t ON t.id = e.task"
        " JOIN sides s ON s.id = CASE e.side WHEN 0 THEN t.left_side ELSE t.right_side END"
        " WHERE e.kind = 'rate' AND t.part = 'main' ORDER BY e.id"
    )
    given = {(r["rater"], r["clip"], r["arm"]): r["new"] for r in both}  # the last one counts
    of_rater = {}
    for (rater, clip, arm), rating in given.items():
        if arm == "macd" and (rater, clip, "random-elsewhere") in given:
            other = given[rater, clip, "random-elsewhere"]
            of_rater.setdefault(rater, []).append(rating - other)
    difference = report["differences"]["random-elsewhere"]["difference"]["value"]
    assert difference == pytest.approx(np.mean([np.mean(d) for d in of_rater.values()]))


@pytest.mark.long
def test_raters_who_favour_what_the_gradient_names_show_it(report, tmp_path):
    """In these clips the dog has the larger gradient and MACD hides it, so the sign is planted."""
    assert report["gradient"]["correlation"]["value"] > 0.3
    assert len(report["gradient"]["objects"]) > 20
    with Study(copy_study(tmp_path, 24)) as study:
        simulate(study, seed=2, effect=-EFFECT)
        assert figures(study, FEW)["gradient"]["correlation"]["value"] < -0.3


def test_one_statistic_has_one_interval(simulated, report):
    agreement = progress(simulated)["agreement"]
    assert agreement["alpha"]["low"] is not None
    assert agreement == report["agreement"]
    assert agreement == figures(simulated)["agreement"]


def test_sides_are_even_and_a_leaning_shows(report, tmp_path):
    left = report["sides"]["left"]
    assert abs(left["value"] - 0.5) < left["high"] - left["low"]  # 4 standard errors
    with Study(copy_study(tmp_path, 24)) as study:
        for _ in range(4):
            _, rater = rater_in(study)
            for task in study.tasks(rater):
                rate(study, rater, task["id"], [4, 3])
        report = figures(study, FEW)
        assert report["sides"]["left"]["value"] == 1
        # the sides are balanced, so a rater who favours one adds nothing to the difference
        assert report["differences"]["random-elsewhere"]["difference"]["value"] == 0


def test_simulated_ratings_are_labelled(report):
    assert report["study"]["simulated_raters"] == 6
    for text in (markdown(report), html_page(report)):
        shown = text.split("</head>")[-1]
        assert "SIMULATED" in shown.split("10 items")[0][:600]


def test_the_paper_s_figures_stand_beside_as_theirs(report, tmp_path):
    assert ", the paper's |" not in markdown(report)  # `random-elsewhere` is another quantity
    assert "random-elsewhere is chosen to lie beside MACD's masks" in markdown(report)
    with Study(make_study(tmp_path, 2, arms=("macd", "random-place"))) as study:
        text = markdown(figures(study))
    assert "| random-mask, the paper's | – | 2.40 | 0.70 | 10% |" in text
    assert "| macd, the paper's | – | 3.10 | 0.65 | 38% |" in text
    assert "theirs, not ours" in text
    assert "for macd have an SD of at least 0.81; theirs is given as 0.65" in text
    assert "for random-mask have" not in text


@pytest.mark.parametrize("design", ["pair", "single"])
def test_a_study_without_ratings_has_a_report(tmp_path, design):
    with Study(make_study(tmp_path, 2, design=design)) as study:
        empty = figures(study, FEW)
        assert empty["study"]["ratings"] == 0
        assert "Nobody has rated yet" in markdown(empty)
        assert json.loads(json.dumps(empty, allow_nan=False)) == empty
        assert progress(study)["power"] is None
        rater_in(study)
        assert progress(study)["raters"][0]["done"] == 0


def test_one_rater_and_one_clip_give_no_interval_that_is_none(tmp_path):
    with Study(copy_study(tmp_path, 1)) as study:
        _, rater = rater_in(study)
        rate(study, rater, study.tasks(rater)[0]["id"], [2, 4])
        one = figures(study, FEW)
    d = one["differences"]["random-elsewhere"]
    assert d["pairs"] == 1
    assert d["power"] is None
    text = markdown(one)
    assert "no interval" in text
    assert "not told before three raters who were not named" in text
    assert one["agreement"]["alpha"]["value"] is None
    assert "NaN" not in json.dumps(one)


def test_skipped_and_repeated_screens_do_not_count(tmp_path):
    from tests.ratings.studies import event

    with Study(make_study(tmp_path, 6, repeat=0.4)) as study:
        _, rater = rater_in(study)
        tasks = study.tasks(rater)
        parts = {r["id"]: r["part"] for r in study.rows("SELECT * FROM tasks")}
        for task in tasks:
            rate(study, rater, task["id"], [2, 4])
        skipped = next(t["id"] for t in tasks if parts[t["id"]] == "main")
        study.append(rater, [event("skip", skipped)])
        result = figures(study, FEW)
    assert result["study"]["ratings"] == 2 * (6 - 1)
    (q,) = result["raters"]
    assert q["skipped"] == 1
    # sides were exchanged, the ratings by side were not
    assert q["repeat_same"] == 0
    assert q["repeat_apart"] == 2


def test_more_arms_and_single_screens_are_compared_too(tmp_path):
    arms = ("macd", "random-elsewhere", "mask-all")
    with Study(make_study(tmp_path, 12, arms=arms, design="single")) as study:
        simulate(study, seed=1, effect=2.0)
        result = figures(study, FEW)
    assert set(result["differences"]) == {"random-elsewhere", "mask-all"}
    for d in result["differences"].values():
        # every study is drawn anew: about 1.2 with a standard deviation of 0.2
        assert 0.4 < d["difference"]["value"] < 2.0
        assert d["pairs"] > 50
    assert result["sides"]["screens"] == 0


def test_texts_from_outside_stay_texts(tmp_path):
    bad = "<img src=x onerror=alert(1)> | [x](javascript:1) `a` **b** \x1b[2J"
    sources = [source(0, question=bad, name=f"{bad}.mp4"), source(1, problem=bad)]
    create_study(tmp_path / "s.db", sources, StudyPlan(seed=1))
    with Study(tmp_path / "s.db") as study:
        simulate(study, seed=1)
        result = figures(study, FEW)
    page, text = html_page(result), markdown(result)
    assert "<img" not in page
    assert "<img" not in text
    assert "\x1b" not in page + text
    assert "<b>b</b>" not in page
    assert "**b**" not in text
    assert "](" not in text
    assert "**b**" in page  # as it was written
    assert "**SIMULATED.**" in text
    assert "<b>SIMULATED.</b>" in page
    cells = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(line.endswith(" |") for line in cells)


def test_the_power_line_says_what_is_missing():
    meter = {"more_raters": 3, "more_pairs": 30, "more_clips": 9}
    assert "3 more raters" in power_line(meter, 0.3)
    assert "No more" in power_line(meter | {"more_raters": 0}, 0.1)
    assert "9 more clips" in power_line(meter | {"more_raters": None}, 0.3)
    assert "neither" in power_line({"more_raters": None, "more_pairs": None, "more_clips": None}, 1)


def test_the_committed_example_is_what_the_report_makes_of_its_figures():
    docs = Path(__file__).parents[2] / "docs"
    result = json.loads((docs / "rating-example.json").read_text())
    shown = (docs / "rating-example.md").read_text().splitlines()
    assert sum(line.startswith("… ") for line in shown) == 6  # where rows are left out
    lines = iter(markdown(result).splitlines())
    assert all(line in lines for line in shown if line and line[0] != "…")  # in this order
    assert result["study"]["simulated_raters"] == result["study"]["raters_invited"] == 6
    assert "SIMULATED" in (docs / "rating-example.md").read_text().split("\n\n")[1]
    assert result["study"]["plan"] == plan_of(result["study"]["scale"])
    assert result["study"]["changed"] == []


OTHER = "random-elsewhere"
NOTHING_BOUND = "So few raters or pairs bound nothing where an interval covers all that is possible"


@pytest.mark.parametrize(("scale", "range_", "said"), [
    ("ratings", (-4, 4), "−4 to +4"), ("pairs", (0, 1), "0% to 100%")])  # fmt: skip
def test_no_interval_reaches_outside_what_is_possible(tmp_path, scale, range_, said):
    with Study(copy_study(tmp_path, 12, scale=scale)) as study:
        give_more(study, [2, 2, 1, 2] * 3)
        give_more(study, [-2, -1, -2, -2] * 3)
        report = figures(study, 100)
    d = report["differences"][OTHER]
    printed = [d["difference"], d["these"], *d["own"].values(),
               *(t["difference"] for t in report["controls"][OTHER]["thirds"])]  # fmt: skip
    assert len(printed) > 4
    for e in printed:
        assert e["low"] is None or range_[0] <= e["low"] <= e["high"] <= range_[1]
    assert (d["difference"]["low"], d["difference"]["high"]) == range_
    assert d["half_width"] <= (range_[1] - range_[0]) / 2
    text = markdown(report)
    assert f"{NOTHING_BOUND}, {said}, or nearly all of it." in text


@pytest.mark.parametrize("scale", ["ratings", "pairs"])
def test_who_is_in_the_mean_is_named_with_how_many_pairs(tmp_path, scale):
    with Study(copy_study(tmp_path, 12, scale=scale)) as study:
        give_more(study, [2, 1, -1, 2] * 3)
        give_more(study, [1, 0, 2, 2], screens=4)
        give_more(study, [2])
        report = figures(study, 100)
    d = report["differences"][OTHER]
    assert d["by_rater"] == {"R01": 12, "R02": 4, "R03": 1}
    assert sum(e["value"] for e in d["own"].values()) / 3 == pytest.approx(d["these"]["value"])
    text = markdown(report)
    assert "| R01 | 12 | " in text
    assert ("| R03 | 1 | 100% |" if scale == "pairs" else "| R03 | 1 | +2.00 |") in text
    assert "These 3 raters are in the mean, and each counts the same, as preregistered" in text


def test_raters_who_have_not_rated_yet_are_raters(tmp_path, capsys):
    path = copy_study(tmp_path, 12)
    with Study(path) as study:
        study.invite(3)
        assert "0 of 3 raters have rated, 3 planned; 0 ratings" in markdown(figures(study, 100))
        give_more(study, [1], screens=1)
        assert "1 of 4 raters has rated, 3 planned; 2 ratings" in markdown(figures(study, 100))
    assert main(["status", str(path)]) == 0
    first, *names = capsys.readouterr().out.splitlines()[:5]
    assert first == "open: 12 items, 2 ratings; 1 of 4 raters has rated"
    assert [n.split()[0] for n in names] == ["R01", "R02", "R03", "R04"]


def test_nothing_is_said_of_intervals_that_bound(tmp_path):
    with Study(copy_study(tmp_path, 12)) as study:
        for _ in range(4):
            give_more(study, [2, 1, 1, 2] * 3)
        assert NOTHING_BOUND not in markdown(figures(study, 100))


def test_what_is_cut_off_is_only_the_impossible():
    e = paired_difference(np.array([[4.0, 4, 4, 3], [4, 4, 4, 4], [2, 3, 2, 2]])).primary
    assert e.high > 4
    assert bounded(e, "ratings") == {"value": e.value, "low": e.low, "high": 4}


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
    stated = {arm: [(c.name, c.shared[arm]) for c in make_study.last.checks]
              for arm in ("random-place", "mask-all")}  # fmt: skip
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
    assert f"; {name} shares {share:.0%} of that, IoU " in said
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
    assert [check.name for check in made.checks] == [
        "clip-1.mp4: Is there a dog?", "clip-1.mp4: Does it bark?", "clip-2.mp4"]  # fmt: skip
