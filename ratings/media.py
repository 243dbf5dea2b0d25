"""Clips as raters receive them: frames composited with a mask, packed under equal size.

A packed clip is "MSR1", the number of frames, the length of each (all uint32, little endian), the
frames as WebP, and random padding up to the size that all masked clips of a study have, and all
unmasked ones: neither name nor size of a transfer tells one arm from another, or one item.

A clip's frames and masks take tens of megabytes, so that only one clip's are held at a time while a
study is made. The size is known when the last pictures are there: until then they lie in a private
file beside the study.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageFilter

from macd_studio.core.errors import OptionError
from macd_studio.core.masking.plates import plate_fill
from macd_studio.core.media.webp import encode_picture
from macd_studio.core.system.whole import new_private_file
from macd_studio.core.text.words import writable
from macd_studio.core.types import Floats, Pixels
from macd_studio.ratings.arms import ArmMask, coverage
from macd_studio.ratings.plan import keyed_rng
from macd_studio.ratings.source import Source

MAGIC = b"MSR1"


def composite(source: Source, mask: Floats, rng: np.random.Generator) -> Pixels:
    """V_d = (1 − M)·V + M·fill as 8-bit pixels (T, H, W, 3); see docs/methods.md, step 6.

    The fill is that of the run: mean (of the backbone's normalisation), black, blur, noise, a
    plate of what other frames show there, or the paper's literal sum ("additive").
    """
    video: Floats = source.frames.astype(np.float32) / np.float32(255)
    hidden = mask[..., None]
    kind = source.mask.fill
    if kind == "additive":
        shown = (video + hidden).clip(0, 1)
    else:
        shown = video + hidden * (_fill(source, video, mask, kind, rng) - video)
    return np.asarray((255 * shown).round().clip(0, 255), np.uint8)


def _fill(
    source: Source, video: Floats, mask: Floats, kind: str, rng: np.random.Generator
) -> Floats:
    if kind == "black":
        return np.zeros(3, np.float32)
    if kind == "noise":
        return rng.random(video.shape, np.float32)
    if kind == "plate":
        return plate_fill(source.frames, mask[None])[0] / np.float32(255)
    if kind == "blur":
        blur = ImageFilter.GaussianBlur(0.1 * min(source.size))
        blurred = [np.asarray(Image.fromarray(f).filter(blur)) for f in source.frames]
        return np.asarray(np.stack(blurred) / 255, np.float32)
    return np.asarray(source.fill, np.float32)


def encode_clip(frames: Pixels) -> bytes:
    """A packed clip without padding."""
    return pack([encode_picture(f) for f in frames])


def pack(pictures: Sequence[bytes]) -> bytes:
    """WebP pictures as a packed clip without padding."""
    lengths = struct.pack(f"<{len(pictures)}I", *map(len, pictures))
    return MAGIC + struct.pack("<I", len(pictures)) + lengths + b"".join(pictures)


@dataclass(frozen=True)
class Slot:
    """Where packed pictures lie in the file: bytes."""

    start: int
    length: int


class Pictures:
    """Packed clips in a private file, which is deleted at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._end = 0

    def __enter__(self) -> Pictures:
        try:
            new_private_file(self.path)
            self._file = self.path.open("r+b")
        except OSError as error:
            raise unwritable(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # what was not yet on a full disk
            self._file.close()
        self.path.unlink(missing_ok=True)

    def add(self, content: bytes) -> Slot:
        """Writes a packed clip. Raises OptionError where the disk is full."""
        slot = Slot(self._end, len(content))
        try:
            self._file.seek(slot.start)
            self._file.write(content)
        except OSError as error:
            raise unwritable(error) from error
        self._end += slot.length
        return slot

    def padded(self, slot: Slot, size: int) -> bytes:
        """A clip with random padding up to a size.

        It comes from the system, not from the study's seed: whoever guesses a seed could otherwise
        repeat its draws and read the order of the arms from them. Random, so that it cannot be
        compressed.
        """
        self._file.seek(slot.start)
        return self._file.read(slot.length) + secrets.token_bytes(size - slot.length)


def unwritable(error: OSError | sqlite3.OperationalError) -> OptionError:
    """What to raise where the new study, or what it is made from, does not go on the disk."""
    told = getattr(error, "strerror", None) or error
    return OptionError(
        f"the study cannot be written ({told})", "Free space on the disk, or choose another place"
    )


@dataclass(frozen=True)
class Side:
    """One mask of an item. hidden: pixels; coverage: by track, the share of it that is hidden;
    known: which ratings are right, low to high, and why, or None.
    """

    hidden: float
    details: dict[str, Any]
    coverage: dict[int, float]
    known: tuple[int, int, str] | None
    slot: Slot


@dataclass(frozen=True)
class Item:
    """What the study file needs of a clip, a question and its masks. row: of `clips`, without id
    and pictures; objects: rows of `objects`, without the clip.
    """

    part: str
    row: dict[str, Any]
    frames: int
    moves: bool
    objects: list[tuple[int, str, float | None, float]]
    slot: Slot
    sides: dict[str, Side] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the clip's file."""
        return str(self.row["name"])


def prepare(
    part: str,
    source: Source,
    masks: Mapping[str, ArmMask],
    known: Mapping[str, tuple[int, int, str]],
    pictures: Pictures,
    noise: str,
) -> Item:
    """Renders an item's pictures into the file; what it gives holds none of the source's frames.

    noise: the key of the random fill, secret and different for each item.
    """
    height, width = source.size
    item = Item(
        part=part,
        row={
            "name": writable(source.name), "sha256": source.sha256, "question": source.question,
            "width": width, "height": height, "times": _times(source.times),
            "motion": _times(source.motion_times) if source.motion else None,
        },
        frames=len(source.frames),
        moves=bool(source.motion),
        objects=_objects(source),
        slot=pictures.add(pack(source.motion) if source.motion else encode_clip(source.frames)),
    )  # fmt: skip
    for name, side in masks.items():
        shown = composite(source, side.mask, keyed_rng(noise, "noise", name))
        shares = {t: round(share, 5) for t, share in coverage(source, side.mask).items()}
        slot = pictures.add(encode_clip(shown))
        item.sides[name] = Side(side.hidden, side.details, shares, known.get(name), slot)
    return item


def sizes(items: Iterable[Item]) -> tuple[int, int]:
    """To how many bytes clips without a mask are padded, and masked ones.

    One size for all, but for unmasked clips with more pictures, which have another.
    """
    items = list(items)
    clips = max((i.slot.length for i in items), default=0)
    masked = max((s.slot.length for i in items for s in i.sides.values()), default=0)
    if any(i.moves for i in items):
        return clips, masked
    return max(clips, masked), max(clips, masked)


def _times(times: Iterable[float]) -> str:
    return json.dumps([round(float(t), 4) for t in times])


def _objects(source: Source) -> list[tuple[int, str, float | None, float]]:
    final = source.counterfactual
    if final is None or len(final.level) != len(source.tracks):
        return []
    gradient = source.steps[0].gradient if source.steps else [None] * len(source.tracks)
    return [
        (track.id, writable(track.label), None if slope is None else float(slope), float(level))
        for track, slope, level in zip(source.tracks, gradient, final.level, strict=True)
    ]
