"""What the tower would see of a simulated clip.

Its evidence is what a detector like the tower's gives for such things: class logits with noise and
confusions, boxes that jitter, misses, doubles and false finds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.backbones.everyday import CLASSES, FLOOR, PEAKS, Yolo11TowerConfig
from macd_studio.everyday.language import KINDS
from macd_studio.everyday.scenes import NAMES, Array, Scene, Thing, noise

_SEEN_AS = {
    "red": ("brown", "pink", "orange", "black"), "orange": ("red", "brown", "yellow"),
    "yellow": ("white", "orange", "brown", "green"), "green": ("black", "grey", "brown", "yellow"),
    "blue": ("black", "grey", "purple", "white"), "purple": ("blue", "pink", "black"),
    "pink": ("white", "red", "purple", "grey"), "brown": ("black", "grey", "orange", "red"),
    "black": ("grey", "blue", "brown"), "white": ("grey", "blue", "brown"),
    "grey": ("black", "white", "blue", "brown"),
}  # fmt: skip
"""Colour → what light and shade make of parts of it, the likeliest first."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What the tower sees of a clip: arrays of (T, PEAKS, …) as `Peaks` has them, the mean colours
    (T, cells², 3) of the cells, and where the picture lies in the square, (4,)."""

    logits: NDArray[np.float32]
    """(T, PEAKS, 80); -30 where there is no peak."""
    boxes: NDArray[np.float32]
    colours: NDArray[np.float32]
    means: NDArray[np.float32]
    content: NDArray[np.float32]


def look(rng: np.random.Generator, scene: Scene, cells: int) -> Seen:
    """What the tower would see of a scene."""
    frames, n = scene.frames, len(CLASSES)
    logits = np.full((frames, PEAKS, n), -30, np.float32)
    boxes = np.zeros((frames, PEAKS, 4), np.float32)
    colours = np.zeros((frames, PEAKS, len(NAMES)), np.float32)
    things = [*scene.things, *scene.false]
    looks = [_shares(rng, t.colour) for t in things]
    alike = [_confusion(rng, t) for t in things]
    for f in range(frames):
        rows: list[tuple[float, int, Array]] = []
        for k, thing in enumerate(things):
            if not thing.there[f] or thing.logit[f] <= FLOOR:
                continue
            box = thing.boxes[f]
            side = np.tile(box[2:] - box[:2], 2)
            rows.append((thing.logit[f], k, box + side * rng.normal(0, 0.025, 4)))
            u = rng.random()
            if u < 0.22:  # the same thing found twice
                again = thing.logit[f] - rng.uniform(0.6, 4.0)
                cut = box + side * rng.normal(0, 0.16, 4)
                rows.append((again, k, np.clip(cut, 0, 1)))
        rows = sorted((r for r in rows if r[0] > FLOOR), key=lambda r: -r[0])[:PEAKS]
        for p, (surety, k, box) in enumerate(rows):
            row = alike[k] + rng.normal(0, 0.7, n)
            row[things[k].label] = surety
            limit = surety + (0.6 if rng.random() < 0.03 else -0.25)
            others = np.minimum(row, limit)
            others[things[k].label] = surety
            logits[f, p] = others
            low, high = np.minimum(box[:2], box[2:]), np.maximum(box[:2], box[2:])
            boxes[f, p] = np.concatenate([low, np.maximum(high, low + 0.005)])
            mixed = looks[k] + np.abs(rng.normal(0, 0.04, len(NAMES)))
            colours[f, p] = mixed / mixed.sum()
    means = _background(rng, scene, cells).astype(np.float32)
    return Seen(logits, boxes, colours, means, np.array(scene.content, np.float32))


def _background(rng: np.random.Generator, scene: Scene, cells: int) -> Array:
    """(T, cells², 3), mean colours of the cells: a soft pattern that the camera's turning moves,
    and padding around it."""
    tone = rng.uniform(0.1, 0.8, 3) * 0.5 + rng.uniform(0.1, 0.8) * 0.5
    knots = 12
    pattern = tone + rng.normal(0, 0.15, (3 * knots, 3 * knots, 3))
    middles = (np.arange(cells) + 0.5) / cells
    drift = np.broadcast_to(scene.drift, (scene.frames, 2))
    at = knots * (1 + middles - drift[:, ::-1, None])  # (T, rows and columns, cells)
    low = np.clip(at.astype(int), 0, 3 * knots - 2)
    part = np.clip(at - low, 0, 1)
    out = np.zeros((scene.frames, cells, cells, 3))
    for dy in (0, 1):
        for dx in (0, 1):
            y, x = (abs(1 - d - part[:, i]) for i, d in enumerate((dy, dx)))
            picked = pattern[(low[:, 0] + dy)[:, :, None], (low[:, 1] + dx)[:, None]]
            out += y[:, :, None, None] * x[:, None, :, None] * picked
    out += rng.normal(0, 0.02, out.shape)
    edges = np.arange(cells + 1) / cells
    x0, y0, x1, y1 = scene.content
    inside = [np.diff(np.clip(edges, a, b)) * cells for a, b in ((y0, y1), (x0, x1))]
    shown = np.outer(*inside)[None, :, :, None]
    padding = Yolo11TowerConfig().mean
    whole = (shown * out + (1 - shown) * padding).clip(0, 1)
    return whole.reshape(scene.frames, cells**2, 3)


def _shares(rng: np.random.Generator, colour: str) -> Array:
    """Shares of colour names that a thing of a colour shows."""
    out = np.zeros(len(NAMES))
    own = rng.beta(5, 2.2)
    out[NAMES.index(colour)] = own
    others = _SEEN_AS[colour]
    p = np.array([0.5, 0.28, 0.14, 0.08][: len(others)])
    rest = rng.dirichlet(4 * p / p.sum() + 0.05) * (1 - own)
    for name, share in zip(others, rest, strict=True):
        out[NAMES.index(name)] += 0.7 * share
    out += 0.3 * (1 - own) * rng.dirichlet(np.full(len(NAMES), 0.3))
    return out / out.sum()


def _confusion(rng: np.random.Generator, thing: Thing) -> Array:
    """Logits of the other classes for a thing, through all of its frames."""
    table = noise()
    row = (
        table["confused"][thing.label]
        + rng.normal(0, 1, len(CLASSES)) * table["spread"][thing.label]
    )
    if rng.random() < 0.12:
        sisters = [c for _, cs in KINDS.values() if CLASSES[thing.label] in cs for c in cs]
        if sisters:
            row[CLASSES.index(sisters[int(rng.integers(len(sisters)))])] = rng.normal(-1.2, 0.9)
    return np.asarray(row)
