import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core.contrast import check_finite, flip_points, head, kept_candidates, log_partition, score
from core.errors import NumericalError

sizes = st.integers(1, 40)
logits = st.integers(1, 40).flatmap(
    lambda n: st.tuples(*[arrays(np.float64, n, elements=st.floats(-30, 30, width=32))] * 2)
)
alphas, betas = st.floats(0, 8), st.sampled_from([0.0, 0.0036, 0.1, 0.5, 1.0, 1.2])


@given(logits, betas)
def test_the_head_is_never_empty_and_holds_the_base_argmax(views, beta):
    base, _ = views
    assert head(base, beta)[base.argmax()]


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
        np.testing.assert_array_equal(head(base, beta), p >= beta * p.max() * (1 - 1e-12))


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
    ids = kept_candidates([base, counter], 256, 0.9, chosen=17)
    assert set(np.argsort(-base)[:256]) <= set(ids)
    assert set(np.argsort(-counter)[:256]) <= set(ids)
    assert set(np.flatnonzero(head(base, 0.9))) <= set(ids)
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
    assert np.isfinite(s).sum() == head(base, 0.0036).sum() < 152_000
    alone = score(base, counter, 2.6, 1.2)
    assert np.flatnonzero(np.isfinite(alone)).tolist() == [base.argmax()]
    assert score(np.array([3.0]), np.array([-9.0]), 1.0, 1.0).tolist() == [15.0]
