"""Constants for answers: no order of search, and what they do at the edges."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import log_softmax

from macd_studio.evals.statistics.constant import (
    DELTAS,
    RIDGE,
    accurate_constants,
    best,
    constant_like,
    likely_constants,
)


def a_case(seed, n=60, words=4):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, words, n)
    scores = rng.normal(0, 1.5, (n, words)) + rng.normal(0, 1, words)
    scores[np.arange(n), truth] += 1
    return scores, truth, np.full(n, 1 / n)


def loss(scores, truth, constants):
    c = np.array([constants[k] for k in range(scores.shape[1])])
    log = log_softmax(scores + c, axis=1)[np.arange(len(truth)), truth]
    return -log.mean() + RIDGE / 2 * (c @ c)


def test_the_likeliest_constants_are_a_minimum_and_sum_to_0():
    scores, truth, weights = a_case(0)
    found = likely_constants(scores, truth, weights, range(4))
    assert sum(found.values()) == pytest.approx(0, abs=1e-5)
    least = loss(scores, truth, found)
    for k, step in itertools.product(range(4), (-0.01, 0.01)):
        assert loss(scores, truth, found | {k: found[k] + step}) > least
    # a word that is never right goes down, and not without end
    never = likely_constants(scores[truth != 3], truth[truth != 3], weights[truth != 3], range(4))
    assert -15 < never[3] < min(never[k] for k in range(3))
    few = scores[truth != 3], truth[truth != 3]
    for step in (-0.05, 0.05):  # how far is the ridge's choice alone
        assert loss(*few, never | {3: never[3] + step}) > loss(*few, never)
    assert likely_constants(scores, np.full(60, -1), weights, [0]) == {0: 0.0}


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_words_decides_nothing(seed):
    scores, truth, weights = a_case(seed)
    kept = scores.argmax(1)
    plain = accurate_constants(scores, truth, weights, range(4), kept)
    likely = likely_constants(scores, truth, weights, range(4))
    for order in itertools.permutations(range(4)):
        place = np.argsort(order)  # word k is column place[k]
        turned = scores[:, order], place[truth], weights
        again = accurate_constants(*turned, range(4), place[kept])
        assert {k: again[int(place[k])] for k in range(4)} == plain
        other = likely_constants(*turned, range(4))
        assert [other[int(place[k])] for k in range(4)] == pytest.approx(
            [likely[k] for k in range(4)], abs=1e-4
        )


def test_the_most_accurate_constants_are_no_worse_than_any_single_change():
    scores, truth, weights = a_case(5)
    kept = scores.argmax(1)

    def right(constants):
        added = np.array([constants[k] for k in range(4)])
        return (best(scores + added, kept) == truth).sum()

    found = accurate_constants(scores, truth, weights, range(4), kept)
    assert right(found) > right(dict.fromkeys(range(4), 0.0))
    assert right(found) == max(right(found | {k: d}) for k in range(4) for d in (0.0, *DELTAS))


def test_of_equally_accurate_constants_the_smallest_are_taken():
    scores, truth = np.array([[3.0, 0.0], [-3.0, 0.0]]), np.array([0, 1])
    found = accurate_constants(scores, truth, np.full(2, 0.5), [0, 1], truth)
    assert found == {0: 0.0, 1: 0.0}


@pytest.mark.parametrize(
    ("margins", "truth", "accuracy", "delta"),
    [
        ([-1.0, 2.0, -3.0], [1, 1, 0], 1.0, 1.0),  # any rise above 1
        ([1.0, 2.0, 3.0], [0, 1, 1], 1.0, -1.0),  # a fall of 1 leaves a margin of 0: no
        ([-1.0, 2.0], [0, 1], 1.0, 0.0),
        ([-1.0, -2.0], [1, 0], 1.0, 1.0),
        ([2.0, -1.0], [0, 1], 1.0, None),
    ],
)
def test_the_smallest_constant_is_at_an_edge(margins, truth, accuracy, delta):
    made = constant_like(np.array(truth, bool), np.array(margins), accuracy)
    assert made["delta"] == delta


def test_no_question_and_no_margin_are_no_error():
    assert constant_like(np.zeros(0, bool), np.zeros(0), 0.5) == {
        "delta": None, "best": None, "beyond": None,
    }  # fmt: skip
    made = constant_like(np.array([False, True]), np.array([math.nan, 1.0]), 0.5)
    assert made == {"delta": 0.0, "best": 50.0, "beyond": 0.0}
    alone = constant_like(np.array([False]), np.array([math.nan]), 0.0)
    assert (alone["delta"], alone["best"]) == (0.0, 0.0)
