"""COCO's instances: pictures of one clip, or with CocoVID's `videos` of several; boxes and masks.

A list of results is read with the document whose pictures it is of. A panoptic document, whose
segments are colours of a PNG, becomes one of instances, read from the pictures when they are drawn.

A region with `iscrowd` 1 is one to ignore. But Datumaro, and CVAT with it, marks every mask so that
is written as run lengths: what has a track, or a file that marks everything, is of objects. What is
written here says 0, for run lengths too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.annotations import Shape, TrackFile, clean_label
from macd_studio.core.objects.formats.bounds import (
    AGAIN,
    MAX_FRAME,
    MAX_SIDE,
    Files,
    as_list,
    as_object,
    box_of,
    is_list_of,
    number,
    one_size,
    points_of,
    refuse,
    sides,
    whole,
)
from macd_studio.core.objects.formats.dialects import converted
from macd_studio.core.objects.formats.gather import PictureShapes, ShapeCounter
from macd_studio.core.objects.formats.names import numbered
from macd_studio.core.objects.formats.pixels import read_mask, read_values
from macd_studio.core.objects.formats.sheet import Sheet, json_bytes
from macd_studio.core.objects.formats.source import Asked, Source, unique_names
from macd_studio.core.objects.outlines import mask_of_runs, read_packed_runs, runs_of
from macd_studio.core.text.words import count, writable
from macd_studio.core.types import Floats
from macd_studio.core.validation import shown

NAME, TITLE, ENDING = "coco", "COCO", ".json"


@dataclass(frozen=True)
class _Picture:
    frame: int
    size: tuple[int, int]


def sources(files: Files, asked: Asked) -> list[Source]:
    """The videos of each such document."""
    documents = {
        inner: data
        for inner, data in files.documents.items()
        if isinstance(data, dict) and "images" in data and "annotations" in data
    }
    results = [data for data in files.documents.values() if is_results(data)]
    if results and len(documents) == 1:
        (inner,) = documents
        documents[inner] |= {"annotations": [row for rows in results for row in rows]}
    found = []
    for inner, data in documents.items():
        if is_panoptic(data):
            data = flattened(files, files.name_of(inner), data)
        prefix = "" if len(documents) == 1 else document_name(inner, list(documents))
        found += _videos(files.name_of(inner), files.sha256, data, prefix)
    if not found and (other := converted(files, asked)) is not None:
        dialect, data = other
        found = _videos(files.name, files.sha256, data, "", dialect.title, dialect.lists_all)
    return found


def is_results(data: Any) -> bool:
    """Whether a document is a list of results, as evaluators of COCO take them."""
    return is_list_of(data, "image_id", "category_id")


def document_name(inner: str, among: Sequence[str]) -> str:
    """What one document is called beside the others: its folder, where that tells them apart.

    >>> document_name("train/a.json", ["train/a.json", "valid/a.json"])
    'train'
    """
    folders = [name.rpartition("/")[0] for name in among]
    folder = inner.rpartition("/")[0]
    return folder if folder and folders.count(folder) == 1 else inner.removesuffix(".json")


def _videos(
    name: str, sha256: str, data: dict[str, Any], prefix: str, title: str = TITLE,
    lists_all: bool = True,
) -> list[Source]:  # fmt: skip
    rows = [as_object(row, "an image") for row in as_list(data["images"], "images")]
    by_video: dict[str, list[dict[str, Any]]] = defaultdict(list)
    titles = _titles(data)
    if titles:
        for row in rows:
            key = row.get("video_id")
            if not isinstance(key, int | str) or str(key) not in titles:
                refuse(name, f"has an image of a video {shown(key)} that it does not list")
            by_video[str(key)].append(row)
    else:
        by_video[""] = rows
    read = partial(_read, name, sha256, data, title=title, lists_all=lists_all)
    found: list[Source] = []
    for key, group in by_video.items():
        for part, pictures in _pictures(name, group).items():
            label = "/".join(filter(None, (prefix, titles.get(key, ""), part)))
            sizes = {(p.size[1], p.size[0]) for p in pictures.values()}
            video = titles.get(key) or part
            found.append(Source(
                label, partial(read, pictures, len(by_video) > 1), video, len(pictures),
                next(iter(sizes)) if len(sizes) == 1 else None,
            ))  # fmt: skip
    if not found:
        found = [Source(prefix, partial(read, {}, False))]
    labels = unique_names([s.name for s in found])
    return [
        Source(n, s.read, s.video, s.frames, s.size) for n, s in zip(labels, found, strict=True)
    ]


def _titles(data: Mapping[str, Any]) -> dict[str, str]:
    """CocoVID's videos: id → name."""
    rows = [as_object(row, "a video") for row in as_list(data.get("videos", []), "videos")]
    ids = [row.get("id") for row in rows]
    names = unique_names([str(row.get("name") or row.get("file_name") or "") for row in rows])
    return {str(i): n for i, n in zip(ids, names, strict=True) if isinstance(i, int | str)}


