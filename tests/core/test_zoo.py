"""Clips of every shape, rate and container, against what was drawn into them."""

from itertools import pairwise

import numpy as np
import pytest

from macd_studio.core.media.video import read_clip
from macd_studio.core.objects.detect import load_detector
from macd_studio.core.objects.track import track
from macd_studio.core.options import DetectOptions, TrackOptions, VideoOptions
from tests.zoo import ZOO, draw, has_marker, make_zoo, read_index

NAMES = [name if c.fast else pytest.param(name, marks=pytest.mark.long) for name, c in ZOO.items()]
TRACKED = [
    name if name in ("odd.mp4", "wide-pixels.mp4") else pytest.param(name, marks=pytest.mark.long)
    for name, c in ZOO.items()
    if c.frames > 10 and not c.cuts
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Path of a clip by its name; each is written once."""
    folder = tmp_path_factory.mktemp("zoo")
    paths = {}

    def path(name):
        if name not in paths:
            paths.update(make_zoo(folder, [name]))
        return paths[name]

    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_clip_is_read_as_it_was_drawn(made, name):
    want = ZOO[name]
    clip = read_clip(made(name), VideoOptions(frames=8))
    height, width = clip.frames.shape[1:3]
    assert width / height == pytest.approx(want.aspect, rel=0.01)
    assert clip.size == (width, height)
    dense_height, dense_width = clip.dense_frames.shape[1:3]
    assert dense_width / dense_height == pytest.approx(want.aspect, rel=0.01)
    assert clip.duration == pytest.approx(want.duration, abs=float(max(1 / want.fps, 0.2)))

    shown = [read_index(f) for f in clip.frames]
    assert len(shown) == min(8, want.frames)
    times = np.array([float(t) for t in want.times])
    np.testing.assert_allclose(clip.times, times[shown], atol=2e-3)
    middles = (np.arange(8) + 0.5) * clip.duration / 8
    on_display = np.searchsorted(times, middles + 2e-3, side="right") - 1
    assert shown == sorted(set(on_display.tolist()))

    for frame in (*clip.frames, *clip.dense_frames[::7]):
        assert has_marker(frame)
        for turned in (1, 2, 3):
            assert not has_marker(np.rot90(frame, turned))
    notes = [n for n in clip.notes if not any(part in n for part in want.notes)]
    assert not notes
    for part in want.notes:
        assert any(part in n for n in clip.notes)


@pytest.mark.parametrize("name", TRACKED)
def test_the_embedded_detector_tracks_what_was_drawn(made, name):
    want = ZOO[name]
    clip = read_clip(made(name), VideoOptions(frames=8))
    options, chosen = TrackOptions(max_tracks=40), DetectOptions(image_size=want.detector_side)
    seen = list(load_detector("toyworld").detect(clip.dense_frames, chosen))
    aspect = clip.size[0] / clip.size[1]
    tracks, _ = track(seen, clip.dense_times, clip.times, options, chosen, aspect)
    assert len(tracks) == want.objects
    for t in tracks:  # an object keeps its shape on a frame of any shape
        seen_boxes = t.boxes[np.isfinite(t.boxes[:, 0])] * [*clip.size, *clip.size]
        sides = seen_boxes[:, 2:] - seen_boxes[:, :2]
        assert sides[:, 0] == pytest.approx(sides[:, 1], rel=0.25)


def test_the_zoo_is_the_same_every_time(made, tmp_path):
    for name in ("odd.mp4", "1-frame.mp4"):
        assert made(name).read_bytes() == make_zoo(tmp_path, [name])[name].read_bytes()


def test_the_drawn_strip_can_be_read():
    clip = ZOO["hard-cuts.mp4"]
    pictures = list(draw(clip))
    assert [read_index(p) for p in pictures] == list(range(clip.frames))
    change = [np.abs(a.astype(int) - b).mean() for a, b in pairwise(pictures)]
    assert sorted(np.argsort(change)[-2:] + 1) == [25, 50]
