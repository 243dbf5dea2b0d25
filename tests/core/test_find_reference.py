"""Cuts against a slower computation of the same; what a trace keeps of a detector; notes; boxes."""

import logging
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from macd_studio.core.objects import find
from macd_studio.core.objects.find import Looking, find_cuts, look, record_of
from macd_studio.core.options import DetectOptions, RunOptions, TrackOptions, VideoOptions
from macd_studio.core.types import Clip, Detections


def picture(draw, colour, spread=60):
    """A picture of blurred noise around a colour."""
    noise = cv2.GaussianBlur(draw.normal(0, spread, (36, 48, 3)), (0, 0), 3) * 6
    return np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)


def film(seed):
    """Shots with cuts, flashes, slow changes and gaps in time, by chance."""
    draw = np.random.default_rng(seed)
    frames, times, now = [], [], 0.0
    shown = picture(draw, draw.integers(40, 215, 3))
    for _ in range(24):
        event = draw.random()
        if event < 0.15:
            shown = picture(draw, draw.integers(40, 215, 3))
        moved = np.roll(shown, int(draw.integers(0, 3)), 1).astype(float) + draw.normal(
            0, 3, shown.shape
        )
        if 0.15 < event < 0.22:
            moved += 120
        frames.append(np.clip(moved, 0, 255).astype(np.uint8))
        now += 0.1 if draw.random() < 0.9 else 2 * find.WIDEST_S
        times.append(now)
    return np.array(frames), np.array(times)


def clip_of(frames, times, dense=True):
    nothing = np.zeros((0, *frames.shape[1:]), np.uint8), np.zeros(0)
    dense_frames, dense_times = (frames[1:], times[1:]) if dense else nothing
    sampled = (frames[:1], times[:1]) if dense else (frames, times)
    return Clip(frames=sampled[0], times=sampled[1], dense_frames=dense_frames,
                dense_times=dense_times, name="film", sha256="0" * 64, duration=float(times[-1]),
                size=(frames.shape[2], frames.shape[1]))  # fmt: skip


def slow_glance(frame):
    """Histograms by cell and channel, and greys, both as `find` defines them."""
    small = cv2.resize(frame, (48, 36), interpolation=cv2.INTER_AREA)
    histograms = []
    for row in range(3):
        for column in range(3):
            cell = small[12 * row : 12 * row + 12, 16 * column : 16 * column + 16]
            for channel in range(3):
                counts = np.histogram(cell[..., channel], bins=8, range=(0, 256))[0]
                ends = [counts[0], *counts, counts[-1]]
                smooth = np.array([(ends[i] + 2 * ends[i + 1] + ends[i + 2]) / 4 for i in range(8)])
                histograms.append(smooth / smooth.sum())
    grey = cv2.GaussianBlur(small.mean(axis=2).astype(np.float32), (0, 0), 1.0).ravel()
    grey = grey - grey.mean()
    return np.array(histograms), grey / max(np.sqrt((grey**2).sum()), 1e-6)


def slow_cuts(frames, times):
    seen = [slow_glance(frame) for frame in frames]

    def colours(a, b):
        return 1 - np.mean([np.minimum(x, y).sum() for x, y in zip(a[0], b[0], strict=True)])

    def alike(a, b):
        return float((a[1] * b[1]).sum())

    change = [colours(seen[i], seen[i + 1]) for i in range(len(seen) - 1)]
    cuts = []
    for i, size in enumerate(change):
        around = [change[j] for j in range(i - 4, i + 5) if j != i and 0 <= j < len(change)]
        usual = np.median(around) if around else 0.0
        later = [(seen[i], seen[j]) for j in (i + 2, i + 3, i + 4) if j < len(seen)]
        earlier = [(seen[i + 1], seen[j]) for j in (i - 3, i - 2, i - 1) if j >= 0]
        back = any(
            colours(a, b) < find.CUT_COLOURS and alike(a, b) > find.CUT_SHAPES
            for a, b in later + earlier
        )
        if (
            size > find.CUT_COLOURS and times[i + 1] - times[i] <= find.WIDEST_S
            and size > find.CUT_RATIO * usual and alike(seen[i], seen[i + 1]) < find.CUT_SHAPES
            and not back
        ):  # fmt: skip
            cuts.append((times[i] + times[i + 1]) / 2)
    return tuple(cuts)


def test_cuts_are_those_of_a_slow_computation():
    found = []
    for seed in range(30):
        frames, times = film(seed)
        cuts = find_cuts(clip_of(frames, times))
        assert cuts == pytest.approx(slow_cuts(frames, times), abs=1e-9)
        found += cuts
    assert len(found) > 15