def _pictures(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, _Picture]]:
    """Video → image id → which picture it is. By `frame_id` where all state it, else by names."""
    stated = [row.get("frame_id", row.get("frame_index")) for row in rows]
    sizes: dict[int, tuple[int, int]] = {}
    for row in rows:
        key = whole(row.get("id"), "an image's id", 0, 2**53)
        if key in sizes:
            refuse(name, f"has two images with the id {key}", AGAIN)
        sizes[key] = sides(row.get("width"), row.get("height"), "an image's {}")[::-1]
    ids = list(sizes)
    if rows and all(value is not None for value in stated):
        frames = [whole(value, "an image's frame_id") for value in stated]
        if len(set(frames)) < len(frames):
            again, _ = Counter(frames).most_common(1)[0]
            refuse(name, f"has two images with the frame_id {again} in one video", AGAIN)
        return {"": {k: _Picture(f, sizes[k]) for k, f in zip(ids, frames, strict=True)}}
    names = [str(row.get("file_name", ""))[:1000] for row in rows]
    if len(set(names)) < len(names):
        twice, _ = Counter(names).most_common(1)[0]
        refuse(name, f"has two images with the name {shown(twice, 100)}", AGAIN)
    place = dict(zip(names, ids, strict=True))
    return {
        video: {place[n]: _Picture(min(f, MAX_FRAME), sizes[place[n]]) for n, f in group.items()}
        for video, group in numbered(name, names).items()
    }


def labels_of(data: Mapping[str, Any]) -> dict[int, str]:
    """Categories: id → name."""
    labels = {}
    for row in as_list(data.get("categories", []), "categories"):
        category = as_object(row, "a category")
        labels[whole(category.get("id"), "a category's id", 0, 2**31)] = clean_label(
            category.get("name", "")
        )
    return labels


def _read(
    name: str, sha256: str, data: dict[str, Any], pictures: dict[int, _Picture], is_part: bool,
    *, title: str, lists_all: bool,
) -> TrackFile:  # fmt: skip
    """is_part: there are images of other videos, whose annotations are passed over."""
    labels = labels_of(data)
    size = one_size(name, ((p.size[1], p.size[0]) for p in pictures.values()))
    rows = as_list(data["annotations"], "annotations")
    marks_all = all(isinstance(row, dict) and row.get("iscrowd") in (1, True) for row in rows)
    found = PictureShapes(name, ShapeCounter(name))
    found.frames |= {float(p.frame) for p in pictures.values()}
    known = pictures
    if is_part or len(pictures) < len(data["images"]):
        known = dict.fromkeys((row["id"] for row in data["images"]), _Picture(0, (1, 1)))
    crowds = 0
    for i, row in enumerate(rows):
        what = f"annotation {i + 1}"
        note: Any = as_object(row, what)
        image_id, category = note.get("image_id"), note.get("category_id")
        if not isinstance(image_id, int) or image_id not in known:
            refuse(name, f"has {what} on an image {shown(image_id)} that it does not list")
        if image_id not in pictures:
            continue
        if not isinstance(category, int) or category not in labels:
            refuse(name, f"has {what} of a category {shown(category)} that it does not list")
        picture = pictures[image_id]
        shape = coco_shape(note, float(picture.frame), picture.size, what)
        score = number(note.get("score", 1.0), f"the score of {what}", 0, 1)
        of = _object(note, labels[category])
        if note.get("iscrowd") in (1, True) and of is None and not marks_all:
            crowds += 1
            continue
        found.add(of, labels[category], score, shape)
    notes: tuple[str, ...] = ()
    if crowds:
        notes = (f"{name}: {count(crowds, 'crowd region')} to ignore were left out",)
    elif marks_all and rows:
        notes = (f"{name}: all of it is marked as crowd regions, and was read as objects",)
    if left_out := data.get(LEFT_OUT):
        notes += (f"{name}: {count(left_out, 'region')} of stuff without number were left out",)
    return TrackFile(
        name, sha256, title, found.described(), found.objects(), size=size, notes=notes,
        counted="open", lists_all=lists_all,
    )  # fmt: skip


