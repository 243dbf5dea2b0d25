"""PNG masks: a picture a frame, in which a pixel's value or colour is its object's.

Several folders are an object each, or a video each; Pascal VOC's folders, KITTI MOTS and CVAT's
masks with `labelmap.txt` or `labels.txt` name the objects.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from macd_studio.core.objects.annotations import Annotated, Shape, TrackFile, clean_label
from macd_studio.core.objects.formats.bounds import Files, one_size, refuse
from macd_studio.core.objects.formats.gather import MAX_OBJECTS
from macd_studio.core.objects.formats.names import numbered
from macd_studio.core.objects.formats.pixels import (
    VOID_COLOUR,
    Values,
    is_soft_edge,
    mask_of,
    png_size,
    read_mask,
    read_values,
)
from macd_studio.core.objects.formats.sheet import Sheet, archive
from macd_studio.core.objects.formats.source import Asked, Source, unique_names

NAME, TITLE, ENDING = "png", "PNG masks", ".zip"
EVERY_FOLDER = "every folder as an object"
"""The choice of a file whose folders can be objects or videos."""
_VOC = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair",
    "cow", "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa",
    "train", "tvmonitor",
)  # fmt: skip
_MOTS = {1: "car", 2: "pedestrian"}
MOTS_IGNORED = 10_000
_VIDEOS = (
    "annotations",
    "jpegimages",
    "480p",
    "1080p",
    "full-resolution",
    "annotations_unsupervised",
)
"""Folders of DAVIS and YouTube-VOS, in which each folder is a video."""


@dataclass(frozen=True)
class _Naming:
    """What values are called. labels: by value or colour; rows: as `labels.txt` lists them.

    voc: values are Pascal VOC's. kinds: pictures of what each object is, by frame.
    """

    labels: Mapping[int, str]
    rows: Sequence[str] = ()
    voc: bool = False
    kinds: Mapping[int, bytes] | None = None


def sources(files: Files, asked: Asked) -> list[Source]:
    """The videos of the pictures."""
    pictures = files.ending(".png")
    if not pictures:
        return []
    naming = _naming(files, pictures)
    objects = {n: c for n, c in pictures.items() if "SegmentationObject" in PurePosixPath(n).parts}
    classes = {n: c for n, c in pictures.items() if "SegmentationClass" in PurePosixPath(n).parts}
    naming = replace(naming, voc=bool(objects or classes))
    if objects and classes:
        by_name = {PurePosixPath(n).name: n for n in classes}
        numbers = _one_video(files.name, list(by_name))
        naming = replace(naming, kinds={f: classes[by_name[n]] for n, f in numbers.items()})
    pictures = objects or classes or _instances(pictures)
    folders: dict[str, dict[str, bytes]] = {}
    for inner, content in pictures.items():
        path = PurePosixPath(inner)
        folders.setdefault(str(path.parent).strip("."), {})[path.name] = content
    if len(folders) == 1:
        place, group = next(iter(folders.items()))
        return _flat(files, place, group, naming)
    return _of_folders(files, folders, naming, asked)


def _instances(pictures: dict[str, bytes]) -> dict[str, bytes]:
    """Of KITTI's and Cityscapes' segmentation the pictures of instances, not those of classes."""
    for marked in (
        {n: c for n, c in pictures.items() if n.lower().endswith("_instanceids.png")},
        {n: c for n, c in pictures.items() if PurePosixPath(n).parent.name == "instance"},
    ):
        others = {PurePosixPath(n).parent.name for n in pictures.keys() - marked.keys()}
        beside = {"semantic", "semantic_rgb"} & others
        if marked and (beside or any("_labelids" in n.lower() for n in pictures)):
            return marked
    return pictures


def _flat(files: Files, place: str, group: Mapping[str, bytes], naming: _Naming) -> list[Source]:
    """Pictures of one folder: of one video, or of several by their names."""
    videos = numbered(files.name, list(group))
    names = unique_names([video or place or files.name for video in videos])
    found = []
    for name, (video, numbers) in zip(names, videos.items(), strict=True):
        size = one_size(files.name, (png_size(group[n], n) for n in numbers))
        read = partial(_read, files, {place: {f: group[n] for n, f in numbers.items()}}, naming)
        found.append(Source(name, read, video or place, len(numbers), size))
    return found


def _of_folders(
    files: Files, folders: Mapping[str, Mapping[str, bytes]], naming: _Naming, asked: Asked
) -> list[Source]:
    """Folders that are objects of a video, or videos themselves; both, where it is not clear."""
    parents: dict[str, dict[str, Mapping[str, bytes]]] = {}
    for place, group in folders.items():
        parents.setdefault(str(PurePosixPath(place).parent).strip("."), {})[place] = group
    leaves = [PurePosixPath(place).name for place in folders]
    if all(re.fullmatch(r"[0-9]{1,6}([_ -].*)?", leaf) for leaf in leaves):
        names = unique_names([parent or files.name for parent in parents])
        return [
            _as_objects(files, name, group, naming)
            for name, group in zip(names, parents.values(), strict=True)
        ]
    videos = [
        source for place, group in folders.items() for source in _flat(files, place, group, naming)
    ]
    above = {part.lower() for place in folders for part in PurePosixPath(place).parts[:-1]}
    clip = asked.clip.name.rpartition(".")[0] if asked.clip is not None else ""
    if above & set(_VIDEOS) or clip.casefold() in {leaf.casefold() for leaf in leaves}:
        return videos
    counts = {tuple(sorted(group)) for group in folders.values()}
    firsts = (read_values(next(iter(group.values())), "a mask") for group in folders.values())
    if any(len(picture.present) > 1 for picture in firsts):
        return videos
    objects = _as_objects(files, EVERY_FOLDER, folders, naming)
    if len(counts) == 1 and len(parents) == 1:
        return [objects]
    return [*videos, objects]


def _as_objects(
    files: Files, name: str, folders: Mapping[str, Mapping[str, bytes]], naming: _Naming
) -> Source:
    every = {n: c for group in folders.values() for n, c in group.items()}
    numbers = _one_video(files.name, list(every))
    by_folder = {
        place: {numbers[n]: content for n, content in group.items()}
        for place, group in folders.items()
    }
    size = one_size(files.name, (png_size(c, n) for g in folders.values() for n, c in g.items()))
    read = partial(_read, files, by_folder, naming, is_object=True)
    return Source(name, read, name, len(set(numbers.values())), size)


def _one_video(of: str, names: Sequence[str]) -> Mapping[str, int]:
    videos = numbered(of, names)
    if len(videos) > 1:
        refuse(of, f"has pictures of several videos in one folder: {', '.join([*videos][:5])}")
    return next(iter(videos.values()))


def _naming(files: Files, pictures: Mapping[str, bytes]) -> _Naming:
    labels: dict[int, str] = {}
    rows: list[str] = []
    for inner, text in files.texts(".txt").items():
        if PurePosixPath(inner).name not in ("labelmap.txt", "labels.txt"):
            continue
        lines = [line for line in text[:100_000].splitlines()[:10_000] if not line.startswith("#")]
        found = _labels(lines)
        labels |= found
        if not found:
            rows = [clean_label(line) for line in lines if line.strip()]
    return _Naming(labels, rows)


def _labels(lines: Sequence[str]) -> dict[int, str]:
    """`1 dog` or, as CVAT writes it, `dog:255,0,0::`, a line each; without a colour that of VOC."""
    labels: dict[int, str] = {}
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


_VOC_COLOURS = {_voc_colour(i): name for i, name in enumerate(_VOC)}


def _read(
    files: Files,
    folders: Mapping[str, Mapping[int, bytes]],
    naming: _Naming,
    is_object: bool = False,
) -> TrackFile:
    frames = sorted({float(n) for group in folders.values() for n in group})
    sizes = {png_size(c, p or files.name) for p, group in folders.items() for c in group.values()}
    return TrackFile(
        files.name, files.sha256, TITLE, np.array(frames, np.float64),
        size=one_size(files.name, sizes), counted="open",
        look=_Look(files.name, folders, naming, is_object),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Look:
    """Pictures by folder and frame; called with frames, it gives the objects on them.

    is_object: a folder is an object. Values are counted first, and masks are made of those that are
    drawn.
    """

    name: str
    folders: Mapping[str, Mapping[int, bytes]]
    naming: _Naming
    is_object: bool

    def __call__(self, frames: Sequence[float]) -> tuple[tuple[Annotated, ...], tuple[str, ...]]:
        """The objects on these frames, and what must be known of them."""
        seen: list[tuple[str, float, partial[Values], Values]] = []
        soft: list[bool] = []
        for place, pictures in sorted(self.folders.items()):
            for at in frames:
                if int(at) in pictures:
                    inner = f"{place}, frame {int(at)}" if place else f"frame {int(at)}"
                    read = partial(read_values, pictures[int(at)], inner)
                    picture = read()
                    soft.append(is_soft_edge(picture))
                    seen.append((place, at, read, picture.without_pixels()))
        values = {v for _, _, _, picture in seen for v in picture.present.tolist()}
        coloured = any(picture.is_colour for *_, picture in seen)
        is_mots = not self.is_object and not coloured and _is_mots(values)
        ignored = {MOTS_IGNORED} & values if is_mots else self._void(values, seen)
        found: dict[tuple[str, int | None], tuple[str, list[Shape]]] = {}
        for place, at, read, picture in seen:
            kept = [v for v in picture.present.tolist() if v not in ignored]
            for value in ([None] if kept else []) if self.is_object else kept:
                key = (place, value)
                if key not in found:
                    found[key] = self._label(place, value, picture, read, is_mots, int(at)), []
                mask = partial(read_mask, read, value)
                shape = Shape(at, size=picture.size, runs=mask, place=f"frame {at:g}")
                found[key][1].append(shape)
            if len(found) > MAX_OBJECTS:
                refuse(self.name, f"holds more than {MAX_OBJECTS} objects", "Give fewer of them")
        objects = tuple(Annotated(label, tuple(shapes)) for label, shapes in found.values())
        is_soft = not self.is_object and bool(soft) and all(soft)
        return objects, tuple(self._notes(is_mots, ignored, is_soft))

    def _notes(self, is_mots: bool, ignored: set[int], is_soft: bool) -> Iterator[str]:
        if is_soft:
            yield (
                f"{self.name}: is object 1 an object? It is a thin rim around object 2 on every"
                " frame, as the soft edge of a single mask is; if so, write that mask as 0 and 255"
            )
        if is_mots:
            yield f"{self.name}: values are read as those of MOTS, class · 1000 + number"
        if ignored:
            told = ", ".join(f"{v:06x}" if v == VOID_COLOUR else str(v) for v in sorted(ignored))
            yield f"{self.name}: the value {told} marks a region to ignore and is no object"

    def _void(self, values: set[int], seen: Sequence[tuple[Any, Any, Any, Values]]) -> set[int]:
        """Values of the border between objects, as VOC has it and others after it."""
        if self.is_object:
            return set()
        if any(picture.is_colour for *_, picture in seen):
            return {VOID_COLOUR} & values
        if 255 not in values:
            return set()
        others = values - {255}
        palettes = [p for *_, p in seen if len(p.colours) > 255]
        marked = bool(palettes) and all(p.colour_of(255) == VOID_COLOUR for p in palettes)
        low = bool(others) and max(others) <= 127 and len(others) >= max(others) // 2
        return {255} if self.naming.voc or marked or low else set()

    def _label(
        self, place: str, value: int | None, picture: Values, read: Callable[[], Values],
        is_mots: bool, frame: int,
    ) -> str:  # fmt: skip
        if value is None:
            return _folder_label(place)
        naming = self.naming
        if is_mots:
            kind = value // 1000
            if naming.rows:
                return naming.rows[kind - 1] if kind <= len(naming.rows) else f"class {kind}"
            return _MOTS.get(kind, f"class {kind}")
        if naming.kinds is not None and frame in naming.kinds:
            return self._class(naming.kinds[frame], read(), value, frame)
        for key in (picture.colour_of(value), value):
            if key in naming.labels:
                return naming.labels[key]
        if naming.voc:
            return _VOC_COLOURS.get(picture.colour_of(value), f"class {value}")
        if naming.rows[:1] == ["background"] and value < len(naming.rows):
            return naming.rows[value]
        only = len(picture.present) == 1 and value in (1, 255)
        return _folder_label(place) if only and place else f"object {value}"

    def _class(self, content: bytes, picture: Values, value: int, frame: int) -> str:
        """What most of an object's pixels are."""
        kinds = read_values(content, f"classes, frame {frame}")
        if kinds.values.shape != picture.values.shape:
            refuse(self.name, "has pictures of classes and of objects of two sizes")
        values, counts = np.unique(kinds.values[mask_of(picture, value)], return_counts=True)
        inside = values != 0
        if not inside.any():
            return f"object {value}"
        kind = int(values[inside][counts[inside].argmax()])
        colour = kinds.colour_of(kind)
        named = {**_VOC_COLOURS, **self.naming.labels}
        return named.get(colour) or self.naming.labels.get(kind) or f"class {kind}"


