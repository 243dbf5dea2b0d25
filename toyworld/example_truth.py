"""Whether a trace of a drawn clip can be read: its tracks and what is asked, against the truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.types import Track
from macd_studio.toyworld.clips import FRAMES
from macd_studio.toyworld.world import ClipSpec, ObjectSpec, frame_times

OVERLAP = 0.5
"""Of a track's box and the drawn one, their intersection over their union at least."""
OPACITY, SIDE = 0.4, 0.06
"""What a person sees at a glance: opacity, and size as a share of the frame's side, at least."""
COVERED = 0.25
"""Of the asked object, the largest share that other objects may cover on any frame."""
Boxes = NDArray[np.float64]


def overlap(one: Boxes, other: Boxes) -> NDArray[np.float64]:
    """(T,) intersection over union of two boxes on every frame, (T, 4) x0 y0 x1 y1 in [0, 1].

    NaN where either has no box.

    >>> overlap(np.array([[0, 0, 1, 1.0]]), np.array([[0, 0, 0.5, 1.0]])).tolist()
    [0.5]
    """
    shared = _area(_cut(one, other))
    return shared / (_area(one) + _area(other) - shared)


def one_object_each(tracks: Sequence[Track], spec: ClipSpec) -> bool:
    """Whether every track bears the name of a drawn object and lies on it wherever it has a box.

    Two tracks of one object do not pass, nor does a trace without tracks.
    """
    labels = [t.label for t in tracks]
    if not labels or len(set(labels)) < len(labels) or not set(labels) <= set(spec.labels):
        return False
    for track in tracks:
        boxes = np.asarray(track.boxes, float)
        lies = overlap(boxes, _drawn(spec.find(track.label), len(boxes)))
        if not (lies[~np.isnan(boxes[:, 0])] >= OVERLAP).all():  # NaN: before the object comes
            return False
    return True


def tracked_throughout(tracks: Sequence[Track], spec: ClipSpec) -> bool:
    """Whether every drawn object has a track of its name, with a box wherever it is in view."""
    found = {t.label: ~np.isnan(t.boxes[:, 0]) for t in tracks}
    if set(found) != set(spec.labels):
        return False
    return all(
        bool((found[o.label] >= ~np.isnan(_drawn(o, len(found[o.label]))[:, 0])).all())
        for o in spec.objects
    )


def in_sight(spec: ClipSpec, asked: str) -> bool:
    """Whether a person sees the asked object: opaque, large and sharp, and not behind others.

    asked: its class; what is asked about and is not drawn cannot be hard to see.
    """
    if asked not in spec.labels:
        return True
    thing = spec.find(asked)
    clear = thing.contrast >= OPACITY and thing.size >= SIDE and not thing.blurred
    fogged = any(fog.label in (None, asked) for fog in spec.fogs)
    own = _drawn(thing, FRAMES)
    above = spec.objects[spec.objects.index(thing) + 1 :]
    covers = [_area(_cut(own, _drawn(o, FRAMES))) / _area(own) for o in above]
    return clear and not fogged and not (np.array(covers) > COVERED).any()


def readable(tracks: Sequence[Track], spec: ClipSpec, asked: str) -> bool:
    """What every shipped example holds: its tracks are the objects, the asked one is in sight."""
    return (
        one_object_each(tracks, spec) and tracked_throughout(tracks, spec) and in_sight(spec, asked)
    )


def apart(spec: ClipSpec, frames: int = 2 * FRAMES) -> bool:
    """Whether no two objects' boxes meet on any of so many frames."""
    boxes = [_drawn(o, frames) for o in spec.objects]
    pairs = ((a, b) for k, a in enumerate(boxes) for b in boxes[:k])
    return not any((_area(_cut(a, b)) > 0).any() for a, b in pairs)


def _drawn(thing: ObjectSpec, frames: int) -> Boxes:
    return thing.boxes(frame_times(frames))


def _cut(one: Boxes, other: Boxes) -> Boxes:
    low, high = np.maximum(one[:, :2], other[:, :2]), np.minimum(one[:, 2:], other[:, 2:])
    return np.concatenate([low, np.maximum(low, high)], axis=1)


def _area(boxes: Boxes) -> NDArray[np.float64]:
    sides: Boxes = boxes[:, 2:] - boxes[:, :2]
    return sides.prod(axis=1)
