"""The border to files of tracks: bytes, archives, JSON and XML of bounded size, checked numbers.

A file is untrusted: its size is looked at before it is read, what it holds is counted before it is
taken apart, nothing that it names is opened, and every number is checked.
"""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.annotations import Annotated, Shape, clean_label
from macd_studio.core.types import Floats
from macd_studio.core.validation import shown

MAX_BYTES = 64 * 2**20
"""Of a file, of what a zip archive unpacks to, and of all files of a folder that are read."""
MAX_VALUES, MAX_SHAPES, MAX_OBJECTS, MAX_FILES = 4_000_000, 200_000, 4000, 20_000
MAX_SIDE, MAX_FRAME = 4096, 10_000_000
OTHER = "Export it as COCO, CVAT for video, Label Studio, YOLO, PNG masks or MACD tracks"
MAX_IN_FRAME = 200
LEAST_OVERLAP = 0.05
"""Of two boxes of one label on following pictures, to be of one object."""
FEWER = "Give those of this clip"
TEXTS, PICTURES = (".txt",), (".png",)
OWN = "macd-tracks"
"""What our own files say they are."""


def refuse(name: str, what: str, remedy: str = OTHER) -> NoReturn:
    """Raises TracksError: a file, and what it does that it should not."""
    raise TracksError(f"{name} {what}", remedy)


def frame_number(name: str) -> int | None:
    """The last number in the name of a file.

    >>> frame_number("video_2/frame_000012.png"), frame_number("mask.png")
    (12, None)
    """
    digits = re.findall(r"[0-9]+", PurePosixPath(name).stem)
    return int(digits[-1][-12:]) if digits else None


def file_name(path: Path) -> str:
    """What a message calls a file."""
    return clean_label(path.name or path)


def folder_files(path: Path) -> dict[str, bytes]:
    """The texts and pictures of a folder by their path inside it."""
    files: dict[str, bytes] = {}
    left = MAX_BYTES
    for i, file in enumerate(sorted(path.rglob("*"))):
        if i >= MAX_FILES:
            refuse(file_name(path), f"holds more than {MAX_FILES} files", FEWER)
        known = (*TEXTS, *PICTURES, ".names", ".yaml", ".yml")
        if file.suffix.lower() not in known or file.is_symlink() or not file.is_file():
            continue
        left -= file.stat().st_size
        if left < 0:
            refuse(
                file_name(path),
                f"holds more than {MAX_BYTES / 1e6:.0f} MB",
                FEWER,
            )
        files[file.relative_to(path).as_posix()] = file.read_bytes()
    return files


def unpacked(name: str, content: bytes) -> dict[str, bytes]:
    """The files of a zip archive by their path; no more is unpacked than may be held."""
    files: dict[str, bytes] = {}
    left = MAX_BYTES
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        if len(archive.infolist()) > MAX_FILES:
            refuse(name, f"holds more than {MAX_FILES} files", FEWER)
        for member in archive.infolist():
            if member.is_dir() or member.filename.startswith("__MACOSX"):
                continue
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                refuse(name, "is packed in a way that is not read", "Pack it as a plain zip")
            with archive.open(member) as opened:
                part = opened.read(left + 1)
            left -= len(part)
            if left < 0:
                refuse(
                    name, f"unpacks to more than {MAX_BYTES / 1e6:.0f} MB",
                    "Give the frames of this clip only",
                )  # fmt: skip
            files[member.filename] = part
    except (zipfile.BadZipFile, RuntimeError, EOFError, NotImplementedError, ValueError) as error:
        raise TracksError(f"{name} is a damaged or locked zip archive", "Pack it again") from error
    except Exception as error:  # zlib.error, and whatever a damaged directory leads to
        if isinstance(error, TracksError):
            raise
        raise TracksError(f"{name} is a damaged zip archive", "Pack it again") from error
    return files


def parse_json(name: str, content: bytes) -> Any:
    """The values of JSON, which are counted first."""
    if sum(content.count(mark) for mark in (b",", b"[", b"{")) > MAX_VALUES:
        refuse(name, f"holds more than {MAX_VALUES} values", "Export the frames of this clip only")
    try:
        return json.loads(content.decode("utf-8-sig"))
    except ValueError as error:  # not UTF-8, not JSON, or a number of thousands of digits
        raise TracksError(f"{name} is not whole JSON", "Export it again") from error


