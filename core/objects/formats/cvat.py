"""CVAT's XML: for video, tracks that move between key frames; for images, shapes of pictures.

The dump of a project holds several tasks, each of one video.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from html import escape
from typing import Any

import numpy as np

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.annotations import Shape, TrackFile, clean_label
from macd_studio.core.objects.formats.bounds import (
    AGAIN,
    MAX_POINTS,
    MAX_SIDE,
    Files,
    box_of,
    number,
    one_size,
    parse_xml,
    points_of,
    polygon,
    refuse,
    sides,
    turned,
    whole,
)
from macd_studio.core.objects.formats.gather import PictureShapes, ShapeCounter, objects_of
from macd_studio.core.objects.formats.names import numbered
from macd_studio.core.objects.formats.sheet import Drawn, Sheet
from macd_studio.core.objects.formats.source import Asked, Source, unique_names
from macd_studio.core.objects.outlines import Mask, mask_of_runs, runs_of
from macd_studio.core.text.words import writable
from macd_studio.core.validation import shown

NAME, TITLE, ENDING = "cvat", "CVAT for video", ".xml"
TITLE_OF_IMAGES = "CVAT for images"
_SHAPES = ("box", "polygon", "mask", "ellipse")
_OTHER_SHAPES = ("polyline", "points", "cuboid", "skeleton")
_STATED = ("id", "name", "size", "source", "width", "height")


class _Task:
    """One task of a document, and what was found of it."""

    def __init__(self, name: str, counter: ShapeCounter) -> None:
        self.stated: dict[str, str] = {}
        self.tracks: dict[Any, tuple[str, float, list[Shape]]] = {}
        self.frames: set[float] = set()
        self.pictures: list[tuple[str, int, tuple[int, int], list[tuple[str, Shape]]]] = []
        self.left_out = 0
        self.name, self.counter = name, counter

    @property
    def size(self) -> tuple[int, int] | None:
        """(w, h) of its frames, as original_size states it."""
        if "width" not in self.stated or "height" not in self.stated:
            return None
        return sides(self.stated["width"], self.stated["height"], "the {} in original_size")


class _Document:
    """Takes the elements of a document one by one."""

    def __init__(self, name: str) -> None:
        self.name, self.counter = name, ShapeCounter(name)
        self.tasks: dict[str, _Task] = {}
        self.path: list[str] = []
        self.current: list[Shape] | None = None
        self.task: _Task | None = None
        self.about: _Task | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        self.path.append(tag)
        if tag in ("task", "job") and "meta" in self.path:
            self.about = _Task(self.name, self.counter)
        elif tag == "image":
            self._start_image(attributes)
        elif tag == "track":
            self.task = self._of(attributes)
            self.current = []
            label = clean_label(attributes.get("label", ""))
            self.task.tracks[len(self.task.tracks)] = label, 1.0, self.current
        elif tag in _OTHER_SHAPES and self.task is not None:
            self.task.left_out += 1
        elif tag in _SHAPES and self.task is not None:
            self._shape_begins(tag, attributes)

    def _start_image(self, attributes: Mapping[str, str]) -> None:
        self.task = self._of(attributes)
        size = sides(attributes.get("width"), attributes.get("height"), "the {} of an image")
        stated = whole(attributes.get("id"), "the id of an image")
        self.task.pictures.append((attributes.get("name", "")[:1000], stated, size, []))

    def _shape_begins(self, tag: str, attributes: Mapping[str, str]) -> None:
        task = self.task
        assert task is not None
        self.counter.one_more()
        if self.current is not None:
            at = float(whole(attributes.get("frame"), f"the frame of a {tag}"))
            if task.size is None:
                refuse(self.name, "does not state the original_size of its frames")
            task.frames.add(at)
            outside = attributes.get("outside") == "1"
            place = f"{tag} {len(self.current) + 1} of track {len(task.tracks)}"
            shape = (
                Shape(at, place=place) if outside else self._shape(tag, attributes, at, task.size)
            )
            self.current.append(shape)
        elif task.pictures and "image" in self.path:
            _, stated, size, shapes = task.pictures[-1]
            label = clean_label(attributes.get("label", ""))
            shapes.append((label, self._shape(tag, attributes, float(stated), size)))

    def end(self, tag: str, text: str) -> None:
        """An element ends, after this text."""
        self.path.pop()
        if tag in ("task", "job") and self.about is not None:
            self.tasks.setdefault(self.about.stated.get("id", ""), self.about)
            self.about = None
        elif tag in ("track", "image"):
            self.current = self.task = None
        elif self.about is not None and tag in _STATED and text.strip():
            inside = self.path[-1] if self.path else ""
            if inside in ("task", "job") or (
                inside == "original_size" and tag in ("width", "height")
            ):
                self.about.stated.setdefault(tag, text.strip())

    def _of(self, attributes: Mapping[str, str]) -> _Task:
        """The task of a track or picture."""
        key = attributes.get("task_id")
        if key is None and len(self.tasks) > 1:
            refuse(self.name, "holds several tasks, and a track that does not say of which it is")
        if key is None:
            key = next(iter(self.tasks), "")
        if key not in self.tasks:
            if len(self.tasks) > 1:
                refuse(self.name, f"has a track of a task {shown(key, 40)} that it does not list")
            key = next(iter(self.tasks), "")
        return self.tasks.setdefault(key, _Task(self.name, self.counter))

    def _shape(
        self, tag: str, attributes: Mapping[str, str], at: float, size: tuple[int, int]
    ) -> Shape:
        width, height = size
        what = f"a {tag} of frame {at:g}"

        def read(*names: str) -> list[float]:
            return [number(attributes.get(n), f"{n} of {what}") for n in names]

        if tag == "mask":
            return self._mask(attributes, at, size, what)
        if tag == "polygon":
            points = attributes.get("points", "")
            if points.count(";") > MAX_POINTS:
                raise TracksError(f"{what} has over {MAX_POINTS} points", "Simplify its polygons")
            flat = [v for pair in points.split(";") for v in pair.split(",")]
            return polygon(at, points_of(flat, what), (height, width), what)
        if tag == "ellipse":
            cx, cy, rx, ry = read("cx", "cy", "rx", "ry")
            round_ = np.linspace(0, 2 * np.pi, 64, endpoint=False)
            ring = np.stack([rx * np.cos(round_), ry * np.sin(round_)], axis=1)
            centre = np.array([cx, cy])
        else:
            x0, y0, x1, y1 = read("xtl", "ytl", "xbr", "ybr")
            box = box_of((x0, y0, x1, y1), width, height, what)
            if not number(attributes.get("rotation") or 0, f"the rotation of {what}", -1e4, 1e4):
                return Shape(at, box, place=what)
            centre = np.array([x0 + x1, y0 + y1]) / 2
            ring = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]) - centre
        rotation = attributes.get("rotation")
        return polygon(at, turned(ring, rotation, what) + centre, (height, width), what)

    def _mask(
        self, attributes: Mapping[str, str], at: float, size: tuple[int, int], what: str
    ) -> Shape:
        width, height = size
        left, top, w, h = (
            whole(attributes.get(n), f"{n} of {what}", 0, MAX_SIDE)
            for n in ("left", "top", "width", "height")
        )
        if left + w > width or top + h > height:
            refuse(self.name, f"has {what} that reaches beyond {width}×{height} pixels")
        rle = attributes.get("rle", "")
        if rle.count(",") > w * h + 1:
            raise TracksError(f"the run lengths of {what} are more than its pixels", AGAIN)
        runs = [whole(v, f"a run of {what}") for v in rle.split(",")]
        if sum(runs) != w * h:
            mask_of_runs(runs, (h, w), by_columns=False)  # says so
        box = box_of((left, top, left + w, top + h), width, height, what)
        kept, frame = np.array(runs, np.int32), (height, width)
        mask = partial(_placed_mask, kept, (h, w), (left, top), frame)
        return Shape(at, box, size=frame, runs=mask, place=what)


def _placed_mask(
    runs: Any, inner: tuple[int, int], corner: tuple[int, int], size: tuple[int, int]
) -> Mask:
    mask = np.zeros(size, bool)
    (left, top), (h, w) = corner, inner
    mask[top : top + h, left : left + w] = mask_of_runs(runs, inner, by_columns=False)
    return mask


def sources(files: Files, asked: Asked) -> list[Source]:
    """The tasks of each document. A file of XML that is none of CVAT's is refused."""
    found: list[Source] = []
    for inner, content in files.markup.items():
        document = _Document(files.name_of(inner))
        parse_xml(files.name_of(inner), content, document.start, document.end)
        tasks = [t for t in document.tasks.values() if t.tracks or t.pictures]
        if not tasks and files.is_alone:
            refuse(files.name, "is XML without a track or an image of CVAT")
        names = [t.stated.get("name", "") for t in tasks]
        for task, label in zip(tasks, unique_names(names), strict=True):
            found += _videos(task, label, files.sha256)
    return found


