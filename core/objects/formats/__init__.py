"""Files of tracks and masks: one module a format, with its reader, its writer and its names.

A module has NAME, TITLE, ENDING and `sources`; `write` where the format is written too. A new
format is such a module and a line in `_MODULES`. Files that are known and not read are told apart
by their structure, each with the way to one that is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.annotations import TrackFile
from macd_studio.core.objects.formats import (
    coco,
    cvat,
    label_studio,
    masks,
    mot,
    own,
    yolo,
    youtube_vis,
)
from macd_studio.core.objects.formats.bounds import MAX_BYTES, OTHER, Files, file_name, refuse
from macd_studio.core.objects.formats.coco import is_results
from macd_studio.core.objects.formats.sheet import Sheet
from macd_studio.core.objects.formats.source import Asked, ClipFacts, Source, choose
from macd_studio.core.options import TrackOptions
from macd_studio.core.validation import shown


@dataclass(frozen=True)
class Format:
    """One format. title: its name for people; ending: of the name of a file that is written.

    sources: the videos that files describe in it, none where they are of another format. write: the
    file of a sheet; None where the format is only read.
    """

    name: str
    title: str
    ending: str
    sources: Callable[[Files, Asked], list[Source]]
    write: Callable[[Sheet], bytes] | None


_MODULES: tuple[ModuleType, ...] = (own, coco, youtube_vis, cvat, label_studio, mot, yolo, masks)
FORMATS = {
    m.NAME: Format(m.NAME, m.TITLE, m.ENDING, m.sources, getattr(m, "write", None))
    for m in _MODULES
}
"""By name, in the order in which a file is held against them: documents before texts, and texts
before pictures, which may be those of the frames."""
WRITERS = {name: one for name, one in FORMATS.items() if one.write is not None}
"""Those that are written."""


def read_track_file(
    path: str | Path,
    clip: ClipFacts | None = None,
    options: TrackOptions | None = None,
    most: int = MAX_BYTES,
) -> TrackFile:
    """The objects that a file, a zip archive or a folder describes.

    clip: what the file is held against where it can be read in several ways. most: bytes of a file
    that is read.

    Raises TracksError, in one sentence, for everything that is none of the known formats, is
    damaged, or holds more than a file of tracks can; SeveralVideos where the clip's video is one of
    several and it is not clear which.
    """
    path = Path(path)
    try:
        files = Files.at(path, most)
        return _read(files, Asked(clip, options or TrackOptions()))
    except OSError as error:
        raise TracksError(
            f"{file_name(path)} cannot be read ({error.strerror or type(error).__name__})",
            "Give a file of tracks or masks, or a folder of them",
        ) from error
    except RecursionError:
        raise TracksError(
            f"{file_name(path)} is nested too deeply", "Export it with another program"
        ) from None


def _read(files: Files, asked: Asked) -> TrackFile:
    _refuse_unread(files)
    for one in FORMATS.values():
        if found := one.sources(files, asked):
            source, how = choose(files.name, found, asked)
            file = source.read()
            return replace(file, notes=(*file.notes, f"{files.name}: {how}")) if how else file
    _refuse_unknown(files)


@dataclass(frozen=True)
class Unread:
    """One kind of file. title: behind "is"; cure: how to come to a file that is read."""

    title: str
    cure: str
    fits: Callable[[Files], bool]


def _document(fits: Callable[[Any], bool]) -> Callable[[Files], bool]:
    return lambda files: any(map(fits, files.documents.values()))


def _text(fits: Callable[[list[str]], bool]) -> Callable[[Files], bool]:
    def fits_any(files: Files) -> bool:
        firsts = (_first_line(content).split() for content in files.ending(".txt").values())
        return any(fits(words) for words in firsts if words)

    return fits_any


def _first_line(content: bytes) -> str:
    text = content[:2000].decode("utf-8-sig", "replace")
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _are_results_alone(files: Files) -> bool:
    documents = files.documents.values()
    return any(map(is_results, documents)) and not any(isinstance(d, dict) for d in documents)


def _is_sam(data: Any) -> bool:
    rows = data.get("annotations") if isinstance(data, dict) else data
    return isinstance(rows, list) and any(
        isinstance(r, dict) and "predicted_iou" in r for r in rows
    )


def _is_fiftyone(data: Any) -> bool:
    rows = data.get("samples") if isinstance(data, dict) else None
    return isinstance(rows, list) and any(isinstance(r, dict) and "filepath" in r for r in rows)


def _is_kitti_detection(words: list[str]) -> bool:
    return len(words) >= 15 and words[0].replace("_", "").isalpha()  # as Person_sitting


def _is_mots(words: list[str]) -> bool:
    numbers, last = words[:5], words[-1]
    return len(words) == 6 and all(w.isdecimal() for w in numbers) and not last[0].isdecimal()


UNREAD = (
    Unread(
        "a list of COCO results, which states neither names nor sizes of its pictures",
        "Put it and the annotation file of its pictures in one folder or zip",
        _are_results_alone,
    ),
    Unread(
        "of SAM's automatic masks, which are of one picture and have no object over time",
        "Track with SAM 2's video predictor, and write a PNG of object numbers for each frame",
        _document(_is_sam),
    ),
    Unread(
        "a data set of FiftyOne",
        "Export it with dataset.export(dataset_type=fo.types.COCODetectionDataset)",
        _document(_is_fiftyone),
    ),
    Unread(
        "a text of KITTI's object detection, a picture a file",
        "Convert it with Datumaro: datum convert -if kitti -f coco",
        _text(_is_kitti_detection),
    ),
    Unread(
        "a text of MOTS, whose masks are not read",
        "Write its masks as PNG pictures, one a frame, of class · 1000 + number",
        _text(_is_mots),
    ),
)
"""In the order in which a file is held against them."""
_NEEDS = {
    "documents": {
        "COCO": "images, annotations", "YouTube-VIS": "videos, annotations",
        "Label Studio": "result", "labelme": "shapes, imagePath", "VIA": "filename, regions",
        "BDD100K": "name, labels", "Datumaro": "categories, items",
        "Supervisely": "objects, frames", "OpenLABEL": "openlabel", "SA-V": "masklet",
    },
    "texts": {
        "MOT": "6 to 10 numbers a line, frame and id first",
        "YOLO": "a class and 4 or more numbers", "KITTI tracking": "15 or more columns",
    },
}  # fmt: skip
"""What each format that is read has: keys of a document, columns of a text."""


def _refuse_unread(files: Files) -> None:
    """Raises TracksError for a file of a known kind that is not read: before any reader sees it."""
    for kind in UNREAD:
        if kind.fits(files):
            raise TracksError(f"{files.name} is {kind.title}", kind.cure)


def _refuse_unknown(files: Files) -> NoReturn:
    """Raises TracksError for a file of no kind: what it has, and what those that are read have."""
    if not files.contents:
        refuse(files.name, "holds no tracks or masks of a format that is read", OTHER)
    told = next(_found(files), "")
    refuse(files.name, f"is none of the formats that are read{told}", OTHER)


def _found(files: Files) -> Iterator[str]:
    for data in files.documents.values():
        what = "JSON"
        if isinstance(data, dict) and data:
            what += f" with {_keys(data)}"
        elif isinstance(data, list) and data and isinstance(data[0], dict):
            what += f", a list of objects with {_keys(data[0])}"
        yield f": it is {what}. {_listed('documents')}"
    for content in files.ending(".txt", ".csv", ".tsv").values():
        if line := _first_line(content):
            yield f": it begins with {shown(line, 60)}. {_listed('texts')}"


def _keys(data: dict[str, Any]) -> str:
    return ", ".join(shown(key, 40) for key in list(data)[:6])


def _listed(kind: str) -> str:
    return "; ".join(f"{title} has {needs}" for title, needs in _NEEDS[kind].items())
