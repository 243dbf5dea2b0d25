"""The counterfactual view against NumPy and finite differences, on frames that are not square."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from macd_studio.core import macd
from macd_studio.core.masking.ascent import slopes_at_zero
from macd_studio.core.masking.composite import fill_for, mask_compositor, noising
from macd_studio.core.masking.masks import combine_masks
from macd_studio.core.masking.plates import plate_fill
from macd_studio.core.options import FUSIONS, Fill, MaskOptions
from macd_studio.core.types import LOST, MaskSet, Track
from tests.fakes import ByteLM, clip

HEIGHT, WIDTH, FRAMES = 12, 20, 6
GROUPS = ((0, 1), (2, 3), (4, 5))
MEAN, STD = np.array([0.3, 0.5, 0.6]), np.array([0.2, 0.25, 0.4])
CONFIDENCE = (0.9, 0.2, 0.6)


def encoded(size=(HEIGHT, WIDTH)):
    """Random frames, normalised by other figures in each channel."""
    seen = clip(FRAMES)
    frames = np.random.default_rng(1).integers(0, 256, (FRAMES, *size, 3), dtype=np.uint8)
    made = ByteLM().encode(replace(seen, frames=frames), "is it?")
    mean, std = torch.tensor(MEAN), torch.tensor(STD)
    video = (made.video * 0.5 + 0.5 - mean[:, None, None]) / std[:, None, None]
    return replace(made, video=video, mean=mean, std=std)


ENCODED = encoded()


def in_rgb(video):
    """(T, 3, H, W) normalised → [0, 1]."""
    return np.asarray(video) * STD[:, None, None] + MEAN[:, None, None]


def tracks(count):
    boxes, state = np.full((FRAMES, 4), np.nan, np.float32), np.full(FRAMES, LOST, np.int8)
    return [Track(k, "dog", CONFIDENCE[k], boxes, state, 1) for k in range(count)]


def masks(count=3, seed=0):
    rng = np.random.default_rng(seed)
    outside = rng.random((FRAMES, HEIGHT, WIDTH)).astype(np.float32)
    objects = rng.random((count, FRAMES, HEIGHT, WIDTH)).astype(np.float32)
    objects[:, :, :3] = 0  # where nobody is
    return MaskSet(objects, outside)


def compositor(count=3, dtype=torch.float64, **options):
    return mask_compositor(ENCODED, masks(count), tracks(count), MaskOptions(**options), dtype)


def tensors(*values):
    return tuple(torch.tensor(np.asarray(v, np.float64)) for v in values)


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("frame_mask", ["outside", "off"])
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("fusion", FUSIONS)
def test_masks_are_the_numpy_reference_s(fusion, twice, frame_mask, count):
    view = compositor(count, fusion=fusion, frame_mask=frame_mask, strength_twice=twice)
    if not count and frame_mask == "off" and fusion == "max":
        return  # nothing to take a maximum of; `masked_share` does not ask for it
    rng = np.random.default_rng(3)
    for scale in (1.0, 4.0, -4.0):
        level, frame_level = rng.random(count) * scale, rng.random(3) * scale
        expected = combine_masks(
            masks(count), level, frame_level, GROUPS, CONFIDENCE[:count], view.options
        )
        made = view.mask(*tensors(level, frame_level))
        assert made.dtype == torch.float64
        np.testing.assert_allclose(made, expected, atol=2e-6)


@pytest.mark.parametrize("frame_mask", ["outside", "off"])
@pytest.mark.parametrize("fusion", FUSIONS)
def test_many_masks_are_joined_frames_by_frames_alike(fusion, frame_mask, monkeypatch):
    view = compositor(fusion=fusion, frame_mask=frame_mask)
    strengths = [z.requires_grad_() for z in tensors((0.8, 0.3, 0.6), (0.5, 0.9, 0.2))]
    moved = strengths if frame_mask == "outside" else strengths[:1]

    def made():
        mask = view.mask(*strengths)
        weight = torch.arange(mask.numel(), dtype=mask.dtype).reshape(mask.shape)
        return mask.detach(), *torch.autograd.grad((mask * weight).sum(), moved)

    whole = made()
    monkeypatch.setattr(macd, "MAX_JOINED_VALUES", 4 * 3 * HEIGHT * WIDTH)  # four frames, then two
    for one, other in zip(whole, made(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_strengths_are_computed_with_in_the_masks_precision(fusion):
    level = torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64)
    frame_level = torch.tensor([0.3, 0.6, 0.9], dtype=torch.float64)
    exact = compositor(fusion=fusion).mask(level, frame_level)
    single = compositor(fusion=fusion, dtype=torch.float32).mask(level, frame_level)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), exact, atol=1e-6, rtol=0)


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("fusion", FUSIONS)
def test_the_mask_s_gradient_is_its_slope(fusion, twice):
    view = compositor(fusion=fusion, strength_twice=twice)
    weight = torch.rand(view.fill[:, 0].shape, generator=torch.Generator().manual_seed(2)).double()
    at = np.array([0.3, 0.5, 0.8, 0.2, 0.4, 0.6])

    def total(values):
        return (view.mask(values[:3], values[3:]) * weight).sum()

    point = torch.tensor(at, requires_grad=True)
    (gradient,) = torch.autograd.grad(total(point), point)
    for i, h in enumerate(np.eye(6) * 1e-7):
        slope = float(total(torch.tensor(at + h)) - total(torch.tensor(at - h))) / 2e-7
        assert float(gradient[i]) == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_reach_is_what_one_strength_does_alone(fusion):
    view = compositor(fusion=fusion, frame_mask="off")
    for k, alone in enumerate(torch.eye(3, dtype=torch.float64)):
        torch.testing.assert_close(view.per_object_mask[k], view.mask(alone, torch.zeros(3)))
    assert compositor(0, fusion=fusion).per_object_mask.shape == (0, FRAMES, HEIGHT, WIDTH)
    assert not view.per_object_mask[:, :, :3].any()


def test_faint_masks_share_their_outline_too():
    faint = MaskSet(masks().objects * np.float32(1e-7), masks().outside)
    for fusion, weights in (("average", (1, 1, 1)), ("confidence", CONFIDENCE)):
        view = mask_compositor(ENCODED, faint, tracks(3), MaskOptions(fusion=fusion), torch.float64)
        own = faint.objects[:, 0, 5, 5].astype(float)
        expected = own * weights / (own * weights).sum() * own.max()
        np.testing.assert_allclose(view.per_object_mask[:, 0, 5, 5], expected, rtol=1e-6)


def test_frames_that_a_strength_can_change():
    some = masks()
    some.objects[:, :3] = 0
    some.objects[1, 1, 5, 5] = 1e-3
    some.outside[:] = 0
    some.outside[4, 0, 0] = 1e-3
    off = mask_compositor(ENCODED, some, tracks(3), MaskOptions(frame_mask="off"))
    assert off.changed_frames().tolist() == [False, True, False, True, True, True]
    some.objects[:] = 0
    both = mask_compositor(ENCODED, some, tracks(3), MaskOptions())
    assert both.changed_frames().tolist() == [False, False, False, False, True, False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("fill", ["mean", "black", "blur", "noise", "additive"])
def test_pixels_are_blended_in_rgb(fill, dtype):
    view = compositor(fill=fill, dtype=dtype)
    mask = torch.rand((FRAMES, HEIGHT, WIDTH), generator=torch.Generator().manual_seed(4))
    made = view.composite(mask.to(dtype))
    assert (made.shape, made.dtype) == ((FRAMES, 3, HEIGHT, WIDTH), dtype)
    rgb, m = in_rgb(ENCODED.video), np.asarray(mask.double())[:, None]
    if fill == "additive":
        expected = (rgb + m).clip(0, 1)
    else:
        expected = (1 - m) * rgb + m * in_rgb(fill_for(ENCODED, view.options).double())
    np.testing.assert_allclose(in_rgb(made), expected, atol=1e-6)
    levels = tensors([0.3, 0.9, 0.5], [0.2, 0.0, 0.8])
    torch.testing.assert_close(view.video(*levels), view.composite(view.mask(*levels)))


@pytest.mark.parametrize("fill", ["mean", "additive"])
@pytest.mark.parametrize("fusion", FUSIONS)
def test_slopes_at_zero_are_one_sided_differences(fusion, fill):
    view = compositor(fusion=fusion, fill=fill)
    slope = torch.randn(view.fill.shape, generator=torch.Generator().manual_seed(5)).double()
    objects, frames = slopes_at_zero(view, slope)
    (shared, _), h = slopes_at_zero(view, slope, shared=True), 2e-6

    def change(level, frame_level):
        moved = view.video(*tensors(np.array(level) * h, np.array(frame_level) * h))
        return float((slope * (moved - view.video(*tensors(np.zeros(3), np.zeros(3))))).sum()) / h

    for k in range(3):
        one = np.eye(3)[k]
        assert float(objects[k]) == pytest.approx(change(one, [0, 0, 0]), rel=2e-4, abs=1e-3)
        assert float(frames[k]) == pytest.approx(change([0, 0, 0], one), rel=2e-4, abs=1e-3)
        assert float(shared[k]) == pytest.approx(change([1, 1, 1], [0, 0, 0]), rel=2e-4, abs=1e-3)
    off = compositor(fusion=fusion, fill=fill, frame_mask="off")
    alone, none = slopes_at_zero(off, slope)
    torch.testing.assert_close(alone, objects)
    assert none.shape == (0,)
    for empty in (
        slopes_at_zero(compositor(0, fusion=fusion, fill=fill), slope, s) for s in (0, 1)
    ):
        assert empty[0].shape == (0,)
        torch.testing.assert_close(empty[1], frames)


def test_a_white_video_has_no_slope_under_additive_masks():
    white = torch.tensor((1 - MEAN) / STD)[:, None, None].expand_as(ENCODED.video)
    view = replace(compositor(fill="additive"), encoded=replace(ENCODED, video=white))
    objects, frames = slopes_at_zero(view, torch.ones_like(white))
    assert objects.tolist() == frames.tolist() == [0.0, 0.0, 0.0]


def test_a_compositor_holds_masks_and_fill_where_the_model_is():
    view = compositor(dtype=torch.float64)
    assert {z.dtype for z in (view.objects, view.outside, view.weight, view.fill)} == {
        torch.float64
    }
    assert view.group_of.tolist() == [0, 0, 1, 1, 2, 2]
    assert view.group_of.dtype == torch.long
    np.testing.assert_array_equal(view.objects, masks().objects)
    np.testing.assert_array_equal(view.outside, masks().outside)
    assert view.weight.tolist() == list(CONFIDENCE)
    assert view.options == MaskOptions()
    assert view.encoded is ENCODED
    usual = mask_compositor(ENCODED, masks(), tracks(3), MaskOptions(fill="noise"))
    assert {z.dtype for z in (usual.objects, usual.outside, usual.weight, usual.fill)} == {
        torch.float32
    }
    expected = fill_for(ENCODED, MaskOptions(fill="noise")).float()
    assert torch.equal(usual.fill, expected)
    assert compositor(frame_mask="off").outside is None
    assert compositor(frame_mask="whole", fusion="or").outside is not None


def test_plain_fills_by_their_colour():
    for fill, colour in (("mean", MEAN), ("black", np.zeros(3)), ("additive", np.ones(3))):
        made = in_rgb(fill_for(ENCODED, MaskOptions(fill=fill)))
        assert made.shape == (FRAMES, 3, HEIGHT, WIDTH)
        np.testing.assert_allclose(made, np.broadcast_to(colour[:, None, None], made.shape))


def test_a_plate_is_behind_the_masks_and_a_clip_without_objects_is_its_own():
    drawn = masks()
    behind, shares = plate_fill(ENCODED.frames.pixels, drawn.objects)
    view = mask_compositor(ENCODED, drawn, tracks(3), MaskOptions(fill="plate"), torch.float64)
    assert view.uncovered == shares
    assert max(shares) > 0
    np.testing.assert_allclose(in_rgb(view.fill), behind.transpose(0, 3, 1, 2) / 255, atol=1e-6)
    alone = in_rgb(fill_for(ENCODED, MaskOptions(fill="plate")))
    middle = np.median(ENCODED.frames.pixels.astype(float), 0).transpose(2, 0, 1) / 255
    np.testing.assert_allclose(alone, np.broadcast_to(middle, alone.shape), atol=1e-6)
    assert np.abs(alone - in_rgb(view.fill)).max() > 0.1
    assert compositor(fill="mean").uncovered == ()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scaled_noise_is_added_inside_its_masks(dtype):
    drawn = [z.to(dtype) for z in (compositor().objects, compositor().outside)]
    epsilon = torch.randn(ENCODED.video.shape, generator=torch.Generator().manual_seed(6)).to(dtype)
    masked = compositor(fusion="average")
    view = noising(masked, epsilon, *drawn)
    assert view.weight.tolist() == [1.0] * 3
    assert view.fill is masked.fill
    level, frame_level = tensors([0.3, 0.9, 0.5], [0.2, 0.0, 0.8])
    by_frame = frame_level[view.group_of][:, None, None] * drawn[1]
    scale = torch.maximum((level[:, None, None, None] * drawn[0]).amax(0), by_frame)
    made = view.video(level, frame_level)
    assert made.dtype == dtype
    torch.testing.assert_close(
        made, (ENCODED.video + scale[:, None] * epsilon).to(dtype), atol=1e-5, rtol=0
    )
    objects_alone = noising(compositor(), epsilon, drawn[0], None).video(level, frame_level[:0])
    only = (level[:, None, None, None] * drawn[0]).amax(0)[:, None] * epsilon
    torch.testing.assert_close(objects_alone, (ENCODED.video + only).to(dtype), atol=1e-5, rtol=0)


def test_noise_is_even_in_rgb_and_from_its_seed():
    first, again, other = (
        fill_for(ENCODED, MaskOptions(fill="noise", fill_seed=s)) for s in (3, 3, 4)
    )
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert first.dtype == ENCODED.video.dtype
    rgb = in_rgb(first)
    assert rgb.shape == (FRAMES, 3, HEIGHT, WIDTH)
    assert rgb.min() >= 0
    assert rgb.max() <= 1
    for channel in range(3):
        share = np.histogram(rgb[:, channel], 4, (0, 1))[0] / rgb[:, channel].size
        np.testing.assert_allclose(share, 0.25, atol=0.05)
    same = torch.rand(
        ENCODED.video.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64
    )
    np.testing.assert_allclose(rgb, same, atol=1e-12)


@pytest.mark.parametrize("size", [(HEIGHT, WIDTH), (41, 30), (3, 8), (2, 2)])
def test_the_blur_is_a_gaussian_of_a_tenth_of_the_short_side(size):
    seen = encoded(size)
    sigma = 0.1 * min(size)
    reach = max(1, round(2.5 * sigma))
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    expected = np.asarray(seen.video)
    for axis in (2, 3):
        pad = [(0, 0)] * 4
        pad[axis] = (reach, reach)
        padded = np.pad(expected, pad, mode="reflect")
        moved = [padded.take(range(i, i + size[axis - 2]), axis) for i in range(2 * reach + 1)]
        expected = sum(w * z for w, z in zip(weights / weights.sum(), moved, strict=True))
    made = fill_for(seen, MaskOptions(fill="blur"))
    assert made.dtype == seen.video.dtype
    np.testing.assert_allclose(made, expected, atol=1e-12)


@pytest.mark.parametrize("fill", get_args(Fill))
def test_everything_lies_on_the_video_s_device(fill):
    """On torch's device without values, which refuses to be mixed with another one."""
    video, mean, std = (z.to("meta") for z in (ENCODED.video, ENCODED.mean, ENCODED.std))
    away = replace(ENCODED, video=video, mean=mean, std=std)
    view = mask_compositor(away, masks(), tracks(3), MaskOptions(fill=fill))
    parts = view.objects, view.outside, view.weight, view.group_of, view.fill
    assert {z.device.type for z in parts} == {"meta"}
    assert view.video(torch.zeros(3, device="meta"), torch.zeros(3, device="meta")).is_meta


@pytest.mark.parametrize("fill", get_args(Fill))
def test_fills_have_the_video_s_precision(fill):
    single = replace(ENCODED, video=ENCODED.video.float())
    made = fill_for(single, MaskOptions(fill=fill))
    assert made.dtype == torch.float32
    if fill != "noise":  # other numbers are drawn in another precision
        exact = fill_for(ENCODED, MaskOptions(fill=fill)).float()
        torch.testing.assert_close(made, exact, atol=1e-5, rtol=0)
    view = mask_compositor(single, masks(), tracks(3), MaskOptions(fill=fill), torch.float64)
    objects, _ = slopes_at_zero(view, torch.ones_like(single.video))
    assert objects.dtype == torch.float64
