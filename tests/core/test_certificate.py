"""Certificates of tokens: no error within the bound changes a certified token; some are not."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macd_studio.core.decoding.certificate import Errors, certify, errors_of
from macd_studio.core.decoding.steps import make_token_step
from macd_studio.core.options import ContrastOptions
from macd_studio.core.repeats import Repeats
from macd_studio.core.rules import RULES, Linear, Plain, score_token
from macd_studio.core.token_logits import NextTokenLogits
from macd_studio.core.types import Answer, StepWeights

E = 0.01
BOTH = Errors(E, E)
WITHIN = 1 - 1e-5
"""Of an error: steps are stored in float32."""
APART = (Errors(0.01, 0.3), Errors(0.2, 0.01), Errors(0.05, 8.0))


def log_softmax(z):
    z = np.asarray(z, np.float64)
    return z - np.log(np.exp(z - z.max()).sum()) - z.max()


def step_of(base, others, rule, keep=3, told=None):
    """The greedy token of these views. told: the server tells of so many only."""
    base, others = log_softmax(base), [log_softmax(z) for z in others]
    row = NextTokenLogits(base, log_z=0.0)
    ids = np.argsort(-base, kind="stable")[:told]
    if told is not None:
        row = NextTokenLogits(base[ids], ids, float(base[ids].min()), 0.0)
    seconds = [NextTokenLogits(z if told is None else z[ids], row.ids, log_z=0.0) for z in others]
    weights, scores = score_token(rule, row.values, [s.values for s in seconds], 0, None, row.ids)
    token = row.token(int(scores.argmax()))
    return make_token_step(str, 0, token, row, seconds, weights, rule, keep)


def answer_of(rule, name="linear"):
    contrast = rule.constant_contrast or ContrastOptions(0, 0)
    return Answer("macd", "", (), True, contrast.alpha, contrast.beta, contrast.head, name)


@given(
    st.lists(st.floats(-4, 4), min_size=4, max_size=4),
    st.lists(st.floats(-4, 4), min_size=4, max_size=4),
    st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_no_error_within_the_bound_changes_a_certified_token(base, other, alpha, beta):
    rule = Linear(ContrastOptions(alpha, beta))
    step = step_of(base, [other], rule, keep=4)
    if certify(step, answer_of(rule), BOTH) != "certified":
        return
    p, q = log_softmax(base), log_softmax(other)
    for signs in product((-E, E), repeat=8):
        moved, second = p + signs[:4], q + signs[4:]
        _, scores = score_token(rule, moved, [second], 0)
        assert int(scores.argmax()) == step.token


def corners(step, rule, errors, base, other):
    """The tokens that win where every log-probability is off by as much as it may be."""
    for signs in product((-1, 1), repeat=2 * len(base)):
        off = WITHIN * np.array(signs, np.float64).reshape(2, -1)
        moved = log_softmax(base) + errors.video * off[0]
        second = log_softmax(other) + errors.second * off[1]
        _, scores = score_token(rule, moved, [second], 0)
        yield int(scores.argmax())


@given(
    st.sampled_from(APART),
    st.sampled_from([0.5, 1.0, 3.0]),
    st.sampled_from([0.1, 0.5]),
    st.sampled_from(["top", "cut"]),
    st.floats(-5, 5),
    st.floats(-2, 2),
    st.floats(-4, -0.1),
)
def test_no_errors_that_differ_by_view_change_a_certified_token(
    errors, alpha, beta, near, place, gap, third
):
    """Rows on either side of what decides: the best, the cut, and the difference of the scores."""
    rule = Linear(ContrastOptions(alpha, beta))
    below = place * errors.video + (0.0 if near == "top" else np.log(beta))
    spread = 2 * (errors.video * (1 + alpha) + errors.second * alpha)
    base = [0.0, below, third]
    other = [0.0, (gap * spread + (1 + alpha) * below) / alpha, 0.0]
    step = step_of(base, [other], rule)
    if certify(step, answer_of(rule), errors) == "certified":
        assert set(corners(step, rule, errors, base, other)) == {step.token}


@pytest.mark.parametrize("errors", APART)
@pytest.mark.parametrize(
    ("kind", "by", "told"),
    [
        ("scores", 0.95, "close"), ("scores", 1.05, "certified"),
        ("cut", -2.05, "certified"), ("cut", -1.95, "close"),
        ("alone", 0.5, "close"), ("alone", 2.05, "certified"),
    ],
)  # fmt: skip
def test_each_view_counts_with_its_own_error(errors, kind, by, told):
    """kind: scores of two that pass differ by about the bound; one that would win lies about the
    cut, which is the video's alone; nothing else passes, and the video's best may be another.
    """
    if kind == "scores":
        contrast = ContrastOptions(1.0, 0.1)
        base, other = [0.0, 0.0, -40.0], [0.0, by * 2 * (2 * errors.video + errors.second), 0.0]
    elif kind == "cut":
        contrast = ContrastOptions(2.0, 0.5)
        base, other = [0.0, np.log(0.5) + by * errors.video, -40.0], [0.0, -100.0, 0.0]
    else:
        contrast = ContrastOptions(2.0, 1.0)
        base, other = [0.0, -by * errors.video, -40.0], [0.0, 100.0, 0.0]
    rule = Linear(contrast)
    step = step_of(base, [other], rule)
    assert step.token == 0
    assert certify(step, answer_of(rule), errors) == told
    assert (len(set(corners(step, rule, errors, base, other))) == 1) == (told == "certified")


@pytest.mark.parametrize("errors", APART)
@pytest.mark.parametrize(("off", "told"), [(-2.05, "certified"), (-1.95, "head")])
def test_tokens_that_were_not_told_may_pass_within_the_error_of_the_video(errors, off, told):
    rule = Linear(ContrastOptions(2.0, 0.5))
    step = step_of([0.0, -40.0, -40.0], [[0.0, 0.0, 0.0]], rule)
    floor = rule.floor(step.base) + off * errors.video
    assert certify(replace(step, floor=floor), answer_of(rule), errors) == told


@pytest.mark.parametrize("errors", APART)
@pytest.mark.parametrize(("lead", "told"), [(1.95, "close"), (2.05, "certified")])
def test_a_plain_answer_has_the_error_of_the_video(errors, lead, told):
    for told_of in (None, 1):
        step = step_of([0.0, -lead * errors.video, -40.0], [], Plain(), told=told_of)
        if told_of:  # what the server left out lies as far below as it may
            step = replace(step, floor=float(step.base[0]) - lead * errors.video)
        assert certify(step, answer_of(Plain(), "plain"), errors) == told


def test_one_error_holds_of_every_view_where_only_one_was_recorded():
    assert errors_of(0.5, 0.0) == (0.5, 0.5)
    assert errors_of(8.0, 0.05) == (0.05, 8.0)
    assert errors_of(0.0, 0.0) is None


def test_a_token_that_passes_alone_needs_no_second_view():
    rule = Linear(ContrastOptions(1.0, 0.5))
    base = NextTokenLogits(log_softmax([5.0, 0.0, 0.0]), log_z=0.0)
    weights = StepWeights(floor=rule.floor(base.values))
    alone = make_token_step(str, 0, 0, base, [], weights, rule, 3)
    assert certify(alone, answer_of(rule), BOTH) == "certified"
    near = NextTokenLogits(log_softmax([5.0, 5.0 + np.log(0.5) - E, 0.0]), log_z=0.0)
    close = make_token_step(
        str, 0, 0, near, [], StepWeights(floor=rule.floor(near.values)), rule, 3
    )
    assert certify(close, answer_of(rule), BOTH) == "close"


def test_a_head_that_reaches_below_what_was_told_is_not_certified():
    base = np.log([0.5, 0.2, 0.15, 0.1, 0.05])
    flat = [np.zeros(5)]
    for beta, told in ((0.5, "certified"), (0.25, "head"), (0.0, "head")):
        rule = Linear(ContrastOptions(0.2, beta))
        assert certify(step_of(base, flat, rule, told=2), answer_of(rule), BOTH) == told
    # where nothing is contrasted, what was left out cannot win
    plain = step_of(base, [], Plain(), told=2)
    assert certify(plain, answer_of(Plain(), "plain"), BOTH) == "certified"
    tied = step_of(np.log([0.3, 0.3, 0.3, 0.1]), [], Plain(), told=1)
    assert certify(tied, answer_of(Plain(), "plain"), BOTH) == "close"


def test_what_is_drawn_is_certified_only_where_one_token_passes():
    rule = Linear(ContrastOptions(1.0, 0.5))
    one, two = (step_of(z, [[0.0, 0.0, 0.0]], rule) for z in ([9.0, 0, 0], [9.0, 8.9, 0]))
    assert certify(one, answer_of(rule), BOTH, "sample") == "certified"
    assert certify(two, answer_of(rule), BOTH, "sample") == "search"


@pytest.mark.parametrize("name", ["code", "only", "olm"])
def test_rules_whose_weights_move_are_not_certified(name):
    step = step_of([9.0, 0, 0], [[0.0, 0.0, 0.0]], Linear(ContrastOptions(1.0, 0.5)))
    assert certify(step, answer_of(Plain(), name), BOTH) == "rule"
    assert RULES[name].moves_with_views


def test_raw_cuts_and_penalties_are_not_certified():
    rule = Linear(ContrastOptions(1.0, 0.5))
    step = step_of([2.0, 1.9, 0], [[0.0, 0.0, 0.0]], rule)
    raw = replace(answer_of(rule), head="raw")
    assert certify(step, raw, BOTH) == "rule"
    penalised = replace(step, repeats=Repeats(1.1, np.ones(len(step.base), bool)))
    assert certify(penalised, answer_of(rule), BOTH) == "rule"
