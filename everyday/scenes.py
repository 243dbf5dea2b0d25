"""Simulated clips: things that stand and move together, and how well each can be made out.

No picture is drawn. A clip is a list of things with their boxes over time. `noise.json` holds what
was fitted to real frames (`everyday.fit`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.backbones.everyday import CLASSES, COLOURS, FLOOR
from macd_studio.everyday.habits import habits
from macd_studio.everyday.language import WAYS

Array = NDArray[np.float64]
NAMES = tuple(COLOURS)
VISIBLE = -2.0
"""A thing whose logit stays below this in every frame is there, and cannot be told to be."""

SURETY, SLOPE, P_ODD = (0.85, 0.75), 1.3, 0.2
"""Logit of a thing of a twentieth of the picture (mean and deviation), how it grows with each
tenfold area, and how often a thing is hard to make out. With FALSE, finds a clip of what is not
there, they follow 898 labelled things in 128 pictures of COCO's validation set."""
FALSE = 3.5

_COLOURS_OF = {
    "fire hydrant": {"red": 6, "yellow": 4, "white": 1, "blue": 1}, "stop sign": {"red": 1},
    "banana": {"yellow": 8, "green": 2, "brown": 1}, "apple": {"red": 6, "green": 4, "yellow": 1},
    "orange": {"orange": 1}, "broccoli": {"green": 1}, "carrot": {"orange": 1},
    "elephant": {"grey": 6, "brown": 2}, "bear": {"brown": 5, "black": 5, "white": 1},
    "zebra": {"white": 3, "black": 2, "grey": 1}, "giraffe": {"brown": 4, "orange": 2, "yellow": 1},
    "sheep": {"white": 6, "grey": 2, "brown": 2, "black": 1},
    "cow": {"brown": 4, "black": 4, "white": 3}, "horse": {"brown": 7, "white": 2, "black": 2},
    "dog": {"brown": 4, "black": 4, "white": 4, "grey": 1, "orange": 1},
    "cat": {"black": 3, "grey": 4, "white": 3, "orange": 3, "brown": 2},
    "bird": {"white": 3, "black": 3, "grey": 2, "brown": 2, "green": 1, "red": 1, "blue": 1},
    "potted plant": {"green": 8, "brown": 1}, "pizza": {"yellow": 2, "red": 2, "brown": 2},
    "sports ball": {"white": 4, "yellow": 3, "orange": 3, "black": 1, "green": 1},
    "teddy bear": {"brown": 6, "white": 3, "pink": 1, "black": 1},
    "keyboard": {"black": 5, "white": 3, "grey": 2}, "laptop": {"grey": 5, "black": 5, "white": 1},
    "tv": {"black": 5, "grey": 2, "blue": 2}, "microwave": {"black": 3, "white": 4, "grey": 3},
    "oven": {"black": 4, "white": 3, "grey": 3}, "refrigerator": {"white": 6, "grey": 4},
    "toilet": {"white": 9, "grey": 1}, "sink": {"white": 5, "grey": 5},
    "donut": {"brown": 5, "pink": 2, "white": 2}, "sandwich": {"brown": 5, "yellow": 2},
    "car": {"black": 3, "white": 4, "grey": 4, "red": 3, "blue": 3, "yellow": 1, "green": 1},
    "dining table": {"brown": 6, "white": 4, "grey": 1, "black": 1},
}  # fmt: skip
_MANY = frozenset(
    "person car bicycle boat bird sheep cow elephant bottle wine-glass cup fork spoon bowl banana"
    " apple orange carrot donut chair potted-plant book kite umbrella skis surfboard".split()
)
_SLENDER = {
    "person": 2.3, "bottle": 2.6, "wine glass": 2.0, "giraffe": 1.6, "traffic light": 2.0,
    "fire hydrant": 1.7, "parking meter": 2.0, "refrigerator": 1.8, "vase": 1.7, "umbrella": 0.8,
    "tie": 2.8, "car": 0.55, "bus": 0.65, "train": 0.5, "truck": 0.65, "airplane": 0.4,
    "boat": 0.6, "bench": 0.55, "couch": 0.5, "bed": 0.6, "dining table": 0.5, "skateboard": 0.4,
    "surfboard": 0.5, "keyboard": 0.4, "horse": 0.85, "cow": 0.75, "sheep": 0.8, "dog": 0.9,
}  # fmt: skip
"""Height over width, where it is not about 1."""


@cache
def noise() -> dict[str, Array]:
    """What was fitted: `size` (80,) mean log10 of a box's share of the picture, and `confused`
    (80, 80), the mean logit of each other class where a class is found."""
    stored = json.loads(Path(__file__).with_name("noise.json").read_text())
    return {name: np.array(stored[name], float) for name in ("size", "confused", "spread")}


