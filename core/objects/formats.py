"""Files of tracks and masks: COCO, CVAT for video, Label Studio, YOLO text, masks as PNG, our own.

Masks are made of run lengths, polygons and pictures only for the frames that a clip needs.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.annotations import Annotated, Runs, Shape, TrackFile, clean_label
from macd_studio.core.objects.files import (
    MAX_BYTES,
    MAX_FRAME,
    MAX_SIDE,
    OTHER,
    OWN,
    PICTURES,
    PictureShapes,
    ShapeCounter,
    box_of,
    file_name,
    folder_files,
    frame_number,
    number,
    objects_of,
    parse_json,
    parse_xml,
    points_of,
    polygon,
    refuse,
    unpacked,
    whole,
)
from macd_studio.core.objects.json_formats import of_coco, of_label_studio, of_own, video_regions
from macd_studio.core.objects.outlines import Mask, mask_of_runs
from macd_studio.core.validation import shown


def read_track_file(path: str | Path, most: int = MAX_BYTES) -> TrackFile:
    """The objects that a file, a zip archive or a folder describes.

    most: bytes of a file that is read.

    Raises TracksError, in one sentence, for everything that is none of the known formats, is
    damaged, or holds more than a file of tracks can.
    """
    path = Path(path)
    try:
        return _read(path, most)
    except OSError as error:
        raise TracksError(
            f"{file_name(path)} cannot be read ({error.strerror or type(error).__name__})",
            "Give a file of tracks or masks, or a folder of them",
        ) from error
    except RecursionError:
        raise TracksError(f"{file_name(path)} is nested too deeply", OTHER) from None


def _read(path: Path, most: int) -> TrackFile:
    if path.is_dir():
        return _of_pictures(file_name(path), folder_files(path))
    if not path.is_file():
        raise TracksError(
            f"there is no file {shown(str(path), 200)}", "Give a file of tracks, or a folder"
        )
    if (size := path.stat().st_size) > most:
        raise TracksError(
            f"{file_name(path)} has {size / 1e6:.0f} MB, more than {most / 1e6:.0f}",
            "Export the frames of this clip only",
        )
    content = path.read_bytes()
    start = content[:1000].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"PK\3\4"):
        return _of_archive(file_name(path), content)
    if start.startswith(b"<"):
        return _of_cvat(file_name(path), content)
    if start.startswith((b"{", b"[")):
        return _of_json(file_name(path), content)
    if path.suffix.lower() in PICTURES:
        return _of_pictures(file_name(path), {path.name: content})
    refuse(file_name(path), "is none of the formats that are read")


def _of_archive(name: str, content: bytes) -> TrackFile:
    files = unpacked(name, content)
    for inner, part in sorted(files.items()):
        suffix = PurePosixPath(inner).suffix.lower()
        if suffix == ".xml":
            return _of_cvat(name, part)
        if suffix == ".json":
            return _of_json(name, part)
    return _of_pictures(name, files, content)


def _of_pictures(name: str, files: Mapping[str, bytes], content: bytes | None = None) -> TrackFile:
    """A folder of PNG masks or of YOLO's texts."""
    sha256 = hashlib.sha256(content or b"")
    if content is None:
        for inner in sorted(files):
            sha256.update(inner.encode("utf-8", "replace") + b"\0" + files[inner])
    suffixes = {PurePosixPath(inner).suffix.lower() for inner in files}
    if ".png" in suffixes:
        return _of_masks(name, files, sha256.hexdigest())
    if ".txt" in suffixes:
        return _of_yolo(name, files, sha256.hexdigest())
    refuse(name, "holds neither PNG masks nor YOLO's texts")


def _of_json(name: str, content: bytes) -> TrackFile:
    data = parse_json(name, content)
    sha256 = hashlib.sha256(content).hexdigest()
    if isinstance(data, dict) and data.get("format") == OWN:
        return of_own(name, sha256, data)
    if isinstance(data, dict) and "images" in data and "annotations" in data:
        return of_coco(name, sha256, data)
    if tasks := video_regions(data):
        return of_label_studio(name, sha256, tasks)
    refuse(name, "is JSON, but neither of COCO nor of Label Studio's videos nor MACD tracks")


