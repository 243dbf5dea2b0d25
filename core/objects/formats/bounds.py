"""The border to files of tracks: bytes, archives, JSON, XML and YAML of bounded size, numbers.

A file is untrusted: its size is looked at before it is read, what it holds is counted before it is
parsed, nothing that it names is opened, and every number is checked.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.annotations import Shape, clean_label
from macd_studio.core.types import Floats
from macd_studio.core.validation import shown

MAX_BYTES = 64 * 2**20
"""Of a file, of what a zip archive unpacks to, and of all files of a folder that are read."""
MAX_VALUES, MAX_MEMBERS = 4_000_000, 20_000
MAX_POINTS = 20_000
"""Of one polygon. What all polygons of a file may hold is bounded by its values and bytes."""
MAX_SIDE, MAX_FRAME, MAX_DIGITS = 4096, 10_000_000, 50
MAX_YAML = 20_000
"""Values of a data set's YAML, whose parser takes its time for each."""
MAX_DEPTH = 50
"""Of elements of XML and of values of YAML inside each other."""
OTHER = "Export it as COCO, CVAT for video, Label Studio, MOT, YOLO, PNG masks or MACD tracks"
FEWER = "Give those of this clip"
AGAIN = "Export it again"
DOCUMENTS, TEXTS, PICTURES = (
    (".json", ".xml"),
    (".txt", ".csv", ".tsv", ".names", ".yaml", ".yml", ".ini"),
    (".png",),
)
READ = (*DOCUMENTS, *TEXTS, *PICTURES)
"""Endings of the files of an archive or folder that are read; all others are passed over."""


def refuse(name: str, what: str, remedy: str = OTHER) -> NoReturn:
    """Raises TracksError: a file, and what it does that it should not."""
    raise TracksError(f"{name} {what}", remedy)


class Files:
    """The files of an archive or folder, or one file, by their path; no more than may be held.

    name: of the file or folder, as messages call it. sha256: of the file, or of all files of a
    folder with their paths. is_alone: whether it is one file, neither archive nor folder.
    """

    def __init__(
        self, name: str, contents: dict[str, bytes], sha256: str, is_alone: bool = False
    ) -> None:
        self.name, self.contents, self.sha256, self.is_alone = name, contents, sha256, is_alone

    @classmethod
    def at(cls, path: Path, most: int = MAX_BYTES) -> Files:
        """What lies at a path. most: bytes of a file that is read. Raises TracksError, OSError."""
        name = file_name(path)
        if path.is_dir():
            contents = _folder_files(name, path)
            sha256 = hashlib.sha256()
            for inner in sorted(contents):
                sha256.update(inner.encode("utf-8", "replace") + b"\0" + contents[inner])
            return cls(name, contents, sha256.hexdigest())
        if not path.is_file():
            raise TracksError(
                f"there is no file {shown(str(path), 200)}", "Give a file of tracks, or a folder"
            )
        if (size := path.stat().st_size) > most:
            raise TracksError(
                f"{name} has {size / 1e6:.0f} MB, more than {most / 1e6:.0f}",
                "Export the frames of this clip only",
            )
        content = path.read_bytes()
        packed = content.startswith(b"PK\3\4")
        contents = _unpacked(name, content) if packed else {path.name: content}
        return cls(name, contents, hashlib.sha256(content).hexdigest(), is_alone=not packed)

    def ending(self, *endings: str) -> dict[str, bytes]:
        """Those whose names end so, in the order of their paths."""
        return {
            inner: self.contents[inner]
            for inner in sorted(self.contents)
            if inner.lower().endswith(endings)
        }

    def texts(self, *endings: str) -> dict[str, str]:
        """Those files as text."""
        return {k: v.decode("utf-8-sig", "replace") for k, v in self.ending(*endings).items()}

    @cached_property
    def documents(self) -> dict[str, Any]:
        """Values of each JSON file. A file given by itself is JSON by its first letter."""
        found = self.ending(".json")
        if self.is_alone:
            found = {k: v for k, v in self.contents.items() if _start(v).startswith((b"{", b"["))}
        parsed: dict[str, Any] = {}
        for inner, content in found.items():
            parsed[inner] = parse_json(self.name_of(inner), content)
        return parsed

    @cached_property
    def markup(self) -> dict[str, bytes]:
        """The XML files. A file given by itself is XML by its first letter."""
        if self.is_alone:
            return {k: v for k, v in self.contents.items() if _start(v).startswith(b"<")}
        return self.ending(".xml")

    def name_of(self, inner: str) -> str:
        """What messages call one of the files."""
        return self.name if len(self.contents) == 1 else f"{clean_label(inner)} of {self.name}"


def _start(content: bytes) -> bytes:
    return content[:1000].lstrip(b"\xef\xbb\xbf \t\r\n")


def file_name(path: Path) -> str:
    """What a message calls a file."""
    return clean_label(path.name or path)