@dataclass
class Thing:
    """One thing. boxes: (T, 4) x0 y0 x1 y1 as shares of the frame; there: (T,) bool, inside the
    picture; logit: (T,), what the tower gives its class, -inf where it misses it."""

    label: int
    boxes: Array
    there: NDArray[np.bool_]
    logit: Array
    colour: str
    moves: str = ""
    """Empty: it stands. Else one of WAYS; "?" where its way cannot be named."""
    hidden: bool = False
    """Whether something grey covers it: it counts as absent."""

    @property
    def seen(self) -> bool:
        """Whether it can be told to be there."""
        return not self.hidden and bool((self.logit[self.there] > VISIBLE).any())


@dataclass
class Scene:
    """A simulated clip of T frames. content: x0 y0 x1 y1, where the picture lies in the frame."""

    frames: int
    content: tuple[float, float, float, float]
    things: list[Thing]
    steady: bool
    """Whether the camera stands still."""
    drift: Array = field(default_factory=lambda: np.zeros((1, 2)))
    """(T or 1, 2), how far the camera's turning moves what stands in each frame."""
    false: list[Thing] = field(default_factory=list)
    """What the tower finds and is not there."""

    def present(self) -> dict[int, list[Thing]]:
        """Things by class that are there, seen or not."""
        found: dict[int, list[Thing]] = {}
        for thing in self.things:
            if not thing.hidden:
                found.setdefault(thing.label, []).append(thing)
        return found

    def absent_hidden(self) -> list[int]:
        """Classes that lie behind a cover only."""
        present = self.present()
        return sorted({t.label for t in self.things if t.hidden and t.label not in present})


_ASPECTS = ((16 / 9, 0.45), (9 / 16, 0.2), (4 / 3, 0.18), (1.0, 0.1), (3 / 4, 0.07))


def draw_scene(rng: np.random.Generator, frames: int) -> Scene:
    """A clip at random."""
    aspect = float(rng.choice([a for a, _ in _ASPECTS], p=[p for _, p in _ASPECTS]))
    w, h = (1.0, 1 / aspect) if aspect >= 1 else (aspect, 1.0)
    content = ((1 - w) / 2, (1 - h) / 2, (1 + w) / 2, (1 + h) / 2)
    steady = frames == 1 or rng.random() < 0.7
    followed = _followed(rng, frames) if not steady and rng.random() < 0.5 else None
    drift = np.zeros((frames, 2)) if steady else _drift(rng, frames)
    if followed is not None:
        drift = -followed.path * (w, h) * rng.uniform(0.85, 1.05) + rng.normal(0, 0.01, (frames, 2))
    scene = Scene(frames, content, [], steady, drift)
    for label in _classes(rng):
        many = CLASSES[label].replace(" ", "-") in _MANY
        weights = (0.5, 0.2, 0.13, 0.07, 0.05, 0.05) if many else (0.78, 0.14, 0.05, 0.03, 0, 0)
        n = 1 + int(rng.choice(6, p=weights)) + (int(rng.integers(4)) if rng.random() < 0.03 else 0)
        _add(rng, scene, label, n, followed)
        followed = None
    if rng.random() < 0.3:
        _cover(rng, scene)
    _add_false(rng, scene)
    return scene


def _classes(rng: np.random.Generator) -> list[int]:
    """Classes that stand together, by habit or by chance."""
    alone, likely = habits()
    k = int(rng.choice(6, p=(0.07, 0.33, 0.27, 0.18, 0.1, 0.05)))
    chosen: list[int] = []
    while len(chosen) < k:
        u = rng.random()
        if chosen and u < 0.6:
            label = int(rng.choice(len(CLASSES), p=likely[chosen[int(rng.integers(len(chosen)))]]))
        elif u < 0.75:
            label = int(rng.choice(len(CLASSES), p=alone))
        else:
            label = int(rng.integers(len(CLASSES)))
        if label not in chosen:
            chosen.append(label)
    return chosen


def _drift(rng: np.random.Generator, frames: int) -> Array:
    """A camera that turns: how far all things move in each frame."""
    total = rng.normal(0, 0.18, 2) * (1, 0.4)
    return np.linspace(-0.5, 0.5, frames)[:, None] * total + rng.normal(0, 0.006, (frames, 2))


