"""What the ascent climbs: the question's loss, the own answer's, or its margin."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from macd_studio.core.errors import OptionError
from macd_studio.core.macd import finalize_ascent, query_loss
from macd_studio.core.masking.ascent import OwnAnswer, ascend, objective_loss
from macd_studio.core.masking.composite import mask_compositor
from macd_studio.core.methods import METHODS
from macd_studio.core.options import AscentOptions, MaskOptions, RunOptions, options_from
from macd_studio.core.run.order import run_method
from macd_studio.core.types import MaskSet
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.measured import measured_changes, measured_levels
from tests.fakes import FOUND, ByteLM, a_view, clip
from tests.families import tiny

ANSWER = OwnAnswer((7, 19, 3), 11)


def stepped_loss(lm, encoded, video, tokens):
    """Mean negative log likelihood of the tokens, one after the other through the cache."""
    state, total = lm.prefill(encoded, video), 0.0
    for i, token in enumerate(tokens):
        total -= float(torch.log_softmax(state.logits[0].double(), -1)[token])
        if i + 1 < len(tokens):
            state = lm.step(lm.select(state, [0]), [token])
    return total / len(tokens)


@pytest.mark.parametrize("family", ["bytes", "qwen2_5_vl", "qwen3_vl", "internvl", "smolvlm"])
def test_the_answer_s_loss_is_that_of_decoding_it(family):
    lm = ByteLM() if family == "bytes" else tiny(family)
    encoded = lm.encode(clip(size=64), "is it?")
    loss = objective_loss(lm, encoded, encoded.video, "answer", lambda: ANSWER)
    expected = stepped_loss(lm, encoded, encoded.video, ANSWER.tokens)
    assert float(loss) == pytest.approx(expected, abs=2e-5)
    shared = objective_loss(lm, encoded, encoded.video, "answer", lambda: ANSWER,
                            reuse=lm.prefill(encoded, encoded.video))  # fmt: skip
    assert float(shared) == pytest.approx(expected, abs=2e-5)
    margin = objective_loss(lm, encoded, encoded.video, "margin", lambda: ANSWER)
    logits = lm.prefill(encoded, encoded.video).logits[0]
    assert float(margin) == pytest.approx(float(logits[11] - logits[7]), abs=2e-5)


def test_the_query_s_loss_needs_no_answer():
    lm = ByteLM()
    encoded = lm.encode(clip(), "is it?")
    loss = objective_loss(lm, encoded, encoded.video)
    assert float(loss) == float(query_loss(lm, encoded, encoded.video))
    with pytest.raises(ValueError, match="own answer"):
        objective_loss(lm, encoded, encoded.video, "margin")


def a_context(options=None):
    lm = ByteLM(seed=5)
    encoded = lm.encode(clip(), "is there a dog?")
    return MethodContext(lm, encoded, tuple(FOUND), options or RunOptions())


def test_the_own_answer_is_what_plain_decoding_says():
    context = a_context()
    plain = run_method(context, METHODS["baseline"])
    own = context.own_answer()
    said = [t.token for t in plain.tokens if t.token not in context.lm.end_tokens]
    assert list(own.tokens) == said
    first = plain.tokens[0]
    assert own.runner_up == next(int(c) for c in first.candidates if c != first.token)


def test_the_option_and_the_named_methods_are_one():
    for objective in ("answer", "margin"):
        options = RunOptions(ascent=AscentOptions(objective=objective))
        by_option = run_method(a_context(options), METHODS["macd"])
        by_name = run_method(a_context(), METHODS[f"macd-{objective}"])
        assert by_option.second_views[0].view == by_name.second_views[0].view
        assert by_option.text == by_name.text
        steps = a_context(options).ascent(MaskOptions())
        query = a_context().ascent(MaskOptions())
        assert not np.allclose(steps[0].gradient, query[0].gradient)


def test_levels_come_from_shares_of_the_largest_change():
    r0 = 0.75
    assert measured_levels(np.array([4.0, 2.0, 1.9, 0.4, 0.39]), r0).tolist() == [1, 1, r0, r0, 0]
    assert measured_levels(np.array([9e-4, 1e-4]), r0).tolist() == [0, 0]
    assert measured_levels(np.zeros(0), r0).tolist() == []


@pytest.mark.parametrize("count", [1, 2, 11])
def test_the_change_is_measured_with_one_object_masked_at_a_time(count):
    lm = ByteLM(seed=3)
    encoded = lm.encode(clip(), "which animal is there?")
    found = tuple(
        replace(FOUND[i % 2], id=i, boxes=FOUND[i % 2].boxes * (1 - 0.03 * i)) for i in range(count)
    )
    context = MethodContext(lm, encoded, found, RunOptions())
    change = measured_changes(context)
    masks = context.masks(MaskOptions(frame_mask="off"))
    plain = torch.log_softmax(lm.prefill(encoded, encoded.video).logits[0].double(), -1)
    for k in range(count):
        alone = torch.zeros(count, dtype=torch.float64)
        alone[k] = 1
        video = masks.video(alone, torch.zeros(2))
        other = torch.log_softmax(lm.prefill(encoded, video).logits[0].double(), -1)
        assert change[k] == pytest.approx(float((plain.exp() * (plain - other)).sum()), rel=1e-5)
    assert (change > 0).all()


def test_only_the_offered_answers_count_where_a_question_offers_some():
    lm = ByteLM(seed=3)

    def change(question, **options):
        context = MethodContext(lm, lm.encode(clip(), question), FOUND, RunOptions(**options))
        views = context.masks(MaskOptions(frame_mask="off"))
        alone = [views.video(torch.eye(2, dtype=torch.float64)[k], torch.zeros(2)) for k in (0, 1)]
        logits = [
            lm.prefill(context.encoded, v).logits[0].double()
            for v in (context.encoded.video, *alone)
        ]
        return measured_changes(context), logits

    for question, options, words in (
        ("is there a dog?", {}, "YyNn"),
        ("which animal?", {"choices": ("dog", "cat", "horse")}, "DdCcHh"),
    ):
        measured, logits = change(question, **options)
        tokens = sorted(ord(letter) for letter in words)
        plain, *others = (torch.log_softmax(z[tokens], 0) for z in logits)
        expected = [float((plain.exp() * (plain - z)).sum()) for z in others]
        assert measured == pytest.approx(expected, rel=1e-5)


def test_max_applies_each_strength_once_and_shares_tied_gradients():
    masks = MaskSet(np.ones((2, 4, 16, 16), np.float32), np.zeros((4, 16, 16), np.float32))
    encoded = ByteLM().encode(clip(), "is it?")
    view = mask_compositor(encoded, masks, FOUND, MaskOptions(), torch.float64)
    r = torch.full((2,), 0.75, dtype=torch.float64, requires_grad=True)
    mask = view.mask(r, torch.zeros(2))
    assert mask.detach().unique().tolist() == [0.75]
    (gradient,) = torch.autograd.grad(mask.mean(), r)
    torch.testing.assert_close(gradient, torch.full((2,), 0.5, dtype=torch.float64))


def test_tiny_gradients_still_decide_a_level():
    lm = ByteLM()
    lm.see *= 1e-9
    (step,) = ascend(lm, a_view(lm, FOUND), AscentOptions())
    assert 0 < np.abs(step.gradient).max() < 1e-7
    assert set(finalize_ascent(step, AscentOptions()).level) <= {0.0, 1.0}


@pytest.mark.parametrize("fusion", ["max", "confidence", "average"])
def test_a_whole_frame_mask_that_takes_the_objects_gradients_is_refused(fusion):
    chosen = MaskOptions(fusion=fusion, frame_mask="whole")
    with pytest.raises(OptionError, match="object gradient is 0") as error:
        RunOptions(mask=chosen).check_runnable()
    assert "'or'" in error.value.remedy
    told = RunOptions().as_dict() | {"mask": vars(chosen)}
    with pytest.raises(OptionError, match="object gradient is 0"):
        options_from(told)
    RunOptions(mask=replace(chosen, fusion="or")).check_runnable()
