"""Metrics against brute force, against a library, and against published results."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from macd_studio.evals.running.rows import Row
from macd_studio.evals.statistics.metrics import (
    auroc,
    calibration,
    certified_tokens,
    chair,
    choice_ledger,
    clamped_shares,
    margin_d_prime,
    mentioned,
    normalised,
    one_answer_note,
    open_shares,
    read_yes_no,
    yes_no_ledger,
    yes_no_metrics,
)


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


def test_every_yes_no_figure_by_hand():
    truth = ["yes"] * 5 + ["no"] * 4
    answers = ["yes", "yes", "yes", "no", None, "yes", "no", "no", None]
    z = reference.norm.ppf
    assert yes_no_metrics(truth, answers) == {
        "accuracy": pytest.approx(5 / 9),
        "balanced": pytest.approx((3 / 5 + 2 / 4) / 2),
        "precision": pytest.approx(3 / 4),
        "recall": pytest.approx(3 / 5),
        "f1": pytest.approx(2 * 3 / (2 * 3 + 1 + 2)),
        "yes_rate": pytest.approx(4 / 9),
        "false_yes": pytest.approx(1 / 4),
        "unmatched": 2.0,
        "d_prime": pytest.approx(z(3.5 / 6) - z(1.5 / 5)),
        "criterion": pytest.approx(-(z(3.5 / 6) + z(1.5 / 5)) / 2),
    }
    ledger = yes_no_ledger(truth, answers)
    assert ledger == {
        "n": 9,
        "yes_rate": 44.4444,
        "unmatched": 2,
        "constants": {"yes": 55.5556, "no": 44.4444},
        "balanced": 55.0,
        "d_prime": round(z(3.5 / 6) - z(1.5 / 5), 4),
        "criterion": round(-(z(3.5 / 6) + z(1.5 / 5)) / 2, 4),
        "precision": 75.0,
        "recall": 60.0,
        "f1": 66.6667,
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


@pytest.mark.parametrize(("yes", "false_yes"), [(0, 0), (10, 7), (3, 0), (3, 7)])
def test_sensitivity_is_that_of_the_corrected_rates(yes, false_yes):
    truth = ["yes"] * 10 + ["no"] * 7
    answers = ["yes"] * yes + [None] * (10 - yes) + ["yes"] * false_yes + ["no"] * (7 - false_yes)
    hits, alarms = (reference.norm.ppf(z) for z in ((yes + 0.5) / 11, (false_yes + 0.5) / 8))
    m = yes_no_metrics(truth, answers)
    assert m["d_prime"] == pytest.approx(hits - alarms)
    assert m["criterion"] == pytest.approx(-0.5 * (hits + alarms))
    for alone in (yes_no_metrics(["yes"], ["yes"]), yes_no_metrics(["no"] * 2, ["yes"] * 2)):
        assert np.isnan([alone["d_prime"], alone["criterion"]]).all()


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
    edges = [k / 10 for k in range(1, 10)]  # an edge belongs to the bin above it
    assert calibration(edges, [True] * 9)["bins"] == [[pytest.approx(e), 1.0, 1] for e in edges]
    assert calibration([0.3 - 1e-12, 1.0, math.nan], [False] * 3)["n"] == 2
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


def row(**more):
    return Row("key", "item", "macd", **more)


def test_certified_tokens_are_counted_where_a_server_was_asked():
    rows = [row(tokens=4, certified=3), row(tokens=6, certified=0), row(tokens=9), row(certified=2)]
    assert certified_tokens(rows) == {"certified": {"tokens": 10, "certified": 3}}
    assert certified_tokens(rows[2:]) == {}


def test_clamped_shares_are_means_by_method():
    rows = {
        "vcd": [row(clamped=0.2), row(clamped=0.4), row()],
        "macd": [row(), row()],
        "sid": [row(clamped=0.0)],
    }
    shares = clamped_shares(rows)["clamped"]
    assert shares == {"vcd": pytest.approx(0.3), "sid": 0.0}
    assert clamped_shares({"macd": rows["macd"]}) == {}


def test_open_shares_are_of_the_questions_that_a_contrast_could_change():
    rows = [
        row(tokens=4, open=1, reads=3.0),
        row(tokens=6, open=0, reads=4.0),
        row(tokens=2, open=2),
        row(tokens=8, reads=9.0),
        row(open=1, reads=9.0),
    ]
    assert open_shares(rows) == {
        "open": {
            "n": 3,
            "questions": pytest.approx(2 / 3),
            "tokens": pytest.approx(3 / 12),
            "reads": pytest.approx(7 / 3),
            "lazy_reads": pytest.approx(4 / 3),
        }
    }
    assert open_shares(rows[3:]) == {}


def test_ledgers_take_one_answer_a_question():
    for ledger in (yes_no_ledger, choice_ledger):
        with pytest.raises(ValueError, match="zip"):
            ledger(["yes", "no"], ["yes"])
    one = yes_no_ledger(["yes", "no"], ["yes", "no"])
    assert (one["balanced"], one["recall"], one["f1"]) == (100.0, 100.0, 100.0)
    third = choice_ledger(["A", "B", "B"], ["A", "A", "B"])
    assert third["rates"] == {"A": 66.6667, "B": 33.3333}
    # a letter that is answered and never right takes no part in the mean
    assert choice_ledger(["A", "B", "B"], ["A", "B", "C"])["balanced"] == 75.0
    assert yes_no_ledger([], [])["yes_rate"] == 0.0


def test_splits_with_both_answers_need_no_note():
    assert one_answer_note({"mix": ["yes", "no"]}) == ""
    alone = one_answer_note({"entire": ["no", "no"], "mix": ["yes", "no"]})
    assert "entire (2 × no)" in alone
    assert "A shift towards yes" not in alone
