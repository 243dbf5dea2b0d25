"""Objects that a file describes → tracks at a clip's sampled frames.

A file counts frames. Without a rate of its own these are the clip's frames, which are counted by
their timestamps, so that a clip of varying rate fits too; otherwise frame n is shown at
start + n / rate seconds. Some formats do not say whether their first frame is 0 or 1; the number of
the last one decides where it can. What lies between frames that a file describes is what its format
says: CVAT and Label Studio move an object evenly from one to the next. Files of single pictures
(COCO, masks, YOLO) say nothing: an object that the file tells from others is moved evenly between
two pictures that follow each other; of others the closest picture is taken, if it lies within half
their spacing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.annotations import Annotated, Look, Shape, TrackFile, ring_seen
from macd_studio.core.objects.formats.source import ClipFacts
from macd_studio.core.options import TrackOptions
from macd_studio.core.records import DetectorRecord
from macd_studio.core.text.words import count
from macd_studio.core.types import INTERPOLATED, LOST, SEEN, Clip, Outline, Track

CLOSE = 0.02
"""A position this near to a described frame is on it; rates are rarely exact."""
MIN_LISTED, SPARSE = 5, 1.9
"""A file of so many pictures, one after the other, of a clip with so many times as many frames, may
have been made at a lower rate."""
SHAPE_OFF = 0.02
"""By how much the shape of a file's pictures may differ from the clip's."""


SampledClip = Clip | ClipFacts
"""What says of a clip where tracks are placed."""


@dataclass(frozen=True, eq=False)
class FoundTracks:
    """Tracks of a file at a clip's sampled frames, what must be known of them, and their record."""

    tracks: tuple[Track, ...]
    record: DetectorRecord
    notes: tuple[str, ...] = ()


def place_tracks(
    file: TrackFile, clip: SampledClip, options: TrackOptions | None = None
) -> FoundTracks:
    """The file's objects as tracks at `clip.times`. Raises TracksError where they do not fit.

    At most `max_tracks` objects are drawn: those that are seen longest.
    """
    options = options or TrackOptions()
    _check_shape(file, clip)
    if not len(file.frames):
        raise TracksError(f"{file.name} describes no object", "Choose another file")
    at, how = _positions(file, clip, options)
    objects, looked = file.objects, tuple[str, ...]()
    if file.look is not None:
        objects, looked = file.look(sorted({n for p in at for n in _around(file, float(p))}))
    near = [one for one in objects if _comes_near(one, at, file)]
    # stable: the file's order decides
    near.sort(key=lambda one: (-one.frames_seen, -one.confidence))
    frame = clip.size[1], clip.size[0]
    placed = [_placed(one, at, file, frame) for one in near[: options.max_tracks]]
    tracks = [t for t, _ in placed if (t.state != LOST).any()]
    if not tracks:
        raise TracksError(_outside(file, at, how), "State its rate and the time of its frame 0")
    notes = [*file.notes, *looked, f"objects are those of {file.name}: {how}"]
    notes += _between_told(file, near[: options.max_tracks])
    beyond = int((file.frames > at.max() + _spacing(file)).sum()) if file.seconds else 0
    if beyond:
        notes.append(f"{count(beyond, 'described frame')} of it lie after the last sampled frame")
    if len(near) > options.max_tracks:
        notes.append(
            f"the file holds {len(near)} objects; the {options.max_tracks} longest seen were kept"
        )
    if any(not exact for _, exact in placed):
        notes.append(
            "some masks have more parts, holes or points than an outline can have: the smallest"
            " parts were left out, or the edge was simplified"
        )
    record = DetectorRecord.from_dict({
        "name": file.name, "format": file.format, "sha256": file.sha256, "counting": how,
        "frames": len(clip.times),
    })  # fmt: skip
    return FoundTracks(
        tuple(replace(t, id=i) for i, t in enumerate(tracks, 1)), record, tuple(notes)
    )


def _comes_near(one: Annotated, at: NDArray[np.float64], file: TrackFile) -> bool:
    """Whether any of its shapes may be on a sampled frame; nothing is drawn for it."""
    known = [shape.at for shape in one.shapes]
    for position in at:
        if file.between == "even":
            i = bisect_right(known, float(position) + CLOSE) - 1
            if i >= 0 and one.shapes[i].in_sight:
                return True
            continue
        for nearest in _around(file, float(position)):
            i = bisect_right(known, nearest) - 1
            if i >= 0 and known[i] == nearest and one.shapes[i].in_sight:
                return True
    return False


