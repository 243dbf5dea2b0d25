"""What every exported layout is made of: files below one folder, and clips by their seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.clips import FPS, SECONDS, TITLE, write_frames
from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.world import ClipSpec, frame_times, render, sample, sample_labels

SEED, SIZE = 11, 192
CLEAR = (0.5, 0.8)
Rng = np.random.Generator
Json = Any


class Writer:
    """Puts files below one folder, and remembers them."""

    def __init__(self, folder: Path, written: list[Path]) -> None:
        self.folder, self.written = folder, written

    def video(self, name: str, *specs: ClipSpec, seconds: int = SECONDS) -> None:
        """One clip of that length for each spec, one after another in one file."""
        frames = [render(s, frame_times(seconds * FPS), SIZE) for s in specs]
        whole = np.concatenate(frames)
        write_frames(whole, self._path(name), FPS, {"title": TITLE}, preset="veryfast")

    def json(self, name: str, value: Json) -> None:
        """A file of JSON."""
        self._path(name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")

    def lines(self, name: str, records: list[Json]) -> None:
        """A file of JSON, one record a line."""
        text = "".join(json.dumps(r) + "\n" for r in records)
        self._path(name).write_text(text, encoding="utf-8")

    def _path(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.written.append(path)
        return path


def clip_rng(*key: int) -> Rng:
    """The draws of one clip, whatever else is drawn."""
    return np.random.default_rng([SEED, *key])


def clear_spec(rng: Rng, n: int = 2, late: float = 0.0) -> ClipSpec:
    """A clip of n clear objects that its scene suggests."""
    scene = priors().scenes[rng.integers(len(priors().scenes))]
    labels = sample_labels(scene, rng, "consistent", n)
    return sample(rng, scene, labels, weak=1.0, contrast=CLEAR, fog=0.0, late=late)


def one_of(rng: Rng, among: Any) -> Any:
    """One of them, drawn."""
    return list(among)[rng.integers(len(among))]


def absent_from(rng: Rng, spec: ClipSpec, n: int = 1) -> list[str]:
    """Classes that are not in the clip, those that its scene suggests first."""
    p = priors()
    missing = [c for c in p.typical[spec.scene] if c not in spec.labels]
    missing += [c for c in p.classes if c not in spec.labels and c not in missing]
    return [missing[i] for i in range(n)]


def shuffled(rng: Rng, *options: str) -> list[str]:
    """The options in a drawn order."""
    return [options[i] for i in rng.permutation(len(options))]


def wrong_motion(rng: Rng, spec: ClipSpec, label: str) -> str:
    """A motion that is not the object's."""
    return str(one_of(rng, [m for m in priors().motions if m != spec.find(label).motion]))


def moving_question(rng: Rng, spec: ClipSpec) -> tuple[str, str, list[str]]:
    """A question on a motion, its answer, and four options."""
    label = one_of(rng, spec.labels)
    answer = spec.find(label).motion
    others = [m for m in priors().motions if m != answer]
    options = shuffled(rng, answer, *(others[i] for i in rng.permutation(len(others))[:3]))
    return ask.which_way(label), answer, options
