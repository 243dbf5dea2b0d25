"""A trace's tracks, or what its levels mask, → COCO, CVAT, Label Studio, YOLO, PNG or our own file.

`core.objects.formats` reads each of them back. Frames are numbered as in the clip's own file, so
that the tool that reads them shows each on its picture.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from macd_studio.core.errors import OptionError
from macd_studio.core.masking.masks import brushed, combine_masks, draw_masks, soft_boxes
from macd_studio.core.objects.files import OWN
from macd_studio.core.objects.outlines import Mask, filled, outline_of, placed, ring_of, runs_of
from macd_studio.core.types import LOST, SEEN, Floats, Outline, Trace, Track
from macd_studio.core.words import writable

What = Literal["tracks", "levels"]


@dataclass(frozen=True, eq=False)
class Drawn:
    """An object on one sampled frame. box: in shares; mask: (h, w), None where only the box is."""

    box: Floats
    mask: Mask | None
    size: tuple[int, int]
    seen: bool = True

    @property
    def pixels(self) -> tuple[float, float, float, float]:
        """x0 y0 x1 y1 in pixels."""
        h, w = self.size
        x0, y0, x1, y1 = (float(v) for v in self.box)
        return round(x0 * w, 6), round(y0 * h, 6), round(x1 * w, 6), round(y1 * h, 6)

    @cached_property
    def raster(self) -> Mask:
        """The mask, of a box too."""
        return filled([ring_of(self.box, self.size)], self.size) if self.mask is None else self.mask


@dataclass(frozen=True, eq=False)
class Exported:
    """One object: on each sampled frame, or None where it is not in sight."""

    id: int
    label: str
    confidence: float
    level: float | None
    frames: tuple[Drawn | None, ...]


@dataclass(frozen=True, eq=False)
class Sheet:
    """What is written: numbers, times of the sampled frames; fps, name of the clip."""

    objects: tuple[Exported, ...]
    numbers: tuple[int, ...]
    times: tuple[float, ...]
    size: tuple[int, int]
    fps: float
    name: str

    def drawn(self) -> Iterator[tuple[int, int, Exported, Drawn]]:
        """Index and number of the frame, the object, and what is drawn of it."""
        for i, number in enumerate(self.numbers):
            for one in self.objects:
                if (drawn := one.frames[i]) is not None:
                    yield i, number, one, drawn


def export_tracks(
    trace: Trace, path: str | Path, format: str = "json", what: What = "tracks"
) -> Path:
    """Writes a trace's objects, or what its levels mask, for other programs; returns the path.

    format: a name of FORMATS. what: "tracks" are the objects with their levels as attributes;
    "levels" two objects, "masked" and "partly masked": the pixels of the counterfactual's mask M
    nearer to 1, and nearer to r0, than to what is below. Raises OptionError for another format,
    for a trace without objects or without levels, and for a place that cannot be written.
    """
    content, path = exported(trace, format, what), Path(path)
    part = path.with_name(f".{path.name[:100]}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        raise OptionError(
            f"the tracks cannot be written ({error.strerror})", "Choose another place"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return path


def exported(trace: Trace, format: str = "json", what: What = "tracks") -> bytes:
    """The content of the file that `export_tracks` writes. Raises OptionError likewise."""
    if format not in FORMATS:
        raise OptionError(
            f"there is no format {str(format)[:40]!r}", f"Choose one of {', '.join(FORMATS)}"
        )
    return FORMATS[format](sheet_of(trace, what))


def sheet_of(trace: Trace, what: What) -> Sheet:
    """What is to be written of a trace."""
    size = trace.frames.shape[1], trace.frames.shape[2]
    if not trace.tracks:
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
    if final is None or len(final.level) != len(trace.tracks):
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
        frames = tuple(_area(mask, size) for mask in area)
        if any(frames):
            objects.append(Exported(i + 1, label, 1.0, value, frames))
    if not objects:
        raise OptionError("the levels mask nothing", "Choose a trace with a masked object")
    return tuple(objects)


def _area(mask: Mask, size: tuple[int, int]) -> Drawn | None:
    found = outline_of(mask)
    return None if found is None else Drawn(found[0], mask, size)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, allow_nan=False).encode()


def _own(sheet: Sheet) -> bytes:
    """Boxes and outlines in shares, at times in seconds."""
    tracks = []
    for one in sheet.objects:
        outlines = [None if d is None else _outline(d) for d in one.frames]
        tracks.append({
            "id": one.id,
            "label": writable(one.label),
            "confidence": one.confidence,
            "level": one.level,
            "boxes": [None if d is None else [float(v) for v in _tight(d)] for d in one.frames],
            "outlines": [
                None if o is None else [ring.astype(float).tolist() for ring in o[1]]
                for o in outlines
            ],
        })  # fmt: skip
    height, width = sheet.size
    return _json({
        "format": OWN, "version": 1, "clip": sheet.name, "size": [width, height],
        "times": list(sheet.times), "frames": list(sheet.numbers), "tracks": tracks,
    })  # fmt: skip


def _outline(drawn: Drawn) -> tuple[Floats, Outline] | None:
    if drawn.mask is None:
        return None
    found = outline_of(drawn.mask)
    return None if found is None else found[:2]


def _tight(drawn: Drawn) -> Floats:
    """The box that an outline is in shares of, or the object's own."""
    found = _outline(drawn)
    return drawn.box if found is None else found[0]