def _is_mots(values: set[int]) -> bool:
    """Whether all values are class · 1000 + number, of KITTI MOTS and CVAT's MOTS PNG."""
    return bool(values) and all(1000 <= v < 65_536 for v in values) and max(values) > 1000


def _folder_label(place: str) -> str:
    """The label in the name of an object's folder, which may begin with a number.

    >>> _folder_label("masks/02_red car"), _folder_label("")
    ('red car', 'object')
    """
    return clean_label(re.sub(r"^[0-9]+[_ -]", "", PurePosixPath(place).name))


def write(sheet: Sheet) -> bytes:
    """A zip with a folder for each object, as objects may overlap, and a mask for each frame."""
    from PIL import Image

    files: dict[str, bytes] = {}
    blank = np.zeros(sheet.size, np.uint8)
    for one in sheet.objects:
        label = "".join(c if c.isalnum() or c in " -" else "-" for c in one.label)[:40].strip()
        for number, drawn in zip(sheet.numbers, one.frames, strict=True):
            picture = io.BytesIO()
            pixels = blank if drawn is None else drawn.raster.astype(np.uint8) * 255
            Image.fromarray(pixels).save(picture, "PNG")
            files[f"{one.id:03d}_{label or 'object'}/frame_{number:06d}.png"] = picture.getvalue()
    return archive(files)