# ---- CVAT for video -----------------------------------------------------------------------------

_SHAPES = ("box", "polygon", "mask", "ellipse")
_OTHER_SHAPES = ("polyline", "points", "cuboid", "skeleton")


class _Cvat:
    """Takes the elements of a document of CVAT for video, one by one."""

    def __init__(self, name: str) -> None:
        self.name, self.counter = name, ShapeCounter(name)
        self.size: dict[str, int] = {}
        self.tracks: dict[Any, tuple[str, float, list[Shape]]] = {}
        self.current: list[Shape] | None = None
        self.frames: set[float] = set()
        self.in_size, self.left_out = False, 0
        self.pictures = PictureShapes(name)
        self.picture: float | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        if tag == "original_size":
            self.in_size = True
        elif tag == "image":
            for side in ("width", "height"):
                self.size[side] = whole(
                    attributes.get(side), f"the {side} of an image", 1, MAX_SIDE
                )
            named = frame_number(attributes.get("name", ""))
            stated = attributes.get("id") if named is None else named
            self.picture = float(whole(stated, "the number of an image"))
            self.pictures.frames.add(self.picture)
        elif self.picture is not None and tag in _SHAPES:
            label = clean_label(attributes.get("label", ""))
            self.pictures.add(None, label, 1.0, self._shape(tag, attributes, self.picture))
        elif tag == "track":
            label = clean_label(attributes.get("label", ""))
            self.current = []
            self.tracks[len(self.tracks)] = label, 1.0, self.current
        elif tag in _OTHER_SHAPES:
            self.left_out += 1
        elif self.current is not None and tag in _SHAPES:
            self.counter.one_more()
            at = float(whole(attributes.get("frame"), f"the frame of a {tag}"))
            self.frames.add(at)
            outside = attributes.get("outside") == "1"
            self.current.append(Shape(at) if outside else self._shape(tag, attributes, at))

    def end(self, tag: str, text: str) -> None:
        """An element ends, after this text."""
        if tag == "original_size":
            self.in_size = False
        elif tag in ("track", "image"):
            self.current = self.picture = None
        elif self.in_size and tag in ("width", "height"):
            self.size[tag] = whole(text.strip(), f"the {tag} in original_size", 1, MAX_SIDE)

    def _shape(self, tag: str, attributes: Mapping[str, str], at: float) -> Shape:
        if len(self.size) < 2:
            refuse(self.name, "does not state the original_size of its frames")
        width, height = self.size["width"], self.size["height"]
        what = f"a {tag} of frame {at:g}"

        def read(*names: str) -> list[float]:
            return [number(attributes.get(n), f"{n} of {what}") for n in names]

        if tag == "mask":
            left, top, w, h = (
                whole(attributes.get(n), f"{n} of {what}", 0, MAX_SIDE)
                for n in ("left", "top", "width", "height")
            )
            if left + w > width or top + h > height:
                refuse(self.name, f"has {what} that reaches beyond {width}×{height} pixels")
            runs = [whole(v, f"a run of {what}") for v in attributes.get("rle", "").split(",")]
            if sum(runs) != w * h:
                mask_of_runs(runs, (h, w), by_columns=False)  # says so
            box = box_of((left, top, left + w, top + h), width, height, what)
            args = np.array(runs), (h, w), (left, top), (height, width)
            return Shape(at, box, size=(height, width), runs=Runs(_cvat_mask, args))
        if tag == "polygon":
            pairs = attributes.get("points", "").split(";")
            flat = [v for pair in pairs for v in pair.split(",")]
            return polygon(at, points_of(flat, what), (height, width))
        if tag == "ellipse":
            cx, cy, rx, ry = read("cx", "cy", "rx", "ry")
            round_ = np.linspace(0, 2 * np.pi, 64, endpoint=False)
            ring = np.stack([rx * np.cos(round_), ry * np.sin(round_)], axis=1)
            centre = np.array([cx, cy])
        else:
            x0, y0, x1, y1 = read("xtl", "ytl", "xbr", "ybr")
            box = box_of((x0, y0, x1, y1), width, height, what)
            if not float(attributes.get("rotation") or 0):
                return Shape(at, box)
            centre = np.array([x0 + x1, y0 + y1]) / 2
            ring = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]) - centre
        return polygon(
            at, _turned(ring, attributes.get("rotation"), what) + centre, (height, width)
        )


