"""Plates: what is behind an object is what other frames show there, and the rest is told."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from macd_studio.core.masking.composite import mask_compositor
from macd_studio.core.masking.masks import draw_masks
from macd_studio.core.masking.plates import TELL_FROM, plate_fill, plate_warnings
from macd_studio.core.options import MaskOptions
from macd_studio.core.types import SEEN, Clip, Track
from tests.fakes import ByteLM

SIZE = 48
RNG = np.random.default_rng(3)
SCENE = RNG.integers(40, 200, (SIZE, SIZE, 3), dtype=np.uint8)


def squares(*places, side=10):
    """A clip of the scene with squares, and their hard masks (K, T, H, W). places: (K, T, 2)."""
    frames = np.repeat(SCENE[None], len(places[0]), 0)
    masks = np.zeros((len(places), len(frames), SIZE, SIZE), np.float32)
    for k, way in enumerate(places):
        for t, (x, y) in enumerate(way):
            frames[t, y : y + side, x : x + side] = (255, 10 * k, 0)
            masks[k, t, y : y + side, x : x + side] = 1
    return frames, masks


def test_behind_what_moves_lies_the_scene():
    frames, masks = squares([(2 + 12 * t, 5) for t in range(4)], [(5, 30)] * 2 + [(30, 30)] * 2)
    fill, shares = plate_fill(frames, masks)
    assert shares == (0.0, 0.0)
    np.testing.assert_array_equal(fill, np.repeat(SCENE[None], 4, 0).astype(np.float32))


def test_the_median_is_over_frames_without_the_object_alone():
    """The scene is lighter in the frame that the object uncovers, which alone counts there."""
    frames, masks = squares([(5, 5), (5, 5), (5, 5), (30, 30)])
    frames[3] = np.clip(frames[3].astype(int) + 20, 0, 255).astype(np.uint8)
    frames[0, 30:40, 30:40] = 0  # the median of the other three frames there is not moved by it
    fill, _ = plate_fill(frames, masks)
    np.testing.assert_array_equal(fill[3, 30:40, 30:40], SCENE[30:40, 30:40].astype(np.float32))
    np.testing.assert_array_equal(fill[0, 5:15, 5:15], frames[3, 5:15, 5:15].astype(np.float32))
    middle = np.median(frames[:, 40:, :5].astype(float), 0)
    np.testing.assert_array_equal(fill[1, 40:, :5], middle)


def test_what_is_never_uncovered_is_told_and_continued_from_around():
    frames, masks = squares([(20, 20)] * 2, [(2 + 4 * t, 2) for t in range(2)])
    frames[:] = 90
    frames[masks.any(0)] = 255
    fill, shares = plate_fill(frames, masks)
    assert shares == (1.0, pytest.approx(0.6))  # 4 of 10 columns are uncovered each way
    np.testing.assert_allclose(fill, 90, atol=5)
    alone, _ = plate_fill(frames, np.ones((1, 2, SIZE, SIZE), np.float32))
    assert (alone == 127.5).all()


def test_a_plate_shows_no_object_where_another_one_stands_at_other_times():
    """One square takes another's place, and once lies over it: the scene there is not known."""
    frames, masks = squares([(20, 20), (20, 20), (2, 30)], [(2, 2), (20, 20), (20, 20)])
    frames[:] = 90
    frames[:2, 20:30, 20:30], frames[2, 20:30, 20:30] = (255, 0, 0), (0, 0, 255)
    fill, shares = plate_fill(frames, masks)
    assert shares == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    np.testing.assert_allclose(fill, 90, atol=5)


def test_masks_by_the_compositor_show_the_scene_and_keep_the_gradient():
    """r = 1 on every object is the clip without them; the slope of r is that of the blend."""
    frames, _ = squares([(2 + 12 * t, 5) for t in range(4)])
    times = np.arange(4) + 0.5
    clip = Clip(frames, times, frames[:0], np.zeros(0), "x.mp4", "0", 4.0, (SIZE, SIZE))
    encoded = ByteLM().encode(clip, "Is it?")
    boxes = np.array([[(2 + 12 * t) / SIZE, 5 / SIZE, (12 + 12 * t) / SIZE, 15 / SIZE]
                      for t in range(4)], np.float32)  # fmt: skip
    track = Track(1, "x", 0.9, boxes, np.full(4, SEEN, np.int8), 4)
    options = MaskOptions(fill="plate", frame_mask="off", feather=0.002, pad=0.0)
    drawn = draw_masks((track,), 4, (SIZE, SIZE), options)
    view = mask_compositor(encoded, drawn, (track,), options, torch.float64)
    assert view.uncovered == (0.0,)
    r = torch.tensor([1.0], dtype=torch.float64, requires_grad=True)
    video = view.video(r, torch.zeros(len(encoded.groups)))
    rgb = (video.detach() * 0.5 + 0.5) * 255
    scene = torch.from_numpy(SCENE).permute(2, 0, 1).double()
    hidden = view.objects[0] > 0.999
    assert hidden.sum() > 200
    for t in range(4):
        there = hidden[t]
        torch.testing.assert_close(rgb[t][:, there], scene[:, there], atol=0.3, rtol=0)
    (slope,) = torch.autograd.grad(video.sum(), r)
    expected = (view.objects[0][:, None] * (view.fill - encoded.video)).sum()
    assert slope.item() == pytest.approx(expected.item(), rel=1e-6)


def test_a_run_warns_of_what_was_inpainted():
    track = Track(7, "cup", 0.9, np.zeros((1, 4), np.float32), np.full(1, SEEN, np.int8), 1)
    told = list(plate_warnings((0.4, TELL_FROM / 2), (track, replace(track, id=8))))
    assert len(told) == 1
    assert "40% of what object 7 (cup) hides" in told[0]


def test_a_run_with_plates_by_command_line(tmp_path, capsys):
    """The choice reaches the model: another counterfactual, saved with its recipe, reopened."""
    import macd_studio as macd
    from macd_studio.core.cli.main import main
    from macd_studio.core.system.shipped import assets

    clip, out = assets() / "examples" / "repaired.mp4", tmp_path / "plate.macd"
    assert main(["trace", str(clip), "Which animal is in the video?", "--device", "cpu",
                 "--fill", "plate", "--out", str(out)]) == 0  # fmt: skip
    trace = macd.load(out)
    assert trace.mask.fill == "plate"
    read = trace.model_frames.pixels.astype(int)
    (view,) = trace.answers["macd"].second_views
    changed = np.abs(view.shown.astype(int) - read).max(-1)
    assert changed.max() > 20  # the object was there
    warned = [w for w in trace.warnings if "plate was inpainted" in w]
    assert bool(warned) == ("plate was inpainted" in capsys.readouterr().out)
    again = macd.enough(trace, device="cpu", search=False, keep=("background",))
    assert again.enough[0].fill == "plate"
