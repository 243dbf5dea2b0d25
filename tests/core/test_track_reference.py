"""Tracking against a slow computation from its definition, with a scripted association."""

import math
import statistics
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import supervision as sv

from macd_studio.core.objects.track import track
from macd_studio.core.options import DetectOptions, TrackOptions
from macd_studio.core.types import INTERPOLATED, LOST, SEEN, Detections

GRID = 64
"""Boxes lie on a grid, so that their areas are counted in cells and their numbers are exact."""


class ScriptedTracker:
    """Takes ByteTrack's place: names rows as its script says, and notes what it was asked.

    script: for each frame the pairs (row, identity) in the order of its answer; None: no answer.
    """

    script: tuple = ()
    made: list = []  # noqa: RUF012

    def __init__(self, **options):
        self.options, self.frames = options, []
        self.made.append(self)

    def update(self, detections, timestamp):
        pairs = self.script[len(self.frames)]
        self.frames.append((detections, timestamp))
        if pairs is None:
            return sv.Detections.empty()
        answer = detections[np.array([row for row, _ in pairs], int)]
        answer.tracker_id = np.array([identity for _, identity in pairs], int)
        return answer


@pytest.fixture
def scripted(monkeypatch):
    """Sets the script; the trackers that were made since."""

    def use(script):
        monkeypatch.setattr(ScriptedTracker, "script", script)
        monkeypatch.setattr(ScriptedTracker, "made", [])
        monkeypatch.setattr("trackers.ByteTrackTracker", ScriptedTracker)
        return ScriptedTracker.made

    return use


def frame_of(rows):
    """Detections from (label, score, box, outline); a box in cells."""
    return Detections(
        np.array([box for _, _, box, _ in rows], np.float32).reshape(-1, 4) / GRID,
        np.array([score for _, score, _, _ in rows], np.float32),
        tuple(label for label, _, _, _ in rows),
        tuple(outline for _, _, _, outline in rows),
    )


def random_scene(rng):
    """Frames of rows, their times, and a script: objects that move, vanish and change their name.

    Half of the scenes have times in eighths of a second, where distances tie.
    """
    count = int(rng.integers(4, 40))
    if rng.random() < 0.5:
        dense = np.cumsum(rng.choice([1, 1, 1, 2, 6], count)) / 8
    else:
        dense = np.cumsum(rng.uniform(0.05, 0.15, count) + (rng.random(count) < 0.1))
    frames, script = [[] for _ in dense], [[] for _ in dense]
    identity = 0
    for _ in range(rng.integers(1, 4)):
        start, speed = rng.integers(0, 40, 2), rng.choice([0, 0, 1, -1], 2)
        size, label, named = rng.integers(6, 20, 2), str(rng.choice(["dog", "cat"])), False
        for i in range(count):
            if rng.random() < 0.12:
                named = False  # the association lost it
            if rng.random() < 0.12:
                continue
            corner = start + speed * i + rng.integers(-1, 2, 2)
            box = (*corner.tolist(), *(corner + size).tolist())
            if rng.random() < 0.05:
                label = str(rng.choice(["dog", "cat", "cow"]))
            ring = rng.integers(0, GRID, (3, 2)).astype(np.float32) / GRID
            outline = None if rng.random() < 0.3 else (ring,)
            score = int(rng.integers(5, 16)) / 16
            if not named:
                identity, named, as_what = identity + 1, True, -1
            else:
                as_what = identity
            script[i].append((len(frames[i]), as_what))
            frames[i].append((label, score, box, outline))
    script = [None if rng.random() < 0.03 else rng.permutation(p).tolist() for p in script]
    return frames, dense, script


def overlap(a, b):
    """Cells in both boxes over cells in either."""
    one, other = ({(x, y) for x in range(z[0], z[2]) for y in range(z[1], z[3])} for z in (a, b))
    return len(one & other) / len(one | other)