def _check_shape(file: TrackFile, clip: SampledClip) -> None:
    if file.size is None:
        return
    width, height = file.size
    for shown in filter(None, (clip.size, clip.stored_size)):
        if abs((width / height) / (shown[0] / shown[1]) - 1) <= SHAPE_OFF:
            return
    raise TracksError(
        f"the pictures of {file.name} are {width}×{height}, and the clip's are"
        f" {clip.size[0]}×{clip.size[1]}: they have another shape",
        "Choose the file that was made for this clip",
    )


def _positions(
    file: TrackFile, clip: SampledClip, options: TrackOptions
) -> tuple[NDArray[np.float64], str]:
    """Which frame of the file each sampled frame is, not whole if between two; and how in words."""
    start = options.file_start
    late = f", its first at {start:g} s" if start else ""
    if clip.is_picture:
        return np.full(1, file.frames.min()), "the clip is one picture, and so is the file's first"
    if file.seconds and options.file_fps is None:
        return clip.times - start, f"placed by their times{late}"
    fps = options.file_fps or file.fps
    if fps is None and start:
        fps = clip.fps
    stated = None if options.file_first == "auto" else float(options.file_first)
    first = file.first if stated is None else stated
    if fps is not None:
        how = f"its frame n is taken for that at n / {fps:g} s"
        counted: NDArray[np.float64] = (clip.times - start) * fps + first
        return counted, how + (f" + {start:g} s" if start else "")
    if clip.numbers is None:
        raise TracksError(
            f"{file.name} counts frames, and how many the clip has a second is not known",
            "State the frames per second of the file",
        )
    first, from_ = _first_frame(file, clip, options, first)
    return clip.numbers.astype(np.float64) + first, f"its frames are counted as the clip's{from_}"


def _first_frame(
    file: TrackFile, clip: SampledClip, options: TrackOptions, first: float
) -> tuple[float, str]:
    """The number of the file's first frame, and how it is known in words.

    Raises TracksError where the file describes a frame that the clip does not have.
    """
    lowest, highest = float(file.frames.min()), float(file.frames.max())
    if file.between == "even":  # a shape that ends an object lies behind its last frame
        seen = [shape.at for one in file.objects for shape in one.shapes if shape.in_sight]
        lowest, highest = (min(seen), max(seen)) if seen else (lowest, lowest)
    how = ""
    if options.file_first != "auto":
        how = f", from {first:g}"
    elif file.counted == "open" and clip.count is not None and lowest >= 1:
        if highest == clip.count:
            first = 1.0
            how = f", from 1: its last is {highest:g}, and the clip has {clip.count} frames"
        elif lowest == 1 and clip.count > 1:
            how = ", from 0; no frame 0 is described; choose 1 as its first frame if it is"
    if file.lists_all and options.file_first == "auto":
        _ask_for_rate(file, clip)
    if clip.count is not None and not lowest - first >= 0:
        raise TracksError(
            f"{file.name} describes frame {lowest:g}, and its first is stated to be {first:g}",
            "State the number of its first frame with --first-frame",
        )
    if clip.count is not None and highest - first > clip.count - 1:
        raise TracksError(
            f"{file.name} describes frame {highest:g}, and the clip has frames {first:g} to"
            f" {first + clip.count - 1:g}",
            "Choose the file of this clip, or state its rate with --tracks-fps",
        )
    return first, how


def _ask_for_rate(file: TrackFile, clip: SampledClip) -> None:
    """Raises TracksError where a file lists pictures 1 to n of a clip that has many more: they may
    be its first, or taken at a lower rate."""
    n, every = len(file.frames), clip.count
    lowest, highest = float(file.frames.min()), float(file.frames.max())
    if clip.fps is None or every is None or lowest > 1 or highest - lowest != n - 1:
        return
    if n < MIN_LISTED or every < SPARSE * n:
        return
    seconds = every / clip.fps
    raise TracksError(
        f"{file.name} lists pictures {lowest:g} to {highest:g}, and the clip has {every} frames in"
        f" {seconds:.3g} s: they are its first {n}, or were taken at a lower rate",
        f"State their rate with --tracks-fps: {clip.fps:.4g} if they are its first,"
        f" {n / seconds:.3g} if they cover all of it",
    )


def _between_told(file: TrackFile, objects: Sequence[Annotated]) -> list[str]:
    """What is done between the pictures of a file that leaves some out."""
    spacing = _spacing(file)
    if file.between == "even" or spacing <= 1.5:
        return []
    loose = [one for one in objects if not one.certain]
    told = [f"{file.name} describes one frame of {spacing:g}"]
    if len(loose) < len(objects):
        told.append("between these, objects were moved evenly")
    if loose:
        told.append(
            f"{count(len(loose), 'object')} without a number of their own are shown where they are"
            " on the closest"
        )
    return ["; ".join(told)]


