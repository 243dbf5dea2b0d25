"""Our own JSON: boxes and outlines in shares, at times in seconds. It keeps everything."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from macd_studio.core.description import MAX_POINTS, MAX_RINGS
from macd_studio.core.errors import TracksError
from macd_studio.core.objects.annotations import Shape, TrackFile, clean_label
from macd_studio.core.objects.formats.bounds import (
    AGAIN,
    MAX_SIDE,
    Files,
    as_list,
    as_object,
    box_of,
    number,
    points_of,
    refuse,
    whole,
)
from macd_studio.core.objects.formats.gather import ShapeCounter, objects_of
from macd_studio.core.objects.formats.sheet import Sheet, json_bytes, outline_in
from macd_studio.core.objects.formats.source import Asked, Source
from macd_studio.core.text.words import writable
from macd_studio.core.types import Floats

NAME, TITLE, ENDING = "json", "MACD", ".json"
MARK = "macd-tracks"
"""What such a file says it is."""


def sources(files: Files, asked: Asked) -> list[Source]:
    """The clip of each such document."""
    return [
        Source(
            inner, partial(_read, files.name_of(inner), files.sha256, data), data.get("clip", "")
        )
        for inner, data in files.documents.items()
        if isinstance(data, dict) and data.get("format") == MARK
    ]


def _read(name: str, sha256: str, data: dict[str, Any]) -> TrackFile:
    times = [number(t, "a time", 0, 1e6) for t in as_list(data.get("times"), "times")]
    if sorted(set(times)) != times or not times:
        refuse(name, "has times that do not rise", AGAIN)
    stated = as_list(data.get("size"), "size")
    if len(stated) != 2:
        refuse(name, "does not state the size of its frames", AGAIN)
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
            rings = _rings(outline, what) if outline is not None else ()
            shapes.append(Shape(at, placed, kept=rings))
        score = number(one.get("confidence", 1.0), f"the confidence of {what}", 0, 1)
        found[i] = clean_label(one.get("label", "")), score, shapes
    return TrackFile(
        name, sha256, TITLE, np.array(times), objects_of(name, found), size=(width, height),
        between="even", seconds=True,
    )  # fmt: skip


def _rings(outline: Any, what: str) -> tuple[Floats, ...]:
    rows = as_list(outline, f"an outline of {what}")
    if len(rows) > MAX_RINGS:
        raise TracksError(f"an outline of {what} has {len(rows)} rings", AGAIN)
    rings = []
    for ring in rows:
        points = points_of(
            [v for point in as_list(ring, f"a ring of {what}") for v in as_list(point, "a point")],
            f"an outline of {what}",
        )
        if len(points) > MAX_POINTS or np.abs(points).max() > 100:
            raise TracksError(f"an outline of {what} is too long or far outside", AGAIN)
        rings.append(points.astype(np.float32))
    return tuple(rings)


def write(sheet: Sheet) -> bytes:
    """The file of a clip's objects."""
    tracks = []
    for one in sheet.objects:
        found = [(d, None if d is None else outline_in(d)) for d in one.frames]
        tracks.append({
            "id": one.id,
            "label": writable(one.label),
            "confidence": one.confidence,
            "level": one.level,
            "boxes": [
                None if d is None else [float(v) for v in (d.box if o is None else o[0])]
                for d, o in found
            ],
            "outlines": [
                None if o is None else [ring.astype(float).tolist() for ring in o[1]]
                for _, o in found
            ],
        })  # fmt: skip
    height, width = sheet.size
    return json_bytes({
        "format": MARK, "version": 1, "clip": sheet.name, "size": [width, height],
        "times": list(sheet.times), "frames": list(sheet.numbers), "tracks": tracks,
    })  # fmt: skip
