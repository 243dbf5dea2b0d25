"""COCO's panoptic documents: a picture's segments are colours of a PNG, r + 256 g + 65536 b.

Such a document becomes one of instances, whose masks are read from the pictures when they are
drawn. What a category calls stuff (`isthing` 0), as sky and road, is no object.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from macd_studio.core.objects.annotations import Runs, clean_label
from macd_studio.core.objects.formats.border import AGAIN, Files, as_list, as_object, refuse, whole
from macd_studio.core.objects.formats.pixels import mask_of, read_values
from macd_studio.core.objects.outlines import Mask
from macd_studio.core.validation import shown

LEFT_OUT = "regions of stuff"
"""The entry of a flattened document that counts what was left out."""


def is_panoptic(data: dict[str, Any]) -> bool:
    """Whether a document's annotations list segments."""
    rows = data["annotations"]
    return isinstance(rows, list) and any(
        isinstance(row, dict) and "segments_info" in row for row in rows
    )


def flattened(files: Files, name: str, data: dict[str, Any]) -> dict[str, Any]:
    """The document with an annotation for each segment of a thing.

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
            runs = Runs(_drawn, (partial(read_values, pictures[file], clean_label(file)), colour))
            rows.append({**one, "image_id": note.get("image_id"), "segmentation": runs})
    if any(n > 1 for n in seen.values()):
        rows = [{**row, "track_id": row["id"]} for row in rows]
    return {**data, "annotations": rows, LEFT_OUT: left_out}


def _drawn(read: Any, colour: int) -> Mask:
    return mask_of(read(), colour)
