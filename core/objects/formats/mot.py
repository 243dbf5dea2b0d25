"""MOT Challenge: `gt.txt`, `det.txt` and trackers' results, with `seqinfo.ini` beside them.

frame, id, left, top, width, height, confidence, class, visibility; frames and pixels count from 1,
but some trackers count frames from 0. Between the columns stand commas, blanks, tabs or semicolons;
a first line may name them. Read as well: VisDrone's texts of videos, and KITTI's of tracking, whose
columns are put into MOT's order.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath

import numpy as np

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.annotations import Shape, TrackFile, clean_label
from macd_studio.core.objects.formats.bounds import (
    MAX_FRAME,
    MAX_SIDE,
    MAX_VALUES,
    Files,
    box_of,
    number,
    refuse,
    whole,
)
from macd_studio.core.objects.formats.gather import PictureShapes
from macd_studio.core.objects.formats.source import (
    FRAME_COLUMNS,
    Asked,
    Source,
    clip_size,
    unique_names,
)
from macd_studio.core.text.words import count

NAME, TITLE, ENDING = "mot", "MOT", ".txt"
_CLASSES = (
    "", "pedestrian", "person on vehicle", "car", "bicycle", "motorbike", "non motorized vehicle",
    "static person", "distractor", "occluder", "occluder on the ground", "occluder full",
    "reflection", "crowd",
)  # fmt: skip
_KITTI = {
    "car", "van", "truck", "pedestrian", "person", "person_sitting", "cyclist", "tram", "misc",
    "dontcare",
}  # fmt: skip
_VISDRONE = (
    "ignored region", "pedestrian", "people", "bicycle", "car", "van", "truck", "tricycle",
    "awning-tricycle", "bus", "motor", "others",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Text:
    """A text's rows in MOT's order, and whose they are. classes: names by number, where these are
    not MOT's. corner: number of a picture's first pixel."""

    inner: str
    rows: Sequence[Sequence[str]]
    title: str = TITLE
    classes: Sequence[str] = _CLASSES
    corner: float = 1.0
    is_truth: bool = False


def sources(files: Files, asked: Asked) -> list[Source]:
    """The sequences: of a folder with both, its ground truth rather than its detections."""
    found: dict[str, _Text] = {}
    passed_over: dict[str, str] = {}
    texts = files.texts(".txt", ".csv", ".tsv")
    for inner, text in texts.items():
        path = PurePosixPath(inner)
        read = _text(inner, files.name_of(inner), text, texts)
        if read is None:
            continue
        sequence = str(path.parent.parent if path.parent.name in ("gt", "det") else path.parent)
        if path.name not in ("gt.txt", "det.txt"):
            sequence = str(PurePosixPath(sequence) / path.stem)
        if sequence in found:
            other = found[sequence].inner
            if {PurePosixPath(other).name, path.name} != {"gt.txt", "det.txt"}:
                refuse(files.name, f"has two descriptions of one sequence, {other} and {inner}")
            passed_over[sequence] = "det.txt"
            if path.name == "det.txt":
                continue
        found[sequence] = read
    about = _about(files)
    names = unique_names([_name(key, about, files.name) for key in found])
    out = []
    for name, (key, described) in zip(names, found.items(), strict=True):
        stated = about.get(key) or (
            next(iter(about.values())) if len(about) == len(found) == 1 else {}
        )
        size = _size(stated)
        out.append(Source(
            name, partial(_read, files, described, stated, passed_over.get(key, ""), asked), name,
            _length(stated), size,
        ))  # fmt: skip
    return out


def _name(sequence: str, about: Mapping[str, Mapping[str, str]], file: str) -> str:
    stated = about.get(sequence, {}).get("name", "")
    return stated or (file if sequence in (".", "") else PurePosixPath(sequence).name)


def _about(files: Files) -> dict[str, dict[str, str]]:
    """What each sequence's `seqinfo.ini` states."""
    found = {}
    for inner, text in files.texts("seqinfo.ini").items():
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(text[:100_000])
        except configparser.Error as error:
            raise TracksError(f"{files.name_of(inner)} is damaged", "Export it again") from error
        for section in parser.sections():
            if section.lower() == "sequence":
                found[str(PurePosixPath(inner).parent)] = dict(parser[section])
    return found


def _text(inner: str, name: str, text: str, beside: Mapping[str, str]) -> _Text | None:
    """What a text is, and its rows; None of a text of another kind. beside: all texts."""
    header, rows = _rows(name, text)
    if header:
        return _by_header(inner, header, rows)
    if kitti := _of_kitti(inner, rows):
        return kitti
    if not rows or not _is_mot(rows, "," in text or ";" in text):
        return None
    path = PurePosixPath(inner)
    if all(map(_is_visdrone, rows)):
        return _Text(inner, rows, "VisDrone", _VISDRONE, is_truth=True)
    own = beside.get(str(path.with_name("labels.txt")))
    classes: tuple[str, ...] = _CLASSES
    if own is not None:
        classes = ("", *(clean_label(line) for line in own[:1_000_000].splitlines()))
    return _Text(inner, rows, classes=classes, is_truth=path.name == "gt.txt")


