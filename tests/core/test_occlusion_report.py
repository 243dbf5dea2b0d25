"""The occlusion report against one slow pass for each object, on the fake model."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import rankdata

from macd_studio.core.errors import OptionError
from macd_studio.core.masking.composite import mask_compositor
from macd_studio.core.masking.masks import draw_masks
from macd_studio.core.options import MaskOptions
from macd_studio.core.types import SEEN, Track
from macd_studio.core.whatif.occlusion import measure, verdict
from tests.fakes import ByteLM, clip

ANSWER = (104, 105, 33)


def a_view(lm, count):
    found = [
        Track(
            k, "dog", 0.9,
            np.tile(np.array([0.1 * k, 0.05 * k, 0.1 * k + 0.3, 0.5], np.float32), (4, 1)),
            np.full(4, SEEN, np.int8), 4,
        )
        for k in range(count)
    ]  # fmt: skip
    encoded, options = lm.encode(clip(), "is it?"), MaskOptions()
    masks = draw_masks(found, 4, (16, 16), options)
    return mask_compositor(encoded, masks, found, options, torch.float64)


def log_softmax(z):
    top = max(z)
    return [x - top - math.log(sum(math.exp(y - top) for y in z)) for x in z]


def read_alone(lm, view, strengths):
    """Query loss, and the log probability of each of the answer's tokens."""
    zero = torch.zeros(2, dtype=torch.float64)
    features = lm._features(view.video(torch.tensor(strengths, dtype=torch.float64), zero))
    prompt = view.encoded.input_ids[0].tolist()
    logits = lm._logits(features, [*prompt, *ANSWER]).tolist()
    follows = [log_softmax(row) for row in logits]
    asked = range(1, len(prompt))
    loss = -sum(follows[i - 1][prompt[i]] for i in asked) / len(asked)
    start = len(prompt) - 1
    return loss, [follows[start + i][token] for i, token in enumerate(ANSWER)]


def log_odds(log_p):
    return math.log(math.exp(log_p) / (1 - math.exp(log_p)))


@pytest.mark.parametrize("count", [1, 3, 9])
def test_every_object_is_masked_alone(count):
    lm = ByteLM(seed=2)
    view = a_view(lm, count)
    base = lm.prefill(view.encoded, view.encoded.video)
    read = [list(tokens) for _, tokens in base.cache]
    rng = np.random.default_rng(0)
    gradient, level = rng.normal(size=count), np.ones(count)
    made = measure(lm, view, base, list(ANSWER), gradient.astype(np.float32), level)
    plain_loss, plain = read_alone(lm, view, [0.0] * count)
    for k in range(count):
        loss, tokens = read_alone(lm, view, np.eye(count)[k])
        assert made.loss_change[k] == pytest.approx(loss - plain_loss, abs=1e-9)
        np.testing.assert_allclose(made.token_change[k], np.subtract(tokens, plain), atol=1e-9)
        odds = log_odds(sum(tokens)) - log_odds(sum(plain))
        assert made.odds_change[k] == pytest.approx(odds, abs=1e-7)
    assert np.abs(made.loss_change).min() > 1e-6
    assert [list(tokens) for _, tokens in base.cache] == read  # left as it was
    np.testing.assert_array_equal(made.gradient, gradient.astype(np.float32))
    assert made.gradient.dtype == np.float64
    if count < 3:
        assert made.correlation is None
    else:
        ranks = np.corrcoef(rankdata(gradient), rankdata(made.loss_change))[0, 1]
        assert made.correlation == pytest.approx(ranks)
        flat = measure(lm, view, base, ANSWER, np.ones(count), level)
        assert flat.correlation is None
    assert made.verdict == verdict(gradient, made.loss_change, level)


def test_masks_that_do_nothing_have_no_correlation():
    lm = ByteLM(blind=True)
    view = a_view(lm, 3)
    base = lm.prefill(view.encoded, view.encoded.video)
    made = measure(lm, view, base, ANSWER, np.arange(3.0), np.zeros(3))
    assert made.correlation is None
    assert not made.loss_change.any()


class Certain(ByteLM):
    """Sure that the clip as it is ends the answer at once."""

    clip_features: torch.Tensor | None = None

    def _logits(self, features, tokens):
        logits = super()._logits(features, tokens)
        if self.clip_features is not None and torch.equal(features, self.clip_features):
            logits[-1, 256] = 1e3
            logits[-2, 256] = 1e3
        return logits


def test_a_certain_answer_has_finite_odds():
    lm = Certain()
    view = a_view(lm, 2)
    base = lm.prefill(view.encoded, view.encoded.video)
    lm.clip_features = lm._features(view.encoded.video)
    made = measure(lm, view, base, [256], np.ones(2), np.ones(2))
    assert np.isfinite(made.odds_change).all()
    # of a probability of 1 the odds are those of 1 − 1e-12
    other = lm.prefill(view.encoded, view.video(torch.tensor([1.0, 0.0]), torch.zeros(2)))
    log_p = float(torch.log_softmax(other.logits[0].double(), -1)[256])
    expected = log_odds(log_p) + math.log(1e-12)
    assert made.odds_change[0] == pytest.approx(expected, rel=1e-4)


def test_there_must_be_objects_and_an_answer():
    lm = ByteLM()
    view = a_view(lm, 1)
    base = lm.prefill(view.encoded, view.encoded.video)
    for shown, answer in ((view, []), (a_view(lm, 0), ANSWER)):
        with pytest.raises(OptionError, match="nothing to measure"):
            measure(lm, shown, base, answer, np.ones(1), np.ones(1))


@pytest.mark.parametrize(
    ("gradient", "change", "level", "start"),
    [
        ([1, -1, 2], [0.5, -0.1, 0.1], [1, 0, 1], "supported: for every object"),
        ([1, -1, 2], [0.5, 0.1, 0.1], [0, 0.75, 0.75], "nothing was hidden; for 2 of 3 objects"),
        ([1, -1], [0.5, 0.1], [1, 0], "supported for what was hidden: the loss rises without it;"
         " for 1 of 2 objects the loss moves the way their gradient says"),
        ([1, 1, -1, -1], [0.5, -0.1, -1, -1], [1, 1, 0, 0], "partly supported: for 3 of 4 objects"),
        ([1, 1, -1], [0.5, 0.0, 1], [1, 1, 0], "not supported: for 1 of 3 objects"),
        ([1, 1], [0.5, -0.1], [1, 1], "not supported: for 1 of 2 objects"),
        ([1], [-0.5], [1], "not supported: for the one object the loss"),
    ],
)  # fmt: skip
def test_the_verdict_by_hand(gradient, change, level, start):
    said = verdict(*(np.array(z, float) for z in (gradient, change, level)))
    assert said.startswith(start)
