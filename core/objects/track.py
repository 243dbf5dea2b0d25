"""detections → tracks: association on dense frames, then gaps, smoothing, pruning, reading off.

Association is ByteTrack (IoU, Kalman motion, two confidence passes) from `trackers`; the rest is
docs/methods.md, step 2. Nothing is pruned for being small.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.options import WIDEST_S, DetectOptions, TrackOptions
from macd_studio.core.types import INTERPOLATED, LOST, SEEN, Detections, Floats, Outline, Track

MINIMUM_IOU = 0.15
"""How much a box must overlap a track's last one to continue it."""
SAME_PLACE = 0.5
"""How much two boxes must overlap, with time between that nobody saw, to be one object's."""
MOST = 0.75

Times = NDArray[np.float64]


@dataclass(eq=False)
class Tracklet:
    """Sightings of one object on the dense frames, in time order."""

    index: list[int] = field(default_factory=list)
    boxes: list[Floats] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    outlines: list[Outline | None] = field(default_factory=list)

    def see(self, index: int, detections: Detections, row: int) -> None:
        """One more sighting: a row of what was detected on a dense frame."""
        self.index.append(index)
        self.boxes.append(np.asarray(detections.boxes[row], np.float32))
        self.scores.append(float(detections.scores[row]))
        self.labels.append(detections.labels[row])
        self.outlines.append(detections.outlines[row] if detections.outlines else None)

    def join(self, later: Tracklet) -> None:
        """Appends the sightings of a path that continues this one."""
        for mine, more in zip(vars(self).values(), vars(later).values(), strict=True):
            mine += more

    def label(self) -> str:
        """The label with the largest summed confidence."""
        votes: dict[str, float] = defaultdict(float)
        for name, score in zip(self.labels, self.scores, strict=True):
            votes[name] += score
        return max(sorted(votes), key=votes.__getitem__)


def track(
    detections: Sequence[Detections],
    dense_times: Times,
    times: Times,
    track_options: TrackOptions | None = None,
    detect_options: DetectOptions | None = None,
    aspect: float = 1.0,
    cuts: Sequence[float] = (),
) -> tuple[tuple[Track, ...], tuple[str, ...]]:
    """Tracks read off at `times` (T,), and warnings.

    detections: one per dense frame, at `dense_times` (D,) seconds. aspect: frame width / height.
    cuts: times of hard cuts, across which nothing is followed, joined or read off.
    Ids count from 1 in order of importance: confidence × sightings.
    """
    options, detect = track_options or TrackOptions(), detect_options or DetectOptions()
    if len(detections) != len(dense_times):
        raise ValueError(f"{len(detections)} detections but {len(dense_times)} times")
    bursts = bursts_of(dense_times, options.max_gap)
    paths: list[Tracklet] = []
    for shot in _shots(dense_times, cuts):
        found: list[Tracklet] = []
        for burst in bursts:
            run = slice(max(burst.start, shot.start), min(burst.stop, shot.stop))
            if run.start >= run.stop:
                continue
            for path in _associate(detections[run], dense_times[run], options, detect, aspect):
                path.index = [run.start + i for i in path.index]
                found.append(path)
        found = _joined(found, dense_times)
        paths += _joined_across(found, bursts) if len(bursts) > 1 else found
    warnings: tuple[str, ...] = ()
    if len(bursts) > 1:
        warnings = (
            f"objects were looked for in {len(bursts)} separate parts of the clip, with nothing in"
            " between, and one that is not found again at the same place in the next part counts as"
            " another",
        )
    tracks = [resample_track(p, dense_times, times, options, cuts) for p in paths]
    tracks = [t for t in tracks if (t.state != LOST).any()]
    tracks.sort(key=lambda t: (-t.confidence * t.frames_seen, t.label, float(np.nansum(t.boxes))))
    if len(tracks) > options.max_tracks:
        warnings += (
            f"{len(tracks)} objects were tracked; the {options.max_tracks} most confident and"
            " longest seen were kept",
        )
    kept = tracks[: options.max_tracks]
    return tuple(replace(t, id=i) for i, t in enumerate(kept, 1)), warnings