def _turned(ring: Any, degrees: Any, what: str) -> Any:
    """Points (N, 2) turned about 0 0, clockwise as one sees them."""
    turn = math.radians(number(degrees or 0, f"the rotation of {what}", -1e4, 1e4))
    return ring @ np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])


def _cvat_mask(
    runs: Any, inner: tuple[int, int], corner: tuple[int, int], size: tuple[int, int]
) -> Mask:
    mask = np.zeros(size, bool)
    (left, top), (h, w) = corner, inner
    mask[top : top + h, left : left + w] = mask_of_runs(runs, inner, by_columns=False)
    return mask


def _of_cvat(name: str, content: bytes) -> TrackFile:
    """Shapes on frames, moved evenly between them; in sight until one is `outside`.

    Of CVAT for images: shapes of single pictures, which are linked.
    """
    reader = _Cvat(name)
    parse_xml(name, content, reader.start, reader.end)
    sha256 = hashlib.sha256(content).hexdigest()
    notes: tuple[str, ...] = ()
    if reader.left_out:
        notes = (f"{name}: {reader.left_out} points, lines or cuboids were left out",)
    size = (reader.size["width"], reader.size["height"]) if len(reader.size) == 2 else None
    if reader.tracks:
        return TrackFile(
            name, sha256, "CVAT for video", np.array(sorted(reader.frames), np.float64),
            objects_of(name, reader.tracks), size=size, between="even", stays=True, notes=notes,
        )  # fmt: skip
    if not reader.pictures.frames:
        refuse(name, "is XML without a track or an image of CVAT")
    found = reader.pictures
    return TrackFile(
        name, sha256, "CVAT for images", found.described(), found.objects(), size=size, notes=notes
    )


# ---- PNG masks ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Masks:
    """Pictures of masks by folder and frame. classes: pictures of what each object is, by frame.

    labels: by value or colour, of an object where there are no classes.
    """

    name: str
    folders: Mapping[str, Mapping[int, bytes]]
    labels: Mapping[int, str]
    classes: Mapping[int, bytes]

    def __call__(self, frames: Sequence[float]) -> tuple[Annotated, ...]:
        """The objects on these frames."""
        found: dict[Any, tuple[str, float, list[Shape]]] = {}
        for place, pictures in sorted(self.folders.items()):
            alone = len(self.folders) > 1
            for at in frames:
                if int(at) not in pictures:
                    continue
                values = _pixel_values(pictures[int(at)], f"{place}, frame {int(at)},")
                numbers = [1] if alone else np.unique(values[values > 0]).tolist()
                for value in numbers:
                    mask = values > 0 if alone else values == value
                    key = place if alone else value
                    label = _folder_label(place) if alone else self._label(place, value, numbers)
                    if key not in found and int(at) in self.classes:
                        label = self._class(int(at), mask)
                    size = (mask.shape[0], mask.shape[1])
                    shape = Shape(at, size=size, runs=Runs(np.asarray, (mask,)))
                    found.setdefault(key, (label, 1.0, []))[2].append(shape)
        return objects_of(self.name, found)

    def _class(self, frame: int, mask: Mask) -> str:
        """What most of an object's pixels are."""
        kinds = _pixel_values(self.classes[frame], f"classes, frame {frame},", colours=True)
        if kinds.shape != mask.shape:
            refuse(self.name, "has pictures of classes and of objects of two sizes")
        values, counts = np.unique(kinds[mask], return_counts=True)
        kind = int(values[counts.argmax()])
        return self.labels.get(kind, f"class {kind}")

    def _label(self, place: str, value: int, numbers: Sequence[int]) -> str:
        if value in self.labels:
            return self.labels[value]
        only = len(numbers) == 1 and value in (1, 255)
        return _folder_label(place) if only and place else f"object {value}"


def _folder_label(place: str) -> str:
    """The label in the name of an object's folder, which may begin with a number.

    >>> _folder_label("masks/02_red car"), _folder_label("")
    ('red car', 'object')
    """
    return clean_label(re.sub(r"^[0-9]+[_ -]", "", PurePosixPath(place).name))


