"""Tracks and masks as JSON: COCO's instances, Label Studio's videos, our own.

Masks are made of run lengths, polygons and pictures only for the frames that a clip needs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.annotations import Runs, Shape, TrackFile, clean_label
from macd_studio.core.objects.files import (
    MAX_FRAME,
    MAX_SIDE,
    PictureShapes,
    ShapeCounter,
    as_list,
    as_object,
    box_of,
    frame_number,
    number,
    objects_of,
    points_of,
    polygon,
    refuse,
    whole,
)
from macd_studio.core.objects.outlines import mask_of_runs, read_packed_runs
from macd_studio.core.types import Floats
from macd_studio.core.validation import shown


def of_coco(name: str, sha256: str, data: dict[str, Any]) -> TrackFile:
    """COCO's instances: one picture a frame, named by its `frame_id` or the number in its name."""
    labels = {}
    for row in as_list(data.get("categories", []), "categories"):
        category = as_object(row, "a category")
        labels[whole(category.get("id"), "a category's id", 0, 2**31)] = clean_label(
            category.get("name", "")
        )
    images: dict[int, tuple[int, tuple[int, int]]] = {}
    sizes: set[tuple[int, int]] = set()
    for row in as_list(data["images"], "images"):
        image = as_object(row, "an image")
        key = whole(image.get("id"), "an image's id", 0, 2**31)
        size = (
            whole(image.get("height"), "an image's height", 1, MAX_SIDE),
            whole(image.get("width"), "an image's width", 1, MAX_SIDE),
        )
        stated = image.get("frame_id", image.get("frame_index"))
        if stated is not None:
            index: int | None = whole(stated, "an image's frame_id")
        else:
            index = frame_number(str(image.get("file_name", "")))
        if index is None:
            refuse(
                name, f"has an image {shown(image.get('file_name'))} without a number of its frame",
                "Name images by frame, as in frame_000012.png",
            )  # fmt: skip
        images[key] = min(index, MAX_FRAME), size
        sizes.add(size)
    if len(sizes) > 1:
        refuse(name, f"has images of {len(sizes)} sizes", "Give the file of one clip")
    found = PictureShapes(name)
    found.frames |= {float(index) for index, _ in images.values()}
    for i, row in enumerate(as_list(data["annotations"], "annotations")):
        what = f"annotation {i + 1}"
        note: Any = as_object(row, what)
        image_id, category = note.get("image_id"), note.get("category_id")
        if not isinstance(image_id, int) or image_id not in images:
            refuse(name, f"has {what} on an image {shown(image_id)} that it does not list")
        if not isinstance(category, int) or category not in labels:
            refuse(name, f"has {what} of a category {shown(category)} that it does not list")
        at, size = images[image_id]
        attributes = note.get("attributes")
        extra: dict[str, Any] = attributes if isinstance(attributes, dict) else {}
        track = note.get("track_id", extra.get("track_id", note.get("instance_id")))
        of = (labels[category], str(track)[:100]) if isinstance(track, int | str) else None
        shape = _coco_shape(note, float(at), size, what)
        score = number(note.get("score", 1.0), f"the score of {what}", 0, 1)
        if shape is not None:
            found.add(of, labels[category], score, shape)
    stated_size = next(iter(sizes), None)
    return TrackFile(
        name, sha256, "COCO", found.described(), found.objects(),
        size=None if stated_size is None else (stated_size[1], stated_size[0]),
    )  # fmt: skip


