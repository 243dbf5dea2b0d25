"""JSON and XML of other annotation programs, as COCO's instances: one function a program.

A row of DIALECTS knows its documents by their structure, never by a name. What states no size of
its pictures is taken to be in the clip's pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from macd_studio.core.objects.annotations import clean_label
from macd_studio.core.objects.formats.bounds import (
    MAX_SIDE,
    Files,
    as_list,
    as_object,
    is_list_of,
    number,
    parse_xml,
    whole,
)
from macd_studio.core.objects.formats.source import FRAME_COLUMNS, Asked, clip_size

SAV_EVERY = 4
"""SA-V describes every fourth frame of its videos."""


@dataclass
class Book:
    """A COCO document that is being written. size: gives (w, h) of pictures that state none."""

    size: Callable[[], tuple[int, int]]
    images: dict[str, dict[str, Any]] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    notes: list[dict[str, Any]] = field(default_factory=list)

    def picture(
        self, name: str, size: tuple[Any, Any] | None = None, frame: Any = None
    ) -> dict[str, Any]:
        """A picture by its name, or by its frame's number."""
        width, height = size or self.size()
        row = {
            "id": len(self.images),
            "file_name": name,
            "width": whole(width, "a picture's width", 1, MAX_SIDE),
            "height": whole(height, "a picture's height", 1, MAX_SIDE),
        }
        if frame is not None:
            row["frame_index"] = whole(frame, "a frame's number")
        return self.images.setdefault(name, row)

    def add(
        self, picture: Mapping[str, Any], label: Any, track: Any = None,
        box: Any = None, mask: Any = None, score: Any = None,
    ) -> None:  # fmt: skip
        """A shape: x y w h in pixels, or polygons or run lengths. score: None if not said."""
        kind = self.labels.setdefault(clean_label(label or "object"), len(self.labels) + 1)
        note = {"image_id": picture["id"], "category_id": kind, "segmentation": mask or []}
        if box is not None:
            note["bbox"] = list(box) if isinstance(box, tuple) else as_list(box, "a box")
        if track is not None:
            note["track_id"] = track if isinstance(track, int | str) else str(track)
        if score is not None:
            note["score"] = score
        self.notes.append(note)

    def corners(
        self, picture: Mapping[str, Any], label: Any, track: Any, *ends: Any, score: Any = None
    ) -> None:
        """A box from two opposite corners x0 y0 x1 y1."""
        x0, y0, x1, y1 = (number(v, f"a box of {clean_label(label)}") for v in ends)
        left, top = min(x0, x1), min(y0, y1)
        self.add(picture, label, track, (left, top, abs(x1 - x0), abs(y1 - y0)), score=score)

    def document(self) -> dict[str, Any]:
        """The whole."""
        categories = [{"id": i, "name": label} for label, i in self.labels.items()]
        return {
            "images": list(self.images.values()),
            "categories": categories,
            "annotations": self.notes,
        }


@dataclass(frozen=True)
class Dialect:
    """One program's documents. write: puts one into a book, by its path and values. lists_all:
    whether it lists pictures without an object too.
    """

    title: str
    fits: Callable[[Any], bool]
    write: Callable[[Book, str, Any], None]
    lists_all: bool = False


def converted(files: Files, asked: Asked) -> tuple[Dialect, dict[str, Any]] | None:
    """The first dialect that any document is of, and these as one of COCO."""
    book = Book(lambda: clip_size(files.name, asked, "Export it as COCO"))
    for dialect in DIALECTS:
        if found := {k: v for k, v in files.documents.items() if dialect.fits(v)}:
            for inner, data in found.items():
                dialect.write(book, inner, data)
            return dialect, book.document()
    for inner, content in files.markup.items():
        _voc(book, files.name_of(inner), inner, content)
    return (VOC, book.document()) if book.images else None


def _has(*keys: str) -> Callable[[Any], bool]:
    return lambda data: isinstance(data, dict) and all(key in data for key in keys)


def _rows(value: Any, what: str) -> Iterable[dict[str, Any]]:
    values = value.values() if isinstance(value, dict) else as_list(value or [], what)
    return (as_object(row, f"one of {what}") for row in values)


