"""The steps of tracking one by one, on numbers that can be checked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.objects.track import Tracklet, _distance, _iou, _joined, smooth, track
from macd_studio.core.options import DetectOptions, TrackOptions
from macd_studio.core.types import Detections

PLAIN = TrackOptions(smoothing=0.0)


def seen(*rows):
    """Detections from (label, score, x0, y0, x1, y1)."""
    return Detections(
        np.array([r[2:] for r in rows], np.float32).reshape(-1, 4),
        np.array([r[1] for r in rows], np.float32),
        tuple(r[0] for r in rows),
    )


def square(label, score, x, y, size=0.2):
    return label, score, x, y, x + size, y + size


def a_path(at, boxes, label="dog", score=0.9):
    path = Tracklet()
    for index, box in zip(at, boxes, strict=True):
        path.see(index, seen((label, score, *box)), 0)
    return path


def test_a_path_notes_all_of_a_row():
    outline = (np.array([[0.1, 0.1], [0.3, 0.1], [0.2, 0.3]], np.float32),)
    rows = seen(("cat", 0.25, 0, 0, 1, 1), ("dog", 0.75, 0.1, 0.1, 0.3, 0.3))
    path = Tracklet()
    path.see(4, rows, 1)
    path.see(7, replace(rows, outlines=(outline, None)), 0)
    assert path.index == [4, 7]
    assert path.scores == [0.75, 0.25]
    assert path.labels == ["dog", "cat"]
    assert path.outlines == [None, outline]
    np.testing.assert_array_equal(path.boxes, [rows.boxes[1], rows.boxes[0]])
    assert {b.dtype for b in path.boxes} == {np.dtype(np.float32)}
    exact = Tracklet()
    exact.see(0, replace(rows, boxes=rows.boxes.astype(np.float64)), 0)
    assert exact.boxes[0].dtype == np.float32
    later = a_path([9], [(0.5, 0.5, 0.6, 0.6)], "cow", 0.5)
    path.join(later)
    assert (path.index, path.labels) == ([4, 7, 9], ["dog", "cat", "cow"])
    assert (path.scores, path.outlines) == ([0.75, 0.25, 0.5], [None, outline, None])
    assert len(path.boxes) == 3


def test_the_label_has_the_largest_sum_and_ties_go_to_the_first_by_name():
    path = a_path([0, 1], [(0, 0, 1, 1)] * 2, "dog", 0.25)
    path.join(a_path([2], [(0, 0, 1, 1)], "cat", 0.75))
    assert path.label() == "cat"
    path.join(a_path([3], [(0, 0, 1, 1)], "dog", 0.25))
    assert path.label() == "cat"
    path.join(a_path([4], [(0, 0, 1, 1)], "dog", 0.25))
    assert path.label() == "dog"


@pytest.mark.parametrize(
    ("a", "b", "share"),
    [
        ((0, 0, 2, 1), (1, 0, 3, 1), 1 / 3),
        ((0, 0, 4, 2), (1, 1, 5, 4), 3 / (8 + 12 - 3)),
        ((0, 0, 1, 1), (1, 0, 2, 1), 0),
        ((0, 0, 1, 1), (3, 3, 4, 4), 0),
        ((2, 3, 4, 6), (2, 3, 4, 6), 1),
        ((1, 1, 1, 1), (1, 1, 1, 1), 0),
        ((0, 0, 1e-5, 1e-5), (0, 0, 1e-5, 1e-5), 1),
    ],
)
def test_overlap_by_hand(a, b, share):
    first, second = np.array(a, np.float64), np.array(b, np.float64)
    assert _iou(first, second) == pytest.approx(share)
    assert _iou(second, first) == pytest.approx(share)


TIMES = np.arange(41) / 10


def moved(x, y, width=0.3, height=0.4):
    return x, y, x + width, y + height


def test_the_distance_is_from_where_the_last_five_sightings_lead():
    """Diagonal 0.5; the last five move by 0.1 a frame to the right and 0.05 down."""
    boxes = [moved(0.5, 0.9), moved(0.2, 0.0)]
    boxes += [moved(0.1 * i, 0.05 * i) for i in range(5)]
    earlier = a_path([0, 1, 2, 3, 4, 5, 6], boxes)
    expected = 0.1 * 7, 0.05 * 7  # three frames after the last of them
    for dx, dy in ((0, 0), (0.3, 0.4), (-0.06, 0.08)):
        later = a_path([9], [moved(expected[0] + dx, expected[1] + dy)])
        assert _distance(earlier, later, TIMES) == pytest.approx(np.hypot(dx, dy) / 0.5, abs=1e-4)
    twice = a_path([9], [moved(expected[0] - 0.15, expected[1] - 0.2, 0.6, 0.8)])
    assert _distance(earlier, twice, TIMES) == pytest.approx(0, abs=1e-4)
    wider = a_path([9], [moved(expected[0], expected[1], 0.6, 0.8)])
    assert _distance(earlier, wider, TIMES) == pytest.approx(0.25, abs=1e-4)


def test_what_was_seen_once_is_expected_where_it_was():
    earlier = a_path([3], [moved(0.1, 0.2)])
    later = a_path([8], [moved(0.4, 0.6)])
    assert _distance(earlier, later, TIMES) == pytest.approx(1.0, abs=1e-4)
    point = a_path([8], [(0.25, 0.4, 0.25, 0.4)])
    assert _distance(earlier, point, TIMES) == pytest.approx(0, abs=1e-2)
    quick = a_path([3, 4], [moved(0.1, 0.2), moved(0.2, 0.2)])
    fast = np.arange(9) * 1e-3
    assert _distance(quick, a_path([6], [moved(0.4, 0.2)]), fast) == pytest.approx(0, abs=1e-4)


def joined(*paths):
    """(label, indices) of the joined paths."""
    return [(p.label(), p.index) for p in _joined(list(paths), TIMES)]


def test_paths_that_follow_each_other_are_one_object():
    here, there = moved(0.1, 0.1), moved(0.6, 0.5)
    first, later = a_path([0, 1], [here] * 2), a_path([10, 11], [here] * 2)
    assert joined(first, later) == [("dog", [0, 1, 10, 11])]
    # in whatever order they come, and over and over
    parts = [a_path([i, i + 1], [here] * 2) for i in (20, 0, 30, 10)]
    assert joined(*parts) == [("dog", [0, 1, 10, 11, 20, 21, 30, 31])]
    # not those at the same time, of another label, elsewhere, or more than two seconds later
    for other in (
        a_path([1, 2], [here] * 2),
        a_path([10, 11], [here] * 2, "cat"),
        a_path([10, 11], [there] * 2),
        a_path([22, 23], [here] * 2),
    ):
        first = a_path([0, 1], [here] * 2)
        assert len(joined(first, other)) == 2
    # two seconds are few enough
    assert joined(a_path([0], [here]), a_path([20], [here])) == [("dog", [0, 20])]
    # each to its own
    a, b = a_path([0], [here]), a_path([0], [there])
    c, d = a_path([9], [there]), a_path([9], [here])
    assert joined(a, b, c, d) == [("dog", [0, 9]), ("dog", [0, 9])]
    mixed = [a_path([0], [here], "cat"), a_path([1], [here]), a_path([9], [here])]
    assert joined(*mixed) == [("cat", [0]), ("dog", [1, 9])]


def test_half_a_diagonal_away_is_another_object():
    near, far = moved(0.1 + 0.147, 0.1 + 0.196), moved(0.1 + 0.153, 0.1 + 0.204)
    assert len(joined(a_path([0], [moved(0.1, 0.1)]), a_path([5], [near]))) == 1
    assert len(joined(a_path([0], [moved(0.1, 0.1)]), a_path([5], [far]))) == 2
    # exactly half of one, with what keeps it above 0
    diagonal = np.float32(0.5) + np.float32(1e-6)
    exact = a_path([0], [(0.5, 0, diagonal, 0)]), a_path([5], [(0, 0, 0.5, 0)])
    assert _distance(*exact, TIMES) == 0.5
    assert len(joined(*exact)) == 2
    # a point has no diagonal, but a place
    points = [a_path([i], [(x, 0.2, x, 0.2)]) for i, x in ((0, 0.1), (5, 0.2))]
    assert len(joined(*points)) == 2


def walk(frames, label="dog", score=0.9, speed=0.01, y=0.1):
    """A box for each frame index, at a steady speed."""
    return {i: square(label, score, 0.1 + speed * i, y) for i in frames}


def run(*walks, times=None, dense=TIMES, options=PLAIN, detect=None):
    frames = [seen(*(w[i] for w in walks if i in w)) for i in range(len(dense))]
    return track(frames, dense, dense if times is None else np.array(times), options, detect)


def test_smoothing_is_a_weighted_line_through_the_neighbours():
    rng = np.random.default_rng(1)
    boxes, at = rng.random((7, 4)), np.sort(rng.random(7))
    made = smooth(boxes, at, 0.2)
    for i, time in enumerate(at):
        weight = np.exp(-0.5 * ((at - time) / 0.2) ** 2)
        for c in range(4):
            _, value = np.polyfit(at - time, boxes[:, c], 1, w=np.sqrt(weight))
            assert made[i, c] == pytest.approx(value, abs=1e-9)
    assert smooth(boxes, at, 0.0) is boxes
    assert (
        smooth(boxes[:2], at[:2], 0.2) is boxes[:2]
        or (smooth(boxes[:2], at[:2], 0.2) == boxes[:2]).all()
    )
    assert not np.allclose(smooth(boxes[:3], at[:3], 0.2), boxes[:3], atol=1e-3)
    # where one sighting outweighs all others there is no line, only their mean
    alone = smooth(boxes, np.arange(7) * 100.0, 0.2)
    np.testing.assert_allclose(alone, boxes)
    at_once = smooth(boxes, np.zeros(7), 0.2)
    np.testing.assert_allclose(at_once, np.tile(boxes.mean(0), (7, 1)))


def test_one_frame_takes_all_that_are_sure_enough():
    rows = seen(
        square("dog", 0.5, 0.1, 0.1), square("cat", 0.49, 0.5, 0.5), square("cow", 0.8, 0, 0)
    )
    tracks, _ = track([rows], TIMES[:1], TIMES[:1])
    assert [(t.id, t.label, t.frames_seen) for t in tracks] == [(1, "cow", 1), (2, "dog", 1)]
    assert [t.confidence for t in tracks] == pytest.approx([0.8, 0.5])
    sure, _ = track([rows], TIMES[:1], TIMES[:1], detect_options=DetectOptions(confidence=0.7))
    assert [t.label for t in sure] == ["cow"]
    off, _ = track([rows], TIMES[:1], TIMES[5:6])
    assert off == ()


def test_tracks_stand_in_the_order_of_importance():
    """Confidence times sightings; then by name, then from the upper left."""
    walks = [
        walk(range(10), "brief", 0.9, y=0.0),
        walk(range(40), "long", 0.6, y=0.25),
        walk(range(20), "middle", 0.9, y=0.5),
        walk(range(20), "same", 0.9, y=0.75),
    ]
    tracks, notes = run(*walks)
    assert [(t.id, t.label) for t in tracks] == [
        (1, "long"), (2, "middle"), (3, "same"), (4, "brief"),
    ]  # fmt: skip
    assert notes == ()
    two, (note,) = run(*walks, options=replace(PLAIN, max_tracks=2))
    assert [(t.id, t.label) for t in two] == [(1, "long"), (2, "middle")]
    assert note.startswith("4 objects were tracked; the 2 most")
    assert run(*walks, options=replace(PLAIN, max_tracks=4))[1] == ()
    alike = [walk(range(20), "dog", 0.9, y=y) for y in (0.75, 0.0, 0.4)]
    tracks, _ = run(*alike)
    assert [round(float(t.boxes[5, 1]), 2) for t in tracks] == [0.0, 0.4, 0.75]


@pytest.mark.parametrize("rate", [10, 4])
@pytest.mark.parametrize(("gap", "identities"), [(0.6, 1), (1.8, 2)])
def test_an_object_is_looked_for_as_long_as_a_gap_may_last(rate, gap, identities):
    """By its motion alone: the name changes meanwhile, so that paths are not joined by it."""
    dense = np.arange(6 * rate) / rate
    middle = 2.0, 2.0 + gap
    before = walk([i for i, t in enumerate(dense) if t <= middle[0]], "dog", 0.9, 0.0)
    after = walk([i for i, t in enumerate(dense) if t > middle[1]], "cat", 0.9, 0.0)
    tracks, _ = run(before, after, dense=dense)
    assert len(tracks) == identities


@pytest.mark.parametrize(("pause", "identities"), [(0.7, 1), (2.5, 2)])
def test_time_counts_not_the_number_of_frames(pause, identities):
    """Nothing was read for a while: the next frame follows at once, but later."""
    dense = np.concatenate([np.arange(20) / 10, 1.9 + pause + np.arange(20) / 10])
    before, after = walk(range(20), "dog", speed=0.0), walk(range(20, 40), "cat", speed=0.0)
    assert len(run(before, after, dense=dense)[0]) == identities


def test_frames_without_any_detection_end_a_beginning():
    """What was seen once before an empty frame does not begin the track after it."""
    rows = {0: square("dog", 0.9, 0.1, 0.1)} | walk(range(2, 20), speed=0.0)
    other = {0: square("cat", 0.9, 0.6, 0.6)}
    (t,), _ = run(other, rows)
    assert t.label == "dog"
    assert t.frames_seen == 18
    np.testing.assert_allclose(t.boxes[5], [0.1, 0.1, 0.3, 0.3], atol=1e-5)


def test_as_many_times_as_detections():
    with pytest.raises(ValueError, match="2 detections but 1 times"):
        track([seen(), seen()], TIMES[:1], TIMES[:1])


@pytest.mark.parametrize(
    ("frames", "min_seen", "needed"),
    [(41, 3, 4), (6, 3, 3), (2, 3, 2), (41, 1, 2), (9, 3, 4), (8, 3, 3)],
)
def test_short_clips_need_fewer_sightings(frames, min_seen, needed):
    """A third of the clip is enough, but one sighting must confirm the first."""
    options = TrackOptions(min_seen=min_seen, smoothing=0)
    for count in (needed - 1, needed):
        tracks, _ = run(walk(range(count)), dense=TIMES[:frames], options=options)
        assert [t.frames_seen for t in tracks] == [count] * (count == needed)


def test_an_outline_of_a_box_without_width_is_in_shares_of_a_ten_thousandth():
    ring = np.array([[0.15, 0.2], [0.25, 0.15], [0.3, 0.3]], np.float32)
    thin = replace(seen(("dog", 0.9, 0.1, 0.1, 0.1, 0.5)), outlines=((ring,),))
    (flat,), _ = track([thin], TIMES[:1], TIMES[:1], PLAIN)
    np.testing.assert_allclose(flat.outlines[0][0][0], [500, 0.25], rtol=1e-3)