def _of_masks(name: str, files: Mapping[str, bytes], sha256: str) -> TrackFile:
    """A pixel's value, or colour, is its object's; 0 is none. Folders are objects, if several."""
    pictures = {n: c for n, c in files.items() if n.lower().endswith(".png")}
    special = {
        kind: {n: c for n, c in pictures.items() if kind in PurePosixPath(n).parts}
        for kind in ("SegmentationObject", "SegmentationClass")
    }
    pictures = special["SegmentationObject"] or special["SegmentationClass"] or pictures
    of_objects = bool(special["SegmentationObject"])
    kinds = special["SegmentationClass"].items() if of_objects else ()
    classes = {n: c for path, c in kinds if (n := frame_number(path)) is not None}
    for path, content in kinds:
        _png_size(content, path)
    folders: dict[str, dict[int, bytes]] = {}
    size: tuple[int, int] | None = None
    for inner, content in pictures.items():
        index = frame_number(inner)
        if index is None or index > MAX_FRAME:
            refuse(name, f"has a picture {shown(inner, 100)} without the number of its frame",
                   "Name pictures by frame, as in frame_000012.png")  # fmt: skip
        stated = _png_size(content, inner)
        if size is not None and stated != size:
            refuse(name, f"has pictures of {size[0]}×{size[1]} and {stated[0]}×{stated[1]} pixels",
                   "Give the masks of one clip")  # fmt: skip
        size = stated
        folders.setdefault(str(PurePosixPath(inner).parent).strip("."), {})[index] = content
    frames = sorted({float(n) for group in folders.values() for n in group})
    labels: dict[int, str] = {}
    for inner, content in files.items():
        if PurePosixPath(inner).name in ("labelmap.txt", "labels.txt"):
            labels |= _mask_labels(content.decode("utf-8", "replace")[:100_000])
    return TrackFile(
        name, sha256, "PNG masks", np.array(frames, np.float64), size=size,
        look=_Masks(name, folders, labels, classes),
    )  # fmt: skip


def _mask_labels(text: str) -> dict[int, str]:
    """`1 dog` or, as CVAT writes it, `dog:255,0,0::`, a line each; without a colour that of VOC."""
    labels: dict[int, str] = {}
    lines = [line for line in text.splitlines()[:10_000] if not line.startswith("#")]
    for i, line in enumerate(lines):
        if match := re.match(r"([^:]{1,400}):([0-9]{1,3}),([0-9]{1,3}),([0-9]{1,3}):", line):
            r, g, b = (int(v) for v in match.groups()[1:])
            labels[r << 16 | g << 8 | b] = clean_label(match[1])
        elif match := re.match(r"([^:]{1,400})::", line):
            labels[_voc_colour(i)] = clean_label(match[1])
        elif match := re.match(r"([0-9]{1,9})[ \t:]+(.{1,400})", line):
            labels[int(match[1])] = clean_label(match[2])
    return labels


def _voc_colour(index: int) -> int:
    """The colour of a class in Pascal VOC's pictures, whose bits are spread over red, green, blue.

    >>> hex(_voc_colour(1)), hex(_voc_colour(2))
    ('0x800000', '0x8000')
    """
    colour = 0
    for bit in range(24):
        channel, place = 2 - bit % 3, 7 - bit // 3
        colour |= (index >> bit & 1) << (8 * channel + place)
    return colour


def _png_size(content: bytes, inner: str) -> tuple[int, int]:
    """(w, h) as the header of a PNG states it, before anything is decoded."""
    if content[:8] != b"\x89PNG\r\n\x1a\n" or content[12:16] != b"IHDR":
        raise TracksError(f"{clean_label(inner)} is not a PNG picture", "Write the masks as PNG")
    width, height = int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
    if not 1 <= width <= MAX_SIDE or not 1 <= height <= MAX_SIDE:
        raise TracksError(
            f"{clean_label(inner)} is {width}×{height}, more than {MAX_SIDE} pixels on a side",
            "Write the masks at the size of the clip",
        )
    return width, height