def test_pictures_of_one_time_keep_their_order_and_two_make_a_cut():
    draw = np.random.default_rng(3)
    frames = np.array([picture(draw, (200, 40, 40)), picture(draw, (40, 60, 200))])
    assert find_cuts(clip_of(frames, np.array([0.0, 0.2]), dense=False)) == (0.1,)
    assert find_cuts(clip_of(frames[:1], np.array([0.0]), dense=False)) == ()
    later = clip_of(frames[::-1], np.array([0.0, 0.2]))
    assert find_cuts(later) == pytest.approx((0.1,))
    assert find_cuts(clip_of(frames, np.array([0.0, 0.2]) * 10 * find.WIDEST_S)) == ()


# ---- the record, the notes and what is shown early


class Finder:
    name = "finder"

    def __init__(self, boxes=3, weights_hash="abc"):
        self.boxes = boxes
        if weights_hash is not None:
            self.weights_hash = weights_hash

    def input_size(self, frames, options):
        assert isinstance(options, DetectOptions)
        return 32 * len(frames)

    def detect(self, frames, options):
        assert frames.ndim == 4
        for _ in frames:
            boxes = np.tile(np.float32([0.1, 0.2, 0.4, 0.6]), (self.boxes, 1))
            boxes += 0.05 * np.arange(self.boxes, dtype=np.float32)[:, None]
            yield Detections(boxes, np.full(self.boxes, 0.9, np.float32),
                             tuple(f"thing{k}" for k in range(self.boxes)))  # fmt: skip


def some_clip(frames=6):
    draw = np.random.default_rng(1)
    one = picture(draw, (90, 120, 150))
    clip = clip_of(np.array([one] * (frames + 1)), 0.25 * np.arange(frames + 1))
    return replace(clip, frames=clip.dense_frames[::2], times=clip.dense_times[::2])


def test_the_record_holds_what_a_detector_was_asked():
    clip, options = some_clip(), RunOptions()
    chosen = DetectOptions(
        confidence=0.6, low=0.3, max_per_frame=7, classes=("cat",), prompt="a cat."
    )
    record = record_of(clip, Finder(), chosen, options)
    held = {
        n: getattr(record, n)
        for n in ("name", "confidence", "low", "max_per_frame", "classes", "prompt")
    }
    assert held == {"name": "finder", "confidence": 0.6, "low": 0.3, "max_per_frame": 7,
                    "classes": ("cat",), "prompt": "a cat."}  # fmt: skip
    assert (record.frames, record.fps, record.image_size) == (6, 4.0, 192)
    assert record.weights_hash == "abc"
    written = record.as_dict()
    assert written["weights_hash"] == "abc"
    assert not {"format", "sha256", "counting"} & set(written)
    nameless = record_of(clip, Finder(weights_hash=None), chosen, options).as_dict()
    assert "weights_hash" not in nameless
    uneven = replace(clip, dense_times=clip.dense_times + np.array([0, 0.001, 0, 0.002, 0, 0.004]))
    assert record_of(uneven, Finder(), chosen, options).fps == round(
        record_of(uneven, Finder(), chosen, options).fps, 2
    )
    single = clip_of(clip.frames[:1], clip.times[:1], dense=False)
    assert record_of(single, Finder(), chosen, options).fps is None


def finished(clip, detector, options=None, cuts=()):
    options = options or RunOptions()
    *_, last = look(clip, detector, options.detect, options, cuts)
    return last.finish()


def test_notes_tell_a_full_frame_and_cuts():
    clip = some_clip()
    full = RunOptions(detect=DetectOptions(max_per_frame=3))
    cap = "a frame held 3 detections or more; more were cut"
    assert cap in finished(clip, Finder(3), full)[1]
    assert not [n for n in finished(clip, Finder(2), full)[1] if "more were cut" in n]
    one = "1 hard cut at 0.6 s: no object is followed across one"
    assert one in finished(clip, Finder(), cuts=(0.6,))[1]
    ten, eleven = (tuple(0.1 * (i + 1) for i in range(n)) for n in (10, 11))
    at = "0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0 s"
    assert (
        f"10 hard cuts at {at}: no object is followed across one"
        in finished(clip, Finder(), cuts=ten)[1]
    )
    more = f"11 hard cuts at {at} and later: no object is followed across one"
    assert more in finished(clip, Finder(), cuts=eleven)[1]


def test_reports_of_libraries_are_the_last_notes():
    class Warns(Finder):
        def detect(self, frames, options):
            logging.getLogger("transformers").warning("weights look strange")
            yield from super().detect(frames, options)

    _, notes = finished(some_clip(), Warns())
    assert "weights look strange" in notes[-1]