def _videos(task: _Task, label: str, sha256: str) -> list[Source]:
    video = task.stated.get("source", "") or task.stated.get("name", "")
    if task.tracks:
        length = task.stated.get("size", "")
        frames = int(length) if length.isdecimal() and len(length) < 9 else None
        return [Source(label, partial(_of_tracks, task, sha256), video, frames, task.size)]
    videos: dict[str, dict[int, int]] = defaultdict(dict)
    names = [row[0] for row in task.pictures]
    if all(any(c.isdecimal() for c in name) for name in names) and len(set(names)) == len(names):
        by_name = numbered(task.name, names)
    else:  # names that do not count: their ids do
        by_name = {"": {name: row[1] for name, row in zip(names, task.pictures, strict=True)}}
        if len(by_name[""]) < len(names):
            refuse(task.name, "has two images of one name", AGAIN)
    place = {name: i for i, name in enumerate(names)}
    for part, numbers in by_name.items():
        videos[part] = {place[name]: frame for name, frame in numbers.items()}
    return [
        Source(
            f"{label}/{part}".rstrip("/"), partial(_of_pictures, task, numbers, sha256),
            part or video, len(numbers), next(iter({task.pictures[i][2] for i in numbers})),
        )
        for part, numbers in videos.items()
    ]  # fmt: skip


