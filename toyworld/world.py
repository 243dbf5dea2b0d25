"""Draws clips of the toy world: first what is in them (`sample`), then how they look (`render`).

A `ClipSpec` is the whole truth about a clip and can be rendered at any size and at any moments;
lengths and positions in it are fractions of the frame side, times are fractions of the clip.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.scenes import MASTER, POOL, backgrounds, enlarge_grain, sprite

Mode = Literal["habit", "flat", "consistent", "breaking"]

_VELOCITY = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1), "still": (0, 0)}
_FOG_GREY = 0.5


@dataclass(frozen=True)
class ObjectSpec:
    """One object: where it starts (its centre), how it moves over the clip, how well it shows."""

    label: str
    size: float
    start: tuple[float, float]
    motion: str
    distance: float = 0.0
    contrast: float = 1.0  # opacity of the sprite: the knob of hallucination
    blurred: bool = False
    flipped: bool = False
    appears: float = 0.0  # when it comes into view, [0, 1]
    hidden: float = 0.0  # share of it, from below, that the scenery hides

    def centres(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """(T, 2) centres at `times` in [0, 1]."""
        step = np.array(_VELOCITY[self.motion], float) * self.distance
        return np.array(self.start) + times[:, None] * step

    def seen(self, times: NDArray[np.float64]) -> NDArray[np.bool_]:
        """(T,) whether it is in view."""
        return times >= self.appears

    def boxes(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """(T, 4) boxes x0 y0 x1 y1 of what shows, in the frame [0, 1]; NaN before it appears."""
        c, half = self.centres(times), self.size / 2
        low = np.array([half, half - self.size * self.hidden])
        boxes = np.concatenate([c - half, c + low], axis=1).clip(0, 1)
        boxes[~self.seen(times)] = np.nan
        return boxes


@dataclass(frozen=True)
class Fog:
    """Grey veil over one object (or a whole frame: `label` None) for a part of the clip.

    The object stays in the truth: the model must fall back on habit, and learns that grey patches,
    such as a counterfactual view has, are something that happens.
    """

    label: str | None
    strength: float
    start: float = 0.0
    end: float = 1.0


@dataclass(frozen=True)
class ClipSpec:
    """The truth about one clip."""

    scene: str
    objects: tuple[ObjectSpec, ...]
    background: int = 0
    mirrored: bool = False
    gain: float = 1.0
    tint: tuple[float, float, float] = (0.0, 0.0, 0.0)
    fogs: tuple[Fog, ...] = field(default=())
    seed: int = 0

    @property
    def labels(self) -> tuple[str, ...]:
        """Classes present, in table order."""
        present = {o.label for o in self.objects}
        return tuple(c for c in priors().classes if c in present)

    def find(self, label: str) -> ObjectSpec:
        """The object of that class; raises StopIteration where there is none."""
        return next(o for o in self.objects if o.label == label)


def frame_times(n: int) -> NDArray[np.float64]:
    """Middles of n equal parts of the clip, in [0, 1]: where an n-frame sampler looks."""
    return (np.arange(n) + 0.5) / n


def sample_labels(
    scene: str, rng: np.random.Generator, mode: Mode = "habit", n: int | None = None
) -> list[str]:
    """Classes for one clip: by habit, evenly, only typical ones, or only atypical ones."""
    p = priors()
    n = n or int(rng.choice([1, 2, 3, 4], p=[0.2, 0.35, 0.3, 0.15]))
    inside, outside = {
        "habit": (1.0, p.p_atypical),
        "flat": (1.0, 1.0),
        "consistent": (1.0, 0.0),
        "breaking": (0.0, 1.0),
    }[mode]
    weight = {c: inside if c in p.typical[scene] else outside for c in p.classes}
    chosen: list[str] = []

    def fits(label: str) -> bool:
        kinds = {p.kind[c] for c in chosen}
        return label not in chosen and (p.kind[label] == "thing" or p.kind[label] not in kinds)

    while len(chosen) < n:
        w = np.array([weight[c] if fits(c) else 0.0 for c in p.classes])
        if not w.any():
            break
        label = p.classes[rng.choice(len(w), p=w / w.sum())]
        chosen.append(label)
        partner = p.partner.get(label)
        if mode == "habit" and partner and len(chosen) < 4 and fits(partner):
            if rng.random() < p.p_partner:
                chosen.append(partner)
    return chosen


def sample(
    rng: np.random.Generator,
    scene: str | None = None,
    labels: list[str] | None = None,
    *,
    mode: Mode = "habit",
    weak: float = 0.4,
    contrast: tuple[float, float] = (0.3, 0.75),
    fog: float = 0.35,
    p_motion: float | None = None,
    motions: dict[str, str] | None = None,
    late: float = 0.0,
    hidden: float = 0.0,
) -> ClipSpec:
    """Draws what is in a clip.

    weak: share of objects drawn small and faint, with `contrast` (opacity) from that range;
    fog: share of clips with a veil; p_motion: probability of the class's usual motion;
    motions: fixes the motion of some classes; late: share of clips whose objects come one after
    another; hidden: share of objects half hidden by the scenery.
    """
    p = priors()
    scene = scene or p.scenes[rng.integers(len(p.scenes))]
    labels = sample_labels(scene, rng, mode) if labels is None else labels
    p_motion = p.p_motion if p_motion is None else p_motion
    objects: list[ObjectSpec] = []
    for label in rng.permutation(labels):
        faint = bool(rng.random() < weak)
        size = rng.uniform(12, 22) / 96 if faint else rng.uniform(22, 32) / 96
        motion = (motions or {}).get(str(label)) or _sample_motion(str(label), p_motion, mode, rng)
        distance = 0.0 if motion == "still" else float(rng.uniform(28, 49) / 96)
        objects.append(
            ObjectSpec(
                label=str(label),
                size=float(size),
                start=_sample_start(size, motion, distance, objects, rng),
                motion=motion,
                distance=distance,
                contrast=float(rng.uniform(*contrast)) if faint else 1.0,
                blurred=faint and bool(rng.random() < 0.33),
                flipped=bool(rng.random() < 0.5),
            )
        )
    if late and len(objects) > 1 and rng.random() < late:
        appears = rng.permutation([0.0, 0.25, 0.5] + [0.0] * (len(objects) - 3))
        objects = [replace(o, appears=float(t)) for o, t in zip(objects, appears, strict=False)]
    if hidden:
        shares = np.where(
            rng.random(len(objects)) < hidden, rng.uniform(0.3, 0.55, len(objects)), 0.0
        )
        objects = [replace(o, hidden=float(h)) for o, h in zip(objects, shares, strict=True)]
    return ClipSpec(
        scene=scene,
        objects=tuple(objects),
        background=int(rng.integers(POOL)),
        mirrored=bool(rng.random() < 0.5),
        gain=float(rng.uniform(0.85, 1.1)),
        tint=tuple(float(x) for x in rng.uniform(-0.04, 0.04, 3)),
        fogs=_sample_fogs(objects, fog, rng),
        seed=int(rng.integers(2**31)),
    )


def _sample_motion(label: str, p_usual: float, mode: Mode, rng: np.random.Generator) -> str:
    p = priors()
    usual = p.usual_motion[label]
    if mode == "breaking":
        others = [m for m in p.motions if m != usual]
        return others[rng.integers(len(others))]
    return usual if rng.random() < p_usual else p.motions[rng.integers(len(p.motions))]


def _sample_start(
    size: float, motion: str, distance: float, others: list[ObjectSpec], rng: np.random.Generator
) -> tuple[float, float]:
    """A start from which the whole path stays inside, far from other objects if possible."""
    low, high = size / 2 + 0.01, 1 - size / 2 - 0.01
    best, best_gap = (0.5, 0.5), -1.0
    for _ in range(8):
        x, y = rng.uniform(low, high, 2)
        if motion == "left":
            x = rng.uniform(min(high, low + distance), high)
        elif motion == "right":
            x = rng.uniform(low, max(low, high - distance))
        elif motion == "up":
            y = rng.uniform(min(high, low + distance), high)
        elif motion == "down":
            y = rng.uniform(low, max(low, high - distance))
        gap = min((np.hypot(x - o.start[0], y - o.start[1]) for o in others), default=1.0)
        if gap > best_gap:
            best, best_gap = (float(x), float(y)), float(gap)
        if gap > 0.31:
            break
    return best


def _sample_fogs(
    objects: list[ObjectSpec], share: float, rng: np.random.Generator
) -> tuple[Fog, ...]:
    if rng.random() >= share:
        return ()
    fogs = []
    for o in objects:
        if rng.random() < 0.5:
            part = [(0.0, 1.0), (0.0, 0.5), (0.5, 1.0)][rng.choice(3, p=[0.7, 0.15, 0.15])]
            strength = float(rng.choice([0.5, 0.75, 1.0], p=[0.25, 0.35, 0.4]))
            fogs.append(Fog(o.label, strength, *part))
    if rng.random() < 0.3:  # a quarter of the clip veiled whole, as a frame mask does
        quarter = rng.integers(4) / 4
        fogs.append(Fog(None, float(rng.choice([0.75, 1.0])), quarter, quarter + 0.25))
    return tuple(fogs)


def render(spec: ClipSpec, times: NDArray[np.float64], size: int = 96) -> NDArray[np.uint8]:
    """The clip at `times` in [0, 1]: (T, size, size, 3) RGB, 0-255."""
    rng = np.random.default_rng(spec.seed)
    base = backgrounds(size)[spec.scene][spec.background]
    base = base[:, ::-1] if spec.mirrored else base
    base = (base * spec.gain + np.array(spec.tint)).astype(np.float32)
    frames = np.repeat(base[None], len(times), 0)
    for o in spec.objects:
        seen = np.flatnonzero(o.seen(times))
        _paste([frames[t] for t in seen], o, o.centres(times[seen]) * size, size)
    for fog in spec.fogs:
        during = (times >= fog.start) & (times < fog.end)
        if fog.label is None:
            veil = np.full((len(times), size, size), fog.strength, np.float32)
        else:
            boxes = np.nan_to_num(spec.find(fog.label).boxes(times), nan=-1.0)
            veil = fog.strength * soft_boxes(boxes * size, size)
        frames[during] += veil[during, ..., None] * (_FOG_GREY - frames[during])
    noise = rng.normal(0, 0.02, (len(times), 96, 96)).astype(np.float32)
    if size != 96:
        noise = np.stack([enlarge_grain(n, size, size == MASTER) for n in noise])
    frames += noise[..., None]
    return (frames.clip(0, 1) * 255).astype(np.uint8)


def _paste(
    frames: list[NDArray[np.float32]], o: ObjectSpec, centres: NDArray[np.float64], size: int
) -> None:
    side = max(2, round(o.size * size))
    picture = sprite(o.label, side, o.flipped)
    if o.blurred:
        picture = cv2.GaussianBlur(picture, (0, 0), 1.2 * size / 96)
    picture = picture * np.float32(o.contrast)
    picture = picture[: max(1, round(side * (1 - o.hidden)))]
    for frame, (cx, cy) in zip(frames, centres, strict=True):
        left, top = round(cx - side / 2), round(cy - side / 2)
        x0, y0, x1, y1 = (
            max(left, 0),
            max(top, 0),
            min(left + side, size),
            min(top + len(picture), size),
        )
        if x1 <= x0 or y1 <= y0:
            continue
        part = picture[y0 - top : y1 - top, x0 - left : x1 - left]
        frame[y0:y1, x0:x1] *= 1 - part[..., 3:]
        frame[y0:y1, x0:x1] += part[..., :3]


def soft_boxes(boxes: NDArray[np.float64], size: int) -> NDArray[np.float32]:
    """(T, 4) pixel boxes -> (T, size, size) boxes with sigmoid edges, grown by 2/96.

    Their edges are those of a counterfactual's masks by default.
    """
    pad, slope = 2 * size / 96, 0.73 * 96 / size
    at = np.arange(size) + 0.5

    def edge(z: NDArray[np.float64]) -> NDArray[np.float64]:
        return 1 / (1 + np.exp(-np.clip(z * slope, -30, 30)))

    x0, y0, x1, y1 = (boxes[:, i, None] for i in range(4))
    across = edge(at - (x0 - pad)) * edge((x1 + pad) - at)
    down = edge(at - (y0 - pad)) * edge((y1 + pad) - at)
    return (down[:, :, None] * across[:, None, :]).astype(np.float32)
