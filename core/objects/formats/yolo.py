"""YOLO's texts: a line an object, a file a frame; boxes, polygons, turned boxes or key points.

The lines name no columns. What they are is read off all lines of all files together, see `columns`.
"""

from __future__ import annotations

import re
from collections import Counter
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
    MAX_POINTS,
    MAX_VALUES,
    Files,
    box_of,
    number,
    parse_yaml,
    refuse,
    whole,
)
from macd_studio.core.objects.formats.columns import Layout, Row, choose_layout
from macd_studio.core.objects.formats.gather import MAX_SHAPES, PictureShapes
from macd_studio.core.objects.formats.names import numbered
from macd_studio.core.objects.formats.sheet import Sheet, archive, outline_in
from macd_studio.core.objects.formats.source import Asked, Source, unique_names
from macd_studio.core.objects.outlines import placed
from macd_studio.core.text.words import writable
from macd_studio.core.types import Floats, Outline

NAME, TITLE, ENDING = "yolo", "YOLO", ".zip"
_NO_LABELS = re.compile(
    r"(readme|license|notice|classes|labels|labelmap|train|val|valid|test|requirements)(\..*)?\.?txt$"
    r"|readme.*|.*requirements\.txt",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[-+0-9.eE]+")


@dataclass(frozen=True)
class _About:
    """What a data set says of its labels. keypoints: (K, 2 or 3) of a pose."""

    labels: Mapping[int, str]
    keypoints: tuple[int, int] | None = None
    stated: bool = False


def sources(files: Files, asked: Asked) -> list[Source]:
    """The videos of the texts."""
    texts = label_texts(files)
    if not texts:
        return []
    about = _about(files)
    _refuse_many_in_one(files, texts)
    videos = numbered(files.name, list(texts))
    names = unique_names([video or files.name for video in videos])
    return [
        Source(
            name,
            partial(_read, files, {f: (n, texts[n]) for n, f in frames.items()}, about, asked),
            video, len(frames),
        )
        for name, (video, frames) in zip(names, videos.items(), strict=True)
    ]  # fmt: skip


def _refuse_many_in_one(files: Files, texts: Mapping[str, str]) -> None:
    """Refuses one text in which each object is on many rows, as ultralytics writes it where a
    program of one's own gives it frame by frame."""
    if len(texts) > 1:
        return
    ((inner, text),) = texts.items()
    last = [line.split()[-1] for line in text.splitlines() if len(line.split()) > 5]
    counts = Counter(last)
    if last and all(word.isdecimal() for word in counts) and min(counts.values()) > 2:
        refuse(
            files.name if len(files.contents) > 1 else clean_label(inner),
            f"holds object {last[0][:12]} {counts[last[0]]} times in one text: the rows of many"
            " frames, without their numbers",
            "Write a text for each frame, as model.track(VIDEO, save_txt=True) does",
        )


def label_texts(files: Files) -> dict[str, str]:
    """The texts that hold rows of numbers, by path; empty ones stand for frames without objects."""
    found = {}
    some = False
    for inner, text in files.texts(".txt").items():
        if _NO_LABELS.fullmatch(PurePosixPath(inner).name):
            continue
        first = next((line for line in text.splitlines() if line.strip()), "")
        words = first.split()
        if words and (len(words) < 5 or not all(map(_NUMBER.fullmatch, words[1:]))):
            continue
        some |= bool(first)
        found[inner] = text
    return found if some else {}


def _about(files: Files) -> _About:
    for text in files.texts(".yaml", ".yml").values():
        named = parse_yaml(text)
        if not isinstance(named, dict) or "names" not in named:
            continue
        names = named["names"]
        if isinstance(names, list):
            names = dict(enumerate(names))
        if not isinstance(names, dict):
            continue
        labels = {
            int(k): clean_label(v)
            for k, v in names.items()
            if isinstance(k, int) or (isinstance(k, str) and k.isdecimal() and len(k) < 9)
        }
        return _About(labels, _keypoints(named.get("kpt_shape")), True)
    for inner, text in files.texts(".txt", ".names").items():
        plain = PurePosixPath(inner).name
        if plain == "classes.txt" or plain.endswith(".names"):
            lines = text[:1_000_000].splitlines()
            return _About({i: clean_label(line) for i, line in enumerate(lines) if line.strip()})
    return _About({})


def _keypoints(stated: Any) -> tuple[int, int] | None:
    if not isinstance(stated, list) or len(stated) != 2:
        return None
    count, each = stated
    good = isinstance(count, int) and 1 <= count <= 1000 and each in (2, 3)
    return (count, each) if good else None


def _rows(name: str, texts: Mapping[int, tuple[str, str]]) -> list[Row]:
    rows: list[Row] = []
    values = 0
    for frame in sorted(texts):
        inner, text = texts[frame]
        for i, line in enumerate(text.splitlines(), 1):
            if not (words := line.split()):
                continue
            values += len(words)
            what = f"line {i} of {clean_label(inner)}"
            if values > MAX_VALUES:
                refuse(name, f"holds more than {MAX_VALUES} values", "Give the frames of this clip")
            if len(rows) >= MAX_SHAPES:
                refuse(
                    name, f"holds more than {MAX_SHAPES} shapes", "Export this clip's objects only"
                )
            if len(words) > 2 * MAX_POINTS:
                raise TracksError(f"{what} has {len(words)} numbers", AGAIN)
            kind = whole(words[0], f"the class in {what}", 0, 100_000)
            numbers = np.array([number(w, f"a number in {what}") for w in words[1:]])
            rows.append(Row(float(frame), kind, numbers, what, tuple(map(_decimals, words[1:]))))
    return rows


def _decimals(word: str) -> int:
    """Digits behind the point; −1 of a whole number, −2 where an exponent hides them."""
    if "e" in word.lower():
        return -2
    return len(word) - word.index(".") - 1 if "." in word else -1


def _read(
    files: Files, texts: Mapping[int, tuple[str, str]], about: _About, asked: Asked
) -> TrackFile:
    name = files.name
    rows = _rows(name, texts)
    layout = choose_layout(name, rows, about.keypoints, about.stated, asked.options.file_columns)
    found = PictureShapes(name)
    found.frames |= {float(frame) for frame in texts}
    for row in rows:
        if about.labels and row.kind not in about.labels:
            refuse(name, f"has {row.what} of class {row.kind}, which its names do not list")
        label = about.labels.get(row.kind, f"class {row.kind}")
        shape, score, track = shape_of(layout, row)
        found.add(None if track is None else (label, track), label, score, shape)
    notes: list[str] = []
    if not layout.usual:
        notes.append(f"{name}: its columns were read as {layout.columns}")
    from_one = _of_a_video(texts)
    if from_one:
        notes.append(f"{name}: its frames count from 1, as ultralytics counts those of a video")
    return TrackFile(
        name, files.sha256, TITLE, found.described(), found.objects(), notes=tuple(notes),
        first=float(from_one), counted="stated" if from_one else "open",
    )  # fmt: skip


def _of_a_video(texts: Mapping[int, tuple[str, str]]) -> bool:
    """Whether texts are named as ultralytics names those of a video: its name, and the frame from 1
    without leading zeros."""
    stems = [(frame, PurePosixPath(inner).stem) for frame, (inner, _) in texts.items()]
    before = {stem.rpartition("_")[0] for _, stem in stems}
    plain = all(stem.rpartition("_")[2] == str(frame) for frame, stem in stems)
    return plain and len(before) == 1 and before != {""} and min(texts) >= 1 and max(texts) > 9


def shape_of(layout: Layout, row: Row) -> tuple[Shape, float, int | None]:
    """A row's shape in shares of the frame, its confidence, and its object where it says."""
    cells = layout.split(row)
    score = 1.0 if cells.confidence is None else cells.confidence
    shape_values = cells.box if cells.ring is None else cells.ring
    if shape_values is None or np.abs(shape_values).max() > 10:
        raise TracksError(f"{row.what} is not in shares of the frame", AGAIN)
    if cells.box is not None:
        x, y, w, h = (float(v) for v in cells.box)
        corners = (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
        box = box_of(corners, 1, 1, f"the box in {row.what}")
        return Shape(row.frame, box, place=row.what), score, cells.track
    ring = np.asarray(cells.ring, np.float64).reshape(-1, 2)
    ends = np.concatenate([ring.min(axis=0), ring.max(axis=0)]).astype(np.float32)
    shape = Shape(row.frame, ends.clip(0, 1), (ring,), place=row.what)
    return shape, score, cells.track


def write(sheet: Sheet) -> bytes:
    """A zip of a text a frame: boxes with their track, or polygons, whose parts are joined."""
    labels = sorted({one.label for one in sheet.objects})
    texts: dict[int, list[str]] = {number: [] for number in sheet.numbers}
    for _, number_, one, drawn in sheet.drawn():
        kind = labels.index(one.label)
        found = outline_in(drawn)
        if found is None:
            x0, y0, x1, y1 = (float(v) for v in drawn.box)
            sides = (x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0
            words = [f"{v:.8f}" for v in sides] + [f"{one.confidence:.8f}", str(one.id)]
        else:
            words = [f"{v:.8f}" for ring in _joined(*found) for v in ring]
            words += [f"{one.confidence:.8f}", str(one.id)]
        texts[number_].append(" ".join([str(kind), *words]))
    names = "\n".join("".join(c if c >= " " else " " for c in writable(z)) for z in labels)
    files = {"classes.txt": names.encode() + b"\n"}
    for number_, lines in texts.items():
        files[f"labels/frame_{number_:06d}.txt"] = "".join(f"{z}\n" for z in lines).encode()
    return archive(files)


def _joined(box: Floats, outline: Outline) -> list[tuple[float, float]]:
    """Rings as one line, in shares of the frame: there and back again between them."""
    rings: Sequence[list[Any]] = [ring.tolist() for ring in placed(outline, box, (1, 1))]
    line: list[tuple[float, float]] = []
    for ring in rings:
        line += [tuple(p) for p in (*ring, ring[0])] if len(rings) > 1 else map(tuple, ring)
    starts = [tuple(ring[0]) for ring in rings]
    return line + starts[-2::-1]
