"""The contrastive rule against exact and slow versions of its definitions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macd_studio.core.decoding.contrast import (
    check_finite,
    flip_points,
    floor_of,
    kept_candidates,
    nucleus,
    plausibility_mask,
    score,
    winners,
)
from macd_studio.core.errors import NumericalError
from macd_studio.core.macd import plausibility_threshold, plausible, weighted
from macd_studio.core.token_logits import log_partition
from macd_studio.core.types import StepWeights


def nucleus_by_definition(scores, temperature, top_p):
    """The most probable tokens, one by one until their mass is `top_p`; ties by their ids."""
    p = [float(np.exp(np.float64(s) / temperature - max(scores) / temperature)) for s in scores]
    kept, mass = {}, 0.0
    for i in sorted(range(len(p)), key=lambda i: (-p[i], i)):
        if mass >= top_p * sum(p):
            break
        kept[i] = p[i]
        mass += p[i]
    return [kept.get(i, 0.0) / mass for i in range(len(p))]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("top_p", [0.05, 0.7, 1.0])
def test_sampling_is_from_the_smallest_set_of_that_mass(temperature, top_p):
    logits = np.random.default_rng(5).normal(size=60).astype(np.float32) * 3 + 900
    expected = nucleus_by_definition(logits.tolist(), temperature, top_p)
    made = nucleus(logits, temperature, top_p)
    np.testing.assert_allclose(made, expected, rtol=1e-9, atol=1e-12)


def test_tokens_of_equal_probability_enter_the_nucleus_by_their_ids():
    every_other = nucleus(np.tile([-np.inf, 1.0], 64), 1.0, 0.5)
    assert np.flatnonzero(every_other).tolist() == list(range(1, 65, 2))
    assert nucleus(np.zeros(64), 1.0, 0.5).tolist() == [1 / 32] * 32 + [0.0] * 32
    few = np.random.default_rng(6).integers(0, 3, 400).astype(float)
    np.testing.assert_allclose(nucleus(few, 1.0, 0.5), nucleus_by_definition(few, 1.0, 0.5))


def test_the_partition_is_summed_in_float64():
    logits = np.array([1000.0, 999.3, 998.9], np.float32)
    slow = 1000 + np.log(sum(np.exp(float(x) - 1000) for x in logits))
    assert log_partition(logits) == pytest.approx(slow, abs=1e-12)


def test_scores_are_added_up_in_float64_from_as_many_views_as_are_weighed():
    base, one, two = (np.array(x, np.float32) for x in ([0.1, 7, 3], [0.3, 2, 1], [0.7, 1, 9]))
    weights = StepWeights(0.7, (0.2, -0.3), floor=3.0, bias=((2, 0.1), (1, 0.2)))
    expected = [-np.inf, 0.7 * 7 + 0.2 * 2 - 0.3 * 1 + 0.2, 0.7 * 3 + 0.2 * 1 - 0.3 * 9 + 0.1]
    np.testing.assert_allclose(weighted(base, [one, two], weights), expected, rtol=1e-15)
    np.testing.assert_allclose(weighted(base, [one, two, base], weights), expected, rtol=1e-15)
    some = weighted(base[1:], [one[1:], two[1:]], weights, np.array([1, 2]))
    np.testing.assert_allclose(some, expected[1:], rtol=1e-15)
    with pytest.raises(ValueError, match="differ in shape"):
        weighted(base, [one, two[:2]], weights)


def winners_by_definition(base, counter, largest):
    """Exactly: ids with an α in [0, largest] at which no token with as large a base is ahead."""
    lines = [(Fraction(b), Fraction(b) - Fraction(c)) for b, c in zip(base, counter, strict=True)]
    ids = []
    for i, (height, slope) in enumerate(lines):
        low, high = Fraction(0), Fraction(largest)
        for other, steepness in lines:
            if other < height:
                continue
            ahead, gained = other - height, slope - steepness
            if gained > 0:
                low = max(low, ahead / gained)
            elif gained < 0:
                high = min(high, ahead / gained)
            elif ahead > 0:
                high = Fraction(-1)
        if low <= high:
            ids.append(i)
    return ids


grid = st.lists(st.tuples(*[st.integers(-6, 6)] * 2), min_size=1, max_size=12)


@given(grid, st.sampled_from([0.0, 0.5, 2.0, 20.0]))
def test_winners_by_their_definition(rows, largest):
    base, counter = (np.array(z, np.float64) / 4 for z in zip(*rows, strict=True))
    expected = winners_by_definition(base.tolist(), counter.tolist(), largest)
    assert sorted(winners(base, counter, largest)) == expected


@pytest.mark.parametrize("seed", range(3))
def test_winners_that_differ_by_less_than_float32_can_tell(seed):
    rng = np.random.default_rng(seed)
    base = rng.uniform(5, 7, 60).astype(np.float32)
    counter = ((21 * base.astype(np.float64) - 8) / 20).astype(np.float32)  # all meet at α = 20
    expected = winners_by_definition(base.tolist(), counter.tolist(), 20)
    assert 1 < len(expected) < 30
    assert sorted(winners(base, counter)) == expected


def test_ties_up_to_rounding_are_wins():
    base = np.linspace(100.1, 300.1, 50)
    counter = (21 * base - 8) / 20  # every score is 8 at α = 20
    assert np.ptp(21 * base - 20 * counter) > 0
    assert sorted(winners(base, counter)) == list(range(50))


def flips_by_definition(base, counter, inside, limit):
    """Exactly: the best line right after every α at which two of them meet."""
    lines = {i: (Fraction(base[i]), Fraction(base[i]) - Fraction(counter[i])) for i in inside}
    meets = {Fraction(0)}
    for (h, s), (g, r) in itertools.combinations(lines.values(), 2):
        if s != r:
            meets.add((h - g) / (r - s))
    flips = []
    for alpha in sorted(a for a in meets if 0 <= a <= limit):
        best = max(lines, key=lambda i: (lines[i][0] + alpha * lines[i][1], lines[i][1], -i))
        if not flips or best != flips[-1][1]:
            flips.append((alpha, best))
    return flips


@given(grid, st.sampled_from([0.0, 0.3]), st.sampled_from([0.5, 3.0]))
def test_flip_points_by_their_definition(rows, beta, limit):
    base, counter = (np.array(z, np.float32) / np.float32(10) for z in zip(*rows, strict=True))
    inside = np.flatnonzero(plausibility_mask(base, beta)).tolist()
    expected = flips_by_definition(base.tolist(), counter.tolist(), inside, limit)
    points = flip_points(base, counter, beta, limit)
    assert [i for _, i in points] == [i for _, i in expected]
    assert [a for a, _ in points] == pytest.approx([float(a) for a, _ in expected], abs=1e-12)


def test_flips_are_looked_for_up_to_20():
    """The lines of tokens 1, 2 and 3 pass each other at 20 and at 20.5."""
    base, slope = np.array([410.0, 390.0, 369.5]), np.array([0.0, 1.0, 2.0])
    assert flip_points(base, base - slope, 0.0) == [(0.0, 0), (20.0, 1)]
    assert flip_points(base, base - slope, 0.0, 20.5) == [(0.0, 0), (20.0, 1), (20.5, 2)]
    tied = np.zeros(3)
    assert flip_points(tied, np.array([0.0, -2.0, -1.0]), 0.0) == [(0.0, 1)]


@pytest.mark.parametrize("views", [1, 2, 3])
@pytest.mark.parametrize("floor", [-np.inf, 1.0])
def test_candidates_by_their_definition(views, floor):
    rng = np.random.default_rng(7)
    rows = [rng.permutation(90) * 0.04 - 1 for _ in range(views)]
    expected = {5}
    for row in rows:
        expected |= set(np.argsort(-row)[:9].tolist())
    expected |= {i for i in range(90) if floor > -np.inf and rows[0][i] >= floor}
    if views == 2:
        expected |= set(winners_by_definition(rows[0].tolist(), rows[1].tolist(), 20))
    by_base = sorted(expected, key=lambda i: -rows[0][i])
    assert kept_candidates(iter(rows), 9, floor, chosen=5).tolist() == by_base


def test_of_two_views_every_winner_is_kept_and_of_others_the_best():
    base, counter = np.array([3.0, 2.0, 1.0, 0.0]), np.array([3.0, 2.5, 0.0, 0.0])
    assert winners(base, counter).tolist() == [0, 2]
    # of equal logits the one that the other view makes less of is ahead at every α
    assert winners(np.array([3.0, 2.0, 2.0]), np.array([3.0, 1.9, 1.8])).tolist() == [0, 2]
    assert kept_candidates([base, counter], 1, -np.inf, chosen=0).tolist() == [0, 2]
    assert kept_candidates([base, counter, counter], 1, -np.inf, chosen=0).tolist() == [0]
    assert kept_candidates([base], 1, -np.inf, chosen=3).tolist() == [0, 3]
    for seed in range(5):
        logits = np.random.default_rng(seed).permutation(3000) * 0.01
        assert kept_candidates([logits], 1, -np.inf, chosen=7).tolist() == sorted(
            {7, int(logits.argmax())}, key=lambda i: -logits[i]
        )
        many = np.random.default_rng(seed).normal(size=3000)
        best = np.argsort(-many)[:100].tolist()
        assert kept_candidates([many], 100, -np.inf, chosen=best[0]).tolist() == best


def test_candidates_of_equal_logits_stand_in_the_order_of_their_ids():
    base = np.random.default_rng(8).integers(0, 3, 200).astype(np.float32)
    order = sorted(range(200), key=lambda i: (-base[i], i))
    assert kept_candidates([base], 1000, -np.inf, chosen=0).tolist() == order


def test_the_cut_by_raw_logits_keeps_the_argmax_where_all_are_negative():
    base = np.array([-4.0, -2.0, -3.0])
    assert plausibility_threshold(base, 0.5, "raw") == -1.0
    assert plausibility_mask(base, 0.5, "raw").tolist() == [False, True, False]
    scores = score(base, np.zeros(3), 1.0, 1.5, "raw")
    assert scores.tolist() == [-np.inf, -4.0, -6.0]


def test_the_cut_and_the_score_by_hand():
    base, counter = np.array([2.0, 1.0, 1.5, -4.0], np.float32), np.array([1.0, 0.0, 3.0, -9.0])
    assert plausibility_threshold(base, 0.5) == pytest.approx(2 + math.log(0.5))
    assert plausibility_threshold(base, 0.5, "raw") == 1.0
    assert plausibility_threshold(base, 0.0) == -np.inf
    assert plausibility_threshold(base, 0.0, "raw") == 0.0
    assert plausibility_threshold(base, 1e-9) == pytest.approx(2 + math.log(1e-9))
    assert plausibility_mask(base, 0.5).tolist() == [True, False, True, False]
    assert plausibility_mask(base, 0.5, "raw").tolist() == [True, True, True, False]
    assert plausible([1.0, 3.0, 2.0], 2.0).tolist() == [False, True, True]
    assert plausible([1.0, 3.0, 2.0], 9.0).tolist() == [False, True, False]
    # a floor that float32 would round to the logit
    assert plausible(np.array([3.0, 1.0], np.float32), 1 + 1e-9).tolist() == [True, False]
    inside = score(base, counter, 0.5, 0.5)
    assert inside.tolist() == [2.5, -np.inf, 0.75, -np.inf]
    raw = score(base, counter, 0.5, 0.5, "raw")
    assert raw.tolist() == [2.5, 1.5, 0.75, -np.inf]


def test_what_is_left_out_lies_below_the_floor():
    base = np.array([3, 1, 2, 0.5], np.float32)
    assert floor_of(base, np.array([0, 2])) == np.nextafter(np.float32(1), np.float32(2))
    assert floor_of(base, np.array([0, 1, 2, 3])) == -np.inf
    assert floor_of(base.tolist(), np.array([0])) == np.nextafter(2.0, 3.0)


def test_every_logit_must_be_finite():
    check_finite(np.zeros((2, 3)), "token 1")
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(NumericalError, match="token 4"):
            check_finite(np.array([[0.0, bad]]), "token 4")


def test_nothing_is_mutated():
    views = np.random.default_rng(0).normal(size=(2, 40))
    base, counter = views.copy()
    score(base, counter, 2.0, 0.1)
    flip_points(base, counter, 0.1)
    kept_candidates([base, counter], 3, plausibility_threshold(base, 0.9), chosen=1)
    np.testing.assert_array_equal([base, counter], views)
    with pytest.raises(ValueError, match="differ in shape"):
        score(np.zeros(3), np.zeros(4), 1, 0.1)


def large_views(seed, size=20_000):
    """Logits of two views, related as a model's are; rounded coarsely, so that there are ties."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=size) * 3 - 12 * (seed % 2)  # the raw head with a negative maximum too
    counter = base + rng.normal(size=size) * 1.5
    step = (1e-6, 0.125, 0.5)[seed % 3]
    return (np.round(z / step).astype(np.float32) * np.float32(step) for z in (base, counter))


@pytest.mark.parametrize("seed", range(3))
def test_the_choice_among_the_candidates_is_that_of_the_whole_vocabulary(seed):
    base, counter = large_views(seed)
    ids = kept_candidates([base, counter], 8, plausibility_threshold(base, 1.0), int(base.argmax()))
    assert len(ids) < 2000
    found = winners(base, counter)
    assert set(found) <= set(ids)
    betas = [0.0, *np.exp(np.linspace(-60, 0, 25))]
    betas += np.linspace(0.01, 1, 25).tolist()
    for alpha in (0.0, 1e-3, *np.linspace(0.05, 20, 25)):
        for beta in betas:
            for rule in ("probability", "raw"):
                s = score(base, counter, alpha, beta, rule)
                best = int(s.argmax())
                among = score(base[ids], counter[ids], alpha, beta, rule)
                assert ids[int(among.argmax())] == best
                assert set(np.flatnonzero(s == s.max())) <= set(found)