def test_only_the_chosen_classes_are_followed():
    options = RunOptions(detect=DetectOptions(classes=("thing1",)))
    tracks, _ = finished(some_clip(), Finder(), options)
    assert {t.label for t in tracks} == {"thing1"}


def test_tracks_so_far_come_at_intervals(monkeypatch):
    """As soon as there is one; then, and until then, every 0.4 s."""
    clock = iter([0.0, *[0.06 * i for i in range(1, 200)]])
    now = [0.0]

    def tick():
        now[0] = next(clock)
        return now[0]

    monkeypatch.setattr(find, "time", SimpleNamespace(monotonic=tick))
    clip = some_clip(40)
    shown = []
    for seen in look(clip, Finder(), DetectOptions(), RunOptions()):
        assert seen.early is None or isinstance(seen.early, tuple)
        if seen.early is not None:
            shown.append((now[0], len(seen.early)))
    at = [t for t, _ in shown]
    assert at[0] <= 0.25
    assert shown[-1][1] == 3
    gaps = [b - a for (a, n), (b, _) in pairwise(shown) if n]
    assert all(0.4 < gap < 0.6 for gap in gaps)
    assert len(gaps) >= 3
    assert all(n for _, n in shown)


def test_tracks_are_followed_in_pixels_of_the_clip(monkeypatch):
    given = {}

    def track(detections, times, shown, options, detect, aspect, cuts):
        given.update(
            times=times, shown=shown, options=options, detect=detect, aspect=aspect, cuts=cuts
        )
        return (), ()

    monkeypatch.setattr(find, "track", track)
    clip = some_clip()
    options = RunOptions(
        video=VideoOptions(), track=TrackOptions(), detect=DetectOptions(confidence=0.7)
    )
    seen = Looking(clip, options, (0.3,))
    seen.detections += list(Finder().detect(clip.dense_frames, options.detect))[:4]
    seen.tracks()
    assert given["aspect"] == pytest.approx(48 / 36)
    assert given["times"].tolist() == clip.dense_times[:4].tolist()
    assert given["shown"] is clip.times
    assert given["options"] is options.track
    assert given["detect"] is options.detect
    assert given["cuts"] == (0.3,)
    assert (seen.done, seen.total) == (4, 6)


def test_a_detector_without_a_hash_has_an_empty_one_in_its_key():
    clip, options = some_clip(), RunOptions()
    key = find.tracks_key(clip, options, options.detect, Finder(weights_hash=None))
    assert key == find.tracks_key(clip, options, options.detect, Finder(weights_hash=""))


def test_a_glance_is_that_of_a_slow_computation():
    draw = np.random.default_rng(8)
    large = cv2.resize(picture(draw, (90, 120, 30)), (200, 130), interpolation=cv2.INTER_NEAREST)
    large = np.clip(large + draw.normal(0, 40, large.shape), 0, 255).astype(np.uint8)
    small = np.full((36, 48, 3), 100, np.uint8)
    small[10, 20] += 1  # so little that its greys are shorter than 1 before they are scaled
    for frame in (large, picture(draw, (10, 240, 128)), small):
        histograms, grey = find._glance(frame)
        expected, expected_grey = slow_glance(frame)
        assert (histograms.shape, histograms.dtype, grey.dtype) == ((27, 8), np.float32, np.float32)
        np.testing.assert_allclose(histograms, expected, atol=1e-6)
        np.testing.assert_allclose(grey, expected_grey, atol=1e-5)
        assert np.linalg.norm(grey) == pytest.approx(1, abs=1e-5)


