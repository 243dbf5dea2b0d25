"""Questions about drawn clips whose truth and whose habits are both known.

Every clip comes from its own seed, so that clip 7 is the same in a run of ten and of ten thousand.
Every object is small and faint; how faint is the level, which is the knob of hallucination.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import numpy as np

from macd_studio.core.types import LOST, SEEN, Clip, Track
from macd_studio.evals.benchmarks.base import Balance, Item, Kind, Split
from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.clips import FRAMES, drawn_clip
from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.world import ClipSpec, frame_times, sample, sample_labels

DENSE = 16
OPACITY = {"clear": (0.5, 0.7), "middle": (0.3, 0.5), "faint": (0.15, 0.3)}

MOTIONS = priors().motions
YES_NO = ("yes", "no")

Rng = np.random.Generator
Opacity = tuple[float, float]


@dataclass(frozen=True)
class Asked:
    """A question about a clip; the fields are those of `Item`."""

    kind: Kind
    question: str
    truth: str
    prior_answer: str = ""
    about: str = ""
    options: tuple[str, ...] = ()


Maker = Callable[[Rng, int, Opacity], tuple[ClipSpec, list[Asked]]]
"""(random stream, index of the clip, range of opacities) → a clip and its questions"""


def _yes_no(question: str, truth: str, about: str) -> Asked:
    prior_answer = "no" if truth == "yes" else "yes"
    return Asked("yes-no", question, truth, prior_answer, about, YES_NO)


class DrawnBenchmark:
    """Questions about clips that are drawn from a seed of their own each."""

    levels = tuple(OPACITY)
    nouns = priors().classes
    seeds: Mapping[str, int] = MappingProxyType({"choose": 1, "test": 2})

    def __init__(self, name: str, makers: Mapping[str, Maker], balance: Mapping[str, Balance]):
        self.name, self.balance = name, balance
        self._makers = makers
        self.regimes = tuple(makers)
        self._made = lru_cache(maxsize=64)(self._make)

    def items(self, split: Split, n: int) -> list[Item]:
        """See `Benchmark.items`."""
        return [item for regime in self.regimes for item in self._of(regime, split, n)]

    def _of(self, regime: str, split: Split, n: int) -> Iterator[Item]:
        found, index = 0, 0
        while found < n:
            key = f"{split}/{regime}/{index}"
            for which in range(len(self._made(key)[1])):
                found += 1
                yield self.item(key, which)
            index += 1

    def item(self, key: str, which: int = 0) -> Item:
        """One of the questions about the clip of that key, "SPLIT/REGIME/INDEX"."""
        _, regime, index = key.split("/")
        level = self.levels[int(index) % len(self.levels)]
        asked = self._made(key)[1][which]
        return Item(id=f"{key}/{which}", clip=key, regime=regime, level=level, **vars(asked))

    def _make(self, key: str) -> tuple[ClipSpec, list[Asked]]:
        split, regime, index = key.split("/")
        rng = np.random.default_rng([self.seeds[split], self.regimes.index(regime), int(index)])
        level = self.levels[int(index) % len(self.levels)]
        return self._makers[regime](rng, int(index), self.opacity(regime, level))

    def opacity(self, regime: str, level: str) -> Opacity:
        """The range of opacities of what is faint."""
        return OPACITY[level]

    def spec(self, key: str) -> ClipSpec:
        """The whole truth about a clip."""
        return self._made(key)[0]

    def clip(self, key: str) -> Clip:
        """8 frames for the backbone and 16 for the detector, drawn, never through a codec."""
        digest = hashlib.sha256(f"{self.fingerprint()} {key}".encode()).hexdigest()
        return drawn_clip(self.spec(key), key, digest)

    def without(self, key: str, label: str) -> Clip:
        """The clip drawn again without the objects of a class: its true removal."""
        spec = self.spec(key)
        kept = tuple(o for o in spec.objects if o.label != label)
        digest = hashlib.sha256(f"{self.fingerprint()} {key} {label}".encode()).hexdigest()
        return drawn_clip(replace(spec, objects=kept), key, digest)

    def true_tracks(self, key: str) -> tuple[Track, ...]:
        """Boxes as drawn."""
        times = frame_times(FRAMES)
        return tuple(
            Track(
                id=i,
                label=o.label,
                confidence=1.0,
                boxes=o.boxes(times).astype(np.float32),
                state=np.where(o.seen(times), SEEN, LOST).astype(np.int8),
                frames_seen=int(o.seen(frame_times(DENSE)).sum()),
            )
            for i, o in enumerate(self.spec(key).objects, 1)
        )

    def present(self, key: str) -> tuple[str, ...]:
        """See `Benchmark.present`."""
        return self.spec(key).labels

    def fingerprint(self) -> str:
        """Of the files that draw and ask."""
        return _fingerprint()


@lru_cache(maxsize=1)
def _fingerprint() -> str:
    world = Path(ask.__file__).parent
    files = [
        world / f for f in ("priors.toml", "world.py", "scenes.py", "questions.py", "clips.py")
    ]
    digest = hashlib.sha256()
    own = sorted(Path(__file__).parent.glob("toyworld*.py"))
    for file in [*files, *own]:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


class ToyWorld(DrawnBenchmark):
    """Six regimes: as habit has it, and five ways to break a habit.

    None is balanced: which answer is right depends on which habit a regime breaks, so a constant
    added to an answer may help. Those in which none can are in `toyworld_balanced`.
    """

    def __init__(self) -> None:
        makers: dict[str, Maker] = {
            "consistent": _consistent,
            "background": _background,
            "co-occurrence": _co_occurrence,
            "question prior": _question_prior,
            "motion": _motion,
            "captions": _captions,
        }
        super().__init__("toyworld", makers, dict.fromkeys(makers, "unbalanced"))


def _draw(rng: Rng, scene: str, labels: list[str], opacity: Opacity, **how: object) -> ClipSpec:
    usual: dict[str, object] = {"weak": 1.0, "contrast": opacity, "fog": 0.0, "p_motion": 1.0}
    return sample(rng, scene, labels, **usual | how)  # type: ignore[arg-type]


def _scene(rng: Rng) -> str:
    scenes = priors().scenes
    return scenes[rng.integers(len(scenes))]


def _one(rng: Rng, labels: list[str] | tuple[str, ...]) -> str:
    return labels[rng.integers(len(labels))]


def _animal(labels: list[str]) -> list[Asked]:
    found = [c for c in labels if priors().kind[c] == "animal"]
    if not found:
        return []
    options = (*priors().of_kind("animal"), ask.NONE)
    return [Asked("word", ask.which("animal"), found[0], "", found[0], options)]


def _consistent(rng: Rng, index: int, opacity: Opacity) -> tuple[ClipSpec, list[Asked]]:
    """What one expects is there, what one does not is not, and it moves as it usually does."""
    p, scene = priors(), _scene(rng)
    labels = sample_labels(scene, rng, "consistent")
    spec = _draw(rng, scene, labels, opacity)
    absent = [c for c in p.classes if c not in labels and c not in p.typical[scene]]
    there, missing, moved = _one(rng, labels), _one(rng, absent), _one(rng, labels)
    motion = spec.find(moved).motion
    asked: list[Asked] = [
        Asked("yes-no", ask.exists(there), "yes", "yes", there, YES_NO),
        Asked("yes-no", ask.exists(missing), "no", "no", "", YES_NO),
        Asked("word", ask.which_way(moved), motion, motion, moved, MOTIONS),
    ]
    return spec, asked + _animal(labels)


def _background(rng: Rng, index: int, opacity: Opacity) -> tuple[ClipSpec, list[Asked]]:
    """The scene suggests other objects than are there."""
    p, scene = priors(), _scene(rng)
    labels = sample_labels(scene, rng, "breaking")
    spec = _draw(rng, scene, labels, opacity)
    absent = [c for c in p.typical[scene] if c not in labels]
    missing, there = _one(rng, absent), _one(rng, labels)
    asked = [
        _yes_no(ask.exists(missing), "no", ""),
        _yes_no(ask.exists(there), "yes", there),
    ]
    return spec, asked + _animal(labels)


def _co_occurrence(rng: Rng, index: int, opacity: Opacity) -> tuple[ClipSpec, list[Asked]]:
    """One of a pair is there: is the other? Half of the time it is."""
    p = priors()
    head = _one(rng, list(p.partner))
    partner, both = p.partner[head], bool(rng.random() < 0.5)
    scene = _one(rng, [s for s in p.scenes if head in p.typical[s]])
    spec = _draw(rng, scene, [head, partner] if both else [head], opacity)
    truth = "yes" if both else "no"
    about = partner if both else ""
    return spec, [Asked("yes-no", ask.exists(partner), truth, "yes", about, YES_NO)]


def _question_prior(rng: Rng, index: int, opacity: Opacity) -> tuple[ClipSpec, list[Asked]]:
    """The question itself suggests a wrong answer: by presupposing, by order, by asking at all."""
    p, scene = priors(), _scene(rng)
    turn = (index // len(OPACITY)) % 3
    if turn == 0:
        kind = _one(rng, ("animal", "vehicle"))
        labels = [c for c in sample_labels(scene, rng, "consistent", 4) if p.kind[c] != kind][:2]
        spec = _draw(rng, scene, labels, opacity)
        options = (*p.of_kind(kind), ask.NONE)
        return spec, [Asked("word", ask.which(kind), ask.NONE, options=options)]
    if turn == 1:
        labels = sample_labels(scene, rng, "consistent", 2)
        spec = _draw(rng, scene, labels, opacity, late=1.0)
        early, later = sorted(spec.objects, key=lambda o: o.appears)
        question = ask.order(later.label, early.label)
        pair = (later.label, early.label)
        return spec, [Asked("word", question, early.label, later.label, early.label, pair)]
    labels = sample_labels(scene, rng, "consistent", 2)
    spec = _draw(rng, scene, labels, opacity)
    label = _one(rng, labels)
    wrong = _one(rng, [m for m in p.motions if m != spec.find(label).motion])
    return spec, [_yes_no(ask.moves(label, wrong), "no", label)]


def _motion(rng: Rng, index: int, opacity: Opacity) -> tuple[ClipSpec, list[Asked]]:
    """An expected object moves as it never does."""
    p, scene = priors(), _scene(rng)
    labels = sample_labels(scene, rng, "consistent", int(rng.integers(1, 4)))
    label = _one(rng, labels)
    motion = _one(rng, [m for m in p.motions if m != p.usual_motion[label]])
    spec = _draw(rng, scene, labels, opacity, motions={label: motion})
    usual = p.usual_motion[label]
    return spec, [Asked("word", ask.which_way(label), motion, usual, label, MOTIONS)]


def _captions(rng: Rng, index: int, opacity: Opacity) -> tuple[ClipSpec, list[Asked]]:
    """Name everything where other things are usual."""
    scene = _scene(rng)
    labels = sample_labels(scene, rng, "breaking", int(rng.integers(2, 5)))
    spec = _draw(rng, scene, labels, opacity)
    return spec, [Asked("caption", ask.DESCRIBE, ask.caption(spec))]