def paths_by_definition(frames, script, confidence):
    """Sightings (frame, row) of each identity; its first may be one that had no name yet."""
    sightings, free = {}, []
    for i, pairs in enumerate(script):
        before, free = free, []
        for row, identity in pairs or ():
            if identity < 0:
                if frames[i][row][1] >= confidence:
                    free.append(row)
                continue
            if identity not in sightings:
                sightings[identity] = []
                shares = [(overlap(frames[i - 1][r][2], frames[i][row][2]), r) for r in before]
                best = max((s for s, _ in shares), default=0)
                if best >= 0.15:
                    first = next(r for s, r in shares if s == best)
                    before.remove(first)
                    sightings[identity].append((i - 1, first))
            sightings[identity].append((i, row))
    return list(sightings.values())


def name_of(path, frames):
    votes = Counter()
    for i, row in path:
        votes[frames[i][row][0]] += frames[i][row][1]
    return min(votes, key=lambda name: (-votes[name], name))


def leads_to(path, later, frames, dense):
    """Whether the motion of the last five sightings ends within half a diagonal of the later."""
    (first, at), (last, end), (then, begin) = path[-5:][0], path[-1], later[0]
    if not 0 < dense[then] - dense[last] <= 2:
        return False
    ahead = 1 + (dense[then] - dense[last]) / (dense[last] - dense[first]) if last > first else 0
    old, new, to = frames[first][at][2], frames[last][end][2], frames[then][begin][2]
    box = [a + ahead * (b - a) for a, b in zip(old, new, strict=True)]
    x, y = (sum(box[c::2]) / 2 - sum(to[c::2]) / 2 for c in (0, 1))
    return math.hypot(x, y) < 0.5 * math.hypot(to[2] - to[0], to[3] - to[1])