def parse_xml(
    name: str,
    content: bytes,
    start: Callable[[str, dict[str, str]], None],
    end: Callable[[str, str], None],
) -> None:
    """Calls `start` with every element and its attributes, `end` with it and the text before.

    A document that declares entities or a type is refused: neither does an annotation tool write,
    and entities can unfold to any size.
    """
    parser = expat.ParserCreate()
    count, depth, text = 0, 0, ""

    def refuse_type(*_: object) -> None:
        refuse(name, "declares a document type or entities, which no annotation tool writes")

    def begin(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count, depth, text
        count, depth, text = count + 1, depth + 1, ""
        if count > MAX_VALUES // 4 or depth > 50:
            refuse(name, "holds more elements than a file of tracks can", "Export this clip only")
        start(tag, attributes)

    def finish(tag: str) -> None:
        nonlocal depth, text
        depth -= 1
        end(tag, text)
        text = ""

    def take(data: str) -> None:
        nonlocal text
        text = (text + data)[:1000]

    parser.StartDoctypeDeclHandler = refuse_type
    parser.EntityDeclHandler = refuse_type
    parser.StartElementHandler = begin
    parser.EndElementHandler = finish
    parser.CharacterDataHandler = take
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, ValueError, LookupError) as error:  # or an unknown encoding
        raise TracksError(f"{name} is not whole XML", "Export it again") from error


class ShapeCounter:
    """Counts shapes, so that none are taken beyond MAX_SHAPES."""

    def __init__(self, name: str) -> None:
        self.name, self.n = name, 0

    def one_more(self) -> None:
        """One shape; raises TracksError where it is one too many."""
        self.n += 1
        if self.n > MAX_SHAPES:
            refuse(
                self.name, f"holds more than {MAX_SHAPES} shapes", "Export this clip's objects only"
            )