def _object(note: Mapping[str, Any], label: str) -> tuple[str, str] | None:
    """Which object an annotation is of; None where it does not say."""
    attributes = note.get("attributes")
    extra: dict[str, Any] = attributes if isinstance(attributes, dict) else {}
    track = note.get("track_id", extra.get("track_id", note.get("instance_id")))
    if not isinstance(track, int | str) or str(track) == "-1":
        return None
    return label, str(track)[:100]


def coco_shape(note: Mapping[str, Any], at: float, size: tuple[int, int], what: str) -> Shape:
    """The shape of an annotation: `bbox` or `segmentation`, in pixels of (h, w) = size."""
    height, width = size
    box = None
    if (stated := note.get("bbox")) not in (None, []):
        values = as_list(stated, f"the box of {what}")
        if len(values) != 4:
            raise TracksError(f"the box of {what} has {len(values)} numbers", AGAIN)
        x, y, w, h = (number(v, f"the box of {what}") for v in values)
        box = box_of((x, y, x + w, y + h), width, height, f"the box of {what}")
    mask = note.get("segmentation")
    if isinstance(mask, partial):
        return Shape(at, box, size=size, runs=mask, place=what)
    if isinstance(mask, dict):
        return _of_runs(mask, at, size, box, what)
    if isinstance(mask, list):
        mask = [ring for ring in mask if ring != []]
    if isinstance(mask, list) and mask:
        if len(mask) > 1000:
            raise TracksError(f"the mask of {what} has {len(mask)} polygons", "Simplify its masks")
        rings = tuple(
            points_of(as_list(ring, f"a polygon of {what}"), f"a polygon of {what}")
            for ring in mask
        )
        ends = np.concatenate(rings)
        corners = (*ends.min(axis=0), *ends.max(axis=0))
        around = box_of(corners, width, height, f"the polygons of {what}")
        return Shape(at, around, rings, size, place=what)
    if box is None:
        raise TracksError(f"{what} has neither a box nor a mask", AGAIN)
    return Shape(at, box, place=what)


def _of_runs(
    mask: Mapping[str, Any], at: float, size: tuple[int, int], box: Floats | None, what: str
) -> Shape:
    height, width = size
    stated = as_list(mask.get("size"), f"the size of {what}")
    if [*stated] != [height, width]:
        raise TracksError(
            f"the mask of {what} has the size {shown(stated)}, and its image {height}×{width}",
            AGAIN,
        )
    counts = mask.get("counts")
    if isinstance(counts, str):
        if len(counts) > MAX_SIDE * MAX_SIDE // 16:
            raise TracksError(f"the mask of {what} is too long", AGAIN)
        counts = read_packed_runs(counts)
    runs = [
        whole(v, f"a run length of {what}", 0, MAX_SIDE * MAX_SIDE)
        for v in as_list(counts, f"the run lengths of {what}")
    ]
    if sum(runs) != height * width:
        mask_of_runs(runs, size)  # says so
    if box is None:
        box = np.array([0, 0, 1, 1], np.float32)
    kept = np.array(runs, np.int32)
    return Shape(at, box, size=size, runs=partial(mask_of_runs, kept, size), place=what)