def _outside(file: TrackFile, at: NDArray[np.float64], how: str) -> str:
    unit = "second" if file.seconds else "frame"
    return (
        f"no object of {file.name} is in sight on a sampled frame: it describes {unit}s"
        f" {file.frames.min():g} to {file.frames.max():g}, and the clip's are {unit}s"
        f" {at.min():g} to {at.max():g} ({how})"
    )


def _spacing(file: TrackFile) -> float:
    """Frames from one described picture to the next, as a rule."""
    return float(np.median(np.diff(file.frames))) if len(file.frames) > 1 else 1.0


def _closest(file: TrackFile, position: float) -> list[float]:
    """The described frame that stands for a position; none where the closest is too far."""
    nearest = float(file.frames[int(np.abs(file.frames - position).argmin())])
    return [nearest] if abs(nearest - position) <= 0.5 * _spacing(file) + CLOSE else []


def _around(file: TrackFile, position: float) -> list[float]:
    """The described frames that a position may be shown by: the closest, and those beside it."""
    i = int(np.searchsorted(file.frames, position))
    beside = file.frames[max(0, i - 1) : i + 1].tolist() if 0 < i < len(file.frames) else []
    return [*_closest(file, position), *beside]


def _placed(
    one: Annotated, at: NDArray[np.float64], file: TrackFile, frame: tuple[int, int]
) -> tuple[Track, bool]:
    boxes = np.full((len(at), 4), np.nan, np.float32)
    state = np.full(len(at), LOST, np.int8)
    outlines: list[Outline | None] = [None] * len(at)
    known = [shape.at for shape in one.shapes]
    exact = True
    for i, position in enumerate(at):
        at_frame = _seen_evenly if file.between == "even" else _seen_closest
        seen = at_frame(one, known, float(position), file, frame)
        if seen is None:
            continue
        (boxes[i], outlines[i], whole), state[i] = seen
        exact &= whole
    return Track(
        id=0,
        label=one.label,
        confidence=one.confidence,
        boxes=boxes,
        state=state,
        frames_seen=one.frames_seen,
        outlines=tuple(outlines) if any(o is not None for o in outlines) else (),
    ), exact


def _seen_closest(
    one: Annotated, known: Sequence[float], position: float, file: TrackFile, frame: tuple[int, int]
) -> tuple[Look, int] | None:
    """Between two pictures that follow each other and both have it; else on the closest."""
    i = bisect_right(known, position + CLOSE) - 1
    if one.certain and 0 <= i < len(known) - 1 and position - known[i] > CLOSE:
        j = int(np.searchsorted(file.frames, known[i]))
        if file.frames[j + 1] == known[i + 1]:
            return _between(one.shapes[i], one.shapes[i + 1], position, frame)
    for nearest in _closest(file, position):
        i = bisect_right(known, nearest) - 1
        if i >= 0 and known[i] == nearest and (shape := one.shapes[i].see(frame)) is not None:
            return shape, SEEN if abs(nearest - position) <= 0.5 else INTERPOLATED
    return None


def _seen_evenly(
    one: Annotated, known: Sequence[float], position: float, file: TrackFile, frame: tuple[int, int]
) -> tuple[Look, int] | None:
    """Moves evenly from one described frame to the next, an outline with its box."""
    i = bisect_right(known, position + CLOSE) - 1
    if i < 0:
        return None
    before = one.shapes[i]
    shape = before.see(frame)
    if shape is None:
        return None
    if abs(position - before.at) <= CLOSE:
        return shape, SEEN
    if i + 1 == len(one.shapes):
        return (shape, INTERPOLATED) if file.stays else None
    after = one.shapes[i + 1]
    if before.runs is not None and after.in_sight:
        return shape, INTERPOLATED  # a mask stays until the next one
    return _between(before, after, position, frame)


def _between(
    before: Shape, after: Shape, position: float, frame: tuple[int, int]
) -> tuple[Look, int] | None:
    """An object that moves evenly from one shape to another; the nearer one's outline moves with
    its box, where no polygon can."""
    shape, following = before.see(frame), after.see(frame)
    if shape is None or following is None:  # it stays until it is out of sight
        return None if shape is None else (shape, INTERPOLATED)
    part = (position - before.at) / (after.at - before.at)
    if len(before.rings) == len(after.rings) == 1:  # each point moves evenly to the same one
        a, b = before.rings[0], after.rings[0]
        if a.shape == b.shape and (ring := ring_seen(a + part * (b - a), before.size)) is not None:
            return ring, INTERPOLATED
    box = (shape[0] + part * (following[0] - shape[0])).astype(np.float32)
    outline = shape[1] if part < 0.5 or following[1] is None else following[1]
    return (box, outline, shape[2] and following[2]), INTERPOLATED