def _part(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    return as_object(row.get(key) or {}, key)


def _flat(points: Any) -> list[Any]:
    return [v for point in as_list(points, "points") for v in as_list(point, "a point")[:2]]


def _labelme(book: Book, inner: str, data: Any) -> None:
    name = PurePosixPath(inner).stem
    picture = book.picture(name, (data.get("imageWidth"), data.get("imageHeight")))
    together: dict[Any, list[Any]] = {}
    for shape in _rows(data["shapes"], "shapes"):
        label, group = str(shape.get("label")), shape.get("group_id")
        group = None if group is None else str(group)
        flat = _flat(shape.get("points"))
        kind = shape.get("shape_type", "polygon")
        if kind == "rectangle" and len(flat) == 4:
            book.corners(picture, label, group, *flat)
        elif kind == "polygon":
            if group is None:
                book.add(picture, label, None, None, [flat])
            else:
                together.setdefault((label, group), []).append(flat)
    for (label, group), rings in together.items():
        book.add(picture, label, group, None, rings)


def _is_via(data: Any) -> bool:
    rows = data.get("_via_img_metadata", data) if isinstance(data, dict) else None
    return isinstance(rows, dict) and is_list_of([*rows.values()], "filename", "regions")


def _via(book: Book, inner: str, data: Any) -> None:
    for row in _rows(data.get("_via_img_metadata", data), "pictures"):
        picture = book.picture(PurePosixPath(str(row["filename"])[:1000]).stem)
        for region in _rows(row["regions"], "regions"):
            shape = as_object(region.get("shape_attributes"), "a region's shape")
            said = as_object(region.get("region_attributes") or {}, "a region's attributes")
            names = [said[k] for k in ("name", "label", "class", "type", "object") if k in said]
            label = (names or [v for v in said.values() if isinstance(v, str)] or [""])[0]
            tracks = [said[k] for k in ("track_id", "track", "id") if said.get(k)]
            track = tracks[0] if tracks else None
            if shape.get("name") == "rect":
                box = [shape.get(k) for k in ("x", "y", "width", "height")]
                book.add(picture, label, track, box)
            elif shape.get("name") in ("polygon", "polyline"):
                xs, ys = (as_list(shape.get(f"all_points_{a}"), "points") for a in "xy")
                ring = [v for pair in zip(xs, ys, strict=False) for v in pair]
                book.add(picture, label, track, None, [ring])


def _bdd(book: Book, inner: str, data: Any) -> None:
    for row in data:
        name, frame = str(row["name"])[:1000], row.get("frameIndex", row.get("index"))
        picture = book.picture(name, frame=frame)
        for label in _rows(row["labels"], "labels"):
            track = label.get("id")
            if isinstance(box := label.get("box2d"), dict):
                ends = [box.get(k) for k in ("x1", "y1", "x2", "y2")]
                book.corners(picture, label.get("category"), track, *ends)


def _datumaro(book: Book, inner: str, data: Any) -> None:
    said = _part(as_object(data["categories"], "categories"), "label")
    names = [row.get("name") for row in _rows(said.get("labels"), "labels")]
    for item in _rows(data["items"], "items"):
        size = as_list(_part(item, "image").get("size") or [], "a size")
        picture = book.picture(
            str(item.get("id"))[:1000],
            (size[1], size[0]) if len(size) == 2 else None,
            _part(item, "attr").get("frame"),
        )
        for note in _rows(item.get("annotations"), "annotations"):
            i = note.get("label_id")
            label = names[i] if isinstance(i, int) and 0 <= i < len(names) else None
            track = _part(note, "attributes").get("track_id")
            if note.get("type") == "bbox":
                book.add(picture, label, track, note.get("bbox"))
            elif note.get("type") == "polygon":
                book.add(picture, label, track, None, [note.get("points")])
            elif note.get("type") == "mask":
                book.add(picture, label, track, None, note.get("rle"))


def _supervisely(book: Book, inner: str, data: Any) -> None:
    size = as_object(data["size"], "the size")
    objects = {str(row.get("key")): row for row in _rows(data["objects"], "objects")}
    for row in _rows(data["frames"], "frames"):
        index = row.get("index")
        picture = book.picture(f"frame {index}", (size.get("width"), size.get("height")), index)
        for figure in _rows(row.get("figures"), "figures"):
            key = str(figure.get("objectKey"))
            label = objects.get(key, {}).get("classTitle")
            points = _part(_part(figure, "geometry"), "points")
            ring = _flat(points.get("exterior") or [])
            if figure.get("geometryType") == "rectangle" and len(ring) == 4:
                book.corners(picture, label, key, *ring)
            elif figure.get("geometryType") == "polygon":
                book.add(picture, label, key, None, [ring])


def _openlabel(book: Book, inner: str, data: Any) -> None:
    root = as_object(data.get("openlabel") or data.get("vcd"), "openlabel")
    about = _part(root, "objects")
    for index, frame in _part(root, "frames").items():
        picture = book.picture(f"frame {index}", frame=index)
        for key, one in _part(as_object(frame, "a frame"), "objects").items():
            said = _part(about, key)
            shapes = _part(as_object(one, "a frame's object"), "object_data")
            for box in islice(_rows(shapes.get("bbox"), "boxes"), 1):
                values = [number(v, "a box") for v in as_list(box.get("val"), "a box")]
                x, y, w, h = (*values, 0, 0, 0, 0)[:4]
                book.add(picture, said.get("type"), key, (x - w / 2, y - h / 2, w, h))


def _sav(book: Book, inner: str, data: Any) -> None:
    size = data.get("video_width"), data.get("video_height")
    ids = as_list(data.get("masklet_id") or [], "masklet_id")
    for i, frame in enumerate(as_list(data["masklet"], "masklet")):
        picture = book.picture(f"frame {i}", size, SAV_EVERY * i)
        for j, mask in enumerate(as_list(frame, "a masklet")):
            if isinstance(mask, dict):
                book.add(picture, "object", ids[j] if j < len(ids) else j, None, mask)


def _is_supervision(data: Any) -> bool:
    return any(is_list_of(data, "x_min", name) for name in FRAME_COLUMNS)


def _supervision(book: Book, inner: str, data: Any) -> None:
    """Rows of its JSONSink, to which a program adds the frame under a name of its own."""
    for row in data:
        frame = next((row[name] for name in FRAME_COLUMNS if name in row), None)
        picture = book.picture(f"frame {frame}", frame=frame)
        label = row.get("class_name") or f"class {row.get('class_id', '')}"
        track, score = row.get("tracker_id"), row.get("confidence")
        ends = [row.get(k) for k in ("x_min", "y_min", "x_max", "y_max")]
        track = None if track in (None, "", -1) else track
        book.corners(picture, label, track, *ends, score=None if score == "" else score)


def _voc(book: Book, name: str, inner: str, content: bytes) -> None:
    """An `<annotation>` of Pascal VOC: a picture with boxes, pixels from 1; or of LabelMe, which
    has polygons."""
    path: list[str] = []
    said: dict[str, str] = {}
    boxes: list[dict[str, str]] = []
    rings: list[list[float]] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        path.append(tag)
        if path == ["annotation", "object"]:
            boxes.append({})
            rings.append([])

    def end(tag: str, text: str) -> None:
        place = path.copy()
        path.pop()
        if place[:2] == ["annotation", "object"] and boxes:
            if place[2:] in (["name"], ["deleted"]) or place[2:3] == ["bndbox"]:
                boxes[-1][tag] = text.strip()
            elif place[2:4] == ["polygon", "pt"] and tag in "xy":
                rings[-1].append(number(text, f"a polygon of {name}"))
        elif place[0] == "annotation":
            said[tag] = text.strip()

    parse_xml(name, content, start, end)
    size = said.get("width", said.get("ncols")), said.get("height", said.get("nrows"))
    if "filename" not in said or size[0] is None:
        return
    picture = book.picture(PurePosixPath(inner).stem, size)
    for box, ring in zip(boxes, rings, strict=True):
        if ring or box.get("deleted") == "1":
            if box.get("deleted") != "1":
                book.add(picture, box.get("name"), None, None, [ring])
            continue
        ends = [number(box.get(k), "a box") - 1 for k in ("xmin", "ymin", "xmax", "ymax")]
        book.corners(picture, box.get("name"), None, *ends)


VOC = Dialect("Pascal VOC or LabelMe", lambda data: False, lambda book, inner, data: None)
DIALECTS = (
    Dialect("labelme", _has("shapes", "imagePath"), _labelme),
    Dialect("VIA", _is_via, _via, lists_all=True),
    Dialect("BDD100K", lambda d: is_list_of(d, "name", "labels"), _bdd, lists_all=True),
    Dialect("Datumaro", _has("categories", "items"), _datumaro, lists_all=True),
    Dialect("Supervisely", _has("size", "objects", "frames"), _supervisely),
    Dialect("OpenLABEL", lambda d: _has("openlabel")(d) or _has("vcd")(d), _openlabel),
    Dialect("SA-V", _has("masklet", "video_id"), _sav),
    Dialect("supervision", _is_supervision, _supervision),
)
"""By structure. What is read of them: boxes, polygons and masks, with the object where they say."""
