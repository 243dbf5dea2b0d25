from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.objects.track import smooth, track
from macd_studio.core.options import TrackOptions
from macd_studio.core.types import INTERPOLATED, LOST, SEEN
from tests.core.test_track_parts import seen

DENSE = np.linspace(0, 4, 41)
TIMES = np.linspace(0.25, 3.75, 8)


def moving(label, score, x, y, size=0.2, speed=0.1, at=DENSE):
    return [(label, score, x + speed * t, y, x + speed * t + size, y + size) for t in at]


def test_two_objects_that_pass_each_other_keep_their_identity():
    a = moving("dog", 0.9, 0.0, 0.1, speed=0.18)
    b = moving("cat", 0.8, 0.75, 0.6, speed=-0.18)
    tracks, notes = track([seen(p, q) for p, q in zip(a, b, strict=True)], DENSE, TIMES)
    assert [t.label for t in tracks] == ["dog", "cat"]
    assert [t.id for t in tracks] == [1, 2]
    assert not notes
    for t, rows in zip(tracks, (a, b), strict=True):
        assert (t.state == SEEN).all()
        truth = np.array([np.interp(TIMES, DENSE, [r[2 + c] for r in rows]) for c in range(4)]).T
        np.testing.assert_allclose(t.boxes, truth, atol=0.01)


def test_an_object_is_there_from_its_first_sighting_on():
    beside = [moving("dog", 0.9, 0.1, 0.1), moving("cat", 0.8, 0.2, 0.15)]  # they overlap
    late = moving("car", 0.7, 0.6, 0.6)
    frames = [seen(*(z[i] for z in (*beside, *[late] * (i >= 10)))) for i in range(len(DENSE))]
    tracks, _ = track(frames, DENSE, DENSE)
    assert [t.label for t in tracks] == ["dog", "cat", "car"]
    assert [t.frames_seen for t in tracks] == [41, 41, 31]
    assert [int(np.argmax(t.state == SEEN)) for t in tracks] == [0, 0, 10]
    for t, rows in zip(tracks, (*beside, late), strict=True):
        first = int(np.argmax(t.state == SEEN))
        np.testing.assert_allclose(t.boxes[first], rows[first][2:], atol=0.01)


def test_a_track_does_not_begin_with_a_box_elsewhere():
    rows = moving("dog", 0.9, 0.1, 0.1)
    frames = [seen(r) if i > 5 else seen() for i, r in enumerate(rows)]
    frames[5] = seen(("dog", 0.9, 0.7, 0.7, 0.9, 0.9))
    (t,), _ = track(frames, DENSE, DENSE)
    assert (t.state[:6] == LOST).all()
    assert t.frames_seen == 35


def test_a_short_gap_is_filled_and_a_long_one_is_not():
    rows = moving("dog", 0.9, 0.1, 0.3)
    short = [seen() if 14 <= i <= 18 else seen(r) for i, r in enumerate(rows)]
    (t,), _ = track(short, DENSE, TIMES)
    assert INTERPOLATED in t.state
    assert LOST not in t.state
    long = [seen() if 11 <= i <= 27 else seen(r) for i, r in enumerate(rows)]
    (t,), _ = track(long, DENSE, TIMES, TrackOptions(max_gap=0.5))
    assert (t.state[3:5] == LOST).all()
    assert np.isnan(t.boxes[3:5]).all()


def test_small_and_faint_objects_are_kept_but_a_flicker_is_not():
    big = moving("car", 0.9, 0.1, 0.1, size=0.4, speed=0)
    small = moving("ball", 0.55, 0.9, 0.9, size=0.02, speed=0)
    frames = [seen(p, q) for p, q in zip(big, small, strict=True)]
    frames[20] = seen(big[20], small[20], ("hat", 0.95, 0.6, 0.1, 0.7, 0.2))
    tracks, _ = track(frames, DENSE, TIMES)
    assert {t.label for t in tracks} == {"car", "ball"}


@pytest.mark.parametrize(("sightings", "kept"), [(3, False), (4, True)])
def test_a_track_needs_three_sightings_after_its_first(sightings, kept):
    rows = moving("dog", 0.9, 0.1, 0.1)
    frames = [seen(r) if 10 <= i < 10 + sightings else seen() for i, r in enumerate(rows)]
    tracks, _ = track(frames, DENSE, DENSE, TrackOptions(min_seen=3))
    assert [t.frames_seen for t in tracks] == [sightings] * kept