def _coco_shape(
    note: Mapping[str, Any], at: float, size: tuple[int, int], what: str
) -> Shape | None:
    height, width = size
    box = None
    if (sides := note.get("bbox")) not in (None, []):
        values = as_list(sides, f"the box of {what}")
        if len(values) != 4:
            raise TracksError(f"the box of {what} has {len(values)} numbers", "Export it again")
        x, y, w, h = (number(v, f"the box of {what}") for v in values)
        box = box_of((x, y, x + w, y + h), width, height, f"the box of {what}")
    mask = note.get("segmentation")
    if isinstance(mask, dict):
        stated = as_list(mask.get("size"), f"the size of {what}")
        if [*stated] != [height, width]:
            raise TracksError(
                f"the mask of {what} has the size {shown(stated)}, and its image {height}×{width}",
                "Export it again",
            )
        counts = mask.get("counts")
        if isinstance(counts, str):
            if len(counts) > 4 * MAX_SIDE * MAX_SIDE // 64:
                raise TracksError(f"the mask of {what} is too long", "Export it again")
            counts = read_packed_runs(counts)
        runs = [
            whole(v, f"a run length of {what}", 0, MAX_SIDE * MAX_SIDE)
            for v in as_list(counts, f"the run lengths of {what}")
        ]
        if sum(runs) != height * width:
            mask_of_runs(runs, size)  # says so
        if box is None:
            box = np.array([0, 0, 1, 1], np.float32)
        return Shape(at, box, size=size, runs=Runs(mask_of_runs, (np.array(runs), size)))
    if isinstance(mask, list) and mask:
        rings = tuple(
            points_of(as_list(ring, f"a polygon of {what}"), f"a polygon of {what}")
            for ring in mask
        )
        ends = np.concatenate(rings)
        corners = (*ends.min(axis=0), *ends.max(axis=0))
        around = box_of(corners, width, height, f"the polygons of {what}")
        return Shape(at, around, rings, size)
    if box is None:
        raise TracksError(f"{what} has neither a box nor a mask", "Export it again")
    return Shape(at, box)


def video_regions(data: Any) -> list[dict[str, Any]]:
    """Label Studio's results on videos, wherever its exports have them."""
    tasks = data if isinstance(data, list) else [data]
    found = []
    for task in tasks[:1000]:
        if not isinstance(task, dict):
            continue
        sets = task.get("annotations") or task.get("completions") or [task]
        for one in sets[:1] if isinstance(sets, list) else []:
            rows = one.get("result") if isinstance(one, dict) else None
            found += [
                row
                for row in (rows if isinstance(rows, list) else [])
                if isinstance(row, dict) and row.get("type") == "videorectangle"
            ]
        if isinstance(task.get("box"), list) or isinstance(task.get("videoRectangle"), list):
            simple = task.get("box") or task.get("videoRectangle")
            found += [{"value": row} for row in simple or [] if isinstance(row, dict)]
    return found


def of_label_studio(name: str, sha256: str, rows: Sequence[dict[str, Any]]) -> TrackFile:
    """Key frames, counted from 1; an object moves evenly between them while it is `enabled`."""
    counter = ShapeCounter(name)
    found: dict[Any, tuple[str, float, list[Shape]]] = {}
    rates: set[float] = set()
    frames: set[float] = set()
    for i, row in enumerate(rows):
        what = f"object {i + 1}"
        value = as_object(row.get("value"), what)
        labels = value.get("labels") or value.get("videolabels") or value.get("timelinelabels")
        label = clean_label(labels[0] if isinstance(labels, list) and labels else "object")
        length, duration = value.get("framesCount"), value.get("duration")
        if length and duration:
            rates.add(
                number(length, "framesCount", 1, MAX_FRAME)
                / number(duration, "duration", 1e-3, 1e6)
            )
        size = _label_studio_size(row)
        shapes: list[Shape] = []
        for key in as_list(value.get("sequence"), f"the sequence of {what}"):
            counter.one_more()
            key = as_object(key, f"a key frame of {what}")
            at = float(whole(key.get("frame"), f"a frame of {what}", 1))
            frames.add(at)
            shapes.append(_label_studio_shape(key, at, size, what))
            if key.get("enabled") is False:
                shapes.append(Shape(at + 0.5))  # it is still in sight on this one
        found[row.get("id") if isinstance(row.get("id"), str) else i] = label, 1.0, shapes
    return TrackFile(
        name, sha256, "Label Studio", np.array(sorted(frames), np.float64), objects_of(name, found),
        fps=min(rates) if len(rates) else None, first=1.0, between="even", stays=True,
    )  # fmt: skip


