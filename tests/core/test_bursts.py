"""Clips too long to be tracked evenly: bursts of frames, and what is followed between them."""

import av
import numpy as np
import pytest

from macd_studio.core.media.sampling import other_moments, tracker_times
from macd_studio.core.media.video import read_clip
from macd_studio.core.objects.track import bursts_of, rate_of, track
from macd_studio.core.options import TrackOptions, VideoOptions
from macd_studio.core.types import LOST, SEEN
from tests.core.test_track import seen

SAMPLES = [30.0, 90.0, 150.0, 210.0]
BURSTS = np.array(tracker_times(0, 240, SAMPLES, 10, 20))


def frames(*objects):
    """Detections on the frames of BURSTS; an object: label, score, and box by time (or None)."""
    rows = [[(label, score, *box(t)) for label, score, box in objects if box(t)] for t in BURSTS]
    return [seen(*r) for r in rows]


def standing(x, y, size=0.2, there=lambda t: True):
    return lambda t: (x, y, x + size, y + size) if there(t) else None


def test_frames_of_a_long_clip_lie_around_the_samples():
    assert len(BURSTS) == 24  # 20 and the 4 samples
    assert set(SAMPLES) <= set(BURSTS.tolist())
    assert all(np.abs(BURSTS - s).min() <= 1e-9 for s in SAMPLES)
    assert max(np.abs(np.subtract.outer(BURSTS, SAMPLES)).min(1)) <= 0.3 + 1e-9
    assert rate_of(BURSTS, 1.0) == pytest.approx(10)


@pytest.mark.parametrize(
    ("length", "fps", "limit", "count"), [(20, 10, 200, 200), (200, 10, 200, 200), (12, 0.5, 9, 6)]
)
def test_frames_of_a_short_clip_are_spread_evenly(length, fps, limit, count):
    times = np.array(tracker_times(0, length, [length / 2], fps, limit))
    np.testing.assert_allclose(times, (np.arange(count) + 0.5) * length / count)
    assert bursts_of(times, 1.0 if fps > 1 else 3.0) == [slice(0, count)]


def test_a_partner_may_be_seen_half_of_the_largest_step_earlier_or_later():
    assert other_moments([0, 1, 4], [0, 2.5, 4], 6) == ""
    assert other_moments([0, 2.5, 4], [0, 1, 4], 6) == ""
    assert "frame 2 of this clip is seen at 1 s" in other_moments([0, 1, 4], [0, 2.6, 4], 6)


def test_no_frames_are_taken_where_none_are_wanted():
    assert tracker_times(0, 900, SAMPLES, 0, 200) == []


def test_more_samples_than_frames_of_the_tracker():
    samples = (np.arange(256) + 0.5) * 900 / 256
    assert tracker_times(0, 900, samples.tolist(), 10, 200) == [round(t, 9) for t in samples]


def test_what_stands_is_one_object_and_what_moves_is_several():
    parked = ("car", 0.9, standing(0.1, 0.5))
    driving = (
        "car",
        0.8,
        lambda t: (
            z := 0.2 * (SAMPLES.index(min(SAMPLES, key=lambda s: abs(s - t))) % 4),
            0.05,
            z + 0.15,
            0.2,
        ),
    )
    tracks, notes = track(frames(parked, driving), BURSTS, np.array(SAMPLES))
    assert [t.frames_seen for t in tracks] == [24, 6, 6, 6, 6]
    assert (tracks[0].state == SEEN).all()
    assert [(t.state == SEEN).sum() for t in tracks[1:]] == [1, 1, 1, 1]
    assert any(n.startswith("objects were looked for in 4 separate parts") for n in notes)


def test_another_class_at_the_same_place_is_another_object():
    car = ("car", 0.9, standing(0.1, 0.5, there=lambda t: t < 100))
    bus = ("bus", 0.8, standing(0.1, 0.5, there=lambda t: t > 100))
    tracks, _ = track(frames(car, bus), BURSTS, np.array(SAMPLES))
    assert [t.label for t in tracks] == ["car", "bus"]


