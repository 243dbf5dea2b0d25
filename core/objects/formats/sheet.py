"""What a format writes: objects drawn on the sampled frames of a clip, and helpers of writers."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from macd_studio.core.objects.outlines import Mask, filled, outline_of, ring_of
from macd_studio.core.types import Floats, Outline


@dataclass(frozen=True, eq=False)
class Drawn:
    """An object on one sampled frame. box: in shares; mask: (h, w), None where only the box is."""

    box: Floats
    mask: Mask | None
    size: tuple[int, int]
    seen: bool = True

    @property
    def pixels(self) -> tuple[float, float, float, float]:
        """x0 y0 x1 y1 in pixels."""
        h, w = self.size
        x0, y0, x1, y1 = (float(v) for v in self.box)
        return round(x0 * w, 6), round(y0 * h, 6), round(x1 * w, 6), round(y1 * h, 6)

    @cached_property
    def raster(self) -> Mask:
        """The mask, of a box too."""
        return filled([ring_of(self.box, self.size)], self.size) if self.mask is None else self.mask


@dataclass(frozen=True, eq=False)
class Exported:
    """One object: on each sampled frame, or None where it is not in sight."""

    id: int
    label: str
    confidence: float
    level: float | None
    frames: tuple[Drawn | None, ...]


@dataclass(frozen=True, eq=False)
class Sheet:
    """What is written: numbers, times of the sampled frames; fps, name of the clip."""

    objects: tuple[Exported, ...]
    numbers: tuple[int, ...]
    times: tuple[float, ...]
    size: tuple[int, int]
    fps: float
    name: str

    def drawn(self) -> Iterator[tuple[int, int, Exported, Drawn]]:
        """Index and number of the frame, the object, and what is drawn of it."""
        for i, number in enumerate(self.numbers):
            for one in self.objects:
                if (drawn := one.frames[i]) is not None:
                    yield i, number, one, drawn


def json_bytes(value: Any) -> bytes:
    """JSON that every program reads."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False).encode()


def outline_in(drawn: Drawn) -> tuple[Floats, Outline] | None:
    """A mask's box and its outline in shares of it; None where only a box is drawn."""
    if drawn.mask is None:
        return None
    found = outline_of(drawn.mask)
    return None if found is None else found[:2]


def archive(files: dict[str, bytes]) -> bytes:
    """A zip archive."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in files.items():
            opened.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
