import numpy as np
import pytest

from macd_studio.core.decoding.answers import decode
from macd_studio.core.decoding.contrast import score
from macd_studio.core.decoding.steps import answer
from macd_studio.core.errors import NumericalError
from macd_studio.core.options import ContrastOptions, DecodeOptions
from macd_studio.core.rules import Linear
from tests.fakes import ByteLM, clip


@pytest.fixture
def views():
    lm = ByteLM(seed=3)
    encoded = lm.encode(clip(), "is there a dog?")
    return lm, lm.prefill(encoded, encoded.video), lm.prefill(encoded, 0 * encoded.video + 0.9)


def tokens(lm, base, others, alpha=1.0, beta=0.1, **options):
    steps = decode(lm, base, others, Linear(ContrastOptions(alpha, beta)), DecodeOptions(**options))
    return list(steps)


def test_alpha_zero_is_plain_greedy_decoding(views):
    lm, base, *others = views
    plain = [s.token for s in tokens(lm, base, [])]
    assert [s.token for s in tokens(lm, base, others, alpha=0.0)] == plain


def test_contrast_changes_the_answer_and_follows_the_rule(views):
    lm, base, *others = views
    steps = tokens(lm, base, others, alpha=2.6, beta=0.0036)
    assert [s.token for s in steps] != [s.token for s in tokens(lm, base, [])]
    for s in steps:
        best = score(s.base, s.others[0], 2.6, 0.0036).argmax()
        assert s.candidates[best] == s.token


def test_two_rows_equal_two_separate_caches(views):
    lm, base, *others = views
    a, b = base, *others
    for step in tokens(lm, base, others):
        for state, logits, log_z in (
            (a, step.base, step.base_log_z),
            (b, step.others[0], step.others_log_z[0]),
        ):
            alone = state.logits[0].numpy()
            np.testing.assert_allclose(logits, alone[step.candidates], rtol=1e-6)
            assert log_z == pytest.approx(float(state.logits[0].logsumexp(0)))
        a, b = lm.step(a, [step.token]), lm.step(b, [step.token])


def test_prefilled_states_stay_usable(views):
    lm, base, *others = views
    first = [s.token for s in tokens(lm, base, others)]
    assert [s.token for s in tokens(lm, base, others)] == first


def test_the_end_token_is_told_and_left_out_of_the_text(views):
    lm, base, *others = views
    steps = tokens(lm, base, others)
    rule = Linear(ContrastOptions(1.0, 0.1))
    said = answer(lm, "macd", steps, rule)
    assert said.finished
    assert len(said.tokens) == 7
    assert said.text == bytes(s.token for s in steps[:-1]).decode("utf-8", "replace")
    cut = answer(lm, "macd", tokens(lm, base, others, max_tokens=3), rule)
    assert not cut.finished


def test_nan_stops_at_its_token(views):
    lm, base, *others = views
    lm.poison_at = 2
    steps = decode(lm, base, others, Linear(ContrastOptions()), DecodeOptions())
    assert [next(steps).index, next(steps).index] == [0, 1]
    with pytest.raises(NumericalError, match="token 3"):
        next(steps)


def test_a_token_knows_how_deep_its_candidates_go(views):
    lm, base, *others = views
    step = tokens(lm, base, others, keep=4)[0]
    logits = base.logits[0].numpy()
    left = np.setdiff1d(np.arange(len(logits)), step.candidates)
    assert len(left)
    assert logits[left].max() < step.floor <= logits[step.candidates].max()
    assert tokens(lm, base, others, keep=400)[0].floor == -np.inf