def _coco(sheet: Sheet) -> bytes:
    """Instances with run lengths, or with a box alone; the object in `track_id`."""
    height, width = sheet.size
    labels = sorted({one.label for one in sheet.objects})
    notes: list[dict[str, Any]] = []
    for i, _, one, drawn in sheet.drawn():
        x0, y0, x1, y1 = drawn.pixels
        note: dict[str, Any] = {
            "id": len(notes) + 1,
            "image_id": i + 1,
            "category_id": labels.index(one.label) + 1,
            "bbox": [x0, y0, round(x1 - x0, 6), round(y1 - y0, 6)],
            "area": float(drawn.raster.sum()),
            "segmentation": [],
            "iscrowd": 0,
            "score": one.confidence,
            "track_id": one.id,
            "attributes": {"track_id": one.id, "occluded": not drawn.seen, "level": one.level},
        }
        if drawn.mask is not None:
            note |= {
                "segmentation": {"size": [height, width], "counts": runs_of(drawn.mask)},
                "iscrowd": 1,
            }
        notes.append(note)
    images = [
        {"id": i + 1, "width": width, "height": height, "file_name": f"frame_{number:06d}.png"}
        for i, number in enumerate(sheet.numbers)
    ]
    return _json({
        "info": {"description": f"objects of {sheet.name}, by MACD Studio"},
        "licenses": [],
        "categories": [
            {"id": i + 1, "name": writable(label), "supercategory": ""}
            for i, label in enumerate(labels)
        ],
        "images": images,
        "annotations": notes,
    })  # fmt: skip


def _cvat(sheet: Sheet) -> bytes:
    """CVAT for video 1.1: every sampled frame is a key frame; after its last an object is outside.

    Between sampled frames on which it is in sight, CVAT moves a box evenly and keeps a mask.
    """
    height, width = sheet.size
    labels = sorted({one.label for one in sheet.objects})
    last = max(sheet.numbers) + 1
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>', "<annotations>", "  <version>1.1</version>",
        "  <meta><task>", f"    <name>{_xml(sheet.name)}</name>", f"    <size>{last}</size>",
        "    <mode>interpolation</mode>", "    <labels>",
        *(f"      <label><name>{_xml(z)}</name><attributes><attribute><name>level</name>"
          "<mutable>False</mutable><input_type>text</input_type><default_value></default_value>"
          "<values></values></attribute></attributes></label>" for z in labels),
        "    </labels>",
        f"    <original_size><width>{width}</width><height>{height}</height></original_size>",
        "  </task></meta>",
    ]  # fmt: skip
    for i, one in enumerate(sheet.objects):
        lines.append(f'  <track id="{i}" label={quoteattr(_plain(one.label))} source="auto">')
        seen: Drawn | None = None
        for number, drawn in zip((*sheet.numbers, last), (*one.frames, None), strict=True):
            shape = drawn or seen
            if shape is not None:
                lines += _cvat_shape(shape, number, drawn is None, one.level)
            seen = drawn
        lines.append("  </track>")
    return "\n".join([*lines, "</annotations>", ""]).encode()


def _cvat_shape(drawn: Drawn, number: int, outside: bool, level: float | None) -> list[str]:
    common = (
        f'frame="{number}" keyframe="1" outside="{int(outside)}" occluded="{int(not drawn.seen)}"'
        ' z_order="0"'
    )
    if drawn.mask is None:
        x0, y0, x1, y1 = drawn.pixels
        tag, sides = "box", f'xtl="{x0}" ytl="{y0}" xbr="{x1}" ybr="{y1}"'
    else:
        rows, columns = (np.flatnonzero(drawn.mask.any(axis=k)) for k in (1, 0))
        top, left, bottom, right = rows[0], columns[0], rows[-1] + 1, columns[-1] + 1
        runs = runs_of(drawn.mask[top:bottom, left:right].T)  # row by row
        tag = "mask"
        sides = (
            f'rle="{", ".join(map(str, runs))}" left="{left}" top="{top}" width="{right - left}"'
            f' height="{bottom - top}"'
        )
    value = "" if level is None else f"{level:g}"
    return [f'    <{tag} {common} {sides}><attribute name="level">{value}</attribute></{tag}>']