def _folder_files(name: str, path: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    left = MAX_BYTES
    for i, file in enumerate(sorted(path.rglob("*"))):
        if i >= MAX_MEMBERS:
            refuse(name, f"holds more than {MAX_MEMBERS} files", FEWER)
        if file.suffix.lower() not in READ or file.is_symlink() or not file.is_file():
            continue
        left -= file.stat().st_size
        if left < 0:
            refuse(name, f"holds more than {MAX_BYTES / 1e6:.0f} MB", FEWER)
        files[file.relative_to(path).as_posix()] = file.read_bytes()
    return files


def _unpacked(name: str, content: bytes) -> dict[str, bytes]:
    """The files of a zip archive by their path; no more is unpacked than may be held."""
    files: dict[str, bytes] = {}
    left = MAX_BYTES
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        if len(archive.infolist()) > MAX_MEMBERS:
            refuse(name, f"holds more than {MAX_MEMBERS} files", FEWER)
        for member in archive.infolist():
            inner = member.filename
            ending = PurePosixPath(inner).suffix.lower()
            if member.is_dir() or inner.startswith("__MACOSX") or ending not in READ:
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
            if inner in files:
                refuse(name, f"holds {shown(inner, 100)} twice", "Pack it again")
            files[inner] = part
    except (zipfile.BadZipFile, RuntimeError, EOFError, NotImplementedError, ValueError) as error:
        raise TracksError(f"{name} is a damaged or locked zip archive", "Pack it again") from error
    except (TracksError, MemoryError):
        raise
    except Exception as error:  # zlib.error, and whatever a damaged directory leads to
        raise TracksError(f"{name} is a damaged zip archive", "Pack it again") from error
    return files


def parse_json(name: str, content: bytes) -> Any:
    """The values of JSON, which are counted first."""
    if sum(content.count(mark) for mark in (b",", b"[", b"{")) > MAX_VALUES:
        refuse(name, f"holds more than {MAX_VALUES} values", "Export the frames of this clip only")
    try:
        return json.loads(content.decode("utf-8-sig"))
    except ValueError as error:  # not UTF-8, not JSON, or a number of thousands of digits
        raise TracksError(f"{name} is not whole JSON", AGAIN) from error


def parse_yaml(text: str) -> Any:
    """The values of YAML; None where it is none, uses aliases, is nested deeply or very large."""
    import yaml  # type: ignore[import-untyped]

    depth = values = 0
    try:
        for event in yaml.parse(text[:1_000_000], Loader=yaml.SafeLoader):
            values += 1
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            # an alias stands for any number of values
            if isinstance(event, yaml.AliasEvent) or depth > MAX_DEPTH or values > MAX_YAML:
                return None
        return yaml.safe_load(text[:1_000_000])
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


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
        if count > MAX_VALUES // 4 or depth > MAX_DEPTH:
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
        raise TracksError(f"{name} is not whole XML", AGAIN) from error


_PLAIN = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def number(value: Any, what: str, low: float = -1e6, high: float = 1e6) -> float:
    """A finite number in [low, high], from text too."""
    if isinstance(value, str):
        plain = value.strip()
        value = float(plain) if len(plain) <= MAX_DIGITS and _PLAIN.fullmatch(plain) else value
    good = isinstance(value, int | float) and not isinstance(value, bool)
    with suppress(OverflowError):  # of a whole number that no float holds
        if good and math.isfinite(value) and low <= value <= high:
            return float(value)
    raise TracksError(f"{what} is {shown(value)}, not a number from {low:g} to {high:g}", AGAIN)


def whole(value: Any, what: str, low: int = 0, high: int = MAX_FRAME) -> int:
    """A whole number in [low, high], from text too."""
    read = number(value, what, low, high)
    if read != int(read):
        raise TracksError(f"{what} is {shown(value)}, not a whole number", AGAIN)
    return int(read)


def sides(width: Any, height: Any, what: str) -> tuple[int, int]:
    """A width and a height in pixels. what: names one of them; {} stands for which."""
    both = (width, what.format("width")), (height, what.format("height"))
    (w, h) = (whole(value, named, 1, MAX_SIDE) for value, named in both)
    return w, h


def box_of(corners: Sequence[float], width: float, height: float, what: str) -> Floats:
    """x0 y0 x1 y1 in shares of a frame, cut at its edge."""
    x0, y0, x1, y1 = corners
    if x1 < x0 or y1 < y0:
        raise TracksError(
            f"{what} is {x1 - x0:g} wide and {y1 - y0:g} high, and neither can be negative", AGAIN
        )
    return np.array([x0 / width, y0 / height, x1 / width, y1 / height], np.float32).clip(0, 1)


def points_of(flat: Sequence[Any], what: str) -> NDArray[np.float64]:
    """(N, 2) of numbers one after the other."""
    if len(flat) < 6 or len(flat) % 2:
        raise TracksError(
            f"{what} has {len(flat)} coordinates, and a polygon takes six or more, in pairs", AGAIN
        )
    if len(flat) > 2 * MAX_POINTS:
        raise TracksError(
            f"{what} has {len(flat) // 2} points, more than {MAX_POINTS}", "Simplify its polygons"
        )
    return np.array([number(v, what) for v in flat], np.float64).reshape(-1, 2)


def polygon(at: float, ring: NDArray[np.float64], size: tuple[int, int], place: str = "") -> Shape:
    """One polygon in pixels of (h, w) = size."""
    scale = np.array([size[1], size[0]], np.float64)
    ends = np.concatenate([ring.min(axis=0) / scale, ring.max(axis=0) / scale])
    return Shape(at, ends.astype(np.float32).clip(0, 1), (ring,), size, place=place)


def turned(ring: NDArray[np.float64], degrees: Any, what: str) -> NDArray[np.float64]:
    """Points (N, 2), in pixels, turned about 0 0, clockwise as one sees them."""
    turn = math.radians(number(degrees or 0, f"the rotation of {what}", -1e4, 1e4))
    rotation = np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
    return np.asarray(ring @ rotation, np.float64)


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


def is_list_of(value: Any, *keys: str) -> bool:
    """Whether a value is a list of one or more objects that all have these keys."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(row, dict) and set(keys) <= row.keys() for row in value)


def one_size(name: str, sizes: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    """The (w, h) that all pictures of one video have; None where none is stated."""
    different = sorted(set(sizes))
    if len(different) > 1:
        first, second = (f"{w}×{h}" for w, h in different[:2])
        refuse(name, f"has pictures of {first} and {second} pixels", "Give the file of one clip")
    return different[0] if different else None