def _rows(name: str, text: str) -> tuple[list[str], list[list[str]]]:
    """The names of columns, where a first line has any, and the words of each line."""
    header: list[str] = []
    rows: list[list[str]] = []
    values = 0
    lines = [line.strip() for line in text.splitlines()]
    mark = next((m for m in ",;\t" if m in next(filter(None, lines), "")), None)
    for i, line in enumerate(filter(None, lines)):
        words = [word.strip() for word in line.split(mark)]
        if i == 0 and len(words) > 5 and not any(map(_NUMBER.fullmatch, words)):
            header = [word.strip('"').lower() for word in words]
            continue
        values += len(words)
        if values > MAX_VALUES:
            refuse(
                name, f"holds more than {MAX_VALUES} values", "Give the frames of this clip only"
            )
        if not header and not (len(words) >= 15 or _is_row(words)):
            return [], []  # a text of another kind is not read to its end
        rows.append(words)
    return header, rows


def _by_header(inner: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> _Text | None:
    """Rows whose columns have names, in MOT's order; None where they are not those of boxes.

    Where a box has two corners its pixels count from 0, as supervision writes them.
    """
    at = {
        field: next((header.index(name) for name in names if name in header), -1)
        for field, names in _COLUMNS.items()
    }
    ends = at["right"] >= 0 and at["bottom"] >= 0
    if min(at["frame"], at["left"], at["top"]) < 0 or not (
        ends or min(at["width"], at["height"]) >= 0
    ):
        return None
    out, labels = [], {"": 0}
    for i, words in enumerate(rows, 2):
        if len(words) != len(header):
            raise TracksError(
                f"line {i} of {clean_label(inner)} has {len(words)} cells, and its header"
                f" {len(header)}",
                "Export it again",
            )
        cell = {field: words[place] if place >= 0 else "" for field, place in at.items()}
        x, y = (number(cell[k], f"the box in line {i}") for k in ("left", "top"))
        far = ("right", "bottom") if ends else ("width", "height")
        w, h = (number(cell[k], f"the box in line {i}") for k in far)
        box = (x, y, w - x, h - y) if ends else (x, y, w, h)
        label = cell["label"].strip('"')
        if _NUMBER.fullmatch(label):
            label = f"class {float(label):g}" if float(label) >= 0 else ""
        kind = labels.setdefault(label, len(labels)) if label else -1
        row = [cell["frame"], cell["id"] or "-1", *map(str, box), cell["conf"] or "-1", str(kind)]
        out.append(row)
    return _Text(inner, out, classes=tuple(labels), corner=0.0 if ends else 1.0)


_COLUMNS = {
    "frame": FRAME_COLUMNS,
    "id": ("id", "tracker_id", "track_id", "trackid", "object_id", "identity", "obj_id"),
    "left": ("bb_left", "left", "x_min", "xmin", "x1", "bbox_left", "bb_x", "x"),
    "top": ("bb_top", "top", "y_min", "ymin", "y1", "bbox_top", "bb_y", "y"),
    "width": ("bb_width", "width", "w", "bbox_width", "bbox_w"),
    "height": ("bb_height", "height", "h", "bbox_height", "bbox_h"),
    "right": ("x_max", "xmax", "x2", "right"), "bottom": ("y_max", "ymax", "y2", "bottom"),
    "conf": ("conf", "confidence", "score"),
    "label": ("class_name", "label", "name", "category", "class", "class_id", "cls"),
}  # fmt: skip
"""What a header may call a column; the first name that is there counts."""
_NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?|[-+]?[0-9]+\.")


def _is_mot(rows: Sequence[Sequence[str]], separated: bool) -> bool:
    """Whether rows are 6 to 10 numbers, a frame and an id first.

    Between blanks they may be YOLO's as well, whose numbers are shares of the frame: sides longer
    than a pixel tell them apart.
    """
    if not all(map(_is_row, rows)):
        return False
    if separated:
        return True
    whole_ones = all(float(w).is_integer() for words in rows for w in words[:2] if w)
    return whole_ones and any(max(float(w or 0) for w in words[4:6]) > 1.5 for words in rows)


def _is_row(words: Sequence[str]) -> bool:
    if not 6 <= len(words) <= 10 or not all(map(_NUMBER.fullmatch, filter(None, words))):
        return False
    return words[0].replace(".", "", 1).replace("e+", "", 1).isdecimal()


def _is_visdrone(words: Sequence[str]) -> bool:
    """frame, id, box, whether it counts, category, truncation, occlusion: none is below 0."""
    if len(words) != 10 or not all(w.isdecimal() for w in words[6:]):
        return False
    counts, category, cut, hidden = (int(w[:9]) for w in words[6:])
    return counts <= 1 and category < len(_VISDRONE) and cut <= 1 and hidden <= 2


def _of_kitti(inner: str, rows: Sequence[Sequence[str]]) -> _Text | None:
    """KITTI's tracking: frame, id, type, truncation, occlusion, angle, x0 y0 x1 y1, and 3D."""
    if not rows or not all(
        len(w) >= 15 and w[0].isdecimal() and w[2].lower() in _KITTI for w in rows
    ):
        return None
    names = sorted({w[2] for w in rows if w[2].lower() != "dontcare"})
    out = []
    for w in rows:
        counts = "0" if w[2].lower() == "dontcare" else "1"
        kind = str(names.index(w[2]) + 1) if counts == "1" else "-1"
        x0, y0, x1, y1 = (number(v, f"a box of {clean_label(inner)}") for v in w[6:10])
        out.append([w[0], w[1], str(x0), str(y0), str(x1 - x0), str(y1 - y0), counts, kind])
    return _Text(inner, out, "KITTI tracking", ("", *names), 0.0, True)


def _size(stated: Mapping[str, str]) -> tuple[int, int] | None:
    if "imwidth" not in stated or "imheight" not in stated:
        return None
    width = whole(stated["imwidth"], "imWidth in seqinfo.ini", 1, MAX_SIDE)
    return width, whole(stated["imheight"], "imHeight in seqinfo.ini", 1, MAX_SIDE)


def _length(stated: Mapping[str, str]) -> int | None:
    length = stated.get("seqlength")
    return None if length is None else whole(length, "seqLength in seqinfo.ini", 1, MAX_FRAME)


def _read(
    files: Files, text: _Text, stated: Mapping[str, str], passed_over: str, asked: Asked
) -> TrackFile:
    name = files.name_of(text.inner)
    size = _size(stated) or clip_size(name, asked, "Give its seqinfo.ini too")
    width, height = size
    found = PictureShapes(name)
    ignored = 0
    for i, words in enumerate(text.rows, 1):
        what = f"line {i} of {clean_label(text.inner)}"
        at = float(whole(words[0], f"the frame in {what}"))
        key = whole(words[1], f"the id in {what}", -1, 2**31)
        left, top, w, h = (number(v, f"the box in {what}") for v in words[2:6])
        found.frames.add(at)
        score = 1.0
        if len(words) > 6:
            score = number(words[6], f"the confidence in {what}")
            if text.is_truth and score == 0:
                ignored += 1
                continue
            score = 1.0 if score == -1 else min(max(score, 0.0), 1.0)  # -1: not given
        left, top = left - text.corner, top - text.corner
        corners = (left, top, left + w, top + h)
        shape = Shape(at, box_of(corners, width, height, f"the box in {what}"), place=what)
        found.add(None if key == -1 else key, _class(text, words, what) or "object", score, shape)
    notes = []
    if ignored:
        notes.append(f"{name}: {count(ignored, 'row')} to ignore were left out")
    if passed_over:
        notes.append(f"{files.name}: its gt.txt was read, its {passed_over} was not")
    first = 0.0 if 0.0 in found.frames or not text.corner else 1.0
    if not first and text.corner and text.title == TITLE:
        notes.append(f"{name}: its frames count from 0, as it describes a frame 0")
    rate = stated.get("framerate")
    fps = None if rate is None else number(rate, "frameRate in seqinfo.ini", 0.01, 1000)
    return TrackFile(
        name, files.sha256, text.title, np.array(sorted(found.frames), np.float64), found.objects(),
        fps=_rate(fps, asked), first=first, size=size, notes=tuple(notes),
    )  # fmt: skip


def _rate(fps: float | None, asked: Asked) -> float | None:
    """The stated rate, unless it is the clip's: its frames are counted then, which is exact."""
    clip = asked.clip
    if fps is None or clip is None or clip.fps is None or abs(clip.fps / fps - 1) > 0.01:
        return fps
    return None


def _class(text: _Text, words: Sequence[str], what: str) -> str:
    """The name of a row's class; "" where none is stated, or a tracker's number has no name."""
    if len(words) < 8 or words[7] in ("", "-1"):
        return ""
    if not text.is_truth and text.classes is _CLASSES:
        return ""
    kind = whole(words[7], f"the class in {what}", 0, 1000)
    return text.classes[kind] if 0 < kind < len(text.classes) else f"class {kind}"
