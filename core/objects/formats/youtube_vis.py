"""YouTube-VIS: videos with their frames by name; each annotation is one object on all of them."""

from __future__ import annotations

from functools import partial
from typing import Any

from macd_studio.core.objects.annotations import TrackFile
from macd_studio.core.objects.formats.bounds import (
    AGAIN,
    Files,
    as_list,
    as_object,
    number,
    refuse,
    sides,
)
from macd_studio.core.objects.formats.coco import coco_shape, document_name, labels_of
from macd_studio.core.objects.formats.gather import PictureShapes
from macd_studio.core.objects.formats.names import numbered
from macd_studio.core.objects.formats.source import Asked, Source, unique_names
from macd_studio.core.text.words import count
from macd_studio.core.validation import shown

NAME, TITLE, ENDING = "youtube-vis", "YouTube-VIS", ".json"


def sources(files: Files, asked: Asked) -> list[Source]:
    """The videos of each such document."""
    documents = {
        inner: data
        for inner, data in files.documents.items()
        if isinstance(data, dict)
        and "videos" in data
        and "images" not in data
        and "annotations" in data
    }
    found: list[Source] = []
    for inner, data in documents.items():
        prefix = "" if len(documents) == 1 else document_name(inner, list(documents)) + "/"
        name = files.name_of(inner)
        rows = [as_object(row, "a video") for row in as_list(data["videos"], "videos")]
        folders = []
        for row in rows:
            names = as_list(row.get("file_names"), "the file_names of a video")
            first = str(names[0]) if names else ""
            folders.append(str(row.get("name") or first.rpartition("/")[0]))
        for row, label in zip(rows, unique_names(folders), strict=True):
            size = sides(row.get("width"), row.get("height"), "a video's {}")
            found.append(Source(
                prefix + label, partial(_read, name, files.sha256, data, row, size), label,
                len(row["file_names"]), size,
            ))  # fmt: skip
    return found


def _read(
    name: str, sha256: str, data: dict[str, Any], video: dict[str, Any], size: tuple[int, int]
) -> TrackFile:
    labels = labels_of(data)
    names = [str(n)[:1000] for n in video["file_names"]]
    if len(set(names)) < len(names):
        refuse(name, "lists a frame of a video twice", AGAIN)
    numbers = numbered(name, names) if names else {"": {}}
    if len(numbers) > 1:
        refuse(name, "has a video whose frames have names of several videos", AGAIN)
    frames = [next(iter(numbers.values()))[n] for n in names]
    found = PictureShapes(name)
    found.frames |= {float(f) for f in frames}
    crowds = 0
    for i, row in enumerate(as_list(data["annotations"], "annotations")):
        what = f"annotation {i + 1}"
        note = as_object(row, what)
        if note.get("video_id") != video.get("id"):
            continue
        category = note.get("category_id")
        if not isinstance(category, int) or category not in labels:
            refuse(name, f"has {what} of a category {shown(category)} that it does not list")
        if note.get("iscrowd") in (1, True):
            crowds += 1
            continue
        masks = as_list(note.get("segmentations") or [None] * len(frames), f"the masks of {what}")
        boxes = as_list(note.get("bboxes") or [None] * len(frames), f"the boxes of {what}")
        if not len(masks) == len(boxes) == len(frames):
            refuse(name, f"has {len(masks)} masks of {what} for {len(frames)} frames", AGAIN)
        score = number(note.get("score", 1.0), f"the score of {what}", 0, 1)
        for at, mask, box in zip(frames, masks, boxes, strict=True):
            if mask or box:
                shape = coco_shape(
                    {"segmentation": mask, "bbox": box}, float(at), (size[1], size[0]),
                    f"{what} on frame {at}",
                )  # fmt: skip
                found.add(i, labels[category], score, shape)
    notes = (f"{name}: {count(crowds, 'crowd object')} to ignore were left out",) if crowds else ()
    return TrackFile(
        name, sha256, TITLE, found.described(), found.objects(), size=size, notes=notes,
        counted="open", lists_all=True,
    )  # fmt: skip
