"""Shapes of frames → objects: those that a file names, and those that are linked by overlap."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.annotations import Annotated, Shape
from macd_studio.core.objects.formats.bounds import FEWER, refuse
from macd_studio.core.types import Floats

MAX_SHAPES, MAX_OBJECTS = 200_000, 4000
MAX_IN_FRAME = 200
"""Objects on one frame, where they are linked from frame to frame."""
MIN_OVERLAP = 0.05
"""Of two boxes of one label on following pictures, to be of one object."""


class ShapeCounter:
    """Counts shapes, so that none are taken beyond MAX_SHAPES."""

    def __init__(self, name: str) -> None:
        self.name, self.n = name, 0

    def one_more(self) -> None:
        """One shape; raises TracksError where it is one too many."""
        self.n += 1
        if self.n > MAX_SHAPES:
            refuse(
                self.name, f"holds more than {MAX_SHAPES} shapes", "Export this clip's objects only"
            )


def objects_of(
    name: str, found: Mapping[Any, tuple[str, float, list[Shape]]], certain: bool = True
) -> tuple[Annotated, ...]:
    """Objects in the order in which they were found; their shapes in the order of frames.

    certain: whether the file says which shapes are of one.

    Raises TracksError where an object has two shapes on one frame: neither of them is taken for
    the right one.
    """
    if len(found) > MAX_OBJECTS:
        refuse(name, f"holds {len(found)} objects, more than {MAX_OBJECTS}", "Export fewer of them")
    objects = []
    for label, confidence, shapes in found.values():
        by_frame: dict[float, Shape] = {}
        for shape in shapes:
            other = by_frame.setdefault(shape.at, shape)
            if other is not shape:
                raise TracksError(
                    f"{name} describes one object, {label}, twice on frame {shape.at:g}:"
                    f" {other.place or 'first'} and {shape.place or 'again'}",
                    "Give each object a number of its own",
                )
        ordered = tuple(by_frame[at] for at in sorted(by_frame))
        objects.append(Annotated(label, ordered, confidence, certain))
    return tuple(objects)


def linked(
    name: str, pictures: Mapping[float, list[tuple[str, float, Shape]]]
) -> tuple[Annotated, ...]:
    """Objects from pictures that do not say which shapes are one: by label and overlap.

    A label that no picture has twice is one object, however far it moves.
    """
    alone = {label for rows in pictures.values() for label, _, _ in rows}
    for rows in pictures.values():
        counts = Counter(label for label, _, _ in rows)
        alone -= {label for label, n in counts.items() if n > 1}
    tracks: list[tuple[str, list[float], list[Shape]]] = []
    active: dict[int, Floats] = {}
    for at in sorted(pictures):
        rows = pictures[at]
        if len(rows) > MAX_IN_FRAME:
            refuse(name, f"holds {len(rows)} objects on one frame, more than {MAX_IN_FRAME}", FEWER)
        boxes = np.array([row[2].box for row in rows], np.float32)
        names, taken = list(active), dict[int, int]()
        if names:
            overlap = overlaps(np.array([active[k] for k in names]), boxes)
            same = np.array([[tracks[k][0] == row[0] for row in rows] for k in names])
            overlap[~same] = 0
            overlap[same & np.array([row[0] in alone for row in rows])] = 1
            while overlap.max() > MIN_OVERLAP:
                row, column = divmod(int(overlap.argmax()), overlap.shape[1])
                taken[column] = names[row]
                overlap[row], overlap[:, column] = 0, 0
        for j, (label, score, shape) in enumerate(rows):
            k = taken.get(j, len(tracks))
            if k == len(tracks):
                tracks.append((label, [], []))
            tracks[k][1].append(score)
            tracks[k][2].append(shape)
            active.pop(k, None)
            active[k] = boxes[j]
        for old in list(active)[:-MAX_IN_FRAME]:
            del active[old]
    found = {i: (label, float(np.mean(s)), z) for i, (label, s, z) in enumerate(tracks)}
    return tuple(replace(one, certain=one.label in alone) for one in objects_of(name, found, False))


def overlaps(a: Floats, b: Floats) -> Floats:
    """(N, M) intersection over union of boxes (N, 4) and (M, 4)."""
    sides = np.minimum(a[:, None, 2:], b[None, :, 2:]) - np.maximum(a[:, None, :2], b[None, :, :2])
    shared = sides.clip(0).prod(axis=2)
    area = [(z[:, 2:] - z[:, :2]).prod(axis=1) for z in (a, b)]
    union = area[0][:, None] + area[1][None] - shared
    return np.asarray(shared / np.maximum(union, 1e-12), np.float32)


class PictureShapes:
    """Shapes of single pictures: with the object that each is of, or else to be linked.

    counter: shared by the videos of one file.
    """

    def __init__(self, name: str, counter: ShapeCounter | None = None) -> None:
        self.name = name
        self.named: dict[Any, tuple[str, float, list[Shape]]] = {}
        self.loose: dict[float, list[tuple[str, float, Shape]]] = defaultdict(list)
        self.frames: set[float] = set()
        self._counter = counter or ShapeCounter(name)

    def add(self, key: Any, label: str, score: float, shape: Shape) -> None:
        """One shape. key: of its object; None where the file does not say."""
        self._counter.one_more()
        self.frames.add(shape.at)
        if key is None:
            self.loose[shape.at].append((label, score, shape))
        else:
            self.named.setdefault(key, (label, score, []))[2].append(shape)

    def objects(self) -> tuple[Annotated, ...]:
        """All objects."""
        return (*objects_of(self.name, self.named), *linked(self.name, self.loose))

    def described(self) -> NDArray[np.float64]:
        """The frames that the file describes, in order."""
        return np.array(sorted(self.frames), np.float64)
