"""The ascent against finite differences and clamped steps taken by hand, on the fake model."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from macd_studio.core.errors import BlindGradient, NumericalError, OptionError
from macd_studio.core.macd import empty_counterfactual, finalize_ascent, gradient_at, query_loss
from macd_studio.core.masking.ascent import (
    BasePrefill,
    OwnAnswer,
    ascend,
    objective_loss,
    prefill_base,
    reverse_step,
)
from macd_studio.core.masking.composite import mask_compositor
from macd_studio.core.masking.difference import difference_gradient, losses_by
from macd_studio.core.options import AscentOptions, MaskOptions
from macd_studio.core.types import LOST, AscentStep, MaskSet, Track
from tests.fakes import ByteLM, clip


class RecordingLM(ByteLM):
    """Notes what its passes were asked for."""

    def __init__(self, **options):
        super().__init__(seed=4, **options)
        self.asked, self.prefilled = [], []

    def query_logits(self, encoded, video, low_memory=False, reuse=None, changed_frames=None):
        self.asked.append((low_memory, reuse, changed_frames))
        return super().query_logits(encoded, video)

    def prefill(self, encoded, video, prune=None, reuse=None, graph=False):
        self.prefilled.append((video, reuse, graph))
        state = super().prefill(encoded, video)
        return state if graph else replace(state, query_logits=state.query_logits.detach())


def a_view(lm, count=2, dtype=torch.float64, objects=None, **options):
    """Random masks over the clip; with the fusion "or" everything is smooth."""
    rng = np.random.default_rng(count)
    if objects is None:
        objects = rng.random((count, 4, 16, 16)).astype(np.float32)
    masks = MaskSet(objects, rng.random((4, 16, 16)).astype(np.float32))
    nowhere, lost = np.full((4, 4), np.nan, np.float32), np.full(4, LOST, np.int8)
    tracks = [Track(k, "dog", 0.9, nowhere, lost, 1) for k in range(count)]
    chosen = MaskOptions(**{"fusion": "or", **options})
    return mask_compositor(lm.encode(clip(), "is it?"), masks, tracks, chosen, dtype)


def slopes(loss, at, h=1e-6):
    """Differences of a function of one vector within [0, 1], central but at the bounds."""
    pairs = [(np.minimum(at + d, 1), np.maximum(at - d, 0)) for d in np.eye(len(at)) * h]
    return np.array([(loss(up) - loss(down)) / (up - down).sum() for up, down in pairs])


def loss_at(view, objective="query", own=None, count=2):
    """The loss as a function of all strengths in one vector, on a model of its own."""
    lm = ByteLM(seed=4)

    def loss(values):
        with torch.no_grad():
            r, rf = torch.tensor(values[:count]), torch.tensor(values[count:])
            return float(objective_loss(lm, view.encoded, view.video(r, rf), objective, own))

    return loss


@pytest.mark.parametrize("eta", [0.02, 1e4])
@pytest.mark.parametrize("strengths", ["per-object", "shared"])
def test_steps_follow_the_slope_and_stay_within_bounds(strengths, eta):
    view = a_view(RecordingLM())
    options = AscentOptions(steps=3, eta=eta, r0=0.6, strengths=strengths)
    loss, at = loss_at(view), np.full(4, 0.6)
    steps = list(ascend(view_lm(), view, options))
    assert [s.index for s in steps] == [0, 1, 2]
    for step in steps:
        np.testing.assert_allclose(step.strength, at[:2], atol=1e-7)
        np.testing.assert_allclose(step.frame_strength, at[2:], atol=1e-7)
        assert step.loss == pytest.approx(loss(at), abs=1e-8)
        found = slopes(loss, at)
        if strengths == "shared":
            found[:2] = found[:2].sum()
        np.testing.assert_allclose(step.gradient, found[:2], atol=1e-6)
        np.testing.assert_allclose(step.frame_gradient, found[2:], atol=1e-6)
        at = np.clip(at + eta * np.concatenate([step.gradient, step.frame_gradient]), 0, 1)
        for z in (step.strength, step.gradient, step.frame_strength, step.frame_gradient):
            assert z.dtype == np.float64
    if eta == 1e4:
        assert set(at) == {0.0, 1.0}


@pytest.mark.parametrize("fusion", ["max", "average", "confidence"])
def test_a_strength_at_0_has_the_slope_with_which_it_would_grow(fusion):
    """At 0 its layer ties with all that is not masked; a maximum would give it no gradient."""
    discs = np.zeros((2, 4, 16, 16), np.float32)
    discs[0, :, :8], discs[1, :, 8:] = 1, 1
    view = a_view(RecordingLM(), objects=discs, fusion=fusion, frame_mask="off")
    lm = ByteLM(seed=4)
    r = torch.tensor([0.0, 0.6], dtype=torch.float64)
    _, g, _ = gradient_at(view, lambda video: objective_loss(lm, view.encoded, video), r, r[:0])
    up = r + torch.tensor([1e-4, 0.0])
    with torch.no_grad():
        low, high = (float(objective_loss(lm, view.encoded, view.video(z, r[:0]))) for z in (r, up))
    assert g[0] == pytest.approx((high - low) / 1e-4, rel=1e-2)
    assert g[0] != 0


def view_lm():
    return RecordingLM()


@pytest.mark.parametrize("objective", ["answer", "margin"])
def test_other_objectives_are_climbed_too(objective):
    view, own = a_view(RecordingLM()), lambda: OwnAnswer((7, 19, 3), 11)
    (step,) = ascend(view_lm(), view, AscentOptions(objective=objective), own_answer=own)
    loss, at = loss_at(view, objective, own), np.full(4, 0.75)
    assert step.loss == pytest.approx(loss(at), abs=1e-8)
    found = slopes(loss, at)
    np.testing.assert_allclose(step.gradient, found[:2], atol=1e-6)
    np.testing.assert_allclose(step.frame_gradient, found[2:], atol=1e-6)


def test_without_objects_or_frame_mask_there_is_only_the_other():
    frames = a_view(RecordingLM(), 0)
    (step,) = ascend(view_lm(), frames, AscentOptions())
    assert step.strength.shape == step.gradient.shape == (0,)
    found = slopes(loss_at(frames, count=0), np.full(2, 0.75))
    np.testing.assert_allclose(step.frame_gradient, found, atol=1e-6)
    objects = a_view(RecordingLM(), 2, frame_mask="off")
    (step,) = ascend(view_lm(), objects, AscentOptions())
    assert step.frame_strength.shape == step.frame_gradient.shape == (0,)
    np.testing.assert_allclose(step.gradient, slopes(loss_at(objects), np.full(2, 0.75)), atol=1e-6)


def test_the_model_is_asked_for_what_the_options_say():
    lm = view_lm()
    view = a_view(lm)
    list(ascend(lm, view, AscentOptions(steps=2)))
    assert lm.asked == [(False, None, None)] * 2
    assert lm.prefilled == []
    list(ascend(lm, view, AscentOptions(memory="low")))
    assert lm.asked[2:] == [(True, None, None)]
    base = BasePrefill(lm.prefill(view.encoded, view.encoded.video))
    (step,) = ascend(lm, view, AscentOptions(), base)
    low, reuse, changed = lm.asked[-1]
    assert not low
    assert reuse is base.state
    assert changed.tolist() == view.changed_frames().tolist()
    assert step.loss == pytest.approx(loss_at(view)(np.full(4, 0.75)))


@pytest.mark.parametrize("objective", ["answer", "margin"])
def test_so_it_is_for_another_objective(objective):
    lm, own = view_lm(), lambda: OwnAnswer((7, 19, 3), 11)
    view, options = a_view(lm), AscentOptions(objective=objective)
    base = BasePrefill(lm.prefill(view.encoded, view.encoded.video))
    (alone,) = ascend(lm, view, replace(options, memory="low"), own_answer=own)
    (shared,) = ascend(lm, view, options, base, own)
    assert lm.asked[0] == (True, None, None)
    low, reuse, changed = lm.asked[1]
    assert not low
    assert reuse is base.state
    assert changed.tolist() == view.changed_frames().tolist()
    assert alone.loss == shared.loss


def test_a_loss_reads_as_it_is_asked_to():
    lm, own = view_lm(), lambda: OwnAnswer((7, 19, 3), 11)
    encoded = a_view(lm).encoded
    reuse, changed = object(), torch.tensor([True, False, True, False])
    for objective in ("query", "answer", "margin"):
        objective_loss(lm, encoded, encoded.video, objective, own, True, reuse, changed)
        assert lm.asked.pop() == (True, reuse, changed)
        objective_loss(lm, encoded, encoded.video, objective, own)
        assert lm.asked.pop() == (False, None, None)
    with torch.no_grad():
        logits = lm.query_logits(lm.continue_prompt(encoded, (7,)), encoded.video)
        margin = objective_loss(lm, encoded, encoded.video, "margin", own)
    assert float(margin) == pytest.approx(float(logits[0, 11] - logits[0, 7]))


def batches(lm):
    """Of each pass over several videos what it reuses."""
    return [reuse for video, reuse, _ in lm.prefilled if video.ndim == 5]


@pytest.mark.parametrize("strengths", ["per-object", "shared"])
@pytest.mark.parametrize("h", [0.1, 0.3])
def test_by_reading_alone_steps_follow_the_differences(strengths, h):
    lm, read = view_lm(), []
    view = a_view(lm)
    options = AscentOptions(
        steps=2, eta=0.5, gradient="difference", difference_step=h, strengths=strengths
    )
    base = BasePrefill(lm.prefill(view.encoded, view.encoded.video))
    lm.prefilled.clear()
    steps = list(ascend(lm, view, options, base, between_reads=lambda: read.append(1)))
    assert {id(reuse) for reuse in batches(lm)} == {id(base.state)}
    assert len(read) == len(batches(lm)) > 2
    assert lm.asked == []
    loss = losses_by(ByteLM(seed=4), view.encoded)
    at = np.full(4, 0.75)
    for step in steps:
        r, rf = torch.tensor(at[:2]), torch.tensor(at[2:])
        value, g, gf = difference_gradient(view, loss, r, rf, h, strengths == "shared")
        assert step.loss == pytest.approx(value, abs=1e-9)
        np.testing.assert_allclose(step.gradient, g, atol=1e-9)
        np.testing.assert_allclose(step.frame_gradient, gf, atol=1e-9)
        assert np.concatenate([step.gradient, step.frame_gradient]).any()
        at = np.clip(at + 0.5 * np.concatenate([step.gradient, step.frame_gradient]), 0, 1)
    assert len(steps) == 2
    lm.prefilled.clear()
    list(ascend(lm, view, options))
    assert set(batches(lm)) == {None}


def test_the_video_is_read_once_and_where_wanted_with_its_slope():
    lm = view_lm()
    encoded, former = a_view(lm).encoded, object()
    plain = prefill_base(lm, encoded, AscentOptions(), former)
    assert plain.slope is None
    assert lm.prefilled == [(encoded.video, former, False)]
    again = prefill_base(lm, encoded, AscentOptions())
    assert lm.prefilled[1][1] is None
    torch.testing.assert_close(again.state.logits, plain.state.logits)

    direct = encoded.video.clone().requires_grad_()
    (expected,) = torch.autograd.grad(query_loss(ByteLM(seed=4), encoded, direct), direct)
    lm.prefilled.clear()
    one = prefill_base(lm, encoded, AscentOptions(gradient="base"), former)
    assert [(graph, reuse) for _, reuse, graph in lm.prefilled] == [(True, None)]
    assert lm.asked == []
    lm.prefilled.clear()
    two = prefill_base(lm, encoded, AscentOptions(gradient="base", memory="low"), former)
    assert [(graph, reuse) for _, reuse, graph in lm.prefilled] == [(False, None)]
    assert lm.prefilled[0][0] is encoded.video
    assert lm.asked == [(True, None, None)]
    for read in (one, two):
        torch.testing.assert_close(read.slope, expected)
        torch.testing.assert_close(read.state.query_logits, plain.state.query_logits)
        assert not read.state.query_logits.requires_grad
    assert not encoded.video.requires_grad


@pytest.mark.parametrize("strengths", ["per-object", "shared"])
def test_the_slope_of_the_plain_video_is_that_at_zero(strengths):
    lm = view_lm()
    view, options = a_view(lm), AscentOptions(gradient="base", strengths=strengths)
    base = prefill_base(lm, view.encoded, options)
    lm.prefilled.clear()
    (step,) = ascend(lm, view, options, base)
    assert lm.prefilled == []
    (alone,) = ascend(lm, view, options)
    loss = loss_at(view)
    found = slopes(loss, np.full(4, 2e-6))
    if strengths == "shared":
        found[:2] = found[:2].sum()
    for made in (step, alone):
        assert made.loss == pytest.approx(loss(np.zeros(4)))
        np.testing.assert_allclose(made.gradient, found[:2], atol=1e-5)
        np.testing.assert_allclose(made.frame_gradient, found[2:], atol=1e-5)
        assert made.gradient.dtype == made.frame_gradient.dtype == np.float64
        assert made.strength.tolist() == [0.75, 0.75]
    single = a_view(view_lm(), dtype=torch.float32)
    (made,) = ascend(view_lm(), single, options)
    assert made.gradient.dtype == made.frame_gradient.dtype == np.float64


def test_a_loss_that_nothing_moves_is_an_error():
    nothing = np.zeros((2, 4, 16, 16), np.float32)
    for view in (
        a_view(view_lm(), objects=nothing, frame_mask="off"),
        a_view(view_lm(), 0, frame_mask="off", fusion="max", objects=nothing[:1]),
    ):
        with pytest.raises(BlindGradient, match="no mask changes"):
            list(ascend(view_lm(), view, AscentOptions()))

    class Detached(RecordingLM):
        def query_logits(self, *args, **options):
            return super().query_logits(*args, **options).detach()

    with pytest.raises(BlindGradient, match="no mask changes"):
        list(ascend(Detached(), a_view(view_lm()), AscentOptions()))
    # a frame's slope is enough, and so is an object's
    frames = a_view(view_lm(), objects=nothing)
    (step,) = ascend(view_lm(), frames, AscentOptions())
    assert not step.gradient.any()
    assert step.frame_gradient.any()


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_numbers_must_be_finite(where):
    class Broken(RecordingLM):
        steps = 0

        def query_logits(self, encoded, video, *args, **options):
            logits = super().query_logits(encoded, video)
            self.steps += 1
            if self.steps < 2:
                return logits
            # a root has a finite value at 0 and an infinite slope
            return logits * torch.nan if where == "loss" else logits + (0 * logits).sqrt()

    events = ascend(Broken(), a_view(view_lm()), AscentOptions(steps=3))
    assert next(events).index == 0
    with pytest.raises(NumericalError, match="not finite at ascent step 2"):
        next(events)


def test_masks_that_take_every_gradient_are_refused():
    with pytest.raises(OptionError, match="object gradient is 0"):
        list(
            ascend(view_lm(), a_view(view_lm(), fusion="max", frame_mask="whole"), AscentOptions())
        )
    frames = a_view(view_lm(), 0, fusion="max", frame_mask="whole")
    assert len(list(ascend(view_lm(), frames, AscentOptions()))) == 1
    off = replace(a_view(view_lm(), fusion="max", frame_mask="whole"), outside=None)
    assert len(list(ascend(view_lm(), off, AscentOptions()))) == 1


STEP = AscentStep(
    0,
    1.0,
    np.array([0.5, 0.5, 0.5, 0.95, 0.02]),
    np.array([1.0, -1.0, 0.0, 2.0, -2.0]),
    np.array([0.5, 0.5, 0.9, 0.1]),
    np.array([1.0, 2.0, 3.0, -3.0]),
)


def test_the_last_step_ends_at_levels():
    options = AscentOptions(eta=0.1, r0=0.5, tau=0.05, frame_fraction=0.5)
    ended = finalize_ascent(STEP, options)
    np.testing.assert_allclose(ended.strength, [0.6, 0.4, 0.5, 1.0, 0.0])
    np.testing.assert_allclose(ended.margin, [0.1, -0.1, 0.0, 0.5, -0.5])
    assert ended.level.tolist() == [1, 0, 0.5, 1, 0]
    np.testing.assert_allclose(ended.frame_strength, [0.6, 0.7, 1.0, 0.0])
    np.testing.assert_allclose(ended.frame_margin, [0.1, 0.2, 0.5, -0.5])
    assert ended.frame_level.tolist() == [0, 1, 1, 0]
    assert ended.base_loss is None
    assert ended.loss is None
    raw = finalize_ascent(STEP, replace(options, levels="continuous"))
    np.testing.assert_allclose(raw.level, ended.strength)


def test_a_reversed_step_descends():
    turned = reverse_step(STEP)
    np.testing.assert_array_equal(turned.gradient, -STEP.gradient)
    np.testing.assert_array_equal(turned.frame_gradient, -STEP.frame_gradient)
    np.testing.assert_array_equal(turned.strength, STEP.strength)
    assert (turned.index, turned.loss) == (0, 1.0)


def test_nothing_to_mask_has_no_levels():
    empty = empty_counterfactual()
    for name in ("strength", "margin", "level", "frame_strength", "frame_margin", "frame_level"):
        assert getattr(empty, name).shape == (0,)
    assert empty.loss is None