def _label_studio_size(row: Mapping[str, Any]) -> tuple[int, int] | None:
    width, height = row.get("original_width"), row.get("original_height")
    if not width or not height:
        return None
    return (
        whole(height, "original_height", 1, MAX_SIDE),
        whole(width, "original_width", 1, MAX_SIDE),
    )


def _label_studio_shape(
    key: Mapping[str, Any], at: float, size: tuple[int, int] | None, what: str
) -> Shape:
    x, y, w, h = (
        number(key.get(n), f"{n} of {what}", -1e4, 1e4) for n in ("x", "y", "width", "height")
    )
    turned = math.radians(number(key.get("rotation", 0), f"the rotation of {what}", -1e4, 1e4))
    if not turned:
        return Shape(at, box_of((x, y, x + w, y + h), 100, 100, f"a box of {what}"))
    height, scale = size or (100, 100)
    corners = np.array([[0, 0], [w, 0], [w, h], [0, h]]) / 100 * (scale, height)
    turn = np.array([[math.cos(turned), math.sin(turned)], [-math.sin(turned), math.cos(turned)]])
    return polygon(at, corners @ turn + np.array([x, y]) / 100 * (scale, height), (height, scale))


def of_own(name: str, sha256: str, data: dict[str, Any]) -> TrackFile:
    """Our own: boxes and outlines in shares, at times in seconds."""
    times = [number(t, "a time", 0, 1e6) for t in as_list(data.get("times"), "times")]
    if sorted(set(times)) != times or not times:
        refuse(name, "has times that do not rise", "Export it again")
    stated = as_list(data.get("size"), "size")
    if len(stated) != 2:
        refuse(name, "does not state the size of its frames", "Export it again")
    width, height = (whole(v, "size", 1, MAX_SIDE) for v in stated)
    counter = ShapeCounter(name)
    found: dict[Any, tuple[str, float, list[Shape]]] = {}
    for i, row in enumerate(as_list(data.get("tracks"), "tracks")):
        what = f"track {i + 1}"
        one = as_object(row, what)
        boxes = as_list(one.get("boxes"), f"the boxes of {what}")
        outlines = as_list(one.get("outlines") or [None] * len(boxes), f"the outlines of {what}")
        if not len(boxes) == len(outlines) == len(times):
            refuse(name, f"has {len(boxes)} boxes of {what} for {len(times)} times")
        shapes = []
        for at, box, outline in zip(times, boxes, outlines, strict=True):
            counter.one_more()
            if box is None:
                shapes.append(Shape(at))
                continue
            corners = [
                number(v, f"a box of {what}", -1, 2) for v in as_list(box, f"a box of {what}")
            ]
            if len(corners) != 4:
                refuse(name, f"has a box of {what} with {len(corners)} numbers")
            placed = box_of(corners, 1, 1, f"a box of {what}")
            rings = _own_rings(outline, what) if outline is not None else ()
            shapes.append(Shape(at, placed, kept=rings))
        score = number(one.get("confidence", 1.0), f"the confidence of {what}", 0, 1)
        found[i] = clean_label(one.get("label", "")), score, shapes
    return TrackFile(
        name, sha256, "MACD tracks", np.array(times), objects_of(name, found),
        size=(width, height), between="even", seconds=True,
    )  # fmt: skip


def _own_rings(outline: Any, what: str) -> tuple[Floats, ...]:
    rings = []
    for ring in as_list(outline, f"an outline of {what}"):
        points = points_of(
            [v for point in as_list(ring, f"a ring of {what}") for v in as_list(point, "a point")],
            f"an outline of {what}",
        )
        if len(points) > 400 or np.abs(points).max() > 100:
            raise TracksError(f"an outline of {what} is too long or far outside", "Export it again")
        rings.append(points.astype(np.float32))
    if len(rings) > 8:
        raise TracksError(f"an outline of {what} has {len(rings)} rings", "Export it again")
    return tuple(rings)