def bursts_of(dense_times: Times, max_gap: float) -> list[slice]:
    """Runs of dense frames, with more time between them than an object can be followed over.

    A clip that only pauses now and then is one run: it is split where pauses are MOST of it.

    >>> bursts_of(np.array([0.0, 0.1, 60.0, 60.1, 60.2]), max_gap=1.0)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    gaps = np.diff(dense_times)
    wide = gaps > max(max_gap, WIDEST_S) + 1e-6
    if gaps[wide].sum() <= MOST * gaps.sum():
        return [slice(0, len(dense_times))]
    edges = [0, *(int(i) + 1 for i in np.flatnonzero(wide)), len(dense_times)]
    return [slice(a, b) for a, b in pairwise(edges)]


def _shots(dense_times: Times, cuts: Sequence[float]) -> list[slice]:
    """The dense frames between two cuts, in order.

    >>> _shots(np.array([0.0, 0.1, 0.2]), [0.15])
    [slice(0, 2, None), slice(2, 3, None)]
    """
    edges = [0, *(int(i) for i in np.searchsorted(dense_times, cuts)), len(dense_times)]
    return [slice(a, b) for a, b in pairwise(edges) if a < b]


def rate_of(dense_times: Times, max_gap: float) -> float | None:
    """Frames per second inside the runs of `bursts_of`; None where each is a single frame."""
    runs = [dense_times[burst] for burst in bursts_of(dense_times, max_gap)]
    seconds = sum(float(run[-1] - run[0]) for run in runs)
    return sum(len(run) - 1 for run in runs) / seconds if seconds else None


def _associate(
    detections: Sequence[Detections],
    dense_times: Times,
    options: TrackOptions,
    detect: DetectOptions,
    aspect: float,
) -> list[Tracklet]:
    """The paths of one run of dense frames, those that were seen too seldom left out."""
    if len(detections) == 1:
        paths = []
        for row in range(len(detections[0].scores)):
            paths.append(Tracklet())
            paths[-1].see(0, detections[0], row)
    else:
        paths = _followed(detections, dense_times, options, detect, aspect)
    fewest = min(options.min_seen, max(1, len(detections) // 3))
    if len(detections) > 1:
        fewest += 1  # the first sighting, which the others confirm
    return [p for p in paths if len(p.index) >= fewest and max(p.scores) >= detect.confidence]


def _followed(
    detections: Sequence[Detections],
    dense_times: Times,
    options: TrackOptions,
    detect: DetectOptions,
    aspect: float,
) -> list[Tracklet]:
    import supervision as sv
    from trackers import ByteTrackTracker

    rate = (len(dense_times) - 1) / max(1e-6, float(dense_times[-1] - dense_times[0]))
    next_frame = math.ceil(1.05 * 30 / rate)  # or every track would end before it
    tracker = ByteTrackTracker(
        lost_track_buffer=max(round(30 * options.max_gap), next_frame),
        frame_rate=rate,
        track_activation_threshold=detect.confidence,
        high_conf_det_threshold=detect.confidence,
        minimum_consecutive_frames=1,
        minimum_iou_threshold=MINIMUM_IOU,
    )
    scale = np.array([aspect, 1, aspect, 1], np.float32) * 1000  # IoU and motion in true shape
    paths: dict[int, Tracklet] = defaultdict(Tracklet)
    unnamed: list[int] = []  # rows of the frame before that may have begun a track
    for i, current in enumerate(detections):
        boxes = np.asarray(current.boxes, np.float32).reshape(-1, 4)
        out = tracker.update(
            sv.Detections(
                xyxy=boxes * scale,
                confidence=np.asarray(current.scores, np.float32),
                class_id=np.arange(len(boxes)),  # carries the row through the association
            ),
            timestamp=float(dense_times[i]),
        )
        if out.class_id is None or out.tracker_id is None:
            unnamed = []
            continue
        begun, unnamed = unnamed, []
        for row, identity in zip(out.class_id, out.tracker_id, strict=True):
            if identity < 0:
                if current.scores[row] >= detect.confidence:
                    unnamed.append(int(row))
                continue
            path = paths[int(identity)]
            if not path.index and begun:  # ByteTrack names a track at its second sighting
                before = detections[i - 1]
                first = max(begun, key=lambda r: _iou(before.boxes[r], current.boxes[row]))
                if _iou(before.boxes[first], current.boxes[row]) >= MINIMUM_IOU:
                    begun.remove(first)
                    path.see(i - 1, before, first)
            path.see(i, current, int(row))
    return list(paths.values())


def _iou(a: Floats, b: Floats) -> float:
    """Intersection over union of two boxes (4,)."""
    sides = (np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])).clip(0)
    shared = float(sides.prod())
    union = float((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod()) - shared
    return shared / max(union, 1e-12)


def _joined(paths: list[Tracklet], dense_times: Times) -> list[Tracklet]:
    """Joins paths of one label that follow each other where the first one's motion leads."""
    paths = sorted(paths, key=lambda p: p.index[0])
    joined: list[Tracklet] = []
    for path in paths:
        for earlier in joined:
            gap = dense_times[path.index[0]] - dense_times[earlier.index[-1]]
            if not 0 < gap <= 2.0 or earlier.label() != path.label():
                continue
            if _distance(earlier, path, dense_times) < 0.5:
                earlier.join(path)
                break
        else:
            joined.append(path)
    return joined