def test_a_track_lives_on_low_confidence_but_is_not_born_of_it():
    rows = [
        (r[0], 0.9 if i < 10 else 0.3, *r[2:]) for i, r in enumerate(moving("dog", 0, 0.1, 0.1))
    ]
    (t,), _ = track([seen(r) for r in rows], DENSE, TIMES)
    assert (t.state == SEEN).all()
    tracks, _ = track([seen((r[0], 0.3, *r[2:])) for r in rows], DENSE, TIMES)
    assert not tracks


def test_the_label_is_the_majority_by_confidence():
    rows = moving("dog", 0.9, 0.1, 0.1)
    frames = [seen(("cat", 0.6, *r[2:]) if i % 5 == 0 else r) for i, r in enumerate(rows)]
    (t,), _ = track(frames, DENSE, TIMES)
    assert t.label == "dog"


def test_one_frame_is_not_tracked_but_used():
    tracks, _ = track(
        [seen(("dog", 0.9, 0.1, 0.1, 0.2, 0.2), ("cat", 0.3, 0.5, 0.5, 0.6, 0.6))],
        np.zeros(1),
        np.zeros(1),
    )
    assert [(t.label, t.state.tolist()) for t in tracks] == [("dog", [SEEN])]


def test_nothing_found_and_too_much_found():
    assert track([seen()] * 41, DENSE, TIMES) == ((), ())
    grid = [
        ("dog", 0.5 + 0.01 * i, 0.02 + 0.19 * (i % 5), 0.02 + 0.19 * (i // 5)) for i in range(25)
    ]
    rows = [(n, s, x, y, x + 0.1, y + 0.1) for n, s, x, y in grid]
    tracks, notes = track([seen(*rows)] * 41, DENSE, TIMES)
    assert len(tracks) == 20
    assert "25 objects were tracked" in notes[0]
    assert min(t.confidence for t in tracks) > 0.54


def test_smoothing_leaves_steady_motion_where_it_is():
    at = np.linspace(0, 4, 41)
    boxes = np.stack([at, 2 * at, at + 1, 2 * at + 1], 1)
    np.testing.assert_allclose(smooth(boxes, at, 0.3), boxes, atol=1e-9)
    noisy = boxes + np.random.default_rng(0).normal(0, 0.1, boxes.shape)
    assert np.abs(smooth(noisy, at, 0.3) - boxes).mean() < 0.6 * np.abs(noisy - boxes).mean()


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="1 detections but 41"):
        track([seen()], DENSE, TIMES)


def test_an_outline_goes_where_its_box_goes():
    rows = moving("dog", 0.9, 0.1, 0.3, speed=0.15)
    line = np.array([[0.0, 0.0], [1.0, 0.2], [0.5, 1.0]], np.float32)
    frames = []
    for i, row in enumerate(rows):
        box = np.array(row[2:], np.float32)
        outlines = ((box[:2] + line * (box[2:] - box[:2]),),) if i % 4 else (None,)
        frames.append(replace(seen(row), outlines=outlines))
    (found,), _ = track(frames, DENSE, TIMES)
    assert len(found.outlines) == len(TIMES)
    for i in range(len(TIMES)):
        closest = int(np.abs(DENSE - TIMES[i]).argmin())
        if closest % 4:
            np.testing.assert_allclose(found.outline(i)[0], line, atol=2e-4)
        else:
            assert found.outline(i) is None
    (plain,), _ = track([seen(r) for r in rows], DENSE, TIMES)
    assert plain.outlines == ()
    assert plain.outline(0) is None


def test_a_single_frame_keeps_its_outlines():
    line = np.array([[0.2, 0.2], [0.6, 0.3], [0.4, 0.6]], np.float32)
    one = replace(seen(("dog", 0.9, 0.2, 0.2, 0.6, 0.6)), outlines=((line,),))
    (found,), _ = track([one], DENSE[:1], DENSE[:1])
    np.testing.assert_allclose(found.outline(0)[0], [[0, 0], [1, 0.25], [0.5, 1]], atol=1e-4)
