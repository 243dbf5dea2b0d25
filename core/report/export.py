"""A trace's tracks, or what its levels mask, → COCO, CVAT, Label Studio, YOLO, PNG or our own file.

`core.objects.formats` reads each of them back. Frames are numbered as in the clip's own file, so
that the tool that reads them shows each on its picture.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from macd_studio.core.errors import OptionError
from macd_studio.core.masking.masks import brushed, combine_masks, draw_masks, soft_boxes
from macd_studio.core.objects.formats import WRITERS
from macd_studio.core.objects.formats.sheet import Drawn, Exported, Sheet
from macd_studio.core.objects.outlines import filled, outline_of, placed
from macd_studio.core.system.beside import BESIDE, ProcessLimits, make_in_process, make_one
from macd_studio.core.system.whole import written_whole
from macd_studio.core.text.words import writable
from macd_studio.core.traces.bundle import unpack
from macd_studio.core.types import LOST, SEEN, Trace, Track
from macd_studio.core.validation import check_named

What = Literal["tracks", "levels"]


def export_tracks(
    trace: Trace, path: str | Path, format: str = "json", what: What = "tracks"
) -> Path:
    """Writes a trace's objects, or what its levels mask, for other programs; returns the path.

    format: a name of `formats.WRITERS`. what: "tracks" are the objects with their levels as
    attributes; "levels" two objects, "masked" and "partly masked": the pixels of the
    counterfactual's mask M nearer to 1, and nearer to r0, than to what is below. Raises OptionError
    for another format, a trace without objects or levels, and a place that cannot be written.
    """
    content, path = exported(trace, format, what), Path(path)
    try:
        with written_whole(path) as part:
            part.write_bytes(content)
    except OSError as error:
        raise OptionError(
            f"the tracks cannot be written ({error.strerror})", "Choose another place"
        ) from error
    return path


def exported(trace: Trace, format: str = "json", what: What = "tracks") -> bytes:
    """The content of the file that `export_tracks` writes. Raises OptionError likewise."""
    check_named(format, WRITERS, "format")
    write = WRITERS[format].write
    assert write is not None
    return write(sheet_of(trace, what))


def sheet_of(trace: Trace, what: What) -> Sheet:
    """What is to be written of a trace."""
    size = trace.frames.shape[1], trace.frames.shape[2]
    if what == "tracks" and not trace.tracks:
        raise OptionError("the trace holds no objects", "Choose a trace with objects")
    objects = _level_objects(trace, size) if what == "levels" else _track_objects(trace, size)
    count = len(trace.times)
    numbers = trace.clip.numbers if len(trace.clip.numbers) == count else tuple(range(count))
    fps = trace.clip.fps if trace.clip.numbers and trace.clip.fps else 1.0
    times = tuple(float(t) for t in trace.times)
    return Sheet(objects, numbers, times, size, fps, writable(trace.clip.name) or "clip")


def _track_objects(trace: Trace, size: tuple[int, int]) -> tuple[Exported, ...]:
    final = trace.counterfactual
    level = None if final is None or len(final.level) != len(trace.tracks) else final.level
    return tuple(
        Exported(
            one.id, one.label, float(one.confidence), None if level is None else float(level[k]),
            tuple(_drawn(one, i, size) for i in range(len(trace.times))),
        )
        for k, one in enumerate(trace.tracks)
    )  # fmt: skip


def _drawn(one: Track, frame: int, size: tuple[int, int]) -> Drawn | None:
    box = one.boxes[frame]
    if one.state[frame] == LOST or not np.isfinite(box).all():
        return None
    mask, outline = None, one.outline(frame)
    if outline is not None:
        mask = filled(placed(outline, box, size), size)
    if one.brush:
        soft = soft_boxes(box[None], size, 0, 1e-4) if mask is None else mask[None].astype(float)
        for stroke in one.brush:
            soft = brushed(soft, box[None], stroke, 1e-4)
        mask = soft[0] >= 0.5
    if mask is not None and not mask.any():
        return None
    return Drawn(box, mask, size, bool(one.state[frame] == SEEN))


def _level_objects(trace: Trace, size: tuple[int, int]) -> tuple[Exported, ...]:
    final = trace.counterfactual
    if final is None or (len(final.level) != len(trace.tracks) and trace.tracks):
        raise OptionError("the trace has no levels", "Choose one whose run came to its levels")
    masks = draw_masks(trace.tracks, len(trace.times), size, trace.mask)
    hidden = combine_masks(
        masks, final.level, final.frame_level, trace.groups,
        [t.confidence for t in trace.tracks], trace.mask,
    )  # fmt: skip
    r0 = trace.options.ascent.r0
    full = hidden >= (1 + r0) / 2
    partly = (hidden >= r0 / 2) & ~full
    objects = []
    for i, (label, value, area) in enumerate(
        (("masked", 1.0, full), ("partly masked", r0, partly))
    ):
        found = [(outline_of(mask), mask) for mask in area]
        frames = tuple(None if z is None else Drawn(z[0], mask, size) for z, mask in found)
        if any(frames):
            objects.append(Exported(i + 1, label, 1.0, value, frames))
    if not objects:
        raise OptionError("the levels mask nothing", "Choose a trace with a masked object")
    return tuple(objects)


REMEDY = "Save the trace, and write them by `python -m core export` on a machine of your own"


def export_beside(
    content: bytes,
    format: str,
    what: What,
    cancelled: Callable[[], bool] = lambda: False,
    limits: ProcessLimits = BESIDE,
) -> bytes:
    """`exported` of the trace in `content`, the bytes of its file, by a bounded process.

    Masks of every object on every frame take far more than the trace that describes them, so a
    server writes an untrusted trace this way. cancelled, limits, errors: as
    `beside.make_in_process`.
    """
    module = "macd_studio.core.report.export"  # run as a process
    return make_in_process(
        module, {"format": format, "what": what}, content, REMEDY, cancelled, limits
    )


if __name__ == "__main__":
    make_one(lambda job, content: exported(unpack(content), job["format"], job["what"]))
