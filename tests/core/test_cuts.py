"""Hard cuts: found from the pictures, and no track crosses one."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.objects.find import find_cuts
from macd_studio.core.objects.track import track
from macd_studio.core.options import RunOptions, TrackOptions, VideoOptions
from macd_studio.core.run.pipeline import run
from macd_studio.core.types import LOST, Clip
from macd_studio.viewer.payload import payload
from tests.core.test_track_parts import seen, square
from tests.fakes import BoxDetector, ByteLM

H, W = 72, 96


def scene(seed):
    """A picture of coloured rectangles on a colour."""
    rng = np.random.default_rng(seed)
    picture = np.full((H, W, 3), rng.integers(0, 256, 3), np.uint8)
    for _ in range(12):
        y, x = rng.integers(0, H - 16), rng.integers(0, W - 16)
        h, w = rng.integers(8, 32, 2)
        picture[y : y + h, x : x + w] = rng.integers(0, 256, 3)
    return picture


def clip_of(pictures, sampled=4, spacing=0.1):
    """A clip of these pictures, each of the sampled ones halfway to the next dense one."""
    dense = np.stack(pictures)
    times = np.arange(len(dense)) * spacing
    picked = np.linspace(0, len(dense) - 1, sampled).round().astype(int)
    return Clip(dense[picked], times[picked], dense, times, "c", "0" * 64, times[-1] + spacing,
                (W, H))  # fmt: skip


def moved(picture, n):
    return np.roll(picture, n, axis=1)


STILL = [scene(1)] * 20
CUT = [scene(1)] * 10 + [scene(2)] * 10


def flash(pictures, at, count=1):
    white = np.full((H, W, 3), 250, np.uint8)
    return [*pictures[:at], *[white] * count, *pictures[at + count :]]


def brighter(picture, by):
    return (picture.astype(int) + by).clip(0, 255).astype(np.uint8)


def panorama():
    return np.concatenate([scene(seed) for seed in range(20)], axis=1)


@pytest.mark.parametrize(
    "pictures",
    {
        "nothing happens": STILL,
        "one picture": STILL[:1],
        "a flash": flash(STILL, 9),
        "a long flash": flash(STILL, 9, 3),
        "a light goes on": [brighter(scene(1) // 2 + 40, 60 * (n > 9)) for n in range(20)],
        "the camera moves": [moved(scene(1), 2 * n) for n in range(20)],
        "the camera moves fast": [moved(scene(1), 9 * n) for n in range(20)],
        "a whip pan": [panorama()[:, 60 * n : 60 * n + W] for n in range(20)],
        "noise": list(np.random.default_rng(0).integers(0, 256, (20, H, W, 3), dtype=np.uint8)),
    }.items(),
    ids=lambda case: case[0],
)
def test_what_is_no_cut(pictures):
    assert find_cuts(clip_of(pictures[1])) == ()


def test_nothing_is_followed_or_joined_across_a_cut():
    times = np.arange(20) * 0.1
    rows = [seen(square("dog", 0.9, 0.3, 0.3)) for _ in times]
    options = TrackOptions(smoothing=0.0)
    at = np.array([0.0, 0.5, 0.93, 0.97, 1.5])
    (one,), _ = track(rows, times, at, options)
    assert (one.state != LOST).all()
    tracks, _ = track(rows, times, at, options, cuts=(0.95,))
    assert [t.label for t in tracks] == ["dog", "dog"]
    assert sorted((t.state != LOST).tolist() for t in tracks) == [
        [False, False, False, True, True],
        [True, True, True, False, False],
    ]


def test_a_picture_just_after_a_cut_is_not_of_the_shot_before():
    times = np.arange(20) * 0.1
    rows = [seen(square("dog", 0.9, 0.3, 0.3)) if i < 10 else seen() for i in range(20)]
    at = np.array([0.5, 0.93])
    ((state),) = (t.state for t in track(rows, times, at)[0])
    assert (state != LOST).all()
    (one,), _ = track(rows, times, at, cuts=(0.91,))
    assert (one.state != LOST).tolist() == [True, False]


def test_smoothing_and_gaps_end_at_a_cut():
    times = np.arange(12) * 0.1
    rows = [seen(square("dog", 0.9, 0.1 if i < 6 else 0.6, 0.3)) for i in range(12)]
    rows[5] = rows[6] = seen()
    tracks, _ = track(rows, times, times, TrackOptions(smoothing=0.5), cuts=(0.55,))
    lefts = [t.boxes[t.state != LOST, 0] for t in tracks]
    assert len(tracks) == 2
    for found, wanted in zip(sorted(lefts, key=lambda z: z[0]), (0.1, 0.6), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_run_says_where_cuts_are_and_the_lanes_show_them():
    clip, lm, detector = clip_of(CUT), ByteLM(), BoxDetector()
    options = RunOptions(video=VideoOptions(frames=4))
    *_, last = run(lambda: clip, "is there a dog?", lambda: lm, lambda: detector, options)
    trace = last.trace
    assert trace.clip.cuts == pytest.approx((0.95,))
    assert any("1 hard cut at 0.9 s" in w or "1 hard cut at 1.0 s" in w for w in trace.warnings)
    assert len(trace.tracks) == 4  # of two objects
    assert all((t.state[:2] == LOST).all() or (t.state[2:] == LOST).all() for t in trace.tracks)
    assert payload(trace)["trace"]["cuts"] == [2]
    without = replace(trace, clip=replace(trace.clip, cuts=()))
    assert payload(without)["trace"]["cuts"] == []
