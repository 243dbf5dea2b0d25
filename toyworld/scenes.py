"""Draws the five backgrounds, and the emoji sprites that move over them.

Everything is drawn at 384 px and reduced by area averaging, so that a clip looks the same at the
96 px the backbone sees, the 192 px the detector sees and the 384 px of an example video. Grain is
drawn at 96 px: at 384 px it is interpolated, below that each of its pixels is a square.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from macd_studio.core.system.shipped import TOYWORLD
from macd_studio.toyworld.priors import priors

Image = NDArray[np.float32]
Colour = Callable[[tuple[int, int, int]], Image]

MASTER = 384
POOL = 60  # backgrounds drawn per scene
SPRITES = TOYWORLD / "sprites.png"
SPRITE_PX = 128
_SHEET_COLUMNS = 4

# sky or wall, ground or floor
_COLOURS = {
    "beach": ((110, 190, 240), (235, 210, 150)),
    "kitchen": ((240, 225, 200), (170, 120, 80)),
    "street": ((170, 185, 200), (95, 95, 100)),
    "park": ((150, 205, 245), (95, 165, 70)),
    "snow": ((190, 205, 225), (240, 245, 250)),
}


def enlarge_grain(grain: Image, size: int, smooth: bool) -> Image:
    """(96, 96) noise at (size, size): interpolated, or each of its pixels a square."""
    how = cv2.INTER_CUBIC if smooth else cv2.INTER_NEAREST
    return cv2.resize(grain, (size, size), interpolation=how)


def draw_background(scene: str, rng: np.random.Generator, smooth: bool = False) -> Image:
    """One background, (384, 384, 3) RGB in [0, 1]. Lengths below are in 96ths of the side.

    smooth: interpolates the grain, as an example video shows it.
    """
    unit = MASTER // 96

    def colour(rgb: tuple[int, int, int]) -> Image:
        return np.array(rgb, np.float32) / 255 + rng.uniform(-0.06, 0.06, 3).astype(np.float32)

    image = np.empty((MASTER, MASTER, 3), np.float32)
    horizon = int(MASTER * rng.uniform(0.35, 0.6))
    top, bottom = _COLOURS[scene]
    image[:horizon], image[horizon:] = colour(top), colour(bottom)
    image *= 1 - 0.15 * np.linspace(0, 1, MASTER, dtype=np.float32)[:, None, None]
    if scene == "beach":
        image[horizon : horizon + unit * int(rng.integers(8, 20))] = colour((40, 120, 190))
    elif scene == "kitchen":
        _draw_tiles(image, horizon, unit, colour, rng)
    elif scene == "street":
        _draw_street(image, horizon, unit, colour, rng)
    else:
        leaf = (50, 120, 50) if scene == "park" else (120, 150, 140)
        for _ in range(int(rng.integers(2, 5))):
            x, radius = int(rng.integers(0, MASTER)), unit * int(rng.integers(7, 14))
            cv2.circle(image, (x, horizon - radius), radius, colour(leaf).tolist(), -1)
            image[horizon - 3 * unit : horizon + 5 * unit, max(0, x - unit) : x + 2 * unit] = (
                colour((90, 60, 40))
            )
    if scene == "snow":
        for x, y in rng.integers(0, 96, (50, 2)) * unit:
            image[y : y + unit, x : x + unit] = 1
    image = cv2.GaussianBlur(image, (0, 0), 0.8 * unit)
    grain = rng.normal(0, 0.02, (96, 96)).astype(np.float32)
    image += enlarge_grain(grain, MASTER, smooth)[..., None]
    return image.clip(0, 1)


def _draw_tiles(
    image: Image, horizon: int, unit: int, colour: Colour, rng: np.random.Generator
) -> None:
    joint, pitch = colour((205, 185, 160)), unit * int(rng.integers(10, 16))
    for x in range(int(rng.integers(0, pitch)), MASTER, pitch):
        image[:horizon, x : x + unit] = joint
    for y in range(0, horizon, pitch):
        image[y : y + unit] = joint
    image[horizon : horizon + 5 * unit] = colour((120, 80, 50))


def _draw_street(
    image: Image, horizon: int, unit: int, colour: Colour, rng: np.random.Generator
) -> None:
    x = 0
    while x < MASTER:
        width = unit * int(rng.integers(12, 26))
        height = int(rng.integers(15 * unit, horizon))
        image[horizon - height : horizon, x : x + width] = colour((150, 120, 110)) * rng.uniform(
            0.7, 1.1
        )
        x += width + unit * int(rng.integers(0, 5))
    y = horizon + (MASTER - horizon) // 2
    for x in range(int(rng.integers(0, 14 * unit)), MASTER, 20 * unit):
        image[y : y + 2 * unit, x : x + 10 * unit] = 0.9


@cache
def backgrounds(size: int) -> dict[str, list[Image]]:
    """The fixed pool: scene -> POOL images of (size, size, 3) in [0, 1]."""
    rng = np.random.default_rng(5)

    def reduced(image: Image) -> Image:
        return cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA)

    return {
        scene: [reduced(draw_background(scene, rng, size == MASTER)) for _ in range(POOL)]
        for scene in priors().scenes
    }


@cache
def _sheet() -> dict[str, Image]:
    sheet = cv2.imread(str(SPRITES), cv2.IMREAD_UNCHANGED)
    if sheet is None:
        raise FileNotFoundError(f"{SPRITES} is missing; `python -m toyworld.make_assets sprites`")
    rgba = cv2.cvtColor(sheet, cv2.COLOR_BGRA2RGBA).astype(np.float32) / 255
    rgba[..., :3] *= rgba[..., 3:]
    sprites = {}
    for i, name in enumerate(priors().classes):
        y, x = divmod(i, _SHEET_COLUMNS)
        sprites[name] = rgba[
            y * SPRITE_PX : (y + 1) * SPRITE_PX, x * SPRITE_PX : (x + 1) * SPRITE_PX
        ]
    return sprites


@cache
def sprite(name: str, size: int, flipped: bool) -> Image:
    """A class's picture with premultiplied alpha, (size, size, 4) in [0, 1]."""
    if flipped:
        return np.ascontiguousarray(sprite(name, size, False)[:, ::-1])
    return cv2.resize(_sheet()[name], (size, size), interpolation=cv2.INTER_AREA)


def draw_sprite_sheet(font: Path, out: Path = SPRITES) -> None:
    """Draws the classes' emoji from Noto Color Emoji into one RGBA sheet (4 columns of 128 px)."""
    from PIL import Image as Pil
    from PIL import ImageDraw, ImageFont

    names = priors().classes
    rows = -(-len(names) // _SHEET_COLUMNS)
    sheet = Pil.new("RGBA", (_SHEET_COLUMNS * SPRITE_PX, rows * SPRITE_PX))
    face = ImageFont.truetype(str(font), 109)  # the only size in the bitmap font
    for i, name in enumerate(names):
        glyph = Pil.new("RGBA", (160, 160))
        ImageDraw.Draw(glyph).text((4, 4), priors().emoji[name], font=face, embedded_color=True)
        glyph = glyph.crop(glyph.getbbox())
        side = max(glyph.size)
        square = Pil.new("RGBA", (side, side))
        square.paste(glyph, ((side - glyph.width) // 2, (side - glyph.height) // 2))
        y, x = divmod(i, _SHEET_COLUMNS)
        square = square.resize((SPRITE_PX, SPRITE_PX), Pil.Resampling.LANCZOS)
        sheet.paste(square, (x * SPRITE_PX, y * SPRITE_PX))
    sheet.save(out, optimize=True)