def tracks_by_definition(frames, dense, times, script, options, confidence):
    """(label, confidence, sightings, states, boxes, outlines) in the order of importance."""
    needed = 1 + min(options.min_seen, max(1, len(dense) // 3))
    whole = []
    for path in sorted(paths_by_definition(frames, script, confidence), key=lambda p: p[0][0]):
        if len(path) < needed or all(frames[i][row][1] < confidence for i, row in path):
            continue
        for earlier in whole:
            same = name_of(earlier, frames) == name_of(path, frames)
            if same and leads_to(earlier, path, frames, dense):
                earlier.extend(path)
                break
        else:
            whole.append(path)
    spacing = statistics.median(b - a for a, b in pairwise(dense))
    made = []
    for path in whole:
        at = [dense[i] for i, _ in path]
        boxes = [[c / GRID for c in frames[i][row][2]] for i, row in path]
        if options.smoothing and len(at) > 2:
            boxes = [fitted(at, boxes, t, options.smoothing) for t in at]
        outlines = [shares_of_box(frames[i][row]) for i, row in path]
        read = [read_at(t, at, boxes, outlines, spacing, options.max_gap) for t in times]
        if all(state == LOST for state, _, _ in read):
            continue
        scores = [frames[i][row][1] for i, row in path]
        made.append(
            (name_of(path, frames), statistics.mean(scores), len(path), *zip(*read, strict=True))
        )
    made.sort(key=lambda t: (-t[1] * t[2], t[0]))
    return made


def fitted(at, boxes, t, sigma):
    """A line through all boxes, the near ones weighing most, read at t."""
    root = [math.exp(-(((a - t) / sigma) ** 2) / 4) for a in at]
    _, values = np.polyfit(np.array(at) - t, boxes, 1, w=root)
    return values.tolist()


def shares_of_box(row):
    _, _, (x0, y0, x1, y1), outline = row
    if outline is None:
        return None
    corner, size = np.array([x0, y0]) / GRID, np.array([x1 - x0, y1 - y0]) / GRID
    return [[(p - corner) / size for p in ring] for ring in outline]


def read_at(t, at, boxes, outlines, spacing, max_gap):
    """State, box and outline at a time."""
    away = [abs(a - t) for a in at]
    outline = outlines[away.index(min(away))]
    before = max((i for i, a in enumerate(at) if a <= t), default=0)
    after = min((i for i, a in enumerate(at) if a >= t), default=len(at) - 1)
    state = INTERPOLATED
    if min(away) <= spacing / 2 + 1e-6:
        state = SEEN
    elif not at[0] <= t <= at[-1] or at[after] - at[before] > max_gap + spacing:
        return LOST, [math.nan] * 4, None
    if t < at[0] or t > at[-1] or before == after:
        box = boxes[0] if t < at[0] else boxes[-1] if t > at[-1] else boxes[before]
    else:
        share = (t - at[before]) / (at[after] - at[before])
        box = [a + share * (b - a) for a, b in zip(boxes[before], boxes[after], strict=True)]
    return state, [min(1.0, max(0.0, c)) for c in box], outline


@pytest.mark.parametrize("seed", range(40))
def test_tracks_by_their_definition(scripted, seed):
    rng = np.random.default_rng(seed)
    frames, dense, script = random_scene(rng)
    scripted(script)
    options = TrackOptions(
        max_gap=float(rng.choice([0.25, 0.5, 1.0])),
        min_seen=int(rng.integers(1, 5)),
        smoothing=float(rng.choice([0.0, 0.2])),
    )
    times = np.arange(math.floor(dense[0] * 16) - 3, math.ceil(dense[-1] * 16) + 3) / 16
    detections = [frame_of(rows) for rows in frames]
    tracks, warnings = track(detections, dense, times, options, DetectOptions(confidence=0.5))
    expected = tracks_by_definition(frames, dense.tolist(), times, script, options, 0.5)
    assert [t.id for t in tracks] == list(range(1, len(expected) + 1))
    assert warnings == ()
    for t, (label, confidence, count, states, boxes, outlines) in zip(
        tracks, expected, strict=True
    ):
        assert (t.label, t.frames_seen) == (label, count)
        assert t.confidence == pytest.approx(confidence)
        assert t.state.tolist() == list(states)
        np.testing.assert_allclose(t.boxes, boxes, atol=1e-5)
        assert (t.boxes.dtype, t.state.dtype) == (np.float32, np.int8)
        assert len(t.outlines) in (0, len(times))
        for made, outline in zip(t.outlines or [None] * len(times), outlines, strict=True):
            assert (made is None) == (outline is None)
            if outline is not None:
                np.testing.assert_allclose(made, outline, atol=1e-4)


def squares(*places):
    """A row of confidence 0.9 for each place, 23 cells wide and high."""
    return [("dog", 0.9, (x, y, x + 23, y + 23), None) for x, y in places]


@pytest.mark.parametrize(("rate", "aspect"), [(4.0, 2.0), (10.0, 0.5)])
def test_the_tracker_is_asked_for_what_the_options_say(scripted, rate, aspect):
    """ByteTrack counts its buffer in thirtieths of a second; it sees boxes in the frame's shape."""
    made = scripted([[(0, -1)]] * 9)
    dense = 3 + np.arange(9) / rate
    box = np.array([[0.125, 0.25, 0.375, 0.75]])  # the tracker computes in float32 all the same
    detections = [Detections(box, np.array([0.25 + i / 16]), ("dog",)) for i in range(9)]
    options, detect = TrackOptions(max_gap=1.5), DetectOptions(confidence=0.625)
    track(detections, dense, dense, options, detect, aspect)
    (tracker,) = made
    assert tracker.options == {
        "lost_track_buffer": 45,
        "frame_rate": pytest.approx(rate),
        "track_activation_threshold": 0.625,
        "high_conf_det_threshold": 0.625,
        "minimum_consecutive_frames": 1,
        "minimum_iou_threshold": 0.15,
    }
    assert isinstance(tracker.options["lost_track_buffer"], int)
    for i, (asked, time) in enumerate(tracker.frames):
        assert time == dense[i]
        expected = [[125 * aspect, 250, 375 * aspect, 750]]
        np.testing.assert_allclose(asked.xyxy, expected)
        np.testing.assert_allclose(asked.confidence, [0.25 + i / 16])
        assert asked.xyxy.dtype == asked.confidence.dtype == np.float32


def test_without_options_and_shape_the_defaults_hold(scripted):
    made = scripted([[(0, -1)]] * 6)
    dense = np.arange(6) / 5
    track([frame_of(squares((8, 16)))] * 6, dense, dense)
    (tracker,) = made
    assert tracker.options["lost_track_buffer"] == 30
    assert tracker.options["high_conf_det_threshold"] == 0.5
    np.testing.assert_allclose(tracker.frames[0][0].xyxy, [[125, 250, 484.375, 609.375]])


def test_frames_of_one_time_have_a_finite_rate(scripted):
    made = scripted([[(0, -1)]] * 3)
    track([frame_of(squares((0, 0)))] * 3, np.full(3, 5.0), np.full(1, 5.0))
    assert made[0].options["frame_rate"] == pytest.approx(2e6)


@pytest.mark.parametrize(("shift", "seen"), [(17, 3), (18, 2)])
def test_a_first_box_overlaps_by_at_least_the_smallest_overlap(scripted, shift, seen):
    """Of squares of 23 cells, shifted by 17, 6 in 40 columns are shared, which is 0.15."""
    scripted([[(0, -1)], [(0, 1)], [(0, 1)]])
    frames = [squares((shift, 0)), squares((0, 0)), squares((0, 0))]
    times = np.arange(3.0)
    (t,), _ = track([frame_of(rows) for rows in frames], times, times)
    assert t.frames_seen == seen


def test_of_two_names_each_takes_the_beginning_that_is_left(scripted):
    """Both overlap the first beginning most; what one has taken the other cannot."""
    scripted([[(0, -1), (1, -1)], [(0, 4), (1, 9)], [(0, 4), (1, 9)]])
    frames = [squares((10, 0), (10, 12)), *[squares((10, 1), (10, 2))] * 2]
    times = np.arange(3.0)
    tracks, _ = track([frame_of(rows) for rows in frames], times, times, TrackOptions(smoothing=0))
    assert sorted((t.boxes[0, 1] * GRID, t.boxes[1, 1] * GRID) for t in tracks) == [(0, 1), (12, 2)]


def test_of_two_frames_one_confirms_the_other(scripted):
    """In a clip of two frames too, what was seen in one of them only is no track."""
    times, between = np.arange(2.0), np.array([0.4, 0.6])
    for first, states in (((40, 40), []), ((0, 3), [[SEEN, SEEN]])):
        scripted([[(0, -1)], [(0, 1)]])
        frames = [frame_of(squares(first)), frame_of(squares((0, 0)))]
        tracks, _ = track(frames, times, between)
        assert [t.state.tolist() for t in tracks] == states


def test_half_a_frame_and_what_rounding_adds_is_seen(scripted):
    """Frames a second apart: a microsecond more than half a second is still forgiven."""
    scripted([[(0, -1)], *[[(0, 1)]] * 3])
    dense, times = np.arange(4.0), -np.array([0.5, 0.5 + 1e-6, 0.5 + 2e-6])
    (t,), _ = track([frame_of(squares((0, 0)))] * 4, dense, times)
    assert t.state.tolist() == [SEEN, SEEN, LOST]


def test_outlines_are_kept_to_four_digits(scripted):
    scripted([[(0, -1)], [(0, 1)]])
    ring = np.array([[0.125, 0.125], [0.25, 0.25], [0.1875, 0.3125]], np.float32)
    frame = frame_of([("dog", 0.9, (0, 0, 24, 36), (ring,))])
    times = np.arange(2.0)
    (t,), _ = track([frame] * 2, times, times)
    expected = [[0.3333, 0.2222], [0.6667, 0.4444], [0.5, 0.5556]]
    np.testing.assert_allclose(t.outlines[0][0], expected, rtol=1e-6)


def test_what_the_detector_does_not_outline_has_no_outlines(scripted):
    scripted([[(0, -1)], [(0, 1)]])
    times = np.arange(2.0)
    (t,), _ = track([frame_of(squares((0, 0)))] * 2, times, times)
    assert t.outlines == ()