def _joined_across(paths: list[Tracklet], bursts: list[slice]) -> list[Tracklet]:
    """Joins what one burst shows with what an earlier one showed at the same place, by label.

    Nothing is known of the time between, so that only what has not moved is taken for the same.
    """
    starts = [burst.start for burst in bursts]
    joined: list[Tracklet] = []
    ordered = sorted(paths, key=lambda p: p.index[0])
    for _, group in groupby(ordered, key=lambda p: bisect_right(starts, p.index[0])):
        later = list(group)
        pairs = [
            (_iou(a.boxes[-1], b.boxes[0]), i, j)
            for i, a in enumerate(joined)
            for j, b in enumerate(later)
            if a.index[-1] < b.index[0] and a.label() == b.label()
        ]
        partners: dict[int, int] = {}
        for overlap, i, j in sorted(pairs, key=lambda pair: -pair[0]):
            if overlap >= SAME_PLACE and i not in partners.values() and j not in partners:
                partners[j] = i
        for j, path in enumerate(later):
            if j in partners:
                joined[partners[j]].join(path)
            else:
                joined.append(path)
    return joined


def _distance(earlier: Tracklet, later: Tracklet, dense_times: Times) -> float:
    """From where the earlier path should be by then to where the later begins, in diagonals."""
    last = earlier.boxes[-1]
    n = min(5, len(earlier.index))
    run = dense_times[earlier.index[-1]] - dense_times[earlier.index[-n]]
    velocity = (last - earlier.boxes[-n]) / run if run > 0 else np.zeros(4)
    gap = dense_times[later.index[0]] - dense_times[earlier.index[-1]]
    expected, actual = last + velocity * gap, later.boxes[0]
    offset = (expected[:2] + expected[2:] - actual[:2] - actual[2:]) / 2
    diagonal = np.hypot(*(actual[2:] - actual[:2])) + 1e-6
    return float(np.hypot(*offset) / diagonal)


def resample_track(
    path: Tracklet, dense_times: Times, times: Times, options: TrackOptions, cuts: Sequence[float]
) -> Track:
    """The track at the sampled times, interpolated inside its gaps and never over a cut."""
    seen_at = dense_times[path.index]
    boxes = smooth(np.stack(path.boxes).astype(np.float64), seen_at, options.smoothing)
    spacing = float(np.median(np.diff(dense_times))) if len(dense_times) > 1 else 0.0
    state = np.full(len(times), LOST, np.int8)
    out = np.full((len(times), 4), np.nan, np.float32)
    outlines: list[Outline | None] = [None] * len(times)
    shot = np.searchsorted(cuts, seen_at[0])
    for i, t in enumerate(times):
        if np.searchsorted(cuts, t) != shot:
            continue
        closest = int(np.abs(seen_at - t).argmin())
        nearest = float(abs(seen_at[closest] - t))
        inside = seen_at[0] <= t <= seen_at[-1]
        if nearest <= 0.5 * spacing + 1e-6:
            state[i] = SEEN
        elif inside:
            j = int(np.searchsorted(seen_at, t))
            if seen_at[j] - seen_at[j - 1] > options.max_gap + spacing:
                continue
            state[i] = INTERPOLATED
        else:
            continue
        out[i] = [np.interp(t, seen_at, boxes[:, c]) for c in range(4)]
        outlines[i] = _within(path.outlines[closest], path.boxes[closest])
    return Track(
        id=0,
        label=path.label(),
        confidence=float(np.mean(path.scores)),
        boxes=out.clip(0, 1),
        state=state,
        frames_seen=len(path.index),
        outlines=tuple(outlines) if any(o is not None for o in outlines) else (),
    )


def _within(outline: Outline | None, box: Floats) -> Outline | None:
    """An outline in shares of the frame as shares of its box, so that it moves with the box."""
    if outline is None:
        return None
    size = np.maximum(box[2:] - box[:2], 1e-4)
    return tuple(((ring - box[:2]) / size).round(4).astype(np.float32) for ring in outline)


def smooth(
    boxes: NDArray[np.float64], at: NDArray[np.float64], sigma: float
) -> NDArray[np.float64]:
    """Locally linear fit of (N, 4) boxes over time with a Gaussian of `sigma` seconds.

    Steady motion is left where it is, at the ends too, which a plain average would not do.
    """
    if sigma <= 0 or len(boxes) < 3:
        return boxes
    out = np.empty_like(boxes)
    for i, t in enumerate(at):
        d = at - t
        w = np.exp(-0.5 * (d / sigma) ** 2)
        s0, s1, s2 = w.sum(), (w * d).sum(), (w * d * d).sum()
        det = s0 * s2 - s1 * s1
        weight = w * (s2 - s1 * d) / det if det > 1e-9 else w / s0
        out[i] = weight @ boxes
    return out