def _plain(text: str) -> str:
    """A text as XML can hold it: without control characters."""
    return "".join(c if c >= " " and c not in "\ufffe\uffff" else "\ufffd" for c in writable(text))


def _xml(text: str) -> str:
    return escape(_plain(text))


def _label_studio(sheet: Sheet) -> bytes:
    """Rectangles, which are all that it has for videos, in sight from key frame to key frame."""
    frames = max(sheet.numbers) + 1
    results = []
    for one in sheet.objects:
        sequence: list[dict[str, Any]] = []
        for number, drawn in zip(sheet.numbers, one.frames, strict=True):
            if drawn is None:
                if sequence:
                    sequence[-1]["enabled"] = False
                continue
            x0, y0, x1, y1 = (100 * float(v) for v in drawn.box)
            sequence.append({
                "frame": number + 1, "enabled": True, "rotation": 0, "x": x0, "y": y0,
                "width": x1 - x0, "height": y1 - y0, "time": number / sheet.fps,
            })  # fmt: skip
        if sequence:
            sequence[-1]["enabled"] = False
        results.append({
            "id": f"object{one.id}", "type": "videorectangle", "from_name": "box",
            "to_name": "video", "origin": "manual",
            "original_width": sheet.size[1], "original_height": sheet.size[0],
            "value": {
                "framesCount": frames, "duration": frames / sheet.fps,
                "sequence": sequence, "labels": [writable(one.label)],
            },
            "meta": {"level": one.level},
        })  # fmt: skip
    return _json([{"data": {"video": sheet.name}, "annotations": [{"result": results}]}])


def _archive(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _png(sheet: Sheet) -> bytes:
    """A zip with a folder for each object, as objects may overlap, and a mask for each frame."""
    from PIL import Image

    files: dict[str, bytes] = {}
    blank = np.zeros(sheet.size, np.uint8)
    for one in sheet.objects:
        label = "".join(c if c.isalnum() or c in " -" else "-" for c in one.label)[:40].strip()
        for number, drawn in zip(sheet.numbers, one.frames, strict=True):
            picture = io.BytesIO()
            pixels = blank if drawn is None else drawn.raster.astype(np.uint8) * 255
            Image.fromarray(pixels).save(picture, "PNG")
            files[f"{one.id:03d}_{label or 'object'}/frame_{number:06d}.png"] = picture.getvalue()
    return _archive(files)


def _yolo(sheet: Sheet) -> bytes:
    """A zip of a text a frame: boxes with their track, or polygons, whose parts are joined."""
    labels = sorted({one.label for one in sheet.objects})
    texts: dict[int, list[str]] = {number: [] for number in sheet.numbers}
    for _, number, one, drawn in sheet.drawn():
        kind = labels.index(one.label)
        found = _outline(drawn)
        if found is None:
            x0, y0, x1, y1 = (float(v) for v in drawn.box)
            sides = (x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0
            words = [f"{v:.8f}" for v in sides] + [f"{one.confidence:.6f}", str(one.id)]
        else:
            words = [f"{v:.8f}" for ring in _joined(*found) for v in ring]
        texts[number].append(" ".join([str(kind), *words]))
    names = "\n".join("".join(c if c >= " " else " " for c in writable(z)) for z in labels)
    files = {"classes.txt": names.encode() + b"\n"}
    for number, lines in texts.items():
        files[f"labels/frame_{number:06d}.txt"] = "".join(f"{z}\n" for z in lines).encode()
    return _archive(files)


def _joined(box: Floats, outline: Outline) -> list[tuple[float, float]]:
    """Rings as one line, in shares of the frame: there and back again between them."""
    rings = [ring.tolist() for ring in placed(outline, box, (1, 1))]
    line: list[tuple[float, float]] = []
    for ring in rings:
        line += [tuple(p) for p in (*ring, ring[0])] if len(rings) > 1 else map(tuple, ring)
    starts = [tuple(ring[0]) for ring in rings]
    return line + starts[-2::-1]


FORMATS: dict[str, Callable[[Sheet], bytes]] = {
    "json": _own,
    "coco": _coco,
    "cvat": _cvat,
    "label-studio": _label_studio,
    "png": _png,
    "yolo": _yolo,
}
"""By name: what writes the file. `png` and `yolo` are zip archives."""
ENDINGS = {name: ".json" for name in FORMATS} | {"cvat": ".xml", "png": ".zip", "yolo": ".zip"}
"""What the name of a file of each format ends in."""
