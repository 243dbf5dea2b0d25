"""Fewer candidates of each token: every choice at every α and β stays what it was."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.decoding.contrast import floor_of, kept_candidates, score
from macd_studio.core.measurements import Evidence, Target
from macd_studio.core.traces.write import drop_candidates
from macd_studio.core.types import Answer, TokenStep
from tests.small_trace import small_trace

WORDS = 3000


def drawn(seed, index, two):
    """A step over a drawn vocabulary, and the logits of all of it."""
    rng = np.random.default_rng(seed)
    base = rng.normal(0, 2, WORDS).astype(np.float32)
    other = (base + rng.normal(0, 1, WORDS)).astype(np.float32)
    views = (base, other) if two else (base,)
    chosen = int(base.argmax())
    ids = kept_candidates(views, 256, -np.inf, chosen)
    step = TokenStep(
        index=index, token=chosen, text="t", candidates=ids,
        texts=tuple(f"t{i}" for i in ids), base=base[ids], base_log_z=0.0,
        others=(other[ids],) if two else (), others_log_z=(0.0,) if two else (),
        floor=floor_of(base, ids),
    )  # fmt: skip
    return step, base, other


@pytest.fixture(scope="module")
def drawn_trace():
    """A trace with two answers of twelve drawn tokens, and the logits of the second's."""
    steps = [drawn(i, i, True) for i in range(12)]
    plain = tuple(drawn(100 + i, i, False)[0] for i in range(12))
    trace = replace(
        small_trace(),
        answers={
            "baseline": Answer("baseline", "t", plain, True),
            "macd": Answer("macd", "t", tuple(s for s, _, _ in steps), True, 1.0, 0.1),
        },
        evidence=(),
    )
    return trace, steps


@pytest.mark.parametrize("keep", [1, 8, 64])
def test_every_choice_is_that_of_the_whole_vocabulary(drawn_trace, keep):
    trace, whole = drawn_trace
    fewer = drop_candidates(trace, keep)
    for step, (_, base, other) in zip(fewer.answers["macd"].tokens, whole, strict=True):
        for alpha in (0.0, 0.3, 1.0, 2.5, 7.0, 20.0):
            for beta in (0.0, 0.1, 0.5, 1.0):
                expected = score(base, other, alpha, beta, "probability").argmax()
                found = score(step.base, step.others[0], alpha, beta, "probability").argmax()
                assert step.candidates[found] == expected


@pytest.mark.parametrize("keep", [1, 8])
def test_the_floor_says_which_tokens_are_missing(drawn_trace, keep):
    trace, whole = drawn_trace
    fewer = drop_candidates(trace, keep)
    for step, (_, base, _) in zip(fewer.answers["macd"].tokens, whole, strict=True):
        assert set(np.flatnonzero(base >= step.floor)) <= set(step.candidates)
        missing = np.setdiff1d(np.arange(WORDS), step.candidates)
        assert base[missing].max() < step.floor <= np.nextafter(base[missing].max(), np.inf)


def test_the_best_of_each_view_and_what_is_referred_to_stay(drawn_trace):
    trace, whole = drawn_trace
    without = drop_candidates(trace, 4).answers["macd"].tokens[3].candidates
    low, lower = np.setdiff1d(trace.answers["macd"].tokens[3].candidates, without)[:2].tolist()
    target = Target("macd", 3, low, "t", lower, "t")
    fewer = drop_candidates(replace(trace, evidence=(Evidence(target, (0.0, 0.0), (), ()),)), 4)
    for i, step in enumerate(fewer.answers["macd"].tokens):
        assert len(step.candidates) == len(step.texts) == len(step.base) == len(step.others[0]) < 60
        assert all(t == f"t{c}" for c, t in zip(step.candidates, step.texts, strict=True))
        _, base, other = whole[i]
        np.testing.assert_array_equal(step.base, base[step.candidates])
        np.testing.assert_array_equal(step.others[0], other[step.candidates])
        assert {*np.argsort(-base)[:4], *np.argsort(-other)[:4]} <= set(step.candidates)
    assert {low, lower} <= set(fewer.answers["macd"].tokens[3].candidates)
    assert all(len(s.candidates) <= 6 for s in fewer.answers["baseline"].tokens)


def test_the_token_of_another_answer_stays(drawn_trace):
    trace, _ = drawn_trace
    plain, macd = trace.answers["baseline"], trace.answers["macd"]
    without = drop_candidates(trace, 4).answers["macd"].tokens[5].candidates
    token = int(np.setdiff1d(macd.tokens[5].candidates, without)[0])
    changed = tuple(replace(s, token=token) if s.index == 5 else s for s in plain.tokens)
    trace = replace(trace, answers={"baseline": replace(plain, tokens=changed), "macd": macd})
    # the headline says how the baseline's token moves under the mask
    assert token in drop_candidates(trace, 4).answers["macd"].tokens[5].candidates


def test_nothing_changes_where_few_are_held(drawn_trace):
    trace, _ = drawn_trace
    same = drop_candidates(trace, WORDS)
    for name, answer in trace.answers.items():
        for one, two in zip(answer.tokens, same.answers[name].tokens, strict=True):
            assert one is two
