"""Label Studio's videos: rectangles on key frames, counted from 1, of tasks and their annotators.

A rectangle moves evenly from key frame to key frame while it is `enabled`, and turns about its
upper left corner, in pixels of the clip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from macd_studio.core.objects.annotations import Shape, TrackFile, clean_label
from macd_studio.core.objects.formats.bounds import (
    MAX_FRAME,
    Files,
    as_list,
    as_object,
    box_of,
    number,
    polygon,
    refuse,
    sides,
    turned,
    whole,
)
from macd_studio.core.objects.formats.gather import ShapeCounter, objects_of
from macd_studio.core.objects.formats.sheet import Sheet, json_bytes
from macd_studio.core.objects.formats.source import Asked, Source, unique_names
from macd_studio.core.text.words import writable

NAME, TITLE, ENDING = "label-studio", "Label Studio", ".json"
MAX_TASKS = 10_000


@dataclass(frozen=True)
class _Work:
    """What one annotator drew on one video."""

    video: str
    by: str
    rows: list[dict[str, Any]]

    @property
    def frames(self) -> int | None:
        """How many the video has, where it is stated."""
        for row in self.rows:
            value = row.get("value")
            length = value.get("framesCount") if isinstance(value, dict) else None
            if isinstance(length, int | float) and 1 <= length <= MAX_FRAME:
                return round(length)
        return None


def sources(files: Files, asked: Asked) -> list[Source]:
    """Videos and, where several people annotated one, each one's work."""
    work = [w for data in files.documents.values() for w in _work_in(files.name, data)]
    names = unique_names([w.video for w in {w.video: w for w in work}.values()])
    label = dict(zip(dict.fromkeys(w.video for w in work), names, strict=True))
    size = asked.clip.full_size if asked.clip is not None else None
    counts = Counter(w.video for w in work)
    people: list[str] = []
    for one in work:
        several = counts[one.video] > 1
        people.append(f"{label[one.video]} by {one.by}" if several else label[one.video])
    return [
        Source(
            name, partial(_read, files.name, files.sha256, one.rows, size), one.video, one.frames
        )
        for name, one in zip(unique_names(people), work, strict=True)
    ]


def _work_in(name: str, data: Any) -> list[_Work]:
    """Of a project's export, whole or in its short form, or of a single task."""
    tasks = data if isinstance(data, list) else [data]
    if len(tasks) > MAX_TASKS:
        refuse(name, f"holds more than {MAX_TASKS} tasks", "Export the task of this clip")
    found: list[_Work] = []
    for i, task in enumerate(tasks):
        if not isinstance(task, dict):
            continue
        data_of = task.get("data")
        video = _video(data_of if isinstance(data_of, dict) else task) or f"task {i + 1}"
        short = task.get("box") or task.get("videoRectangle")
        if isinstance(short, list):
            rows = [{"value": row} for row in short if isinstance(row, dict)]
            rows = [row for row in rows if "sequence" in row["value"]]
            if rows:
                found.append(_Work(video, _person(task), rows))
            continue
        sets = task.get("annotations") or task.get("completions") or [task]
        for one in sets if isinstance(sets, list) else []:
            if not isinstance(one, dict) or one.get("was_cancelled") is True:
                continue
            rows = [
                row
                for row in (one["result"] if isinstance(one.get("result"), list) else [])
                if isinstance(row, dict) and row.get("type") == "videorectangle"
            ]
            if rows:
                found.append(_Work(video, _person(one), rows))
    return found


def _video(data: Mapping[str, Any]) -> str:
    values = [data.get(key) for key in ("video", "video_url", "url")]
    values += [v for v in data.values() if isinstance(v, str) and v.lower().endswith(".mp4")]
    return next((v[-300:] for v in values if isinstance(v, str) and v), "")


def _person(one: Mapping[str, Any]) -> str:
    for key in ("completed_by", "annotator", "created_username"):
        value = one.get(key)
        if isinstance(value, dict):
            value = value.get("email") or value.get("id")
        if isinstance(value, int | str) and value:
            return clean_label(f"annotator {value}")
    key = one.get("annotation_id", one.get("id"))
    return clean_label(f"annotation {key}") if isinstance(key, int | str) else "somebody"


def _read(
    name: str, sha256: str, rows: Sequence[dict[str, Any]], clip_size: tuple[int, int] | None
) -> TrackFile:
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
        size, stated = clip_size, (row.get("original_width"), row.get("original_height"))
        if size is None and all(stated):
            size = sides(*stated, "original_{}")
        shapes: list[Shape] = []
        for n, entry in enumerate(as_list(value.get("sequence"), f"the sequence of {what}"), 1):
            counter.one_more()
            key = as_object(entry, f"a key frame of {what}")
            at = float(whole(key.get("frame"), f"a frame of {what}", 1))
            frames.add(at)
            shapes.append(_shape(name, key, at, size, f"key frame {n} of {what}"))
            if key.get("enabled") is False:
                shapes.append(Shape(at + 0.5))  # it is still in sight on this one
        found[row.get("id") if isinstance(row.get("id"), str) else i] = label, 1.0, shapes
    if len(found) < len(rows):
        refuse(name, "gives two objects of one video the same id")
    return TrackFile(
        name, sha256, TITLE, np.array(sorted(frames), np.float64), objects_of(name, found),
        fps=min(rates) if len(rates) else None, first=1.0, between="even", stays=True,
    )  # fmt: skip


def _shape(
    name: str, key: Mapping[str, Any], at: float, size: tuple[int, int] | None, what: str
) -> Shape:
    x, y, w, h = (
        number(key.get(n), f"{n} of {what}", -1e4, 1e4) for n in ("x", "y", "width", "height")
    )
    if not number(key.get("rotation") or 0, f"the rotation of {what}", -1e4, 1e4):
        return Shape(at, box_of((x, y, x + w, y + h), 100, 100, f"a box of {what}"), place=what)
    if size is None:
        refuse(name, "has a turned box and does not state the size of its frames")
    scale = np.array(size, np.float64) / 100
    ring = np.array([[0, 0], [w, 0], [w, h], [0, h]]) * scale
    corner = np.array([x, y]) * scale
    return polygon(at, turned(ring, key["rotation"], what) + corner, (size[1], size[0]), what)


def write(sheet: Sheet) -> bytes:
    """Rectangles, which are all that it has for videos, in sight from key frame to key frame.

    It counts frames of an even rate, by their time: a clip's own numbers would shift where its rate
    varies.
    """
    places = _places(sheet)
    frames = max(places) + 1
    results = []
    for one in sheet.objects:
        sequence: list[dict[str, Any]] = []
        for at, time, drawn in zip(places, sheet.times, one.frames, strict=True):
            if drawn is None:
                if sequence:
                    sequence[-1]["enabled"] = False
                continue
            x0, y0, x1, y1 = (100 * float(v) for v in drawn.box)
            sequence.append({
                "frame": at + 1, "enabled": True, "rotation": 0, "x": x0, "y": y0,
                "width": x1 - x0, "height": y1 - y0, "time": time,
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
    return json_bytes([{"data": {"video": sheet.name}, "annotations": [{"result": results}]}])


def _places(sheet: Sheet) -> list[int]:
    """The frames at an even rate that the sampled ones fall on, counted from 0; each its own."""
    places: list[int] = []
    for time in sheet.times:
        places.append(max(round(time * sheet.fps), places[-1] + 1 if places else 0))
    return places
