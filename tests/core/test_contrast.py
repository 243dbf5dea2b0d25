import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from macd_studio.core.decoding.contrast import (
    check_finite,
    flip_points,
    floor_of,
    floor_of_top,
    kept_candidates,
    log_partition,
    plausibility_mask,
    score,
    winners,
)
from macd_studio.core.errors import NumericalError
from macd_studio.core.macd import cut_floor

sizes = st.integers(1, 40)
logits = st.integers(1, 40).flatmap(
    lambda n: st.tuples(*[arrays(np.float64, n, elements=st.floats(-30, 30, width=32))] * 2)
)
alphas, betas = st.floats(0, 8), st.sampled_from([0.0, 0.0036, 0.1, 0.5, 1.0, 1.2])


@given(logits, betas)
def test_the_head_is_never_empty_and_holds_the_base_argmax(views, beta):
    base, _ = views
    assert plausibility_mask(base, beta)[base.argmax()]


@given(logits, alphas, betas, st.floats(-50, 50))
def test_adding_a_constant_to_both_views_changes_no_choice(views, alpha, beta, constant):
    base, counter = views
    before = score(base, counter, alpha, beta)
    after = score(base + constant, counter + constant, alpha, beta)
    inside = np.isfinite(before) & np.isfinite(after)
    np.testing.assert_allclose(after[inside], before[inside] + constant, atol=1e-9)


@given(logits, alphas, betas)
def test_nothing_is_mutated(views, alpha, beta):
    base, counter = (v.copy() for v in views)
    score(*views, alpha, beta)
    flip_points(*views, beta)
    np.testing.assert_array_equal(views[0], base)
    np.testing.assert_array_equal(views[1], counter)


@given(logits, betas)
def test_alpha_zero_is_the_base_choice(views, beta):
    base, counter = views
    s = score(base, counter, 0.0, beta)
    assert base[s.argmax()] == base.max()


def test_the_head_against_probabilities():
    base = np.random.default_rng(0).normal(size=1000)
    p = np.exp(base - log_partition(base))
    assert p.sum() == pytest.approx(1)
    for beta in (0.0036, 0.1, 0.5, 1.0):
        np.testing.assert_array_equal(
            plausibility_mask(base, beta), p >= beta * p.max() * (1 - 1e-12)
        )


@given(logits, st.sampled_from([0.0, 0.1, 0.5]))
def test_flip_points_agree_with_a_scan(views, beta):
    base, counter = views
    points = flip_points(base, counter, beta, limit=8)
    assert points[0][0] == 0
    assert all(a[0] <= b[0] for a, b in itertools.pairwise(points))
    for alpha in np.linspace(0, 8, 33):
        chosen = [i for a, i in points if a <= alpha][-1]
        s = score(base, counter, alpha, beta)
        assert s[chosen] == pytest.approx(s.max(), abs=1e-6)


def test_stored_candidates_hold_top_head_and_choice():
    rng = np.random.default_rng(1)
    base, counter = rng.normal(size=(2, 5000))
    ids = kept_candidates([base, counter], 256, cut_floor(base, 0.9), chosen=17)
    assert set(np.argsort(-base)[:256]) <= set(ids)
    assert set(np.argsort(-counter)[:256]) <= set(ids)
    assert set(np.flatnonzero(plausibility_mask(base, 0.9))) <= set(ids)
    assert 17 in ids
    assert (np.diff(base[ids]) <= 0).all()


def test_a_logit_that_is_not_finite_names_its_place():
    with pytest.raises(NumericalError, match="token 3"):
        check_finite(np.array([1.0, np.nan]), "token 3")
    with pytest.raises(ValueError, match="differ in shape"):
        score(np.zeros(3), np.zeros(4), 1, 0.1)


def test_large_vocabularies_and_a_single_token():
    rng = np.random.default_rng(0)
    base, counter = rng.normal(size=(2, 152_000)).astype(np.float32) * 4
    s = score(base, counter, 2.6, 0.0036)
    assert np.isfinite(s[base.argmax()])
    assert np.isfinite(s).sum() == plausibility_mask(base, 0.0036).sum() < 152_000
    alone = score(base, counter, 2.6, 1.2)
    assert np.flatnonzero(np.isfinite(alone)).tolist() == [base.argmax()]
    assert score(np.array([3.0]), np.array([-9.0]), 1.0, 1.0).tolist() == [15.0]


def large_views(seed, size=20_000):
    """Logits of two views, related as a model's are; rounded coarsely, so that there are ties."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=size) * 3 - 12 * (seed % 2)  # the raw head with a negative maximum too
    counter = base + rng.normal(size=size) * 1.5
    step = (1e-6, 0.125, 0.5)[seed % 3]
    return (np.round(z / step).astype(np.float32) * np.float32(step) for z in (base, counter))


@pytest.mark.parametrize("seed", range(6))
def test_the_choice_among_the_candidates_is_that_of_the_whole_vocabulary(seed):
    base, counter = large_views(seed)
    ids = kept_candidates([base, counter], 8, cut_floor(base, 1.0), int(base.argmax()))
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


@pytest.mark.parametrize("seed", range(6))
def test_every_winner_wins_somewhere(seed):
    base, counter = (z.astype(float) for z in large_views(seed))
    for token in winners(base, counter):
        rivals = base >= base[token]
        at_most = 21 * base[token] - 20 * counter[token]
        steepest = (21 * base[rivals] - 20 * counter[rivals]).max()
        assert at_most >= steepest - 1e-9 or base[token] == base.max()


def test_the_floor_is_just_above_what_was_left_out():
    base, counter = large_views(2)
    ids = kept_candidates([base, counter], 300, cut_floor(base, 0.1), 17)
    floor = floor_of(base, ids)
    left = np.setdiff1d(np.arange(len(base)), ids)
    assert set(np.flatnonzero(base >= floor)) <= set(ids)
    assert base[left].max() < floor <= np.nextafter(base[left].max(), np.float32(np.inf))
    assert floor_of(base[:5], np.arange(5)) == -np.inf
    # what older traces let a reader know is never more than that
    top = floor_of_top(base[ids], 300)
    assert np.isfinite(top)
    assert set(np.flatnonzero(base >= top)) <= set(ids)
    assert floor_of_top(base[:5], 6) == -np.inf
    assert floor_of_top(base[:5], None) == floor_of_top(base[:5], "6") == np.inf