def number(value: Any, what: str, low: float = -1e6, high: float = 1e6) -> float:
    """A finite number in [low, high], from text too."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = float(value[:50])
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not math.isfinite(value) or not low <= value <= high:
        raise TracksError(
            f"{what} is {shown(value)}, not a number from {low:g} to {high:g}", "Export it again"
        )
    return float(value)


def whole(value: Any, what: str, low: int = 0, high: int = MAX_FRAME) -> int:
    """A whole number in [low, high], from text too."""
    read = number(value, what, low, high)
    if read != int(read):
        raise TracksError(f"{what} is {shown(value)}, not a whole number", "Export it again")
    return int(read)


def box_of(corners: Sequence[float], width: float, height: float, what: str) -> Floats:
    """x0 y0 x1 y1 in shares of a frame, cut at its edge."""
    x0, y0, x1, y1 = corners
    if x1 < x0 or y1 < y0:
        raise TracksError(
            f"{what} is {x1 - x0:g} wide and {y1 - y0:g} high, and neither can be negative",
            "Export it again",
        )
    return np.array([x0 / width, y0 / height, x1 / width, y1 / height], np.float32).clip(0, 1)


def points_of(flat: Sequence[Any], what: str) -> NDArray[np.float64]:
    """(N, 2) of numbers one after the other."""
    if len(flat) < 6 or len(flat) % 2:
        raise TracksError(
            f"{what} has {len(flat)} coordinates, and a polygon takes six or more, in pairs",
            "Export it again",
        )
    return np.array([number(v, what) for v in flat], np.float64).reshape(-1, 2)


def polygon(at: float, ring: NDArray[np.float64], size: tuple[int, int]) -> Shape:
    """One polygon in pixels of (h, w) = size."""
    scale = np.array([size[1], size[0]], np.float64)
    ends = np.concatenate([ring.min(axis=0) / scale, ring.max(axis=0) / scale])
    return Shape(at, ends.astype(np.float32).clip(0, 1), (ring,), size)


def as_object(value: Any, what: str) -> dict[str, Any]:
    """The value, which must be an object."""
    if not isinstance(value, dict):
        raise TracksError(f"{what} is {shown(value)}, not an object", OTHER)
    return value


def as_list(value: Any, what: str) -> list[Any]:
    """The value, which must be a list."""
    if not isinstance(value, list):
        raise TracksError(f"{what} is {shown(value)}, not a list", OTHER)
    return value


def objects_of(
    name: str, found: Mapping[Any, tuple[str, float, list[Shape]]]
) -> tuple[Annotated, ...]:
    """Objects in the order in which they were found; their shapes in the order of frames."""
    if len(found) > MAX_OBJECTS:
        refuse(name, f"holds {len(found)} objects, more than {MAX_OBJECTS}", "Export fewer of them")
    objects = []
    for label, confidence, shapes in found.values():
        by_frame = {shape.at: shape for shape in shapes}
        ordered = tuple(by_frame[at] for at in sorted(by_frame))
        objects.append(Annotated(label, ordered, confidence))
    return tuple(objects)


def linked(
    name: str, pictures: Mapping[float, list[tuple[str, float, Shape]]]
) -> tuple[Annotated, ...]:
    """Objects from pictures that do not say which shapes are one: by label and overlap.

    A label that no picture has twice is one object, however far it moves.
    """
    alone = {label for rows in pictures.values() for label, _, _ in rows}
    for rows in pictures.values():
        counts = Counter(label for label, _, _ in rows)
        alone -= {label for label, n in counts.items() if n > 1}
    tracks: list[tuple[str, list[float], list[Shape]]] = []
    active: dict[int, Floats] = {}
    for at in sorted(pictures):
        rows = pictures[at]
        if len(rows) > MAX_IN_FRAME:
            refuse(name, f"holds {len(rows)} objects on one frame, more than {MAX_IN_FRAME}", FEWER)
        boxes = np.array([row[2].box for row in rows], np.float32)
        names, taken = list(active), dict[int, int]()
        if names:
            overlap = overlaps(np.array([active[k] for k in names]), boxes)
            same = np.array([[tracks[k][0] == row[0] for row in rows] for k in names])
            overlap[~same] = 0
            overlap[same & np.array([row[0] in alone for row in rows])] = 1
            while overlap.max() > LEAST_OVERLAP:
                row, column = divmod(int(overlap.argmax()), overlap.shape[1])
                taken[column] = names[row]
                overlap[row], overlap[:, column] = 0, 0
        for j, (label, score, shape) in enumerate(rows):
            k = taken.get(j, len(tracks))
            if k == len(tracks):
                tracks.append((label, [], []))
            tracks[k][1].append(score)
            tracks[k][2].append(shape)
            active.pop(k, None)
            active[k] = boxes[j]
        for old in list(active)[:-MAX_IN_FRAME]:
            del active[old]
    return objects_of(
        name, {i: (label, float(np.mean(s)), z) for i, (label, s, z) in enumerate(tracks)}
    )


def overlaps(a: Floats, b: Floats) -> Floats:
    """(N, M) intersection over union of boxes (N, 4) and (M, 4)."""
    sides = np.minimum(a[:, None, 2:], b[None, :, 2:]) - np.maximum(a[:, None, :2], b[None, :, :2])
    shared = sides.clip(0).prod(axis=2)
    area = [(z[:, 2:] - z[:, :2]).prod(axis=1) for z in (a, b)]
    union = area[0][:, None] + area[1][None] - shared
    return np.asarray(shared / np.maximum(union, 1e-12), np.float32)


@dataclass
class PictureShapes:
    """Shapes of single pictures: with the object that each is of, or else to be linked."""

    name: str

    def __post_init__(self) -> None:
        self.named: dict[Any, tuple[str, float, list[Shape]]] = {}
        self.loose: dict[float, list[tuple[str, float, Shape]]] = defaultdict(list)
        self.frames: set[float] = set()
        self._counter = ShapeCounter(self.name)

    def add(self, key: Any, label: str, score: float, shape: Shape) -> None:
        """One shape. key: of its object; None where the file does not say."""
        self._counter.one_more()
        self.frames.add(shape.at)
        if key is None:
            self.loose[shape.at].append((label, score, shape))
        else:
            self.named.setdefault(key, (label, score, []))[2].append(shape)

    def objects(self) -> tuple[Annotated, ...]:
        """All objects."""
        return (*objects_of(self.name, self.named), *linked(self.name, self.loose))

    def described(self) -> NDArray[np.float64]:
        """The frames that the file describes, in order."""
        return np.array(sorted(self.frames), np.float64)