def write(sheet: Sheet) -> bytes:
    """Instances with run lengths, or with a box alone; the object in `track_id`."""
    height, width = sheet.size
    labels = sorted({one.label for one in sheet.objects})
    notes: list[dict[str, Any]] = []
    for i, _, one, drawn in sheet.drawn():
        x0, y0, x1, y1 = drawn.pixels
        mask = drawn.mask
        notes.append({
            "id": len(notes) + 1,
            "image_id": i + 1,
            "category_id": labels.index(one.label) + 1,
            "bbox": [x0, y0, round(x1 - x0, 6), round(y1 - y0, 6)],
            "area": float(drawn.raster.sum()),
            "segmentation": []
            if mask is None
            else {"size": [height, width], "counts": runs_of(mask)},
            "iscrowd": 0,
            "score": one.confidence,
            "track_id": one.id,
            "attributes": {"track_id": one.id, "occluded": not drawn.seen, "level": one.level},
        })  # fmt: skip
    images = [
        {"id": i + 1, "width": width, "height": height, "file_name": f"frame_{number:06d}.png"}
        for i, number in enumerate(sheet.numbers)
    ]
    return json_bytes({
        "info": {"description": f"objects of {sheet.name}, by MACD Studio"},
        "licenses": [],
        "categories": [
            {"id": i + 1, "name": writable(label), "supercategory": ""}
            for i, label in enumerate(labels)
        ],
        "images": images,
        "annotations": notes,
    })  # fmt: skip


LEFT_OUT = "regions of stuff"
"""The entry of a flattened document that counts what was left out."""


def is_panoptic(data: dict[str, Any]) -> bool:
    """Whether a document's annotations list segments."""
    rows = data["annotations"]
    return isinstance(rows, list) and any(
        isinstance(row, dict) and "segments_info" in row for row in rows
    )


def flattened(files: Files, name: str, data: dict[str, Any]) -> dict[str, Any]:
    """The panoptic document with an annotation for each segment of a thing; stuff is no object.

    A number that several pictures have is an object's, as in videos; else numbers are of one
    picture each, and objects are linked by overlap. Raises TracksError where a picture is missing.
    """
    pictures = {PurePosixPath(inner).name: c for inner, c in files.ending(".png").items()}
    kinds = [r for r in as_list(data.get("categories", []), "categories") if isinstance(r, dict)]
    stuff = {str(row.get("id")) for row in kinds if row.get("isthing") == 0}
    if len(stuff) == len(kinds):  # Datumaro calls all of it so
        stuff = set()
    rows: list[dict[str, Any]] = []
    seen: dict[int, int] = defaultdict(int)
    left_out = 0
    for i, row in enumerate(as_list(data["annotations"], "annotations")):
        what = f"annotation {i + 1}"
        note = as_object(row, what)
        file = PurePosixPath(str(note.get("file_name", ""))[:1000]).name
        if file not in pictures:
            refuse(
                name,
                f"is a panoptic document and has {what} in a picture {shown(file, 100)} that is"
                " not there",
                "Put it and the folder of its PNG pictures in one folder or zip",
            )
        for segment in as_list(note.get("segments_info"), f"the segments of {what}"):
            one = as_object(segment, f"a segment of {what}")
            value = whole(one.get("id"), f"the id of a segment of {what}", 0, 2**24 - 1)
            if str(one.get("category_id")) in stuff:
                left_out += 1
                continue
            if one.get("bbox") in (None, []):
                refuse(name, f"has a segment of {what} without a box", AGAIN)
            seen[value] += 1
            colour = (value & 255) << 16 | value & 0xFF00 | value >> 16
            read = partial(read_values, pictures[file], clean_label(file))
            mask = partial(read_mask, read, colour)
            rows.append({**one, "image_id": note.get("image_id"), "segmentation": mask})
    if any(n > 1 for n in seen.values()):
        rows = [{**row, "track_id": row["id"]} for row in rows]
    return {**data, "annotations": rows, LEFT_OUT: left_out}