def test_an_object_that_is_away_for_a_while_is_not_drawn_meanwhile():
    away = ("dog", 0.9, standing(0.1, 0.5, there=lambda t: not 60 < t < 120))
    (dog,), _ = track(frames(away), BURSTS, np.array(SAMPLES))
    assert dog.state.tolist() == [SEEN, LOST, SEEN, SEEN]
    assert np.isnan(dog.boxes[1]).all()


def test_two_at_almost_the_same_place_stay_two():
    left, right = ("dog", 0.9, standing(0.1, 0.5)), ("dog", 0.8, standing(0.15, 0.5))
    tracks, _ = track(frames(left, right), BURSTS, np.array(SAMPLES))
    assert [t.frames_seen for t in tracks] == [24, 24]
    np.testing.assert_allclose([t.boxes[:, 0].mean() for t in tracks], [0.1, 0.15], atol=0.01)


@pytest.mark.parametrize("alone", ["earlier", "later"])
def test_one_is_never_two_of_the_same_place_in_another_part(alone):
    """Both lie on what stands there alone in the other part: only the closer one goes on."""
    early, late = (lambda t: t < 60), (lambda t: 60 < t < 120)
    one, two = (early, late) if alone == "earlier" else (late, early)
    single = ("dog", 0.9, standing(0.1, 0.5, there=one))
    close = ("dog", 0.9, standing(0.11, 0.5, there=two))
    far = ("dog", 0.8, standing(0.15, 0.5, there=two))
    tracks, _ = track(frames(single, close, far), BURSTS, np.array(SAMPLES))
    assert sorted(t.frames_seen for t in tracks) == [6, 12]
    joined = max(tracks, key=lambda t: t.frames_seen)
    np.testing.assert_allclose(sorted(joined.boxes[:2, 0]), [0.1, 0.11], atol=0.005)


def test_the_most_tracks_count_what_was_not_joined():
    moving = ("car", 0.8, lambda t: (z := 0.9 * t / 240, 0.05, z + 0.05, 0.2))
    options = TrackOptions(max_tracks=2)
    tracks, notes = track(frames(moving), BURSTS, np.array(SAMPLES), options)
    assert len(tracks) == 2
    assert any(n.startswith("4 objects were tracked") for n in notes)


def test_single_frames_far_apart_show_their_objects():
    times = np.array([10.0, 30.0, 50.0])
    rows = [seen(("dog", 0.9, 0.1, 0.1, 0.3, 0.3), ("cat", 0.3, 0.5, 0.5, 0.7, 0.7))] * 3
    (dog,), _ = track(rows, times, times)
    assert (dog.label, dog.frames_seen, dog.state.tolist()) == ("dog", 3, [SEEN] * 3)
    assert rate_of(times, 1.0) is None


def test_a_gap_shorter_than_the_time_between_frames_loses_nothing():
    times = np.arange(20) * 0.5
    rows = [seen(("dog", 0.9, 0.1, 0.1, 0.3, 0.3))] * 20
    (dog,), notes = track(rows, times, times, TrackOptions(max_gap=0.3))
    assert (dog.frames_seen, notes) == (20, ())


def test_a_clip_of_minutes_is_read_in_bursts(tmp_path):
    path = tmp_path / "long.mp4"
    with av.open(str(path), "w") as file:
        stream = file.add_stream("libx264", rate=4)
        stream.height, stream.width, stream.pix_fmt = 32, 48, "yuv420p"
        for i in range(4 * 240):
            picture = np.full((32, 48, 3), i % 200, np.uint8)
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        file.mux(stream.encode())
    clip = read_clip(path, VideoOptions(frames=4, dense_fps=4, dense_limit=20))
    np.testing.assert_allclose(clip.times, SAMPLES, atol=0.26)
    assert [b.stop - b.start for b in bursts_of(clip.dense_times, 1.0)] == [6] * 4
    assert set(clip.times) <= set(clip.dense_times)
