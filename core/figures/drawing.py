"""Trace → pictures: boxes, paths, levels and a token's evidence over the source frames.

Boxes, paths and labels are drawn by supervision's annotators. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import supervision as sv
from numpy.typing import NDArray

from macd_studio.core.errors import OptionError
from macd_studio.core.measurements import EvidenceMap
from macd_studio.core.report.evidence import extent
from macd_studio.core.text.words import count
from macd_studio.core.types import LOST, Floats, Pixels, Trace

SIDE = 640
"""Smaller frames are enlarged to about this long side, so that labels can be read."""
OPACITY = 0.65
"""Of the strongest cell of an evidence map."""
STRONGEST = 99.0
"""Percentile of a map's magnitudes drawn at full strength: a few cells may lie far above."""
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
"""Okabe and Ito's colours, which most colour-blind people can tell apart."""
LEVEL_FILL = {1.0: 0.6, 0.0: 0.0}
PARTLY_FILLED = 0.3
"""How opaque an object is by its level: masked, kept, and everything between."""


@dataclass(frozen=True, eq=False)
class Shots:
    """The pictures to draw on: frames (N, H, W, 3) RGB at times (N,) seconds, rising."""

    frames: Pixels
    times: NDArray[np.float64]


def sampled_shots(trace: Trace) -> Shots:
    """The frames that the trace itself holds."""
    return Shots(trace.frames, trace.times)


def drawn_frames(trace: Trace, shots: Shots, evidence: EvidenceMap | None) -> Iterator[Pixels]:
    """Each picture (H, W, 3) with what the trace knows of that time drawn on it.

    Boxes move steadily between the sampled frames on which they are seen; an evidence map is that
    of the nearest sampled frame.
    """
    colours = sv.ColorPalette.from_hex(list(PALETTE))
    by_index: dict[str, Any] = {"color": colours, "color_lookup": sv.ColorLookup.CLASS}
    size = _size(shots.frames.shape[1:3])
    width = max(2, round(max(size) / 320))
    boxes = sv.BoxAnnotator(thickness=width, **by_index)
    paths = sv.TraceAnnotator(
        position=sv.Position.CENTER, thickness=width, trace_length=len(shots.times), **by_index
    )
    labels = sv.LabelAnnotator(text_scale=max(size) / 1400, text_padding=4, **by_index)
    strongest = 0.0
    if evidence is not None:
        strongest = float(np.percentile(np.abs(evidence.values), STRONGEST))
    for frame, time in zip(shots.frames, shots.times, strict=True):
        picture = cv2.resize(frame, size[::-1], interpolation=cv2.INTER_CUBIC)
        if evidence is not None:
            nearest = int(np.abs(trace.times - time).argmin())
            picture = blend_heat(picture, evidence.values[nearest], strongest, extent(trace))
        scene = np.ascontiguousarray(picture[..., ::-1])  # annotators draw in BGR
        objects, names, levels = _objects_at(trace, float(time), size)
        for level in sorted(set(levels)):
            fill = LEVEL_FILL.get(level, PARTLY_FILLED)
            if fill and evidence is None:
                alike = objects[np.array(levels) == level]
                scene = sv.ColorAnnotator(opacity=fill, **by_index).annotate(scene, alike)
        scene = paths.annotate(scene, objects)
        scene = boxes.annotate(scene, objects)
        scene = labels.annotate(scene, objects, labels=names)
        yield np.ascontiguousarray(scene[..., ::-1])