def _notes(task: _Task) -> tuple[str, ...]:
    if not task.left_out:
        return ()
    return (f"{task.name}: {task.left_out} points, lines or cuboids were left out",)


def _of_tracks(task: _Task, sha256: str) -> TrackFile:
    """Shapes on frames, moved evenly between them; in sight until one is `outside`."""
    return TrackFile(
        task.name, sha256, TITLE, np.array(sorted(task.frames), np.float64),
        objects_of(task.name, task.tracks), size=task.size, between="even", stays=True,
        notes=_notes(task),
    )  # fmt: skip


def _of_pictures(task: _Task, numbers: Mapping[int, int], sha256: str) -> TrackFile:
    """Shapes of single pictures, which are linked."""
    found = PictureShapes(task.name)
    sizes = set()
    for i, frame in numbers.items():
        _, _, size, shapes = task.pictures[i]
        sizes.add(size)
        found.frames.add(float(frame))
        for label, shape in shapes:
            found.add(None, label, 1.0, replace(shape, at=float(frame)))
    return TrackFile(
        task.name, sha256, TITLE_OF_IMAGES, found.described(), found.objects(),
        size=one_size(task.name, sizes), notes=_notes(task), counted="open",
    )  # fmt: skip


def write(sheet: Sheet) -> bytes:
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
        lines.append(f'  <track id="{i}" label="{_xml(one.label)}" source="auto">')
        seen: Drawn | None = None
        for number_, drawn in zip((*sheet.numbers, last), (*one.frames, None), strict=True):
            shape = drawn or seen
            if shape is not None:
                lines += _written(shape, number_, drawn is None, one.level)
            seen = drawn
        lines.append("  </track>")
    return "\n".join([*lines, "</annotations>", ""]).encode()


def _written(drawn: Drawn, frame: int, outside: bool, level: float | None) -> list[str]:
    common = (
        f'frame="{frame}" keyframe="1" outside="{int(outside)}" occluded="{int(not drawn.seen)}"'
        ' z_order="0"'
    )
    if drawn.mask is None:
        x0, y0, x1, y1 = drawn.pixels
        tag, place = "box", f'xtl="{x0}" ytl="{y0}" xbr="{x1}" ybr="{y1}"'
    else:
        rows, columns = (np.flatnonzero(drawn.mask.any(axis=k)) for k in (1, 0))
        top, left, bottom, right = rows[0], columns[0], rows[-1] + 1, columns[-1] + 1
        runs = runs_of(drawn.mask[top:bottom, left:right].T)  # row by row
        tag = "mask"
        place = (
            f'rle="{", ".join(map(str, runs))}" left="{left}" top="{top}" width="{right - left}"'
            f' height="{bottom - top}"'
        )
    value = "" if level is None else f"{level:g}"
    return [f'    <{tag} {common} {place}><attribute name="level">{value}</attribute></{tag}>']


def _xml(text: str) -> str:
    """A text as XML can hold it: without control characters, escaped."""
    plain = (c if c >= " " and c not in "\ufffe\uffff" else "\ufffd" for c in writable(text))
    return escape("".join(plain))