def steered(monkeypatch, changes, colours=(), shapes=(), apart=0.1):
    """Cuts between pictures that follow one another with these changes, and are known by number.

    colours, shapes: of other pairs, and correlations of pairs; else 1 and 0.
    """
    numbers = dict(enumerate(changes))
    colours = {(i, i + 1): z for i, z in numbers.items()} | dict(colours)
    shapes = dict(shapes)
    monkeypatch.setattr(find, "_glance", lambda p: int(p[0, 0, 0]))
    monkeypatch.setattr(find, "_colour_change", lambda a, b: colours.get((a, b), 1.0))
    monkeypatch.setattr(find, "_alike", lambda a, b: shapes.get((a, b), 0.0))
    count = len(changes) + 1
    frames = np.arange(count, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    found = find_cuts(clip_of(frames, apart * np.arange(count)))
    return [round(t / apart - 0.5) for t in found]


def test_what_a_cut_is_at_its_edges(monkeypatch):
    assert steered(monkeypatch, [0, 0, 0.5, 0, 0]) == [2]
    assert steered(monkeypatch, [0, 0, find.CUT_COLOURS, 0, 0]) == []
    assert steered(monkeypatch, [0, 0, find.CUT_COLOURS + 1e-9, 0, 0]) == [2]
    assert steered(monkeypatch, [0, 0.5, 0], apart=find.WIDEST_S) == [1]
    assert steered(monkeypatch, [0, 0.5, 0], apart=find.WIDEST_S + 1e-6) == []
    usual = 0.25 / find.CUT_RATIO
    assert steered(monkeypatch, [usual, usual, 0.25, usual]) == []
    assert steered(monkeypatch, [usual, usual, 0.2501, usual]) == [2]
    for alike, cuts in ((find.CUT_SHAPES, []), (find.CUT_SHAPES - 1e-9, [2])):
        assert steered(monkeypatch, [0, 0, 0.5, 0, 0], shapes={(2, 3): alike}) == cuts


def test_a_change_is_compared_with_four_before_and_four_after(monkeypatch):
    assert steered(monkeypatch, [0.3, 0.5, 0.0]) == []  # the first counts, as it must
    window = [6, 7, 8, 9, 11, 12, 13, 14]
    for at in (5, *window, 15):  # with three others; four of eight make the median
        changes = [0.0] * 21
        for j in [at, *[j for j in window if j != at][:3]]:
            changes[j] = 0.2
        changes[10] = 0.2 / 2 * find.CUT_RATIO - 1e-6
        assert steered(monkeypatch, changes) == ([] if at in window else [10]), at


@pytest.mark.parametrize("i", [3, 6])
def test_what_comes_back_within_three_pictures_is_a_flash(monkeypatch, i):
    changes = [0.0] * 12
    changes[i] = 0.5
    assert steered(monkeypatch, changes) == [i]
    pairs = [((i, i + n), n <= 4) for n in (2, 3, 4, 5)]
    pairs += [((i + 1, i - n), n <= 3) for n in (1, 2, 3, 4) if i - n >= 0]
    for pair, back in pairs:
        same, alike = {pair: 0.0}, {pair: 1.0}
        assert steered(monkeypatch, changes, same, alike) == ([] if back else [i]), pair
        edge = {pair: find.CUT_COLOURS}, {pair: find.CUT_SHAPES}
        assert steered(monkeypatch, changes, edge[0], alike) == [i]
        assert steered(monkeypatch, changes, same, edge[1]) == [i]


def test_pictures_of_equal_times_are_looked_at_in_their_order(monkeypatch):
    """The dense ones first; of a number that a quick sort would mix."""
    count = 200
    frames = np.arange(count, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    whole = clip_of(frames, np.repeat(np.arange(4.0), count // 4)[::-1].copy())
    seen = []
    monkeypatch.setattr(find, "_glance", lambda p: seen.append(int(p[0, 0, 0])))
    monkeypatch.setattr(find, "_colour_change", lambda a, b: 0.0)
    find_cuts(whole)
    times = [*whole.dense_times, *whole.times]
    numbers = [int(f[0, 0, 0]) for f in (*whole.dense_frames, *whole.frames)]
    assert seen == [n for _, n in sorted(zip(times, numbers, strict=True), key=lambda x: x[0])]


def test_a_rate_has_two_digits_and_a_missing_hash_is_empty():
    clip, options = some_clip(), RunOptions()
    uneven = replace(clip, dense_times=0.3 * np.arange(6))
    record = record_of(uneven, Finder(weights_hash=None), DetectOptions(), options)
    assert (record.fps, record.weights_hash) == (3.33, "")


@pytest.mark.parametrize(("wait", "shown"), [(1, [3]), (12, [16]), (13, [])])
def test_of_the_first_frames_boxes_are_shown_as_soon_as_there_is_one(monkeypatch, wait, shown):
    """Without waiting; what is found first after them waits for its turn."""

    class Late(Finder):
        def detect(self, frames, options):
            for i, found in enumerate(super().detect(frames, options)):
                yield found if i >= wait else Detections(found.boxes[:0], found.scores[:0], ())

    monkeypatch.setattr(find, "time", SimpleNamespace(monotonic=lambda: 0.0))
    looking = look(some_clip(30), Late(), DetectOptions(), RunOptions())
    assert [seen.done for seen in looking if seen.early is not None] == shown


def test_without_an_object_progress_is_shown_all_the_same(monkeypatch):
    class Nothing(Finder):
        def detect(self, frames, options):
            for found in super().detect(frames, options):
                yield Detections(found.boxes[:0], found.scores[:0], ())

    clock = iter(0.25 * np.arange(99))
    monkeypatch.setattr(find, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    looking = look(some_clip(8), Nothing(), DetectOptions(), RunOptions())
    assert [(s.done, s.early) for s in looking if s.early is not None] == [
        (2, ()), (4, ()), (6, ()), (8, ()),
    ]  # fmt: skip