def blend_heat(picture: Pixels, values: Floats, strongest: float, corners: list[float]) -> Pixels:
    """A map (R, C) over a picture (H, W, 3): the stronger, the more opaque and the brighter.

    corners: of the map in shares of the picture, see `core.report.evidence.extent`. Viridis, which
    reads the same in greys.
    """
    height, width = picture.shape[:2]
    x0, y0, x1, y1 = corners
    full = round((x1 - x0) * width), round((y1 - y0) * height)
    heat = cv2.resize(np.abs(values), full, interpolation=cv2.INTER_LINEAR)
    top, left = round(-y0 * height), round(-x0 * width)
    heat = heat[top : top + height, left : left + width]
    share = (heat / strongest).clip(0, 1) if strongest > 0 else np.zeros_like(heat)
    colour = cv2.applyColorMap((255 * share).astype(np.uint8), cv2.COLORMAP_VIRIDIS)[..., ::-1]
    alpha = (OPACITY * share)[..., None]
    return np.asarray((1 - alpha) * picture + alpha * colour).round().astype(np.uint8)


def choose_map(trace: Trace, kind: str, view: str, index: int) -> EvidenceMap | None:
    """The map to draw; None where the trace holds none and none was asked for.

    kind: "" for the first there is. view: "video" or "counterfactual". index: of the token's
    evidence in the trace, from 1; 0 for the last. Raises OptionError for one that the trace does
    not hold.
    """
    if not trace.evidence and not kind and not index:
        return None
    if not 0 <= index <= len(trace.evidence) or not trace.evidence:
        raise OptionError(
            f"the trace holds the evidence of {count(len(trace.evidence), 'token')}",
            "Measure it first: python -m core evidence FILE.macd --out NEW.macd",
        )
    evidence = trace.evidence[index - 1]
    for one in evidence.maps:
        if one.view == view and kind in ("", one.kind):
            return one
    kinds = ", ".join(dict.fromkeys(m.kind for m in evidence.maps))
    requested = f"map {kind!r}" if kind else "map"
    raise OptionError(
        f"the trace holds no {requested} under the view {view!r}",
        f"Choose one of {kinds}, or measure it",
    )


def _size(size: tuple[int, int]) -> tuple[int, int]:
    """(h, w) to draw at: both even, as films need them."""
    height, width = size
    scale = max(1.0, SIDE / max(size))
    return 2 * max(8, round(height * scale / 2)), 2 * max(8, round(width * scale / 2))


def _objects_at(
    trace: Trace, time: float, size: tuple[int, int]
) -> tuple[sv.Detections, list[str], list[float]]:
    """What is seen at a time, in pixels; labels, and levels (0 before the ascent)."""
    counterfactual = trace.counterfactual
    rows, names, levels, numbers = [], list[str](), list[float](), []
    for k, track in enumerate(trace.tracks):
        box = box_at(track.boxes, track.state != LOST, trace.times, time)
        if box is None:
            continue
        level = float(counterfactual.level[k]) if counterfactual is not None else 0.0
        state = {1.0: "masked", 0.0: "kept"}.get(level, f"masked to {level:g}")
        rows.append(box * (size[1], size[0], size[1], size[0]))
        plain = track.label.encode("ascii", "replace").decode()  # all that the font can draw
        names.append(f"{track.id} {plain}" + (f", {state}" if counterfactual is not None else ""))
        levels.append(level)
        numbers.append((k, track.id))
    boxes = np.array(rows, np.float32).reshape(-1, 4)
    table = np.array(numbers, int).reshape(-1, 2)
    return sv.Detections(xyxy=boxes, class_id=table[:, 0], tracker_id=table[:, 1]), names, levels


def box_at(
    boxes: Floats, seen: NDArray[np.bool_], times: NDArray[np.float64], time: float
) -> NDArray[np.float64] | None:
    """The box (4,) at a time; between two sampled frames only where it is seen on both.

    Before the first and after the last sampled frame it stays as it is there.
    """
    after = int(np.searchsorted(times, time))
    before = max(0, after - 1)
    after = min(after, len(times) - 1)
    if times[after] == time:
        before = after
    if not (seen[before] and seen[after]):
        return None
    span = times[after] - times[before]
    share = 0.0 if span <= 0 else float(np.clip((time - times[before]) / span, 0, 1))
    return np.asarray((1 - share) * boxes[before] + share * boxes[after], np.float64)
