"""Compositing and its gradient, on the fake model."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from macd_studio.core.errors import BlindGradient, OptionError
from macd_studio.core.macd import finalize_ascent, query_loss
from macd_studio.core.masking.ascent import ascend, prefill_base, slopes_at_zero
from macd_studio.core.masking.composite import mask_compositor
from macd_studio.core.masking.masks import combine_masks, draw_masks
from macd_studio.core.options import FUSIONS, AscentOptions, MaskOptions, RunOptions, options_from
from macd_studio.core.types import LOST, SEEN, MaskSet, Track
from tests.fakes import ByteLM, clip


def tracks(*boxes, frames=4):
    state = np.full(frames, SEEN, np.int8)
    return [
        Track(i, "dog", 0.9 - 0.2 * i, np.tile(np.array(b, np.float32), (frames, 1)), state, 8)
        for i, b in enumerate(boxes)
    ]


def a_view(lm, found, **options):
    encoded = lm.encode(clip(), "is it?")
    chosen = MaskOptions(**options)
    masks = draw_masks(found, 4, (16, 16), chosen)
    return mask_compositor(encoded, masks, found, chosen, torch.float64)


LM = ByteLM()
ZERO, ONE = torch.zeros(2), torch.ones(2)
FOUND = tracks((0.1, 0.1, 0.5, 0.5), (0.4, 0.4, 0.9, 0.9))


@pytest.mark.parametrize("fill", ["mean", "black", "blur", "noise", "additive"])
def test_strength_zero_is_the_video_itself(fill):
    view = a_view(ByteLM(), FOUND, fill=fill)
    torch.testing.assert_close(view.video(ZERO, ZERO), view.encoded.video.double())


@pytest.mark.parametrize(("fill", "value"), [("mean", 0.0), ("black", -1.0), ("additive", 1.0)])
def test_full_strength_is_the_fill(fill, value):
    found = tracks((-1, -1, 2, 2))
    found = [replace(t, boxes=np.tile(np.array([0, 0, 1, 1], np.float32), (4, 1))) for t in found]
    view = a_view(ByteLM(), found, fill=fill, pad=0.5)
    assert view.video(ONE[:1], ZERO)[:, :, 8, 8].allclose(torch.tensor(value).double(), atol=1e-2)


def test_the_frame_mask_hides_its_own_frames_only():
    view = a_view(ByteLM(), FOUND)
    mask = view.mask(ZERO, torch.tensor([0.0, 1.0]))
    assert not mask[:2].any()
    torch.testing.assert_close(mask[2:], view.outside[2:])


def test_max_applies_each_strength_once_and_shares_tied_gradients():
    masks = MaskSet(np.ones((2, 4, 16, 16), np.float32), np.zeros((4, 16, 16), np.float32))
    encoded = ByteLM().encode(clip(), "is it?")
    view = mask_compositor(encoded, masks, FOUND, MaskOptions(), torch.float64)
    r = torch.full((2,), 0.75, dtype=torch.float64, requires_grad=True)
    mask = view.mask(r, ZERO)
    assert mask.detach().unique().tolist() == [0.75]
    (gradient,) = torch.autograd.grad(mask.mean(), r)
    torch.testing.assert_close(gradient, torch.full((2,), 0.5, dtype=torch.float64))


def test_other_fusions_average_the_strengths():
    masks = MaskSet(np.ones((2, 4, 16, 16), np.float32), np.zeros((4, 16, 16), np.float32))
    encoded, r = ByteLM().encode(clip(), "is it?"), torch.tensor([1.0, 0.0]).double()
    for fusion, expected in (("average", 0.5), ("confidence", 0.9 / 1.6)):
        view = mask_compositor(encoded, masks, FOUND, MaskOptions(fusion=fusion), torch.float64)
        torch.testing.assert_close(
            view.mask(r, ZERO), torch.full((4, 16, 16), expected, dtype=torch.float64)
        )


@pytest.mark.parametrize("fill", ["mean", "blur", "additive"])
@pytest.mark.parametrize("frame_mask", ["outside", "off"])
def test_the_ascents_gradient_is_the_slope_of_the_loss(fill, frame_mask):
    lm = ByteLM()
    view = a_view(lm, FOUND, fill=fill, frame_mask=frame_mask)
    (step,) = ascend(lm, view, AscentOptions())

    def loss(r):
        with torch.no_grad():
            strengths = torch.as_tensor(r[:2]), torch.as_tensor(r[2:])
            return float(query_loss(lm, view.encoded, view.video(*strengths)))

    at = np.concatenate([step.strength, step.frame_strength])
    found = np.concatenate([step.gradient, step.frame_gradient])
    assert step.loss == pytest.approx(loss(at), abs=1e-12)
    for i in range(len(at)):
        h = np.zeros(len(at))
        h[i] = 1e-6
        # one-sided slopes on either side of the kink of max(); the gradient lies between them
        up, down = (loss(at + h) - loss(at)) / 1e-6, (loss(at) - loss(at - h)) / 1e-6
        assert min(up, down) - 1e-6 <= found[i] <= max(up, down) + 1e-6


def test_steps_climb_and_end_at_levels():
    lm = ByteLM()
    options = AscentOptions(steps=5, eta=0.05)
    steps = list(ascend(lm, a_view(lm, FOUND), options))
    assert [s.index for s in steps] == list(range(5))
    np.testing.assert_allclose(
        steps[1].strength, (steps[0].strength + 0.05 * steps[0].gradient).clip(0, 1)
    )
    assert steps[-1].loss > steps[0].loss
    found = finalize_ascent(steps[-1], options)
    assert set(found.level) <= {0.0, 0.75, 1.0}
    assert np.count_nonzero(found.frame_level) <= 1
    np.testing.assert_allclose(found.margin, found.strength - 0.75)


def test_tiny_gradients_still_decide_a_level():
    lm = ByteLM()
    lm.see *= 1e-9
    (step,) = ascend(lm, a_view(lm, FOUND), AscentOptions())
    assert 0 < np.abs(step.gradient).max() < 1e-7
    assert set(finalize_ascent(step, AscentOptions()).level) <= {0.0, 1.0}


def test_a_loss_blind_to_the_video_is_an_error():
    lm = ByteLM(blind=True)
    with pytest.raises(BlindGradient, match="no mask changes"):
        list(ascend(lm, a_view(lm, FOUND), AscentOptions()))


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("fill", ["mean", "blur"])
def test_slopes_at_zero_are_what_each_strength_does_alone(fusion, fill):
    lm = ByteLM()
    view = a_view(lm, FOUND, fusion=fusion, fill=fill)
    base = prefill_base(lm, view.encoded, AscentOptions(gradient="base"))
    objects, frames = slopes_at_zero(view, base.slope)

    def loss(r, rf):
        return float(query_loss(lm, view.encoded, view.video(r, rf)))

    for k in range(4):
        z = torch.zeros(4, dtype=torch.float64)
        z[k] = 1e-6
        found = (loss(z[:2], z[2:]) - loss(0 * z[:2], 0 * z[2:])) / 1e-6
        assert float(torch.cat([objects, frames])[k]) == pytest.approx(found, rel=1e-3, abs=1e-8)


def test_the_gradient_of_the_base_pass_is_the_steps():
    lm, options = ByteLM(), AscentOptions(gradient="base")
    view = a_view(lm, FOUND)
    base = prefill_base(lm, view.encoded, options)
    (step,) = ascend(lm, view, options, base)
    (alone,) = ascend(lm, view, options)
    low = replace(options, memory="low")
    (slower,) = ascend(lm, view, low, prefill_base(lm, view.encoded, low))
    np.testing.assert_allclose(step.gradient, slopes_at_zero(view, base.slope)[0].numpy())
    np.testing.assert_allclose(step.gradient, alone.gradient)
    np.testing.assert_allclose(step.gradient, slower.gradient)
    assert step.loss == pytest.approx(float(query_loss(lm, view.encoded, view.encoded.video)))
    assert step.strength.tolist() == [0.75, 0.75]
    assert not base.state.query_logits.requires_grad
    with pytest.raises(OptionError, match="same at every step"):
        AscentOptions(gradient="base", steps=3)


def test_touched_frames_are_those_a_mask_reaches():
    found = tracks((0.1, 0.1, 0.5, 0.5))
    boxes = found[0].boxes.copy()
    boxes[:3] = np.nan
    state = np.array([LOST, LOST, LOST, SEEN], np.int8)
    late = [replace(found[0], boxes=boxes, state=state)]
    assert a_view(ByteLM(), late).changed_frames().tolist() == [True] * 4
    off = a_view(ByteLM(), late, frame_mask="off")
    assert off.changed_frames().tolist() == [False, False, False, True]


def test_white_cannot_grow_brighter():
    lm = ByteLM()
    view = a_view(lm, FOUND, fill="additive")
    white = replace(view.encoded, video=torch.ones_like(view.encoded.video))
    view = replace(view, encoded=white)
    base = prefill_base(lm, white, AscentOptions(gradient="base"))
    objects, frames = slopes_at_zero(view, base.slope)
    assert not objects.any()
    assert not frames.any()


@settings(deadline=None)
@given(st.sampled_from(FUSIONS), st.sampled_from(["outside", "whole", "off"]), st.integers(0, 999))
def test_the_numpy_union_is_the_views(fusion, frame_mask, seed):
    rng = np.random.default_rng(seed)
    corner = rng.uniform(-0.1, 0.8, (int(rng.integers(0, 4)), 2))
    boxes = np.concatenate([corner, corner + rng.uniform(0.05, 0.6, corner.shape)], 1).clip(0, 1)
    found = tracks(*boxes)
    if len(found):
        found[0].boxes[2] = np.nan
    view = a_view(LM, found, fusion=fusion, frame_mask=frame_mask)
    masks = draw_masks(found, 4, (16, 16), view.options)
    level, frame_level = rng.uniform(0, 1, len(found)), rng.uniform(0, 1, 2)
    confidence = [t.confidence for t in found]
    groups = view.encoded.groups
    own = combine_masks(masks, level, frame_level, groups, confidence, view.options)
    assert own.shape == (4, 16, 16)
    if not len(found) and frame_mask == "off":
        assert not own.any()
        return
    np.testing.assert_allclose(
        own, view.mask(torch.tensor(level), torch.tensor(frame_level)).numpy(), atol=2e-6
    )
    with pytest.raises(ValueError, match="levels"):
        combine_masks(masks, [*level, 0.5], frame_level, groups, confidence, view.options)


def test_or_hides_what_either_mask_hides():
    masks = MaskSet(np.full((2, 4, 16, 16), 0.5, np.float32), np.ones((4, 16, 16), np.float32))
    encoded = LM.encode(clip(), "is it?")
    chosen = MaskOptions(fusion="or", frame_mask="whole")
    view = mask_compositor(encoded, masks, FOUND, chosen, torch.float64)
    mask = view.mask(torch.tensor([1.0, 0.5]), torch.tensor([0.0, 0.4]))
    assert mask[0, 0, 0] == pytest.approx(1 - 0.5 * 0.75)
    assert mask[2, 0, 0] == pytest.approx(1 - 0.5 * 0.75 * 0.6)


@pytest.mark.parametrize("frame_mask", ["whole", "outside"])
def test_under_or_objects_and_frames_have_the_slopes_of_the_loss(frame_mask):
    view = a_view(LM, FOUND, fusion="or", frame_mask=frame_mask)
    (step,) = ascend(LM, view, AscentOptions())
    found = np.concatenate([step.gradient, step.frame_gradient])
    assert (np.abs(found) > 1e-9).all()

    def loss(r):
        with torch.no_grad():
            strengths = torch.as_tensor(r[:2]), torch.as_tensor(r[2:])
            return float(query_loss(LM, view.encoded, view.video(*strengths)))

    at = np.concatenate([step.strength, step.frame_strength])
    for i, h in enumerate(np.eye(len(at)) * 1e-5):
        slope = (loss(at + h) - loss(at - h)) / 2e-5
        assert found[i] == pytest.approx(slope, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("fusion", ["max", "confidence", "average"])
def test_a_whole_frame_mask_that_takes_the_objects_gradients_is_refused(fusion):
    chosen = MaskOptions(fusion=fusion, frame_mask="whole")
    with pytest.raises(OptionError, match="object gradient is 0") as error:
        RunOptions(mask=chosen).check_runnable()
    assert "'or'" in error.value.remedy
    told = RunOptions().as_dict() | {"mask": vars(chosen)}
    with pytest.raises(OptionError, match="object gradient is 0"):
        options_from(told)
    with pytest.raises(OptionError, match="object gradient is 0"):
        list(ascend(LM, a_view(LM, FOUND, fusion=fusion, frame_mask="whole"), AscentOptions()))
    RunOptions(mask=replace(chosen, fusion="or")).check_runnable()
