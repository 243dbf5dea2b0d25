"""Clips of every shape, rate and container, against what was drawn into them."""

import numpy as np
import pytest

from macd_studio.core.media.video import read_clip
from macd_studio.core.options import VideoOptions
from tests.zoo import ZOO, has_marker, make_zoo, read_index

NAMES = [name if c.fast else pytest.param(name, marks=pytest.mark.long) for name, c in ZOO.items()]


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