def _add(
    rng: np.random.Generator, scene: Scene, label: int, n: int, followed: _Motion | None
) -> None:
    """n things of a class, which have much in common and do not lie on each other; the first one
    moves as `followed` says."""
    x0, y0, x1, y1 = scene.content
    name = CLASSES[label]
    log_size = noise()["size"][label] + rng.normal(0, 0.45) - 0.12 * (n - 1)
    colour = _colour(rng, name)
    base = rng.normal(*SURETY)
    together = rng.random() < 0.6
    anchor = rng.uniform(0.15, 0.85, 2)
    motion = followed or _motion(rng, scene.frames)
    for i in range(n):
        if i and rng.random() < 0.35:
            motion = _motion(rng, scene.frames)
        if i and rng.random() < 0.5:
            colour = _colour(rng, name)
        area = float(np.clip(10 ** (log_size + rng.normal(0, 0.18)), 4e-4, 0.85))
        tall = _SLENDER.get(name, 1.0) * np.exp(rng.normal(0, 0.25))
        size = np.sqrt([area / tall, area * tall]) * np.sqrt((x1 - x0) * (y1 - y0))
        size = np.minimum(size, (0.98 * (x1 - x0), 0.98 * (y1 - y0)))
        for _ in range(8):
            spot = rng.uniform(0.05, 0.95, 2)
            if together:
                spot = np.clip(anchor + rng.normal(0, 0.22, 2), 0.05, 0.95)
            middle = np.array([x0, y0]) + spot * (x1 - x0, y1 - y0)
            middle = np.clip(middle, (x0 + 0.4 * size[0], y0 + 0.4 * size[1]),
                             np.maximum((x1 - 0.4 * size[0], y1 - 0.4 * size[1]),
                                        (x0 + 0.4 * size[0], y0 + 0.4 * size[1])))  # fmt: skip
            thing = _thing(rng, scene, label, middle, size, motion, colour, base)
            if not any(_collide(thing, other) for other in scene.things):
                scene.things.append(thing)
                break


@dataclass(frozen=True)
class _Motion:
    way: str
    path: Array
    """(T, 2) shares of the content's sides, added to the middle."""
    growth: Array
    """(T,) factor of the sides."""
    there: NDArray[np.bool_]


def _followed(rng: np.random.Generator, frames: int) -> _Motion:
    """A motion that a camera can follow: to a side, up or down, in the picture all the time."""
    while True:
        motion = _motion(rng, frames)
        if motion.way in WAYS[:4] and motion.there.all():
            return motion


def _motion(rng: np.random.Generator, frames: int) -> _Motion:
    t = np.linspace(-0.5, 0.5, frames) if frames > 1 else np.zeros(1)
    path, growth = np.zeros((frames, 2)), np.ones(frames)
    there = np.ones(frames, bool)
    u, way = rng.random(), ""
    if frames > 1 and u < 0.42:
        far = rng.uniform(0.12, 0.9)
        way = str(rng.choice(["left", "right", "up", "down", "?"], p=(0.36, 0.36, 0.1, 0.1, 0.08)))
        slant = rng.normal(0, 0.15) * far
        step = {"left": (-far, slant), "right": (far, slant), "up": (slant, -far),
                "down": (slant, far)}.get(way)  # fmt: skip
        if step is not None:
            path = _eased(rng, t)[:, None] * step
        else:  # about
            path = np.cumsum(rng.normal(0, 0.09, (frames, 2)), 0)
    elif frames > 1 and u < 0.52:
        way = "towards the camera" if rng.random() < 0.55 else "away from the camera"
        rate = rng.uniform(0.5, 1.4) * (1 if way[0] == "t" else -1)
        growth = np.exp(_eased(rng, t) * rate)
        path = np.stack([t * rng.normal(0, 0.06), t * rng.normal(0, 0.05) + 0.1 * rate * t], -1)
    else:
        path = rng.normal(0, 0.004, (frames, 2))
    if frames > 3 and rng.random() < 0.25:
        cut = int(rng.integers(1, frames - 1))
        u = rng.random()
        there = np.arange(frames) >= cut if u < 0.5 else np.arange(frames) < cut
    return _Motion(way, path, growth, there)


def _eased(rng: np.random.Generator, t: Array) -> Array:
    """Time from -0.5 to 0.5, not quite even."""
    return np.asarray(t + 0.08 * np.sin(2 * np.pi * t) * rng.normal(0, 1))


