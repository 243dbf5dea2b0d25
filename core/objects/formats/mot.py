"""MOT Challenge: `gt.txt`, `det.txt` and trackers' results, with `seqinfo.ini` beside them.

frame, id, left, top, width, height, confidence, class, visibility; frames and pixels count from 1.
KITTI's and MOTS' texts are recognised, and refused by name.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.annotations import Shape, TrackFile, clean_label
from macd_studio.core.objects.formats.border import (
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
from macd_studio.core.objects.formats.source import Asked, Source, unique_names
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


def sources(files: Files, asked: Asked) -> list[Source]:
    """The sequences: of a folder with both, its ground truth rather than its detections."""
    found: dict[str, tuple[str, list[list[str]]]] = {}
    passed_over: dict[str, str] = {}
    for inner, text in files.texts(".txt").items():
        _refuse_kitti(files.name_of(inner), text)
        rows = _rows(files.name_of(inner), text)
        if not rows:
            continue
        path = PurePosixPath(inner)
        sequence = str(path.parent.parent if path.parent.name in ("gt", "det") else path.parent)
        if path.name not in ("gt.txt", "det.txt"):
            sequence = str(PurePosixPath(sequence) / path.stem)
        if sequence in found:
            other = found[sequence][0]
            if {PurePosixPath(other).name, path.name} != {"gt.txt", "det.txt"}:
                refuse(files.name, f"has two descriptions of one sequence, {other} and {inner}")
            passed_over[sequence] = "det.txt"
            if path.name == "det.txt":
                continue
        found[sequence] = inner, rows
    about = _about(files)
    names = unique_names([_name(key, about, files.name) for key in found])
    out = []
    for name, (key, (inner, rows)) in zip(names, found.items(), strict=True):
        stated = about.get(key) or (
            next(iter(about.values())) if len(about) == len(found) == 1 else {}
        )
        size = _size(stated)
        out.append(Source(
            name, partial(_read, files, inner, rows, stated, passed_over.get(key, ""), asked), name,
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


def _rows(name: str, text: str) -> list[list[str]]:
    """Rows of 6 to 10 numbers between commas; none of a text of another kind."""
    rows = []
    values = 0
    for line in text.splitlines():
        if not line.strip():
            continue
        words = [w.strip() for w in line.split(",")]
        if not 6 <= len(words) <= 10 or not words[0].replace(".", "", 1).isdecimal():
            return []
        values += len(words)
        if values > MAX_VALUES:
            refuse(
                name, f"holds more than {MAX_VALUES} values", "Give the frames of this clip only"
            )
        rows.append(words)
    return rows


def _refuse_kitti(name: str, text: str) -> None:
    words = next((line.split() for line in text.splitlines() if line.strip()), [])
    if len(words) >= 15 and words[2].lower() in _KITTI and words[0].isdecimal():
        raise TracksError(
            f"{name} is a text of KITTI tracking, which is not read", "Convert it to MOT or COCO"
        )
    if len(words) >= 15 and words[0].lower() in _KITTI:
        raise TracksError(
            f"{name} is a text of KITTI's object detection, which is not read",
            "Convert it to YOLO or COCO",
        )
    if len(words) == 6 and all(w.isdecimal() for w in words[:5]) and not words[5][0].isdecimal():
        raise TracksError(
            f"{name} is a text of MOTS, whose masks are not read", "Convert it to PNG masks or COCO"
        )


def _size(stated: Mapping[str, str]) -> tuple[int, int] | None:
    if "imwidth" not in stated or "imheight" not in stated:
        return None
    width = whole(stated["imwidth"], "imWidth in seqinfo.ini", 1, MAX_SIDE)
    return width, whole(stated["imheight"], "imHeight in seqinfo.ini", 1, MAX_SIDE)


def _length(stated: Mapping[str, str]) -> int | None:
    length = stated.get("seqlength")
    return None if length is None else whole(length, "seqLength in seqinfo.ini", 1, MAX_FRAME)


def _read(
    files: Files, inner: str, rows: Sequence[Sequence[str]], stated: Mapping[str, str],
    passed_over: str, asked: Asked,
) -> TrackFile:  # fmt: skip
    name = files.name_of(inner)
    size = _size(stated) or (asked.clip.full_size if asked.clip is not None else None)
    if size is None:
        refuse(name, "does not state the size of its frames", "Give its seqinfo.ini too")
    width, height = size
    is_truth = PurePosixPath(inner).name == "gt.txt"
    found = PictureShapes(name)
    ignored = 0
    for i, words in enumerate(rows, 1):
        what = f"line {i} of {clean_label(inner)}"
        at = float(whole(words[0], f"the frame in {what}", 1))
        key = whole(words[1], f"the id in {what}", -1, 2**31)
        left, top, w, h = (number(v, f"the box in {what}") for v in words[2:6])
        found.frames.add(at)
        kind = _class(words, what) if is_truth else ""
        score: Any = 1.0
        if len(words) > 6:
            score = number(words[6], f"the confidence in {what}")
            if is_truth and score == 0:
                ignored += 1
                continue
            score = min(max(score, 0.0), 1.0)
        corners = (left - 1, top - 1, left - 1 + w, top - 1 + h)
        shape = Shape(at, box_of(corners, width, height, f"the box in {what}"), place=what)
        found.add(None if key == -1 else key, kind or "object", score, shape)
    notes = []
    if ignored:
        notes.append(f"{name}: {count(ignored, 'row')} to ignore were left out")
    if passed_over:
        notes.append(f"{files.name}: its gt.txt was read, its {passed_over} was not")
    rate = stated.get("framerate")
    fps = None if rate is None else number(rate, "frameRate in seqinfo.ini", 0.01, 1000)
    return TrackFile(
        name, files.sha256, TITLE, np.array(sorted(found.frames), np.float64), found.objects(),
        fps=_rate(fps, asked), first=1.0, size=size, notes=tuple(notes),
    )  # fmt: skip


def _rate(fps: float | None, asked: Asked) -> float | None:
    """The stated rate, unless it is the clip's: its frames are counted then, which is exact."""
    clip = asked.clip
    if fps is None or clip is None or clip.fps is None or abs(clip.fps / fps - 1) > 0.01:
        return fps
    return None


def _class(words: Sequence[str], what: str) -> str:
    if len(words) < 8 or words[7] in ("", "-1"):
        return ""
    kind = whole(words[7], f"the class in {what}", 0, 1000)
    return _CLASSES[kind] if 0 < kind < len(_CLASSES) else f"class {kind}"