def _pixel_values(content: bytes, inner: str, colours: bool = False) -> Any:
    """(h, w) whole numbers: the index or grey value of each pixel, or its colour as one number."""
    from PIL import Image

    try:
        picture: Image.Image = Image.open(io.BytesIO(content), formats=["PNG"])
        if colours or picture.mode not in ("P", "L", "I", "I;16", "1"):
            picture = picture.convert("RGB")
        values = np.asarray(picture).astype(np.int32)
    except Exception as error:  # whatever the decoder finds
        raise TracksError(
            f"the mask of {clean_label(inner)} is damaged ({type(error).__name__})",
            "Write it again",
        ) from error
    return values @ np.array([1 << 16, 1 << 8, 1]) if values.ndim == 3 else values


# ---- YOLO text ----------------------------------------------------------------------------------


def _of_yolo(name: str, files: Mapping[str, bytes], sha256: str) -> TrackFile:
    """Lines of `class x y w h`, with confidence and track if they follow, or of a polygon."""
    labels, texts = _yolo_labels(files), {}
    for inner, content in files.items():
        plain = PurePosixPath(inner).name in ("classes.txt", "train.txt", "val.txt", "labels.txt")
        if inner.lower().endswith(".txt") and not plain:
            texts[inner] = content.decode("utf-8", "replace")
    found = PictureShapes(name)
    for inner, text in sorted(texts.items()):
        index = frame_number(inner)
        if index is None or index > MAX_FRAME:
            refuse(name, f"has a file {shown(inner, 100)} without the number of its frame",
                   "Name files by frame, as in frame_000012.txt")  # fmt: skip
        found.frames.add(float(index))
        for line in text.splitlines():
            if words := line.split():
                what = f"a line of {clean_label(inner)}"
                kind = whole(words[0], f"the class in {what}", 0, 100_000)
                if labels and kind not in labels:
                    refuse(name, f"has {what} of class {kind}, which its names do not list")
                label = labels.get(kind, f"class {kind}")
                shape, score, track = _yolo_shape(words[1:], float(index), what)
                key = None if track is None else (label, track)
                found.add(key, label, score, shape)
    if not found.frames:
        refuse(name, "holds no text of a frame")
    return TrackFile(name, sha256, "YOLO", found.described(), found.objects())


def _yolo_shape(words: Sequence[str], at: float, what: str) -> tuple[Shape, float, int | None]:
    """A shape in shares of the frame, its confidence, and the number of its object if stated."""
    if len(words) > 20_000:
        raise TracksError(f"{what} has {len(words)} numbers", "Export it again")
    tracked = len(words) == 6 and "." not in words[5] and "e" not in words[5]
    if len(words) in (4, 5) or tracked:
        x, y, w, h = (number(v, what, -10, 10) for v in words[:4])
        box = box_of((x - w / 2, y - h / 2, x + w / 2, y + h / 2), 1, 1, f"the box in {what}")
        score, track = 1.0, None
        for word in words[4:]:
            if "." in word or "e" in word:
                score = number(word, f"the confidence in {what}", 0, 1)
            else:
                track = whole(word, f"the track in {what}", 0, 2**31)
        return Shape(at, box), score, track
    ring = points_of(words, what)
    if np.abs(ring).max() > 10:
        raise TracksError(f"{what} is not in shares of the frame", "Export it again")
    ends = np.concatenate([ring.min(axis=0), ring.max(axis=0)]).astype(np.float32)
    return Shape(at, ends.clip(0, 1), (ring,)), 1.0, None


def _yolo_labels(files: Mapping[str, bytes]) -> dict[int, str]:
    for inner, content in sorted(files.items()):
        text, plain = content.decode("utf-8", "replace")[:1_000_000], PurePosixPath(inner).name
        if plain == "classes.txt" or plain.endswith(".names"):
            return {i: clean_label(line) for i, line in enumerate(text.splitlines()) if line}
        if plain.endswith((".yaml", ".yml")):
            import yaml  # type: ignore[import-untyped]

            try:
                named = yaml.safe_load(text)
            except (yaml.YAMLError, ValueError, RecursionError):
                continue
            names = named.get("names") if isinstance(named, dict) else None
            if isinstance(names, list):
                names = dict(enumerate(names))
            if isinstance(names, dict):
                return {k: clean_label(v) for k, v in names.items() if isinstance(k, int)}
    return {}
