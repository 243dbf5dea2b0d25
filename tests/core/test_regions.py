"""Regions without a class: cells of a grid, and what moves."""

import cv2
import numpy as np
import pytest

from macd_studio.core.objects.detect import load_detector
from macd_studio.core.objects.regions import COLUMNS, ROWS
from macd_studio.core.objects.track import track
from macd_studio.core.options import DetectOptions
from macd_studio.core.types import LOST


def scene(frames=12, camera=0.0, moves=True):
    """A textured square that moves 5 pixels a frame over texture; the camera pans."""
    rng = np.random.default_rng(3)
    wide = cv2.GaussianBlur(rng.integers(0, 255, (120, 400, 3)).astype(np.uint8), (0, 0), 2)
    patch = cv2.GaussianBlur(rng.integers(0, 255, (30, 30, 3)).astype(np.uint8), (0, 0), 1)
    out = []
    for i in range(frames):
        left = round(camera * i)
        picture = wide[:, left : left + 160].copy()
        x = 20 + 5 * i * moves
        picture[45:75, x : x + 30] = patch
        out.append(picture)
    return np.stack(out)


def tracked(name, frames):
    seen = list(load_detector(name).detect(frames, DetectOptions()))
    assert len(seen) == len(frames)
    times = np.arange(len(frames)) / 10
    return track(seen, times, times, aspect=160 / 120)[0]


def test_the_grid_covers_the_frame_once_and_becomes_still_tracks():
    tracks = tracked("grid", scene(moves=False))
    assert len(tracks) == ROWS * COLUMNS
    assert all((t.state != LOST).all() for t in tracks)
    boxes = np.stack([t.boxes for t in tracks])
    np.testing.assert_allclose(boxes, boxes[:, :1].repeat(12, 1), atol=1e-5)
    area = np.zeros((ROWS * 10, COLUMNS * 10))
    for x0, y0, x1, y1 in boxes[:, 0]:
        area[round(y0 * ROWS * 10) : round(y1 * ROWS * 10),
             round(x0 * COLUMNS * 10) : round(x1 * COLUMNS * 10)] += 1  # fmt: skip
    assert (area == 1).all()
    assert {t.label for t in tracks} >= {"row 1, column 1", "row 4, column 4"}


@pytest.mark.parametrize("camera", [0.0, 3.0])
def test_what_moves_is_tracked_whether_the_camera_does_or_not(camera):
    tracks = tracked("motion", scene(camera=camera))
    best = max(tracks, key=lambda t: t.frames_seen)
    assert best.label == "moving region"
    centres = (best.boxes[:, [0, 1]] + best.boxes[:, [2, 3]]) / 2 * (160, 120)
    expected = np.stack([35 + 5 * np.arange(12), np.full(12, 60)], 1)
    seen = best.state != LOST
    assert seen.sum() >= 10
    assert np.abs(centres - expected)[seen].max() < 12


def test_a_still_clip_and_a_single_frame_have_no_motion():
    assert tracked("motion", scene(moves=False)) == ()
    (alone,) = load_detector("motion").detect(scene(1), DetectOptions())
    assert len(alone.boxes) == 0


def test_a_panning_camera_alone_is_no_motion():
    frames = scene(camera=3.0)
    frames[:, 45:75] = scene(camera=3.0)[:, 5:35]  # the square is covered by texture that pans too
    assert tracked("motion", frames) == ()
