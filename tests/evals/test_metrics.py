"""Metrics against brute force, against a library, and against published results."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from macd_studio.evals.statistics.metrics import (
    auroc,
    calibration,
    chair,
    margin_d_prime,
    mentioned,
    normalised,
    read_yes_no,
    sensitivity,
    yes_no_metrics,
)
from macd_studio.evals.statistics.stats import (
    bootstrap_ratio,
    clustered_share,
    holm,
    mcnemar,
    mean_difference,
    sign_flip,
    wilson,
)

ANSWERS = st.lists(st.sampled_from(["yes", "no", None]), min_size=1, max_size=40)


@given(ANSWERS, st.randoms())
def test_yes_no_figures_count_what_they_say(said, random):
    truth = [random.choice(["yes", "no"]) for _ in said]
    m = yes_no_metrics(truth, said)
    pairs = list(zip(truth, said, strict=True))
    assert m["accuracy"] == pytest.approx(np.mean([t == s for t, s in pairs]))
    assert m["unmatched"] == said.count(None)
    for name, truths in (("recall", "yes"), ("false_yes", "no")):
        asked = [s == "yes" for t, s in pairs if t == truths]
        assert m[name] == pytest.approx(np.mean(asked) if asked else np.nan, nan_ok=True)
    if m["precision"] + m["recall"] > 0:
        harmonic = 2 * m["precision"] * m["recall"] / (m["precision"] + m["recall"])
        assert m["f1"] == pytest.approx(harmonic)


@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=30))
def test_auroc_is_the_chance_to_rank_a_pair_right(rows):
    y, x = (np.array(z) for z in zip(*rows, strict=True))
    pairs = [(a > b) + 0.5 * (a == b) for a in x[y] for b in x[~y]]
    assert auroc(y, x) == pytest.approx(np.mean(pairs) if pairs else np.nan, nan_ok=True)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Yes.", "yes"),
        ("  NO", "no"),
        ("**yes**, it is", "yes"),
        ("", None),
        ("nothing", None),
        ("Not sure", None),
        ("yesterday", None),
        ("I think yes", None),
    ],
)
def test_yes_and_no_are_read_at_the_start_only(text, read):
    assert read_yes_no(text) == read


@pytest.mark.real
@pytest.mark.parametrize(
    ("model", "accuracy"), [("gemini", 80.20), ("gpt4o", 84.11), ("video_llava", 50.61)]
)
def test_the_published_predictions_score_as_published(real, model, accuracy):
    path = real / "benchmarks" / "eventhallusion" / f"{model}_predictions.json"
    asked = [q for part in json.loads(path.read_text()).values() for v in part.values()
             for q in v["qa"]]  # fmt: skip
    truth = [read_yes_no(q["answer"]) for q in asked]
    said = [read_yes_no(q["prediction"] or "") for q in asked]
    assert len(asked) == 409
    assert 100 * yes_no_metrics(truth, said)["accuracy"] == pytest.approx(accuracy, abs=0.005)


def test_chair_counts_by_hand():
    nouns = ["dog", "ball", "kite", "hat"]
    said = [mentioned(t, nouns) for t in ("a dog, a kite and a ball", "two hats", "", "a chat")]
    counts = chair(said, [["dog", "ball"], ["hat"], ["dog"], ["hat"]])
    assert counts["invented"].tolist() == [1, 0, 0, 0]
    assert counts["named"].tolist() == [3, 1, 0, 0]
    assert counts["found"].tolist() == [2, 1, 0, 0]
    assert counts["there"].tolist() == [2, 1, 1, 1]


def test_wilson_covers_the_edges():
    assert wilson(0, 20)[1] == pytest.approx(0, abs=1e-12)
    assert wilson(0, 20)[2] > 0.1
    assert np.isnan(wilson(0, 0)[0])


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_mcnemar_is_a_sign_test_on_what_changed(rows):
    a, b = (np.array(z) for z in zip(*rows, strict=True))
    up, down = int((b & ~a).sum()), int((a & ~b).sum())
    tail = reference.binom.cdf(min(up, down), up + down, 0.5) if up + down else 1.0
    assert mcnemar(a, b) == pytest.approx(min(1.0, 2 * tail))
    assert mcnemar(a, b) == mcnemar(b, a)


def test_questions_of_one_clip_are_not_taken_for_independent():
    rng = np.random.default_rng(0)
    per_clip = rng.random(60) < 0.5
    a, b = np.zeros(600), np.repeat(per_clip, 10).astype(float)
    one = mean_difference(a, b, np.repeat(np.arange(60), 10))
    each = mean_difference(a, b, np.arange(600))
    assert one[0] == each[0]
    assert one[2] - one[1] > 2 * (each[2] - each[1])


def test_a_ratio_is_resampled_whole():
    top, bottom = np.array([1.0, 0, 2]), np.array([2.0, 4, 4])
    estimate, low, high = bootstrap_ratio(top, bottom, [0, 1, 2])
    assert estimate == pytest.approx(0.3)
    assert 0 <= low <= estimate <= high <= 0.5
    difference, *_ = bootstrap_ratio(top, bottom, [0, 1, 2], minus=(bottom, bottom))
    assert difference == pytest.approx(-0.7)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_the_sign_test_over_clips_is_mcnemar_s_where_every_clip_is_one(rows):
    a, b = (np.array(z, int) for z in zip(*rows, strict=True))
    assert sign_flip(b - a, range(len(a))) == pytest.approx(mcnemar(a, b))


@given(st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 4)), min_size=1, max_size=25))
def test_the_sign_test_is_that_of_every_pattern_of_signs(rows):
    difference, clips = (np.array(z) for z in zip(*rows, strict=True))
    sums = np.array([difference[clips == c].sum() for c in np.unique(clips)])
    signs = np.array(np.meshgrid(*[[-1, 1]] * len(sums))).reshape(len(sums), -1)
    flipped = np.abs(signs.T @ sums)
    expected = np.mean(flipped >= abs(sums.sum()))
    assert sign_flip(difference, clips) == pytest.approx(expected)


def test_ten_like_answers_of_one_clip_are_one_piece_of_evidence():
    difference = np.array([1] * 10 + [0] * 10)
    assert mcnemar(np.zeros(10), np.ones(10)) < 0.01
    assert sign_flip(difference, [0] * 10 + [1] * 10) == 1.0


def test_nothing_changed_is_no_certainty():
    for n in (10, 300):
        d, low, high = mean_difference(np.ones(n), np.ones(n), range(n))
        assert (d, -low) == (0, pytest.approx(high))
        # more than that many clips without a change show with a chance of 2.5 %
        assert (1 - high) ** n < 0.025
    share, low, high = clustered_share(np.zeros(40, bool), np.repeat(np.arange(10), 4))
    assert (share, low) == (0, 0)
    assert (1 - high) ** 10 == pytest.approx(0.025)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_step_down_bonferroni(p):
    adjusted = holm(p)
    order = np.argsort(p, kind="stable")
    so_far = 0.0
    for place, i in enumerate(order):
        so_far = max(so_far, min(1.0, p[i] * (len(p) - place)))
        assert adjusted[i] == pytest.approx(so_far)
    assert holm([*p, float("nan")])[:-1] == pytest.approx(adjusted)


def test_sensitivity_by_hand():
    # 15 of 20 hits, 5 of 20 false alarms: rates 15.5/21 and 5.5/21
    said = ["yes"] * 15 + ["no"] * 5 + ["yes"] * 5 + ["no"] * 15
    m = sensitivity(["yes"] * 20 + ["no"] * 20, said)
    hits, alarms = reference.norm.ppf(15.5 / 21), reference.norm.ppf(5.5 / 21)
    assert m["d_prime"] == pytest.approx(hits - alarms)
    assert m["criterion"] == pytest.approx(-(hits + alarms) / 2) == pytest.approx(0, abs=1e-9)
    assert sensitivity(["yes"] * 20 + ["no"] * 20, ["no"] * 40)["criterion"] > 1
    assert np.isnan(sensitivity(["yes"] * 3, ["yes"] * 3)["d_prime"])
    assert np.isfinite(margin_d_prime(1.0, 50))
    rng = np.random.default_rng(0)
    positive = np.repeat([True, False], 4000)
    score = rng.normal(size=8000) + 1.7 * positive
    assert margin_d_prime(auroc(positive, score), 10**6) == pytest.approx(1.7, abs=0.06)


def test_calibration_by_hand():
    found = calibration([0.1, 0.15, 0.9, 1.0], [False, True, True, True])
    assert found["bins"] == [[0.125, 0.5, 2], [0.95, 1.0, 2]]
    assert found["ece"] == pytest.approx((2 * 0.375 + 2 * 0.05) / 4)


def test_every_yes_no_figure_by_hand():
    truth = ["yes"] * 5 + ["no"] * 4
    answers = ["yes", "yes", "yes", "no", None, "yes", "no", "no", None]
    assert yes_no_metrics(truth, answers) == {
        "accuracy": pytest.approx(5 / 9),
        "balanced": pytest.approx((3 / 5 + 2 / 4) / 2),
        "precision": pytest.approx(3 / 4),
        "recall": pytest.approx(3 / 5),
        "f1": pytest.approx(2 * 3 / (2 * 3 + 1 + 2)),
        "yes_rate": pytest.approx(4 / 9),
        "false_yes": pytest.approx(1 / 4),
        "unmatched": 2.0,
    }


@pytest.mark.parametrize(
    ("truth", "known", "unknown"),
    [
        (["yes"] * 4, {"balanced": 0.5, "recall": 0.5, "precision": 1, "f1": 2 / 3}, {"false_yes"}),
        (["no"] * 4, {"balanced": 0.25, "false_yes": 0.5, "precision": 0, "f1": 0}, {"recall"}),
        ([], {"unmatched": 0}, {"accuracy", "balanced", "precision", "recall", "f1", "yes_rate"}),
    ],
)
def test_a_share_of_nothing_is_unknown(truth, known, unknown):
    m = yes_no_metrics(truth, ["yes", "no", "yes", None][: len(truth)])
    assert {k: m[k] for k in known} == pytest.approx(known)
    assert {k for k in unknown if np.isnan(m[k])} == unknown
    never = yes_no_metrics(["yes", "no"], ["no", "no"])
    assert np.isnan(never["precision"])
    assert never["f1"] == 0


@pytest.mark.parametrize(
    ("text", "plain"),
    [("The DOG...", "the dog"), (" a\n\tb . ", "a b"), (".a. b", ".a. b"), ("", ""), ("x .", "x")],
)
def test_texts_are_compared_without_case_space_and_stop(text, plain):
    assert normalised(text) == plain


def test_areas_take_any_sequence_and_need_both_kinds():
    assert auroc([1, 0, 1, 0], [3, 2, 1, 1]) == (1 + 1 + 0 + 0.5) / 4
    for kind in ([1, 1], [0, 0]):
        assert np.isnan(auroc(kind, [1.0, 2.0]))


@pytest.mark.parametrize("yes", [0, 1, 3, 10])
@pytest.mark.parametrize("false_yes", [0, 2, 7])
def test_sensitivity_is_that_of_the_corrected_rates(yes, false_yes):
    truth = ["yes"] * 10 + ["no"] * 7
    answers = ["yes"] * yes + [None] * (10 - yes) + ["yes"] * false_yes + ["no"] * (7 - false_yes)
    hits, alarms = (reference.norm.ppf(z) for z in ((yes + 0.5) / 11, (false_yes + 0.5) / 8))
    m = sensitivity(truth, answers)
    assert m == {
        "d_prime": pytest.approx(hits - alarms),
        "criterion": pytest.approx(-0.5 * (hits + alarms)),
    }
    for alone in (sensitivity(["yes"], ["yes"]), sensitivity(["no"] * 2, ["yes"] * 2)):
        assert set(alone) == set(m)
        assert np.isnan(list(alone.values())).all()


def test_a_margin_s_distance_is_that_of_two_normal_distributions():
    for distance in (-0.8, 0.0, 0.4, 2.0):
        area = reference.norm.cdf(distance / 2**0.5)
        assert margin_d_prime(area, 10**6) == pytest.approx(distance, abs=1e-9)
    # half a pair of 8 is 1/16
    edge = 2**0.5 * reference.norm.ppf(1 - 1 / 16)
    assert margin_d_prime(1.0, 8) == margin_d_prime(0.99, 8) == pytest.approx(edge)
    assert margin_d_prime(0.0, 8) == margin_d_prime(0.01, 8) == pytest.approx(-edge)
    assert margin_d_prime(0.5, 1) == 0
    assert np.isnan(margin_d_prime(0.5, 0))
    assert np.isnan(margin_d_prime(float("nan"), 8))


def calibration_by_definition(probability, hit):
    """Bin after bin, from its lower end to below its upper, the last with its upper too."""
    bins, error = [], 0.0
    for i in range(10):
        inside = [k for k, p in enumerate(probability) if i == min(int(p * 10), 9)]
        if inside:
            mean = sum(probability[k] for k in inside) / len(inside)
            right = sum(hit[k] for k in inside) / len(inside)
            bins.append([mean, right, len(inside)])
            error += len(inside) / len(probability) * abs(right - mean)
    return bins, error


def test_calibration_by_its_definition():
    rng = np.random.default_rng(4)
    probability = [*rng.random(40).tolist(), 0.0, 0.5, 0.7, 1.0]
    hit = (rng.random(44) < 0.6).tolist()
    made, (bins, error) = calibration(probability, hit), calibration_by_definition(probability, hit)
    assert [b[2] for b in made["bins"]] == [b[2] for b in bins]
    np.testing.assert_allclose(made["bins"], bins)
    assert made["ece"] == pytest.approx(error, abs=1e-9)
    assert made["ece"] == round(made["ece"], 9)
    assert made["n"] == 44
    empty = calibration([], [])
    assert np.isnan(empty["ece"])
    assert (empty["n"], empty["bins"]) == (0, [])


def test_nouns_are_whole_words_in_any_case_and_number():
    nouns = ["dog", "box", "bus", "hat"]
    assert mentioned("DOGS, two boxes; the Bus", nouns) == {"dog", "box", "bus"}
    assert mentioned("hatch, dogged, boxer", nouns) == set()
    assert mentioned("Hat.", nouns) == {"hat"}


def test_chair_counts_each_name_once_and_needs_as_many_truths():
    counts = chair([["dog", "dog", "hat"]], [["dog", "cat", "cat", "cup"]])
    assert {k: v.tolist() for k, v in counts.items()} == {
        "invented": [1.0],
        "named": [2.0],
        "found": [1.0],
        "there": [3.0],
    }
    assert {v.dtype for v in counts.values()} == {np.dtype(np.float64)}
    with pytest.raises(ValueError, match="zip"):
        chair([["dog"]], [])