def _thing(
    rng: np.random.Generator, scene: Scene, label: int, middle: Array, size: Array,
    motion: _Motion, colour: str, base: float,
) -> Thing:  # fmt: skip
    x0, y0, x1, y1 = scene.content
    walked = motion.path * (x1 - x0, y1 - y0)
    centre = middle + walked + scene.drift
    half = size * motion.growth[:, None] / 2
    boxes = np.concatenate([centre - half, centre + half], 1)
    inside = np.clip(boxes, (x0, y0, x0, y0), (x1, y1, x1, y1))
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    left = (inside[:, 2] - inside[:, 0]) * (inside[:, 3] - inside[:, 1])
    shown = left / area
    there = motion.there & (shown > 0.25)
    inside_share = np.maximum(left, 1e-4) / ((x1 - x0) * (y1 - y0))
    surety = base + SLOPE * np.log10(inside_share / 0.05) + rng.normal(0, 0.6)
    surety = surety - 2.5 * (1 - shown) + rng.normal(0, 0.45, scene.frames)
    if rng.random() < P_ODD:  # behind something, blurred, dark or odd
        surety -= rng.exponential(2.2)
    logit = np.where(there, np.minimum(surety, 2.4 + rng.normal(0, 0.3, scene.frames)), -np.inf)
    way = motion.way
    if way and there.any():
        seen = np.flatnonzero(there)
        moved = np.abs(walked[seen[-1]] - walked[seen[0]]).max()
        grown = abs(np.log(motion.growth[seen[-1]] / motion.growth[seen[0]]))
        if way[0] in "ta" and grown < 0.35:
            way = "?"
        elif way[0] not in "ta" and moved < 0.08:
            way = "?"
    return Thing(label, inside, there, logit, colour, way)


def _collide(one: Thing, other: Thing) -> bool:
    """Whether two lie on each other so much that the tower would see one of them."""
    both = one.there & other.there
    if not both.any():
        return False
    a, b = one.boxes[both], other.boxes[both]
    low, high = np.maximum(a[:, :2], b[:, :2]), np.minimum(a[:, 2:], b[:, 2:])
    common = np.prod(np.clip(high - low, 0, None), 1)
    areas = [np.prod(z[:, 2:] - z[:, :2], 1) for z in (a, b)]
    iou = common / np.maximum(areas[0] + areas[1] - common, 1e-9)
    limit = 0.35 if one.label == other.label else 0.6
    return bool((iou > limit).mean() > 0.3)


def _colour(rng: np.random.Generator, name: str) -> str:
    weights = _COLOURS_OF.get(name)
    if weights is None or rng.random() < 0.15:
        return NAMES[int(rng.integers(len(NAMES)))]
    p = np.array(list(weights.values()), float)
    return str(rng.choice(list(weights), p=p / p.sum()))


def _cover(rng: np.random.Generator, scene: Scene) -> None:
    """Grey over all things of a class, or over one: most is lost, at times a trace is left."""
    if not scene.things:
        return
    label = scene.things[int(rng.integers(len(scene.things)))].label
    of_class = [t for t in scene.things if t.label == label]
    chosen = of_class if rng.random() < 0.7 else of_class[:1]
    for thing in chosen:
        thing.hidden = True
        left = rng.normal(-6.0, 1.6) + rng.normal(0, 0.5, scene.frames)
        thing.logit = np.where(thing.there, np.minimum(left, -2.2), -np.inf)
        thing.colour = "grey"


def _add_false(rng: np.random.Generator, scene: Scene) -> None:
    """What is found and is not there: things for which others are taken, and things of nowhere."""
    x0, y0, x1, y1 = scene.content
    for _ in range(int(rng.poisson(FALSE))):
        here = [t.label for t in scene.things]
        label = int(rng.integers(len(CLASSES)))
        u = rng.random()
        if here and u < 0.35:
            label = int(
                np.argsort(-noise()["confused"][here[int(rng.integers(len(here)))]])[
                    int(rng.integers(6))
                ]
            )
        elif u < 0.7:
            label = int(rng.choice(len(CLASSES), p=habits()[0]))
        if label in here:
            continue
        area = float(np.clip(10 ** (noise()["size"][label] + rng.normal(-0.3, 0.5)), 4e-4, 0.6))
        tall = _SLENDER.get(CLASSES[label], 1.0) * np.exp(rng.normal(0, 0.35))
        size = np.minimum(np.sqrt([area / tall, area * tall]), (0.9 * (x1 - x0), 0.9 * (y1 - y0)))
        middle = np.array([rng.uniform(x0, x1), rng.uniform(y0, y1)])
        half = size / 2
        box = np.clip(np.concatenate([middle - half, middle + half]), (x0, y0, x0, y0),
                      (x1, y1, x1, y1))  # fmt: skip
        boxes = np.repeat(box[None], scene.frames, 0) + rng.normal(0, 0.004, (scene.frames, 4))
        often = rng.choice([0.15, 0.5, 0.95])
        there = rng.random(scene.frames) < often
        surety = FLOOR + rng.exponential(1.2) + rng.normal(0, 0.3, scene.frames)
        surety = np.minimum(surety, 0.2 + rng.normal(0, 0.3, scene.frames))
        scene.false.append(
            Thing(label, boxes, there, np.where(there, surety, -np.inf), _colour(rng, ""))
        )
